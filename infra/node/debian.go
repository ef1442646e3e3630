// SPDX-License-Identifier: Apache-2.0

package node

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// debianSuite is the release all trees are made of. Its runc, clang-19 and
// Python 3.11 are what the images expect.
const debianSuite = "bookworm"

var (
	//go:embed scripts/bootstrap.sh
	bootstrapScript string
	//go:embed scripts/install.sh
	installScript string
)

// debianTree is a Debian file system: the minimal one, or packages over it.
type debianTree struct {
	Name     string
	Packages []string
	// Finish is a shell script that runs inside, after the packages are
	// installed. It only takes away and links, and except in the node tree it
	// leaves alone what the minimal tree has: see writeTree on deletions.
	Finish string
}

var (
	minimalTree = debianTree{Name: "minimal"}

	// nodeTree is what kubelet, kubeadm, containerd and kind's entrypoint call.
	// dbus is for the systemd cgroup driver.
	nodeTree = debianTree{
		Name: "node",
		Packages: []string{
			"systemd", "systemd-sysv", "dbus", "iproute2", "iptables", "nftables", "ebtables", "ethtool",
			"conntrack", "ipset", "socat", "kmod", "mount", "util-linux", "procps", "ca-certificates", "curl", "jq",
			"libseccomp2", "runc", "pigz",
		},
		// A node is a container: units that set up a machine would fail or
		// fight with the host. kind's image does without them too.
		Finish: `
find /lib/systemd/system/sysinit.target.wants/ -name systemd-tmpfiles-setup.service -delete
rm -f /lib/systemd/system/multi-user.target.wants/* /etc/systemd/system/*.wants/*
rm -f /lib/systemd/system/local-fs.target.wants/* /lib/systemd/system/basic.target.wants/*
rm -f /lib/systemd/system/sockets.target.wants/*udev* /lib/systemd/system/sockets.target.wants/*initctl*
ln -sf /lib/systemd/system/dbus.service /lib/systemd/system/multi-user.target.wants/dbus.service
`,
	}

	// ciliumTree is what the agent runs: it compiles its BPF programs on the
	// node, and calls ip, iptables, ipset and modprobe.
	ciliumTree = debianTree{
		Name: "cilium",
		Packages: []string{
			"clang-19", "llvm-19", "iproute2", "iptables", "ipset", "bpftool", "kmod", "mount", "ca-certificates",
		},
		// Of the compilers only clang and llc are needed: the BPF sources bring
		// their own headers, and nothing is linked.
		Finish: `
ln -s /usr/lib/llvm-19/bin/clang /usr/local/bin/clang
ln -s /usr/lib/llvm-19/bin/llc /usr/local/bin/llc
find /usr/lib/llvm-19/bin -mindepth 1 ! -name clang ! -name llc -delete
rm -rf /usr/lib/llvm-19/build /usr/lib/llvm-19/include /usr/lib/llvm-19/share /usr/lib/gcc
find /usr/include -mindepth 1 -delete
find /usr/lib \( -name '*.a' -o -name '*san.so*' -o -name 'libclang-19.so*' -o -name LLVMPolly.so \
	-o -path '*/clang/19/include/arm_*' -o -path '*/clang/19/include/opencl-*' \) -delete
find /usr/bin \( -lname '*llvm-19/bin/*' -o -name '*-linux-gnu-*' -o -lname '*-linux-gnu-*' \) -delete
clang --version >/dev/null
llc --version >/dev/null
`,
	}

	// pythonTree is an ordinary language image, the kind model-written code
	// finds itself in: nothing in it is there to help or to hinder an attack.
	pythonTree = debianTree{
		Name:     "python",
		Packages: []string{"python3-minimal", "python3", "coreutils", "dash"},
		Finish:   "ln -sf python3 /usr/bin/python\n",
	}
)

