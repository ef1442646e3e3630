// SPDX-License-Identifier: Apache-2.0

package runner

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/stockade-dev/stockade/workloads/runner/wire"
)

// cache is the developer's build cache: with one of their own, tests would
// compile the standard library first.
var cache = sync.OnceValues(func() (string, error) {
	out, err := exec.Command("go", "env", "GOCACHE").Output()
	return strings.TrimSpace(string(out)), err
})

func newRunner(t *testing.T, change func(*Options)) *Runner {
	t.Helper()
	dir, err := cache()
	require.NoError(t, err)
	root := t.TempDir()
	o := Options{App: filepath.Join(root, "app"), Scratch: filepath.Join(root, "tmp"), BuildCache: dir}
	if change != nil {
		change(&o)
	}
	r, err := New(o)
	require.NoError(t, err)
	return r
}

func program(imports, body string) wire.Request {
	return wire.Request{Run: "r", Files: []wire.File{{Path: "main.go", Content: "package main\nimport (" + imports + ")\nfunc main() {" + body + "}\n"}}}
}

// Run takes the runner as a request does, and has one program built and run.
func (r *Runner) Run(ctx context.Context, q wire.Request) (wire.Result, error) {
	turn, err := r.next()
	if err == nil {
		err = r.begin(turn)
	}
	if err != nil {
		return wire.Result{}, err
	}
	defer r.end()
	return r.call(ctx, q)
}

func mustRun(t *testing.T, r *Runner, q wire.Request) wire.Result {
	t.Helper()
	res, err := r.Run(t.Context(), q)
	require.NoError(t, err)
	return res
}

func TestAProgramIsBuiltAndRun(t *testing.T) {
	t.Setenv("STOCKADE_SECRET_OF_THE_RUNNER", "x")
	r := newRunner(t, func(o *Options) { o.ProgramEnv = []string{"GCE_METADATA_HOST=m"} })
	q := program(`"fmt"; "io"; "os"; "strings"`, `in, _ := io.ReadAll(os.Stdin); fmt.Print(string(in), os.Args[1:])
		fmt.Fprint(os.Stderr, strings.Join(os.Environ(), "\n")); os.Exit(7)`)
	q.Args, q.Stdin = []string{"-a", "b c"}, "hello "
	res := mustRun(t, r, q)
	assert.True(t, res.Build.OK, res.Build.Output)
	assert.Equal(t, "hello [-a b c]", res.Stdout)
	assert.Equal(t, 7, res.ExitCode)
	assert.Contains(t, res.Stderr, "GCE_METADATA_HOST=m")
	assert.NotContains(t, res.Stderr, "STOCKADE_SECRET", "nothing of the runner's environment reaches a program")
	assert.Empty(t, res.Violations)
	left, err := os.ReadDir(r.o.Scratch)
	require.NoError(t, err)
	for _, e := range left {
		assert.False(t, strings.HasPrefix(e.Name(), "run-"), "the built program is removed")
	}
}

func TestWhatDoesNotBuildIsNotRun(t *testing.T) {
	r := newRunner(t, nil)
	res := mustRun(t, r, program("", "undefined()"))
	assert.False(t, res.Build.OK)
	assert.False(t, res.Started)
	assert.Equal(t, -1, res.ExitCode)
	assert.Contains(t, res.Build.Output, "undefined: undefined")
	// No module comes from anywhere unless the request says so.
	res = mustRun(t, r, program(`_ "example.com/x"`, ""))
	assert.Contains(t, res.Build.Output, "GOPROXY=off")
}

func TestOnlyWhatPersistsIsThereInTheNextCall(t *testing.T) {
	r := newRunner(t, nil)
	write := program(`"os"`, `for _, f := range []string{"persist/kept", "lost"} { if err := os.WriteFile(f, []byte("x"), 0o600); err != nil { panic(err) } }`)
	assert.Equal(t, 0, mustRun(t, r, write).ExitCode)
	res := mustRun(t, r, program(`"fmt"; "os"`, `for _, f := range []string{"persist/kept", "lost"} { _, err := os.Stat(f); fmt.Println(f, err == nil) }`))
	assert.Equal(t, "persist/kept true\nlost false\n", res.Stdout)
}

