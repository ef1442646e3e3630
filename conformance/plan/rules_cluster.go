// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/stockade-dev/stockade/conformance/suite"
)

// autopilot tells whether the cluster says so itself.
func autopilot(r Resource) bool {
	on, st := r.flag("enableAutopilot")
	return st == known && on
}

var clusterRules = []*Rule{
	{
		ID: "plan.dataplane-v2", Title: "Find a cluster that does not enforce network policies",
		About:  "Dataplane V2 can only be chosen when the cluster is made, and without it a NetworkPolicy on GKE Standard does nothing. Autopilot always has it.",
		Claims: []string{"AS-17", "AS-12"}, Severity: suite.Critical,
		Mutants: []Mutant{{"legacy-datapath", "the cluster has the old data path", set(typeCluster, "datapathProvider", "LEGACY_DATAPATH")}},
		judge: func(l *look) {
			for _, c := range l.each(typeCluster) {
				if _, st := c.find("datapathProvider"); st == absent && autopilot(c) {
					l.sound(c.String(), "Autopilot always runs Dataplane V2")
					continue
				}
				l.wants(c, "datapathProvider", "ADVANCED_DATAPATH")
			}
		},
	},
	{
		ID: "plan.no-calico", Title: "Find Calico switched on beside Dataplane V2",
		About:  "The two exclude each other: GKE refuses the cluster, or an update of it, and the plan fails only then.",
		Claims: []string{"AS-17"}, Severity: suite.Medium,
		Mutants: []Mutant{{"calico-too", "the Calico add-on is switched on", set(typeCluster, "networkPolicy", map[string]any{"enabled": true, "provider": "CALICO"})}},
		judge: func(l *look) {
			for _, c := range l.each(typeCluster) {
				// Here absence is what is wanted, and it is known to be off then.
				l.off(c, "networkPolicy.enabled", true)
				l.off(c, "addonsConfig.networkPolicyConfig.disabled", false)
			}
		},
	},
	{
		ID: "plan.fqdn-policy", Title: "Find a shared server whose egress cannot go by host name",
		About:  "The allow-list is a GKE FQDN network policy; a cluster without the switch has no such kind, and the policy is refused or does nothing.",
		Claims: []string{"KG-05"}, Severity: suite.High,
		skip: func(p Profile) string {
			return unless(p.AllowList, "this environment has no allow-list of host names")
		},
		present: func(g Graph) bool { return g.anyFlag(typeCluster, "enableFqdnNetworkPolicy") },
		Mutants: []Mutant{{"no-fqdn-policy", "FQDN policies are off", set(typeCluster, "enableFqdnNetworkPolicy", false)}},
		judge: func(l *look) {
			for _, c := range l.each(typeCluster) {
				l.wants(c, "enableFqdnNetworkPolicy", true)
			}
		},
	},
	{
		ID: "plan.private-nodes", Title: "Find nodes with public addresses",
		About:  "A node with an address of its own can be reached from outside, and what it sends does not pass Cloud NAT.",
		Claims: []string{"AS-17", "KG-07"}, Severity: suite.High,
		Mutants: []Mutant{{"public-nodes", "nodes get public addresses", set(typeCluster, "privateClusterConfig.enablePrivateNodes", false)}},
		judge: func(l *look) {
			for _, c := range l.each(typeCluster) {
				l.wants(c, "privateClusterConfig.enablePrivateNodes", true)
			}
			// A pool follows its cluster unless it says something else.
			for _, p := range l.of(typePool) {
				l.off(p, "networkConfig.enablePrivateNodes", false)
			}
			for _, c := range l.of(typeCluster) {
				l.inlinePools(c)
			}
		},
	},
	{
		ID: "plan.control-plane", Title: "Find a control plane that answers on an address",
		About:  "With the DNS endpoint alone, every caller passes Google's front end and IAM before it reaches the API server. IAM knows nothing of Kubernetes' own tokens and certificates, which that endpoint can be told to take.",
		Claims: []string{"KG-07", "KG-03"}, Severity: suite.High,
		Mutants: []Mutant{{"ip-endpoint", "the control plane has an IP endpoint", set(typeCluster, "controlPlaneEndpointsConfig.ipEndpointsConfig.enabled", true)}},
		judge: func(l *look) {
			for _, c := range l.each(typeCluster) {
				l.wants(c, "controlPlaneEndpointsConfig.ipEndpointsConfig.enabled", false)
				// Of later versions of the SDK than ours.
				l.off(c, "controlPlaneEndpointsConfig.dnsEndpointConfig.enableK8sTokensViaDns", true)
				l.off(c, "controlPlaneEndpointsConfig.dnsEndpointConfig.enableK8sCertsViaDns", true)
			}
		},
	},
	{
		ID: "plan.anonymous-access", Title: "Find ways to the API server for callers without a name",
		About:  "Anonymous requests beyond the health checks, bindings to everybody, ABAC and client certificates each let somebody in whom IAM does not know.",
		Claims: []string{"KG-03"}, Severity: suite.High,
		Mutants: []Mutant{
			{"anonymous", "anonymous requests are let in", set(typeCluster, "anonymousAuthenticationConfig.mode", "ENABLED")},
			{"role-for-everybody", "a role of the cluster is for everybody with a Google account", func(g *Graph) bool {
				if len(g.of(typeCluster)) == 0 {
					return false
				}
				g.Resources = append(g.Resources, Resource{Type: prefixRBAC + "v1:ClusterRoleBinding", Name: "mutant", Inputs: map[string]any{
					"subjects": []any{map[string]any{"kind": "Group", "name": "system:authenticated"}},
				}})
				return true
			}},
		},
		judge: func(l *look) {
			for _, c := range l.each(typeCluster) {
				l.wants(c, "anonymousAuthenticationConfig.mode", "LIMITED")
				l.wants(c, "rbacBindingConfig.enableInsecureBindingSystemAuthenticated", false)
				l.wants(c, "rbacBindingConfig.enableInsecureBindingSystemUnauthenticated", false)
				l.off(c, "enableLegacyAbac", true)
				l.off(c, "masterAuth.clientCertificateConfig.issueClientCertificate", true)
			}
			for _, r := range l.Resources {
				if strings.HasPrefix(r.Type, prefixRBAC) && strings.Contains(r.kind(), "RoleBinding") {
					l.subjects(r)
				}
			}
		},
	},
	{
		ID: "plan.workload-identity", Title: "Find a cluster whose Pods would act as their node",
		About:  "Without a workload pool the metadata server has no identity for a Pod but the node's.",
		Claims: []string{"KG-09", "KG-03"}, Severity: suite.High,
		Mutants: []Mutant{{"no-workload-pool", "there is no workload pool", set(typeCluster, "workloadIdentityConfig.workloadPool", "")}},
		judge: func(l *look) {
			for _, c := range l.each(typeCluster) {
				l.suits(c, "workloadIdentityConfig.workloadPool", "is no workload pool", func(pool string) bool {
					return strings.HasSuffix(pool, ".svc.id.goog") && len(pool) > len(".svc.id.goog")
				})
				pool, _ := c.text("workloadIdentityConfig.workloadPool")
				if project, st := c.text("project"); st == known && pool != project+".svc.id.goog" {
					l.unsure(c.String()+": workloadIdentityConfig.workloadPool", fmt.Sprintf("whose clusters vouch for Pods in %.80q is not in the graph", pool))
				}
			}
		},
	},
	{
		ID: "plan.deletion-protection", Title: "Find a cluster that one command deletes",
		About:    "Good practice for everything but a throw-away cluster: a destroy of the wrong stack stops here.",
		Severity: suite.Low,
		skip: func(p Profile) string {
			return unless(!p.ThrowAway, "the cluster is declared to be thrown away")
		},
		present: func(g Graph) bool { return g.anyFlag(typeCluster, "deletionProtection") },
		Mutants: []Mutant{{"unprotected", "deletion protection is off", set(typeCluster, "deletionProtection", false)}},
		judge: func(l *look) {
			for _, c := range l.each(typeCluster) {
				l.wants(c, "deletionProtection", true)
			}
		},
	},
	{
		ID: "plan.release-channel", Title: "Find a cluster that is not patched",
		About:    "gVisor and the kernel come with the node's version: only a release channel brings their fixes.",
		Claims:   []string{"AS-17"},
		Severity: suite.Medium,
		Mutants: []Mutant{
			{"no-channel", "the cluster is on no release channel", set(typeCluster, "releaseChannel.channel", "UNSPECIFIED")},
			{"pool-not-upgraded", "a pool stays on its version", set(typePool, "management.autoUpgrade", false)},
		},
		judge: func(l *look) {
			for _, c := range l.each(typeCluster) {
				l.oneOf(c, "releaseChannel.channel", "RAPID", "REGULAR", "STABLE", "EXTENDED")
			}
			for _, p := range l.of(typePool) {
				l.off(p, "management.autoUpgrade", false)
			}
		},
	},
	{
		ID: "plan.binary-authorization", Title: "Find a cluster that runs any image",
		About:  "The project's policy must be enforced by the cluster, deny by default, exempt no cluster, and let in no images but those of a repository that the plan shows.",
		Claims: []string{"PG-02"}, Severity: suite.High,
		Mutants: []Mutant{
			{"allow-any-image", "the default rule lets every image in", set(typeBinauthz, "defaultAdmissionRule.evaluationMode", "ALWAYS_ALLOW")},
			{"exempt-cluster", "one cluster has a rule of its own that lets every image in", set(typeBinauthz, "clusterAdmissionRules", []any{map[string]any{
				"cluster": "us-central1.c", "evaluationMode": "ALWAYS_ALLOW", "enforcementMode": "ENFORCED_BLOCK_AND_AUDIT_LOG",
			}})},
		},
		judge: func(l *look) {
			for _, c := range l.each(typeCluster) {
				l.wants(c, "binaryAuthorization.evaluationMode", "PROJECT_SINGLETON_POLICY_ENFORCE")
				l.ownPolicy(c)
			}
			for _, p := range l.each(typeBinauthz) {
				l.admission(p, "defaultAdmissionRule.")
				// A rule for one cluster stands in for the default one there.
				exempt, st := p.objects("clusterAdmissionRules")
				if st == unknown {
					l.missing(p, "clusterAdmissionRules", st)
				}
				for _, x := range exempt {
					l.admission(x, "")
				}
				patterns, st := p.objects("admissionWhitelistPatterns")
				if st == unknown {
					l.missing(p, "admissionWhitelistPatterns", st)
				}
				for _, x := range patterns {
					l.imagePattern(x)
				}
			}
		},
	},
}

