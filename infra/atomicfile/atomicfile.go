// SPDX-License-Identifier: Apache-2.0

// Package atomicfile writes files as a whole or not at all.
//
// Whoever reads one meanwhile, or after the writer was killed, sees the old
// content or the new, and never half of it. That the machine itself may lose
// power is not provided for: nothing is flushed to the disk.
package atomicfile

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// Write replaces the file at path by one with this content and mode. An error
// leaves what was there before.
func Write(path string, content []byte, mode fs.FileMode) error {
	return WriteFunc(path, mode, func(w io.Writer) error {
		_, err := w.Write(content)
		return err
	})
}

// WriteFunc does the same with the content that write writes. What write
// returns is returned, and leaves what was there before.
func WriteFunc(path string, mode fs.FileMode, write func(io.Writer) error) error {
	// Beside the file, since a rename does not cross file systems; hidden, so
	// that no pattern of ours takes it for a finished one.
	tmp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	if err = errors.Join(write(tmp), tmp.Chmod(mode), tmp.Close()); err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(tmp.Name()))
	}
	return nil
}
