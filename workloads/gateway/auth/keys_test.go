// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// publisher is a signer that publishes its keys.
type publisher struct {
	*Google
	keys  *RemoteKeys
	asked atomic.Int32
	now   time.Time

	mu   sync.Mutex
	set  string
	code int
	wait chan struct{} // until it is closed there is no answer
}

func publish(t *testing.T, names ...string) *publisher {
	t.Helper()
	p := &publisher{now: time.Now()}
	p.publish(t, names...)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		p.asked.Add(1)
		p.mu.Lock()
		set, code, wait := p.set, p.code, p.wait
		p.mu.Unlock()
		if wait != nil {
			<-wait
		}
		w.WriteHeader(code)
		_, _ = fmt.Fprint(w, set)
	}))
	t.Cleanup(server.Close)
	p.keys = NewRemoteKeys(server.URL)
	p.keys.now = func() time.Time { return p.now }
	var err error
	p.Google, err = NewGoogle(GoogleOptions{ClientID: client, Keys: p.keys, Emails: []string{"alice@example.com"}})
	require.NoError(t, err)
	return p
}

// publish has one key under several names, and one of a kind that nobody knows.
func (p *publisher) publish(t *testing.T, names ...string) {
	t.Helper()
	set := []any{map[string]string{"kty": "future", "kid": "f"}}
	for _, n := range names {
		set = append(set, jose.JSONWebKey{Key: google().rsa.Public(), KeyID: n, Use: "sig"})
	}
	text, err := json.Marshal(map[string]any{"keys": set})
	require.NoError(t, err)
	p.answer(http.StatusOK, string(text))
}

func (p *publisher) answer(code int, set string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.code, p.set = code, set
}

// by signs with the key and says that it was the one of a name.
func by(t *testing.T, name string) string {
	t.Helper()
	return sign(t, jose.RS256, jose.JSONWebKey{Key: google().rsa, KeyID: name}, claims(nil))
}

func TestNoTokenMakesTheServerAskForKeysAgainAndAgain(t *testing.T) {
	p := publish(t, "k1")
	_, err := p.Verify(t.Context(), by(t, "k1"))
	require.NoError(t, err)
	require.EqualValues(t, 1, p.asked.Load())
	good := strings.Split(by(t, "k1"), ".")
	for i := range 5 {
		for _, token := range []string{
			by(t, fmt.Sprint("stranger", i)),
			good[0] + "." + good[1] + "." + strings.Repeat("A", 342), // the name is known and the signature is not by it
			good[0] + "." + good[1] + ".",
			sign(t, jose.RS256, google().rsa, claims(nil)), // no name
			sign(t, jose.HS256, jose.JSONWebKey{Key: []byte(strings.Repeat("x", 32)), KeyID: "k2"}, claims(nil)),
			"a.b.c", "x",
		} {
			_, err := p.Verify(t.Context(), token)
			require.ErrorIs(t, err, ErrInvalid)
		}
	}
	assert.EqualValues(t, 1, p.asked.Load())
	_, err = p.Verify(t.Context(), by(t, "k1"))
	require.NoError(t, err)

	// A new key is found when it is time, and another stranger costs one look.
	p.publish(t, "k1", "k2")
	_, err = p.Verify(t.Context(), by(t, "k2"))
	require.ErrorIs(t, err, ErrInvalid)
	p.now = p.now.Add(fetchEvery)
	_, err = p.Verify(t.Context(), by(t, "k2"))
	require.NoError(t, err)
	p.now = p.now.Add(fetchEvery)
	for i := range 5 {
		_, err = p.Verify(t.Context(), by(t, fmt.Sprint("stranger", i)))
		require.ErrorIs(t, err, ErrInvalid)
	}
	assert.EqualValues(t, 3, p.asked.Load())
}

// A key that the signer has taken back is in somebody else's hands.
func TestAKeyThatTheSignerTookBackIsNotTakenForLong(t *testing.T) {
	p := publish(t, "k1")
	ask := func() error {
		_, err := p.Verify(t.Context(), by(t, "k1"))
		return err
	}
	require.NoError(t, ask())
	p.publish(t, "k2")
	p.now = p.now.Add(maxAge - time.Second)
	require.NoError(t, ask())
	require.EqualValues(t, 1, p.asked.Load())
	// A signer that does not answer takes nothing back.
	set := p.set
	p.answer(http.StatusServiceUnavailable, "")
	p.now = p.now.Add(time.Second)
	require.NoError(t, ask())
	require.NoError(t, ask())
	require.EqualValues(t, 2, p.asked.Load())
	// Nor does one that hangs, and nobody waits for it for long.
	p.answer(http.StatusOK, set)
	p.now = p.now.Add(fetchRetry)
	p.mu.Lock()
	p.wait = make(chan struct{})
	p.mu.Unlock()
	require.NoError(t, ask())
	close(p.wait)
	require.Eventually(t, func() bool { return !p.keys.stale() }, 10*time.Second, time.Millisecond)
	require.ErrorIs(t, ask(), ErrInvalid)
	require.ErrorIs(t, ask(), ErrInvalid)
	require.EqualValues(t, 3, p.asked.Load())
	_, err := p.Verify(t.Context(), by(t, "k2"))
	require.NoError(t, err)
}

func TestTokensOfWrongFormAskNobody(t *testing.T) {
	p := publish(t, "k1")
	for _, token := range []string{
		"a.b.c", "", "..", by(t, "k1") + ".x", by(t, ""),
		sign(t, jose.PS256, jose.JSONWebKey{Key: google().rsa, KeyID: "k1"}, claims(nil)),
	} {
		_, err := p.Verify(t.Context(), token)
		assert.ErrorIs(t, err, ErrInvalid)
	}
	assert.Zero(t, p.asked.Load())
}

func TestASignerThatDoesNotAnswerIsLeftAlone(t *testing.T) {
	p := publish(t, "k1")
	for _, bad := range []struct {
		code int
		set  string
	}{{http.StatusInternalServerError, ""}, {http.StatusOK, "nonsense"}, {http.StatusOK, "{}"}} {
		p.answer(bad.code, bad.set)
		p.now = p.now.Add(fetchRetry)
		before := p.asked.Load()
		for range 3 {
			_, err := p.Verify(t.Context(), by(t, "k1"))
			require.ErrorIs(t, err, ErrInvalid)
		}
		assert.Equal(t, before+1, p.asked.Load())
	}
	p.publish(t, "k1")
	p.now = p.now.Add(fetchRetry)
	_, err := p.Verify(t.Context(), by(t, "k1"))
	require.NoError(t, err)
	// Those that are known outlive a signer that is away.
	p.answer(http.StatusInternalServerError, "")
	p.now = p.now.Add(fetchEvery)
	_, err = p.Verify(t.Context(), by(t, "k2"))
	require.ErrorIs(t, err, ErrInvalid)
	_, err = p.Verify(t.Context(), by(t, "k1"))
	require.NoError(t, err)
}

func TestThoseWhoWaitShareOneRequest(t *testing.T) {
	p := publish(t, "k1")
	p.wait = make(chan struct{})
	token := by(t, "k1")
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			_, err := p.Verify(t.Context(), token)
			assert.NoError(t, err)
		})
	}
	require.Eventually(t, func() bool { return p.asked.Load() == 1 }, 10*time.Second, time.Millisecond)
	close(p.wait)
	wg.Wait()
	assert.EqualValues(t, 1, p.asked.Load())
}
