// SPDX-License-Identifier: Apache-2.0

package node

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/stockade-dev/stockade/infra/atomicfile"
)

// Last is what the last Build of a home returned. Looking takes no time, while
// [Cached] hashes the sources of every program.
type Last struct {
	// NodeTag is the node image's name, and stands for all that is in it.
	NodeTag string `json:"nodeTag"`
	// Archives are the file names of the archives of our own programs, which have
	// their content's key in them.
	Archives []string `json:"archives"`
}

func lastPath(home string) string { return filepath.Join(home, "images", "last.json") }

// LastBuild returns what the last Build recorded; the zero value means that nothing
// has been built.
func LastBuild(home string) (l Last, err error) {
	data, err := os.ReadFile(lastPath(home))
	if errors.Is(err, fs.ErrNotExist) {
		return l, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &l)
	}
	if err != nil {
		return Last{}, fmt.Errorf("reading what was built last: %w; `stockade images build` writes it again", err)
	}
	return l, nil
}

// record notes what Build returns, for [LastBuild].
func (b *builder) record(images Images) error {
	l := Last{NodeTag: images.NodeTag}
	for _, a := range images.Archives {
		l.Archives = append(l.Archives, filepath.Base(a))
	}
	data, err := json.Marshal(l)
	if err == nil {
		err = atomicfile.Write(lastPath(b.Home), data, 0o644)
	}
	if err != nil {
		return fmt.Errorf("recording what was built: %w", err)
	}
	return nil
}
