// SPDX-License-Identifier: Apache-2.0

//go:build linux

package kind

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/stockade-dev/stockade/infra/node"
	"github.com/stockade-dev/stockade/infra/progress"
)

// loadNodeImage gives the node image to the engine, once.
func (o Options) loadNodeImage(ctx context.Context, images node.Images, rep *progress.Reporter) (err error) {
	if _, err := o.Engine.Docker(ctx, "image", "inspect", "--format", "{{.Id}}", images.NodeTag); err == nil {
		return nil
	}
	done := rep.Step("loading the node image")
	defer func() { done("", err) }()
	if _, err := o.Engine.Docker(ctx, "load", "--quiet", "--input", images.NodeArchive); err != nil {
		return fmt.Errorf("loading the node image: %w", err)
	}
	return o.dropOldNodeImages(ctx, images.NodeTag, rep)
}

// dropOldNodeImages removes all node images but one: they are gigabytes, and no
// cluster uses the older ones any more.
func (o Options) dropOldNodeImages(ctx context.Context, keep string, rep *progress.Reporter) error {
	tags, err := o.Engine.Docker(ctx, "image", "ls", "--format", "{{.Repository}}:{{.Tag}}")
	if err != nil {
		return fmt.Errorf("looking for older node images: %w", err)
	}
	repository, _, _ := strings.Cut(keep, ":")
	for tag := range strings.FieldsSeq(tags) {
		if strings.HasPrefix(tag, repository+":") && tag != keep {
			if _, err := o.Engine.Docker(ctx, "image", "rm", tag); err != nil {
				rep.Note("removing an older node image: %v", err)
			}
		}
	}
	return nil
}

// refresh imports into a healthy cluster the archives that it lacks. Our own
// programs change often, and each archive is named after its content; a profile
// that is deployed for the first time needs archives of its own.
func (o Options) refresh(ctx context.Context, id Identity, archives []string, rep *progress.Reporter) error {
	var missing []string
	for _, a := range archives {
		if !slices.Contains(id.Archives, filepath.Base(a)) {
			missing = append(missing, a)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	nodes, err := o.running(ctx)
	if err != nil {
		return err
	}
	digests, err := importImages(ctx, nodes, missing, rep)
	if err != nil {
		return err
	}
	id.Archives = imported(id.Archives, baseNames(missing))
	if id.Digests == nil {
		id.Digests = map[string]string{}
	}
	maps.Copy(id.Digests, digests)
	return id.write(o.identityPath())
}

// imported returns the archives whose images the nodes have once more has been
// imported. An older archive of the same program is left out: the tag has moved to
// the new image, so that going back to the old one takes another import.
func imported(had, more []string) []string {
	program := func(archive string) string { return archive[:max(0, strings.LastIndexByte(archive, '-'))] }
	kept := slices.DeleteFunc(slices.Clone(had), func(a string) bool {
		return slices.ContainsFunc(more, func(b string) bool { return program(a) == program(b) })
	})
	return append(kept, more...)
}

func baseNames(paths []string) []string {
	names := make([]string, len(paths))
	for i, p := range paths {
		names[i] = filepath.Base(p)
	}
	return names
}

// importImages puts docker archives into every node's containerd, and returns
// the images' references by digest, by the names that they came with.
func importImages(ctx context.Context, nodes, archives []string, rep *progress.Reporter) (digests map[string]string, err error) {
	if len(archives) == 0 {
		return nil, nil
	}
	done := rep.Step("importing images into the nodes")
	defer func() { done("", err) }()
	var names []string
	for _, archive := range archives {
		n, err := node.ArchiveNames(archive)
		if err != nil {
			return nil, fmt.Errorf("importing images: %w", err)
		}
		names = append(names, n...)
	}
	g, ctx := errgroup.WithContext(ctx)
	found := make([]map[string]string, len(nodes))
	for i, name := range nodes {
		g.Go(func() error {
			for _, archive := range archives {
				if err := importImage(ctx, name, archive); err != nil {
					return err
				}
			}
			var err error
			found[i], err = nameDigests(ctx, name, names)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	for i, other := range found[1:] {
		for name, digest := range other {
			if was := found[0][name]; was != digest {
				return nil, fmt.Errorf("importing images: %s is %s on node %s and %s on node %s", name, was, nodes[0], digest, nodes[i+1])
			}
		}
	}
	return found[0], nil
}

// importImage puts a docker archive into one node's containerd, so that Pods
// there can use its images without pulling them.
func importImage(ctx context.Context, nodeName, archive string) error {
	f, err := os.Open(archive)
	if err != nil {
		return fmt.Errorf("importing an image: %w", err)
	}
	defer f.Close() //nolint:errcheck // it was only read
	if _, err := ctr(ctx, nodeName, f, "images", "import", "--snapshotter=overlayfs", "-"); err != nil {
		return fmt.Errorf("importing %s: %w", filepath.Base(archive), err)
	}
	return nil
}

// nameDigests gives images of a node a second name, by their digest: the kubelet
// looks a Pod's image up by its name, and an import knows tags alone. The digest
// is containerd's own, of the manifest that it made of the archive.
func nameDigests(ctx context.Context, nodeName string, names []string) (map[string]string, error) {
	out, err := ctr(ctx, nodeName, nil, "images", "ls")
	if err != nil {
		return nil, fmt.Errorf("listing the images: %w", err)
	}
	tags, named := parseImages(out)
	digests := map[string]string{}
	for _, name := range names {
		by, ok := tags[name]
		if !ok {
			return nil, fmt.Errorf("listing the images: %s was imported into node %s and is not there", name, nodeName)
		}
		digests[name] = by
		if named[by] {
			continue
		}
		if _, err := ctr(ctx, nodeName, nil, "images", "tag", name, by); err != nil {
			return nil, fmt.Errorf("naming %s by its digest: %w", name, err)
		}
	}
	return digests, nil
}

// parseImages reads containerd's table of images: name, media type, digest, and
// more. It returns the references by digest of the images with a tag, and which
// of these names there are already.
func parseImages(table string) (tags map[string]string, named map[string]bool) {
	tags, named = map[string]string{}, map[string]bool{}
	for line := range strings.Lines(table) {
		f := strings.Fields(line)
		if len(f) < 3 || !strings.HasPrefix(f[2], "sha256:") || strings.HasPrefix(f[0], "sha256:") {
			continue // the head, or an image by its id alone
		}
		if strings.Contains(f[0], "@") {
			named[f[0]] = true
			continue
		}
		repository := f[0]
		if i := strings.LastIndexByte(repository, ':'); i > strings.LastIndexByte(repository, '/') {
			repository = repository[:i]
		}
		tags[f[0]] = repository + "@" + f[2]
	}
	return tags, named
}

// ctr runs containerd's own client in a node.
func ctr(ctx context.Context, nodeName string, stdin io.Reader, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "docker", append([]string{"exec", "--interactive", nodeName, "ctr", "--namespace=k8s.io"}, args...)...)
	cmd.Stdin = stdin
	var out, diag bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &diag
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("ctr %s on node %s: %w: %s", args[0], nodeName, err, bytes.TrimSpace(append(out.Bytes(), diag.Bytes()...)))
	}
	return out.String(), nil
}
