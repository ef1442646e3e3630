// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/stockade-dev/stockade/conformance/report"
	"github.com/stockade-dev/stockade/conformance/runner"
	"github.com/stockade-dev/stockade/overlays"
)

// killsFile has the cells of the kill matrix that were seen, out of the reports of
// several calls of prove: the whole matrix takes longer than one of CI's runs may.
const killsFile = "docs/kills.json"

// kill is one cell that was seen killed.
type kill struct {
	Mutant   string    `json:"mutant"`
	Scenario string    `json:"scenario"`
	Seen     time.Time `json:"seen"` // when the run ended, in UTC, to the minute
	// As is the digest of the mutant as it was then. Empty is a cell that was seen
	// before digests were written down.
	As string `json:"as,omitempty"`
}

func (k kill) cell() string { return k.Mutant + " " + k.Scenario }

func readKills() ([]kill, error) {
	data, err := os.ReadFile(killsFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var kills []kill
	if err == nil {
		err = json.Unmarshal(data, &kills)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the cells that were seen: %w", err)
	}
	return kills, nil
}

// addKills writes down what the reports of prove at the paths have killed.
func addKills(paths []string) error {
	if len(paths) == 0 {
		return nil
	}
	kills, err := readKills()
	if err != nil {
		return err
	}
	mutants, err := overlays.LoadMutants()
	if err != nil {
		return err
	}
	for _, path := range paths {
		r, err := readReport(path)
		if err != nil {
			return err
		}
		if kills, err = merge(kills, mutants, r); err != nil {
			return err
		}
	}
	data, err := json.MarshalIndent(kills, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(killsFile, append(data, '\n'), 0o644); err != nil {
		return fmt.Errorf("writing the cells that were seen: %w", err)
	}
	return nil
}

// merge adds a report's kills, and drops what it says was not killed: that was seen to
// survive, or to be void, later than it was seen killed.
func merge(kills []kill, mutants []overlays.Mutant, r *report.Report) ([]kill, error) {
	for _, m := range r.Mutants {
		at := slices.IndexFunc(mutants, func(x overlays.Mutant) bool { return x.ID == m.ID })
		if at < 0 {
			continue // no mutant of this checkout
		}
		as, err := mutants[at].Digest()
		if err != nil {
			return nil, err
		}
		now := kill{Mutant: m.ID, Scenario: m.Scenario, Seen: r.Ended.UTC().Truncate(time.Minute), As: as}
		was := slices.IndexFunc(kills, func(k kill) bool { return k.cell() == now.cell() })
		if was >= 0 && kills[was].Seen.After(now.Seen) {
			continue
		}
		if was >= 0 {
			kills = slices.Delete(kills, was, was+1)
		}
		if m.Fate == runner.Killed {
			kills = append(kills, now)
		}
	}
	slices.SortFunc(kills, func(a, b kill) int { return strings.Compare(a.cell(), b.cell()) })
	return kills, nil
}

// matrixPage is every declared cell, with when it was last seen killed.
func matrixPage(mutants []overlays.Mutant, kills []kill) (string, error) {
	last := map[string]kill{}
	for _, k := range kills {
		last[k.cell()] = k
	}
	var seen, changed, open strings.Builder
	var declared, counted int
	for _, m := range mutants {
		as, err := m.Digest()
		if err != nil {
			return "", err
		}
		for _, s := range m.Kills {
			declared++
			k, ok := last[m.ID+" "+s]
			if !ok {
				fmt.Fprintf(&open, "- `%s` by %s\n", m.ID, link(s))
				continue
			}
			counted++
			to := &seen
			if k.As != as {
				to = &changed
			}
			fmt.Fprintf(to, "| `%s` | %s | %s |\n", m.ID, link(s), k.Seen.Format("2006-01-02 15:04"))
		}
	}
	var b strings.Builder
	b.WriteString(note + "# The kill matrix, as measured\n\n")
	b.WriteString("Each line is a cell that `stockade prove` called killed on a real cluster: the mutant was deployed,\n" +
		"read back as weakened, and the scenario said Breached while what must hold on the mutant held: honest\n" +
		"work, where anything runs code, and the scenarios that the mutant names. It is put together from the\n" +
		"reports of several runs (times in UTC), because the whole matrix takes 25 minutes to an hour on two cores.\n" +
		"`stockade prove` prints it anew. CI proves a cover, in which every scenario meets at least one of its\n" +
		"mutants: the reference's for each commit, and those of the other systems in turn, one in each run.\n" +
		"What each mutant weakens is in [mutants](mutants.md).\n\n")
	fmt.Fprintf(&b, "%d cells are declared, and %d of them were seen.\n", declared, counted)
	section := func(title, head string, lines *strings.Builder) {
		if lines.Len() > 0 {
			b.WriteString("\n## " + title + "\n\n" + head + lines.String())
		}
	}
	const table = "| mutant | scenario | last seen killed |\n|---|---|---|\n"
	section("Not seen yet", "", &open)
	section("Seen as they are", table, &seen)
	section("Seen, and changed since", "The mutant, or what must hold on it, was another then, or nobody wrote down what it was.\n\n"+table, &changed)
	return b.String(), nil
}
