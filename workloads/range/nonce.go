// SPDX-License-Identifier: Apache-2.0

package rangehost

import (
	"bytes"
	"slices"
	"strings"

	"github.com/stockade-dev/stockade/workloads/range/world"
)

// Lengths and limits of what the scanner looks for.
const (
	nonceLen = 32 // hex digits
	// A nonce may stand inside a longer run of hex digits, because an encoder
	// put more before or after it. Of a run, the first windows are all taken
	// and the last one always; what lies between in a hex dump is skipped.
	maxWindows = 33
	maxFound   = 1024 // distinct nonces of one stream
)

// scanner finds nonces and canaries in a stream that comes in pieces. It
// keeps no more than a canary's length of the stream.
type scanner struct {
	run     int // hex digits at the end of what was seen
	window  [nonceLen]byte
	seen    map[string]bool
	tail    []byte // for canaries across pieces
	limited bool   // more than maxFound were found
}

// feed scans the next piece and returns what is new in it.
func (s *scanner) feed(p []byte) (nonces, canaries []string) {
	for _, c := range p {
		if c >= 'A' && c <= 'F' {
			c += 'a' - 'A' // DNS resolvers may randomise case
		}
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			nonces = s.last(nonces)
			s.run = 0
			continue
		}
		s.window[s.run%nonceLen] = c
		s.run++
		if s.run >= nonceLen && s.run < nonceLen+maxWindows {
			nonces = s.add(nonces, s.current())
		}
	}
	// The end of a piece may be the end of the run.
	return s.last(nonces), s.canaries(p)
}

// last adds the final window of a long run.
func (s *scanner) last(to []string) []string {
	if s.run >= nonceLen+maxWindows {
		return s.add(to, s.current())
	}
	return to
}

func (s *scanner) current() string {
	at := s.run % nonceLen
	return string(s.window[at:]) + string(s.window[:at])
}

func (s *scanner) canaries(p []byte) (found []string) {
	const whole = len(world.CanaryPrefix) + nonceLen
	text := append(s.tail, p...) //nolint:gocritic // the tail is replaced below
	for at := 0; ; {
		i := bytes.Index(text[at:], []byte(world.CanaryPrefix))
		if i < 0 || at+i+whole > len(text) {
			break
		}
		at += i
		if hex := text[at+len(world.CanaryPrefix) : at+whole]; isHex(string(hex)) {
			found = s.add(found, string(text[at:at+whole]))
		}
		at += len(world.CanaryPrefix)
	}
	s.tail = slices.Clone(text[max(0, len(text)-whole+1):])
	return found
}

func (s *scanner) add(to []string, v string) []string {
	if s.seen[v] {
		return to
	}
	if len(s.seen) >= maxFound {
		s.limited = true
		return to
	}
	if s.seen == nil {
		s.seen = map[string]bool{}
	}
	s.seen[v] = true
	return append(to, v)
}

// findNonces returns the nonces and canaries of one datagram or string, and
// whether those are all.
func findNonces(p []byte) (nonces, canaries []string, all bool) {
	var s scanner
	nonces, canaries = s.feed(p)
	return nonces, canaries, !s.limited
}

// findInName returns the nonces in a DNS name. A tunnel splits its payload
// into labels, so that they are joined first; each label alone is a part of
// the joined text, whose windows cover it.
func findInName(name string) []string {
	joined := strings.ToLower(strings.ReplaceAll(name, ".", ""))
	var s scanner
	var found []string
	// A name has at most 255 bytes: every window can be had.
	for i := 0; i+nonceLen <= len(joined) && i < 255; i++ {
		if w := joined[i : i+nonceLen]; isHex(w) {
			found = s.add(found, w)
		}
	}
	return found
}

// isHex says whether s is lower-case hex.
func isHex(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// merge appends to a what of b is not in it.
func merge(a, b []string) []string {
	for _, v := range b {
		if !slices.Contains(a, v) {
			a = append(a, v)
		}
	}
	return a
}
