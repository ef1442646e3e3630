// SPDX-License-Identifier: Apache-2.0

package target

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
)

// Pod names a container to exec into.
type Pod struct {
	Namespace string
	Name      string
	Container string // empty is the Pod's first
	// UID and Node tell the witnesses whose numbers to read.
	UID  string
	Node string
	IP   string
	// IPs are all of the Pod's addresses, of both families where it has two.
	IPs []string
}

// String returns namespace/name.
func (p Pod) String() string { return p.Namespace + "/" + p.Name }

// Streams are the standard streams of an exec. Nil ones are not attached.
type Streams struct {
	Stdin  io.Reader
	Stdout io.Writer
	Stderr io.Writer
}

// Carrier runs a program in a Pod. It returns the program's exit code, or an
// error when it is not known how the program ended: a [TransportError], or
// ctx's own. A program that fails is no error.
type Carrier interface {
	Exec(ctx context.Context, pod Pod, argv []string, s Streams) (code int, err error)
}

// TransportError is an exec that was lost, or never began: it says nothing
// about the program, and can never be evidence.
type TransportError struct {
	Pod Pod
	Err error
}

func (e *TransportError) Error() string {
	return fmt.Sprintf("executing in Pod %s: %v", e.Pod, e.Err)
}

func (e *TransportError) Unwrap() error { return e.Err }

// ErrTooMuch ends an exec whose output passes its bound.
var ErrTooMuch = errors.New("the output passes its bound")

// bounded passes on at most n bytes, and then calls over once and swallows the
// rest: an error from Write would only be logged by client-go, and the stream
// drained for as long as the sandbox likes to talk.
type bounded struct {
	mu   sync.Mutex
	w    io.Writer
	left int64
	over func()
}

func (b *bounded) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.w == nil {
		return len(p), nil
	}
	take := p
	if int64(len(take)) > b.left {
		take = take[:b.left]
	}
	b.left -= int64(len(take))
	if _, err := b.w.Write(take); err != nil || len(take) < len(p) {
		b.w = nil
		b.over()
	}
	return len(p), nil
}

// tail keeps the last bytes of a stream, for error texts.
type tail struct {
	mu  sync.Mutex
	max int
	buf []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, p...)
	if over := len(t.buf) - t.max; over > 0 {
		t.buf = append([]byte(nil), t.buf[over:]...)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.buf)
}
