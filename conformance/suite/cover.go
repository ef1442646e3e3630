// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"maps"
	"slices"
)

// Mutants are the ids of all mutants that the scenarios name, sorted.
func (r *Registry) Mutants() []string {
	set := map[string]bool{}
	for _, s := range r.All() {
		for _, m := range s.Mutants {
			set[m] = true
		}
	}
	return slices.Sorted(maps.Keys(set))
}

// Cover picks mutants, out of those that may be picked, such that every scenario that
// has any is attacked by at least one of its own, but for those that others reach
// already. It takes the mutant that covers most of what is left, the first of them by
// name, until nothing is left: not always the fewest that there are, but the same on
// every machine.
func (r *Registry) Cover(may, others func(mutant string) bool) []string {
	left := map[string][]string{} // the scenarios not yet covered, by mutant
	for _, s := range r.All() {
		if slices.ContainsFunc(s.Mutants, others) {
			continue
		}
		for _, m := range s.Mutants {
			if may(m) {
				left[m] = append(left[m], s.ID)
			}
		}
	}
	mutants := r.Mutants()
	var picked []string
	for {
		best := ""
		for _, m := range mutants {
			if len(left[m]) > len(left[best]) {
				best = m
			}
		}
		if best == "" {
			return picked
		}
		picked = append(picked, best)
		done := slices.Clone(left[best])
		for m, ids := range left {
			left[m] = slices.DeleteFunc(ids, func(id string) bool { return slices.Contains(done, id) })
		}
	}
}
