// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"bytes"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// safe is a buffer for one writer and one reader at a time.
type safe struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *safe) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safe) frames() (kinds []Kind, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	dec := NewDecoder(bytes.NewReader(s.b.Bytes()))
	for {
		f, err := dec.Next()
		if err != nil {
			return kinds, ok
		}
		kinds = append(kinds, f.Kind)
		ok = ok || f.Step != nil && f.Step.OK
	}
}

func free(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

func TestAListenerAnswersWithItsNonceUntilItsInputEnds(t *testing.T) {
	port, nonce := free(t), strings.Repeat("a", 32)
	in, end := io.Pipe()
	out, done := &safe{}, make(chan error, 1)
	go func() { done <- Listen(t.Context(), port, nonce, in, out) }()
	require.Eventually(t, func() bool { _, ok := out.frames(); return ok }, 5*time.Second, 5*time.Millisecond)
	c, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	require.NoError(t, err)
	answer, err := io.ReadAll(c)
	require.NoError(t, err)
	assert.Equal(t, ListenerMarker+" "+nonce+"\n", string(answer))
	require.NoError(t, end.Close())
	require.NoError(t, <-done)
	kinds, _ := out.frames()
	assert.Equal(t, []Kind{Begin, Step, Done}, kinds)
}

func TestAPortThatIsTakenIsToldInAFrame(t *testing.T) {
	l, err := net.Listen("tcp", ":0")
	require.NoError(t, err)
	defer l.Close()
	out := &safe{}
	err = Listen(t.Context(), l.Addr().(*net.TCPAddr).Port, "n", strings.NewReader(""), out)
	require.Error(t, err)
	kinds, ok := out.frames()
	assert.Equal(t, []Kind{Begin, Step}, kinds)
	assert.False(t, ok)
}
