// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// mounted is a file as the kubelet mounts a Secret: a link, which changes its
// target.
func mounted(t *testing.T) (path string, put func(text string)) {
	t.Helper()
	dir := t.TempDir()
	path = filepath.Join(dir, "file")
	n := 0
	return path, func(text string) {
		t.Helper()
		n++
		target := filepath.Join(dir, strings.Repeat("v", n))
		require.NoError(t, os.WriteFile(target, []byte(text), 0o600))
		require.NoError(t, os.Symlink(target, path+".new"))
		require.NoError(t, os.Rename(path+".new", path))
	}
}

func TestATokenIsRevokedWithoutARestart(t *testing.T) {
	path, put := mounted(t)
	put(line("alice", "one") + line("bob", "two"))
	var log bytes.Buffer
	f, err := OpenStatic(path, slog.New(slog.NewTextHandler(&log, nil)))
	require.NoError(t, err)
	now := time.Now()
	f.now = func() time.Time { return now }
	who := func(token string) string {
		id, err := f.Verify(t.Context(), token)
		if err != nil {
			require.ErrorIs(t, err, ErrInvalid)
			return ""
		}
		return id.User
	}
	later := func() { now = now.Add(reread + time.Second) }
	later()
	assert.Equal(t, "static:alice", who("one"))
	assert.Equal(t, "static:bob", who("two"))

	put(line("bob", "two") + line("carol", "three"))
	later()
	assert.Empty(t, who("one"), "the line is gone")
	assert.Equal(t, "static:bob", who("two"))
	assert.Equal(t, "static:carol", who("three"))

	// What is broken changes nothing, and is told once.
	put(line("bob", "two") + "mallory hunter2\n")
	before := strings.Count(log.String(), "level=ERROR")
	for range 3 {
		later()
		assert.Equal(t, "static:carol", who("three"))
	}
	assert.Equal(t, before+1, strings.Count(log.String(), "level=ERROR"), log.String())
	assert.NotContains(t, log.String(), "hunter2")
	require.NoError(t, os.Remove(path))
	for range 3 {
		later()
		assert.Equal(t, "static:carol", who("three"))
	}
	assert.Equal(t, before+2, strings.Count(log.String(), "level=ERROR"), "it is another reason")

	// What is mended counts again, and so does that nobody is left.
	put(line("carol", "four"))
	later()
	assert.Equal(t, "static:carol", who("four"))
	assert.Empty(t, who("three"))
	put("# nobody\n")
	later()
	assert.Empty(t, who("four"))
}

func TestASignersKeyIsRevokedWithoutARestart(t *testing.T) {
	k := google()
	set := func(keys ...jose.JSONWebKey) string {
		text, err := json.Marshal(jose.JSONWebKeySet{Keys: keys})
		require.NoError(t, err)
		return string(text)
	}
	rsa := set(jose.JSONWebKey{Key: k.rsa.Public(), KeyID: "r"})
	ecdsa := set(jose.JSONWebKey{Key: k.ecdsa.Public(), KeyID: "e"})
	one, putOne := mounted(t)
	two, putTwo := mounted(t)
	putOne(rsa)
	putTwo(ecdsa)
	var log bytes.Buffer
	f, err := OpenKeys([]string{one, two}, slog.New(slog.NewTextHandler(&log, nil)))
	require.NoError(t, err)
	now := time.Now()
	f.now = func() time.Time { return now }
	later := func() { now = now.Add(reread + time.Second) }
	g, err := NewGoogle(GoogleOptions{ClientID: client, Keys: f, Emails: []string{"alice@example.com"}})
	require.NoError(t, err)
	taken := func() (r, e bool) {
		_, rerr := g.Verify(t.Context(), sign(t, jose.RS256, k.rsa, claims(nil)))
		_, eerr := g.Verify(t.Context(), sign(t, jose.ES256, k.ecdsa, claims(nil)))
		return rerr == nil, eerr == nil
	}
	are := func(r, e bool, why string) {
		t.Helper()
		gotR, gotE := taken()
		assert.Equal(t, []bool{r, e}, []bool{gotR, gotE}, why)
	}
	are(true, true, "each file's")
	putOne(ecdsa)
	are(true, true, "not for every token")
	later()
	are(false, true, "the key is gone")

	putOne("nonsense")
	later()
	are(false, true, "what is broken changes nothing")
	assert.Equal(t, 1, strings.Count(log.String(), "level=ERROR"), log.String())
	putOne(rsa)
	putTwo(rsa)
	later()
	are(true, false, "what is mended counts again")

	_, err = OpenKeys(nil, slog.New(slog.DiscardHandler))
	require.ErrorContains(t, err, "there is none")
	_, err = OpenKeys([]string{one, two + "x"}, slog.New(slog.DiscardHandler))
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestAFileIsNotReadForEveryToken(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens")
	require.NoError(t, os.WriteFile(path, []byte(line("alice", "one")), 0o600))
	f, err := OpenStatic(path, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	now := f.next.Add(-time.Millisecond)
	f.now = func() time.Time { return now }
	require.NoError(t, os.WriteFile(path, []byte(line("alice", "two")), 0o600))
	_, err = f.Verify(t.Context(), "one")
	require.NoError(t, err)
	now = f.next
	_, err = f.Verify(t.Context(), "one")
	require.ErrorIs(t, err, ErrInvalid)
}

func TestAServerThatNobodyMayUseDoesNotStart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens")
	_, err := OpenStatic(path, slog.New(slog.DiscardHandler))
	require.ErrorIs(t, err, os.ErrNotExist)
	require.NoError(t, os.WriteFile(path, []byte("# nobody\n"), 0o600))
	_, err = OpenStatic(path, slog.New(slog.DiscardHandler))
	require.ErrorContains(t, err, "there is none")
}
