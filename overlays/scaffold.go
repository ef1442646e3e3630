// SPDX-License-Identifier: Apache-2.0

package overlays

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// scaffoldPrefix begins the names of the folders that mutants stand on.
const scaffoldPrefix = "scaffold"

// bare is a scaffold without a change: the folders that are its resources.
type bare struct{ resources, system []string }

// Scaffolds returns what the mutants stand on, as mutants in which nothing is weaker,
// one for each combination of folders, ordered by id; on says which is whose, by the
// mutants' ids. A scaffold leaves out what would hide a weakening, as Pod Security hides
// a missing rule. What it leaves out may be just what a scenario looks for: then every
// mutant on it is killed, whatever its change. Kills are those of all its mutants, and
// must not be breached.
func Scaffolds(mutants []Mutant) (scaffolds []Mutant, on map[string]string, err error) {
	on = map[string]string{}
	for _, m := range mutants {
		var b bare
		if b.resources, err = scaffoldsOf(path.Join("mutants", m.ID)); err != nil {
			return nil, nil, fmt.Errorf("finding the scaffold of mutant %s: %w", m.ID, err)
		}
		if m.OwnService {
			if b.system, err = scaffoldsOf(path.Join("mutants", m.ID, systemFolder)); err != nil {
				return nil, nil, fmt.Errorf("finding the scaffold of the service of mutant %s: %w", m.ID, err)
			}
		}
		var names []string
		for _, r := range slices.Concat(b.resources, b.system) {
			names = append(names, path.Base(r))
		}
		id := m.Base + "-on-" + strings.ReplaceAll(strings.Join(names, "-"), scaffoldPrefix+"-", "")
		on[m.ID] = id
		i := slices.IndexFunc(scaffolds, func(s Mutant) bool { return s.ID == id })
		if i < 0 {
			s := Mutant{ID: id, Title: "Change nothing on " + strings.Join(names, " and "), Base: m.Base, Scope: ScopeNamespace, OwnService: m.OwnService, bare: &b}
			namespace := s.Namespace()
			s.Effect = []Effect{{APIVersion: "v1", Kind: "Namespace", Name: namespace, JSONPath: "{.metadata.name}", Want: &namespace}}
			scaffolds, i = append(scaffolds, s), len(scaffolds)
		}
		scaffolds[i].Kills = slices.Compact(slices.Sorted(slices.Values(slices.Concat(scaffolds[i].Kills, m.Kills))))
	}
	slices.SortFunc(scaffolds, func(a, b Mutant) int { return strings.Compare(a.ID, b.ID) })
	return scaffolds, on, nil
}

// scaffoldsOf are the resources of a mutant's folder that are scaffolds.
func scaffoldsOf(folder string) ([]string, error) {
	text, err := fs.ReadFile(files, path.Join(folder, "kustomization.yaml"))
	if err != nil {
		return nil, err
	}
	var k struct {
		Resources []string `json:"resources"`
	}
	if err := yaml.Unmarshal(text, &k); err != nil {
		return nil, err
	}
	found := slices.DeleteFunc(k.Resources, func(r string) bool { return !strings.HasPrefix(path.Base(r), scaffoldPrefix) })
	if len(found) == 0 {
		return nil, fmt.Errorf("%s stands on none", folder)
	}
	return found, nil
}

// write puts the scaffold's folders where a mutant's are.
func (b bare) write(disk filesys.FileSystem, m Mutant) error {
	folder := path.Join(root, "mutants", m.ID)
	for i, resources := range [][]string{b.resources, b.system} {
		if len(resources) == 0 {
			continue
		}
		text, err := yaml.Marshal(map[string]any{
			"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization", "namespace": m.Namespaces()[i], "resources": resources})
		if err != nil {
			return err
		}
		if err := disk.WriteFile(path.Join(folder, []string{"", systemFolder}[i], "kustomization.yaml"), text); err != nil {
			return err
		}
	}
	return nil
}
