// SPDX-License-Identifier: Apache-2.0

package credentials

import (
	"context"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/stockade-dev/stockade/conformance/probe"
	"github.com/stockade-dev/stockade/conformance/probe/mountinfo"
	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/verdict"
)

func TestTheFamilyRegisters(t *testing.T) {
	var r suite.Registry
	r.MustAdd(Scenarios()...)
	assert.Len(t, r.All(), 7)
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

// token has the form of one, and is not what the control plants.
const token = "eyJhbGciOiJSUzI1NiIsImtpZCI6IngifQ.eyJzdWIiOiJzdG9ja2FkZS10ZXN0In0.c3RvY2thZGUtdGVzdA"

func TestATokenIsFoundWhereverItLies(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "etc", "passwd"), "root:x:0:0")
	s := search(t.Context(), []string{dir}, nil, isToken)
	assert.Equal(t, verdict.Absent, s.Class, s.Detail)
	// Projected volumes lie in a dated folder behind a symbolic link.
	write(t, filepath.Join(dir, "var", "tokens", "..2026_11_29", "token"), "x "+canary+"00112233445566778899aabbccddeeff "+token+" y")
	require.NoError(t, os.Symlink("..2026_11_29", filepath.Join(dir, "var", "tokens", "..data")))
	s = search(t.Context(), []string{dir}, nil, isToken)
	assert.True(t, s.OK, "a canary before it does not hide it")
	assert.Contains(t, s.Detail, "..2026_11_29/token")
	assert.NotContains(t, s.Detail, token, "a token is reported by its digest")
}

func TestTheAttackDoesNotFindWhatTheControlPlantsBesideIt(t *testing.T) {
	dir := t.TempDir()
	planted := canary + "00112233445566778899aabbccddeeff"
	write(t, filepath.Join(dir, "token"), planted)
	assert.Equal(t, verdict.Absent, search(t.Context(), []string{dir}, nil, isToken).Class)
	assert.True(t, search(t.Context(), []string{dir}, nil, func(t []byte) bool { return string(t) == planted }).OK)
}

func TestASearchThatWasStoppedProvesNothing(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a"), "x")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	assert.False(t, search(ctx, []string{dir}, nil, isToken).Class.IsEvidence())
	assert.False(t, search(t.Context(), []string{t.TempDir()}, nil, isToken).Class.IsEvidence(), "an empty place is no search")
	assert.False(t, search(t.Context(), []string{dir + "/nowhere"}, nil, isToken).Class.IsEvidence())
}

// A Secret that is root's alone: the user of the sandbox cannot read it, and
// that is no proof that there is none.
func TestAMountThatCannotBeReadIsNotAbsent(t *testing.T) {
	mounts := []string{"/", "/tmp", "/etc/creds", "/root/termination-log"}
	for unread, want := range map[string]bool{
		"/etc/creds/..data/token": true,
		"/etc/creds":              true,
		"/etc":                    true, // what is mounted behind it was not seen either
		"/etc/shadow":             false,
		"/etc/creds-of-the-image": false,
		"/root":                   false, // the termination log's own place
	} {
		_, _, given := givenUnread([]string{"/var/cache/ldconfig", unread}, mounts)
		assert.Equal(t, want, given, unread)
	}
	assert.NotContains(t, serviceAccountToken().Accept, verdict.Permission)

	// Not all users of a test are kept out by a mode; a loop of links keeps out
	// everybody, and is no regular file. So the walk's own part is by error.
	assert.Empty(t, missed(nil, "/gone", os.ErrNotExist), "others remove files meanwhile")
	assert.Equal(t, []string{"/shut"}, missed(nil, "/shut", os.ErrPermission))
}

