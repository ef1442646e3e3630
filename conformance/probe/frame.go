// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/stockade-dev/stockade/conformance/verdict"
)

// Limits on what a sandbox may send. A stream that passes one of them is
// ended: its open attempts get no completion frame.
const (
	MaxFrame       = 64 << 10 // bytes of one frame's payload
	MaxFrames      = 20000    // frames of one stream
	MaxStepsPer    = 1024     // steps of one attempt
	maxDetail      = 1024     // bytes of a step's detail
	maxName        = 256      // bytes of a step's name
	maxWord        = 64       // bytes of a step's class or expectation
	frameHeaderLen = 8
)

// magic opens each frame, so that stray output is recognised as such at once.
var magic = [4]byte{'S', 'K', 'F', '1'}

// ErrHostile is wrapped by every decoding error: what came is not what the
// probe sends.
var ErrHostile = errors.New("stream is not the probe's")

// Kind tells frames apart.
type Kind string

// The kinds of frame.
const (
	Begin Kind = "begin" // the action starts
	Step  Kind = "step"  // one observation
	Done  Kind = "done"  // the action returned: the completion frame
)

// Frame is one message of the probe.
type Frame struct {
	Kind     Kind          `json:"kind"`
	Scenario string        `json:"scenario"`
	Nonce    string        `json:"nonce"`
	Step     *verdict.Step `json:"step,omitempty"`
	// Steps is set on Done: how many steps were sent, so that a lost frame is
	// noticed.
	Steps int `json:"steps,omitempty"`
}

// Encoder writes frames; it is safe for concurrent use.
type Encoder struct {
	mu sync.Mutex
	w  io.Writer
}

// NewEncoder returns an Encoder on w.
func NewEncoder(w io.Writer) *Encoder { return &Encoder{w: w} }

// Encode writes one frame in a single Write.
func (e *Encoder) Encode(f Frame) error {
	if f.Step != nil {
		s := *f.Step
		s.Detail, s.Name = text(s.Detail, maxDetail), text(s.Name, maxName)
		f.Step = &s
	}
	body, err := json.Marshal(f)
	if err != nil {
		return fmt.Errorf("encoding a frame: %w", err)
	}
	if len(body) > MaxFrame {
		return fmt.Errorf("encoding a frame: %d bytes are more than %d", len(body), MaxFrame)
	}
	buf := make([]byte, frameHeaderLen, frameHeaderLen+len(body))
	copy(buf, magic[:])
	binary.BigEndian.PutUint32(buf[4:], uint32(len(body))) //nolint:gosec // bounded by MaxFrame
	buf = append(buf, body...)
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, err := e.w.Write(buf); err != nil {
		return fmt.Errorf("writing a frame: %w", err)
	}
	return nil
}

// Decoder reads frames from a hostile stream.
type Decoder struct {
	r io.Reader
	n int
}

// NewDecoder returns a Decoder on r.
func NewDecoder(r io.Reader) *Decoder { return &Decoder{r: r} }

// Next returns the next frame, io.EOF at a clean end, and an error that wraps
// [ErrHostile] for anything that the probe would not send. After an error the
// stream is worthless: there is no resynchronising with an attacker.
func (d *Decoder) Next() (Frame, error) {
	var head [frameHeaderLen]byte
	if _, err := io.ReadFull(d.r, head[:]); err != nil {
		if errors.Is(err, io.EOF) {
			return Frame{}, io.EOF
		}
		return Frame{}, fmt.Errorf("reading a frame's head: %w: %w", ErrHostile, err)
	}
	if d.n++; d.n > MaxFrames {
		return Frame{}, fmt.Errorf("reading frames: %w: more than %d", ErrHostile, MaxFrames)
	}
	if [4]byte(head[:4]) != magic {
		return Frame{}, fmt.Errorf("reading a frame's head: %w: %q", ErrHostile, head[:4])
	}
	size := binary.BigEndian.Uint32(head[4:])
	if size > MaxFrame {
		return Frame{}, fmt.Errorf("reading a frame: %w: %d bytes announced", ErrHostile, size)
	}
	body := make([]byte, size)
	if _, err := io.ReadFull(d.r, body); err != nil {
		return Frame{}, fmt.Errorf("reading a frame's body: %w: %w", ErrHostile, err)
	}
	var f Frame
	if err := json.Unmarshal(body, &f); err != nil {
		return Frame{}, fmt.Errorf("decoding a frame: %w: %w", ErrHostile, err)
	}
	switch {
	case f.Kind != Begin && f.Kind != Step && f.Kind != Done:
		return Frame{}, fmt.Errorf("decoding a frame: %w: kind %q", ErrHostile, clip(string(f.Kind), 32))
	case (f.Kind == Step) != (f.Step != nil):
		return Frame{}, fmt.Errorf("decoding a frame: %w: %s with the wrong content", ErrHostile, f.Kind)
	case f.Step != nil && (len(f.Step.Detail) > maxDetail || len(f.Step.Name) > maxName ||
		len(f.Step.Class) > maxWord || len(f.Step.Expect) > maxWord):
		return Frame{}, fmt.Errorf("decoding a frame: %w: oversized step", ErrHostile)
	}
	return f, nil
}

// text makes s fit for a frame. JSON would write each stray byte as three, and
// a detail that was cut before would then be too long for the decoder.
func text(s string, n int) string { return clip(strings.ToValidUTF8(s, "?"), n) }

// clip cuts s to n bytes, on a rune boundary.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && s[n]&0xC0 == 0x80 {
		n--
	}
	return s[:n]
}
