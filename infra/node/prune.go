// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
)

// resultName is the form of every finished result's name. Prune touches
// nothing else.
var resultName = regexp.MustCompile(fmt.Sprintf(`^[a-z0-9-]+-[0-9a-f]{%d}(\.tar(\.json)?)?$`, keyLength))

// Prune removes results of earlier sources and options, and returns how many
// bytes that freed. What Build and BuildPulumi return for these options stays. Builds never
// prune by themselves: another checkout may still use the same home.
func Prune(ctx context.Context, o Options) (freed int64, err error) {
	b, err := prepare(ctx, o)
	if err != nil {
		return 0, err
	}
	if b.lock, err = acquire(ctx, filepath.Join(b.Home, "build.lock"), o.Progress); err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, b.lock.release()) }()
	return b.prune()
}

func (b *builder) prune() (freed int64, err error) {
	// Pulumi's programs are not what Build makes, but current all the same.
	if err := b.keyComponents(PulumiComponents()); err != nil {
		return 0, err
	}
	keep := b.current()
	for _, dir := range []string{b.binDir(), b.imagesDir(), b.debianDir()} {
		entries, err := os.ReadDir(dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return freed, fmt.Errorf("listing old results: %w", err)
		}
		for _, e := range entries {
			path := filepath.Join(dir, e.Name())
			if keep[path] || !resultName.MatchString(e.Name()) {
				continue
			}
			n, err := diskUse(path)
			if err != nil {
				return freed, fmt.Errorf("measuring %s: %w", e.Name(), err)
			}
			if err := os.RemoveAll(path); err != nil {
				return freed, fmt.Errorf("removing %s: %w", e.Name(), err)
			}
			freed += n
		}
	}
	return freed, nil
}

// current lists the paths of all results that belong to these sources.
func (b *builder) current() map[string]bool {
	keep := map[string]bool{filepath.Dir(b.pausePath()): true}
	for _, c := range b.components {
		keep[c.Dir] = true
	}
	files := []string{b.clusterArchive().path, b.nodeArchive().path}
	for _, p := range b.programs {
		files = append(files, b.programArchive(p).path)
		if p.Go {
			files = append(files, b.goToolchainPath())
		}
	}
	for _, t := range trees(b.allImages()...) {
		files = append(files, b.debianPath(t))
	}
	for _, f := range files {
		keep[f], keep[f+".json"] = true, true
	}
	return keep
}

// diskUse sums the sizes of the regular files at or below path, in bytes.
func diskUse(path string) (int64, error) {
	var total int64
	err := filepath.WalkDir(path, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			total += info.Size()
		}
		return err
	})
	return total, err
}
