// SPDX-License-Identifier: Apache-2.0

//go:build linux

package kind

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// As containerd 2.4.2 prints it.
const imageTable = `REF                                                                             TYPE                                                 DIGEST                                                                  SIZE      PLATFORMS   LABELS
stockade.local/playground:dev                                                   application/vnd.docker.distribution.manifest.v2+json sha256:1111111111111111111111111111111111111111111111111111111111111111 120.1 MiB linux/amd64 io.cri-containerd.image=managed
stockade.local/probe:dev                                                        application/vnd.docker.distribution.manifest.v2+json sha256:2222222222222222222222222222222222222222222222222222222222222222 8.1 MiB   linux/amd64 io.cri-containerd.image=managed
stockade.local/probe@sha256:2222222222222222222222222222222222222222222222222222222222222222 application/vnd.docker.distribution.manifest.v2+json sha256:2222222222222222222222222222222222222222222222222222222222222222 8.1 MiB linux/amd64 -
sha256:3333333333333333333333333333333333333333333333333333333333333333         application/vnd.docker.distribution.manifest.v2+json sha256:1111111111111111111111111111111111111111111111111111111111111111 120.1 MiB linux/amd64 io.cri-containerd.image=managed
`

func TestImagesAreReadFromContainerdsTable(t *testing.T) {
	tags, named := parseImages(imageTable)
	probe := "stockade.local/probe@sha256:2222222222222222222222222222222222222222222222222222222222222222"
	assert.Equal(t, map[string]string{
		"stockade.local/playground:dev": "stockade.local/playground@sha256:1111111111111111111111111111111111111111111111111111111111111111",
		"stockade.local/probe:dev":      probe,
	}, tags)
	assert.Equal(t, map[string]bool{probe: true}, named)
	tags, named = parseImages("REF TYPE DIGEST\n\nhost:5000/a/b sha sha256:1\n")
	assert.Equal(t, map[string]string{"host:5000/a/b": "host:5000/a/b@sha256:1"}, tags, "the colon is the port's")
	assert.Empty(t, named)
}

func TestAnArchiveTakesTheTagOverFromTheOneBefore(t *testing.T) {
	had := []string{"probe-1.tar", "probe-host-1.tar", "router-1.tar"}
	assert.Equal(t, []string{"probe-host-1.tar", "router-1.tar", "probe-2.tar", "runner-1.tar"}, imported(had, []string{"probe-2.tar", "runner-1.tar"}))
}
