// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAServerThatAnybodyMayUseHasToBeAskedFor(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	tokens := filepath.Join(t.TempDir(), "tokens")
	require.NoError(t, os.WriteFile(tokens, []byte("alice sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08\n"), 0o600))
	keys := filepath.Join(t.TempDir(), "keys.json")
	require.NoError(t, os.WriteFile(keys, []byte(`{"keys": [{"kty": "EC", "crv": "P-256", "x": "MKBCTNIcKUSDii11ySs3526iDZ8AiTo7Tu6KPAqv7D4", "y": "4Etl6SRW2YiLUrN5vfvVHuhp7x8PxltmWWlbbM4IFyM"}]}`), 0o600))
	for _, c := range []struct {
		args  []string
		err   string
		guard bool
	}{
		{nil, "nobody could authenticate", false},
		{[]string{"-no-auth"}, "", false},
		{[]string{"-stdio"}, "", false},
		{[]string{"-tokens", tokens}, "", true},
		{[]string{"-tokens", tokens, "-no-auth"}, "exclude each other", false},
		{[]string{"-tokens", tokens + "x"}, "reading the tokens", false},
		{[]string{"-google-client-id", "c"}, "allow-list is empty", false},
		{[]string{"-google-client-id", "c", "-allow-domains", "example.com"}, "", true},
		{[]string{"-google-client-id", "c", "-google-keys-file", tokens, "-allow-domains", "example.com"}, "reading the keys", false},
		{[]string{"-google-client-id", "c", "-google-keys-file", keys, "-allow-domains", "example.com"}, "", true},
		{[]string{"-google-client-id", "c", "-google-keys-file", keys + "," + keys, "-allow-domains", "example.com"}, "", true},
		{[]string{"-google-client-id", "c", "-google-keys-file", keys + "," + tokens, "-allow-domains", "example.com"}, "reading the keys", false},
	} {
		s, err := parse(c.args, io.Discard)
		require.NoError(t, err)
		guard, err := s.guard(log)
		if c.err != "" {
			assert.ErrorContains(t, err, c.err, "%v", c.args)
			continue
		}
		require.NoError(t, err, "%v", c.args)
		assert.Equal(t, c.guard, guard != nil, "%v", c.args)
	}
}

func TestTheProgramSaysWhatIsWrong(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"-nonsense"}, 2, "nonsense"},
		{[]string{"nonsense"}, 2, "is no flag"},
		{nil, 1, "nobody could authenticate"},
		{[]string{"-no-auth"}, 1, "finding the cluster"},
	} {
		var stderr bytes.Buffer
		assert.Equal(t, c.code, run(context.Background(), c.args, nil, nil, &stderr), "%v", c.args)
		assert.Contains(t, stderr.String(), c.says)
	}
}
