// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/stockade-dev/stockade/conformance/suite"
)

// exits are services that carry data out of a project for anybody who has an
// account of his own: a perimeter that does not restrict them stops nothing,
// whether or not the project itself uses them.
// https://docs.cloud.google.com/vpc-service-controls/docs/supported-products
var exits = []string{
	"aiplatform.googleapis.com",
	"artifactregistry.googleapis.com",
	"bigquery.googleapis.com",
	"bigquerydatatransfer.googleapis.com",
	"bigtable.googleapis.com",
	"cloudbuild.googleapis.com",
	"cloudfunctions.googleapis.com",
	"firestore.googleapis.com",
	"logging.googleapis.com",
	"monitoring.googleapis.com",
	"pubsub.googleapis.com",
	"run.googleapis.com",
	"secretmanager.googleapis.com",
	"spanner.googleapis.com",
	"storage.googleapis.com",
	"storagetransfer.googleapis.com",
}

// identities are services that hand out tokens for an identity. Outside of the
// perimeter a token of the project can be exchanged for one by anybody who has stolen
// it, and a Pod whose network reaches restricted services alone gets none.
var identities = []string{
	"iamcredentials.googleapis.com",
	"sts.googleapis.com",
}

// underGKE are services that GKE stands on, and that nobody switches on by hand. Google
// calls the GKE API fully protected only with the first, and an environment only with
// both; see "Google Kubernetes Engine" on the page of [exits].
var underGKE = []string{
	"kubernetesmetadata.googleapis.com",
	"autoscaling.googleapis.com",
}

func noPerimeter(p Profile) string {
	return unless(p.Perimeter, "this environment has no perimeter, and says so (KG-12 is a limit there)")
}

func hasPerimeter(g Graph) bool { return len(g.of(typePerimeter))+len(g.of(typePerimeters)) > 0 }

// part names the half of a perimeter that is judged for its content: what is
// enforced, or, while nothing is, what is tried out. Whether it is enforced is
// the question of one rule alone.
func part(p Resource) string {
	if _, st := p.find("status.restrictedServices"); st != absent {
		return "status"
	}
	return "spec"
}

// inFirst is a mutant's change in the first perimeter. One is enough to be
// caught, since every one is judged.
func inFirst(change func(p Resource) bool) func(*Graph) bool {
	return func(g *Graph) bool {
		all := g.of(typePerimeter)
		return len(all) > 0 && change(all[0])
	}
}

// leftOut is a mutant's change: the first perimeter does not restrict the service.
func leftOut(service string) func(*Graph) bool {
	return inFirst(func(p Resource) bool {
		path := part(p) + ".restrictedServices"
		all, st := p.list(path)
		if st != known {
			return false
		}
		return p.put(path, slices.DeleteFunc(slices.Clone(all), func(v any) bool { return v == service }))
	})
}

// inPart is a mutant's change in the half that is judged.
func inPart(path string, v any) func(*Graph) bool {
	return inFirst(func(p Resource) bool { return p.put(part(p)+"."+path, clone(v)) })
}

