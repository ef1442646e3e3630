// SPDX-License-Identifier: Apache-2.0

// Command docsgen writes the generated part of docs: a page for each scenario
// and each command, the lists of claims and mutants, the kill matrix, the report's
// JSON schema, and the run that the README shows. It runs in the root of the checkout:
// `make docs`. A test holds docs in step with the declarations.
//
// With the paths of reports of `stockade prove`, made by this checkout, it writes down
// first what they have killed:
//
//	go run ./internal/docsgen out/prove.json
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/stockade-dev/stockade/overlays"
)

func main() {
	err := addKills(os.Args[1:])
	if err == nil {
		err = write("docs")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "docsgen:", err)
		os.Exit(1)
	}
}

// folders hold generated files only: whatever else is in them is stale.
var folders = []string{"scenarios", "cli"}

func write(docs string) error {
	files, err := generate()
	if err != nil {
		return err
	}
	for _, f := range folders {
		if err := os.RemoveAll(filepath.Join(docs, f)); err != nil {
			return fmt.Errorf("removing stale pages: %w", err)
		}
	}
	for name, text := range files {
		path := filepath.Join(docs, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return fmt.Errorf("writing %s: %w", name, err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return fmt.Errorf("writing %s: %w", name, err)
		}
	}
	return nil
}

// generate returns every generated file by its path from docs.
func generate() (map[string]string, error) {
	files := map[string]string{}
	mutants, err := overlays.LoadMutants()
	if err != nil {
		return nil, err
	}
	kills, err := readKills()
	if err != nil {
		return nil, err
	}
	if files["mutants.md"], err = mutantsPage(mutants); err != nil {
		return nil, err
	}
	if files["matrix.md"], err = matrixPage(mutants, kills); err != nil {
		return nil, err
	}
	scenarioPages(files, mutants)
	reports, err := readEvidence()
	if err != nil {
		return nil, err
	}
	files["claims.md"] = claimsPage(reports)
	commandPages(files)
	schema, err := schema()
	if err != nil {
		return nil, err
	}
	files["report.schema.json"] = schema
	if files["../"+readmeFile], err = readme(reports, mutants, kills); err != nil {
		return nil, err
	}
	return files, nil
}
