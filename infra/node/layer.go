// SPDX-License-Identifier: Apache-2.0

package node

import (
	"archive/tar"
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// layerFile is an image layer that lies on disk as a plain tar. Everything
// stays on this machine, so compressing it would only cost time, twice.
type layerFile struct {
	path string
	hash v1.Hash
	size int64
}

var _ v1.Layer = (*layerFile)(nil)

func (l *layerFile) Digest() (v1.Hash, error)             { return l.hash, nil }
func (l *layerFile) DiffID() (v1.Hash, error)             { return l.hash, nil }
func (l *layerFile) Compressed() (io.ReadCloser, error)   { return os.Open(l.path) }
func (l *layerFile) Uncompressed() (io.ReadCloser, error) { return os.Open(l.path) }
func (l *layerFile) Size() (int64, error)                 { return l.size, nil }
func (l *layerFile) MediaType() (types.MediaType, error)  { return types.DockerUncompressedLayer, nil }

// layerWriter writes a tar and its digest in one pass.
type layerWriter struct {
	*tar.Writer
	file *os.File
	buf  *bufio.Writer
	sum  interface{ Sum([]byte) []byte }
	n    countingWriter
}

type countingWriter int64

func (c *countingWriter) Write(p []byte) (int, error) {
	*c += countingWriter(len(p))
	return len(p), nil
}

func newLayerWriter(path string) (*layerWriter, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return nil, fmt.Errorf("making a layer: %w", err)
	}
	h := sha256.New()
	w := &layerWriter{file: f, sum: h}
	w.buf = bufio.NewWriterSize(io.MultiWriter(f, h, &w.n), int(mib))
	w.Writer = tar.NewWriter(w.buf)
	return w, nil
}

func (w *layerWriter) finish() (*layerFile, error) {
	if err := errors.Join(w.Close(), w.buf.Flush(), w.file.Close()); err != nil {
		return nil, fmt.Errorf("finishing a layer: %w", err)
	}
	hash := v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(w.sum.Sum(nil))}
	return &layerFile{w.file.Name(), hash, int64(w.n)}, nil
}

// entry is one file of ours in an image. Exactly one of Content, Source, Link
// and Tree is set, or none for an empty folder.
type entry struct {
	Path string // in the image, without a leading slash
	Mode fs.FileMode

	Content []byte // a small file
	Source  string // a file on the host
	Link    string // a symbolic link's target

	// Tree is a folder on the host whose files go below Path, with the mode
	// that ModeOf gives to each (by its path in the image). ModeOf returns 0
	// to leave a file out.
	Tree   string
	ModeOf func(string) fs.FileMode

	// ID stands for the content of Source and Tree in keys, so that a key can
	// be computed before the file exists.
	ID string
}

// addTo puts into a key all that decides about the entry's bytes.
func (e entry) addTo(k *hasher) {
	k.add("entry", fmt.Sprintf("%s %v %s %s", e.Path, e.Mode, e.Link, e.ID))
	k.add("content", string(e.Content))
}

// writeEntries makes a layer out of entries at path. The same entries give the
// same bytes: sorted, owned by root, without times, parents made once.
func writeEntries(path string, entries []entry) (*layerFile, error) {
	flat, err := flatten(entries)
	if err != nil {
		return nil, err
	}
	w, err := newLayerWriter(path)
	if err != nil {
		return nil, err
	}
	made := map[string]bool{".": true}
	for _, e := range flat {
		if err := w.addEntry(e, made); err != nil {
			return nil, errors.Join(fmt.Errorf("adding /%s to a layer: %w", e.Path, err), w.file.Close())
		}
	}
	return w.finish()
}

