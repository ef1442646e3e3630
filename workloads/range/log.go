// SPDX-License-Identifier: Apache-2.0

package rangehost

import (
	"bufio"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/stockade-dev/stockade/workloads/range/rangeclient"
)

// Bounds of the log. Events that carry a nonce or a canary are kept apart, so
// that a flood without nonces cannot push them out.
const (
	markedBytes  = 64 << 20
	plainBytes   = 16 << 20
	maxFileBytes = 512 << 20 // of which plain events may use half
	asideBytes   = 64 << 20  // more than that is not read back
	maxLineBytes = 128 << 10
	maxNonces    = 256 // of one event
	maxText      = 1024
)

// eventLog is the append-only log: an NDJSON file and what memory holds of it.
type eventLog struct {
	mu      sync.Mutex
	file    *os.File
	size    int64
	seq     uint64
	marked  deque // with nonces or canaries
	plain   deque
	lost    uint64
	evicted uint64
	failed  error // of a write to the file
	run     string
	now     func() time.Time
}

// deque is a list of events by sequence number, bounded in bytes.
type deque struct {
	events []rangeclient.Event
	bytes  int
	max    int
}

// push appends e and returns the newest sequence number that had to go.
func (d *deque) push(e rangeclient.Event) (evicted uint64) {
	d.events = append(d.events, e)
	d.bytes += cost(e)
	n := 0
	for d.bytes > d.max && n < len(d.events)-1 {
		d.bytes -= cost(d.events[n])
		evicted = d.events[n].Seq
		n++
	}
	// Appending to a re-sliced list moves it now and then, which frees the head.
	d.events = d.events[n:]
	return evicted
}

// after returns the events with a greater sequence number.
func (d *deque) after(seq uint64) []rangeclient.Event {
	i := sort.Search(len(d.events), func(i int) bool { return d.events[i].Seq > seq })
	return d.events[i:]
}

// cost is about what an event takes in memory.
func cost(e rangeclient.Event) int {
	n := 256 + len(e.Src) + len(e.Dst) + len(e.SNI) + len(e.Host) + len(e.Path) + len(e.Name)
	return n + 48*len(e.Nonces) + 64*len(e.Canaries)
}

// asideSuffix is added to the name of a log that has grown too long.
const asideSuffix = ".old"

// openLog opens or creates the file and reads back what an earlier run wrote:
// the sequence goes on, so that a client's mark stays valid. A line torn by a
// kill is cut off. A log that has grown too long to be read at every start, and
// would be full one day, is set aside, and the one before it is gone.
func openLog(path string, now func() time.Time) (*eventLog, error) {
	if info, err := os.Stat(path); err == nil && info.Size() > asideBytes {
		if err := os.Rename(path, path+asideSuffix); err != nil {
			return nil, fmt.Errorf("setting the range's log aside: %w", err)
		}
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the range's log: %w", err)
	}
	l := &eventLog{
		file: f, now: now, run: randomHex(8),
		marked: deque{max: markedBytes}, plain: deque{max: plainBytes},
	}
	if err := l.reload(); err != nil {
		return nil, errors.Join(fmt.Errorf("reading the range's log %s: %w (move it away to start a new one)", path, err), f.Close())
	}
	return l, nil
}

func (l *eventLog) reload() error {
	r := bufio.NewReaderSize(l.file, maxLineBytes)
	for {
		line, err := r.ReadSlice('\n')
		switch {
		case errors.Is(err, io.EOF):
			// What has no line end was never complete.
			return l.file.Truncate(l.size)
		case err != nil:
			return fmt.Errorf("after event %d: %w", l.seq, err)
		}
		var e rangeclient.Event
		if err := json.Unmarshal(line, &e); err != nil {
			return fmt.Errorf("after event %d: %w", l.seq, err)
		}
		if e.Seq != l.seq+1 {
			return fmt.Errorf("event %d follows event %d", e.Seq, l.seq)
		}
		l.size += int64(len(line))
		l.seq = e.Seq
		l.keep(e)
	}
}

