// SPDX-License-Identifier: Apache-2.0

package overlays

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// modulePath is the module that brings the controller's manifests. Its version
// is pinned in tools/agent-sandbox/go.mod, and only there.
const modulePath = "sigs.k8s.io/agent-sandbox"

// ModuleFS returns the folder of the pinned agent-sandbox module, downloading
// it through the go command if need be. source is the root of a checkout of
// this repository.
func ModuleFS(ctx context.Context, source string) (fs.FS, error) {
	tool := filepath.Join(source, "tools", "agent-sandbox")
	// "go list -m" names a folder only for a module that is in the cache.
	for _, args := range [][]string{{"list"}, {"download"}} {
		if args[0] == "download" {
			if _, err := golang(ctx, tool, "mod", "download", modulePath); err != nil {
				return nil, fmt.Errorf("downloading %s (pinned in %s): %w; check GOPROXY", modulePath, tool, err)
			}
		}
		dir, err := golang(ctx, tool, "list", "-mod=mod", "-m", "-f", "{{.Dir}}", modulePath)
		if err != nil {
			return nil, fmt.Errorf("finding %s (pinned in %s): %w; the go command must be on PATH", modulePath, tool, err)
		}
		if dir != "" {
			return os.DirFS(dir), nil
		}
	}
	return nil, fmt.Errorf("finding %s: the go command downloaded it and still has no folder for it; run `go clean -modcache`", modulePath)
}

func golang(ctx context.Context, dir string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	// A workspace file above the checkout must not change what is pinned.
	cmd.Env = append(os.Environ(), "GOWORK=off")
	out, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return "", fmt.Errorf("running go %s: %s", args[0], strings.TrimSpace(string(exit.Stderr)))
	}
	if err != nil {
		return "", fmt.Errorf("running go %s: %w", args[0], err)
	}
	return strings.TrimSpace(string(out)), nil
}
