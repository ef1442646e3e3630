// SPDX-License-Identifier: Apache-2.0

package node

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"
)

// buildFlags are the same for all programs: a second set of flags would
// compile the world a second time.
var buildFlags = []string{"-buildvcs=false"}

// buildEnv isolates the build from the user's settings. Static programs run in
// any image; a go.work or GOFLAGS of the user's must not change the pins.
func buildEnv(arch string) []string {
	return []string{"CGO_ENABLED=0", "GOOS=linux", "GOARCH=" + arch, "GOWORK=off", "GOFLAGS="}
}

// goDefaults are what the go command does by itself. An empty variable leaves the
// say to what `go env -w` has written, and these are in no key, because they change
// nothing.
var goDefaults = []string{"GOFLAGS=-mod=readonly", "GO111MODULE=on"}

// goCommand prepares a call of the go command in dir.
func (b *builder) goCommand(dir string, args ...string) command {
	return command{
		Dir:  dir,
		Env:  append(buildEnv(b.tc.Arch), goDefaults...),
		Args: append([]string{"go"}, args...),
		Lock: b.lock,
	}
}

// GoProxyEnv names the variable that replaces GOPROXY for the programs of
// kode-gopher: what builds the images here need not be what they may use.
const GoProxyEnv = "STOCKADE_GOPROXY"

