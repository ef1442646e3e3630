// SPDX-License-Identifier: Apache-2.0

package runner

import (
	"bytes"
	"context"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/stockade-dev/stockade/infra/progress"
)

var (
	one = Ref{APIVersion: "v1", Kind: "Pod", Namespace: "ns", Name: "one"}
	two = Ref{APIVersion: "v1", Kind: "Pod", Namespace: "ns", Name: "two"}
)

func TestALedgerIsReadBackAsItWasWritten(t *testing.T) {
	dir := t.TempDir()
	l, err := OpenLedger(dir, "run1", "uid")
	require.NoError(t, err)
	require.NoError(t, l.Creating(one))
	require.NoError(t, l.Creating(two))
	require.NoError(t, l.Gone(one))
	b, err := os.ReadFile(filepath.Join(dir, "run1.ndjson"))
	require.NoError(t, err)
	rec, err := ReadLedger(bytes.NewReader(b))
	require.NoError(t, err)
	assert.Equal(t, Record{Run: "run1", Cluster: "uid", Left: []Ref{two}}, rec)
	assert.Equal(t, []Ref{two}, l.Open())
}

func TestALedgerSurvivesAKillInTheMiddleOfALine(t *testing.T) {
	dir := t.TempDir()
	l, err := OpenLedger(dir, "run1", "uid")
	require.NoError(t, err)
	require.NoError(t, l.Creating(one))
	require.NoError(t, l.Creating(two))
	b, err := os.ReadFile(filepath.Join(dir, "run1.ndjson"))
	require.NoError(t, err)
	whole := strings.SplitAfter(string(b), "\n")
	for cut := range len(b) {
		rec, err := ReadLedger(bytes.NewReader(b[:cut]))
		require.NoError(t, err, "cut at %d", cut)
		want := 0
		for n := 1; n < len(whole); n++ {
			if cut >= len(strings.Join(whole[:n+1], "")) && n < 3 {
				want = n
			}
		}
		assert.Len(t, rec.Left, want, "cut at %d", cut)
	}
}

// A file that may not grow is what a full disk is: the write is cut short.
func TestALedgerSurvivesAFullDisk(t *testing.T) {
	dir := t.TempDir()
	l, err := OpenLedger(dir, "run1", "uid")
	require.NoError(t, err)
	path := filepath.Join(dir, "run1.ndjson")
	info, err := os.Stat(path)
	require.NoError(t, err)

	signal.Ignore(unix.SIGXFSZ)
	defer signal.Reset(unix.SIGXFSZ)
	var had unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_FSIZE, &had))
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: uint64(info.Size()) + 20, Max: had.Max}))
	err = l.Creating(one)
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_FSIZE, &had))
	require.Error(t, err)
	assert.Empty(t, l.Open(), "it must not be created, so there is nothing to remove")

	require.NoError(t, l.Creating(two))
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	rec, err := ReadLedger(bytes.NewReader(text))
	require.NoError(t, err, string(text))
	assert.Equal(t, []Ref{two}, rec.Left)
	require.NoError(t, l.Close())
}

func TestAFinishedLedgerIsRemovedAndAnUnfinishedStays(t *testing.T) {
	dir := t.TempDir()
	l, err := OpenLedger(dir, "run1", "uid")
	require.NoError(t, err)
	require.NoError(t, l.Creating(one))
	require.NoError(t, l.Gone(one))
	require.NoError(t, l.Close())
	assert.NoFileExists(t, filepath.Join(dir, "run1.ndjson"))
	l, err = OpenLedger(dir, "run2", "uid")
	require.NoError(t, err)
	require.NoError(t, l.Creating(one))
	require.NoError(t, l.Close())
	assert.FileExists(t, filepath.Join(dir, "run2.ndjson"))
}

// died leaves what a run does that was killed while it made an object.
func died(t *testing.T, dir, run, cluster string, making Ref) {
	t.Helper()
	l, err := OpenLedger(dir, run, cluster)
	require.NoError(t, err)
	require.NoError(t, l.Creating(making))
	require.NoError(t, l.Close()) // the kernel lets go of a killed run's lock likewise
}

func TestCleanupRemovesWhatDeadRunsLeft(t *testing.T) {
	dir, g := t.TempDir(), newGround()
	died(t, dir, "dead", g.cluster, one)
	g.objects[one] = "dead"
	g.objects[two] = "forgotten" // no ledger at all
	var said bytes.Buffer
	residue, err := Cleanup(t.Context(), dir, g, progress.New(&said, func(s string) string { return s }))
	require.NoError(t, err)
	for run, ref := range map[string]Ref{"dead": one, "forgotten": two} {
		assert.Contains(t, said.String(), "removing "+ref.String()+", which the dead run "+run+" left", "it may take a minute")
	}
	assert.Empty(t, residue)
	assert.Empty(t, g.objects)
	assert.NoFileExists(t, filepath.Join(dir, "dead.ndjson"))
}

