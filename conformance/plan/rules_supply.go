// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/stockade-dev/stockade/conformance/suite"
)

// Roles are what an environment's identities may be given in the project. The
// list is the widest that a node or a sandbox needs; everything else is a
// finding until somebody has thought about it.
var Roles = []string{
	"roles/aiplatform.user",
	"roles/artifactregistry.reader",
	"roles/container.defaultNodeServiceAccount",
	"roles/logging.logWriter",
	"roles/monitoring.metricWriter",
	"roles/monitoring.viewer",
	"roles/stackdriver.resourceMetadata.writer",
}

var byDigest = regexp.MustCompile(`@sha256:[0-9a-f]{64}$`)

var supplyRules = []*Rule{
	{
		ID: "plan.least-privilege", Title: "Find a role that a node or a sandbox does not need",
		About:  "The identity's own permissions are not contained (KG-11), so they are kept small.",
		Claims: []string{"KG-09"}, Severity: suite.High,
		Mutants: []Mutant{{"editor", "an identity is an editor of the project", set(typeProjectIAM, "role", "roles/editor")}},
		judge: func(l *look) {
			for _, m := range l.each(typeProjectIAM) {
				l.oneOf(m, "role", Roles...)
				member, st := m.text("member")
				switch what := m.String() + ": member"; {
				case st != known:
					l.missing(m, "member", st)
				case member == "allUsers" || member == "allAuthenticatedUsers":
					l.weak(what, "%s is everybody", member)
				default:
					l.sound(what, "%.120s", member)
				}
			}
		},
	},
	{
		ID: "plan.immutable-tags", Title: "Find a registry whose tags can move",
		About:  "A tag that moves after review brings in code that nobody saw.",
		Claims: []string{"PG-02"}, Severity: suite.Medium,
		Mutants: []Mutant{{"mutable-tags", "tags can move", set(typeRepository, "dockerConfig.immutableTags", false)}},
		judge: func(l *look) {
			for _, r := range l.each(typeRepository) {
				if format, st := r.text("format"); st == known && format != "DOCKER" {
					continue
				}
				l.wants(r, "dockerConfig.immutableTags", true)
			}
		},
	},
	{
		ID: "plan.image-digests", Title: "Find an image that is not named by digest",
		About:  "A tag says who was asked for the image, a digest says which.",
		Claims: []string{"PG-02"}, Severity: suite.High,
		skip: func(p Profile) string {
			return unless(p.Workloads, "this plan installs nothing into the cluster")
		},
		present: func(g Graph) bool {
			return slices.ContainsFunc(g.Resources, func(r Resource) bool { return len(images(r.Inputs)) > 0 && isKubernetes(r) })
		},
		Mutants: []Mutant{{"latest", "an image is named by tag", func(g *Graph) bool {
			for _, r := range g.Resources {
				if all := images(r.Inputs); isKubernetes(r) && len(all) > 0 {
					all[0]["image"] = "registry.example/app:latest"
					return true
				}
			}
			return false
		}}},
		judge: func(l *look) {
			found := false
			for _, r := range l.Resources {
				if !isKubernetes(r) {
					continue
				}
				for i, c := range images(r.Inputs) {
					found = true
					what := fmt.Sprintf("%s: image %d", r, i+1)
					switch image, ok := c["image"].(string); {
					case !ok:
						l.unsure(what, "it is not known yet, or not understood")
					case byDigest.MatchString(image):
						l.sound(what, "%.200s", image)
					default:
						l.weak(what, "%.200q is no digest", image)
					}
				}
			}
			if !found {
				l.unsure("images", "there is none in the graph")
			}
		},
	},
	{
		ID: "plan.allow-list", Title: "Find an allow-list of host names that allows too much",
		About:  "In a GKE FQDNNetworkPolicy a rule without ports is for all of them, and a lone * is for every name.",
		Claims: []string{"KG-05"}, Severity: suite.High,
		skip: func(p Profile) string {
			return unless(p.AllowList && p.Workloads, "this plan installs no allow-list")
		},
		present: func(g Graph) bool { return slices.ContainsFunc(g.Resources, isFQDNPolicy) },
		Mutants: []Mutant{{"every-name", "the list has a lone *", func(g *Graph) bool {
			for _, r := range g.Resources {
				rules, st := r.objects("spec.egress")
				if isFQDNPolicy(r) && st == known && len(rules) > 0 {
					return rules[0].put("matches", []any{map[string]any{"pattern": "*"}})
				}
			}
			return false
		}}},
		judge: func(l *look) {
			found := false
			for _, r := range l.Resources {
				if isFQDNPolicy(r) {
					found = true
					l.allowList(r)
				}
			}
			if !found {
				l.unsure("FQDNNetworkPolicy", "there is none in the graph")
			}
		},
	},
}

