// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTheDocsSayWhatTheDeclarationsSay(t *testing.T) {
	t.Chdir("../..")
	files, err := generate()
	require.NoError(t, err)
	for name, want := range files {
		got, err := os.ReadFile(filepath.Join("docs", filepath.FromSlash(name)))
		if assert.NoError(t, err, "`make docs` writes it") {
			assert.Equal(t, want, string(got), "docs/%s is stale: run `make docs`", name)
		}
	}
	for _, folder := range folders {
		require.NoError(t, fs.WalkDir(os.DirFS("docs"), folder, func(path string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				assert.Contains(t, files, path, "it is stale: run `make docs`")
			}
			return err
		}))
	}
}

func TestReportsFollowTheirSchema(t *testing.T) {
	t.Chdir("../..")
	text, err := schema()
	require.NoError(t, err)
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	require.NoError(t, err)
	c := jsonschema.NewCompiler()
	require.NoError(t, c.AddResource("report.schema.json", doc))
	compiled, err := c.Compile("report.schema.json")
	require.NoError(t, err)

	raw, err := os.ReadFile("conformance/report/testdata/report.json")
	require.NoError(t, err)
	good, err := jsonschema.UnmarshalJSON(strings.NewReader(string(raw)))
	require.NoError(t, err)
	require.NoError(t, compiled.Validate(good))

	for name, change := range map[string][2]string{
		"a made-up verdict": {`"verdict": "Held"`, `"verdict": "held"`},
		"a made-up reason":  {`"reason": "witness-missing"`, `"reason": "whatever"`},
		"a made-up fate":    {`"fate": "killed"`, `"fate": "dead"`},
		"an unknown field":  {`"target":`, `"extra": 1, "target":`},
		"a missing summary": {`"summary":`, `"residue": [], "outline":`},
	} {
		spoilt := strings.Replace(string(raw), change[0], change[1], 1)
		require.NotEqual(t, string(raw), spoilt, name)
		bad, err := jsonschema.UnmarshalJSON(strings.NewReader(spoilt))
		require.NoError(t, err)
		assert.Error(t, compiled.Validate(bad), name)
	}
}

func TestConstantsAreFoundInTheSource(t *testing.T) {
	t.Chdir("../..")
	got, err := constants("conformance/verdict", "Reason")
	require.NoError(t, err)
	assert.Contains(t, got, "no-completion-frame")
	assert.True(t, slices.IsSorted(got))
	assert.NotContains(t, got, "")
	_, err = constants("conformance/verdict", "Nothing")
	assert.Error(t, err)
}
