// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"
)

// reread is how old what is known of a file may be. Whoever asks later has it
// read again.
const reread = 2 * time.Second

// StaticFile is the static tokens in a file as it is now, so that taking a line
// away revokes a token. In a file without a line, nobody has one. A file that
// cannot be read leaves those that were there, and the log says so.
type StaticFile struct {
	path string
	log  *slog.Logger
	now  func() time.Time

	mu     sync.Mutex
	text   []byte
	tokens *Static
	next   time.Time // not read before
	why    string    // it could not be read the last time; empty if it could
}

// OpenStatic reads a file of the form of [ParseStatic]. Here it must have a token:
// a server that nobody may use is a mistake.
func OpenStatic(path string, log *slog.Logger) (*StaticFile, error) {
	f := &StaticFile{path: path, log: log, now: time.Now}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading the tokens: %w", err)
	}
	if f.tokens, err = ParseStatic(bytes.NewReader(text)); err != nil {
		return nil, err
	}
	f.text, f.next = text, f.now().Add(reread)
	return f, nil
}

// Verify implements [Verifier].
func (f *StaticFile) Verify(ctx context.Context, token string) (Identity, error) {
	return f.current(ctx).Verify(ctx, token)
}

func (f *StaticFile) current(ctx context.Context) *Static {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.now().Before(f.next) {
		return f.tokens
	}
	f.next = f.now().Add(reread)
	if err := f.read(ctx); err != nil {
		if why := err.Error(); why != f.why {
			f.log.ErrorContext(ctx, "the tokens are those from before", "err", err)
			f.why = why
		}
		return f.tokens
	}
	f.why = ""
	return f.tokens
}

func (f *StaticFile) read(ctx context.Context) error {
	text, err := os.ReadFile(f.path)
	if err != nil {
		return fmt.Errorf("reading the tokens: %w", err)
	}
	// By content: a mounted Secret is a link to another folder after a change.
	if bytes.Equal(text, f.text) {
		return nil
	}
	tokens, err := ParseStatic(bytes.NewReader(text))
	if errors.Is(err, errNoTokens) {
		tokens, err = &Static{}, nil
	}
	if err != nil {
		return err
	}
	f.text, f.tokens = text, tokens
	f.log.InfoContext(ctx, "the tokens have changed", "tokens", len(tokens.tokens))
	return nil
}
