// SPDX-License-Identifier: Apache-2.0

package overlays

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestAScaffoldIsWhatIsLeftOfItsMutantsWithoutTheirChange(t *testing.T) {
	all := mutants(t)
	scaffolds, on, err := Scaffolds(all)
	require.NoError(t, err)
	disk, err := layout(module(t))
	require.NoError(t, err)
	text := func(objects []unstructured.Unstructured, id string) string {
		doc, err := json.Marshal(objects)
		require.NoError(t, err)
		return strings.ReplaceAll(string(doc), "mutant-"+id, "mutant-ID")
	}
	used := map[string]bool{}
	for _, s := range scaffolds {
		assert.LessOrEqual(t, len(s.Namespaces()[len(s.Namespaces())-1]), 63, "a namespace's name")
		objects, err := s.build(disk)
		require.NoError(t, err, s.ID)
		found := 0
		for _, m := range all {
			if on[m.ID] != s.ID {
				continue
			}
			assert.Equal(t, m.Base, s.Base, m.ID)
			assert.Subset(t, s.Kills, m.Kills, m.ID)
			// Rendering takes a while, and what has the same folders is the same.
			if found++; found == 1 {
				assert.Equal(t, text(twin(t, m, disk), m.ID), text(objects, s.ID), "%s without its change", m.ID)
			}
		}
		assert.Positive(t, found, s.ID)
		assert.True(t, slices.IsSorted(s.Kills), s.ID)
		used[s.ID] = true
	}
	for _, m := range all {
		assert.True(t, used[on[m.ID]], m.ID)
	}
}
