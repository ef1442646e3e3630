// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

//go:embed scripts/preload.sh
var preloadScript string

// preload makes a layer that holds containerd's state after importing an
// archive. Docker copies it into the volume that kind mounts at /var, which is
// several times faster than an import into each node of each new cluster.
func (b *builder) preload(ctx context.Context, work, archive string) (layer v1.Layer, err error) {
	if err := debianPreconditions(); err != nil {
		return nil, err
	}
	done := b.rep.Step("preloading the images into the node image")
	defer func() { done("", err) }()

	layers, err := archiveLayers(archive)
	if err != nil {
		return nil, err
	}
	tree := filepath.Join(work, "preload")
	root := filepath.Join(tree, "var", "lib", "containerd")
	state := filepath.Join(work, "state")
	for _, dir := range []string{root, state} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, fmt.Errorf("preloading images: %w", err)
		}
	}
	_, err = b.namespaced(preloadScript, "ARCHIVE="+archive, "ROOT="+root, "STATE="+state,
		"BIN="+b.components["containerd"].Dir, "LAYERS="+strings.Join(layers, " ")).run(ctx)
	if err != nil {
		return nil, fmt.Errorf("preloading images: %w", explain(err, ""))
	}
	l, err := writeTree(filepath.Join(work, "preload.tar"), tree, treeOptions{})
	if err != nil {
		return nil, err
	}
	// Only the layer is needed from here on, and space is dear.
	if err := os.RemoveAll(tree); err != nil {
		return nil, fmt.Errorf("preloading images: %w", err)
	}
	return l, nil
}
