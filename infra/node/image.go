// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
)

// Repository begins the name of every image made here. It resolves to nothing,
// on purpose: an image that was not imported cannot be fetched from anywhere.
const Repository = "stockade.local"

const searchPath = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// unprivilegedUser is who controllers run as when their Pod does not say.
const unprivilegedUser = "65532:65532"

// imageSpec is an image to be: Debian layers below, files of ours above.
type imageSpec struct {
	// Name is the full name. Images that kubeadm asks for have none, since
	// only kubeadm knows their tags: it is looked up by Kubeadm's value.
	Name    string
	Kubeadm string

	Trees   []debianTree
	Entries []entry
	Config  v1.Config

	// Toolchain is the key of the Go toolchain's layer, for an image that has
	// it on top; whoever assembles the image passes the layer.
	Toolchain string
}

// addTo puts all that decides about the image's bytes into a key.
func (s imageSpec) addTo(k *hasher, arch string) {
	k.add("image", s.Name+" "+s.Kubeadm)
	for _, t := range s.Trees {
		k.add("tree", t.Name+"-"+t.key(arch))
	}
	entries := slices.Clone(s.Entries)
	slices.SortStableFunc(entries, func(a, b entry) int { return strings.Compare(a.Path, b.Path) })
	for _, e := range entries {
		e.addTo(k)
	}
	c := s.Config
	if s.Toolchain != "" {
		k.add("toolchain", s.Toolchain)
	}
	k.add("config", fmt.Sprintf("%q %q %q %q %q", c.Entrypoint, c.Cmd, c.Env, c.User, c.StopSignal))
}

// program returns the entry for a component's binary at a path in the image.
func (b *builder) program(component, binary, at string) entry {
	c := b.components[component]
	return entry{Path: at, Mode: 0o755, Source: c.path(binary), ID: c.id(binary)}
}

// tmpDir is in every image that is otherwise a lone binary: Go's and C's
// temporary files want it, and a read-only root file system wants a mountpoint.
var tmpDir = entry{Path: "tmp", Mode: 0o777 | fs.ModeSticky}

// static is an image of one static binary at /<binary>.
func (b *builder) static(component, binary string) imageSpec {
	return imageSpec{
		Entries: []entry{tmpDir, b.program(component, binary, binary)},
		Config:  v1.Config{Entrypoint: []string{"/" + binary}, Env: []string{searchPath}},
	}
}

// clusterImages are the images inside every cluster, except our own programs.
func (b *builder) clusterImages() []imageSpec {
	version := func(component string) string { return b.components[component].Version }
	var specs []imageSpec

	// kubeadm's static Pods name their programs without a path.
	for _, p := range []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler", "etcd"} {
		component := "kubernetes"
		if p == "etcd" {
			component = "etcd"
		}
		s := b.static(component, p)
		s.Kubeadm = p
		s.Entries[1].Path = "usr/local/bin/" + p
		s.Config.Entrypoint = []string{"/usr/local/bin/" + p}
		specs = append(specs, s)
	}

	// kubeadm's Deployment gives CoreDNS only arguments: the entrypoint counts.
	dns := b.static("coredns", "coredns")
	dns.Kubeadm = "coredns"
	specs = append(specs, dns)

	specs = append(specs, imageSpec{
		Kubeadm: "pause",
		Entries: []entry{{Path: "pause", Mode: 0o755, Source: b.pausePath(), ID: b.pauseKey}},
		Config:  v1.Config{Entrypoint: []string{"/pause"}, User: "65535:65535"},
	})

	for _, p := range []string{"agent-sandbox-controller", "sandbox-router"} {
		s := b.static("agent-sandbox", p)
		s.Name = fmt.Sprintf("%s/%s:%s", Repository, p, version("agent-sandbox"))
		s.Config.User = unprivilegedUser
		specs = append(specs, s)
	}

	specs = append(specs,
		imageSpec{
			Name:  fmt.Sprintf("%s/cilium:%s", Repository, version("cilium")),
			Trees: []debianTree{minimalTree, ciliumTree},
			Entries: []entry{
				b.program("cilium", "cilium-agent", "usr/bin/cilium-agent"),
				b.program("cilium", "cilium-dbg", "usr/bin/cilium-dbg"),
				b.program("cilium", "cilium-cni", "opt/cni/bin/cilium-cni"),
				{Path: "usr/bin/cilium", Link: "cilium-dbg"},
				{
					Path: "var/lib/cilium/bpf", Tree: filepath.Join(b.moduleDirs["cilium"], "bpf"),
					ID: b.components["cilium"].id("bpf"), ModeOf: bpfMode,
				},
			},
			Config: v1.Config{Cmd: []string{"/usr/bin/cilium-dbg"}, Env: []string{searchPath}},
		},
		imageSpec{
			Name:   Repository + "/python-sandbox:3.11",
			Trees:  []debianTree{minimalTree, pythonTree},
			Config: v1.Config{Cmd: []string{"python3"}, Env: []string{searchPath, "LANG=C.UTF-8"}},
		},
	)
	return specs
}