// GoProxy returns the GOPROXY for programs in sandboxes: that of [GoProxyEnv],
// else this machine's.
func GoProxy(ctx context.Context) (string, error) {
	if list := os.Getenv(GoProxyEnv); list != "" {
		return list, nil
	}
	out, err := command{Args: []string{"go", "env", "GOPROXY"}}.run(ctx)
	if err != nil {
		return "", fmt.Errorf("asking the go command for its GOPROXY: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}

// readToolchain asks the go command for its version and folders, in the
// checkout, where a toolchain line of go.mod has its effect.
func readToolchain(ctx context.Context, source string) (toolchain, error) {
	if _, err := exec.LookPath("go"); err != nil {
		return toolchain{}, fmt.Errorf("looking for the go command: not on PATH; install Go 1.26 or later (https://go.dev/dl): everything is built from source")
	}
	out, err := command{
		Dir:  source,
		Env:  []string{"GOWORK=off"},
		Args: []string{"go", "env", "-json", "GOVERSION", "GOARCH", "GOCACHE", "GOMODCACHE", "GOPROXY", "GOROOT"},
	}.run(ctx)
	if err != nil {
		return toolchain{}, fmt.Errorf("reading the go command's settings: %w", err)
	}
	var tc toolchain
	if err := json.Unmarshal(out, &tc); err != nil {
		return toolchain{}, fmt.Errorf("reading the go command's settings: %w", err)
	}
	return tc, nil
}

// built is a component with its key: where its programs are or will be.
type built struct {
	Component
	Key     string
	Version string
	Dir     string // bin/<name>-<key>
}

func (c built) path(program string) string { return filepath.Join(c.Dir, program) }

// complete tells whether all of its programs are there. A folder with only a part
// of them, after a crash or a deletion by hand, counts as missing.
func (c built) complete() bool {
	return !slices.ContainsFunc(c.Programs, func(p Binary) bool {
		info, err := os.Stat(c.path(p.Name))
		return err != nil || info.Size() == 0
	})
}

// id names the component's content in the keys of images made from it.
func (c built) id(file string) string { return c.Name + "-" + c.Key + "/" + file }

// keyComponents computes the keys of these too; it builds nothing.
func (b *builder) keyComponents(components []Component) error {
	if b.components == nil {
		b.components = map[string]built{}
	}
	for _, c := range components {
		key, version, err := componentKey(c, b.toolsDir(c.Name), b.tc)
		if err != nil {
			return err
		}
		b.components[c.Name] = built{c, key, version, filepath.Join(b.binDir(), c.Name+"-"+key)}
	}
	return nil
}

// buildComponents builds what is missing of these, in parallel as memory allows.
func (b *builder) buildComponents(ctx context.Context, components []Component) error {
	var missing []built
	var disk, cache int64
	for _, c := range components {
		if k := b.components[c.Name]; !k.complete() {
			missing = append(missing, k)
			disk += c.Disk
			cache += c.Cache
		}
	}
	if len(missing) == 0 {
		b.rep.Note("%d third-party components: cached", len(components))
		return nil
	}
	if err := checkSpace(b.Home, "building the third-party programs", disk); err != nil {
		return err
	}
	// A warm build cache needs next to nothing, so only a cold one is held to
	// the full estimate.
	if !exists(filepath.Join(b.tc.Cache, "00")) {
		if err := checkSpace(b.tc.Cache, "Go's build cache", cache); err != nil {
			return err
		}
	}

	total := availableMemory()
	memory := semaphore.NewWeighted(total)
	g, ctx := errgroup.WithContext(ctx)
	// The compiler keeps all cores busy by itself; a second component fills
	// the gaps while the first one links on one core.
	g.SetLimit(max(2, runtime.NumCPU()/2))
	for _, c := range missing {
		g.Go(func() error {
			share := min(c.Memory, total)
			if err := memory.Acquire(ctx, share); err != nil {
				return context.Cause(ctx)
			}
			defer memory.Release(share)
			return b.buildComponent(ctx, c, share < c.Memory)
		})
	}
	return g.Wait()
}

// buildComponent makes bin/<name>-<key> appear. With little memory it compiles
// one package at a time.
func (b *builder) buildComponent(ctx context.Context, c built, frugal bool) (err error) {
	done := b.rep.Step("building " + c.Name + " " + c.Version)
	defer func() { done("", err) }()

	tmp, err := tempDir(b.binDir(), c.Name)
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp) //nolint:errcheck // what is left the next build sweeps

	args := append([]string{"build"}, buildFlags...)
	if frugal {
		args = append(args, "-p=1")
	}
	if len(c.Embed) > 0 {
		work, err := os.MkdirTemp("", "stockade-"+c.Name+"-")
		if err != nil {
			return fmt.Errorf("making a folder for what %s embeds: %w", c.Name, err)
		}
		defer os.RemoveAll(work) //nolint:errcheck // it lies in the temporary folder
		module, err := b.moduleDir(ctx, c.Name, c.Module)
		if err != nil {
			return err
		}
		overlay, err := b.embed(c, module, work)
		if err != nil {
			return err
		}
		args = append(args, "-overlay", overlay)
	}
	args = append(args, "-ldflags", c.ldflags(c.Version), "-o", tmp+string(filepath.Separator))
	for _, p := range c.Programs {
		args = append(args, p.Package)
	}
	if _, err := b.goCommand(b.toolsDir(c.Name), args...).run(ctx); err != nil {
		return fmt.Errorf("building %s %s: %w", c.Name, c.Version, explain(err, "Go modules from "+b.tc.Proxy))
	}
	for _, p := range c.Programs {
		from := filepath.Join(tmp, defaultName(p.Package))
		if to := filepath.Join(tmp, p.Name); from != to {
			if err := os.Rename(from, to); err != nil {
				return fmt.Errorf("naming %s: %w", p.Name, err)
			}
		}
	}
	// A part of it may be there.
	if err := os.RemoveAll(c.Dir); err != nil {
		return fmt.Errorf("replacing %s: %w", filepath.Base(c.Dir), err)
	}
	return publish(tmp, c.Dir)
}

// embed writes what the component's programs embed, out of the module's folder,
// to the folder work. It returns the path of a file that makes the go command see
// that in the tools module, which is not written to: it is part of the checkout,
// and of the key.
func (b *builder) embed(c built, module, work string) (string, error) {
	overlay := struct{ Replace map[string]string }{map[string]string{}}
	for to, from := range c.Embed {
		data, err := os.ReadFile(filepath.Join(module, from))
		if err != nil {
			return "", fmt.Errorf("reading what %s embeds: %w", c.Name, err)
		}
		var small bytes.Buffer
		if err := json.Compact(&small, data); err != nil {
			return "", fmt.Errorf("minifying %s of %s: %w", from, c.Name, err)
		}
		file := filepath.Join(work, strings.ReplaceAll(to, "/", "_"))
		if err := os.WriteFile(file, small.Bytes(), 0o644); err != nil {
			return "", fmt.Errorf("writing what %s embeds: %w", c.Name, err)
		}
		overlay.Replace[filepath.Join(b.toolsDir(c.Name), filepath.FromSlash(to))] = file
	}
	data, err := json.Marshal(overlay)
	if err != nil {
		return "", err
	}
	path := filepath.Join(work, "overlay")
	if err := os.WriteFile(path, data, 0o644); err != nil {
		return "", fmt.Errorf("writing what %s embeds: %w", c.Name, err)
	}
	return path, nil
}

// ModuleDir returns the folder of a module that a component's pins choose, so
// that manifests and CRDs can be read out of it. The module is downloaded when
// it is missing.
func ModuleDir(ctx context.Context, o Options, component, module string) (string, error) {
	o, err := o.resolve()
	if err != nil {
		return "", err
	}
	tc, err := readToolchain(ctx, o.Source)
	if err != nil {
		return "", err
	}
	b := &builder{Options: o, tc: tc}
	return b.moduleDir(ctx, component, module)
}

func (b *builder) moduleDir(ctx context.Context, component, module string) (string, error) {
	out, err := b.goCommand(b.toolsDir(component), "mod", "download", "-json", module).run(ctx)
	if err != nil {
		return "", fmt.Errorf("downloading %s: %w", module, explain(err, "Go modules from "+b.tc.Proxy))
	}
	var m struct{ Dir string }
	if err := json.Unmarshal(out, &m); err != nil || m.Dir == "" {
		return "", fmt.Errorf("finding the folder of %s: the go command names none: %s", module, tail(string(out), 3))
	}
	return m.Dir, nil
}

// sourceList makes go list print, for each package a program is compiled
// from, either its files (of this repository) or its module's version. The
// whole go.mod would be simpler to hash, but it changes with every dependency
// of every other package here.
const sourceList = `{{if not .Standard}}{{if .Module.Main}}` +
	`files{{"\t"}}{{.Dir}}{{range .GoFiles}}{{"\t"}}{{.}}{{end}}{{range .EmbedFiles}}{{"\t"}}{{.}}{{end}}` +
	`{{else}}module{{"\t"}}{{.Module}}{{end}}{{end}}`

// programKey hashes what one of our own programs is made of.
func (b *builder) programKey(ctx context.Context, p Program) (string, error) {
	out, err := b.goCommand(b.Source, "list", "-deps", "-f", sourceList, p.Package).run(ctx)
	if err != nil {
		return "", fmt.Errorf("listing the sources of %s: %w", p.Package, explain(err, "Go modules from "+b.tc.Proxy))
	}
	k := newHasher("program/2")
	k.add("go", b.tc.Version+" linux/"+b.tc.Arch)
	k.add("package", p.Package)
	for _, f := range append(buildEnv(b.tc.Arch), buildFlags...) {
		k.add("flag", f)
	}
	for line := range strings.Lines(string(out)) {
		kind, rest, _ := strings.Cut(strings.TrimSpace(line), "\t")
		if kind == "module" {
			k.add(kind, rest)
			continue
		}
		parts := strings.Split(rest, "\t")
		for _, name := range parts[1:] {
			content, err := os.ReadFile(filepath.Join(parts[0], name))
			if err != nil {
				return "", fmt.Errorf("hashing the sources of %s: %w", p.Name, err)
			}
			rel, err := filepath.Rel(b.Source, filepath.Join(parts[0], name))
			if err != nil {
				return "", fmt.Errorf("hashing the sources of %s: %w", p.Name, err)
			}
			k.add(filepath.ToSlash(rel), string(content))
		}
	}
	return k.sum(), nil
}

// buildProgram compiles one of our own programs to the file at path.
func (b *builder) buildProgram(ctx context.Context, p Program, path string) error {
	args := append([]string{"build"}, buildFlags...)
	args = append(args, "-ldflags", "-s -w", "-o", path, p.Package)
	if _, err := b.goCommand(b.Source, args...).run(ctx); err != nil {
		return fmt.Errorf("building %s: %w", p.Name, explain(err, "Go modules from "+b.tc.Proxy))
	}
	return nil
}

// availableMemory is what the kernel thinks may be used without swapping, in
// bytes; 4 GiB where it does not say.
func availableMemory() int64 {
	f, err := os.Open("/proc/meminfo")
	if err != nil {
		return 4 * gib
	}
	defer f.Close() //nolint:errcheck // it was only read
	for s := bufio.NewScanner(f); s.Scan(); {
		if rest, ok := strings.CutPrefix(s.Text(), "MemAvailable:"); ok {
			kb, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
			if err == nil && kb > 0 {
				return kb << 10
			}
		}
	}
	return 4 * gib
}
