// SPDX-License-Identifier: Apache-2.0

package node

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestResultIsThereOnlyWhenEveryArchiveIs(t *testing.T) {
	b := testBuilder(t)
	b.programs = []keyedProgram{{DefaultPrograms()[0], "key"}}
	kubeadm := map[string]string{"pause": "stockade.local/pause:3.10.2"}
	steps := []func(){
		func() {},
		func() {
			finish(t, b.clusterArchive(), archiveRecord{[]string{"stockade.local/pause:3.10.2"}, kubeadm})
		},
		func() { finish(t, b.nodeArchive(), archiveRecord{Names: []string{b.nodeTag()}}) },
	}
	for _, step := range steps {
		step()
		_, ok, err := b.result()
		require.NoError(t, err)
		require.False(t, ok)
	}
	finish(t, b.programArchive(b.programs[0]), archiveRecord{Names: []string{"stockade.local/probe:dev"}})

	images, ok, err := b.result()
	require.NoError(t, err)
	require.True(t, ok)
	assert.Equal(t, []string{"stockade.local/pause:3.10.2", "stockade.local/probe:dev"}, images.Names)
	assert.Equal(t, kubeadm, images.Kubeadm)
	assert.Equal(t, []string{b.programArchive(b.programs[0]).path}, images.Archives, "the node carries the others")
	of := func(names ...string) []string {
		archives, err := images.ArchivesOf(names)
		require.NoError(t, err)
		return archives
	}
	assert.Equal(t, images.Archives, of("of nobody", "stockade.local/probe:dev"))
	assert.Empty(t, of("of nobody"))
	assert.Regexp(t, `^stockade\.local/node:v1\.36\.\d+-[0-9a-f]{12}$`, images.NodeTag)
	assert.FileExists(t, images.NodeArchive)

	last, err := LastBuild(b.Home)
	require.NoError(t, err)
	require.Empty(t, last, "nobody has called Build")
	require.NoError(t, b.record(images))
	last, err = LastBuild(b.Home)
	require.NoError(t, err)
	assert.Equal(t, Last{NodeTag: images.NodeTag, Archives: []string{filepath.Base(images.Archives[0])}}, last)
	require.NoError(t, os.WriteFile(lastPath(b.Home), []byte("{"), 0o600))
	_, err = LastBuild(b.Home)
	require.ErrorContains(t, err, "stockade images build")
}

func TestKeysAreTheSameEveryTime(t *testing.T) {
	b := testBuilder(t)
	cluster, node := b.clusterKey(), b.nodeKey()
	for range 20 {
		again := testBuilder(t)
		require.Equal(t, cluster, again.clusterKey())
		require.Equal(t, node, again.nodeKey())
	}
}

func TestOnlyWhatAComponentIsInChangesWithIt(t *testing.T) {
	b := testBuilder(t)
	cluster, node := b.clusterKey(), b.nodeKey()
	change := func(component string) {
		c := b.components[component]
		c.Key = "changed"
		b.components[component] = c
	}
	change("gvisor")
	assert.Equal(t, cluster, b.clusterKey())
	assert.NotEqual(t, node, b.nodeKey())

	node = b.nodeKey()
	change("coredns")
	assert.NotEqual(t, cluster, b.clusterKey())
	assert.NotEqual(t, node, b.nodeKey(), "the node image carries the cluster's images")
}
