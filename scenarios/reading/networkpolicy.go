// SPDX-License-Identifier: Apache-2.0

package reading

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/verdict"
	"github.com/stockade-dev/stockade/scenarios/manifest"
)

// Direction is one of the two that a network policy speaks of.
type Direction string

// The directions, as a policy's fields are called.
const (
	Egress  Direction = "egress"
	Ingress Direction = "ingress"
)

// PoliciesOf is the path of a namespace's network policies.
func PoliciesOf(namespace string) string {
	return "/apis/networking.k8s.io/v1/namespaces/" + namespace + "/networkpolicies"
}

// rules returns a policy's rules for a direction, and whether it speaks of that
// direction at all.
func (d Direction) rules(policy suite.Object) (speaks bool, allowed []any) {
	spec := manifest.Map(policy, "spec")
	speaks = slices.ContainsFunc(texts(spec, "policyTypes"), func(t string) bool { return strings.EqualFold(t, string(d)) })
	allowed, _ = spec[string(d)].([]any)
	return speaks, allowed
}

// selection is whom a selector takes in.
type selection int

const (
	nobody selection = iota
	somebody
	unread
)

// selects tells whether a policy selects a Pod with the labels. Nil labels are
// those of any Pod, which only an empty selector selects.
func selects(policy suite.Object, labels suite.Object) selection {
	return match(manifest.Map(policy, "spec", "podSelector"), labels)
}

func match(selector suite.Object, labels suite.Object) selection {
	if !hasLabels(selector, labels) {
		return nobody
	}
	if expressions, _ := selector["matchExpressions"].([]any); len(expressions) > 0 {
		return unread
	}
	return somebody
}

// hasLabels tells whether the labels have all that a selector wants by matchLabels.
func hasLabels(selector, labels suite.Object) bool {
	for key, want := range manifest.Map(selector, "matchLabels") {
		if got, has := labels[key]; !has || got != want {
			return false
		}
	}
	return true
}

// DefaultDeny looks for a policy that selects a Pod with the labels, or every Pod
// where these are nil, and speaks of the direction: without one, everything is
// allowed. Policies add up, so that one is enough. It is a pure function.
func DefaultDeny(name string, d Direction, policies []suite.Object, labels suite.Object) verdict.Step {
	for _, p := range policies {
		if speaks, _ := d.rules(p); speaks && selects(p, labels) == somebody {
			return verdict.Step{Name: name, Class: verdict.Absent, Detail: manifest.Name(p) + " denies what no policy allows"}
		}
	}
	return verdict.Step{Name: name, OK: true, Detail: fmt.Sprintf("none of %d policies does", len(policies))}
}

// worst reads the rules for a direction of all policies that select a Pod with the
// labels, and keeps the worst of what judge finds in them. It is a pure function.
func (d Direction) worst(policies []suite.Object, labels suite.Object, judge func(rule suite.Object) finding) (f finding) {
	for _, p := range policies {
		speaks, allowed := d.rules(p)
		if !speaks || len(allowed) == 0 {
			continue
		}
		switch selects(p, labels) {
		case nobody:
		case unread:
			f = f.worse(isUnread("a selector that is not by labels").of(manifest.Name(p)))
		case somebody:
			for _, rule := range allowed {
				rule, _ := rule.(object)
				f = f.worse(judge(rule).of(manifest.Name(p)))
			}
		}
	}
	return f
}

// AllowsNothing looks for a policy that selects a Pod with the labels and allows
// anything. It is a pure function.
func AllowsNothing(name string, d Direction, policies []suite.Object, labels suite.Object) verdict.Step {
	anything := func(rule suite.Object) finding { return isOpen("%v", rule) }
	return d.worst(policies, labels, anything).step(name, fmt.Sprintf("none of %d policies allows it", len(policies)))
}

// AllowsSomething finds a policy that allows something: by the same reading, in a
// list where there has to be one. It is a pure function.
func AllowsSomething(name string, d Direction, policies []suite.Object) verdict.Step {
	for _, p := range policies {
		if speaks, allowed := d.rules(p); speaks && len(allowed) > 0 {
			return verdict.Step{Name: name, OK: true, Detail: manifest.Name(p)}
		}
	}
	return verdict.Step{Name: name, Class: verdict.Unknown, Detail: fmt.Sprintf("none of %d policies is one", len(policies))}
}

// Peer is one that a policy may let in: the Pods with a label, of a namespace.
type Peer struct {
	// Namespace is empty for the policy's own.
	Namespace string
	// Label and Value are what all of them have. Without a label they are all Pods
	// of the namespace, or of those that have the label Mark with the value true.
	Label, Value string
	Mark         string
}

// is tells whether a peer of a policy is this one, or a part of it: more labels,
// and expressions, only narrow it.
func (p Peer) is(peer suite.Object) bool {
	where := manifest.Map(peer, "namespaceSelector", "matchLabels")
	if p.Mark != "" {
		return where[p.Mark] == "true"
	}
	here := p.Namespace == "" && peer["namespaceSelector"] == nil || p.Namespace != "" && where[namespaceLabel] == p.Namespace
	return here && (p.Label == "" || manifest.Map(peer, "podSelector", "matchLabels")[p.Label] == p.Value)
}

// namespaceLabel is what the API server itself gives to every namespace.
const namespaceLabel = "kubernetes.io/metadata.name"

