// SPDX-License-Identifier: Apache-2.0

package program

import (
	"bytes"
	"context"
	"flag"
	"io"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestWhatIsNoFlagIsRefusedAndSaid(t *testing.T) {
	for says, args := range map[string][]string{
		"":              {"-port", "1"},
		"-nonsense":     {"-nonsense"},
		`"word"`:        {"-port", "1", "word", "-port", "2"}, // the flag package stops there
		"invalid value": {"-port", "one"},
	} {
		var out bytes.Buffer
		fs := flag.NewFlagSet("x", flag.ContinueOnError)
		fs.SetOutput(&out)
		fs.Int("port", 0, "")
		err := Parse(fs, args)
		if says == "" {
			assert.NoError(t, err)
			assert.Empty(t, out.String())
			continue
		}
		assert.ErrorContains(t, err, says)
		assert.Contains(t, out.String(), says)
	}
	fs := flag.NewFlagSet("x", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	assert.ErrorIs(t, Parse(fs, []string{"-h"}), flag.ErrHelp)
}

func TestASignalEndsTheProgram(t *testing.T) {
	code := UntilSignal(func(ctx context.Context) int {
		require.NoError(t, ctx.Err())
		require.NoError(t, syscall.Kill(syscall.Getpid(), syscall.SIGTERM))
		select {
		case <-ctx.Done():
			return Failed
		case <-time.After(10 * time.Second):
			return Served
		}
	})
	assert.Equal(t, Failed, code)
}