// append writes one event down and returns its sequence number. It never
// fails towards the caller: what cannot be written is counted as lost. An
// event with very many nonces becomes several.
func (l *eventLog) append(e rangeclient.Event) uint64 {
	for len(e.Nonces) > maxNonces {
		part := e
		part.Nonces, part.Canaries = e.Nonces[:maxNonces], nil
		l.write(part)
		e.Nonces = e.Nonces[maxNonces:]
	}
	return l.write(e)
}

func (l *eventLog) write(e rangeclient.Event) uint64 {
	clip(&e)
	marked := len(e.Nonces)+len(e.Canaries) > 0
	l.mu.Lock()
	defer l.mu.Unlock()
	limit := int64(maxFileBytes)
	if !marked {
		limit /= 2
	}
	if l.file == nil || l.size >= limit {
		l.lost++
		return l.seq
	}
	e.Seq, e.Time = l.seq+1, l.now().UTC()
	line, err := json.Marshal(e)
	if err != nil {
		l.lost++
		return l.seq
	}
	line = append(line, '\n')
	// One write a line: with O_APPEND, a kill leaves at most one torn line.
	if n, err := l.file.Write(line); err != nil {
		l.lost++
		l.failed = err
		if n > 0 {
			// A torn line in the middle would spoil the rest.
			if terr := l.file.Truncate(l.size); terr != nil {
				l.failed = errors.Join(err, terr)
			}
		}
		return l.seq
	}
	l.size += int64(len(line))
	l.seq = e.Seq
	l.keep(e)
	return l.seq
}

func (l *eventLog) keep(e rangeclient.Event) {
	if len(e.Nonces)+len(e.Canaries) > 0 {
		l.evicted = max(l.evicted, l.marked.push(e))
	} else {
		l.plain.push(e)
	}
}

// find returns the nonces and canaries of one datagram or packet. One that has more
// than are looked for is counted as lost: any may be among the others.
func (l *eventLog) find(p []byte) (nonces, canaries []string) {
	nonces, canaries, all := findNonces(p)
	if !all {
		l.lose(1)
	}
	return nonces, canaries
}

// lose counts arrivals that were not written down.
func (l *eventLog) lose(n uint64) {
	if n == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lost += n
}

// query returns at most a page of events after since, oldest first.
func (l *eventLog) query(since uint64, nonce string, limit int) []rangeclient.Event {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make([]rangeclient.Event, 0, 16)
	a, b := l.marked.after(since), l.plain.after(since)
	if nonce != "" {
		b = nil
	}
	for len(out) < limit && len(a)+len(b) > 0 {
		var e rangeclient.Event
		if len(b) == 0 || (len(a) > 0 && a[0].Seq < b[0].Seq) {
			e, a = a[0], a[1:]
		} else {
			e, b = b[0], b[1:]
		}
		if nonce == "" || slices.Contains(e.Nonces, nonce) {
			out = append(out, e)
		}
	}
	return out
}

// state fills in what the log knows of the range's health.
func (l *eventLog) state(h *rangeclient.Health) {
	l.mu.Lock()
	defer l.mu.Unlock()
	h.Run, h.Seq, h.Lost, h.Evicted = l.run, l.seq, l.lost, l.evicted
	switch {
	case l.failed != nil:
		h.OK, h.Problem = false, "writing the log: "+l.failed.Error()+"; `stockade up` starts the range again"
	case l.lost > 0 && l.size >= maxFileBytes/2:
		h.OK, h.Problem = false, fmt.Sprintf("its log is full, with %d MiB; `stockade up` starts the range with another one", l.size>>20)
	}
}

func (l *eventLog) close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		return nil
	}
	err := l.file.Close()
	l.file = nil
	if errors.Is(err, fs.ErrClosed) {
		return nil
	}
	return err
}

// clip bounds every text of an event.
func clip(e *rangeclient.Event) {
	for _, s := range []*string{&e.SNI, &e.Host, &e.Path, &e.Name} {
		if len(*s) > maxText {
			*s = strings.ToValidUTF8((*s)[:maxText], "")
		}
	}
	e.Canaries = e.Canaries[:min(len(e.Canaries), maxNonces)]
}

// randomHex returns 2n hex digits. crypto/rand does not fail.
func randomHex(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b)
	return hex.EncodeToString(b)
}
