// SPDX-License-Identifier: Apache-2.0

package runner

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// seed makes a build cache at dir that already has what is in the cache from,
// by links: the go command reads through them, writes beside them, and its
// attempts to touch a file of a read-only image do no harm. A copy would take
// memory that the sandbox needs.
func seed(from, dir string) error {
	shards, err := os.ReadDir(from)
	if err != nil {
		return fmt.Errorf("seeding the build cache: %w", err)
	}
	for _, shard := range shards {
		if !shard.IsDir() {
			continue
		}
		if err := link(filepath.Join(from, shard.Name()), filepath.Join(dir, shard.Name())); err != nil {
			return fmt.Errorf("seeding the build cache: %w", err)
		}
	}
	// An image's files may bear any date. Without this note of a trimming just
	// done, the first build would remove all that look old.
	now := strconv.FormatInt(time.Now().Unix(), 10)
	if err := os.WriteFile(filepath.Join(dir, "trim.txt"), []byte(now), 0o600); err != nil {
		return fmt.Errorf("seeding the build cache: %w", err)
	}
	return nil
}

func link(from, to string) error {
	entries, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	for _, e := range entries {
		// A container that was restarted finds the links of its predecessor.
		err := os.Symlink(filepath.Join(from, e.Name()), filepath.Join(to, e.Name()))
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return nil
}