func TestCleanupLeavesALivingRunAlone(t *testing.T) {
	dir, g := t.TempDir(), newGround()
	l, err := OpenLedger(dir, "alive", g.cluster)
	require.NoError(t, err)
	defer l.Close()
	require.NoError(t, l.Creating(one))
	g.objects[one] = "alive"
	_, err = Cleanup(t.Context(), dir, g, nil)
	require.NoError(t, err)
	assert.Contains(t, g.objects, one)
}

// meanwhile is a cluster in which something happens just before it is listed.
type meanwhile struct {
	*ground
	happens func()
}

func (m meanwhile) Labelled(ctx context.Context) ([]Owned, error) {
	m.happens()
	return m.ground.Labelled(ctx)
}

func TestCleanupLeavesARunAloneThatBeginsMeanwhile(t *testing.T) {
	dir, g := t.TempDir(), newGround()
	var l *Ledger
	_, err := Cleanup(t.Context(), dir, meanwhile{g, func() {
		var err error
		l, err = OpenLedger(dir, "new", g.cluster)
		require.NoError(t, err)
		require.NoError(t, l.Creating(one))
		g.objects[one] = "new"
	}}, nil)
	require.NoError(t, err)
	defer l.Close()
	assert.Contains(t, g.objects, one)
}

func TestCleanupDoesNotTouchWhatIsNotItsOwn(t *testing.T) {
	dir, g := t.TempDir(), newGround()
	died(t, dir, "dead", g.cluster, one)
	died(t, dir, "elsewhere", "another-cluster", two)
	_, err := Cleanup(t.Context(), dir, g, nil)
	require.NoError(t, err)
	assert.FileExists(t, filepath.Join(dir, "elsewhere.ndjson"))
}

func TestTheLedgersOfAClusterThatIsGoneGoToo(t *testing.T) {
	dir, g := t.TempDir(), newGround()
	died(t, dir, "dead", g.cluster, one)
	alive, err := OpenLedger(dir, "alive", g.cluster)
	require.NoError(t, err)
	require.NoError(t, Forget(dir))
	assert.NoFileExists(t, filepath.Join(dir, "dead.ndjson"), "no cleanup of the next cluster would touch it")
	assert.FileExists(t, filepath.Join(dir, "alive.ndjson"))
	require.NoError(t, alive.Close())
	require.NoError(t, Forget(filepath.Join(dir, "never made")))
}

func TestADamagedLedgerIsResidueOnceAndKept(t *testing.T) {
	dir, g := t.TempDir(), newGround()
	died(t, dir, "dead", g.cluster, one)
	path := filepath.Join(dir, "dead.ndjson")
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0o600)
	require.NoError(t, err)
	_, err = f.WriteString("garbage\n")
	require.NoError(t, err)
	require.NoError(t, f.Close())
	g.objects[one] = "dead"
	residue, err := Cleanup(t.Context(), dir, g, nil)
	require.NoError(t, err)
	require.Len(t, residue, 1)
	assert.Contains(t, residue[0], ErrDamaged.Error())
	assert.Contains(t, residue[0], path+".damaged")
	assert.Empty(t, g.objects, "what stood before the damage is removed")
	assert.NoFileExists(t, path)
	assert.FileExists(t, path+".damaged")

	residue, err = Cleanup(t.Context(), dir, g, nil)
	require.NoError(t, err)
	assert.Empty(t, residue, "it was said once, and a person has to look")
}

func TestWhatADamagedLedgerSaidBeforeTheDamageIsRead(t *testing.T) {
	rec, err := ReadLedger(strings.NewReader(`{"op":"open","run":"r","cluster":"u"}
{"op":"create","object":{"apiVersion":"v1","kind":"Pod","namespace":"ns","name":"one"}}
{"op":"fly"}
`))
	require.ErrorIs(t, err, ErrDamaged)
	assert.Equal(t, Record{Run: "r", Cluster: "u", Left: []Ref{one}}, rec)
}

func TestADamagedLedgerIsAnError(t *testing.T) {
	for _, text := range []string{"garbage\n", `{"op":"create"}` + "\n", `{"op":"fly"}` + "\n", strings.Repeat("x", maxLedgerLine+1) + "\n"} {
		_, err := ReadLedger(strings.NewReader(text))
		assert.ErrorIs(t, err, ErrDamaged, "%.20q", text)
	}
}

func FuzzReadLedger(f *testing.F) {
	f.Add([]byte(`{"op":"open","run":"r","cluster":"u"}` + "\n" + `{"op":"create","object":{"kind":"Pod","name":"a"}}` + "\n"))
	f.Add([]byte("garbage"))
	f.Fuzz(func(t *testing.T, b []byte) {
		rec, _ := ReadLedger(bytes.NewReader(b))
		assert.LessOrEqual(t, len(rec.Left), maxLedger)
	})
}