// flatten replaces trees by their files and sorts.
func flatten(entries []entry) ([]entry, error) {
	var flat []entry
	for _, e := range entries {
		if e.Tree == "" {
			flat = append(flat, e)
			continue
		}
		err := filepath.WalkDir(e.Tree, func(p string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return err
			}
			rel, err := filepath.Rel(e.Tree, p)
			if err != nil {
				return err
			}
			in := path.Join(e.Path, filepath.ToSlash(rel))
			if mode := e.ModeOf(in); mode != 0 {
				flat = append(flat, entry{Path: in, Mode: mode, Source: p})
			}
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("reading the files of %s: %w", e.ID, err)
		}
	}
	slices.SortStableFunc(flat, func(a, b entry) int { return strings.Compare(a.Path, b.Path) })
	for i := 1; i < len(flat); i++ {
		if flat[i].Path == flat[i-1].Path {
			return nil, fmt.Errorf("assembling a layer: two files claim /%s", flat[i].Path)
		}
	}
	return flat, nil
}

func (w *layerWriter) addEntry(e entry, made map[string]bool) error {
	if err := w.addParents(path.Dir(e.Path), made); err != nil {
		return err
	}
	h := &tar.Header{Name: e.Path, Mode: int64(e.Mode.Perm()), ModTime: time.Unix(0, 0), Format: tar.FormatPAX}
	if e.Mode&fs.ModeSticky != 0 {
		h.Mode |= 0o1000
	}
	switch {
	case e.Link != "":
		h.Typeflag, h.Linkname, h.Mode = tar.TypeSymlink, e.Link, 0o777
		return w.WriteHeader(h)
	case e.Source != "":
		f, err := os.Open(e.Source)
		if err != nil {
			return err
		}
		defer f.Close() //nolint:errcheck // it was only read
		info, err := f.Stat()
		if err != nil {
			return err
		}
		h.Typeflag, h.Size = tar.TypeReg, info.Size()
		if err := w.WriteHeader(h); err != nil {
			return err
		}
		_, err = io.Copy(w, f)
		return err
	case e.Content != nil:
		h.Typeflag, h.Size = tar.TypeReg, int64(len(e.Content))
		if err := w.WriteHeader(h); err != nil {
			return err
		}
		_, err := w.Write(e.Content)
		return err
	}
	if made[e.Path] {
		return nil
	}
	made[e.Path] = true
	h.Typeflag, h.Name = tar.TypeDir, e.Path+"/"
	return w.WriteHeader(h)
}

func (w *layerWriter) addParents(dir string, made map[string]bool) error {
	if made[dir] {
		return nil
	}
	if err := w.addParents(path.Dir(dir), made); err != nil {
		return err
	}
	made[dir] = true
	return w.WriteHeader(&tar.Header{
		Typeflag: tar.TypeDir, Name: dir + "/", Mode: 0o755, ModTime: time.Unix(0, 0), Format: tar.FormatPAX,
	})
}

// layerRecord lies beside a cached layer, so that using it needs no hashing.
type layerRecord struct {
	Digest string `json:"digest"`
	Size   int64  `json:"size"` // bytes
}

// publishLayer moves a layer to its final name, the record first: a layer
// without a record does not exist for loadLayer.
func publishLayer(l *layerFile, to string) (*layerFile, error) {
	raw, err := json.Marshal(layerRecord{l.hash.String(), l.size})
	if err != nil {
		return nil, fmt.Errorf("describing a layer: %w", err)
	}
	record := l.path + ".json"
	if err := os.WriteFile(record, raw, 0o644); err != nil {
		return nil, fmt.Errorf("describing a layer: %w", err)
	}
	if err := publish(record, to+".json"); err != nil {
		return nil, err
	}
	if err := publish(l.path, to); err != nil {
		return nil, err
	}
	return &layerFile{to, l.hash, l.size}, nil
}

// loadLayer finds a cached layer. It reports false for one that is missing or
// whose size is not what was recorded.
func loadLayer(p string) (*layerFile, bool) {
	raw, err := os.ReadFile(p + ".json")
	if err != nil {
		return nil, false
	}
	var r layerRecord
	if err := json.Unmarshal(raw, &r); err != nil {
		return nil, false
	}
	hash, err := v1.NewHash(r.Digest)
	if err != nil {
		return nil, false
	}
	info, err := os.Stat(p)
	if err != nil || info.Size() != r.Size {
		return nil, false
	}
	return &layerFile{p, hash, r.Size}, true
}
