// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"
)

// reread is how old what is known of a file may be. Whoever asks later has it
// read again.
const reread = 2 * time.Second

// file is what files say now, so that a change needs no restart. Files that
// cannot be read leave what was there, and the log says so.
type file[T any] struct {
	what  string // is in them, for the log
	paths []string
	parse func(...io.Reader) (T, error)
	log   *slog.Logger
	now   func() time.Time

	mu    sync.Mutex
	texts [][]byte
	value T
	next  time.Time // not read before
	why   string    // they could not be read the last time; empty if they could
}

// open reads the files for the first time.
func (f *file[T]) open() error {
	f.now = time.Now
	f.next = f.now().Add(reread)
	_, err := f.read()
	return err
}

func (f *file[T]) current(ctx context.Context) T {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.now().Before(f.next) {
		return f.value
	}
	f.next = f.now().Add(reread)
	changed, err := f.read()
	if err != nil {
		if why := err.Error(); why != f.why {
			f.log.ErrorContext(ctx, f.what+" are those from before", "err", err)
			f.why = why
		}
		return f.value
	}
	f.why = ""
	if changed {
		f.log.InfoContext(ctx, f.what+" have changed")
	}
	return f.value
}

func (f *file[T]) read() (changed bool, err error) {
	texts := make([][]byte, len(f.paths))
	readers := make([]io.Reader, len(f.paths))
	for i, path := range f.paths {
		if texts[i], err = os.ReadFile(path); err != nil {
			return false, fmt.Errorf("reading %s: %w", f.what, err)
		}
		readers[i] = bytes.NewReader(texts[i])
	}
	// By content: a mounted Secret is a link to another folder after a change.
	if f.texts != nil && slices.EqualFunc(texts, f.texts, bytes.Equal) {
		return false, nil
	}
	value, err := f.parse(readers...)
	if err != nil {
		return false, err
	}
	f.texts, f.value = texts, value
	return true, nil
}

// StaticFile is the static tokens in a file as it is now, so that taking a line
// away revokes a token. In a file without a line, nobody has one.
type StaticFile struct{ file[*Static] }

// OpenStatic reads a file of the form of [ParseStatic]. Here it must have a token:
// a server that nobody may use is a mistake.
func OpenStatic(path string, log *slog.Logger) (*StaticFile, error) {
	f := &StaticFile{file[*Static]{what: "the tokens", paths: []string{path}, log: log}}
	f.parse = func(r ...io.Reader) (*Static, error) { return ParseStatic(r[0]) }
	if err := f.open(); err != nil {
		return nil, err
	}
	f.parse = func(r ...io.Reader) (*Static, error) {
		tokens, err := ParseStatic(r[0])
		if errors.Is(err, errNoTokens) {
			return &Static{}, nil
		}
		return tokens, err
	}
	return f, nil
}

// Verify implements [Verifier].
func (f *StaticFile) Verify(ctx context.Context, token string) (Identity, error) {
	return f.current(ctx).Verify(ctx, token)
}

// KeysFile is the keys in files as they are now, so that taking a key away revokes
// what it has signed.
type KeysFile struct{ file[KeySet] }

// OpenKeys reads files of the form of [ParseKeys].
func OpenKeys(paths []string, log *slog.Logger) (*KeysFile, error) {
	f := &KeysFile{file[KeySet]{what: "the keys", paths: paths, parse: ParseKeys, log: log}}
	if err := f.open(); err != nil {
		return nil, err
	}
	return f, nil
}

// VerifySignature implements [KeySet].
func (f *KeysFile) VerifySignature(ctx context.Context, token string) ([]byte, error) {
	return f.current(ctx).VerifySignature(ctx, token)
}
