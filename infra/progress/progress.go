// SPDX-License-Identifier: Apache-2.0

// Package progress reports what a long operation is doing, to a person.
//
// Everything it writes goes to the writer it is given (stderr in the CLI):
// stdout is for data.
package progress

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// Reporter prints one line when a step begins that is expected to take long,
// and one when it ends. The zero value and nil are silent. It is safe for
// concurrent use, so that steps may overlap.
type Reporter struct {
	mu    sync.Mutex
	w     io.Writer
	clean func(string) string
	start time.Time
}

// New returns a Reporter that writes to w. Everything that it is told passes
// through clean first: a step's note and its error may quote what a sandbox
// sent, and a terminal obeys what it is sent.
func New(w io.Writer, clean func(string) string) *Reporter {
	return &Reporter{w: w, clean: clean, start: time.Now()}
}

// Step announces name and returns the function that closes it. The note is
// free text ("cached", "12.3 MB"); err is printed when it is not nil.
func (r *Reporter) Step(name string) func(note string, err error) {
	began := time.Now()
	r.line("…", name, "")
	return func(note string, err error) {
		took := time.Since(began).Round(100 * time.Millisecond).String()
		if note != "" {
			note = ", " + note
		}
		if err != nil {
			r.line("✗", name, fmt.Sprintf(" (%s%s): %v", took, note, err))
			return
		}
		r.line("✓", name, fmt.Sprintf(" (%s%s)", took, note))
	}
}

// Note prints one line that is neither a beginning nor an end.
func (r *Reporter) Note(format string, args ...any) {
	r.line("·", fmt.Sprintf(format, args...), "")
}

func (r *Reporter) line(mark, name, rest string) {
	if r == nil || r.w == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	elapsed := time.Since(r.start).Seconds()
	_, _ = fmt.Fprintf(r.w, "%6.1fs %s %s\n", elapsed, mark, r.clean(name+rest))
}
