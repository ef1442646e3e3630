// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"bufio"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
)

// Static knows tokens by their digests.
type Static struct{ tokens []entry }

type entry struct {
	name   string
	digest [sha256.Size]byte
}

var errNoTokens = errors.New("reading the tokens: there is none")

var userName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._@-]{0,62}$`)

// ParseStatic reads one user a line, a name and the SHA-256 of the token:
//
//	alice sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
//
// Whoever reads the file cannot sign in with it, provided that tokens are random
// (openssl rand -hex 32): a digest of a word is the word. Empty lines and those
// that begin with # count for nothing. A user may have several tokens; a token
// has one user.
func ParseStatic(r io.Reader) (*Static, error) {
	s := &Static{}
	seen := map[[sha256.Size]byte]bool{}
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		// The line itself is in no error: somebody may have put a token there.
		fields := strings.Fields(line)
		if len(fields) != 2 || !userName.MatchString(fields[0]) {
			return nil, fmt.Errorf("reading the tokens: line %d is not a name and a digest", n)
		}
		text, ok := strings.CutPrefix(fields[1], "sha256:")
		digest, err := hex.DecodeString(text)
		if !ok || err != nil || len(digest) != sha256.Size {
			return nil, fmt.Errorf("reading the tokens: line %d has no digest sha256:… of 64 hexadecimal digits", n)
		}
		e := entry{name: fields[0], digest: [sha256.Size]byte(digest)}
		if seen[e.digest] {
			return nil, fmt.Errorf("reading the tokens: line %d has a token that somebody has already", n)
		}
		seen[e.digest] = true
		s.tokens = append(s.tokens, e)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("reading the tokens: %w", err)
	}
	if len(s.tokens) == 0 {
		return nil, errNoTokens
	}
	return s, nil
}

// Verify implements [Verifier]. How long it takes depends on the number of
// tokens only.
func (s *Static) Verify(_ context.Context, token string) (Identity, error) {
	digest := sha256.Sum256([]byte(token))
	found := -1
	for i, e := range s.tokens {
		if subtle.ConstantTimeCompare(digest[:], e.digest[:]) == 1 {
			found = i
		}
	}
	if found < 0 {
		return Identity{}, fmt.Errorf("%w: nobody has it", ErrInvalid)
	}
	name := s.tokens[found].name
	return Identity{User: "static:" + name, Name: name, Allowed: true}, nil
}
