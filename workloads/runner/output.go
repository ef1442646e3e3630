// SPDX-License-Identifier: Apache-2.0

package runner

import "sync"

// output keeps the beginning of what is written to it. It takes the rest as
// well and forgets it: a program that talks too much must not be blocked, nor
// broken by a pipe that closes. It is safe for concurrent use.
type output struct {
	mu   sync.Mutex
	kept []byte
	max  int
	cut  bool
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	room := o.max - len(o.kept)
	if room < len(p) {
		o.cut = true
	}
	o.kept = append(o.kept, p[:min(room, len(p))]...)
	return len(p), nil
}

// text is what was kept, and whether there was more.
func (o *output) text() (string, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return string(o.kept), o.cut
}
