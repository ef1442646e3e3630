// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"

	"github.com/stockade-dev/stockade/infra/progress"
)

// Images is what Build made, and where it is.
type Images struct {
	// NodeTag is the node image's name once NodeArchive is loaded into Docker.
	NodeTag string
	// NodeArchive is the path of a docker archive for `docker load`.
	NodeArchive string

	// Archives are docker archives that have to be imported into every node,
	// in namespace k8s.io, before Pods can use them: our own programs. The node
	// image carries all others.
	Archives []string

	// Names are the full names of all images inside the cluster, sorted.
	Names []string
	// Kubeadm has the full names of the images kubeadm asks for, by "etcd",
	// "coredns", "pause", "kube-apiserver" and so on.
	Kubeadm map[string]string

	// Repository is what all names begin with; kubeadm's imageRepository has
	// to be set to it.
	Repository string
	// KubernetesVersion is the cluster's version, such as v1.36.3.
	KubernetesVersion string
}

// ArchivesOf returns those of the Archives that have one of the images, by full
// names.
func (i Images) ArchivesOf(names []string) (out []string, err error) {
	for _, archive := range i.Archives {
		has, err := ArchiveNames(archive)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(has, func(name string) bool { return slices.Contains(names, name) }) {
			out = append(out, archive)
		}
	}
	return out, nil
}

// builder is one call of Build or Cached.
type builder struct {
	Options
	rep  *progress.Reporter
	tc   toolchain
	lock *lock

	components map[string]built
	pauseKey   string
	programs   []keyedProgram
	moduleDirs map[string]string
}

type keyedProgram struct {
	Program
	key string
}

// pauseProgram is our own pause.
var pauseProgram = Program{Name: "pause", Package: "./cmd/pause"}

func (b *builder) toolsDir(component string) string {
	return filepath.Join(b.Source, "tools", component)
}
func (b *builder) binDir() string    { return filepath.Join(b.Home, "bin") }
func (b *builder) imagesDir() string { return filepath.Join(b.Home, "images") }
func (b *builder) debianDir() string { return filepath.Join(b.imagesDir(), "debian") }
func (b *builder) pausePath() string { return filepath.Join(b.binDir(), "pause-"+b.pauseKey, "pause") }

// Build makes everything a cluster needs and does not exist yet. The first
// call takes up to half an hour on two cores, later ones a second or two. It
// may be killed at any time: finished parts stay, and the next call goes on.
//
// Errors say what to do about them: no network, no space, no root rights or a
// missing program on the host. Canceling the context stops all children.
func Build(ctx context.Context, o Options) (Images, error) {
	if runtime.GOOS != "linux" {
		return Images{}, fmt.Errorf("building the node image: needs Linux, this is %s; use a Linux machine, or one in a VM", runtime.GOOS)
	}
	b, err := prepare(ctx, o)
	if err != nil {
		return Images{}, err
	}
	// Looked at before the lock is taken: where everything is in place, nobody has
	// to wait for a build that another checkout runs in the same home.
	images, ok, err := b.cached()
	if err != nil {
		return Images{}, err
	}
	if ok {
		return images, b.record(images)
	}
	b.lock, err = acquire(ctx, filepath.Join(b.Home, "build.lock"), o.Progress)
	if err != nil {
		return Images{}, err
	}
	err = openly(func() error {
		images, err = b.build(ctx)
		return err
	})
	if err := errors.Join(err, b.lock.release()); err != nil {
		return Images{}, err
	}
	return images, b.record(images)
}

// Cached returns what an earlier Build with the same options and the same
// sources made, and false when any part of it is missing. It builds nothing
// and needs neither root nor the network.
func Cached(ctx context.Context, o Options) (Images, bool, error) {
	b, err := prepare(ctx, o)
	if err != nil {
		return Images{}, false, err
	}
	return b.cached()
}

func (b *builder) cached() (Images, bool, error) {
	for _, c := range b.components {
		if !c.complete() {
			return Images{}, false, nil
		}
	}
	return b.result()
}

