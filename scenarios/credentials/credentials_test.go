// SPDX-License-Identifier: Apache-2.0

package credentials

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/stockade-dev/stockade/conformance/probe"
	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/verdict"
)

func TestTheFamilyRegisters(t *testing.T) {
	var r suite.Registry
	r.MustAdd(Scenarios()...)
	assert.Len(t, r.All(), 5)
	for _, s := range r.All() {
		assert.NotContains(t, s.Accept, verdict.Refused, "%s: a refusal comes from beyond the policy", s.ID)
		assert.NotContains(t, s.Accept, verdict.HTTP403, "%s: a 403 comes from the server itself", s.ID)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
}

func TestATokenIsFoundWhereverItLies(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "etc", "passwd"), "root:x:0:0")
	s := search(t.Context(), []string{dir})
	assert.Equal(t, verdict.Absent, s.Class, s.Detail)
	// Projected volumes lie in a dated folder behind a symbolic link.
	write(t, filepath.Join(dir, "var", "tokens", "..2026_11_29", "token"), "x "+canary+" y")
	require.NoError(t, os.Symlink("..2026_11_29", filepath.Join(dir, "var", "tokens", "..data")))
	s = search(t.Context(), []string{dir})
	assert.True(t, s.OK)
	assert.Contains(t, s.Detail, "..2026_11_29/token")
	assert.NotContains(t, s.Detail, canary, "a token is reported by its digest")
}

func TestASearchThatWasStoppedProvesNothing(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a"), "x")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	assert.False(t, search(ctx, []string{dir}).Class.IsEvidence())
	assert.False(t, search(t.Context(), []string{t.TempDir()}).Class.IsEvidence(), "an empty place is no search")
	assert.False(t, search(t.Context(), []string{dir + "/nowhere"}).Class.IsEvidence())
}

func TestWhatOnlyLooksLikeAToken(t *testing.T) {
	for text, want := range map[string]bool{
		canary:                       true,
		"eyJhbGciOiJIUzI1NiJ9.e30.x": false, // no claims
		"eyJ.eyJ.x":                  false,
		"a.b.c":                      false,
		"Bearer " + canary + "\n":    true,
	} {
		assert.Equal(t, want, jwtForm.MatchString(text), text)
	}
}

func TestTheDefaultPathCountsEvenWithoutAToken(t *testing.T) {
	dir := t.TempDir()
	assert.Equal(t, verdict.Absent, defaultToken(filepath.Join(dir, "nowhere")).Class)
	assert.True(t, defaultToken(dir).OK, "the mount alone is a breach")
	write(t, filepath.Join(dir, "token"), canary)
	s := defaultToken(dir)
	assert.True(t, s.OK)
	assert.NotContains(t, s.Detail, canary)
}

func TestMountsInsideOfSkippedFoldersAreSearched(t *testing.T) {
	table := "none / overlay rw 0 0\nnone /proc proc rw 0 0\nnone /proc/kcore tmpfs rw 0 0\nnone /dev tmpfs rw 0 0\n" +
		"none /dev/shm tmpfs ro 0 0\nnone /usr/share/keys tmpfs ro 0 0\nnone /tmp tmpfs rw 0 0\nnone /sys/fs/cgroup cgroup ro 0 0\n"
	assert.Equal(t, []string{"/", "/dev/shm", "/usr/share/keys"}, roots(table))
	assert.True(t, skipped("/usr/bin"))
	assert.False(t, skipped("/usrlocal"))
	assert.False(t, skipped("/var/run"))
}

func TestTheControlFindsWhatItPlantsAndTakesItAway(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	for name, act := range map[string]probe.Action{"token": plantAndSearch, "variable": plantVariable} {
		steps := act(t.Context(), &probe.Env{Nonce: "0123456789abcdef0123456789abcdef"})
		assert.NotEmpty(t, steps, name)
		for _, s := range steps {
			if s.Name == "read the first process's environment" {
				continue // not to be read by everybody
			}
			assert.True(t, s.OK, "%s: %s: %s", name, s.Name, s.Detail)
		}
	}
	left, err := os.ReadDir(os.TempDir())
	require.NoError(t, err)
	assert.Empty(t, left)
}