var perimeterRules = []*Rule{
	{
		ID: "plan.perimeter-enforced", Title: "Find a perimeter that only watches",
		About:  "A dry run logs and blocks nothing, and neither does a perimeter with nothing in it. Whether the project in it is this one, a plan does not say: it knows one by number and the other by name.",
		Claims: []string{"KG-12"}, Severity: suite.Critical,
		skip: noPerimeter, present: hasPerimeter,
		Mutants: []Mutant{{"dry-run", "the perimeter is a dry run", inFirst(func(p Resource) bool {
			status, ok := p.Inputs["status"]
			if !ok {
				return false
			}
			p.Inputs["spec"], p.Inputs["useExplicitDryRunSpec"] = status, true
			delete(p.Inputs, "status")
			return true
		})}},
		judge: func(l *look) {
			for _, p := range l.perimeters() {
				_, status := p.find("status.restrictedServices")
				_, spec := p.find("spec")
				if status == absent && spec != absent {
					l.weak(p.String(), "it is a dry run")
					continue
				}
				for _, path := range []string{"status.restrictedServices", "status.resources"} {
					all, st := p.list(path)
					switch {
					case st != known:
						l.missing(p, path, st)
					case len(all) == 0:
						l.weak(p.String()+": "+path, "it is empty")
					case path == "status.resources" && !slices.ContainsFunc(all, maybeProject):
						l.weak(p.String()+": "+path, "no project is in it, so that no service is guarded")
					default:
						l.sound(p.String()+": "+path, "there are %d", len(all))
					}
				}
			}
		},
	},
	{
		ID: "plan.perimeter-services", Title: "Find a service in use that the perimeter does not restrict",
		About:  "Only restricted services are protected. What the project switches on must be among them, and so must the services that carry data out for everybody, those that hand out identities, and those that GKE stands on.",
		Claims: []string{"KG-12"}, Severity: suite.High,
		skip: noPerimeter, present: hasPerimeter,
		Mutants: []Mutant{
			{"storage-left-out", "Cloud Storage is not restricted", leftOut("storage.googleapis.com")},
			{"token-service-left-out", "the service that exchanges tokens is not restricted", leftOut("sts.googleapis.com")},
			{"cluster-metadata-left-out", "the service for the metadata of Kubernetes is not restricted", leftOut("kubernetesmetadata.googleapis.com")},
		},
		judge: func(l *look) {
			var used []string
			for _, s := range l.each(typeService) {
				name, st := s.text("service")
				if st != known {
					l.missing(s, "service", st)
					continue
				}
				used = append(used, name)
			}
			used = slices.Concat(used, exits, identities, underGKE)
			slices.Sort(used)
			for _, p := range l.perimeters() {
				path := part(p) + ".restrictedServices"
				restricted, st := p.texts(path)
				if st != known {
					l.missing(p, path, st)
					continue
				}
				for _, s := range slices.Compact(slices.Clone(used)) {
					if slices.Contains(restricted, s) {
						l.sound(p.String()+": "+s, "it is restricted")
					} else {
						l.weak(p.String()+": "+s, "it is not restricted")
					}
				}
			}
		},
	},
	{
		ID: "plan.perimeter-doors", Title: "Find a door in the perimeter for everybody",
		About:  "An ingress or egress rule for any identity, or for every service or resource, bridges the perimeter without a word in its log; and so does an access level that does not say who may come in, and from where.",
		Claims: []string{"KG-12"}, Severity: suite.High,
		skip: noPerimeter, present: hasPerimeter,
		Mutants: []Mutant{
			{"any-identity", "anybody may write out of it", inPart("egressPolicies", []any{map[string]any{
				"egressFrom": map[string]any{"identityType": "ANY_IDENTITY"},
				"egressTo":   map[string]any{"resources": []any{"*"}},
			}})},
			{"level-for-every-address", "an access level is for every address", func(g *Graph) bool {
				for _, r := range g.of(typeLevel) {
					conditions, _ := r.objects("basic.conditions")
					for _, c := range conditions {
						return c.put("ipSubnetworks", []any{"0.0.0.0/0"})
					}
				}
				return false
			}},
		},
		judge: func(l *look) {
			for _, p := range l.perimeters() {
				// A perimeter of which nothing is known has no door that is known.
				if _, st := p.list(part(p) + ".restrictedServices"); st != known {
					l.missing(p, part(p)+".restrictedServices", st)
					continue
				}
				for _, direction := range []string{"ingress", "egress"} {
					path := fmt.Sprintf("%s.%sPolicies", part(p), direction)
					policies, st := p.list(path)
					switch {
					case st == unknown:
						l.missing(p, path, st)
					case len(policies) == 0:
						l.sound(p.String()+": "+path, "there is none")
					}
					for i, policy := range policies {
						l.door(fmt.Sprintf("%s: %s %d", p, path, i+1), policy)
					}
				}
				l.levels(p, part(p)+".accessLevels")
			}
			for _, r := range l.Resources {
				switch {
				case r.Type == typeLevel:
					l.level(r)
				case strings.HasPrefix(r.Type, "gcp:accesscontextmanager/") && strings.HasSuffix(r.Type, "gressPolicy"):
					// One policy of a perimeter, as a resource of its own.
					l.door(r.String(), r.Inputs)
				case strings.HasPrefix(r.Type, "gcp:accesscontextmanager/accessLevel"):
					l.unsure(r.String(), "it changes what others declare, and is not understood")
				}
			}
		},
	},
	{
		ID: "plan.perimeter-network", Title: "Find Google services that the VPC reaches although nothing guards them",
		About:  "vpcAccessibleServices keeps the network from the services that the perimeter does not restrict.",
		Claims: []string{"KG-12"}, Severity: suite.Medium,
		skip: noPerimeter, present: hasPerimeter,
		Mutants: []Mutant{{"all-services", "the VPC reaches every service", inPart("vpcAccessibleServices.enableRestriction", false)}},
		judge: func(l *look) {
			for _, p := range l.perimeters() {
				l.wants(p, part(p)+".vpcAccessibleServices.enableRestriction", true)
				path := part(p) + ".vpcAccessibleServices.allowedServices"
				allowed, st := p.texts(path)
				switch {
				case st != known:
					l.missing(p, path, st)
				case slices.Equal(allowed, []string{"RESTRICTED-SERVICES"}):
					l.sound(p.String()+": "+path, "those that are restricted")
				default:
					l.weak(p.String()+": "+path, "%.120q", strings.Join(allowed, " "))
				}
			}
		},
	},
}

