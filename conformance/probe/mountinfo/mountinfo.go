// SPDX-License-Identifier: Apache-2.0

// Package mountinfo reads the kernel's tables of mounts, proc_pid_mountinfo(5). It
// imports the standard library only: the static probe links it.
package mountinfo

import (
	"errors"
	"os"
	"slices"
	"strings"
)

// Self is the table of the process that reads it.
const Self = "/proc/self/mountinfo"

// Mount is a part of what the kernel tells of a mount.
type Mount struct {
	// Root is what of the file system is mounted: a path in it, or the name of a
	// namespace ("net:[4026531840]").
	Root string
	// Point is where it is mounted.
	Point string
	// Type is the file system's, such as tmpfs.
	Type string
}

// Read reads a table. One without any mount is an error: a process has a root at
// least, so that it was not the table that was read.
func Read(path string) ([]Mount, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	mounts := Parse(string(text))
	if len(mounts) == 0 {
		return nil, errors.New("mountinfo names no mount, not even the root")
	}
	return mounts, nil
}

// Parse reads the text of a table. Lines that are too short are passed over.
func Parse(text string) (mounts []Mount) {
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) < 5 {
			continue
		}
		m := Mount{Root: unescape.Replace(f[3]), Point: unescape.Replace(f[4])}
		// Any number of optional fields comes before the type.
		if i := slices.Index(f, "-"); i >= 0 && i+1 < len(f) {
			m.Type = f[i+1]
		}
		mounts = append(mounts, m)
	}
	return mounts
}

// unescape undoes the octal escapes that keep blanks out of the fields.
var unescape = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