func isKubernetes(r Resource) bool { return strings.HasPrefix(r.Type, prefixKubernetes) }

func isFQDNPolicy(r Resource) bool {
	return strings.HasPrefix(r.Type, "kubernetes:networking.gke.io/") && strings.HasSuffix(r.Type, ":FQDNNetworkPolicy")
}

// images returns every container of an object, wherever its Pod template is: in
// a Deployment, or in a SandboxTemplate that no SDK knows. The order is that of
// the keys, so that evidence is the same each time.
func images(v any) (out []map[string]any) {
	switch v := v.(type) {
	case []any:
		for _, x := range v {
			out = append(out, images(x)...)
		}
	case map[string]any:
		keys := make([]string, 0, len(v))
		for k := range v {
			keys = append(keys, k)
		}
		slices.Sort(keys)
		for _, k := range keys {
			if list, ok := v[k].([]any); ok && (k == "containers" || k == "initContainers" || k == "ephemeralContainers") {
				for _, x := range list {
					if c, ok := x.(map[string]any); ok && c["image"] != nil {
						out = append(out, c)
					}
				}
				continue
			}
			out = append(out, images(v[k])...)
		}
	}
	return out
}

// allowList records what one FQDNNetworkPolicy allows.
func (l *look) allowList(r Resource) {
	rules, st := r.objects("spec.egress")
	if st != known || len(rules) == 0 {
		l.missing(r, "spec.egress", st)
		return
	}
	for _, rule := range rules {
		matches, st := rule.objects("matches")
		if st != known {
			l.missing(r, "spec.egress.matches", st)
		}
		for _, m := range matches {
			l.hostName(r, m)
		}
		ports, st := rule.objects("ports")
		what := r.String() + ": spec.egress.ports"
		switch {
		case st == unknown:
			l.missing(r, "spec.egress.ports", st)
		case len(ports) == 0:
			l.weak(what, "there is none, which means all")
		}
		for _, p := range ports {
			protocol, st := p.text("protocol")
			number, _ := p.find("port")
			switch {
			case st == unknown || holdsUnknown(number):
				l.missing(r, "spec.egress.ports", unknown)
			case protocol == "TCP" && same(number, float64(443)):
				l.sound(what, "TCP 443")
			default:
				l.weak(what, "%.10q %v is not TCP 443", protocol, number)
			}
		}
	}
}

// hostName records whether one entry of an allow-list names somebody: after
// the wildcards two whole labels must be left.
func (l *look) hostName(r Resource, m Resource) {
	what := r.String() + ": spec.egress.matches"
	name, st := m.text("name")
	if st == absent {
		name, st = m.text("pattern")
	}
	if st != known {
		l.missing(r, "spec.egress.matches", st)
		return
	}
	labels := strings.Split(strings.TrimSuffix(name, "."), ".")
	if n := len(labels); n >= 2 && !strings.Contains(labels[n-1]+labels[n-2], "*") && labels[n-1] != "" && labels[n-2] != "" {
		l.sound(what, "%.120s", name)
		return
	}
	l.weak(what, "%.80q is everybody's", name)
}
