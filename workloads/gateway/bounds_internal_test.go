// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"context"
	"net/netip"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/stockade-dev/stockade/workloads/gateway/sandboxes"
	"github.com/stockade-dev/stockade/workloads/runner/wire"
)

func TestABudgetIsOfEachAndOfAll(t *testing.T) {
	b := newBudget(2, 3)
	assert.True(t, b.take("alice", 2))
	assert.False(t, b.take("alice", 1), "it is hers")
	assert.True(t, b.take("bob", 1))
	assert.False(t, b.take("bob", 1), "it is all")
	b.give("alice", 2)
	assert.True(t, b.take("bob", 1))
	b.give("bob", 2)
	assert.Empty(t, b.of, "who has nothing is forgotten")
	assert.Zero(t, b.total)
}

// nothing is a pool without sandboxes.
type nothing struct{}

func (nothing) Take(context.Context, string) (*sandboxes.Sandbox, error) {
	return nil, sandboxes.ErrTooMany
}
func (nothing) Locate(context.Context, *sandboxes.Sandbox) ([]netip.Addr, error) {
	return nil, sandboxes.ErrLost
}
func (nothing) Renew(context.Context, *sandboxes.Sandbox) error   { return nil }
func (nothing) Release(context.Context, *sandboxes.Sandbox) error { return nil }
func (nothing) Collect(context.Context) (int, error)              { return 0, nil }
func (nothing) TTL() time.Duration                                { return time.Minute }

func TestACallOfWhoHungUpCountsAllTheSame(t *testing.T) {
	g, err := New(t.Context(), Options{Pool: nothing{}, Runner: Router{}})
	require.NoError(t, err)
	// As calls have it whose requests are over.
	in := Input{Files: []wire.File{{Path: "a.go", Content: "xxx"}}, Args: []string{"y"}, Stdin: "z"}
	assert.EqualValues(t, 9, in.size())
	require.True(t, g.calls.take("local", userBytes-in.size()+1))
	_, _, err = g.run(t.Context(), &mcp.CallToolRequest{}, in)
	require.ErrorIs(t, err, errTooMuch)
	assert.ErrorContains(t, err, "try again later")
	assert.Equal(t, userBytes-in.size()+1, g.calls.total, "what is refused takes nothing")
}

func TestNobodyHasLessThanNoSession(t *testing.T) {
	_, err := New(t.Context(), Options{Pool: nothing{}, Runner: Router{}, MaxSessions: -1})
	require.ErrorContains(t, err, "sessions")
}