// ownPolicy records that the image policies of the graph are of other projects than the
// cluster. Which one the provider's own is, where a resource names none, is not known.
func (l *look) ownPolicy(c Resource) {
	own, st := c.text("project")
	if st != known {
		return
	}
	if !slices.ContainsFunc(l.of(typeBinauthz), func(p Resource) bool {
		of, st := p.text("project")
		return st != known || of == own
	}) {
		l.unsure(c.String()+": project", fmt.Sprintf("the image policy of %.80q is not in the graph", own))
	}
}

// admission records whether the rule at path denies, and not only in its log.
func (l *look) admission(r Resource, path string) {
	l.oneOf(r, path+"evaluationMode", "ALWAYS_DENY", "REQUIRE_ATTESTATION")
	l.wants(r, path+"enforcementMode", "ENFORCED_BLOCK_AND_AUDIT_LOG")
}

// imagePattern records whether an allow-listed pattern of images names its
// registry and repository: "*", "*/app" and "gcr.io/*" do not.
func (l *look) imagePattern(x Resource) {
	pattern, st := x.text("namePattern")
	what := x.String() + ": an image pattern"
	host, rest, _ := strings.Cut(pattern, "/")
	first, _, _ := strings.Cut(rest, "/")
	switch {
	case st != known:
		l.missing(x, "admissionWhitelistPatterns.namePattern", st)
	case host == "" || strings.Contains(host, "*") || first == "" || strings.Contains(first, "*"):
		l.weak(what, "%.80q lets in images of anybody", pattern)
	case !slices.ContainsFunc(l.of(typeRepository), func(r Resource) bool { return holds(r, pattern) }):
		l.unsure(what, fmt.Sprintf("%.120q is in no repository of the graph: who pushes there is not known", pattern))
	default:
		l.sound(what, "%.120s", pattern)
	}
}