// bpfMode leaves the tests out of the BPF sources: they are most of them.
func bpfMode(p string) fs.FileMode {
	for _, dir := range []string{"tests", "complexity-tests", "test-progs"} {
		if strings.HasPrefix(p, "var/lib/cilium/bpf/"+dir+"/") {
			return 0
		}
	}
	return 0o644
}

// programImage is the image of one of our own programs.
func (b *builder) programImage(p Program, binary, key string) imageSpec {
	s := imageSpec{
		Name:    Repository + "/" + p.Image,
		Entries: []entry{{Path: p.Name, Mode: 0o755, Source: binary, ID: key}},
		Config:  v1.Config{Entrypoint: []string{"/" + p.Name}, Env: []string{searchPath}},
	}
	switch {
	case p.Python:
		s.Trees = []debianTree{minimalTree, pythonTree}
		s.Config = v1.Config{Cmd: []string{"python3"}, Env: []string{searchPath, "LANG=C.UTF-8"}}
	case p.Go:
		s.Trees = []debianTree{minimalTree, gopherTree}
		s.Toolchain = b.goToolchainKey()
		// The overlay mounts over both, and both have to be there: the folder of
		// programs, and one where Go looks for certificates.
		s.Entries = append([]entry{{Path: "app", Mode: 0o755}, {Path: trustDir, Mode: 0o755}}, s.Entries...)
		s.Config.Entrypoint = append(s.Config.Entrypoint, "-go", "/"+goRoot+"/bin/go", "-cache", "/"+goCache)
	default:
		s.Entries = append([]entry{tmpDir}, s.Entries...) // the others have Debian's
	}
	return s
}

// programImages are the images of all of our own programs, without what decides
// about their bytes.
func (b *builder) programImages() []imageSpec {
	var all []imageSpec
	for _, p := range b.programs {
		all = append(all, b.programImage(p.Program, "", p.key))
	}
	return all
}

// kubeadmNames asks kubeadm which images it will want from our repository, by
// the last element of their names. Its constants are not ours to repeat.
func (b *builder) kubeadmNames(ctx context.Context) (map[string]string, error) {
	k8s := b.components["kubernetes"]
	out, err := command{Lock: b.lock, Args: []string{
		k8s.path("kubeadm"), "config", "images", "list",
		"--kubernetes-version", k8s.Version, "--image-repository", Repository,
	}}.run(ctx)
	if err != nil {
		return nil, fmt.Errorf("asking kubeadm for its images: %w", err)
	}
	return parseImageList(string(out))
}

func parseImageList(out string) (map[string]string, error) {
	names := map[string]string{}
	for image := range strings.FieldsSeq(out) {
		repo, _, ok := strings.Cut(image, ":")
		if !ok || !strings.HasPrefix(image, Repository+"/") {
			return nil, fmt.Errorf("reading kubeadm's list of images: unexpected name %q", image)
		}
		names[path.Base(repo)] = image
	}
	return names, nil
}

// assemble makes the image of a spec. Layers of our own files are written
// below work, which has to live until the image is in its archive.
func (b *builder) assemble(work string, s imageSpec, extra ...v1.Layer) (v1.Image, error) {
	var layers []v1.Layer
	for _, t := range s.Trees {
		l, ok := loadLayer(b.debianPath(t))
		if !ok {
			return nil, fmt.Errorf("assembling %s: the %s tree is gone; run the build again", s.Name, t.Name)
		}
		layers = append(layers, l)
	}
	if len(s.Entries) > 0 {
		f, err := os.CreateTemp(work, "layer-*.tar")
		if err != nil {
			return nil, fmt.Errorf("assembling %s: %w", s.Name, err)
		}
		if err := f.Close(); err != nil {
			return nil, fmt.Errorf("assembling %s: %w", s.Name, err)
		}
		l, err := writeEntries(f.Name(), s.Entries)
		if err != nil {
			return nil, fmt.Errorf("assembling %s: %w", s.Name, explain(err, ""))
		}
		layers = append(layers, l)
	}
	layers = append(layers, extra...)

	img, err := mutate.ConfigFile(empty.Image, &v1.ConfigFile{
		Architecture: b.tc.Arch, OS: "linux", Config: s.Config, RootFS: v1.RootFS{Type: "layers"},
	})
	if err != nil {
		return nil, fmt.Errorf("configuring %s: %w", s.Name, err)
	}
	if img, err = mutate.AppendLayers(img, layers...); err != nil {
		return nil, fmt.Errorf("stacking the layers of %s: %w", s.Name, err)
	}
	return img, nil
}

// trees lists the Debian trees that images need, each once, the minimal first.
func trees(specs ...imageSpec) []debianTree {
	var all []debianTree
	for _, s := range specs {
		for _, t := range s.Trees {
			if !slices.ContainsFunc(all, func(o debianTree) bool { return o.Name == t.Name }) {
				all = append(all, t)
			}
		}
	}
	return all
}
