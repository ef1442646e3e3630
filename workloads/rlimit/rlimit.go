// SPDX-License-Identifier: Apache-2.0

package rlimit

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Limits are resource limits by name: nproc in tasks of the user, nofile in
// file descriptors, and fsize, core, as and data in bytes.
type Limits map[string]uint64

// names are the limits that can be set, and whether they count bytes.
var names = map[string]bool{"nproc": false, "nofile": false, "fsize": true, "core": true, "as": true, "data": true}

// units are the suffixes of byte counts, as Kubernetes writes them.
var units = map[string]uint64{"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30}

// Parse reads "nproc=128,fsize=32Mi". An empty text is no limit at all. A name
// that stands there twice is an error: which of the two is meant, nobody knows.
func Parse(text string) (Limits, error) {
	l := Limits{}
	for part := range strings.SplitSeq(text, ",") {
		part = strings.TrimSpace(part)
		if part == "" {
			continue
		}
		name, value, found := strings.Cut(part, "=")
		bytes, known := names[name]
		if !found || !known {
			return nil, fmt.Errorf("reading the limit %q: it must be one of %s, with = and a number", part, strings.Join(slices.Sorted(maps.Keys(names)), ", "))
		}
		if _, twice := l[name]; twice {
			return nil, fmt.Errorf("reading the limit %q: %s stands there twice", part, name)
		}
		n, err := number(value, bytes)
		if err != nil {
			return nil, fmt.Errorf("reading the limit %q: %w", part, err)
		}
		l[name] = n
	}
	return l, nil
}

func number(text string, bytes bool) (uint64, error) {
	unit := uint64(1)
	if bytes && len(text) > 2 {
		if u, ok := units[text[len(text)-2:]]; ok {
			unit, text = u, text[:len(text)-2]
		}
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, err
	}
	// The largest number means "no limit" to the kernel.
	if n > (math.MaxUint64-1)/unit {
		return 0, fmt.Errorf("%s is too large", text)
	}
	return n * unit, nil
}

// With returns the limits with others in place of those of the same name.
func (l Limits) With(others Limits) Limits {
	out := maps.Clone(l)
	if out == nil {
		out = Limits{}
	}
	maps.Copy(out, others)
	return out
}

// String writes the limits as [Parse] reads them, ordered by name.
func (l Limits) String() string {
	parts := make([]string, 0, len(l))
	for _, name := range slices.Sorted(maps.Keys(l)) {
		parts = append(parts, fmt.Sprintf("%s=%d", name, l[name]))
	}
	return strings.Join(parts, ",")
}