// LetsInOnly looks for a policy that selects a Pod with the labels and lets in
// more than the peers, each at its ports, where it has some: everybody, addresses,
// every Pod of a namespace or of all, a sandbox with the labels given. Of a peer
// that is none of these, and none of the allowed, nothing is concluded. It is a
// pure function.
func LetsInOnly(name string, peers []Outlet, policies []suite.Object, labels, sandbox suite.Object) verdict.Step {
	toMore := func(rule suite.Object) (f finding) {
		from := objects(rule, "from")
		if len(from) == 0 {
			return isOpen("everybody")
		}
		for _, peer := range from {
			f = f.worse(judgePeer(peer, portsOf(rule), peers, sandbox))
		}
		return f
	}
	return Ingress.worst(policies, labels, toMore).step(name, fmt.Sprintf("none of %d policies does", len(policies)))
}

// judgePeer tells whether a peer lets in somebody who is none of the allowed, or one
// of them at other ports than its own.
func judgePeer(peer suite.Object, ports []string, allowed []Outlet, sandbox suite.Object) finding {
	if peer["ipBlock"] != nil {
		return isOpen("whoever has an address of %v", peer["ipBlock"])
	}
	for _, a := range allowed {
		switch {
		case !a.is(peer):
		case len(a.Ports) == 0:
			return finding{}
		default:
			return within(fmt.Sprint(peer), ports, a.Ports)
		}
	}
	pods, where := manifest.Map(peer, "podSelector"), manifest.Map(peer, "namespaceSelector")
	expressions, _ := where["matchExpressions"].([]any)
	switch {
	case empty(pods) && len(expressions) > 0:
		return isUnread("the peer %v", peer)
	case empty(pods), peer["namespaceSelector"] != nil && empty(where):
		// Every Pod of a namespace, or whoever gives himself a label in one of his own.
		return isOpen("%v", peer)
	case peer["namespaceSelector"] == nil && match(pods, sandbox) == somebody:
		return isOpen("a session's sandbox, by %v", peer)
	}
	return isUnread("the peer %v", peer)
}

func empty(selector suite.Object) bool {
	expressions, _ := selector["matchExpressions"].([]any)
	return len(manifest.Map(selector, "matchLabels")) == 0 && len(expressions) == 0
}

// PolicyGroups are the API groups that have network policies besides Kubernetes'
// own: Cilium's, GKE's, those of the cluster's administrator, Calico's and Antrea's.
// What one of them allows, Kubernetes' own do not deny.
var PolicyGroups = []string{"cilium.io", "networking.gke.io", "policy.networking.k8s.io", "crd.projectcalico.org", "projectcalico.org", "crd.antrea.io"}

// Others looks for network policies of the groups, in every version that the
// cluster serves. One of them is nothing that this suite could read, but for those
// of Cilium's, and of GKE's of host names, that say nothing of the direction; a
// cluster without the group has none.
func Others(ctx context.Context, env *suite.APIEnv, d Direction) []verdict.Step {
	steps := make([]verdict.Step, 0, len(PolicyGroups))
	for _, group := range PolicyGroups {
		steps = append(steps, others(ctx, env, group, func(_ string, p suite.Object) finding {
			if saysNothing(p, d) {
				return finding{}
			}
			return isUnread("rules for %s", d)
		}))
	}
	return steps
}

// hostNames is GKE's kind of policy for host names, which speaks of egress alone.
const hostNames = "fqdnnetworkpolicies"

// others looks for the policies of one group, of which Cilium's and GKE's of host
// names are read.
func others(ctx context.Context, env *suite.APIEnv, group string, read func(resource string, policy suite.Object) finding) verdict.Step {
	name, root := "find a network policy of "+group, "/apis/"+group
	answer, problem := get(ctx, env, name, root)
	switch {
	case problem != nil:
		return *problem
	case answer.Code == http.StatusNotFound:
		return verdict.Step{Name: name, Class: verdict.Absent, Detail: "the cluster does not have the group"}
	}
	versions, problem := listIn(answer, name, root, "versions")
	switch {
	case problem != nil:
		return *problem
	case len(versions) == 0:
		return verdict.Step{Name: name, Class: verdict.Unknown, Detail: "the cluster serves no version of the group"}
	}
	var f finding
	for _, v := range versions {
		paths, problem := policyLists(ctx, env, name, fmt.Sprintf("%s/%v", root, v["version"]))
		if problem != nil {
			return *problem
		}
		for _, path := range paths {
			found, problem := Items(ctx, env, name, path)
			if problem != nil {
				return *problem
			}
			resource := path[strings.LastIndexByte(path, '/')+1:]
			for _, p := range found {
				one := isUnread("rules of its own kind")
				if group == "cilium.io" || resource == hostNames {
					one = read(resource, p)
				}
				f = f.worse(one.of(resource + " " + manifest.Name(p)))
			}
		}
	}
	return f.step(name, "there is none that allows it")
}

// policyLists are the paths of the network policies that a version of a group has:
// those of the target's namespace, and those of the whole cluster.
func policyLists(ctx context.Context, env *suite.APIEnv, name, version string) ([]string, *verdict.Step) {
	kinds, problem := list(ctx, env, name, version, "resources")
	var paths []string
	for _, k := range kinds {
		resource := fmt.Sprint(k["name"])
		switch {
		case !strings.Contains(resource, "networkpolic") || strings.Contains(resource, "/"):
		case k["namespaced"] == true:
			paths = append(paths, version+"/namespaces/"+env.Namespace+"/"+resource)
		default:
			paths = append(paths, version+"/"+resource)
		}
	}
	return paths, problem
}

// saysNothing tells whether a policy has no rule at all for a direction. Cilium's
// have their rules in spec, in specs, or in both.
func saysNothing(policy suite.Object, d Direction) bool {
	specs := objects(policy, "specs")
	if spec, ok := policy["spec"].(object); ok {
		specs = append(specs, spec)
	}
	for _, spec := range specs {
		if rules, ok := spec[string(d)]; ok && rules != nil {
			return false
		}
	}
	return len(specs) > 0
}
