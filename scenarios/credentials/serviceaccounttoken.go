// SPDX-License-Identifier: Apache-2.0

package credentials

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/stockade-dev/stockade/conformance/probe"
	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/verdict"
)

// serviceAccountToken (CR-01). Absent is the only right answer. Permission is
// none: a token that cannot be read is there all the same, and the next image
// may run as a user that can.
func serviceAccountToken() suite.Scenario {
	return suite.Scenario{
		ID:    "credentials.service-account-token",
		Title: "Find a Kubernetes service account token",
		About: "Reads the path where Kubernetes mounts the token, then searches every writable or mounted place for anything that has the form of a JWT: " +
			"a projected volume can put a token for any audience at any path.",
		Claims: []string{"AS-02", "PG-02"}, Kind: suite.Guarantee, Severity: suite.Critical,
		Techniques: []string{"T1528", "T1552.001"},
		Refs:       []string{"https://kubernetes.io/docs/tasks/configure-pod-container/configure-service-account/", "https://www.rfc-editor.org/rfc/rfc7519"},
		Attack: func(ctx context.Context, _ *probe.Env) []verdict.Step {
			return []verdict.Step{defaultToken(tokenFolder), search(ctx, roots(mountTable()))}
		},
		Control: suite.ControlSpec{
			Act: plantAndSearch,
			Why: "a token-shaped file that the control plants is found by the same reading and the same search",
		},
		Accept:  []verdict.Class{verdict.Absent},
		Timeout: 30 * time.Second, // each file is a round trip out of gVisor
		Mutants: []string{"automount-token", "projected-token"},
	}
}

// tokenFolder is where the ServiceAccount admission plugin mounts the token.
const tokenFolder = "/var/run/secrets/kubernetes.io/serviceaccount"

// Bounds of the search. A sandbox's own files are a few hundred; a search that
// is stopped by a bound has proved nothing and says so.
const (
	maxFiles = 50000
	maxRead  = 64 << 10 // bytes of each file: tokens stand at its beginning
)

// jwtForm is a signed token: two JSON objects in base64url, of which the
// first begins with {" and so with eyJ, and a signature.
var jwtForm = regexp.MustCompile(`eyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}`)

func defaultToken(folder string) verdict.Step {
	const name = "read the token at the default path"
	text, err := os.ReadFile(filepath.Join(folder, "token")) //nolint:gosec // the path is the attack
	if err == nil {
		return probe.Reached(name, "%s/token holds %d bytes, digest %s", folder, len(text), probe.Digest(text))
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return probe.Denied(name, err)
	}
	// The folder alone holds the cluster's CA and the namespace.
	if _, err := os.Stat(folder); err == nil {
		return probe.Reached(name, "%s is mounted, without a token", folder)
	}
	return probe.Failed(name, verdict.Absent, "there is no %s", folder)
}

// search walks the places and reports the first token-shaped string by place
// and digest.
func search(ctx context.Context, places []string) verdict.Step {
	const name = "search for a token elsewhere"
	seen, found, unread := 0, "", 0
	errFull := errors.New("too many files")
	for _, root := range places {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			switch {
			case ctx.Err() != nil:
				return ctx.Err()
			case seen >= maxFiles:
				return errFull
			case err != nil:
				unread++
				return nil
			case d.IsDir() && path != root && skipped(path):
				return fs.SkipDir
			case !d.Type().IsRegular():
				return nil
			}
			seen++
			text, err := head(path)
			if err != nil {
				unread++
				return nil //nolint:nilerr // counted; other files may still be read
			}
			if t := jwtForm.Find(text); t != nil {
				found = path + " holds a token, digest " + probe.Digest(t)
				return fs.SkipAll
			}
			return nil
		})
		if found != "" {
			return probe.Reached(name, "%s", found)
		}
		if err != nil {
			return probe.Failed(name, verdict.Unknown, "the search of %s stopped after %d files: %v", root, seen, err)
		}
	}
	if seen == 0 {
		return probe.Failed(name, verdict.Unknown, "no file was found to search in %s", strings.Join(places, " "))
	}
	return probe.Failed(name, verdict.Absent, "%d files in %s hold none, %d could not be read", seen, strings.Join(places, " "), unread)
}

func head(path string) ([]byte, error) {
	f, err := os.Open(path) //nolint:gosec // the path is the attack
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // it was only read
	return io.ReadAll(io.LimitReader(f, maxRead))
}

// skipped are the kernel's own file systems, where reading may block or never
// end, and the image's programs: what lies in an image is known to everybody
// who can pull it, and is not given to this sandbox.
func skipped(path string) bool {
	for _, p := range []string{"/proc", "/sys", "/dev", "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/boot"} {
		if path == p || strings.HasPrefix(path, p+"/") {
			return true
		}
	}
	return false
}

// roots returns the top folder and every mount that the walk from there would
// skip, because mounts under /usr or /dev are not the image's.
func roots(table string) []string {
	places := []string{"/"}
	for line := range strings.Lines(table) {
		w := strings.Fields(line)
		if len(w) < 3 || !skipped(w[1]) {
			continue
		}
		switch w[2] {
		case "proc", "sysfs", "devpts", "mqueue", "cgroup", "cgroup2", "devtmpfs", "securityfs", "debugfs", "tracefs", "bpf":
			continue
		}
		// /dev itself is a tmpfs of devices; /proc's masks are tmpfs too.
		if w[1] == "/dev" || strings.HasPrefix(w[1], "/proc") || strings.HasPrefix(w[1], "/sys") {
			continue
		}
		places = append(places, w[1])
	}
	return places
}

func mountTable() string {
	b, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return ""
	}
	return string(b)
}

// canary has the form of a token, and says in both of its parts that it is
// none.
const canary = "eyJhbGciOiJub25lIiwia2lkIjoic3RvY2thZGUifQ.eyJzdWIiOiJzdG9ja2FkZS1jYW5hcnkifQ.c3RvY2thZGUtY2FuYXJ5"

func plantAndSearch(ctx context.Context, env *probe.Env) []verdict.Step {
	const name = "plant a token"
	dir := filepath.Join(os.TempDir(), "stockade-"+env.Nonce)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return []verdict.Step{probe.Denied(name, err)}
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a canary that stays harms nobody
	if err := os.WriteFile(filepath.Join(dir, "token"), []byte(canary), 0o600); err != nil {
		return []verdict.Step{probe.Denied(name, err)}
	}
	return []verdict.Step{defaultToken(dir), search(ctx, []string{dir})}
}
