// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/stockade-dev/stockade/cli"
	"github.com/stockade-dev/stockade/conformance/report"
	"github.com/stockade-dev/stockade/conformance/runner"
	"github.com/stockade-dev/stockade/overlays"
	"github.com/stockade-dev/stockade/scenarios/all"
)

var (
	linkTo = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	span   = regexp.MustCompile("`([^`\n]+)`")
	ofMake = regexp.MustCompile(`^make ([a-z][a-z-]*(?: [a-z][a-z-]*)*)`)
	ofOurs = regexp.MustCompile(`\bstockade ([^|;#]+)`)
	// The third part is not empty where the name goes on: a host or a file.
	scenarioID = regexp.MustCompile(`\b([a-z]+(?:-[a-z]+)*)\.([a-z0-9]+(?:-[a-z0-9]+)*)([./]\w)?`)
	aPath      = regexp.MustCompile(`^([a-z]+)(/[a-z0-9_.-]+)+/?$`)
	target     = regexp.MustCompile(`(?m)^([a-z-]+(?: [a-z-]+)*):`)
)

// readPages returns the README and every page of docs by its path.
func readPages(t *testing.T) map[string]string {
	t.Helper()
	pages := map[string]string{}
	for _, root := range []string{"README.md", "docs"} {
		require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || filepath.Ext(path) != ".md" {
				return err
			}
			text, err := os.ReadFile(path)
			pages[path] = string(text)
			return err
		}))
	}
	require.Greater(t, len(pages), 10)
	return pages
}

// codeOf returns what a page says in code: lines of blocks, and spans.
func codeOf(page string) (out []string) {
	inside := false
	for line := range strings.Lines(page) {
		switch {
		case strings.HasPrefix(strings.TrimSpace(line), "```"):
			inside = !inside
		case inside:
			out = append(out, strings.TrimSpace(line))
		default:
			for _, m := range span.FindAllStringSubmatch(line, -1) {
				out = append(out, m[1])
			}
		}
	}
	return out
}

// anchors are the headings of a page as links name them.
func anchors(page string) map[string]bool {
	out := map[string]bool{}
	for line := range strings.Lines(page) {
		if heading, ok := strings.CutPrefix(strings.TrimLeft(line, "#"), " "); ok && strings.HasPrefix(line, "#") {
			name := strings.ToLower(strings.TrimSpace(heading))
			name = regexp.MustCompile(`[^\w\s-]`).ReplaceAllString(name, "")
			out[strings.ReplaceAll(name, " ", "-")] = true
		}
	}
	return out
}

func TestLinksLeadSomewhere(t *testing.T) {
	t.Chdir("../..")
	pages := readPages(t)
	for path, text := range pages {
		for _, m := range linkTo.FindAllStringSubmatch(text, -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			to, anchor, _ := strings.Cut(m[1], "#")
			file := path
			if to != "" {
				file = filepath.Join(filepath.Dir(path), to)
			}
			_, err := os.Stat(file)
			assert.NoError(t, err, "%s leads to %s", path, m[1])
			if page, known := pages[file]; anchor != "" && known {
				assert.True(t, anchors(page)[anchor], "%s leads to %s, where there is no such heading", path, m[1])
			}
		}
	}
}

func TestThePagesNameScenariosThatExist(t *testing.T) {
	t.Chdir("../..")
	families := map[string]bool{}
	for _, s := range all.Registry.All() {
		family, _, _ := strings.Cut(s.ID, ".")
		families[family] = true
	}
	found := 0
	for path, text := range readPages(t) {
		for _, m := range scenarioID.FindAllStringSubmatch(text, -1) {
			if !families[m[1]] || m[2] == "json" || m[3] != "" {
				continue // a host name or a file
			}
			found++
			_, ok := all.Registry.Get(m[1] + "." + m[2])
			assert.True(t, ok, "%s: there is no scenario %s.%s", path, m[1], m[2])
		}
	}
	assert.Greater(t, found, 100)
}

