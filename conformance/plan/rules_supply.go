// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"maps"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/net/publicsuffix"

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

// sandboxes tells whether whoever a role is for are the Pods of a namespace with
// sandboxes, or of a whole cluster, by any of the names that IAM has for them. Whatever
// runs in a sandbox is its Pod's service account.
func (l *look) sandboxes(who string) bool {
	if !strings.Contains(who, ".svc.id.goog") {
		return false
	}
	if strings.HasPrefix(who, "principalSet:") && !strings.Contains(who, "/namespace/") {
		return true
	}
	for _, r := range l.Resources {
		if !isTemplate(r) && !isSandbox(r) {
			continue
		}
		namespace, st := r.text("metadata.namespace")
		if st != known {
			l.missing(r, "metadata.namespace", st)
			continue
		}
		if strings.Contains(who, "["+namespace+"/") || strings.Contains(who, "/ns/"+namespace+"/") || strings.HasSuffix(who, "/namespace/"+namespace) {
			return true
		}
	}
	return false
}

// tokenIssuer is a Kubernetes service account, as IAM names it: of one namespace, by
// its name.
var tokenIssuer = regexp.MustCompile(`^serviceAccount:[a-z0-9-]+\.svc\.id\.goog\[[a-z0-9-]+/[a-z0-9-]+\]$`)

var byDigest = regexp.MustCompile(`@sha256:[0-9a-f]{64}$`)

