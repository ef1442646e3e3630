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
	"github.com/stockade-dev/stockade/conformance/probe/mountinfo"
	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/verdict"
)

// serviceAccountToken accepts Absent alone. Permission is no denial: a token
// that cannot be read is there all the same, and the next image may run as a
// user that can.
func serviceAccountToken() suite.Scenario {
	return suite.Scenario{
		ID:    "credentials.service-account-token",
		Title: "Find a Kubernetes service account token",
		About: "Reads the path where Kubernetes mounts the token, then searches every writable or mounted place for anything that has the form of a JWT: " +
			"a projected volume can put a token for any audience at any path.",
		Claims: []string{"AS-02", "KG-03", "PG-02"}, Kind: suite.Guarantee, Severity: suite.Critical,
		Techniques: []string{"T1528", "T1552.001"},
		Refs:       []string{"https://kubernetes.io/docs/tasks/configure-pod-container/configure-service-account/", "https://www.rfc-editor.org/rfc/rfc7519"},
		Attack: func(ctx context.Context, _ *probe.Env) []verdict.Step {
			return []verdict.Step{defaultToken(tokenFolder), searchAll(ctx, isToken)}
		},
		Control: suite.ControlSpec{
			At:  suite.Sandbox,
			Act: plantAndSearch,
			Why: "a token-shaped file that the control plants in /tmp of the same sandbox is found by the same reading and the same search",
		},
		Accept:    []verdict.Class{verdict.Absent},
		Timeout:   30 * time.Second, // each file is a round trip out of gVisor
		Witnesses: []suite.Witness{{Name: suite.APIServer, Read: noIdentity}},
		Mutants:   []string{"automount-token", "projected-token", "kode-gopher-automount-token"},
	}
}

// tokenFolder is where the ServiceAccount admission plugin mounts the token.
const tokenFolder = "/var/run/secrets/kubernetes.io/serviceaccount" //nolint:gosec // a path

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
	text, err := os.ReadFile(filepath.Join(folder, "token"))
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

// searchAll searches everything that the table of mounts leads to.
func searchAll(ctx context.Context, wanted func([]byte) bool) verdict.Step {
	mounts, err := mountinfo.Read(mountinfo.Self)
	if err != nil {
		// Without it the mounts below /usr and /dev would not be searched.
		return probe.Failed(searchName, verdict.Unknown, "the table of mounts cannot be read: %v", err)
	}
	points := mountPoints(mounts)
	return search(ctx, roots(points), points, wanted)
}

const searchName = "search for a token elsewhere"

// search walks the places and reports the first wanted string by place and
// digest. What cannot be read of the image's own files is of no concern: its
// passwords and caches are root's in every copy of it. What cannot be read in
// one of the mounts was given to this sandbox, and may be the token.
func search(ctx context.Context, places, mounts []string, wanted func([]byte) bool) verdict.Step {
	seen, found := 0, ""
	var unread []string
	errFull := errors.New("too many files")
	for _, root := range places {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			switch {
			case ctx.Err() != nil:
				return ctx.Err()
			case seen >= maxFiles:
				return errFull
			case err != nil:
				unread = missed(unread, path, err)
				return nil
			case d.IsDir() && path != root && skipped(path):
				return fs.SkipDir
			case !d.Type().IsRegular():
				return nil
			}
			seen++
			text, err := head(path)
			if err != nil {
				unread = missed(unread, path, err)
				return nil
			}
			for _, t := range jwtForm.FindAll(text, -1) {
				if wanted(t) {
					found = path + " holds a token, digest " + probe.Digest(t)
					return fs.SkipAll
				}
			}
			return nil
		})
		if found != "" {
			return probe.Reached(searchName, "%s", found)
		}
		if err != nil {
			return probe.Failed(searchName, verdict.Unknown, "the search of %s stopped after %d files: %v", root, seen, err)
		}
	}
	if seen == 0 {
		return probe.Failed(searchName, verdict.Unknown, "no file was found to search in %s", strings.Join(places, " "))
	}
	if path, mount, given := givenUnread(unread, mounts); given {
		return probe.Failed(searchName, verdict.Permission, "%s cannot be read, and %s was mounted for this sandbox", path, mount)
	}
	return probe.Failed(searchName, verdict.Absent, "%d files in %s hold none; %d of the image's own could not be read", seen, strings.Join(places, " "), len(unread))
}

// missed adds a path that was there and could not be read. Other attacks make
// and remove files meanwhile: what is gone was not missed.
func missed(unread []string, path string, err error) []string {
	if errors.Is(err, fs.ErrNotExist) {
		return unread
	}
	return append(unread, path)
}

// terminationLog is where the hardened template has the kubelet mount its
// termination log: in a folder that is shut to the sandbox, on purpose. The
// kubelet's file is there, so that nothing else can be.
const terminationLog = "/root/termination-log"

// givenUnread returns an unread path that belongs to a mount, or a mount that
// lies behind an unread path.
func givenUnread(unread, mounts []string) (path, mount string, found bool) {
	for _, path := range unread {
		for _, mount := range mounts {
			if mount == "/" || mount == terminationLog {
				continue
			}
			if path == mount || strings.HasPrefix(path, mount+"/") || strings.HasPrefix(mount, path+"/") {
				return path, mount, true
			}
		}
	}
	return "", "", false
}

func head(path string) ([]byte, error) {
	f, err := os.Open(path)
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
func roots(points []string) []string {
	places := []string{"/"}
	for _, p := range points {
		if skipped(p) {
			places = append(places, p)
		}
	}
	return places
}

// mountPoints returns the mounts that can hold files of somebody's: not those that
// the kernel fills itself.
func mountPoints(mounts []mountinfo.Mount) []string {
	var points []string
	for _, m := range mounts {
		switch m.Type {
		case "proc", "sysfs", "devpts", "mqueue", "cgroup", "cgroup2", "devtmpfs", "securityfs", "debugfs", "tracefs", "bpf":
			continue
		}
		// /dev itself is a tmpfs of devices; /proc's masks are tmpfs too.
		if m.Point == "/dev" || strings.HasPrefix(m.Point, "/proc") || strings.HasPrefix(m.Point, "/sys") {
			continue
		}
		points = append(points, m.Point)
	}
	return points
}

// canary has the form of a token, and says in both of its parts that it is
// none. Its third part is the nonce of the control that plants it.
const canary = "eyJhbGciOiJub25lIiwia2lkIjoic3RvY2thZGUifQ.eyJzdWIiOiJzdG9ja2FkZS1jYW5hcnkifQ."

// isToken tells a token from what the control plants beside the attack.
func isToken(t []byte) bool { return !strings.HasPrefix(string(t), canary) }

func plantAndSearch(ctx context.Context, env *probe.Env) []verdict.Step {
	const name = "plant a token"
	dir, planted := filepath.Join(os.TempDir(), "stockade-"+env.Nonce), canary+env.Nonce
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return []verdict.Step{probe.Denied(name, err)}
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a canary that stays harms nobody
	if err := os.WriteFile(filepath.Join(dir, "token"), []byte(planted), 0o600); err != nil {
		return []verdict.Step{probe.Denied(name, err)}
	}
	return []verdict.Step{defaultToken(dir), searchAll(ctx, func(t []byte) bool { return string(t) == planted })}
}
