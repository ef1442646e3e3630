// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/stockade-dev/stockade/infra/home"
	"github.com/stockade-dev/stockade/infra/node"
	"github.com/stockade-dev/stockade/infra/progress"
)

// pulumi implements [Pulumi].
type pulumi struct{ m machine }

// ownPrograms are what `make pulumi` builds of this repository, in its bin.
var ownPrograms = []string{languageHost, "pulumi-resource-stockade", "stockade-program", policyPack}

const (
	languageHost       = "pulumi-language-go"
	kubernetesProvider = "pulumi-resource-kubernetes"
	policyPack         = "policy"
)

// policyPackEnv stands for the flag --policy-pack of Pulumi's commands that have it:
// up and preview.
const policyPackEnv = "PULUMI_OPTION_POLICY_PACK"

// Build implements [Pulumi].
func (p pulumi) Build(ctx context.Context, rep *progress.Reporter) error {
	_, err := node.BuildPulumi(ctx, p.m.images(rep))
	return err
}

// Exec implements [Pulumi]: it replaces this process.
func (p pulumi) Exec(ctx context.Context, args []string) (int, error) {
	engine, bin, err := p.prepare(ctx)
	if err != nil {
		return 0, err
	}
	// Only here: `plan-check` wants a plan that breaks a rule as well, to say so.
	if pack, ok := judgeBy(bin, os.LookupEnv); ok {
		if err := os.Setenv(policyPackEnv, pack); err != nil {
			return 0, fmt.Errorf("setting %s: %w", policyPackEnv, err)
		}
	}
	return 0, syscall.Exec(engine, append([]string{"pulumi"}, args...), os.Environ())
}

// judgeBy returns the policy pack that is to judge what Pulumi is about to do, and
// false where the user has chosen another one, or with an empty value none.
func judgeBy(bin string, lookup func(string) (string, bool)) (pack string, ok bool) {
	if _, set := lookup(policyPackEnv); set {
		return "", false
	}
	return filepath.Join(bin, policyPack), true
}

// Which implements [Pulumi].
func (p pulumi) Which(ctx context.Context) (string, error) {
	engine, _, err := p.prepare(ctx)
	return engine, err
}

// Output implements [Pulumi].
func (p pulumi) Output(ctx context.Context, args []string) ([]byte, error) {
	engine, _, err := p.prepare(ctx)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, engine, args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = waitPulumi
	out, err := cmd.Output()
	var failed *exec.ExitError
	if errors.As(err, &failed) && len(failed.Stderr) > 0 {
		err = fmt.Errorf("%w: %s", err, bytes.TrimSpace(failed.Stderr))
	}
	if err != nil {
		return nil, fmt.Errorf("running pulumi %s: %w", strings.Join(args, " "), err)
	}
	return out, nil
}

// waitPulumi is how long Pulumi may take to end after an interrupt.
const waitPulumi = 30 * time.Second

// prepare installs what was built, sets this process's environment for it and
// returns the path of the engine, and of the folder with our own programs.
func (p pulumi) prepare(ctx context.Context) (engine, bin string, err error) {
	tools, ok, err := node.PulumiTools(ctx, p.m.images(nil))
	if err != nil {
		return "", "", err
	}
	if !ok {
		return "", "", incomplete("Pulumi's engine is not built: `make pulumi`")
	}
	source, err := node.FindSource()
	if err != nil {
		return "", "", err
	}
	bin = filepath.Join(source, "bin")
	for _, name := range ownPrograms {
		if _, err := os.Stat(filepath.Join(bin, name)); err != nil {
			return "", "", incomplete("bin/%s is not built: `make pulumi`", name)
		}
	}
	self, err := os.Executable()
	if err != nil {
		return "", "", fmt.Errorf("finding this program: %w", err)
	}
	engine, env, err := installPulumi(p.m.home, bin, self, tools, os.Getenv)
	if err != nil {
		return "", "", err
	}
	for k, v := range env {
		if err := os.Setenv(k, v); err != nil {
			return "", "", fmt.Errorf("setting %s: %w", k, err)
		}
	}
	return engine, bin, nil
}