var supplyRules = []*Rule{
	{
		ID: "plan.least-privilege", Title: "Find a role that a node or a sandbox does not need",
		About:  "The identity's own permissions are not contained (KG-11), so they are kept small. Who may act as it is one Kubernetes service account, and nobody holds a key.",
		Claims: []string{"KG-09"}, Severity: suite.High,
		Mutants: []Mutant{
			{"editor", "an identity is an editor of the project", set(typeProjectIAM, "role", "roles/editor")},
			{"role-for-sandboxes", "every sandbox has a role by itself", func(g *Graph) bool {
				for _, r := range g.Resources {
					if namespace, st := r.text("metadata.namespace"); isTemplate(r) && st == known {
						return set(typeProjectIAM, "member", "serviceAccount:p.svc.id.goog["+namespace+"/default]")(g)
					}
				}
				return false
			}},
			{"account-key", "somebody holds a key of an identity", func(g *Graph) bool {
				if len(g.of(typeProjectIAM)) == 0 {
					return false
				}
				g.Resources = append(g.Resources, Resource{Type: typeAccountKey, Name: "mutant", Inputs: map[string]any{}})
				return true
			}},
		},
		judge: func(l *look) {
			l.each(typeProjectIAM)
			for _, r := range l.Resources {
				of, gives := grant(r)
				switch {
				case r.Type == typeAccountKey, r.Type == typeStorageKey:
					l.weak(r.String(), "it is good until somebody takes it away")
				case strings.HasPrefix(r.Type, "gcp:") && accessLists.MatchString(r.kind()):
					l.unsure(r.String(), "to whom it gives access is not read")
				case !gives:
				case containers[of] && of != "projects":
					l.weak(r.String(), "what it gives is not for the project alone")
				case strings.HasSuffix(r.Type, "Policy"):
					l.unsure(r.String(), "it grants what a document says, which is not read")
				case of == "serviceaccount":
					l.oneOf(r, "role", "roles/iam.workloadIdentityUser")
					l.members(r, "is no Kubernetes service account outside of the sandboxes' namespaces",
						func(who string) bool { return tokenIssuer.MatchString(who) && !l.sandboxes(who) })
				default:
					role, st := r.text("role")
					if st == known && !containers[of] && !slices.Contains(Roles, role) {
						// Not the project's: whose it should be, this rule cannot know.
						l.unsure(r.String()+": role", fmt.Sprintf("what %.80q gives on one resource alone is not understood", role))
					} else {
						l.oneOf(r, "role", Roles...)
					}
					l.members(r, "is everybody, or every sandbox", func(who string) bool {
						return who != "allUsers" && who != "allAuthenticatedUsers" && !l.sandboxes(who)
					})
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
			for _, r := range l.of("gcp:container/registry:Registry") {
				l.weak(r.String(), "in a registry of this kind tags can move")
			}
			for _, r := range l.each(typeRepository) {
				// Google takes either spelling.
				if format, st := r.text("format"); st == known && !strings.EqualFold(format, "DOCKER") {
					continue
				}
				l.wants(r, "dockerConfig.immutableTags", true)
				if mode, st := r.text("mode"); st == unknown || st == known && mode != "STANDARD_REPOSITORY" {
					l.unsure(r.String()+": mode", "its images are those of another registry, whose tags may move")
				}
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
			return slices.ContainsFunc(g.Resources, func(r Resource) bool {
				all, _ := images(r.Inputs)
				return len(all) > 0 && isKubernetes(r)
			})
		},
		Mutants: []Mutant{{"latest", "an image is named by tag", func(g *Graph) bool {
			for _, r := range g.Resources {
				if all, _ := images(r.Inputs); isKubernetes(r) && len(all) > 0 {
					all[0].in[all[0].key] = "registry.example/app:latest"
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
				all, whole := images(r.Inputs)
				if !whole || isBundle(r) {
					l.unsure(r.String(), "what it runs is not known yet, or not in the graph")
				}
				for i, c := range all {
					found = true
					what := fmt.Sprintf("%s: image %d", r, i+1)
					switch image, ok := c.in[c.key].(string); {
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
		About:  "In a GKE FQDNNetworkPolicy a rule without ports is for all of them, and a lone * is for every name. Policies add up: another one that lets out more makes the list say nothing. For a Pod in its node's network there are none.",
		Claims: []string{"KG-05"}, Severity: suite.High,
		skip: func(p Profile) string {
			return unless(p.AllowList && p.Workloads, "this plan installs no allow-list")
		},
		present: func(g Graph) bool { return slices.ContainsFunc(g.Resources, isFQDNPolicy) },
		Mutants: []Mutant{
			{"every-name", "the list has a lone *", func(g *Graph) bool {
				for _, r := range g.Resources {
					rules, st := r.objects("spec.egress")
					if isFQDNPolicy(r) && st == known && len(rules) > 0 {
						return rules[0].put("matches", []any{map[string]any{"pattern": "*"}})
					}
				}
				return false
			}},
			{"list-for-other-pods", "the sandboxes bring no policy, and the list is for other Pods", func(g *Graph) bool {
				listed, bare := false, false
				for _, r := range g.Resources {
					switch {
					case isFQDNPolicy(r), isNetworkPolicy(r):
						listed = r.put("spec.podSelector", map[string]any{"matchLabels": map[string]any{"app": "mutant"}}) || listed
					case isTemplate(r):
						bare = r.put("spec.networkPolicyManagement", "Unmanaged") || bare
					}
				}
				return listed && bare
			}},
			{"node-network", "the sandboxes are in their node's network", func(g *Graph) bool {
				for _, r := range g.Resources {
					if isTemplate(r) {
						return r.put(hostNetwork, true)
					}
				}
				return false
			}},
			{"default-policy-beside-list", "the sandboxes have the controller's own policy beside the list", func(g *Graph) bool {
				for _, r := range g.Resources {
					spec, ok := r.Inputs["spec"].(map[string]any)
					if isTemplate(r) && ok && spec["networkPolicy"] != nil {
						delete(spec, "networkPolicy")
						return true
					}
				}
				return false
			}},
		},
		judge: func(l *look) {
			// namespaces are those with sandboxes, or with a list.
			namespaces, listed := map[string]bool{}, false
			for _, r := range l.Resources {
				switch {
				case isTemplate(r), isSandbox(r):
					l.off(r, hostNetwork, true)
				case isFQDNPolicy(r):
					listed = true
					l.allowList(r)
				default:
					continue
				}
				namespace, st := r.text("metadata.namespace")
				if st != known {
					l.missing(r, "metadata.namespace", st)
				}
				namespaces[namespace] = true
			}
			if !listed {
				l.unsure("FQDNNetworkPolicy", "there is none in the graph")
			}
			for _, r := range l.Resources {
				switch {
				case isTemplate(r), isNetworkPolicy(r):
					l.beside(r, namespaces, listed)
				case isSandbox(r):
					l.bare(r, listed)
				case r.Type == "pulumi:providers:kubernetes" && !r.is("renderYamlToDirectory", absent):
					l.unsure(r.String(), "it writes objects to a folder, and whether the cluster has them is not known")
				case isSandboxPatch(r):
					l.unsure(r.String(), "it changes a sandbox that is made elsewhere, and is not understood")
				case isOtherPolicy(r):
					l.unsure(r.String(), "it adds to what the others let out, or goes before them, and is not understood")
				case isBundle(r):
					l.unsure(r.String(), "what it installs is not in the graph, and may let out more")
				}
			}
		},
	},
}

// hostNetwork is where a template, or a sandbox, says that it is in its node's network.
const hostNetwork = "spec.podTemplate.spec.hostNetwork"

func isKubernetes(r Resource) bool { return strings.HasPrefix(r.Type, prefixKubernetes) }

func isFQDNPolicy(r Resource) bool {
	return strings.HasPrefix(r.Type, "kubernetes:networking.gke.io/") && strings.HasSuffix(r.Type, ":FQDNNetworkPolicy")
}

func isNetworkPolicy(r Resource) bool {
	return r.Type == "kubernetes:networking.k8s.io/v1:NetworkPolicy"
}

// isOtherPolicy tells whether the resource is a network policy of a kind that is not
// read here: Cilium's own, those of administrators, a patch, an older version.
func isOtherPolicy(r Resource) bool {
	return isKubernetes(r) && strings.Contains(r.kind(), "NetworkPolic") && !isNetworkPolicy(r) && !isFQDNPolicy(r)
}

func isTemplate(r Resource) bool {
	return strings.HasPrefix(r.Type, "kubernetes:extensions.agents.x-k8s.io/") && strings.HasSuffix(r.Type, ":SandboxTemplate")
}

// isSandbox tells whether the resource is a sandbox that comes from no template, to
// which the controller gives no policy.
func isSandbox(r Resource) bool {
	return strings.HasPrefix(r.Type, "kubernetes:agents.x-k8s.io/") && strings.HasSuffix(r.Type, ":Sandbox")
}

// isSandboxPatch tells whether the resource changes a sandbox, or what sandboxes are
// made from, that somebody else has made.
func isSandboxPatch(r Resource) bool {
	return isKubernetes(r) && strings.Contains(r.kind(), "Sandbox") && strings.HasSuffix(r.kind(), "Patch")
}

// isBundle tells whether the resource stands for objects that are not in the graph.
func isBundle(r Resource) bool {
	for _, group := range []string{"helm.sh/", "yaml", "kustomize"} {
		if strings.HasPrefix(r.Type, prefixKubernetes+group) {
			return true
		}
	}
	return false
}

// containers are what holds everything else: who has a role there has it on all of it.
var containers = map[string]bool{"projects": true, "folder": true, "organizations": true}

// grants are the names of resources that give roles: IAMMember on a project,
// BucketIAMBinding, SecretIamPolicy and so on.
var grants = regexp.MustCompile(`(?i)iam(member|binding|policy)$`)

// accessLists are the names of resources that let somebody in by older means than roles.
var accessLists = regexp.MustCompile(`(?i)(acl|accesscontrol|datasetaccess)$`)

// grant tells whether the resource gives roles, and on what kind of thing: a project,
// a folder, an organization, an account, or a single resource of some service.
func grant(r Resource) (of string, ok bool) {
	name, google := strings.CutPrefix(r.Type, "gcp:")
	of, _, _ = strings.Cut(name, "/")
	return of, google && grants.MatchString(r.kind())
}

// members records whether all to whom a role is given are good ones; bad says of one
// that it is not.
func (l *look) members(r Resource, bad string, good func(string) bool) {
	if _, st := r.find("members"); st == absent {
		l.suits(r, "member", bad, good)
		return
	}
	all, st := r.texts("members")
	if st != known {
		l.missing(r, "members", st)
	}
	for _, who := range all {
		if what := r.String() + ": members"; good(who) {
			l.sound(what, "%.120s", who)
		} else {
			l.weak(what, "%.80q %s", who, bad)
		}
	}
}

// imageRef is a place where an image is named.
type imageRef struct {
	in  map[string]any
	key string
}

// images returns every place of an object that names an image, wherever its Pod
// template is: in a Deployment, or in a SandboxTemplate that no SDK knows. The
// order is that of the keys, so that evidence is the same each time. whole is false
// where a part that may name an image is not known.
func images(v any) (out []imageRef, whole bool) {
	whole = true
	below := func(x any) {
		more, all := images(x)
		out, whole = append(out, more...), whole && all
	}
	switch v := v.(type) {
	case Unknown:
		return nil, false
	case []any:
		for _, x := range v {
			below(x)
		}
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			switch list, isList := v[k].([]any); k {
			case "containers", "initContainers", "ephemeralContainers", "volumes":
				if !isList {
					_, isMap := v[k].(map[string]any)
					whole = whole && (isMap || v[k] == nil)
					below(v[k])
					continue
				}
				for _, x := range list {
					in, ok := x.(map[string]any)
					key := "image"
					if k == "volumes" {
						ok = ok && !holdsUnknown(in["image"])
						in, _ = in["image"].(map[string]any)
						key = "reference"
					}
					whole = whole && ok
					if in[key] != nil {
						out = append(out, imageRef{in, key})
					}
				}
			case "metadata", "status", "data", "stringData", "binaryData":
				// No container is in there.
			default:
				below(v[k])
			}
		}
	}
	return out, whole
}

// beside records what a network policy, or a template, lets out beside the
// allow-lists: a list is worth nothing where something else allows more. Of the policies
// only those in namespaces with sandboxes, or with a list, count; listed tells whether
// there is a list at all.
func (l *look) beside(r Resource, namespaces map[string]bool, listed bool) {
	namespace, st := r.text("metadata.namespace")
	if st != known {
		l.missing(r, "metadata.namespace", st)
		return
	}
	path := "spec.egress"
	if isTemplate(r) {
		path = "spec.networkPolicy.egress"
		management, st := r.text("spec.networkPolicyManagement")
		_, own := r.find("spec.networkPolicy")
		switch {
		case st == unknown:
			l.missing(r, "spec.networkPolicyManagement", st)
			return
		case management == "Unmanaged":
			l.bare(r, listed)
			return
		case management != "" && management != "Managed":
			l.missing(r, "spec.networkPolicyManagement", unknown)
			return
		case own == absent:
			l.weak(r.String()+": spec.networkPolicy", "there is none, so that the controller's own lets it out to every public address")
			return
		}
	} else if !namespaces[namespace] {
		return
	}
	rules, st := r.objects(path)
	if st == unknown {
		l.missing(r, path, st)
		return
	}
	if len(rules) == 0 {
		l.sound(r.String()+": "+path, "it lets out nothing")
	}
	for _, rule := range rules {
		l.peers(r, path, rule)
	}
}

// bare records whether a policy of the namespace is for the Pods of a template, or a
// sandbox, that brings none: one is enough to deny what no other allows.
func (l *look) bare(template Resource, listed bool) {
	namespace, st := template.text("metadata.namespace")
	switch {
	case st != known:
		l.missing(template, "metadata.namespace", st)
		return
	case !listed:
		l.unsure(template.String(), "it brings no policy, and there is no list in the graph")
		return
	}
	labels, labelState := template.find("spec.podTemplate.metadata.labels")
	undecided := ""
	for _, p := range l.Resources {
		if !isFQDNPolicy(p) && (!isNetworkPolicy(p) || !onEgress(p)) {
			continue
		}
		if of, st := p.text("metadata.namespace"); st != known || of != namespace {
			continue // that it is not known was recorded
		}
		switch yes, st := selects(p, labels, labelState); {
		case st != known:
			undecided = p.String()
		case yes:
			l.sound(template.String(), "it brings no policy, and %s is for its Pods", p)
			return
		}
	}
	if undecided != "" {
		l.unsure(template.String(), fmt.Sprintf("it brings no policy, and whether %s is for its Pods is not known", undecided))
		return
	}
	l.weak(template.String(), "it brings no policy, and in the namespace %.63q there is none for its Pods", namespace)
}

// onEgress tells whether a network policy speaks of what Pods send.
func onEgress(p Resource) bool {
	types, st := p.texts("spec.policyTypes")
	_, rules := p.find("spec.egress")
	return slices.Contains(types, "Egress") || st == absent && rules != absent
}

// selects tells whether a policy is for Pods with these labels, where that is known.
// Without a selector, or with an empty one, it is for all of its namespace.
func selects(p Resource, labels any, labelState state) (yes bool, st state) {
	selector, st := p.find("spec.podSelector")
	if st == absent {
		return true, known
	}
	m, ok := selector.(map[string]any)
	if !ok || m["matchExpressions"] != nil {
		return false, unknown
	}
	want, ok := m["matchLabels"].(map[string]any)
	if !ok && m["matchLabels"] != nil {
		return false, unknown
	}
	if len(want) > 0 && labelState == unknown {
		return false, unknown
	}
	has, _ := labels.(map[string]any)
	for k, v := range want {
		if holdsUnknown(v) || holdsUnknown(has[k]) {
			return false, unknown
		}
		if has[k] == nil || !same(has[k], v) {
			return false, known
		}
	}
	return true, known
}

// peers records whether one rule of a network policy lets out to the cluster's own
// Pods and private addresses alone.
func (l *look) peers(r Resource, path string, rule Resource) {
	what := r.String() + ": " + path
	to, st := rule.objects("to")
	if st == unknown {
		l.missing(r, path+".to", st)
		return
	}
	if len(to) == 0 {
		l.weak(what, "it lets out to everywhere")
	}
	for _, peer := range to {
		if _, st := peer.find("ipBlock"); st == absent {
			l.sound(what, "it is for Pods")
			continue
		}
		block, st := peer.text("ipBlock.cidr")
		at, err := netip.ParsePrefix(block)
		switch {
		case st != known || err != nil:
			l.missing(r, path+".to.ipBlock", unknown)
		case private(at) || at == nodeLocalDNS:
			l.sound(what, "it is for %s", at)
		default:
			l.weak(what, "it lets out to %s", at)
		}
	}
}

// nodeLocalDNS is where a node's own DNS cache listens.
var nodeLocalDNS = netip.MustParsePrefix("169.254.20.10/32")

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
// the wildcards two whole labels must be left, below which not anybody may have a name.
func (l *look) hostName(r Resource, m Resource) {
	what := r.String() + ": spec.egress.matches"
	name, st := m.text("name")
	pattern, other := m.text("pattern")
	switch {
	case st == absent:
		name, st = pattern, other
	case other != absent:
		st = unknown // GKE takes one of the two
	}
	if st != known {
		l.missing(r, "spec.egress.matches", st)
		return
	}
	// What follows the last wildcard must be somebody's own.
	own := strings.ToLower(strings.TrimSuffix(name, "."))
	wild := strings.LastIndexByte(own, '*')
	if wild >= 0 {
		_, own, _ = strings.Cut(own[wild:], ".")
	}
	if labels := strings.Split(own, "."); len(labels) < 2 || slices.Contains(labels, "") || wild >= 0 && registry(own) {
		l.weak(what, "%.80q is everybody's", name)
		return
	}
	l.sound(what, "%.120s", name)
}

// registry tells whether anybody may have a name below the domain: co.uk, github.io.
// Google's own are left out, whose addresses are another rule's business.
func registry(domain string) bool {
	suffix, _ := publicsuffix.PublicSuffix(domain)
	return suffix == domain && !slices.Contains(restrictedDomains, domain)
}