// holds tells whether a pattern is of images in the repository. What the repository does
// not say of itself may be anything.
func holds(repository Resource, pattern string) bool {
	parts := strings.Split(pattern, "/")
	if len(parts) < 4 {
		return false
	}
	for i, path := range []string{"location", "project", "repositoryId"} {
		want, st := repository.text(path)
		if i == 0 {
			want += "-docker.pkg.dev"
		}
		if st == known && parts[i] != want {
			return false
		}
	}
	return true
}

// inlinePools records pools that are declared inside of the cluster, which no rule reads.
func (l *look) inlinePools(c Resource) {
	if _, st := c.find("nodePools"); st != absent {
		l.unsure(c.String()+": nodePools", "pools that are declared inside of the cluster are not understood")
	}
}

// prefixRBAC is that of the types which bind roles within the cluster.
const prefixRBAC = prefixKubernetes + "rbac.authorization.k8s.io/"

// everybody are who needs no name, or any Google account, to be one of them.
var everybody = []string{"system:anonymous", "system:authenticated", "system:unauthenticated"}

// subjects records whether a role of the cluster is for everybody.
func (l *look) subjects(binding Resource) {
	all, st := binding.objects("subjects")
	what := binding.String() + ": subjects"
	if st == unknown || strings.HasSuffix(binding.kind(), "List") {
		l.missing(binding, "subjects", st)
	}
	for _, s := range all {
		switch name, st := s.text("name"); {
		case st != known:
			l.missing(binding, "subjects.name", st)
		case slices.Contains(everybody, name):
			l.weak(what, "%s is everybody", name)
		default:
			l.sound(what, "%.120s", name)
		}
	}
}

