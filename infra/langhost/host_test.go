// SPDX-License-Identifier: Apache-2.0

package langhost

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	pulumirpc "github.com/pulumi/pulumi/sdk/v3/proto/go"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/structpb"
)

// program is the variable that makes this test binary play a Pulumi program.
const program = "LANGHOST_TEST_PROGRAM"

func TestMain(m *testing.M) {
	switch os.Getenv(program) {
	case "":
		os.Exit(m.Run())
	case "environment":
		env := map[string]string{}
		for _, kv := range os.Environ() {
			if k, v, _ := strings.Cut(kv, "="); strings.HasPrefix(k, "PULUMI_") {
				env[k] = v
			}
		}
		env["args"] = strings.Join(os.Args[1:], " ")
		env["dir"], _ = os.Getwd()
		_ = json.NewEncoder(os.Stdout).Encode(env)
	case "fail":
		fmt.Fprintln(os.Stderr, "no such region")
		os.Exit(1)
	case "bail":
		os.Exit(32)
	case "hang", "stubborn":
		if os.Getenv(program) == "stubborn" {
			signal.Ignore(syscall.SIGTERM)
		}
		fmt.Println("ready")
		<-time.After(time.Minute)
	}
}

// request asks to run this test binary as a program that plays the part.
func request(t *testing.T, part string) *pulumirpc.RunRequest {
	t.Helper()
	t.Setenv(program, part)
	self, err := os.Executable()
	require.NoError(t, err)
	options, err := structpb.NewStruct(map[string]any{"binary": filepath.Base(self)})
	require.NoError(t, err)
	return &pulumirpc.RunRequest{
		Pwd:  t.TempDir(),
		Info: &pulumirpc.ProgramInfo{RootDirectory: filepath.Dir(self), Options: options},
	}
}

// buffer may be read while a program writes to it.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func TestTheProgramLearnsWhatTheEngineAsksFor(t *testing.T) {
	var out buffer
	h := newHost(t.Context(), "127.0.0.1:1", &out, io.Discard)
	r := request(t, "environment")
	r.Organization, r.Project, r.Stack, r.DryRun, r.Parallel, r.MonitorAddress = "organization", "stockade", "dev", true, 7, "127.0.0.1:2"
	r.Config, r.ConfigSecretKeys = map[string]string{"stockade:region": "europe-west4"}, []string{"stockade:token"}
	r.Args = []string{"a", "b"}
	answer, err := h.Run(t.Context(), r)
	require.NoError(t, err)
	assert.Empty(t, answer.GetError())
	assert.False(t, answer.GetBail())

	var env map[string]string
	require.NoError(t, json.Unmarshal([]byte(out.String()), &env))
	for key, want := range map[string]string{
		"PULUMI_ORGANIZATION": "organization", "PULUMI_PROJECT": "stockade", "PULUMI_STACK": "dev", "PULUMI_DRY_RUN": "true",
		"PULUMI_PARALLEL": "7", "PULUMI_MONITOR": "127.0.0.1:2", "PULUMI_ENGINE": "127.0.0.1:1",
		"PULUMI_CONFIG": `{"stockade:region":"europe-west4"}`, "PULUMI_CONFIG_SECRET_KEYS": `["stockade:token"]`,
		"PULUMI_ROOT_DIRECTORY": r.GetInfo().GetRootDirectory(), "args": "a b", "dir": r.GetPwd(),
	} {
		assert.Equal(t, want, env[key], key)
	}
}

func TestWhatTheProgramSaysReachesTheEngine(t *testing.T) {
	var diag buffer
	h := newHost(t.Context(), "", io.Discard, &diag)
	answer, err := h.Run(t.Context(), request(t, "fail"))
	require.NoError(t, err)
	assert.Equal(t, "no such region\n", diag.String())
	assert.Contains(t, answer.GetError(), "exit status 1")
	assert.False(t, answer.GetBail())
}

func TestAProgramThatHasSaidWhyItFailedIsNotQuotedTwice(t *testing.T) {
	h := newHost(t.Context(), "", io.Discard, io.Discard)
	answer, err := h.Run(t.Context(), request(t, "bail"))
	require.NoError(t, err)
	assert.True(t, answer.GetBail())
	assert.Empty(t, answer.GetError())
}