func TestWhatAProgramLeftInTheScratchIsGoneInTheNextCall(t *testing.T) {
	r := newRunner(t, nil)
	write := program(`"os"`, `if err := os.WriteFile(os.TempDir()+"/filler", []byte("x"), 0o600); err != nil { panic(err) }`)
	assert.Equal(t, 0, mustRun(t, r, write).ExitCode)
	assert.FileExists(t, filepath.Join(r.o.Scratch, "filler"))
	res := mustRun(t, r, program(`"fmt"; "os"`, `_, err := os.Stat(os.TempDir()+"/filler"); fmt.Print(err == nil)`))
	assert.Equal(t, "false", res.Stdout)
}

// A go command that takes away the folder it was to build into leaves as little room as
// one that finds its disk full.
func TestASandboxWithoutRoomAfterABuildThatFailedTakesNoMore(t *testing.T) {
	res := mustRun(t, newRunner(t, nil), program("", "this is not Go"))
	require.False(t, res.Build.OK, "a program's own fault is none of the disk's")

	path := filepath.Join(t.TempDir(), "go")
	script := "#!/bin/sh\necho no space left on device >&2\nrm -r \"$(dirname \"$3\")\"\nexit 1\n"
	require.NoError(t, os.WriteFile(path, []byte(script), 0o700)) //nolint:gosec // a program
	r := newRunner(t, func(o *Options) { o.Go = path })
	_, err := r.Run(t.Context(), program("", ""))
	require.ErrorIs(t, err, ErrTainted)
}

func TestASandboxInWhichNothingCanBeWrittenTakesNoMore(t *testing.T) {
	r := newRunner(t, nil)
	q := program("", "")
	q.Files = append(q.Files, wire.File{Path: wire.Persist, Content: "x"}) // which no request has
	_, err := r.Run(t.Context(), q)
	require.ErrorIs(t, err, ErrTainted)
	assert.Equal(t, http.StatusGone, serve(r, http.MethodGet, wire.RunPath, "").Code)

	r = newRunner(t, nil)
	require.NoError(t, os.RemoveAll(r.o.Scratch))
	put(t, r.o.Scratch, "a file where the folder was")
	_, err = r.Run(t.Context(), program("", ""))
	require.ErrorIs(t, err, ErrTainted)
}

func TestLimitsAreEnforcedAndNamed(t *testing.T) {
	r := newRunner(t, func(o *Options) { o.MaxOutput = 1000 })

	q := program(`"fmt"; "strings"`, `fmt.Print(strings.Repeat("a", 100000))`)
	res := mustRun(t, r, q)
	assert.Len(t, res.Stdout, 1000)
	assert.True(t, res.StdoutTruncated)
	assert.Equal(t, 0, res.ExitCode, "the program is not broken by it")
	assert.Equal(t, []wire.Violation{wire.Output}, res.Violations)

	q = program("", "for {}")
	q.TimeoutMillis = 100
	start := time.Now()
	res = mustRun(t, r, q)
	assert.Equal(t, []wire.Violation{wire.RunTime}, res.Violations)
	assert.Equal(t, "killed", res.Signal)
	assert.Equal(t, -1, res.ExitCode)
	assert.GreaterOrEqual(t, res.DurationMillis, int64(100))
	assert.Less(t, time.Since(start), 20*time.Second)

	res = mustRun(t, r, program(`"os"; "syscall"`, `syscall.Kill(os.Getpid(), syscall.SIGKILL); select {}`))
	assert.Equal(t, []wire.Violation{wire.Killed}, res.Violations)
}

func TestABuildThatTakesTooLongIsStopped(t *testing.T) {
	r := newRunner(t, func(o *Options) { o.Timeouts.Build = time.Millisecond })
	res := mustRun(t, r, program("", ""))
	assert.False(t, res.Build.OK)
	assert.Equal(t, []wire.Violation{wire.BuildTime}, res.Violations)
}

func TestAChildInTheGroupDoesNotOutliveTheProgram(t *testing.T) {
	r := newRunner(t, func(o *Options) { o.Timeouts.Pipes = 100 * time.Millisecond })
	q := program(`"fmt"; "os"; "os/exec"`, `c := exec.Command("sleep", "60"); c.Stdout = os.Stdout; if err := c.Start(); err != nil { panic(err) }; fmt.Print(c.Process.Pid)`)
	res := mustRun(t, r, q)
	assert.Equal(t, 0, res.ExitCode)
	require.NotEmpty(t, res.Stdout)
	require.Eventually(t, func() bool {
		stat, err := os.ReadFile("/proc/" + res.Stdout + "/stat")
		return err != nil || strings.Contains(string(stat), ") Z ")
	}, 5*time.Second, 10*time.Millisecond)
}

