// SPDX-License-Identifier: Apache-2.0

package gke

import (
	"regexp"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/stockade-dev/stockade/infra/gke/gketest"
)

// harmless are the inputs that may go without a word of the unit tests: their
// absence makes nothing weaker. The key is an expression over "TYPE PATH"; the
// value says why.
var harmless = map[string]string{
	`^gcp:.*/(service|cluster|nodePool):\w+ project$`:          "the provider has the same project",
	`:Network routingMode$`:                                    "which routes are learnt where; there are none to learn",
	`:(Subnetwork|Router|RouterNat) region$`:                   "the provider has the same region",
	`:RouterNat (router|natIpAllocateOption)$`:                 "the API demands it",
	`:ManagedZone description$`:                                "for people",
	`:Firewall description$`:                                   "for people",
	`:RecordSet ttl$`:                                          "how long an answer is kept",
	`:Cluster (name|location|nodeLocations(\.\d+)?)$`:          "how it is called and where it is",
	`:Cluster initialNodeCount$`:                               "the API demands it for the pool that goes away",
	`:NodePool (name|location|cluster)$`:                       "how it is called and where it is; the API demands the cluster",
	`:NodePool nodeConfig\.(machineType|diskType|diskSizeGb)$`: "what it costs",
	`:NodePool upgradeSettings(\.\w+)?$`:                       "how smooth an upgrade is",
	`:NodePool autoscaling\.locationPolicy$`:                   "in which zone a node starts",
	`:Account displayName$`:                                    "for people",
	`:AccessLevel title$`:                                      "for people",
}

// mutant is a graph in which one thing is missing.
type mutant struct {
	what  string
	graph []gketest.Resource
}

// mutants takes each resource away, then each input, each entry of a list and
// each key of an object, at every depth.
func mutants(all []gketest.Resource) (out []mutant) {
	for i, r := range all {
		if !r.Custom {
			continue
		}
		out = append(out, mutant{r.Type, slices.Delete(slices.Clone(all), i, i+1)})
		without(r.Inputs, "", func(path string, inputs any) {
			weak := slices.Clone(all)
			weak[i].Inputs, _ = inputs.(obj)
			out = append(out, mutant{r.Type + " " + path, weak})
		})
	}
	return out
}

// without calls visit with a copy of v for every value below it, in which that
// value is missing.
func without(v any, path string, visit func(path string, copied any)) {
	switch x := v.(type) {
	case obj:
		for k := range x {
			rest := obj{}
			for other, y := range x {
				if other != k {
					rest[other] = y
				}
			}
			visit(join(path, k), rest)
			without(x[k], join(path, k), func(p string, copied any) {
				y := obj{}
				for other := range x {
					y[other] = x[other]
				}
				y[k] = copied
				visit(p, y)
			})
		}
	case []any:
		for i := range x {
			p := join(path, "0")
			visit(p, slices.Delete(slices.Clone(x), i, i+1))
			without(x[i], p, func(p string, copied any) {
				y := slices.Clone(x)
				y[i] = copied
				visit(p, y)
			})
		}
	}
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// Removing anything that matters for safety must be noticed by the assertions of
// the unit tests. What may go unnoticed is listed, and the list must be true.
func TestNothingThatMattersCanBeRemovedUnnoticed(t *testing.T) {
	excused := map[string]*regexp.Regexp{}
	for expr := range harmless {
		excused[expr] = regexp.MustCompile(expr)
	}
	used := map[string]bool{}
	noticed, silent := 0, 0
	for name, c := range components {
		all := declare(t, c.program)
		require.Empty(t, complaints(all, c.wants), "%s must be sound before it is weakened", name)
		for _, m := range mutants(all) {
			if len(complaints(m.graph, c.wants)) > 0 {
				noticed++
				continue
			}
			silent++
			why := ""
			for expr, re := range excused {
				if re.MatchString(m.what) {
					used[expr], why = true, harmless[expr]
				}
			}
			assert.NotEmpty(t, why, "%s: without %s nothing complains", name, m.what)
		}
	}
	for expr := range harmless {
		assert.True(t, used[expr], "%s excuses nothing: it is noticed, or not there any more", expr)
	}
	t.Logf("%d removals were noticed, %d are harmless", noticed, silent)
	assert.Greater(t, noticed, 300)
}