// installPulumi puts everything where the engine looks for it, below the home,
// and returns the engine's path and the variables to set. It may be repeated.
func installPulumi(folder, bin, self string, tools node.Pulumi, getenv func(string) string) (engine string, env map[string]string, err error) {
	root := filepath.Join(folder, "pulumi")
	dir := filepath.Join(root, "engine")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", nil, fmt.Errorf("making a folder for Pulumi: %w", err)
	}
	// The engine takes the language host that lies beside its own executable
	// without a warning. That executable is what a symbolic link points to, so
	// this has to be another name of the file.
	engine = filepath.Join(dir, "pulumi")
	if err := relink(os.Link, tools.Engine, engine); err != nil {
		return "", nil, err
	}
	if err := relink(os.Symlink, filepath.Join(bin, languageHost), filepath.Join(dir, languageHost)); err != nil {
		return "", nil, err
	}

	env = map[string]string{
		"PULUMI_HOME":                                 filepath.Join(root, "home"),
		"PULUMI_SKIP_UPDATE_CHECK":                    "true",
		"PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
		// The plugin of the local cluster calls this very program.
		"STOCKADE_CLI": self,
	}
	if getenv("PULUMI_BACKEND_URL") == "" {
		state := filepath.Join(root, "state")
		if err := os.MkdirAll(state, 0o700); err != nil {
			return "", nil, fmt.Errorf("making a folder for Pulumi's state: %w", err)
		}
		env["PULUMI_BACKEND_URL"] = (&url.URL{Scheme: "file", Path: state}).String()
	}
	if getenv("PULUMI_CONFIG_PASSPHRASE") == "" && getenv("PULUMI_CONFIG_PASSPHRASE_FILE") == "" {
		env["PULUMI_CONFIG_PASSPHRASE_FILE"] = filepath.Join(root, "passphrase")
		if err := makePassphrase(env["PULUMI_CONFIG_PASSPHRASE_FILE"]); err != nil {
			return "", nil, err
		}
	}
	for k := range env {
		if v := getenv(k); v != "" {
			env[k] = v
		}
	}
	if err := installProvider(env["PULUMI_HOME"], tools.Kubernetes); err != nil {
		return "", nil, err
	}
	env[home.Env] = folder
	env["PATH"] = dir + ":" + bin + ":" + getenv("PATH")
	return engine, env, nil
}

// installProvider makes the Kubernetes provider one of Pulumi's installed
// plugins: on the PATH it would be found as well, with a warning each time. One
// that is there already and not a link of ours was installed by somebody.
func installProvider(pulumiHome, provider string) error {
	dir := filepath.Join(pulumiHome, "plugins", "resource-kubernetes-v"+node.KubernetesProvider)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("making a folder for Pulumi's plugin: %w", err)
	}
	path := filepath.Join(dir, kubernetesProvider)
	if info, err := os.Lstat(path); err == nil && info.Mode()&fs.ModeSymlink == 0 {
		return nil
	}
	return relink(os.Symlink, provider, path)
}

// relink makes name lead to target, whatever it led to before. Another process
// sees the old one or the new one.
func relink(link func(target, name string) error, target, name string) error {
	was, err := os.Stat(name)
	if err == nil {
		if is, err := os.Stat(target); err == nil && os.SameFile(was, is) {
			return nil
		}
	}
	work, err := os.MkdirTemp(filepath.Dir(name), ".linking-")
	if err != nil {
		return fmt.Errorf("linking %s: %w", name, err)
	}
	defer os.RemoveAll(work) //nolint:errcheck // an empty folder
	fresh := filepath.Join(work, filepath.Base(name))
	if err := link(target, fresh); err != nil {
		return fmt.Errorf("linking %s: %w", name, err)
	}
	if err := os.Rename(fresh, name); err != nil {
		return fmt.Errorf("linking %s: %w", name, err)
	}
	return nil
}

// makePassphrase writes a random passphrase, once: what was encrypted with an
// earlier one could not be read any more.
func makePassphrase(path string) error {
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".passphrase-") // mode 0600
	if err != nil {
		return fmt.Errorf("making Pulumi's passphrase: %w", err)
	}
	defer os.Remove(f.Name()) //nolint:errcheck // the other name of the file stays
	_, err = f.WriteString(rand.Text() + "\n")
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("making Pulumi's passphrase: %w", err)
	}
	// Unlike a rename, a link does not replace what another process made first.
	if err := os.Link(f.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("making Pulumi's passphrase: %w", err)
	}
	return nil
}