func TestACallThatIsGivenUpEnds(t *testing.T) {
	r := newRunner(t, nil)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	_, err := r.Run(ctx, program("", "for {}"))
	require.Error(t, err)
	// The runner is free again.
	assert.True(t, mustRun(t, r, program("", "")).Started)
}

func TestOneProgramRunsAtATime(t *testing.T) {
	r := newRunner(t, nil)
	require.NoError(t, r.begin(r.turn))
	_, err := r.Run(t.Context(), program("", ""))
	require.ErrorIs(t, err, ErrBusy)
}

// serve comes with the turn where one is needed.
func serve(r *Runner, method, path, body string) *httptest.ResponseRecorder {
	if method == http.MethodPost {
		path += "?" + wire.TurnParam + "=" + r.turn
	}
	w := httptest.NewRecorder()
	r.ServeHTTP(w, httptest.NewRequest(method, path, strings.NewReader(body)))
	return w
}

// A program may reach its own runner, and decide what of a request arrives when.
func TestWhatAProgramHasSentIsNotRunAfterItsEnd(t *testing.T) {
	r := newRunner(t, nil)
	server := httptest.NewServer(r)
	defer server.Close()
	kept := filepath.Join(r.o.App, "of the next call")
	put(t, kept, "x")
	body, err := json.Marshal(program("", ""))
	require.NoError(t, err)

	// Its own run goes on.
	known := r.turn
	require.NoError(t, r.begin(known))
	assert.Equal(t, http.StatusConflict, serve(r, http.MethodGet, wire.RunPath, "").Code, "it learns no turn")
	var conns []net.Conn
	for _, query := range []string{"", "?turn=", "?turn=" + known} {
		c, err := net.Dial("tcp", server.Listener.Addr().String())
		require.NoError(t, err)
		defer c.Close()
		require.NoError(t, c.SetDeadline(time.Now().Add(20*time.Second)))
		_, err = fmt.Fprintf(c, "POST %s%s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n", wire.RunPath, query, len(body))
		require.NoError(t, err)
		conns = append(conns, c)
	}
	r.end()
	// What was held back arrives, by whatever delay.
	for _, c := range conns {
		_, err := fmt.Fprintf(c, "\r\n%s", body)
		require.NoError(t, err)
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		require.NoError(t, err)
		assert.Equal(t, http.StatusConflict, res.StatusCode)
		require.NoError(t, res.Body.Close())
	}
	assert.FileExists(t, kept, "nothing was wiped")

	// Who asks when nothing runs has the turn, once.
	w := serve(r, http.MethodGet, wire.RunPath, "")
	turn, err := wire.ReadTurn(w.Body)
	require.NoError(t, err)
	require.NoError(t, r.begin(turn))
	r.end()
	require.ErrorIs(t, r.begin(turn), ErrBusy)
}

func TestTheRunnerIsTakenBeforeTheRequestIsRead(t *testing.T) {
	r := newRunner(t, nil)
	turn, err := r.next()
	require.NoError(t, err)
	body, write := io.Pipe()
	done := make(chan int)
	go func() {
		w := httptest.NewRecorder()
		r.ServeHTTP(w, httptest.NewRequest(http.MethodPost, wire.RunPath+"?turn="+turn, body))
		done <- w.Code
	}()
	_, err = write.Write([]byte("{")) // it is being read
	require.NoError(t, err)
	assert.Equal(t, http.StatusConflict, serve(r, http.MethodPost, wire.RunPath, "{}").Code)
	require.NoError(t, write.Close())
	assert.Equal(t, http.StatusBadRequest, <-done)
	_, err = r.next()
	require.NoError(t, err, "it is free again")
}

func TestTheServerAnswersInJSON(t *testing.T) {
	r := newRunner(t, nil)
	body, err := json.Marshal(program(`"fmt"`, `fmt.Print("hi")`))
	require.NoError(t, err)
	w := serve(r, http.MethodPost, wire.RunPath, string(body))
	assert.Equal(t, http.StatusOK, w.Code)
	res, err := wire.ReadResult(bytes.NewReader(w.Body.Bytes()), "r")
	require.NoError(t, err)
	assert.Equal(t, "hi", res.Stdout)

	assert.Equal(t, http.StatusBadRequest, serve(r, http.MethodPost, wire.RunPath, "{}").Code)
	assert.Equal(t, http.StatusBadRequest, serve(r, http.MethodPost, wire.RunPath, strings.Repeat(" ", wire.MaxRequest+10)).Code)
	assert.Equal(t, http.StatusOK, serve(r, http.MethodGet, wire.RunPath, "").Code)
	assert.Equal(t, http.StatusNotFound, serve(r, http.MethodDelete, wire.RunPath, "").Code)
	assert.Equal(t, http.StatusNotFound, serve(r, http.MethodGet, "/etc/passwd", "").Code)
	assert.Equal(t, http.StatusOK, serve(r, http.MethodGet, wire.HealthPath, "").Code)
	require.NoError(t, r.begin(r.turn))
	assert.Equal(t, http.StatusConflict, serve(r, http.MethodPost, wire.RunPath, string(body)).Code)
}

