// SPDX-License-Identifier: Apache-2.0

package rangehost

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/stockade-dev/stockade/workloads/range/world"
)

// request sends one to a front end and returns the answer.
func request(t *testing.T, s *services, dst, method, host, path string) *http.Response {
	t.Helper()
	c := dial(t, s, dst)
	_, err := fmt.Fprintf(c, "%s %s HTTP/1.1\r\nHost: %s\r\nContent-Length: 32\r\n\r\n%s", method, path, host, testNonce)
	require.NoError(t, err)
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = resp.Body.Close() })
	return resp
}

// The real go command takes a module from the range over TLS, trusting its
// authority as a sandbox does: through a folder of certificates.
func TestTheGoCommandBuildsWithAModuleOfTheRanges(t *testing.T) {
	s := newTestServices(t)
	s.zone.GoProxyHost = "127.0.0.1"
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(func() {
		cancel()
		_ = l.Close()
	})
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go s.serveTCP(ctx, c, netip.MustParseAddrPort("172.18.0.2:40000"), netip.MustParseAddrPort("127.0.0.1:443"))
		}
	}()

	app, trust, cache := t.TempDir(), t.TempDir(), t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(trust, "extra.pem"), s.ca.pem, 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(app, "go.mod"), []byte("module snippet\n\ngo 1.26\n"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(app, "main.go"), []byte(
		"package main\n\nimport \""+world.GoModule+"\"\n\nfunc main() { println(greeting.Hello(\"range\")) }\n"), 0o600))
	cmd := exec.CommandContext(t.Context(), "go", "run", ".")
	cmd.Dir = app
	cmd.Env = append(os.Environ(), "GOPROXY=https://"+l.Addr().String()+"/at/some/path", "GOSUMDB=off", "GONOSUMDB=", "GOPRIVATE=", "GONOPROXY=",
		"GOMODCACHE="+cache, "GOFLAGS=-mod=mod -modcacherw", "GOWORK=off", "GOTOOLCHAIN=local", "SSL_CERT_DIR="+trust)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	assert.Contains(t, string(out), "hello, range")

	asked := map[string]int{}
	for _, e := range s.log.query(0, "", 1000) {
		if e.Service == "http" {
			asked[filepath.Ext(e.Path)] = e.Status
		}
	}
	assert.Equal(t, http.StatusOK, asked[".zip"], "%v", asked)
}

func TestThereIsOneModule(t *testing.T) {
	s := newTestServices(t)
	s.zone.GoProxyHost = "modules.example.com"
	const front = "203.0.113.10:443"
	for path, want := range map[string]int{
		"/" + world.GoModule + "/@v/list":        http.StatusOK,
		"/p/" + world.GoModule + "/@latest":      http.StatusOK,
		"/" + world.GoModule + "/@v/v1.0.0.mod":  http.StatusOK,
		"/" + world.GoModule + "/@v/v9.9.9.info": http.StatusNotFound,
		"/stockade.test/@v/list":                 http.StatusNotFound,
		"/example.com/other/@latest":             http.StatusNotFound,
		"/":                                      http.StatusOK, // it is a place like any other
	} {
		assert.Equal(t, want, request(t, s, front, http.MethodGet, "modules.example.com", path).StatusCode, path)
	}
	assert.Equal(t, http.StatusNotFound, request(t, s, front, http.MethodPut, "modules.example.com", "/"+world.GoModule+"/@v/list").StatusCode)
	resp := request(t, s, front, http.MethodGet, "storage.googleapis.com", "/"+world.GoModule+"/@v/list")
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	assert.Contains(t, string(body), world.Marker, "no other host is a proxy")
	assert.NotEmpty(t, s.log.query(0, testNonce, 100), "what is sent to the proxy is seen as well")
}

func TestOnlyAPerimeterKeepsDataAwayFromAForeignBucket(t *testing.T) {
	s := newTestServices(t)
	s.zone.GoProxyHost = "modules.example.com"
	const shared, restricted, elsewhere = "203.0.113.10:443", "199.36.153.4:443", "203.0.113.66:443"
	sharing := world.SharingHost[:len(world.SharingHost)-1]
	type where struct{ front, host, path string }
	own, foreign := "/"+world.OwnBucket+"/x", "/"+world.ForeignBucket+"/x"
	status := func(w where) int {
		return request(t, s, w.front, http.MethodPut, w.host, w.path).StatusCode
	}
	for w, refused := range map[where]bool{
		{shared, "storage.googleapis.com", own}:         false,
		{shared, "storage.googleapis.com", foreign}:     false,
		{shared, sharing, "/x"}:                         false,
		{shared, "modules.example.com", "/x"}:           false,
		{restricted, "storage.googleapis.com", own}:     false,
		{restricted, "storage.googleapis.com", foreign}: true,
		{restricted, sharing, "/x"}:                     true,
		{elsewhere, "attacker.stockade.test", "/x"}:     false,
	} {
		want := http.StatusOK
		if refused {
			want = http.StatusForbidden
		}
		assert.Equal(t, want, status(w), "%v", w)
	}
	seen := map[int]int{}
	for _, e := range s.log.query(0, testNonce, 1000) {
		if e.Service == "http" {
			seen[e.Status]++
		}
	}
	assert.Equal(t, map[int]int{http.StatusOK: 6, http.StatusForbidden: 2}, seen, "the log tells what was refused")
}
