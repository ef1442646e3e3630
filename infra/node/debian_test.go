// SPDX-License-Identifier: Apache-2.0

package node

import (
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func apt(files map[string]string) fstest.MapFS {
	m := fstest.MapFS{}
	for name, text := range files {
		m[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return m
}

func TestMirrorIsTheOneThisHostUses(t *testing.T) {
	for name, files := range map[string]map[string]string{
		"one line": {"sources.list": "# deb http://old.example/debian bookworm main\n" +
			"deb-src http://src.example/debian bookworm main\n" +
			"deb http://mirror.example/debian bookworm main contrib\n"},
		"one line with options": {"sources.list.d/x.list": "deb [arch=amd64 signed-by=/k.gpg] http://mirror.example/debian bookworm main\n"},
		"stanzas": {"sources.list.d/debian.sources": "Types: deb\n# comment: no\nURIs: http://mirror.example/debian\n" +
			"Suites: bookworm bookworm-updates\nComponents: main\nSigned-By: /k.gpg\n"},
		"behind others": {
			"sources.list":               "deb http://security.example/debian bookworm-security main\n",
			"sources.list.d/a.sources":   "Types: deb\nURIs: http://vendor.example\nSuites: nodistro\nComponents: main\n",
			"sources.list.d/off.sources": "Enabled: no\nTypes: deb\nURIs: http://off.example\nSuites: bookworm\nComponents: main\n",
			"sources.list.d/z.sources": "Types: deb\nURIs: http://other.example\nSuites: trixie\nComponents: main\n\n" +
				"Types: deb deb-src\nURIs: http://mirror.example/debian http://second.example\nSuites: bookworm\nComponents: main\n",
		},
	} {
		m, err := hostMirror(apt(files))
		require.NoError(t, err, name)
		assert.Equal(t, "http://mirror.example/debian", m.URI, name)
	}
}

func TestKeyringOfTheMirrorIsTakenOver(t *testing.T) {
	m, err := hostMirror(apt(map[string]string{"sources.list.d/d.sources": "Types: deb\nURIs: http://m.example\nSuites: bookworm\nComponents: main\nSigned-By: /usr/share/keyrings/k.gpg\n"}))
	require.NoError(t, err)
	assert.Equal(t, "/usr/share/keyrings/k.gpg", m.Keyring)
}

func TestHostWithoutAMirrorIsToldToNameOne(t *testing.T) {
	_, err := hostMirror(apt(map[string]string{"sources.list": "deb http://archive.example/ubuntu noble main\n"}))
	assert.ErrorContains(t, err, `has none for the suite "bookworm"; add one, as a file in /etc/apt/sources.list.d`)
}

func TestTreeIsMadeAgainWhenItsRecipeChanges(t *testing.T) {
	changed := nodeTree
	changed.Packages = append([]string{"vim"}, nodeTree.Packages...)
	assert.NotEqual(t, nodeTree.key("amd64"), changed.key("amd64"))
	changed = nodeTree
	changed.Finish += "true\n"
	assert.NotEqual(t, nodeTree.key("amd64"), changed.key("amd64"))
	assert.NotEqual(t, nodeTree.key("amd64"), nodeTree.key("arm64"))
	assert.NotEqual(t, nodeTree.key("amd64"), ciliumTree.key("amd64"))
}
