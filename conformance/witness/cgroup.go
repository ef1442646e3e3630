// SPDX-License-Identifier: Apache-2.0

package witness

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/stockade-dev/stockade/conformance/probe"
)

// maxSamples bounds a watch: at ten a second, more than ten minutes.
const maxSamples = 8192

// Numbers are the cgroup samples of a Pod over a phase, in the order of their
// arrival and with the runner's clock, so that the node's does not matter.
// It is safe for concurrent use.
type Numbers struct {
	mu      sync.Mutex
	samples []stamped
	read    int // of them, those with numbers
	problem string
}

type stamped struct {
	at     time.Time
	values map[string]float64 // nil where there was nothing to read any more
}

// Read takes in the output of `probe cgroup` until it ends. It comes from a
// control Pod, which is ours, and is bounded all the same.
func (n *Numbers) Read(r io.Reader, now func() time.Time) error {
	sc := bufio.NewScanner(r)
	sc.Buffer(make([]byte, 0, 4096), probe.MaxSample)
	for sc.Scan() {
		var s probe.Sample
		if err := json.Unmarshal(sc.Bytes(), &s); err != nil {
			return fmt.Errorf("reading a cgroup sample: %w", err)
		}
		if err := n.add(s, now()); err != nil {
			return err
		}
	}
	if err := sc.Err(); err != nil {
		return fmt.Errorf("reading cgroup samples: %w", err)
	}
	return nil
}

func (n *Numbers) add(s probe.Sample, at time.Time) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.samples) >= maxSamples {
		return fmt.Errorf("reading cgroup samples: more than %d", maxSamples)
	}
	if s.Error != "" || len(s.Values) == 0 {
		n.problem, s.Values = s.Error, nil
	} else {
		n.read++
	}
	n.samples = append(n.samples, stamped{at, s.Values})
	return nil
}

// Len is how many samples with numbers arrived.
func (n *Numbers) Len() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.read
}

// Problem is the last error that the reader on the node reported.
func (n *Numbers) Problem() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.problem
}

// Around returns the numbers of the last sample not after begin and of the first
// one not before end, and the time between the two. Where the Pod's cgroup is gone
// by end, the later numbers are the last that there were.
//
// It reports false without a sample on each side of the attempt; that the cgroup is
// gone counts as one at the end. A reader that was lost during the attempt did not
// see what came of it.
func (n *Numbers) Around(begin, end time.Time) (before, after map[string]float64, elapsed time.Duration, ok bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	var b, a *stamped
	enclosed := false
	for i := range n.samples {
		s := &n.samples[i]
		if s.values != nil && !s.at.After(begin) {
			b = s
		}
		if s.values != nil {
			a = s
		}
		if enclosed = !s.at.Before(end); enclosed {
			break
		}
	}
	if !enclosed || b == nil || a == b {
		return nil, nil, 0, false
	}
	return b.values, a.values, a.at.Sub(b.at), true
}