func TestThePagesNameWhatExists(t *testing.T) {
	t.Chdir("../..")
	makefile, err := os.ReadFile("Makefile")
	require.NoError(t, err)
	targets := map[string]bool{}
	for _, m := range target.FindAllStringSubmatch(string(makefile), -1) {
		for name := range strings.FieldsSeq(m[1]) {
			targets[name] = true
		}
	}
	root := (&cli.App{Registry: all.Registry, Getenv: func(string) string { return "" }}).Command()
	root.InitDefaultCompletionCmd("")
	root.InitDefaultHelpCmd()
	for path, text := range readPages(t) {
		for _, code := range codeOf(text) {
			for _, m := range ofMake.FindAllStringSubmatch(code, -1) {
				for name := range strings.FieldsSeq(m[1]) {
					assert.True(t, targets[name], "%s: there is no target %s: %s", path, name, code)
				}
			}
			for _, m := range ofOurs.FindAllStringSubmatch(code, -1) {
				assertCommand(t, root, strings.Fields(m[1]), path)
			}
			if m := aPath.FindStringSubmatch(code); m != nil {
				if _, err := os.Stat(m[1]); err == nil {
					_, err := os.Stat(code)
					assert.NoError(t, err, "%s names %s", path, code)
				}
			}
		}
	}
}

// assertCommand looks for a command and its flags; the words after -- are
// somebody else's.
func assertCommand(t *testing.T, root *cobra.Command, words []string, path string) {
	t.Helper()
	if strings.HasPrefix(words[0], "-") {
		return // the root's own
	}
	cmd, rest, err := root.Find(words)
	if !assert.NoError(t, err) || !assert.NotSame(t, root, cmd, "%s: there is no command %q", path, words) {
		return
	}
	for _, word := range rest {
		if word == "--" || cmd.DisableFlagParsing {
			return
		}
		if name, ok := strings.CutPrefix(word, "--"); ok {
			name, _, _ = strings.Cut(name, "=")
			assert.NotNil(t, cmd.Flag(name), "%s: %s has no flag --%s", path, cmd.CommandPath(), name)
		}
	}
}

func TestEveryCellOfTheMatrixIsInOnePlace(t *testing.T) {
	as := func(m overlays.Mutant) string {
		d, err := m.Digest()
		require.NoError(t, err)
		return d
	}
	mutants, err := overlays.LoadMutants()
	require.NoError(t, err)
	mutants = mutants[:3]
	cells := 0
	for _, m := range mutants {
		cells += len(m.Kills)
	}
	at := time.Date(2026, 1, 2, 3, 4, 0, 0, time.UTC)
	page, err := matrixPage(mutants, []kill{
		{Mutant: mutants[0].ID, Scenario: mutants[0].Kills[0], Seen: at, As: as(mutants[0])},
		{Mutant: mutants[1].ID, Scenario: mutants[1].Kills[0], Seen: at, As: "another"},
		{Mutant: "gone", Scenario: "kernel.gone", Seen: at},
	})
	require.NoError(t, err)
	assert.Contains(t, page, fmt.Sprintf("%d cells are declared, and 2 of them were seen.", cells))
	assert.NotContains(t, page, "gone")
	order := []string{"Not seen yet", mutants[2].ID, "Seen as they are", mutants[0].ID, "2026-01-02 03:04", "changed since", mutants[1].ID}
	rest := page
	for _, word := range order {
		_, after, found := strings.Cut(rest, word)
		require.True(t, found, "%q in %s", word, page)
		rest = after
	}
}

