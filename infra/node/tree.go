// SPDX-License-Identifier: Apache-2.0

package node

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// treeOptions say how a directory tree becomes a layer.
type treeOptions struct {
	// Skip names folders (relative, with slashes) whose content is left out.
	Skip []string
	// Lower is the tree below, when the one that is packed is the upper side
	// of an overlay mount: what that side marks as deleted becomes the
	// whiteout files that image layers use.
	Lower string
}

// writeTree makes a layer at path out of a whole directory tree. Owners, times and
// capabilities are kept.
//
// Without a lower tree nothing may be marked as deleted: whiteouts that the image's
// own layers contain are lost when the tree is packed again.
func writeTree(path, root string, o treeOptions) (*layerFile, error) {
	w, err := newLayerWriter(path)
	if err != nil {
		return nil, err
	}
	links := map[inode]string{}
	err = filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil || p == root {
			return err
		}
		rel, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		if slices.ContainsFunc(o.Skip, func(s string) bool { return strings.HasPrefix(rel, s+"/") }) {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		return w.addFile(p, rel, o.Lower, links)
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("packing a file system: %w", err), w.file.Close())
	}
	return w.finish()
}

type inode struct{ dev, ino uint64 }

func (w *layerWriter) addFile(p, rel, lower string, links map[inode]string) error {
	info, err := os.Lstat(p)
	if err != nil {
		return err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return fmt.Errorf("reading the owner of /%s: not supported here", rel)
	}
	if info.Mode()&fs.ModeSocket != 0 {
		return nil
	}
	if info.Mode()&fs.ModeCharDevice != 0 && st.Rdev == 0 {
		if lower == "" {
			return fmt.Errorf("packing /%s: a file deleted by an image's layer cannot be carried along", rel)
		}
		return w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: path.Join(path.Dir(rel), ".wh."+path.Base(rel))})
	}
	h, err := headerOf(p, rel, info)
	if err != nil {
		return err
	}
	if info.Mode().IsRegular() && st.Nlink > 1 {
		id := inode{st.Dev, st.Ino}
		if first, ok := links[id]; ok {
			h.Typeflag, h.Linkname, h.Size = tar.TypeLink, first, 0
			return w.WriteHeader(h)
		}
		links[id] = rel
	}
	if err := w.WriteHeader(h); err != nil {
		return err
	}
	// The kernel also marks folders that are merely new, which need no mark.
	if info.IsDir() && xattr(p, "trusted.overlay.opaque") == "y" && (lower == "" || exists(filepath.Join(lower, rel))) {
		if lower == "" {
			return fmt.Errorf("packing /%s: a folder replaced by an image's layer cannot be carried along", rel)
		}
		return w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: rel + "/.wh..wh..opq"})
	}
	if !info.Mode().IsRegular() {
		return nil
	}
	f, err := os.Open(p)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // it was only read
	_, err = io.Copy(w, f)
	return err
}

// headerOf describes a file by what belongs to it. Names of users belong to the
// host, and access times change with every look.
func headerOf(p, rel string, info fs.FileInfo) (*tar.Header, error) {
	var target string
	if info.Mode()&fs.ModeSymlink != 0 {
		var err error
		if target, err = os.Readlink(p); err != nil {
			return nil, err
		}
	}
	h, err := tar.FileInfoHeader(info, target)
	if err != nil {
		return nil, err
	}
	h.Name, h.Format = rel, tar.FormatPAX
	if info.IsDir() {
		h.Name += "/"
	}
	h.Uname, h.Gname = "", ""
	h.AccessTime, h.ChangeTime = time.Time{}, time.Time{}
	h.ModTime = h.ModTime.Truncate(time.Second)
	if caps := xattr(p, "security.capability"); caps != "" {
		h.PAXRecords = map[string]string{"SCHILY.xattr.security.capability": caps}
	}
	return h, nil
}

// xattr returns an extended attribute, or nothing: file systems without them
// are no error.
func xattr(p, name string) string {
	buf := make([]byte, 256)
	n, err := unix.Lgetxattr(p, name, buf)
	if err != nil || n < 0 {
		return ""
	}
	return string(buf[:n])
}