// key hashes what makes a tree. The mirror's state is no part of it: a tree is
// made once and stays, updates come with a removed cache.
func (t debianTree) key(arch string) string {
	k := newHasher("debian/1")
	k.add("suite", debianSuite+" "+arch)
	k.add("bootstrap", bootstrapScript)
	if len(t.Packages) > 0 {
		k.add("install", installScript)
		k.add("packages", strings.Join(t.Packages, " "))
		k.add("finish", t.Finish)
	}
	return k.sum()
}

func (b *builder) debianPath(t debianTree) string {
	return filepath.Join(b.debianDir(), t.Name+"-"+t.key(b.tc.Arch)+".tar")
}

// hostFolders are filled by whoever runs an image: device nodes and the like.
var hostFolders = []string{"dev", "proc", "sys", "run", "tmp"}

// debianPreconditions checks what making Debian trees takes of the host.
func debianPreconditions() error {
	if os.Geteuid() != 0 {
		return errors.New("making Debian file systems: needs root (chroot and mounts); run this build with sudo -E, once: later runs find its results")
	}
	return errors.Join(need("debootstrap", "debootstrap"), need("unshare", "util-linux"), need("tar", "tar"))
}

// buildDebian makes the trees that are missing, one after the other: they wait
// for one network and one disk.
func (b *builder) buildDebian(ctx context.Context, trees ...debianTree) error {
	trees = slices.DeleteFunc(slices.Clone(trees), func(t debianTree) bool {
		_, ok := loadLayer(b.debianPath(t))
		return ok
	})
	if len(trees) == 0 {
		return nil
	}
	if err := debianPreconditions(); err != nil {
		return err
	}
	if err := checkSpace(b.Home, "making the Debian file systems", 2*gib); err != nil {
		return err
	}
	mirror, err := hostMirror(os.DirFS("/etc/apt"))
	if err != nil {
		return err
	}
	work, err := tempDir(b.debianDir(), "trees")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work) //nolint:errcheck // what is left the next build sweeps

	base := filepath.Join(work, "base")
	if err := b.minimal(ctx, base, mirror); err != nil {
		return err
	}
	for _, t := range trees {
		if t.Name == minimalTree.Name {
			continue
		}
		if err := b.installOver(ctx, base, filepath.Join(work, t.Name), t); err != nil {
			return err
		}
	}
	return nil
}

// minimal unpacks the minimal tree at dir, and makes it first if need be.
func (b *builder) minimal(ctx context.Context, dir string, mirror debianMirror) (err error) {
	final := b.debianPath(minimalTree)
	if _, ok := loadLayer(final); ok {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("unpacking the minimal Debian: %w", err)
		}
		_, err := command{Lock: b.lock, Args: []string{
			"tar", "-xpf", final, "-C", dir, "--numeric-owner", "--xattrs", "--xattrs-include=*",
		}}.run(ctx)
		if err != nil {
			return fmt.Errorf("unpacking the minimal Debian: %w", explain(err, ""))
		}
		return nil
	}
	done := b.rep.Step("installing a minimal Debian " + debianSuite)
	defer func() { done("", err) }()
	_, err = b.namespaced(bootstrapScript, "ROOT="+dir, "SUITE="+debianSuite,
		"MIRROR="+mirror.URI, "KEYRING="+mirror.Keyring).run(ctx)
	if err != nil {
		return fmt.Errorf("installing a minimal Debian: %w", explain(err, "the Debian mirror "+mirror.URI))
	}
	l, err := writeTree(filepath.Join(filepath.Dir(dir), "minimal.tar"), dir, treeOptions{Skip: hostFolders})
	if err != nil {
		return err
	}
	_, err = publishLayer(l, final)
	return err
}