func TestASandboxThatCannotBeCleanedTakesNoMore(t *testing.T) {
	r := newRunner(t, nil)
	require.NoError(t, os.RemoveAll(r.o.App))
	put(t, r.o.App, "a file where the folder was")
	body, err := json.Marshal(program("", ""))
	require.NoError(t, err)
	assert.Equal(t, http.StatusGone, serve(r, http.MethodPost, wire.RunPath, string(body)).Code)
	assert.Equal(t, http.StatusServiceUnavailable, serve(r, http.MethodGet, wire.HealthPath, "").Code)
	assert.Equal(t, http.StatusGone, serve(r, http.MethodGet, wire.RunPath, "").Code)
	_, err = r.Run(t.Context(), program("", ""))
	require.ErrorIs(t, err, ErrTainted)
}

func TestTheBuildCacheIsSeededByLinks(t *testing.T) {
	from, root := t.TempDir(), t.TempDir()
	put(t, filepath.Join(from, "0a", "x-a"), "entry")
	put(t, filepath.Join(from, "README"), "x")
	to := filepath.Join(root, "cache")
	for range 2 { // a restarted container finds its own links
		require.NoError(t, seed(from, to))
	}
	text, err := os.ReadFile(filepath.Join(to, "0a", "x-a"))
	require.NoError(t, err)
	assert.Equal(t, "entry", string(text))
	assert.FileExists(t, filepath.Join(to, "trim.txt"))
}

// helperEnv makes this test binary play cmd/runner: only a process that starts
// nothing else may end all that descends from it.
const helperEnv = "STOCKADE_TEST_RUNNER_ROOT"

func TestMain(m *testing.M) {
	if root := os.Getenv(helperEnv); root != "" {
		os.Exit(helper(root))
	}
	os.Exit(m.Run())
}

func helper(root string) int {
	dir, err := cache()
	if err == nil {
		err = Adopt()
	}
	if err != nil {
		return 1
	}
	r, err := New(Options{App: filepath.Join(root, "app"), Scratch: filepath.Join(root, "tmp"), BuildCache: dir, Sweep: true,
		Timeouts: Timeouts{Pipes: 100 * time.Millisecond}})
	if err != nil {
		return 1
	}
	res, err := r.Run(context.Background(), program(`"fmt"; "os"; "os/exec"; "syscall"`, `
		var pids []int
		for range 3 {
			c := exec.Command("sh", "-c", "sleep 60 & sleep 60")
			c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
			c.Stdout = os.Stdout
			if err := c.Start(); err != nil { panic(err) }
			pids = append(pids, c.Process.Pid)
		}
		fmt.Print(pids)`))
	if err != nil {
		return 1
	}
	left, err := descendants(os.Getpid())
	if err != nil {
		return 1
	}
	_ = json.NewEncoder(os.Stdout).Encode(map[string]any{"result": res, "left": len(left)})
	return 0
}

func TestNoProcessOfAProgramOutlivesItEvenOneThatFled(t *testing.T) {
	exe, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), exe)
	cmd.Env = append(os.Environ(), helperEnv+"="+t.TempDir())
	out, err := cmd.Output()
	require.NoError(t, err, "%s", out)
	var got struct {
		Result wire.Result `json:"result"`
		Left   int         `json:"left"`
	}
	require.NoError(t, json.Unmarshal(out, &got))
	assert.Zero(t, got.Left)
	assert.Contains(t, got.Result.Violations, wire.Leftover)
	var a, b, c int
	_, err = fmt.Sscanf(got.Result.Stdout, "[%d %d %d]", &a, &b, &c)
	require.NoError(t, err)
	for _, pid := range []int{a, b, c} {
		assert.NoDirExists(t, fmt.Sprintf("/proc/%d", pid))
	}
}
