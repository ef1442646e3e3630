// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/sync/errgroup"
)

// build runs with the lock held.
func (b *builder) build(ctx context.Context) (Images, error) {
	if err := sweep(b.binDir(), b.imagesDir(), b.debianDir()); err != nil {
		return Images{}, err
	}
	// Trees wait for the network, components for the processor.
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error { return b.buildComponents(gctx, Components()) })
	g.Go(func() error { return b.buildDebian(gctx, trees(b.allImages()...)...) })
	if err := g.Wait(); err != nil {
		return Images{}, err
	}
	if err := b.buildImages(ctx); err != nil {
		return Images{}, err
	}
	images, ok, err := b.result()
	if err == nil && !ok {
		err = errors.New("checking what was built: a part is missing again; is another program cleaning " + b.Home + "?")
	}
	return images, err
}

// imageSpace is what unfinished layers and archives take at most, in bytes.
const imageSpace = 6 * gib

func (b *builder) buildImages(ctx context.Context) error {
	if _, ok, err := b.result(); err != nil || ok {
		return err
	}
	if err := checkSpace(b.Home, "assembling the images", imageSpace); err != nil {
		return err
	}
	work, err := tempDir(b.imagesDir(), "images")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work) //nolint:errcheck // what is left the next build sweeps
	if err := b.buildClusterArchive(ctx, work); err != nil {
		return err
	}
	if err := b.buildNodeArchive(ctx, work); err != nil {
		return err
	}
	for _, p := range b.programs {
		if err := b.buildProgramArchive(ctx, work, p); err != nil {
			return err
		}
	}
	return nil
}

func (b *builder) buildClusterArchive(ctx context.Context, work string) (err error) {
	a := b.clusterArchive()
	if _, ok := a.load(); ok {
		return nil
	}
	done := b.rep.Step("assembling the cluster's images")
	defer func() { done(fileSize(a.path), err) }()

	if err := b.buildPause(ctx); err != nil {
		return err
	}
	// Resolved only now: specs name the folder, keys do not need it.
	if b.moduleDirs["cilium"], err = b.moduleDir(ctx, "cilium", b.components["cilium"].Module); err != nil {
		return err
	}
	kubeadm, err := b.kubeadmNames(ctx)
	if err != nil {
		return err
	}
	images := map[string]v1.Image{}
	used := map[string]string{}
	for _, s := range b.clusterImages() {
		if s.Kubeadm != "" {
			if s.Name = kubeadm[s.Kubeadm]; s.Name == "" {
				return fmt.Errorf("naming the %s image: kubeadm does not ask for one", s.Kubeadm)
			}
			used[s.Kubeadm] = s.Name
		}
		if images[s.Name], err = b.assemble(work, s); err != nil {
			return err
		}
	}
	return a.store(work, images, archiveRecord{slices.Sorted(maps.Keys(images)), used})
}

// buildPause compiles our own pause program.
func (b *builder) buildPause(ctx context.Context) error {
	if exists(b.pausePath()) {
		return nil
	}
	tmp, err := tempDir(b.binDir(), "pause")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp) //nolint:errcheck // what is left the next build sweeps
	if err := b.buildProgram(ctx, pauseProgram, filepath.Join(tmp, "pause")); err != nil {
		return err
	}
	return publish(tmp, filepath.Dir(b.pausePath()))
}

func (b *builder) buildNodeArchive(ctx context.Context, work string) (err error) {
	a := b.nodeArchive()
	if _, ok := a.load(); ok {
		return nil
	}
	cluster, ok := b.clusterArchive().load()
	if !ok {
		return errors.New("assembling the node image: the cluster's images are gone; run the build again")
	}
	preloaded, err := b.preload(ctx, work, b.clusterArchive().path)
	if err != nil {
		return err
	}
	done := b.rep.Step("assembling the node image")
	defer func() { done(fileSize(a.path), err) }()
	if b.moduleDirs["kind"], err = b.moduleDir(ctx, "kind", b.components["kind"].Module); err != nil {
		return err
	}
	late, err := b.generated(ctx, cluster.Kubeadm["pause"])
	if err != nil {
		return err
	}
	s := b.nodeImage()
	s.Name = b.nodeTag()
	s.Entries = append(s.Entries, late...)
	img, err := b.assemble(work, s, preloaded)
	if err != nil {
		return err
	}
	return a.store(work, map[string]v1.Image{s.Name: img}, archiveRecord{Names: []string{s.Name}})
}

func (b *builder) buildProgramArchive(ctx context.Context, work string, p keyedProgram) (err error) {
	a := b.programArchive(p)
	if _, ok := a.load(); ok {
		return nil
	}
	done := b.rep.Step("building the image of " + p.Name)
	defer func() { done(fileSize(a.path), err) }()
	binary := filepath.Join(work, p.Name)
	if err := b.buildProgram(ctx, p.Program, binary); err != nil {
		return err
	}
	var extra []v1.Layer
	if p.Go {
		l, err := b.goToolchain(ctx, work)
		if err != nil {
			return err
		}
		extra = append(extra, l)
	}
	s := b.programImage(p.Program, binary, p.key)
	img, err := b.assemble(work, s, extra...)
	if err != nil {
		return err
	}
	return a.store(work, map[string]v1.Image{s.Name: img}, archiveRecord{Names: []string{s.Name}})
}

// fileSize is a note for the progress line.
func fileSize(path string) string {
	info, err := os.Stat(path)
	if err != nil {
		return ""
	}
	return size(info.Size())
}
