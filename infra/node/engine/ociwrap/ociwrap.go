// SPDX-License-Identifier: Apache-2.0

package ociwrap

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/stockade-dev/stockade/infra/atomicfile"
)

// Invocation is the part of a runc command line that matters here.
type Invocation struct {
	// Command is runc's sub-command; empty when there is none.
	Command string
	// Bundle is the container's folder, for create and run.
	Bundle string
	// Process is the file that describes a process to add, for exec; empty
	// when the process is given on the command line.
	Process string
}

// valueFlags are runc's global flags that are followed by a value: a word
// after one of them is no sub-command.
var valueFlags = map[string]bool{"root": true, "log": true, "log-format": true, "criu": true, "rootless": true}

// ParseArgs finds the sub-command in the arguments of runc (without argv[0])
// and the file it will read. Unknown flags are passed over.
func ParseArgs(args []string) Invocation {
	inv := Invocation{}
	for i := 0; i < len(args); i++ {
		name, value, isFlag := flagOf(args[i])
		switch {
		case !isFlag && inv.Command == "":
			inv.Command = args[i]
			continue
		case !isFlag:
			continue
		}
		takes := inv.Command == "" && valueFlags[name] ||
			(inv.Command == "create" || inv.Command == "run") && (name == "bundle" || name == "b") ||
			inv.Command == "exec" && (name == "process" || name == "p")
		if !takes {
			continue
		}
		if !strings.Contains(args[i], "=") {
			if i++; i >= len(args) {
				break
			}
			value = args[i]
		}
		switch name {
		case "bundle", "b":
			inv.Bundle = value
		case "process", "p":
			inv.Process = value
		}
	}
	if inv.Bundle == "" && (inv.Command == "create" || inv.Command == "run") {
		inv.Bundle = "." // runc's own default
	}
	return inv
}

func flagOf(arg string) (name, value string, ok bool) {
	if len(arg) < 2 || arg[0] != '-' {
		return "", "", false
	}
	name, value, _ = strings.Cut(strings.TrimLeft(arg, "-"), "=")
	return name, value, true
}

// Adapt rewrites the file the invocation will read, if any, so that it asks
// for nothing the host cannot grant.
func Adapt(inv Invocation, have Privileges) error {
	switch {
	case inv.Bundle != "":
		return rewrite(filepath.Join(inv.Bundle, "config.json"), func(spec map[string]any) {
			if process, ok := spec["process"].(map[string]any); ok {
				Reduce(process, have)
			}
		})
	case inv.Process != "":
		return rewrite(inv.Process, func(process map[string]any) { Reduce(process, have) })
	}
	return nil
}

// Reduce takes out of an OCI process description what cannot be granted. It
// works on decoded JSON rather than on a Go type so that fields it has never
// heard of survive.
func Reduce(process map[string]any, have Privileges) {
	if sets, ok := process["capabilities"].(map[string]any); ok {
		for name, set := range sets {
			wanted, ok := set.([]any)
			if !ok {
				continue
			}
			kept := make([]any, 0, len(wanted))
			for _, c := range wanted {
				if s, ok := c.(string); ok && have.Bounding[strings.ToUpper(s)] {
					kept = append(kept, c)
				}
			}
			sets[name] = kept
		}
	}
	if have.CanRaise() {
		return
	}
	if limits, ok := process["rlimits"].([]any); ok {
		for _, l := range limits {
			if limit, ok := l.(map[string]any); ok {
				clamp(limit, have.HardLimits)
			}
		}
	}
	if score, ok := process["oomScoreAdj"].(json.Number); ok {
		if n, err := score.Int64(); err == nil && n < int64(have.OOMScoreAdj) {
			process["oomScoreAdj"] = have.OOMScoreAdj
		}
	}
}

func clamp(limit map[string]any, hard map[string]uint64) {
	name, _ := limit["type"].(string)
	most, known := hard[name]
	if !known {
		return
	}
	for _, field := range []string{"hard", "soft"} {
		n, ok := limit[field].(json.Number)
		if !ok {
			continue
		}
		// A number that does not fit is larger than any limit.
		var want uint64
		if err := json.Unmarshal([]byte(n), &want); err != nil || want > most {
			limit[field] = most
		}
	}
}

// rewrite edits a JSON object in place. The new content replaces the old one
// by rename: runc must never read half a file.
func rewrite(path string, edit func(map[string]any)) (err error) {
	old, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("reading the container's description: %w", err)
	}
	dec := json.NewDecoder(bytes.NewReader(old))
	dec.UseNumber() // a float64 would corrupt large limits
	var object map[string]any
	if err := dec.Decode(&object); err != nil {
		return fmt.Errorf("reading the container's description %s: %w", path, err)
	}
	edit(object)
	changed, err := json.Marshal(object)
	if err != nil {
		return fmt.Errorf("writing the container's description: %w", err)
	}
	if err := atomicfile.Write(path, changed, mode(path)); err != nil {
		return fmt.Errorf("writing the container's description: %w", err)
	}
	return nil
}

func mode(path string) fs.FileMode {
	if st, err := os.Stat(path); err == nil {
		return st.Mode().Perm()
	}
	return 0o600
}
