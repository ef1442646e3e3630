// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Sample is one reading of a Pod's cgroups on its node.
type Sample struct {
	// Values holds the numbers by file name, in the file's own units, as both
	// cgroup versions call them, and under the common names of [ReadCgroup].
	Values map[string]float64 `json:"values"`
	Error  string             `json:"error,omitempty"`
}

// Unlimited is what cgroup v1 shows for "no limit"; v2's "max" becomes it too.
const Unlimited = 9223372036854771712

// MaxSample bounds one encoded sample, in bytes.
const MaxSample = 64 << 10

// files are what a sample reads; the limits among them are cheap, and may change.
var files = []string{
	// v1
	"memory.usage_in_bytes", "memory.max_usage_in_bytes", "memory.limit_in_bytes", "memory.failcnt", "memory.oom_control",
	"cpuacct.usage", "cpu.cfs_quota_us", "cpu.cfs_period_us",
	// both
	"cpu.stat", "pids.current", "pids.max",
	// v2
	"memory.current", "memory.peak", "memory.max", "memory.events", "cpu.max", "pids.peak",
}

var uidForm = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`)

// ErrNoCgroup means that no cgroup of the Pod was found below the root.
var ErrNoCgroup = errors.New("no cgroup of this Pod")

// FindCgroups returns the folders of a Pod below root (the node's
// /sys/fs/cgroup): one for each v1 controller, or one for v2. It knows the
// names that kubelet's cgroupfs ("pod<uid>") and systemd drivers give.
func FindCgroups(root, uid string) ([]string, error) {
	if !uidForm.MatchString(uid) {
		return nil, fmt.Errorf("looking for a Pod's cgroups: %q is no Pod UID", uid)
	}
	plain, slice := "pod"+uid, "pod"+strings.ReplaceAll(uid, "-", "_")+".slice"
	var found []string
	seen := map[string]bool{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return skip(d) // it went away, or is not ours to read
		}
		if !d.IsDir() {
			return nil
		}
		if d.Name() != plain && !strings.HasSuffix(d.Name(), slice) {
			return nil
		}
		// v1 mounts joint controllers (cpu,cpuacct) under several names; the
		// links among them are not followed, so that each is found once.
		if real, err := filepath.EvalSymlinks(path); err == nil && !seen[real] {
			seen[real] = true
			found = append(found, path)
		}
		return fs.SkipDir
	})
	if err != nil {
		return nil, fmt.Errorf("looking for the cgroups of Pod %s: %w", uid, err)
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("looking below %s for Pod %s: %w", root, uid, ErrNoCgroup)
	}
	return found, nil
}

func skip(d fs.DirEntry) error {
	if d != nil && d.IsDir() {
		return fs.SkipDir
	}
	return nil
}

// ReadCgroup reads a Pod's numbers. A file that is missing is a missing key,
// never zero. Whatever the cgroup version, these keys are there if the kernel
// has them: memory.max_usage_in_bytes and memory.limit_in_bytes (bytes),
// memory.failcnt, memory.oom_kills (tasks of the whole Pod), cpuacct.usage
// (ns), cpu.cfs_quota_us (-1: none), cpu.cfs_period_us, pids.current and
// pids.max.
func ReadCgroup(dirs []string) map[string]float64 {
	v := map[string]float64{}
	for _, dir := range dirs {
		for _, name := range files {
			b, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil {
				continue
			}
			parse(v, name, string(b))
		}
		// v1 counts a kill where the task was, and not above it.
		if kills, ok := sumKills(dir); ok {
			v["memory.oom_kills"] += kills
		}
	}
	normalise(v)
	return v
}

// parse adds what one file says: a number, "max", or lines of "key number",
// which become "file:key".
func parse(v map[string]float64, name, text string) {
	text = strings.TrimSpace(text)
	if name == "cpu.max" {
		quota, period, ok := strings.Cut(text, " ")
		if !ok {
			return
		}
		if put(v, "cpu.cfs_period_us", period); quota == "max" {
			v["cpu.cfs_quota_us"] = -1
		} else {
			put(v, "cpu.cfs_quota_us", quota)
		}
		return
	}
	if !strings.ContainsAny(text, " \n") {
		put(v, name, text)
		return
	}
	for line := range strings.Lines(text) {
		if key, num, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			put(v, name+":"+key, num)
		}
	}
}

func put(v map[string]float64, key, num string) {
	if num == "max" {
		v[key] = Unlimited
		return
	}
	if f, err := strconv.ParseFloat(num, 64); err == nil {
		v[key] = f
	}
}

// normalise gives v2's numbers the names of v1.
func normalise(v map[string]float64) {
	same := func(to, from string, factor float64) {
		if x, ok := v[from]; ok {
			if _, has := v[to]; !has {
				v[to] = x * factor
			}
		}
	}
	same("memory.max_usage_in_bytes", "memory.peak", 1)
	same("memory.usage_in_bytes", "memory.current", 1)
	same("memory.limit_in_bytes", "memory.max", 1)
	same("memory.failcnt", "memory.events:max", 1)
	same("memory.oom_kills", "memory.events:oom_kill", 1)
	same("cpuacct.usage", "cpu.stat:usage_usec", 1000)
}

// sumKills adds up oom_kill of memory.oom_control in the folder and below it.
func sumKills(dir string) (sum float64, ok bool) {
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error { // the walk never fails
		if err != nil {
			return skip(d)
		}
		if d.IsDir() {
			return nil
		}
		if d.Name() == "memory.oom_control" {
			one := map[string]float64{}
			if b, err := os.ReadFile(path); err == nil { //nolint:gosec // below a cgroup folder that was found
				parse(one, "oom", string(b))
			}
			if n, has := one["oom:oom_kill"]; has {
				sum, ok = sum+n, true
			}
		}
		return nil
	})
	return sum, ok
}

// WatchCgroup writes a sample of the Pod's numbers, one JSON document a line,
// at once, every interval, and once more when in ends, which ends it. The
// peaks of what the kernel keeps no peak of are added as "pids.peak" and
// "memory.usage_peak".
func WatchCgroup(ctx context.Context, root, uid string, every time.Duration, in io.Reader, out io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// The reader ends with the input or with the process.
	go func() {
		_, _ = io.Copy(io.Discard, in)
		cancel()
	}()
	enc, w := json.NewEncoder(out), watch{root: root, uid: uid, peaks: map[string]float64{}}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		if err := enc.Encode(w.take()); err != nil {
			return fmt.Errorf("writing a sample: %w", err)
		}
		select {
		case <-ctx.Done():
			if err := enc.Encode(w.take()); err != nil {
				return fmt.Errorf("writing the last sample: %w", err)
			}
			return nil
		case <-tick.C:
		}
	}
}

// watch remembers the folders, which take long to find, and the peaks.
type watch struct {
	root, uid string
	dirs      []string
	peaks     map[string]float64
}

func (w *watch) take() Sample {
	v := ReadCgroup(w.dirs)
	if len(v) == 0 {
		var err error
		if w.dirs, err = FindCgroups(w.root, w.uid); err != nil {
			return Sample{Error: err.Error()}
		}
		v = ReadCgroup(w.dirs)
	}
	for from, to := range map[string]string{"pids.current": "pids.peak", "memory.usage_in_bytes": "memory.usage_peak"} {
		now, ok := v[from]
		if !ok {
			continue
		}
		w.peaks[to] = max(w.peaks[to], now, v[to])
		v[to] = w.peaks[to]
	}
	return Sample{Values: v}
}
