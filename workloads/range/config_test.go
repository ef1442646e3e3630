// SPDX-License-Identifier: Apache-2.0

package rangehost

import (
	"net/netip"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestSettingsAreChecked(t *testing.T) {
	good := func() Config {
		return Config{Bridges: []string{"br0"}, Socket: "r.sock", Log: "r.ndjson", PIDFile: "r.pid"}
	}
	c := good()
	require.NoError(t, c.check())
	assert.Equal(t, 1024, c.MaxConns)
	assert.True(t, filepath.IsAbs(c.Log), "the process may change its folder")
	for what, spoil := range map[string]func(*Config){
		"--bridge":           func(c *Config) { c.Bridges = nil },
		"--socket":           func(c *Config) { c.Socket = "" },
		"STOCKADE_HOME":      func(c *Config) { c.Socket = "/" + strings.Repeat("x", 108) },
		"no interface name":  func(c *Config) { c.Bridges = []string{"../../x"} },
		"negative number of": func(c *Config) { c.MaxConns = -1 },
	} {
		c := good()
		spoil(&c)
		assert.ErrorContains(t, c.check(), what)
	}
}

func TestExtraNamesAreRead(t *testing.T) {
	got := map[string][]netip.Addr{}
	require.NoError(t, ParseExtra(got, "Git.Example.test.=192.0.2.1, 2001:db8::1"))
	assert.Equal(t, map[string][]netip.Addr{"git.example.test": {netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8::1")}}, got)
	for _, bad := range []string{"", "=192.0.2.1", "name", "name=", "name=example.org"} {
		assert.Error(t, ParseExtra(got, bad), bad)
	}
}
