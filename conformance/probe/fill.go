// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// fillBlock is how much is written at a time, in bytes.
const fillBlock = 1 << 20

// Fill writes up to want bytes into new files of dir, of at most piece bytes
// each, and removes them. It returns what they held in the end, not what the
// writes returned, beside the error that ended it: a file system may find out
// late that there is no room.
func Fill(ctx context.Context, dir, nonce string, want, piece int64) (n int64, err error) {
	block := make([]byte, fillBlock)
	for i := range block {
		block[i] = byte(i) | 1 // no holes: zeroes may be stored as nothing
	}
	var made []string
	defer func() {
		for _, f := range made {
			_ = os.Remove(f) // the sandbox is thrown away
		}
	}()
	for i := 0; n < want && err == nil; i++ {
		name := filepath.Join(dir, fmt.Sprintf(".stockade-fill-%s-%d", nonce, i))
		made = append(made, name)
		var k int64
		k, err = fillFile(ctx, name, block, min(piece, want-n))
		n += k
	}
	return n, err
}

func fillFile(ctx context.Context, name string, block []byte, want int64) (n int64, err error) {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return 0, err
	}
	for n < want && err == nil {
		if err = ctx.Err(); err != nil {
			break
		}
		var k int
		k, err = f.Write(block[:min(int64(len(block)), want-n)])
		n += int64(k)
	}
	err = errors.Join(err, f.Sync())
	if info, serr := f.Stat(); serr == nil {
		n = min(n, info.Size())
	} else {
		err = errors.Join(err, serr)
	}
	return n, errors.Join(err, f.Close())
}
