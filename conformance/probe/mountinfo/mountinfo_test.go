// SPDX-License-Identifier: Apache-2.0

package mountinfo

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestFieldsAreReadWithTheirEscapes(t *testing.T) {
	const text = `21 1 0:20 / / rw - overlay overlay rw
22 21 0:21 /a\134b /mnt/a\040b ro shared:9 master:2 - tmpfs tmpfs ro
23 21 0:4 net:[4026532281] /run/netns/x rw shared:9 - nsfs nsfs rw
24 21 0:22 / /no/type rw
short line
`
	assert.Equal(t, []Mount{
		{Root: "/", Point: "/", Type: "overlay"},
		{Root: `/a\b`, Point: "/mnt/a b", Type: "tmpfs"},
		{Root: "net:[4026532281]", Point: "/run/netns/x", Type: "nsfs"},
		{Root: "/", Point: "/no/type"},
	}, Parse(text))
}

func TestATableWithoutARootWasNotRead(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "mountinfo")
	require.NoError(t, os.WriteFile(empty, []byte("short line\n"), 0o600))
	_, err := Read(empty)
	require.ErrorContains(t, err, "not even the root")
	_, err = Read(filepath.Join(t.TempDir(), "gone"))
	require.ErrorIs(t, err, os.ErrNotExist)
}
