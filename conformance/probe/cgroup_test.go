// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const uid = "11111111-2222-3333-4444-555555555555"

func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o750))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	return root
}

func v1(t *testing.T) string {
	const pod = "/kubelet/kubepods/burstable/pod" + uid + "/"
	return tree(t, map[string]string{
		"memory" + pod + "memory.limit_in_bytes":          "536870912\n",
		"memory" + pod + "memory.max_usage_in_bytes":      "1000\n",
		"memory" + pod + "memory.failcnt":                 "7\n",
		"memory" + pod + "memory.oom_control":             "oom_kill_disable 0\nunder_oom 0\noom_kill 0\n",
		"memory" + pod + "c1/memory.oom_control":          "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n",
		"cpu,cpuacct" + pod + "cpuacct.usage":             "123456\n",
		"cpu,cpuacct" + pod + "cpu.cfs_quota_us":          "50000\n",
		"cpu,cpuacct" + pod + "cpu.cfs_period_us":         "100000\n",
		"pids" + pod + "pids.current":                     "12\n",
		"pids" + pod + "pids.max":                         "1024\n",
		"pids/kubelet/kubepods/podother/pids.current":     "99\n",
		"memory/kubelet/kubepods/podother/memory.failcnt": "99\n",
	})
}

func v2(t *testing.T) string {
	const pod = "kubepods.slice/kubepods-pod11111111_2222_3333_4444_555555555555.slice/"
	return tree(t, map[string]string{
		pod + "memory.max": "536870912\n", pod + "memory.peak": "1000\n", pod + "memory.current": "900\n",
		pod + "memory.events": "low 0\nhigh 0\nmax 7\noom 2\noom_kill 2\n",
		pod + "cpu.stat":      "usage_usec 123\nuser_usec 1\n", pod + "cpu.max": "50000 100000\n",
		pod + "pids.current": "12\n", pod + "pids.max": "max\n",
	})
}

func TestBothCgroupVersionsGiveTheSameNames(t *testing.T) {
	for name, root := range map[string]string{"v1": v1(t), "v2": v2(t)} {
		t.Run(name, func(t *testing.T) {
			dirs, err := FindCgroups(root, uid)
			require.NoError(t, err)
			v := ReadCgroup(dirs)
			for key, want := range map[string]float64{
				"memory.limit_in_bytes": 512 << 20, "memory.max_usage_in_bytes": 1000, "memory.failcnt": 7, "memory.oom_kills": 2,
				"cpu.cfs_quota_us": 50000, "cpu.cfs_period_us": 100000, "pids.current": 12,
			} {
				assert.InDelta(t, want, v[key], 0, key)
			}
			assert.Contains(t, v, "cpuacct.usage")
			assert.Contains(t, v, "pids.max")
		})
	}
}

func TestAMissingFileIsAMissingKey(t *testing.T) {
	root := tree(t, map[string]string{"pids/pod" + uid + "/pids.current": "3\n"})
	dirs, err := FindCgroups(root, uid)
	require.NoError(t, err)
	v := ReadCgroup(dirs)
	assert.NotContains(t, v, "memory.max_usage_in_bytes")
	assert.NotContains(t, v, "memory.oom_kills")
}

func TestAStrangePodHasNoCgroup(t *testing.T) {
	_, err := FindCgroups(v1(t), "99999999-2222-3333-4444-555555555555")
	require.ErrorIs(t, err, ErrNoCgroup)
	_, err = FindCgroups(v1(t), "../../etc")
	assert.Error(t, err)
}

func TestAWatchSamplesUntilItsInputEnds(t *testing.T) {
	in, end := io.Pipe()
	out, done := &safe{}, make(chan error, 1)
	root := v1(t)
	go func() { done <- WatchCgroup(t.Context(), root, uid, 5*time.Millisecond, in, out) }()
	require.Eventually(t, func() bool { out.mu.Lock(); defer out.mu.Unlock(); return bytes.Count(out.b.Bytes(), []byte("\n")) > 2 }, 5*time.Second, 5*time.Millisecond)
	require.NoError(t, end.Close())
	require.NoError(t, <-done)
	var s Sample
	require.NoError(t, json.NewDecoder(&out.b).Decode(&s))
	assert.InDelta(t, 12, s.Values["pids.peak"], 0)
}
