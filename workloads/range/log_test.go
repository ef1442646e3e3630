// SPDX-License-Identifier: Apache-2.0

package rangehost

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/stockade-dev/stockade/workloads/range/rangeclient"
)

func newTestLog(t *testing.T) (*eventLog, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "range.ndjson")
	l, err := openLog(path, time.Now)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, l.close()) })
	return l, path
}

func TestLogSurvivesAKillWithATornLine(t *testing.T) {
	l, path := newTestLog(t)
	l.append(rangeclient.Event{Service: "udp", Nonces: []string{testNonce}})
	l.append(rangeclient.Event{Service: "syn"})
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.WriteString(`{"seq":3,"ti`)
	require.NoError(t, err)
	require.NoError(t, f.Close())

	again, err := openLog(path, time.Now)
	require.NoError(t, err)
	defer again.close() //nolint:errcheck // test
	assert.NotEqual(t, l.run, again.run)
	assert.EqualValues(t, 3, again.append(rangeclient.Event{Service: "range"}))
	assert.Len(t, again.query(0, "", 10), 3)
	assert.Len(t, again.query(0, testNonce, 10), 1)
	third, err := openLog(path, time.Now)
	require.NoError(t, err, "the torn line must not spoil the file")
	require.NoError(t, third.close())
}

func TestLogRefusesAFileThatWasTamperedWith(t *testing.T) {
	_, path := newTestLog(t)
	require.NoError(t, os.WriteFile(path, []byte("{\"seq\":1,\"service\":\"udp\"}\n{\"seq\":3,\"service\":\"udp\"}\n"), 0o600))
	_, err := openLog(path, time.Now)
	require.ErrorContains(t, err, "event 3 follows event 1")
	assert.ErrorContains(t, err, "move it away")
}

func TestAFloodWithoutNoncesKeepsTheMarkedEvents(t *testing.T) {
	l, _ := newTestLog(t)
	l.plain.max, l.marked.max = 10_000, 10_000
	l.append(rangeclient.Event{Service: "udp", Nonces: []string{testNonce}})
	for range 1000 {
		l.append(rangeclient.Event{Service: "syn"})
	}
	assert.Len(t, l.query(0, testNonce, 10), 1)
	assert.Less(t, len(l.query(0, "", 2000)), 60)
	var h rangeclient.Health
	l.state(&h)
	assert.Zero(t, h.Evicted)
}

func TestEvictionOfMarkedEventsIsSaid(t *testing.T) {
	l, _ := newTestLog(t)
	l.marked.max = 3_000
	for range 100 {
		l.append(rangeclient.Event{Service: "udp", Nonces: []string{testNonce}})
	}
	var h rangeclient.Health
	l.state(&h)
	assert.Greater(t, h.Evicted, uint64(80))
	assert.EqualValues(t, 100, h.Seq)
}

func TestWhatIsNotWrittenIsLost(t *testing.T) {
	l, _ := newTestLog(t)
	l.size = maxFileBytes / 2
	l.append(rangeclient.Event{Service: "syn"})
	h := rangeclient.Health{OK: true}
	l.state(&h)
	assert.EqualValues(t, 1, h.Lost)
	assert.False(t, h.OK)
	assert.Contains(t, h.Problem, "its log is full, with 256 MiB; `stockade up`")
	assert.EqualValues(t, 1, l.append(rangeclient.Event{Service: "udp", Nonces: []string{testNonce}}), "marked events have the other half")
	require.NoError(t, l.file.Close())
	l.append(rangeclient.Event{Service: "udp", Nonces: []string{testNonce}})
	h = rangeclient.Health{OK: true}
	l.state(&h)
	assert.EqualValues(t, 2, h.Lost)
	assert.False(t, h.OK)
}

func TestTextsAreClippedAndNoncesAreNot(t *testing.T) {
	l, _ := newTestLog(t)
	nonces := make([]string, 2*maxNonces+1)
	nonces[2*maxNonces] = testNonce
	assert.EqualValues(t, 3, l.append(rangeclient.Event{Path: strings.Repeat("é", 4000), Nonces: nonces}))
	got := l.query(0, testNonce, 10)
	require.Len(t, got, 1)
	assert.LessOrEqual(t, len(got[0].Path), maxText)
}

func TestQueryMergesInOrderAndPages(t *testing.T) {
	l, _ := newTestLog(t)
	for i := range 10 {
		e := rangeclient.Event{Service: "udp"}
		if i%3 == 0 {
			e.Nonces = []string{testNonce}
		}
		l.append(e)
	}
	page := l.query(2, "", 5)
	require.Len(t, page, 5)
	for i, e := range page {
		assert.EqualValues(t, 3+i, e.Seq)
	}
}

func TestALogThatHasGrownLongIsSetAside(t *testing.T) {
	l, path := newTestLog(t)
	l.append(rangeclient.Event{Service: "udp", Nonces: []string{testNonce}})
	require.NoError(t, os.Truncate(path, asideBytes+1)) // sparse: it takes no space
	again, err := openLog(path, time.Now)
	require.NoError(t, err)
	defer again.close() //nolint:errcheck // test
	assert.EqualValues(t, 1, again.append(rangeclient.Event{Service: "range"}), "it begins anew")
	assert.NotEqual(t, l.run, again.run, "whoever holds a mark of the old one is told")
	info, err := os.Stat(path + asideSuffix)
	require.NoError(t, err)
	assert.EqualValues(t, asideBytes+1, info.Size())
}
