// SPDX-License-Identifier: Apache-2.0

package rangehost

import (
	"container/list"
	"io"
	"sync"
	"time"
)

// youngConn is the age below which closing a connection may lose what it was
// about to say.
const youngConn = time.Second

// connTable bounds the open connections. When it is full the oldest goes, so
// that nobody can deafen the range by holding connections open.
type connTable struct {
	mu     sync.Mutex
	max    int
	list   list.List // of *openConn, oldest first
	closed bool
	lose   func()
}

type openConn struct {
	c      io.Closer
	opened time.Time
}

// add enters a connection and returns the function that takes it out again.
func (t *connTable) add(c io.Closer) (done func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		_ = c.Close() // nothing was said yet
		return func() {}
	}
	for t.list.Len() >= max(t.max, 1) {
		t.evict()
	}
	el := t.list.PushBack(&openConn{c, time.Now()})
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.list.Remove(el) // does nothing when it was evicted
	}
}

// evictOldest makes room when the process, not the table, is full.
func (t *connTable) evictOldest() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.evict()
}

func (t *connTable) evict() {
	el := t.list.Front()
	if el == nil {
		return
	}
	t.list.Remove(el)
	oldest, ok := el.Value.(*openConn)
	if !ok {
		return
	}
	_ = oldest.c.Close() // its reader notices
	if time.Since(oldest.opened) < youngConn {
		t.lose()
	}
}

func (t *connTable) closeAll() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	for el := t.list.Front(); el != nil; el = el.Next() {
		if o, ok := el.Value.(*openConn); ok {
			_ = o.c.Close() // its reader notices
		}
	}
}