// installOver makes the layer of a tree over the minimal one at base.
func (b *builder) installOver(ctx context.Context, base, work string, t debianTree) (err error) {
	done := b.rep.Step(fmt.Sprintf("installing %d Debian packages for %s", len(t.Packages), t.Name))
	defer func() { done("", err) }()
	env := []string{"BASE=" + base, "RESOLV=/etc/resolv.conf",
		"PACKAGES=" + strings.Join(t.Packages, " "), "FINISH=" + t.Finish}
	for _, side := range []string{"upper", "work", "merged"} {
		dir := filepath.Join(work, side)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("preparing the %s tree: %w", t.Name, err)
		}
		env = append(env, strings.ToUpper(side)+"="+dir)
	}
	if _, err := b.namespaced(installScript, env...).run(ctx); err != nil {
		return fmt.Errorf("installing the packages for %s: %w", t.Name, explain(err, "the Debian mirror this host's apt uses"))
	}
	l, err := writeTree(filepath.Join(work, "layer.tar"), filepath.Join(work, "upper"),
		treeOptions{Skip: hostFolders, Lower: base})
	if err != nil {
		return err
	}
	_, err = publishLayer(l, b.debianPath(t))
	return err
}

// namespaced runs a script where its mounts and its processes die with it.
func (b *builder) namespaced(script string, env ...string) command {
	return command{
		Env:  env,
		Args: []string{"unshare", "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child", "sh", "-c", script},
		Lock: b.lock,
	}
}

// debianMirror is where packages come from.
type debianMirror struct{ URI, Keyring string }

// hostMirror finds the mirror of our suite in apt's configuration, which has
// an old format (one line) and a new one (stanzas).
func hostMirror(apt fs.FS) (debianMirror, error) {
	var files []string
	for _, pattern := range []string{"sources.list", "sources.list.d/*.list", "sources.list.d/*.sources"} {
		found, err := fs.Glob(apt, pattern)
		if err != nil {
			return debianMirror{}, fmt.Errorf("listing apt's sources: %w", err)
		}
		files = append(files, found...)
	}
	for _, name := range files {
		text, err := fs.ReadFile(apt, name)
		if err != nil {
			return debianMirror{}, fmt.Errorf("reading apt's sources: %w", err)
		}
		parse := parseOneLine
		if strings.HasSuffix(name, ".sources") {
			parse = parseStanzas
		}
		if m, ok := parse(text); ok {
			return m, nil
		}
	}
	return debianMirror{}, fmt.Errorf("finding a Debian mirror: this host's apt has none for the suite %q; add one, as a file in /etc/apt/sources.list.d", debianSuite)
}

func parseOneLine(text []byte) (debianMirror, bool) {
	for line := range strings.Lines(string(text)) {
		rest, ok := strings.CutPrefix(strings.TrimSpace(line), "deb ")
		if !ok {
			continue
		}
		var m debianMirror
		if options, after, ok := strings.Cut(rest, "]"); ok {
			rest = after
			for o := range strings.FieldsSeq(strings.TrimLeft(options, " [")) {
				if key, ok := strings.CutPrefix(o, "signed-by="); ok {
					m.Keyring = key
				}
			}
		}
		f := strings.Fields(rest)
		if len(f) >= 3 && f[1] == debianSuite && slices.Contains(f[2:], "main") {
			m.URI = f[0]
			return m, true
		}
	}
	return debianMirror{}, false
}

func parseStanzas(text []byte) (debianMirror, bool) {
	for stanza := range bytes.SplitSeq(text, []byte("\n\n")) {
		fields := map[string]string{}
		for line := range strings.Lines(string(stanza)) {
			if name, value, ok := strings.Cut(line, ":"); ok && !strings.HasPrefix(line, "#") {
				fields[strings.ToLower(strings.TrimSpace(name))] = strings.TrimSpace(value)
			}
		}
		uris := strings.Fields(fields["uris"])
		if len(uris) > 0 && fields["enabled"] != "no" &&
			slices.Contains(strings.Fields(fields["types"]), "deb") &&
			slices.Contains(strings.Fields(fields["suites"]), debianSuite) &&
			slices.Contains(strings.Fields(fields["components"]), "main") {
			m := debianMirror{URI: uris[0]}
			if key := fields["signed-by"]; strings.HasPrefix(key, "/") {
				m.Keyring = key
			}
			return m, true
		}
	}
	return debianMirror{}, false
}