func TestOnlyTheKnownVariablesAreAllowed(t *testing.T) {
	usual := []string{"PATH=/bin", "HOME=/", "HOSTNAME=x", "LC_ALL=C.UTF-8", "PYTHON_VERSION=3.13", "PYTHONUNBUFFERED=1",
		"KUBERNETES_SERVICE_HOST=10.96.0.1", "KUBERNETES_SERVICE_PORT=443", "KUBERNETES_PORT_443_TCP_ADDR=10.96.0.1"}
	assert.Equal(t, verdict.Absent, variables("read", usual, nil).Class)
	for _, more := range []string{
		"API_KEY=x", "BUDGET_DB_SERVICE_HOST=10.96.3.4", "KUBERNETES_SERVICE_TOKEN=x", "path=x", "GOOGLE_APPLICATION_CREDENTIALS=/x",
		"HOME=ya29.abc", "PYTHON_KEY=AKIAABCDEFGHIJKLMNOP", "TERM=-----BEGIN RSA PRIVATE KEY-----", "USER=" + canary,
	} {
		s := variables("read", append(usual, more), nil)
		assert.True(t, s.OK, more)
	}
	assert.NotContains(t, variables("read", []string{"API_KEY=hunter2"}, nil).Detail, "hunter2")
}

func TestAnEnvironmentThatCannotBeReadProvesNothing(t *testing.T) {
	assert.False(t, variables("read", nil, os.ErrPermission).Class.IsEvidence())
	assert.False(t, variables("read", nil, nil).Class.IsEvidence())
	assert.False(t, firstProcess(filepath.Join(t.TempDir(), "environ")).Class.IsEvidence())
}

func TestArgumentsThatHandOverASecret(t *testing.T) {
	for arg, want := range map[string]bool{
		"--password=x": true, "--db-token=x": true, "API_KEY=x": true, "-secret=x": true, "--api-keys=x": true,
		"--password": false, "sleep": false, "--tokenizer=fast": false, "import secrets": false,
	} {
		proc := t.TempDir()
		write(t, filepath.Join(proc, "7", "cmdline"), "app\x00"+arg+"\x00")
		assert.Equal(t, want, arguments(proc).OK, arg)
	}
	assert.False(t, arguments(t.TempDir()).Class.IsEvidence(), "a /proc without processes was not read")
}

func TestTheAliasesAreSplitByFamily(t *testing.T) {
	also := []string{"169.254.169.254:8080", "[fd20:ce::254]:80", "[::ffff:169.254.169.254]:80", "nonsense"}
	assert.Equal(t, []string{"169.254.169.254:8080"}, v4(also))
	assert.Equal(t, []string{"[fd20:ce::254]:80"}, v6(probe.Site{MetadataAlso: also}))
}

func TestEveryDoorOfTheMetadataServerIsWatched(t *testing.T) {
	site := probe.Site{Metadata: "169.254.169.254:80", MetadataAlso: []string{"169.254.169.252:988", "[fd20:ce::254]:80"}, NodeIP: "172.30.0.2"}
	for id, want := range map[string][]string{
		"credentials.metadata-token":   {"169.254.169.254:80"},
		"credentials.metadata-ipv6":    {"[fd20:ce::254]:80"},
		"credentials.metadata-aliases": {"169.254.169.252:988", "169.254.169.254:80", "172.30.0.2:988", "172.30.0.2:987"},
	} {
		for _, s := range Scenarios() {
			if s.ID != id {
				continue
			}
			require.Len(t, s.Witnesses, 2, id)
			assert.Equal(t, want, s.Witnesses[1].Flow.To(site), id)
		}
	}
}

func TestASiteWithoutAMetadataServerGivesNoEvidence(t *testing.T) {
	for _, s := range metadataToken().Attack(t.Context(), &probe.Env{}) {
		assert.False(t, s.OK)
		assert.False(t, s.Class.IsEvidence())
	}
}

func TestTheOwnLoopbackIsAbsentAndNotRefused(t *testing.T) {
	// Port 1 is reserved, and free on any machine that runs tests.
	s := loopback(t.Context(), &probe.Env{}, "1")()
	assert.Equal(t, verdict.Absent, s.Class, s.Detail)
}
