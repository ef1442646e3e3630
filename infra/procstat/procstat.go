// SPDX-License-Identifier: Apache-2.0

// Package procstat reads /proc/PID/stat.
package procstat

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Stat is a part of what the kernel tells of a process.
type Stat struct {
	// State is a letter: R, S, D, Z for a zombie, X for a dead one.
	State string
	// Parent is a process id.
	Parent int
	// Start is in clock ticks since boot. With the process id it tells a process
	// from a later one that was given the same id.
	Start uint64
}

// Read reads the stat of a process. The error wraps [fs.ErrNotExist] when there is
// none of this id.
func Read(pid int) (Stat, error) {
	line, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return Stat{}, err
	}
	s, err := parse(string(line))
	if err != nil {
		return Stat{}, fmt.Errorf("reading the stat of process %d: %w", pid, err)
	}
	return s, nil
}

// parse counts the fields from the last parenthesis on: the name before it is the
// process's own choice, and may hold spaces and parentheses.
func parse(line string) (s Stat, err error) {
	fields := strings.Fields(line[strings.LastIndexByte(line, ')')+1:])
	if len(fields) < 20 {
		return Stat{}, errors.New("the line is too short")
	}
	s.State = fields[0]
	if s.Parent, err = strconv.Atoi(fields[1]); err != nil {
		return Stat{}, err
	}
	s.Start, err = strconv.ParseUint(fields[19], 10, 64)
	return s, err
}
