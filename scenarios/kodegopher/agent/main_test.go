// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestWhatIsPlantedIsFoundWherever(t *testing.T) {
	root := t.TempDir()
	require.True(t, do(order{Do: "plant", Path: filepath.Join(root, "a", "b"), Text: "canary-1"}).OK)
	require.True(t, do(order{Do: "plant", Path: filepath.Join(root, "name-canary-1"), Text: "x"}).OK)
	require.True(t, do(order{Do: "plant", Path: filepath.Join(root, "locked", "c"), Text: "canary-1"}).OK)
	require.True(t, do(order{Do: "lock", Path: filepath.Join(root, "locked")}).OK)
	require.NoError(t, os.Symlink("/", filepath.Join(root, "link")))
	var found []string
	walk(root, func(path string, regular bool) {
		if strings.Contains(filepath.Base(path), "canary-1") || regular && contains(path, "canary-1") {
			found = append(found, strings.TrimPrefix(path, root))
		}
	})
	assert.Equal(t, []string{"/a/b", "/locked/c", "/name-canary-1"}, found, "through no link, and into what is locked")
	got := do(order{Do: "read", Path: filepath.Join(root, "a", "b")})
	assert.Equal(t, outcome{OK: true, Text: "canary-1"}, got)
	assert.Equal(t, "absent", do(order{Do: "read", Path: filepath.Join(root, "none")}).Denial)
	assert.False(t, do(order{Do: "nonsense"}).OK)
}

func TestARequestGoesOutAsOrdered(t *testing.T) {
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Metadata-Flavor") != "Google" {
			http.Error(w, "no", http.StatusForbidden)
			return
		}
		_, _ = fmt.Fprintf(w, "%s %s", r.Method, r.URL.Path)
	}))
	defer up.Close()
	t.Setenv("PLACE", strings.TrimPrefix(up.URL, "http://"))
	got := do(order{Do: "ask", Address: "$PLACE", Path: "/x", Header: []string{"Metadata-Flavor: Google"}, Method: http.MethodPost})
	assert.Equal(t, outcome{OK: true, Code: 200, Text: "POST /x"}, got)
	got = do(order{Do: "ask", Address: "$PLACE", Path: "/x"})
	assert.False(t, got.OK)
	assert.Equal(t, 403, got.Code)
	assert.True(t, do(order{Do: "dial", Address: "$PLACE"}).OK)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	assert.Equal(t, "refused", do(order{Do: "dial", Address: l.Addr().String()}).Denial)
	up.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		c, _, err := http.NewResponseController(w).Hijack()
		if err == nil {
			_, _ = c.Write([]byte("\x00\xff nonsense"))
			_ = c.Close()
		}
	})
	assert.Equal(t, outcome{Text: "no HTTP answer"}, do(order{Do: "ask", Address: "$PLACE", Path: "/"}))
}

func TestKeysAreKnownByTheirForm(t *testing.T) {
	for text, want := range map[string]bool{
		"-----BEGIN PRIVATE " + "KEY-----":      true,
		`{"refresh` + `_token": "x"}`:           true,
		"ya" + "29.x":                           true,
		"x ey" + "JhbGciOiJ9.ey" + "Jhdr.sig":   true,
		"-----BEGIN CERTIFICATE-----":           false,
		"ey" + "J alone, and another .ey" + "J": false,
		"":                                      false,
	} {
		assert.Equal(t, want, secret(text), text)
	}
	text, err := os.ReadFile("main.go")
	require.NoError(t, err)
	assert.False(t, secret(string(text)), "the agent's own text lies where it searches")
}

func TestAProcessThatIsLeftBehindWritesDownWhatItGot(t *testing.T) {
	up := httptest.NewServer(http.NotFoundHandler())
	defer up.Close()
	late := filepath.Join(t.TempDir(), "late")
	t.Setenv("LINGER", fmt.Sprintf(`{"do":"linger","address":%q,"path":"/","text":%q}`, strings.TrimPrefix(up.URL, "http://"), late))
	go linger() // it ends with the test's process, or by itself
	require.Eventually(t, func() bool {
		text, err := os.ReadFile(late)
		return err == nil && strings.Contains(string(text), " 404\n")
	}, 10*time.Second, 10*time.Millisecond)
}

func TestAFileIsPlantedAgainByAProcessThatIsLeftBehind(t *testing.T) {
	path := filepath.Join(t.TempDir(), "again")
	t.Setenv("LINGER", fmt.Sprintf(`{"do":"replant","path":%q,"text":"canary"}`, path))
	go linger() // it ends with the test's process, or by itself
	there := func() bool {
		text, err := os.ReadFile(path)
		return err == nil && string(text) == "canary"
	}
	require.Eventually(t, there, 10*time.Second, 10*time.Millisecond)
	require.NoError(t, os.Remove(path))
	require.Eventually(t, there, 10*time.Second, 10*time.Millisecond)
}

func TestACacheIsSearchedAtItsFirstLevel(t *testing.T) {
	root := t.TempDir()
	before := caches
	caches = []string{filepath.Join(root, "cache")}
	t.Cleanup(func() { caches = before })
	for _, path := range []string{"cache/canary", "cache/00/canary", "other/00/canary"} {
		require.True(t, do(order{Do: "plant", Path: filepath.Join(root, path), Text: "x"}).OK)
	}
	var found []string
	walk(root, func(path string, _ bool) {
		if filepath.Base(path) == "canary" {
			found = append(found, strings.TrimPrefix(path, root))
		}
	})
	assert.Equal(t, []string{"/cache/canary", "/other/00/canary"}, found)
}
