// SPDX-License-Identifier: Apache-2.0

package node

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestPruneRemovesOldResultsOnly(t *testing.T) {
	b := testBuilder(t)
	kubernetes := b.components["kubernetes"].path("kubelet")
	write(t, kubernetes, "current")
	require.NoError(t, b.keyComponents(PulumiComponents()))
	engine := b.components["pulumi"].path("pulumi")
	write(t, engine, "current")
	b.components = nil // prune is called on a builder that was asked for images
	require.NoError(t, b.keyComponents(Components()))
	old := filepath.Join(b.binDir(), "kubernetes-0123456789ab")
	write(t, filepath.Join(old, "kubelet"), "old")
	finish(t, b.nodeArchive(), archiveRecord{Names: []string{b.nodeTag()}})
	oldArchive := filepath.Join(b.imagesDir(), "node-0123456789ab.tar")
	write(t, oldArchive, "12345")
	write(t, oldArchive+".json", "{}")
	tree := b.debianPath(minimalTree)
	write(t, tree, "current")
	foreign := filepath.Join(b.imagesDir(), "notes.txt")
	write(t, foreign, "not ours")

	freed, err := b.prune()
	require.NoError(t, err)
	assert.Equal(t, int64(len("old")+len("12345")+len("{}")), freed)
	assert.NoDirExists(t, old)
	assert.NoFileExists(t, oldArchive)
	assert.NoFileExists(t, oldArchive+".json")
	for _, kept := range []string{kubernetes, engine, b.nodeArchive().path, b.nodeArchive().record(), tree, foreign} {
		assert.FileExists(t, kept)
	}

	freed, err = b.prune()
	require.NoError(t, err)
	assert.Zero(t, freed)
	require.NoError(t, os.RemoveAll(b.Home))
	_, err = b.prune()
	assert.NoError(t, err, "an empty home is clean")
}