func TestACancelledProgramIsEnded(t *testing.T) {
	for part, cancel := range map[string]func(*host, context.CancelFunc){
		"hang":     func(h *host, _ context.CancelFunc) { _, _ = h.Cancel(context.Background(), nil) },
		"stubborn": func(_ *host, stop context.CancelFunc) { stop() },
	} {
		t.Run(part, func(t *testing.T) {
			var out buffer
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			h := newHost(t.Context(), "", &out, io.Discard)
			r := request(t, part)
			done := make(chan error, 1)
			go func() {
				_, err := h.Run(ctx, r)
				done <- err
			}()
			require.Eventually(t, func() bool { return out.String() == "ready\n" }, 20*time.Second, 10*time.Millisecond)
			cancel(h, stop)
			select {
			case err := <-done:
				assert.Equal(t, codes.Canceled, status.Code(err))
			case <-time.After(4 * killGrace):
				t.Fatal("the program goes on")
			}
		})
	}
}

func TestAProgramThatIsNotThereIsToldHowToBuild(t *testing.T) {
	h := newHost(t.Context(), "", io.Discard, io.Discard)
	r := request(t, "environment")
	r.Info.Options.Fields["binary"] = structpb.NewStringValue("bin/none")
	answer, err := h.Run(t.Context(), r)
	require.NoError(t, err)
	assert.Contains(t, answer.GetError(), "make pulumi")

	r.Info.Options.Fields["binary"] = structpb.NewStringValue(t.TempDir())
	answer, err = h.Run(t.Context(), r)
	require.NoError(t, err)
	assert.Contains(t, answer.GetError(), "make pulumi", "a folder is no program")

	r.Info.Options = nil
	answer, err = h.Run(t.Context(), r)
	require.NoError(t, err)
	assert.Contains(t, answer.GetError(), "runtime.options.binary")

	file := filepath.Join(t.TempDir(), "text")
	require.NoError(t, os.WriteFile(file, []byte("not a program"), 0o644))
	r = request(t, "environment")
	r.Info.Options.Fields["binary"] = structpb.NewStringValue(file)
	answer, err = h.Run(t.Context(), r)
	require.NoError(t, err)
	assert.Contains(t, answer.GetError(), "starting the program")
}

func TestTheEngineFindsTheHostByItsFirstLine(t *testing.T) {
	out, port := io.Pipe()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	done := make(chan error, 1)
	// As the engine does where it writes logs.
	args := []string{"--logtostderr", "-v=9", "--tracing", "file:trace", "127.0.0.1:1"}
	go func() { done <- Serve(ctx, args, port, io.Discard) }()
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)

	conn, err := grpc.NewClient("127.0.0.1:"+strings.TrimSpace(line), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	client := pulumirpc.NewLanguageRuntimeClient(conn)
	_, err = client.Handshake(ctx, &pulumirpc.LanguageHandshakeRequest{EngineAddress: "127.0.0.1:2"})
	require.NoError(t, err)
	_, err = client.GetPluginInfo(ctx, &emptypb.Empty{})
	require.NoError(t, err)
	packages, err := client.GetRequiredPackages(ctx, &pulumirpc.GetRequiredPackagesRequest{})
	require.NoError(t, err)
	assert.Empty(t, packages.GetPackages())
	_, err = client.About(ctx, &pulumirpc.AboutRequest{})
	assert.Equal(t, codes.Unimplemented, status.Code(err))
	require.NoError(t, conn.Close())

	stop()
	select {
	case err := <-done:
		assert.NoError(t, err)
	case <-time.After(10 * time.Second):
		t.Fatal("the host goes on without its engine")
	}
}

func TestArgumentsThatAreNotTheEnginesAreRefused(t *testing.T) {
	for _, args := range [][]string{{"--nonsense"}, {"127.0.0.1:1", "127.0.0.1:2"}} {
		assert.ErrorContains(t, Serve(t.Context(), args, io.Discard, io.Discard), "reading the arguments")
	}
}
