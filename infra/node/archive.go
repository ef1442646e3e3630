// SPDX-License-Identifier: Apache-2.0

package node

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// archive is a docker archive in the cache, with its record beside it.
type archive struct{ path string }

func (a archive) record() string { return a.path + ".json" }

// archiveRecord says what is in an archive.
type archiveRecord struct {
	Names   []string          `json:"names"`
	Kubeadm map[string]string `json:"kubeadm,omitempty"`
}

// load returns the record, or false when the archive is not finished. The
// record is written last.
func (a archive) load() (archiveRecord, bool) {
	var r archiveRecord
	raw, err := os.ReadFile(a.record())
	if err != nil || json.Unmarshal(raw, &r) != nil {
		return r, false
	}
	return r, exists(a.path)
}

// store publishes a finished archive out of work.
func (a archive) store(work string, images map[string]v1.Image, r archiveRecord) error {
	tmp := filepath.Join(work, filepath.Base(a.path))
	if err := writeArchive(tmp, images); err != nil {
		return err
	}
	raw, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("describing an archive: %w", err)
	}
	if err := os.WriteFile(tmp+".json", raw, 0o644); err != nil {
		return fmt.Errorf("describing an archive: %w", err)
	}
	if err := publish(tmp, a.path); err != nil {
		return err
	}
	return publish(tmp+".json", a.record())
}

// writeArchive makes a docker archive of images by name, at path.
func writeArchive(to string, images map[string]v1.Image) error {
	refs := map[name.Reference]v1.Image{}
	for n, img := range images {
		tag, err := name.NewTag(n, name.StrictValidation)
		if err != nil {
			return fmt.Errorf("naming an image: %w", err)
		}
		refs[tag] = img
	}
	f, err := os.Create(to)
	if err != nil {
		return fmt.Errorf("writing the archive: %w", err)
	}
	if err := errors.Join(tarball.MultiRefWrite(refs, f), f.Close()); err != nil {
		return fmt.Errorf("writing the archive: %w", explain(err, ""))
	}
	return nil
}

// archiveLayers lists the digests of all layers in a docker archive of ours,
// whose layer files are named by digest.
func archiveLayers(path string) ([]string, error) {
	manifest, err := tarball.LoadManifest(func() (io.ReadCloser, error) { return os.Open(path) })
	if err != nil {
		return nil, fmt.Errorf("reading the images of %s: %w", filepath.Base(path), err)
	}
	seen := map[string]bool{}
	var digests []string
	for _, image := range manifest {
		for _, l := range image.Layers {
			if d := "sha256:" + strings.TrimSuffix(l, ".tar"); !seen[d] {
				seen[d] = true
				digests = append(digests, d)
			}
		}
	}
	return digests, nil
}

// ArchiveNames lists the names of the images in a finished docker archive of ours. It
// reads the record: the archive has its own list at its end, hundreds of megabytes away.
func ArchiveNames(path string) ([]string, error) {
	r, ok := archive{path}.load()
	if !ok {
		return nil, fmt.Errorf("reading the images of %s: it is not finished; `stockade images build` makes it again", filepath.Base(path))
	}
	return r.Names, nil
}