func TestTheSpecSpeaksWhereTheSandboxCouldLie(t *testing.T) {
	pod := func(f suite.PodFacts) suite.Reading {
		f.Phase, f.Declared = "Running", true
		return suite.Reading{Pod: f}
	}
	for name, tc := range map[string]struct {
		got    verdict.Statement
		agrees bool
	}{
		"no volume of concern":  {noIdentity(pod(suite.PodFacts{Volumes: []string{"emptyDir:secret"}})), true},
		"a secret":              {noIdentity(pod(suite.PodFacts{Volumes: []string{"emptyDir:a", "secret:b"}})), false},
		"a folder of the node":  {noIdentity(pod(suite.PodFacts{Volumes: []string{"hostPath:pods"}})), false},
		"a disk":                {noIdentity(pod(suite.PodFacts{Volumes: []string{"persistentVolumeClaim:data"}})), false},
		"certificates":          {noIdentity(pod(suite.PodFacts{Volumes: []string{"configMap:trust"}})), true},
		"a projected volume":    {noIdentity(pod(suite.PodFacts{Volumes: []string{"projected:kube-api-access-x"}})), false},
		"no variable":           {noSecrets(pod(suite.PodFacts{Env: []string{"LANG"}})), true},
		"a variable too many":   {noSecrets(pod(suite.PodFacts{Env: []string{"API_KEY"}})), false},
		"plain arguments":       {noSecrets(pod(suite.PodFacts{Args: []string{"sleep", "infinity"}})), true},
		"a secret argument":     {noSecrets(pod(suite.PodFacts{Args: []string{"sh", "--password=hunter2"}})), false},
		"variables of a Secret": {noSecrets(pod(suite.PodFacts{Env: []string{"HOME"}, EnvFrom: []string{"secret:x"}})), false},
	} {
		assert.True(t, tc.got.Live, name)
		assert.Equal(t, tc.agrees, tc.got.Agrees, "%s: %s", name, tc.got.Detail)
		assert.False(t, tc.got.Breach, name)
		assert.NotContains(t, tc.got.Detail, "hunter2", "a secret is named by its digest")
	}
	assert.False(t, noIdentity(suite.Reading{Pod: suite.PodFacts{Phase: "Running"}}).Live, "a spec that was not read says nothing")
}

func TestWhatOnlyLooksLikeAToken(t *testing.T) {
	for text, want := range map[string]bool{
		token: true,
		canary + "00112233445566778899aabbccddeeff": true,
		"eyJhbGciOiJIUzI1NiJ9.e30.x":                false, // no claims
		"eyJ.eyJ.x":                                 false,
		"a.b.c":                                     false,
		"Bearer " + token + "\n":                    true,
	} {
		assert.Equal(t, want, jwtForm.MatchString(text), text)
	}
}

func TestTheDefaultPathCountsEvenWithoutAToken(t *testing.T) {
	dir := t.TempDir()
	assert.Equal(t, verdict.Absent, defaultToken(filepath.Join(dir, "nowhere")).Class)
	assert.True(t, defaultToken(dir).OK, "the mount alone is a breach")
	write(t, filepath.Join(dir, "token"), token)
	s := defaultToken(dir)
	assert.True(t, s.OK)
	assert.NotContains(t, s.Detail, token)
}

func TestMountsInsideOfSkippedFoldersAreSearched(t *testing.T) {
	points := mountPoints([]mountinfo.Mount{
		{Point: "/", Type: "overlay"}, {Point: "/proc", Type: "proc"}, {Point: "/proc/kcore", Type: "tmpfs"}, {Point: "/dev", Type: "tmpfs"},
		{Point: "/dev/shm", Type: "tmpfs"}, {Point: "/usr/share/keys", Type: "tmpfs"}, {Point: "/tmp", Type: "tmpfs"}, {Point: "/sys/fs/cgroup", Type: "cgroup"},
	})
	assert.Equal(t, []string{"/", "/dev/shm", "/usr/share/keys", "/tmp"}, points)
	assert.Equal(t, []string{"/", "/dev/shm", "/usr/share/keys"}, roots(points))
	assert.True(t, skipped("/usr/bin"))
	assert.False(t, skipped("/usrlocal"))
	assert.False(t, skipped("/var/run"))
}

func TestTheControlFindsWhatItPlantsAndTakesItAway(t *testing.T) {
	if len(os.Getenv("TMPDIR")) == 0 {
		t.Setenv("TMPDIR", t.TempDir())
	}
	const nonce = "0123456789abcdef0123456789abcdef"
	steps := plantProcess(t.Context(), &probe.Env{Nonce: nonce})
	require.Len(t, steps, 2)
	for _, s := range steps {
		assert.True(t, s.OK, "%s: %s", s.Name, s.Detail)
	}
	assert.False(t, arguments("/proc", func(arg string) bool { return arg == plantedArgument+nonce }).OK, "the process has ended")
	// A search of this machine would take long: the cut comes first, and the
	// canary is gone all the same.
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	found := plantAndSearch(ctx, &probe.Env{Nonce: nonce})
	require.Len(t, found, 2)
	assert.True(t, found[0].OK, found[0].Detail)
	assert.False(t, found[1].OK)
	assert.NoDirExists(t, filepath.Join(os.TempDir(), "stockade-"+nonce))
}

