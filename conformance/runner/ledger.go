// SPDX-License-Identifier: Apache-2.0

package runner

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Ref names an object in the cluster.
type Ref struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name"`
}

// String returns kind namespace/name.
func (r Ref) String() string { return r.Kind + " " + r.Namespace + "/" + r.Name }

// entry is one line of a ledger.
type entry struct {
	Op      string    `json:"op"` // open, create, gone
	Time    time.Time `json:"time"`
	Run     string    `json:"run,omitempty"`
	Cluster string    `json:"cluster,omitempty"` // UID of kube-system
	Object  *Ref      `json:"object,omitempty"`
}

// Ledger is a write-ahead file of what a run creates: an object is written
// down, and on the disk, before it is asked for. So whoever comes after a
// kill -9 knows what to remove. While the run lives it holds a lock on the
// file, which the kernel lets go of whatever the end is.
type Ledger struct {
	mu   sync.Mutex
	f    *os.File
	size int64 // of the whole lines
	open map[Ref]bool
}

const ledgerSuffix = ".ndjson"

// maxLedgerLine and maxLedger bound what is read back, in bytes and lines.
const (
	maxLedgerLine = 16 << 10
	maxLedger     = 10_000
)

// OpenLedger starts the ledger of a run in dir.
func OpenLedger(dir, run, cluster string) (*Ledger, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("making the ledger's folder: %w", err)
	}
	path := filepath.Join(dir, run+ledgerSuffix)
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the ledger: %w", err)
	}
	l := &Ledger{f: f, open: map[Ref]bool{}}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("locking the ledger %s: %w", path, err)
	}
	if err := l.write(entry{Op: "open", Run: run, Cluster: cluster}); err != nil {
		_ = f.Close()
		return nil, err
	}
	return l, nil
}

// Creating writes down that ref is about to be created. When it fails, the
// object must not be created.
func (l *Ledger) Creating(ref Ref) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.write(entry{Op: "create", Object: &ref}); err != nil {
		return err
	}
	l.open[ref] = true
	return nil
}

// Gone writes down that ref does not exist any more.
func (l *Ledger) Gone(ref Ref) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.open, ref)
	return l.write(entry{Op: "gone", Object: &ref})
}

// Open lists what was created and is not gone.
func (l *Ledger) Open() []Ref {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make([]Ref, 0, len(l.open))
	for ref := range l.open {
		out = append(out, ref)
	}
	return out
}

// Close ends the ledger. The file is removed when nothing is left to do, and
// stays for the next cleanup otherwise.
func (l *Ledger) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var err error
	if len(l.open) == 0 {
		err = os.Remove(l.f.Name())
	}
	return errors.Join(err, l.f.Close())
}

func (l *Ledger) write(e entry) error {
	e.Time = time.Now().UTC()
	b, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("encoding a ledger entry: %w", err)
	}
	b = append(b, '\n')
	if _, err := l.f.Write(b); err != nil {
		// Of a full disk a torn line would stay, and spoil the next one.
		return fmt.Errorf("writing the ledger: %w", errors.Join(err, l.f.Truncate(l.size)))
	}
	l.size += int64(len(b))
	if err := l.f.Sync(); err != nil {
		return fmt.Errorf("flushing the ledger: %w", err)
	}
	return nil
}

// Record is a ledger that was read back.
type Record struct {
	Run     string
	Cluster string
	Left    []Ref // created and not gone, in order
}

// ErrDamaged means that a ledger has a line that no run writes.
var ErrDamaged = errors.New("the ledger is damaged")

// ReadLedger reads a ledger back. A last line without its end is what a kill
// leaves; its object was never asked for, because the write had not returned.
// Beside an error the record holds what stood before the damage.
func ReadLedger(r io.Reader) (rec Record, err error) {
	var order []Ref
	left := map[Ref]bool{}
	defer func() {
		for _, ref := range order {
			if left[ref] {
				rec.Left = append(rec.Left, ref)
				delete(left, ref)
			}
		}
	}()
	br := bufio.NewReaderSize(r, maxLedgerLine)
	for n := 0; ; n++ {
		line, err := br.ReadSlice('\n')
		if errors.Is(err, io.EOF) {
			break // whatever stands in line has no end
		}
		if err != nil || n >= maxLedger {
			return rec, fmt.Errorf("reading a ledger: %w: too long", ErrDamaged)
		}
		var e entry
		if err := json.Unmarshal(bytes.TrimSpace(line), &e); err != nil {
			return rec, fmt.Errorf("reading line %d of a ledger: %w: %w", n+1, ErrDamaged, err)
		}
		switch {
		case e.Op == "open" && n == 0:
			rec.Run, rec.Cluster = e.Run, e.Cluster
		case e.Op == "create" && e.Object != nil:
			if !left[*e.Object] {
				order = append(order, *e.Object)
			}
			left[*e.Object] = true
		case e.Op == "gone" && e.Object != nil:
			delete(left, *e.Object)
		default:
			return rec, fmt.Errorf("reading line %d of a ledger: %w: op %q", n+1, ErrDamaged, e.Op)
		}
	}
	return rec, nil
}

// dead is a ledger whose run does not live any more; it is locked, so that two
// cleanups do not meet.
type dead struct {
	Record
	path string
	f    *os.File
	err  error
}

// scan returns the ledgers of dead runs, and the ids of the runs that live.
func scan(dir string) (gone []dead, live map[string]bool, err error) {
	live = map[string]bool{}
	names, err := filepath.Glob(filepath.Join(dir, "*"+ledgerSuffix))
	if err != nil {
		return nil, nil, fmt.Errorf("listing ledgers: %w", err)
	}
	for _, path := range names {
		id := strings.TrimSuffix(filepath.Base(path), ledgerSuffix)
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if errors.Is(err, os.ErrNotExist) {
			continue // its run ended meanwhile
		}
		if err != nil {
			return gone, live, fmt.Errorf("opening a ledger: %w", err)
		}
		if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
			live[id] = true
			_ = f.Close()
			continue
		}
		rec, rerr := ReadLedger(f)
		if rec.Run == "" {
			rec.Run = id // killed before its first line was whole
		}
		gone = append(gone, dead{rec, path, f, rerr})
	}
	return gone, live, nil
}