// prepare resolves options and computes every key.
func prepare(ctx context.Context, o Options) (*builder, error) {
	o, err := o.resolve()
	if err != nil {
		return nil, err
	}
	b := &builder{Options: o, rep: o.Progress, moduleDirs: map[string]string{}}
	if b.tc, err = readToolchain(ctx, o.Source); err != nil {
		return nil, err
	}
	if err := b.keyComponents(Components()); err != nil {
		return nil, err
	}
	if b.pauseKey, err = b.programKey(ctx, pauseProgram); err != nil {
		return nil, err
	}
	for _, p := range b.Programs {
		key, err := b.programKey(ctx, p)
		if err != nil {
			return nil, err
		}
		b.programs = append(b.programs, keyedProgram{p, key})
	}
	return b, nil
}

// clusterKey is the key of the archive with all images but the programs.
func (b *builder) clusterKey() string {
	k := newHasher("cluster/1")
	// What kubeadm answers depends on it alone.
	k.add("kubeadm", b.components["kubernetes"].Key)
	for _, s := range b.clusterImages() {
		s.addTo(k, b.tc.Arch)
	}
	return k.sum()
}

// nodeKey is the key of the node image, which carries the cluster's images.
func (b *builder) nodeKey() string {
	k := newHasher("node/1")
	b.nodeImage().addTo(k, b.tc.Arch)
	// For the files that are generated late.
	k.add("kubeadm", b.components["kubernetes"].Key)
	k.add("containerd", runtimeConfig)
	k.add("preload", b.clusterKey()+preloadScript)
	return k.sum()
}

func (b *builder) archive(name, key string) archive {
	return archive{filepath.Join(b.imagesDir(), name+"-"+key+".tar")}
}

func (b *builder) clusterArchive() archive { return b.archive("cluster", b.clusterKey()) }
func (b *builder) nodeArchive() archive    { return b.archive("node", b.nodeKey()) }
func (b *builder) programArchive(p keyedProgram) archive {
	k := newHasher("program-image/1")
	b.programImage(p.Program, "", p.key).addTo(k, b.tc.Arch)
	return b.archive(p.Name, k.sum())
}

func (b *builder) nodeTag() string {
	return fmt.Sprintf("%s/node:%s-%s", Repository, b.components["kubernetes"].Version, b.nodeKey())
}

// allImages are the images of the cluster, the node's, and our own programs'.
func (b *builder) allImages() []imageSpec {
	return append(append(b.clusterImages(), b.nodeImage()), b.programImages()...)
}

// result describes the cache's content, if all of it is there.
func (b *builder) result() (Images, bool, error) {
	cluster, ok := b.clusterArchive().load()
	if !ok {
		return Images{}, false, nil
	}
	if _, ok := b.nodeArchive().load(); !ok {
		return Images{}, false, nil
	}
	images := Images{
		NodeTag:     b.nodeTag(),
		NodeArchive: b.nodeArchive().path,
		Names:       slices.Clone(cluster.Names),
		Kubeadm:     cluster.Kubeadm,
		Repository:  Repository,
	}
	for _, p := range b.programs {
		a := b.programArchive(p)
		r, ok := a.load()
		if !ok {
			return Images{}, false, nil
		}
		images.Archives = append(images.Archives, a.path)
		images.Names = append(images.Names, r.Names...)
	}
	slices.Sort(images.Names)
	images.KubernetesVersion = b.components["kubernetes"].Version
	return images, true, nil
}

// Tools returns the paths of the third-party programs for the host that an earlier
// Build or BuildPulumi made of the same pins, by name: "kube-apiserver", "pulumi".
// What is not built is not among them. It builds nothing.
func Tools(ctx context.Context, o Options) (map[string]string, error) {
	b, err := prepareComponents(ctx, o, slices.Concat(Components(), PulumiComponents()))
	if err != nil {
		return nil, err
	}
	tools := map[string]string{}
	for _, c := range b.components {
		for _, p := range c.Programs {
			if path := c.path(p.Name); exists(path) {
				tools[p.Name] = path
			}
		}
	}
	return tools, nil
}