// typePerimeters are all perimeters of an organization at once: any other goes.
const typePerimeters = "gcp:accesscontextmanager/servicePerimeters:ServicePerimeters"

// perimeters returns those of the graph.
func (l *look) perimeters() []Resource {
	for _, r := range l.of(typePerimeters) {
		l.unsure(r.String(), "it replaces every perimeter that it does not name, and is not understood")
	}
	return l.each(typePerimeter)
}

// maybeProject tells whether what a perimeter is around is a project, or not known yet.
// It may be a network as well, whose calls it guards and nothing else.
func maybeProject(v any) bool {
	s, ok := v.(string)
	return !ok || strings.HasPrefix(s, "projects/")
}

// levels records whether the access levels that a perimeter names are in the graph,
// where they are judged.
func (l *look) levels(p Resource, path string) {
	named, st := p.texts(path)
	if st == unknown {
		l.missing(p, path, st)
	}
	for _, name := range named {
		l.knownLevel(p.String()+": "+path, name)
	}
}

func (l *look) knownLevel(what, name string) {
	if !slices.ContainsFunc(l.of(typeLevel), func(r Resource) bool { got, _ := r.text("name"); return got == name }) {
		l.unsure(what, fmt.Sprintf("%.120q is not in the graph", name))
	}
}

// sources returns the access levels by which a policy lets callers in.
func sources(v any) (out []string) {
	switch v := v.(type) {
	case []any:
		for _, x := range v {
			out = append(out, sources(x)...)
		}
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			if name, ok := v[k].(string); ok && k == "accessLevel" {
				out = append(out, name)
				continue
			}
			out = append(out, sources(v[k])...)
		}
	}
	return out
}

// The widest ranges that still are somebody's, in bits.
const (
	widest4 = 16
	widest6 = 32
)

// level records whether an access level says who may come in, and from where. What
// all of its conditions demand together counts, unless one of them is enough.
func (l *look) level(r Resource) {
	conditions, st := r.objects("basic.conditions")
	if st != known {
		l.missing(r, "basic.conditions", st)
		return
	}
	function, st := r.text("basic.combiningFunction")
	if st == unknown {
		l.missing(r, "basic.combiningFunction", st)
		return
	}
	groups := [][]Resource{conditions}
	if function == "OR" {
		groups = nil
		for _, c := range conditions {
			groups = append(groups, []Resource{c})
		}
	}
	for _, group := range groups {
		l.demands(r, group)
	}
	if len(groups) == 0 {
		l.weak(r.String(), "it demands nothing")
	}
}

// demands records whether conditions that must all be met name both.
func (l *look) demands(r Resource, conditions []Resource) {
	who, where, wide := false, false, ""
	for _, c := range conditions {
		members, st := c.texts("members")
		ranges, rangeState := c.texts("ipSubnetworks")
		negated, negateState := c.flag("negate")
		if st == unknown || rangeState == unknown || negateState == unknown || negated {
			l.unsure(r.String()+": basic.conditions", "part of it is not known yet, or not understood")
			return
		}
		who, where = who || len(members) > 0, where || len(ranges) > 0
		for _, s := range ranges {
			at, err := netip.ParsePrefix(s)
			if err != nil || at.Addr().Is4() && at.Bits() < widest4 || at.Addr().Is6() && at.Bits() < widest6 {
				wide = s
			}
		}
	}
	switch what := r.String() + ": basic.conditions"; {
	case !who:
		l.weak(what, "they name nobody")
	case !where:
		l.weak(what, "they are for every address")
	case wide != "":
		l.weak(what, "%.60q is wider than /%d, or /%d for IPv6", wide, widest4, widest6)
	default:
		l.sound(what, "they say who and from where")
	}
}

// door records whether anything in one policy means everybody or everything.
func (l *look) door(what string, policy any) {
	for _, level := range sources(policy) {
		l.knownLevel(what, level)
	}
	switch word, undecided := open(policy); {
	case word != "":
		l.weak(what, "it says %s", word)
	case undecided:
		l.unsure(what, "part of it is not known yet")
	default:
		l.sound(what, "it names whom and what")
	}
}

// open looks for a word that opens a policy. Identities of any user account
// are a door too: everybody has one. All methods of a service that is named are
// none: Google has no other way to write the whole service.
func open(v any) (word string, undecided bool) {
	switch v := v.(type) {
	case Unknown:
		return "", true
	case string:
		if v == "*" || strings.HasPrefix(v, "ANY_") {
			return v, false
		}
	case []any:
		for _, x := range v {
			w, u := open(x)
			if w != "" {
				return w, false
			}
			undecided = undecided || u
		}
	case map[string]any:
		named := maps.Clone(v)
		if named["method"] == "*" {
			delete(named, "method")
		}
		return open(slices.Collect(maps.Values(named)))
	}
	return "", undecided
}