func TestAReportOfMutantsIsWrittenDown(t *testing.T) {
	mutants, err := overlays.LoadMutants()
	require.NoError(t, err)
	m := mutants[0]
	as, err := m.Digest()
	require.NoError(t, err)
	early, late := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2026, 1, 2, 0, 0, 59, 0, time.UTC)
	of := func(at time.Time, fate runner.Fate) *report.Report {
		return &report.Report{Ended: at, Mutants: []report.Mutant{{ID: m.ID, Scenario: "a.b", Fate: fate}, {ID: "of-another-checkout", Scenario: "a.b", Fate: runner.Killed}}}
	}
	add := func(to []kill, r *report.Report) []kill {
		to, err := merge(to, mutants, r)
		require.NoError(t, err)
		return to
	}
	seen := add(nil, of(late, runner.Killed))
	assert.Equal(t, []kill{{m.ID, "a.b", late.Truncate(time.Minute), as}}, seen)
	assert.Equal(t, seen, add(slices.Clone(seen), of(early, runner.Survived)), "an older report says nothing new")
	assert.Empty(t, add(slices.Clone(seen), of(late.Add(time.Hour), runner.Survived)), "what survives later is not killed")
	assert.Len(t, add(slices.Clone(seen), of(late.Add(time.Hour), runner.Killed)), 1)
}

func TestOnlyARunInWhichAllHeldIsShownInPart(t *testing.T) {
	t.Chdir("../..")
	r, err := readReport("docs/evidence/agent-sandbox.json")
	require.NoError(t, err)
	text, err := excerpt(r)
	require.NoError(t, err)
	assert.Contains(t, text, r.ID)
	r.Summary.Breached, r.Summary.Held = 1, r.Summary.Held-1
	_, err = excerpt(r)
	require.ErrorContains(t, err, "did not hold")

	r, err = readReport("docs/evidence/agent-sandbox-default.json")
	require.NoError(t, err)
	_, err = excerpt(r)
	assert.ErrorContains(t, err, "scenarios", "it is of another profile")
}

func TestTheReadmeShowsMutantsThatAreWhatTheyWereWhenTheyWereKilled(t *testing.T) {
	mutants, err := overlays.LoadMutants()
	require.NoError(t, err)
	digest := func(id string) string {
		as, err := mutants[slices.IndexFunc(mutants, func(m overlays.Mutant) bool { return m.ID == id })].Digest()
		require.NoError(t, err)
		return as
	}
	kills := []kill{
		{Mutant: "egress-open", Scenario: "egress.dns-tunnel", As: digest("egress-open")},
		{Mutant: "no-memory-limit", Scenario: "resources.memory-runaway", As: "another then"},
	}
	text, err := noticed(mutants, kills)
	require.NoError(t, err)
	assert.Contains(t, text, "killed  egress-open  egress.dns-tunnel  Breached  ")
	assert.NotContains(t, text, "no-memory-limit")

	text, err = noticed(mutants, append(kills, kill{Mutant: "egress-dns-hole", Scenario: "egress.dns-tunnel", As: digest("egress-dns-hole")}))
	require.NoError(t, err)
	assert.Contains(t, text, "killed  egress-dns-hole  ", "the one that is about it alone")
	assert.NotContains(t, text, "egress-open")

	_, err = noticed(mutants, kills[1:])
	assert.ErrorContains(t, err, "prove some")
}

// Whoever meets a reason looks it up there.
func TestEveryReasonIsExplained(t *testing.T) {
	t.Chdir("../..")
	page, err := os.ReadFile("docs/troubleshooting.md")
	require.NoError(t, err)
	_, table, found := strings.Cut(string(page), "\n## Inconclusive\n")
	require.True(t, found)
	reasons, err := constants("conformance/verdict", "Reason")
	require.NoError(t, err)
	explained := regexp.MustCompile("`[a-z-]+`")
	var got []string
	for line := range strings.Lines(table) {
		if first, _, ok := strings.Cut(strings.TrimPrefix(line, "| "), " | "); ok && strings.HasPrefix(line, "| `") {
			for _, word := range explained.FindAllString(first, -1) {
				got = append(got, strings.Trim(word, "`"))
			}
		}
	}
	want := slices.DeleteFunc(reasons, func(r string) bool { return r == "" })
	assert.ElementsMatch(t, want, got)
}
