// SPDX-License-Identifier: Apache-2.0

package langhost

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/pulumi/pulumi/sdk/v3/go/common/constant"
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"
	pulumirpc "github.com/pulumi/pulumi/sdk/v3/proto/go"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"
)

// killGrace is how long a program may take to end after SIGTERM. It is less than
// what the engine gives this process.
const killGrace = 3 * time.Second

// host implements the part of the protocol that running a program takes. The
// rest, generating code and installing dependencies, is answered by
// Unimplemented, which the engine takes for "there is nothing to do".
type host struct {
	pulumirpc.UnimplementedLanguageRuntimeServer

	engine         string // address of the engine's gRPC server
	stdout, stderr io.Writer

	ctx    context.Context
	cancel context.CancelFunc
}

func newHost(ctx context.Context, engine string, stdout, stderr io.Writer) *host {
	h := &host{engine: engine, stdout: stdout, stderr: stderr}
	h.ctx, h.cancel = context.WithCancel(ctx)
	return h
}

// Handshake is the engine's first call where it attaches to a running host.
func (h *host) Handshake(_ context.Context, r *pulumirpc.LanguageHandshakeRequest) (*pulumirpc.LanguageHandshakeResponse, error) {
	h.engine = r.GetEngineAddress()
	return &pulumirpc.LanguageHandshakeResponse{}, nil
}

// GetPluginInfo names no version: this host comes with the program it runs.
func (h *host) GetPluginInfo(context.Context, *emptypb.Empty) (*pulumirpc.PluginInfo, error) {
	return &pulumirpc.PluginInfo{}, nil
}

// GetRequiredPackages names none: what a program needs is found when it registers
// the first resource of a package, and nothing is downloaded ahead of that.
func (h *host) GetRequiredPackages(context.Context, *pulumirpc.GetRequiredPackagesRequest) (*pulumirpc.GetRequiredPackagesResponse, error) {
	return &pulumirpc.GetRequiredPackagesResponse{}, nil
}

// GetRequiredPlugins is what older engines ask instead.
func (h *host) GetRequiredPlugins(context.Context, *pulumirpc.GetRequiredPluginsRequest) (*pulumirpc.GetRequiredPluginsResponse, error) {
	return &pulumirpc.GetRequiredPluginsResponse{}, nil
}

// Cancel ends every program that runs, and those to come.
func (h *host) Cancel(context.Context, *emptypb.Empty) (*emptypb.Empty, error) {
	h.cancel()
	return &emptypb.Empty{}, nil
}

// Run runs the program until it ends. A program that failed is no error of the
// call: the response says so, in words, or only "bail" where the program has
// told the engine why.
func (h *host) Run(ctx context.Context, r *pulumirpc.RunRequest) (*pulumirpc.RunResponse, error) {
	program, err := binary(r.GetInfo())
	if err != nil {
		return &pulumirpc.RunResponse{Error: err.Error()}, nil
	}
	env, err := h.environment(r)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(h.ctx, cancel)()

	cmd := exec.CommandContext(ctx, program, r.GetArgs()...)
	cmd.Dir = r.GetPwd()
	cmd.Env = append(os.Environ(), env...)
	// The engine reads this process's streams and shows them line by line. No
	// process group of its own: the engine ends this one's, and the program
	// must not outlive it.
	cmd.Stdout, cmd.Stderr = h.stdout, h.stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = killGrace
	err = cmd.Run()

	var failed *exec.ExitError
	switch {
	case err == nil:
		return &pulumirpc.RunResponse{}, nil
	case ctx.Err() != nil:
		return nil, status.Error(codes.Canceled, "the program was ended: the operation is canceled")
	case errors.As(err, &failed) && failed.ExitCode() == constant.ExitStatusLoggedError:
		return &pulumirpc.RunResponse{Bail: true}, nil
	case errors.As(err, &failed):
		return &pulumirpc.RunResponse{Error: fmt.Sprintf("the program %s ended with %s", program, failed)}, nil
	}
	return &pulumirpc.RunResponse{Error: fmt.Sprintf("starting the program %s: %v", program, err)}, nil
}

// binary returns the path of the program, which Pulumi.yaml gives relative to
// itself.
func binary(info *pulumirpc.ProgramInfo) (string, error) {
	path := info.GetOptions().GetFields()["binary"].GetStringValue()
	if path == "" {
		return "", errors.New("finding the program: Pulumi.yaml names none in runtime.options.binary, and this language host runs only a program that was built before")
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(info.GetRootDirectory(), path)
	}
	if stat, err := os.Stat(path); err != nil || stat.IsDir() {
		return "", fmt.Errorf("finding the program: there is none at %s; `make pulumi` builds it", path)
	}
	return path, nil
}

// environment is how the engine's request reaches the program's pulumi.Run.
func (h *host) environment(r *pulumirpc.RunRequest) ([]string, error) {
	config, err := json.Marshal(r.GetConfig())
	if err != nil {
		return nil, fmt.Errorf("passing on the configuration: %w", err)
	}
	secret, err := json.Marshal(r.GetConfigSecretKeys())
	if err != nil {
		return nil, fmt.Errorf("passing on the configuration: %w", err)
	}
	return []string{
		pulumi.EnvOrganization + "=" + r.GetOrganization(),
		pulumi.EnvProject + "=" + r.GetProject(),
		pulumi.EnvStack + "=" + r.GetStack(),
		pulumi.EnvPulumiRootDirectory + "=" + r.GetInfo().GetRootDirectory(),
		pulumi.EnvConfig + "=" + string(config),
		pulumi.EnvConfigSecretKeys + "=" + string(secret),
		pulumi.EnvDryRun + "=" + strconv.FormatBool(r.GetDryRun()),
		pulumi.EnvParallel + "=" + strconv.Itoa(int(r.GetParallel())),
		pulumi.EnvMonitor + "=" + r.GetMonitorAddress(),
		pulumi.EnvEngine + "=" + h.engine,
	}, nil
}