func TestTheControlsRunInTheSandboxItself(t *testing.T) {
	for _, s := range []suite.Scenario{serviceAccountToken(), environmentSecrets()} {
		assert.Equal(t, suite.Sandbox, s.Control.At, "%s: another Pod's files say nothing of this one's", s.ID)
	}
}

func TestOnlyTheKnownVariablesAreAllowed(t *testing.T) {
	usual := []string{"PATH=/bin", "HOME=/", "HOSTNAME=x", "LC_ALL=C.UTF-8", "PYTHON_VERSION=3.13", "PYTHONUNBUFFERED=1",
		"KUBERNETES_SERVICE_HOST=10.96.0.1", "KUBERNETES_SERVICE_PORT=443", "KUBERNETES_PORT_443_TCP_ADDR=10.96.0.1"}
	assert.Equal(t, verdict.Absent, variables("read", usual, nil).Class)
	for _, more := range []string{
		"API_KEY=x", "BUDGET_DB_SERVICE_HOST=10.96.3.4", "KUBERNETES_SERVICE_TOKEN=x", "path=x", "GOOGLE_APPLICATION_CREDENTIALS=/x",
		"HOME=ya29.abc", "PYTHON_KEY=AKIAABCDEFGHIJKLMNOP", "TERM=-----BEGIN RSA PRIVATE KEY-----", "USER=" + token,
	} {
		s := variables("read", append(usual, more), nil)
		assert.True(t, s.OK, more)
	}
	assert.NotContains(t, variables("read", []string{"API_KEY=hunter2"}, nil).Detail, "hunter2")
}

func TestAnEnvironmentThatCannotBeReadProvesNothing(t *testing.T) {
	assert.False(t, variables("read", nil, os.ErrClosed).Class.IsEvidence())
	assert.False(t, variables("read", nil, nil).Class.IsEvidence())
	assert.False(t, firstProcess(filepath.Join(t.TempDir(), "environ")).Class.IsEvidence())
}

func TestAFirstProcessThatNobodyMayReadKeepsItsEnvironment(t *testing.T) {
	err := &os.PathError{Op: "open", Path: "/proc/1/environ", Err: syscall.EACCES}
	assert.Equal(t, verdict.Permission, variables("read", nil, err).Class)
}

func TestArgumentsThatHandOverASecret(t *testing.T) {
	for arg, want := range map[string]bool{
		"--password=x": true, "--db-token=x": true, "API_KEY=x": true, "-secret=x": true, "--api-keys=x": true,
		"--password": false, "sleep": false, "--tokenizer=fast": false, "import secrets": false,
		plantedArgument + "0123456789abcdef0123456789abcdef": false, // the control's, beside the attack
	} {
		proc := t.TempDir()
		write(t, filepath.Join(proc, "7", "cmdline"), "app\x00"+arg+"\x00")
		assert.Equal(t, want, arguments(proc, nil).OK, arg)
	}
	assert.False(t, arguments(t.TempDir(), nil).Class.IsEvidence(), "a /proc without processes was not read")
}

func TestTheAliasesAreSplitByFamily(t *testing.T) {
	site := probe.Site{MetadataAlso: []string{"169.254.169.254:8080", "[fd20:ce::254]:80", "[::ffff:169.254.169.254]:80", "nonsense"}}
	assert.Equal(t, []string{"169.254.169.254:8080"}, site.MetadataIPv4())
	assert.Equal(t, []string{"[fd20:ce::254]:80"}, site.MetadataIPv6())
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

func TestTheDefaultPolicyIsAttackedToo(t *testing.T) {
	var seed []string
	for _, s := range Scenarios() {
		if s.Target == "seed" {
			seed = append(seed, s.ID)
			assert.Equal(t, []string{"AS-03"}, s.Claims)
			assert.NotEmpty(t, s.Witnesses, s.ID)
		}
	}
	assert.Equal(t, []string{"credentials.default-policy-metadata", "credentials.default-policy-metadata-ipv6"}, seed)
}
