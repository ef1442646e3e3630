// SPDX-License-Identifier: Apache-2.0

package rangehost

import (
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