// off records that a switch does not have the weak value. Its absence is the
// safe default that Google documents; an unknown value is not.
func (l *look) off(r Resource, path string, weak bool) {
	got, st := r.flag(path)
	what := r.String() + ": " + path
	switch {
	case st == unknown:
		l.missing(r, path, st)
	case st == absent:
		l.sound(what, "it is not set")
	case got == weak:
		l.weak(what, "it is %v", got)
	default:
		l.sound(what, "it is %v", got)
	}
}

// oneOf records whether the value at path is one of the good ones.
func (l *look) oneOf(r Resource, path string, good ...string) {
	l.suits(r, path, "is none of "+strings.Join(good, ", "), func(got string) bool { return slices.Contains(good, got) })
}

// suits records whether the text at path is a good one; bad says of it that it
// is not.
func (l *look) suits(r Resource, path, bad string, good func(string) bool) {
	got, st := r.text(path)
	what := r.String() + ": " + path
	switch {
	case st != known:
		l.missing(r, path, st)
	case good(got):
		l.sound(what, "it is %.120s", got)
	default:
		l.weak(what, "%.80q %s", got, bad)
	}
}

// unless returns why where the condition is not met.
func unless(ok bool, why string) string {
	if ok {
		return ""
	}
	return why
}

// anyFlag tells whether a resource of the type has the flag, or might have it.
func (g Graph) anyFlag(typ, path string) bool {
	for _, r := range g.of(typ) {
		if on, st := r.flag(path); on || st == unknown {
			return true
		}
	}
	return false
}
