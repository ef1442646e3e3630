// SPDX-License-Identifier: Apache-2.0

package node

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// finish puts an archive of the given images into the cache.
func finish(t *testing.T, a archive, r archiveRecord) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(a.path), 0o755))
	images := map[string]v1.Image{}
	for _, n := range r.Names {
		images[n] = empty.Image
	}
	require.NoError(t, a.store(t.TempDir(), images, r))
}

func TestArchiveHoldsAValidImageUnderItsName(t *testing.T) {
	b := testBuilder(t)
	work := t.TempDir()
	binary := filepath.Join(work, "probe")
	write(t, binary, "program")
	spec := b.programImage(DefaultPrograms()[0], binary, "key")
	img, err := b.assemble(work, spec)
	require.NoError(t, err)

	path := filepath.Join(work, "probe.tar")
	require.NoError(t, writeArchive(path, map[string]v1.Image{spec.Name: img}))
	tag, err := name.NewTag("stockade.local/probe:dev")
	require.NoError(t, err)
	loaded, err := tarball.ImageFromPath(path, &tag)
	require.NoError(t, err)
	require.NoError(t, validate.Image(loaded))
	config, err := loaded.ConfigFile()
	require.NoError(t, err)
	assert.Equal(t, []string{"/probe"}, config.Config.Entrypoint)
	assert.Equal(t, "linux", config.OS)
	assert.Equal(t, "amd64", config.Architecture)

	layers, err := archiveLayers(path)
	require.NoError(t, err)
	want, err := img.Layers()
	require.NoError(t, err)
	require.Len(t, layers, len(want))
	digest, err := want[0].Digest()
	require.NoError(t, err)
	assert.Equal(t, digest.String(), layers[0])
}

func TestArchiveWithoutItsRecordIsUnfinished(t *testing.T) {
	b := testBuilder(t)
	a := b.clusterArchive()
	finish(t, a, archiveRecord{Names: []string{"stockade.local/x:y"}})
	_, ok := a.load()
	require.True(t, ok)
	require.NoError(t, os.Remove(a.record()))
	_, ok = a.load()
	assert.False(t, ok)
}
