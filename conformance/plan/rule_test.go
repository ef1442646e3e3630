// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/stockade-dev/stockade/conformance/verdict"
)

func verdicts(g Graph, p Profile) map[string]verdict.Verdict {
	out := map[string]verdict.Verdict{}
	for _, f := range Check(g, p, at) {
		out[f.Rule.ID] = f.Result.Verdict()
	}
	return out
}

func TestEveryRuleIsDeclaredInFull(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range Rules() {
		assert.Regexp(t, `^plan\.[a-z0-9]+(-[a-z0-9]+)*$`, r.ID)
		assert.False(t, seen[r.ID], "%s stands twice", r.ID)
		seen[r.ID] = true
		assert.True(t, strings.HasPrefix(r.Title, "Find "), r.ID)
		assert.NotEmpty(t, r.About, r.ID)
		assert.NotEmpty(t, r.Severity, r.ID)
		assert.NotEmpty(t, r.Mutants, r.ID)
		for _, c := range r.Claims {
			assert.Regexp(t, `^(AS|KG|PG)-[0-9]{2}$`, c, r.ID)
		}
		if r.skip != nil {
			assert.Empty(t, r.skip(full), "%s: the full profile is for every rule", r.ID)
		}
	}
}

func TestEveryRuleHoldsOverASoundGraph(t *testing.T) {
	for _, f := range Check(standard(), full, at) {
		assert.Equal(t, verdict.Held, f.Result.Verdict(), "%s: %s %s", f.Rule.ID, f.Result.Reason(), f.Result.Detail())
	}
}

func TestAutopilotHasNoRulesForPools(t *testing.T) {
	p := full
	p.Autopilot = true
	for id, v := range verdicts(autopilotGraph(), p) {
		switch id {
		case "plan.default-pool", "plan.system-pool", "plan.reserved-taint", "plan.metadata-mode", "plan.pids-limit", "plan.cpu-quota", "plan.shielded-nodes":
			assert.Equal(t, verdict.NotApplicable, v, id)
		default:
			assert.Equal(t, verdict.Held, v, id)
		}
	}
}

// Each mutant changes one place of a sound graph; its own rule must say
// Breached, and no other rule may change its mind.
func TestEachMutantIsSeenByItsOwnRuleAlone(t *testing.T) {
	pilot := full
	pilot.Autopilot = true
	tried := map[string]bool{}
	for _, ground := range []struct {
		graph   func() Graph
		profile Profile
	}{{standard, full}, {autopilotGraph, pilot}} {
		before := verdicts(ground.graph(), ground.profile)
		for _, r := range Rules() {
			for _, m := range r.Mutants {
				g := ground.graph()
				if before[r.ID] == verdict.NotApplicable || !m.Apply(&g) {
					continue
				}
				tried[r.ID+"/"+m.ID] = true
				for id, v := range verdicts(g, ground.profile) {
					switch {
					case id == r.ID:
						assert.Equal(t, verdict.Breached, v, "%s under %s", id, m.ID)
					case slices.Contains([]string{"pool-on-autopilot", "default-pool-kept", "auto-provisioned-pools"}, m.ID) && v == verdict.Inconclusive:
						// The pool that should not be there says nothing of itself:
						// the rules for pools, which now concern it, cannot tell.
					default:
						assert.NotEqual(t, verdict.Breached, v, "%s under %s", id, m.ID)
						if m.ID != "pool-on-autopilot" {
							assert.Equal(t, before[id], v, "%s under %s", id, m.ID)
						}
					}
				}
			}
		}
	}
	for _, r := range Rules() {
		for _, m := range r.Mutants {
			assert.True(t, tried[r.ID+"/"+m.ID], "%s of %s was never tried", m.ID, r.ID)
		}
	}
}

func TestNothingHoldsWhereThereIsNothing(t *testing.T) {
	for name, g := range map[string]Graph{
		"empty":               {},
		"of something else":   {Resources: []Resource{{Type: "aws:s3/bucket:Bucket", Name: "b", Inputs: obj{}}}},
		"without any inputs":  bare(),
		"all of them unknown": hidden(),
	} {
		for id, v := range verdicts(g, full) {
			assert.NotEqual(t, verdict.Held, v, "%s over a graph %s", id, name)
		}
	}
}

// bare is the sound graph with every input taken away. Switches whose absence
// is their safe default do hold then.
func bare() Graph {
	g := standard()
	for i := range g.Resources {
		g.Resources[i].Inputs = obj{"networkPolicy": obj{"enabled": Unknown{}}, "nodeConfig": obj{"labels": Unknown{}}, "status": Unknown{}}
	}
	return g
}

func hidden() Graph {
	g := standard()
	for _, r := range g.Resources {
		for k := range r.Inputs {
			r.Inputs[k] = Unknown{}
		}
		r.Inputs["networkPolicy"] = Unknown{}
		if r.Type == typePool {
			r.Inputs["nodeConfig"] = Unknown{}
		}
	}
	return g
}

// walk visits every leaf of a value with a function that sets it.
func walk(v any, path string, visit func(path string, set func(any))) {
	switch v := v.(type) {
	case map[string]any:
		for k := range v {
			if _, leaf := v[k].(map[string]any); !leaf {
				visit(path+"."+k, func(x any) { v[k] = x })
			}
			walk(v[k], path+"."+k, visit)
		}
	case []any:
		for i := range v {
			visit(path+"[]", func(x any) { v[i] = x })
			walk(v[i], path+"[]", visit)
		}
	}
}

// leaves counts how many places walk visits.
func leaves(g Graph) (n int) {
	for _, r := range g.Resources {
		walk(r.Inputs, "", func(string, func(any)) { n++ })
	}
	return n
}

// spoil returns the sound graph with its nth place set to x.
func spoil(nth int, x any) (g Graph, where string) {
	g = standard()
	n := 0
	var set func(any)
	for _, r := range g.Resources {
		walk(r.Inputs, r.String(), func(path string, s func(any)) {
			if n == nth {
				where, set = path, s
			}
			n++
		})
	}
	set(x)
	return g, where
}

func TestAnUnknownOrOddValueNeverPanics(t *testing.T) {
	for n := range leaves(standard()) {
		for _, x := range []any{Unknown{}, nil, "\x1b[31m", -1.0, true, []any{nil}, obj{"a": nil}} {
			g, where := spoil(n, x)
			// Without the control, which only does the same once more.
			for _, r := range Rules() {
				require.NotPanics(t, func() { r.judge(&look{Graph: g, Profile: full}) }, "%s: %s = %v", r.ID, where, x)
			}
		}
	}
}

func TestWhatEveryRuleWantsMustBeKnown(t *testing.T) {
	for path, rule := range map[string]string{
		"datapathProvider":                                      "plan.dataplane-v2",
		"enableFqdnNetworkPolicy":                               "plan.fqdn-policy",
		"privateClusterConfig.enablePrivateNodes":               "plan.private-nodes",
		"controlPlaneEndpointsConfig.ipEndpointsConfig.enabled": "plan.control-plane",
		"anonymousAuthenticationConfig.mode":                    "plan.anonymous-access",
		"workloadIdentityConfig.workloadPool":                   "plan.workload-identity",
		"deletionProtection":                                    "plan.deletion-protection",
		"releaseChannel.channel":                                "plan.release-channel",
		"binaryAuthorization.evaluationMode":                    "plan.binary-authorization",
		"ipAllocationPolicy.servicesSecondaryRangeName":         "plan.private-ranges",
		"nodeConfig.workloadMetadataConfig.mode":                "plan.metadata-mode",
		"nodeConfig.kubeletConfig.podPidsLimit":                 "plan.pids-limit",
		"nodeConfig.kubeletConfig.cpuCfsQuota":                  "plan.cpu-quota",
		"nodeConfig.imageType":                                  "plan.gvisor-pool",
		"removeDefaultNodePool":                                 "plan.default-pool",
		"nodeConfig.serviceAccount":                             "plan.node-identity",
		"nodeConfig.shieldedInstanceConfig.enableSecureBoot":    "plan.shielded-nodes",
		"privateIpGoogleAccess":                                 "plan.private-google-access",
		"secondaryIpRanges":                                     "plan.overlapping-ranges",
		"rrdatas":                                               "plan.restricted-dns",
		"role":                                                  "plan.least-privilege",
		"dockerConfig.immutableTags":                            "plan.immutable-tags",
		"status.vpcAccessibleServices.allowedServices":          "plan.perimeter-network",
		"status.restrictedServices":                             "plan.perimeter-services",
		"status.resources":                                      "plan.perimeter-enforced",
		"spec.egress":                                           "plan.allow-list",
	} {
		g := standard()
		for _, r := range g.Resources {
			if _, st := r.find(path); st == known {
				r.put(path, Unknown{})
			}
		}
		got := verdicts(g, full)[rule]
		assert.Equal(t, verdict.Inconclusive, got, "%s with an unknown %s", rule, path)
	}
}

func TestAPartialGraphHoldsNothing(t *testing.T) {
	g := standard()
	g.Partial = "12 unchanged resources are left out"
	for _, p := range []Profile{full, {}} {
		for id, v := range verdicts(g, p) {
			assert.Equal(t, verdict.Inconclusive, v, id)
		}
	}
}

func TestADryRunIsNoPerimeterYet(t *testing.T) {
	g := standard()
	for _, r := range g.of(typePerimeter) {
		r.Inputs["spec"] = r.Inputs["status"]
		delete(r.Inputs, "status")
	}
	for id, v := range verdicts(g, full) {
		if id == "plan.perimeter-enforced" {
			assert.Equal(t, verdict.Breached, v)
		} else {
			assert.Equal(t, verdict.Held, v, id)
		}
	}
}

func TestWhatIsDeclaredAbsentAndIsThereIsJudged(t *testing.T) {
	// A perimeter that nobody declared must still be a sound one.
	g := standard()
	for _, r := range g.of(typePerimeter) {
		r.put("status.vpcAccessibleServices.enableRestriction", false)
	}
	assert.Equal(t, verdict.Breached, verdicts(g, Profile{})["plan.perimeter-network"])
	assert.Equal(t, verdict.Held, verdicts(g, Profile{ThrowAway: true})["plan.deletion-protection"])
}

func TestWorkloadsWithoutTheirAllowListAreNotPassedOver(t *testing.T) {
	g := standard()
	require.True(t, drop(isFQDNPolicy)(&g))
	assert.Equal(t, verdict.Inconclusive, verdicts(g, Profile{AllowList: true})["plan.allow-list"])
	assert.Equal(t, verdict.NotApplicable, verdicts(g, Profile{})["plan.allow-list"], "nobody says that there is one")
	require.True(t, drop(isKubernetes)(&g))
	assert.Equal(t, verdict.NotApplicable, verdicts(g, Profile{AllowList: true})["plan.allow-list"])
}

// Another provider makes the same things under other names, and a command makes
// anything.
func TestNothingHoldsBesideWhatNoRuleReads(t *testing.T) {
	for _, typ := range []string{
		"google-native:container/v1:NodePool", "google-native:compute/v1:Firewall", "google:index/projectIamMember:ProjectIamMember",
		"command:local:Command", "pulumi-nodejs:dynamic:Resource", "helm:index/release:Release",
	} {
		g := standard()
		require.True(t, append1(typ, obj{})(&g))
		for id, v := range verdicts(g, full) {
			assert.Equal(t, verdict.Inconclusive, v, "%s beside %s", id, typ)
		}
	}
	// What is of no concern to the cloud or the cluster is none to the rules.
	g := standard()
	require.True(t, append1("random:index/randomPet:RandomPet", obj{})(&g))
	require.True(t, append1("acme:platform:Sandboxes", obj{})(&g))
	for id, v := range verdicts(g, full) {
		assert.Equal(t, verdict.Held, v, id)
	}
}

func TestAThrowAwayClusterNeedsNoProtection(t *testing.T) {
	g := standard()
	for _, r := range g.of(typeCluster) {
		r.Inputs["deletionProtection"] = false
	}
	assert.Equal(t, verdict.NotApplicable, verdicts(g, Profile{ThrowAway: true})["plan.deletion-protection"])
	assert.Equal(t, verdict.Breached, verdicts(g, Profile{})["plan.deletion-protection"])
}

func TestAutopilotThatIsDeclaredMustBeOn(t *testing.T) {
	p := full
	p.Autopilot = true
	assert.Equal(t, verdict.Breached, verdicts(standard(), p)["plan.gvisor-pool"])
}

// A cluster that makes its own nodes does not speak for one that does not.
func TestEachClusterNeedsItsGVisor(t *testing.T) {
	g := autopilotGraph()
	require.Equal(t, verdict.Held, verdicts(g, Profile{})["plan.gvisor-pool"])
	g.Resources = append(g.Resources, Resource{Type: typeCluster, Name: "another", Inputs: obj{"initialNodeCount": 3.0}})
	assert.Equal(t, verdict.Inconclusive, verdicts(g, Profile{})["plan.gvisor-pool"])
	assert.Equal(t, verdict.Inconclusive, verdicts(g, Profile{})["plan.default-pool"], "nobody says that its own pool goes")
}

// One cluster's pools do not speak for another's.
func TestPoolsOfSeveralClustersAreNotToldApart(t *testing.T) {
	g := standard()
	for _, c := range g.Clone().of(typeCluster) {
		c.Name = "another"
		g.Resources = append(g.Resources, c)
	}
	got := verdicts(g, full)
	assert.Equal(t, verdict.Inconclusive, got["plan.gvisor-pool"])
	assert.Equal(t, verdict.Inconclusive, got["plan.system-pool"])
	assert.Equal(t, verdict.Held, got["plan.dataplane-v2"], "each cluster says this of itself")
}

// Weaknesses beyond the mutants: each rule looks at more than one place.
func TestOtherWaysToWeakenAPlanAreSeen(t *testing.T) {
	for name, c := range map[string]struct {
		rule  string
		apply func(*Graph) bool
	}{
		"Calico's add-on":             {"plan.no-calico", set(typeCluster, "addonsConfig.networkPolicyConfig.disabled", false)},
		"public nodes in a pool":      {"plan.private-nodes", set(typePool, "networkConfig.enablePrivateNodes", false)},
		"a client certificate":        {"plan.anonymous-access", set(typeCluster, "masterAuth.clientCertificateConfig.issueClientCertificate", true)},
		"ABAC":                        {"plan.anonymous-access", set(typeCluster, "enableLegacyAbac", true)},
		"no gVisor at all":            {"plan.gvisor-pool", setWhere(typePool, isSandboxed, "nodeConfig.sandboxConfig", obj{})},
		"the sandbox's label":         {"plan.reserved-taint", set(typePool, "nodeConfig.labels", obj{reservedKey: "gvisor"})},
		"a pattern for every image":   {"plan.binary-authorization", set(typeBinauthz, "admissionWhitelistPatterns", []any{obj{"namePattern": "*"}})},
		"a pattern for a whole host":  {"plan.binary-authorization", set(typeBinauthz, "admissionWhitelistPatterns", []any{obj{"namePattern": "gcr.io/*"}})},
		"a dry run of the image rule": {"plan.binary-authorization", set(typeBinauthz, "defaultAdmissionRule.enforcementMode", "DRYRUN_AUDIT_LOG_ONLY")},
		"a role for everybody":        {"plan.least-privilege", set(typeProjectIAM, "member", "allUsers")},
		"a public zone":               {"plan.restricted-dns", set(typeZone, "visibility", "public")},
		"a zone that is gone":         {"plan.restricted-dns", drop(func(r Resource) bool { return r.Type == typeZone && r.Name == "pkg.dev" })},
		"no zone for control planes":  {"plan.restricted-dns", drop(func(r Resource) bool { return r.Type == typeZone && r.Name == "gke.goog" })},
		"a host of its own":           {"plan.restricted-dns", setWhere(typeRecord, func(r Resource) bool { return r.Name == "gcr.io-any" }, "rrdatas", []any{"evil.example."})},
		"egress by any port":          {"plan.egress-firewall", setWhere(typeFirewall, func(r Resource) bool { return r.Name == "public" }, "allows", []any{obj{"protocol": "all"}})},
		"egress to two halves":        {"plan.egress-firewall", setWhere(typeFirewall, func(r Resource) bool { return r.Name == "own" }, "destinationRanges", []any{"0.0.0.0/1", "128.0.0.0/1"})},
		"egress without destinations": {"plan.egress-firewall", func(g *Graph) bool {
			for _, r := range g.of(typeFirewall) {
				if r.Name == "own" {
					delete(r.Inputs, "destinationRanges")
				}
			}
			return true
		}},
		"a deny rule for some nodes":      {"plan.egress-firewall", setWhere(typeFirewall, deniesAll, "targetTags", []any{"x"})},
		"an API that is unrestricted":     {"plan.perimeter-services", set(typeService, "service", "workflows.googleapis.com")},
		"a door for any user":             {"plan.perimeter-doors", set(typePerimeter, "status.ingressPolicies", []any{obj{"ingressFrom": obj{"identityType": "ANY_USER_ACCOUNT"}}})},
		"a door to every service":         {"plan.perimeter-doors", set(typePerimeter, "status.egressPolicies", []any{obj{"egressTo": obj{"operations": []any{obj{"serviceName": "*"}}}}})},
		"a perimeter around nothing":      {"plan.perimeter-enforced", set(typePerimeter, "status.resources", []any{})},
		"a name for a whole domain":       {"plan.allow-list", setWhere("kubernetes:networking.gke.io/v1alpha1:FQDNNetworkPolicy", isFQDNPolicy, "spec.egress", []any{obj{"matches": []any{obj{"pattern": "*.com"}}, "ports": []any{obj{"protocol": "TCP", "port": 443.0}}}})},
		"a list for all ports":            {"plan.allow-list", setWhere("kubernetes:networking.gke.io/v1alpha1:FQDNNetworkPolicy", isFQDNPolicy, "spec.egress", []any{obj{"matches": []any{obj{"name": "a.example.com"}}}})},
		"a digest that is cut":            {"plan.image-digests", set("kubernetes:apps/v1:Deployment", "spec.template.spec.containers", []any{obj{"image": "a@sha256:0123"}})},
		"a sidecar by tag":                {"plan.image-digests", set("kubernetes:apps/v1:Deployment", "spec.template.spec.initContainers", []any{obj{"image": "a:1"}})},
		"no process at all":               {"plan.pids-limit", setWhere(typePool, isSandboxed, "nodeConfig.kubeletConfig.podPidsLimit", -1.0)},
		"Compute Engine's account":        {"plan.node-identity", set(typePool, "nodeConfig.serviceAccount", "1-compute@developer.gserviceaccount.com")},
		"Shielded nodes off":              {"plan.shielded-nodes", set(typeCluster, "enableShieldedNodes", false)},
		"a cluster that only logs":        {"plan.binary-authorization", set(typeBinauthz, "clusterAdmissionRules", []any{obj{"evaluationMode": "ALWAYS_DENY", "enforcementMode": "DRYRUN_AUDIT_LOG_ONLY"}})},
		"egress to Google's VMs":          {"plan.egress-firewall", setWhere(typeFirewall, func(r Resource) bool { return r.Name == "own" }, "destinationRanges", []any{"34.0.0.0/8"})},
		"egress by IPv6":                  {"plan.egress-firewall", setWhere(typeFirewall, func(r Resource) bool { return r.Name == "own" }, "destinationRanges", []any{"2a00::/12"})},
		"names of a peer":                 {"plan.restricted-dns", setWhere(typeZone, func(r Resource) bool { return r.Name == "pkg.dev" }, "peeringConfig", obj{"targetNetwork": obj{"networkUrl": Unknown{}}})},
		"Pods of a pool elsewhere":        {"plan.private-ranges", set(typePool, "networkConfig.podIpv4CidrBlock", "100.64.0.0/14")},
		"a role by a binding":             {"plan.least-privilege", append1("gcp:projects/iAMBinding:IAMBinding", obj{"role": "roles/owner", "members": []any{"serviceAccount:n@p.iam.gserviceaccount.com"}})},
		"a role in the folder":            {"plan.least-privilege", append1("gcp:folder/iAMMember:IAMMember", obj{"role": "roles/viewer", "member": "serviceAccount:n@p.iam.gserviceaccount.com"})},
		"a binding for everybody":         {"plan.least-privilege", append1("gcp:projects/iAMBinding:IAMBinding", obj{"role": "roles/monitoring.viewer", "members": []any{"allAuthenticatedUsers"}})},
		"any Pod is the identity":         {"plan.least-privilege", set(typeAccountIAM, "member", "principalSet://iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/p.svc.id.goog/*")},
		"tokens for a person":             {"plan.least-privilege", set(typeAccountIAM, "role", "roles/iam.serviceAccountTokenCreator")},
		"a door of its own":               {"plan.perimeter-doors", append1("gcp:accesscontextmanager/servicePerimeterEgressPolicy:ServicePerimeterEgressPolicy", obj{"egressFrom": obj{"identityType": "ANY_IDENTITY"}})},
		"a level for everybody":           {"plan.perimeter-doors", set(typeLevel, "basic.conditions", []any{obj{"ipSubnetworks": []any{"203.0.113.0/24"}}})},
		"a level from everywhere":         {"plan.perimeter-doors", set(typeLevel, "basic.conditions", []any{obj{"members": []any{"user:a@example.com"}}})},
		"a level for either":              {"plan.perimeter-doors", set(typeLevel, "basic", obj{"combiningFunction": "OR", "conditions": []any{obj{"members": []any{"user:a@example.com"}}, obj{"ipSubnetworks": []any{"203.0.113.0/24"}}}})},
		"another policy beside it":        {"plan.allow-list", set("kubernetes:networking.k8s.io/v1:NetworkPolicy", "spec.egress", []any{obj{"ports": []any{obj{"port": 443.0}}}})},
		"a public block beside it":        {"plan.allow-list", set("kubernetes:networking.k8s.io/v1:NetworkPolicy", "spec.egress", []any{obj{"to": []any{obj{"ipBlock": obj{"cidr": "0.0.0.0/0"}}}}})},
		"a template that lets out":        {"plan.allow-list", setWhere("kubernetes:extensions.agents.x-k8s.io/v1beta1:SandboxTemplate", isTemplate, "spec.networkPolicy.egress", []any{obj{}})},
		"a deny rule elsewhere":           {"plan.egress-firewall", located("projects/p/global/networks/own", deniesAll)},
		"a zone elsewhere":                {"plan.restricted-dns", located("projects/p/global/networks/own", func(r Resource) bool { return r.Type == typeZone && r.Name == "pkg.dev" })},
		"other name servers":              {"plan.restricted-dns", append1(typeServerPolicy, obj{"alternativeNameServerConfig": obj{"targetNameServers": []any{obj{"ipv4Address": "8.8.8.8"}}}})},
		"a list for other Pods":           {"plan.allow-list", unmanaged(obj{"matchLabels": obj{"app": "other"}})},
		"a bucket for everybody":          {"plan.least-privilege", append1("gcp:storage/bucketIAMBinding:BucketIAMBinding", obj{"role": "roles/storage.objectViewer", "members": []any{"allUsers"}})},
		"a secret for everybody":          {"plan.least-privilege", append1("gcp:secretmanager/secretIamMember:SecretIamMember", obj{"role": "roles/monitoring.viewer", "member": "allAuthenticatedUsers"})},
		"a deny rule for some sources":    {"plan.egress-firewall", setWhere(typeFirewall, deniesAll, "sourceRanges", []any{"10.10.0.0/20"})},
		"a perimeter around a network":    {"plan.perimeter-enforced", set(typePerimeter, "status.resources", []any{"//compute.googleapis.com/projects/p/global/networks/n"})},
		"a name in capitals":              {"plan.restricted-dns", append1(typeRecord, obj{"name": "STORAGE.GoogleAPIs.com.", "type": "A", "rrdatas": []any{"203.0.113.1"}})},
		"a forwarded zone in capitals":    {"plan.restricted-dns", append1(typeZone, obj{"dnsName": "Storage.GoogleAPIs.com.", "visibility": "private", "forwardingConfig": obj{}})},
		"a registry in small letters":     {"plan.immutable-tags", append1(typeRepository, obj{"format": "docker", "dockerConfig": obj{"immutableTags": false}})},
		"a volume of an image by tag":     {"plan.image-digests", set(deployment, "spec.template.spec.volumes", []any{obj{"image": obj{"reference": "a:1"}}})},
		"a name for a country":            {"plan.allow-list", set("kubernetes:networking.gke.io/v1alpha1:FQDNNetworkPolicy", "spec.egress", listOf(obj{"pattern": "*.co.uk"}))},
		"a name for a host of hosts":      {"plan.allow-list", set("kubernetes:networking.gke.io/v1alpha1:FQDNNetworkPolicy", "spec.egress", listOf(obj{"pattern": "*.github.io"}))},
		"a sandbox without a template":    {"plan.allow-list", append1("kubernetes:agents.x-k8s.io/v1beta1:Sandbox", obj{"metadata": obj{"namespace": "other"}})},
		"Kubernetes' own tokens":          {"plan.control-plane", set(typeCluster, "controlPlaneEndpointsConfig.dnsEndpointConfig.enableK8sTokensViaDns", true)},
		"Kubernetes' own certificates":    {"plan.control-plane", set(typeCluster, "controlPlaneEndpointsConfig.dnsEndpointConfig.enableK8sCertsViaDns", true)},
		"a sandbox is the identity":       {"plan.least-privilege", set(typeAccountIAM, "member", "serviceAccount:p.svc.id.goog[sandboxes/default]")},
		"egress to an empty list":         {"plan.egress-firewall", setWhere(typeFirewall, func(r Resource) bool { return r.Name == "own" }, "destinationRanges", []any{})},
		"a role in the organization":      {"plan.least-privilege", append1("gcp:organizations/iAMMember:IAMMember", obj{"role": "roles/monitoring.viewer", "member": "serviceAccount:n@p.iam.gserviceaccount.com"})},
		"a key for storage":               {"plan.least-privilege", append1(typeStorageKey, obj{"serviceAccountEmail": "n@p.iam.gserviceaccount.com"})},
		"a registry of the old kind":      {"plan.immutable-tags", append1("gcp:container/registry:Registry", obj{})},
		"a role for the nameless":         {"plan.anonymous-access", append1("kubernetes:rbac.authorization.k8s.io/v1:RoleBinding", obj{"subjects": []any{obj{"kind": "User", "name": "system:anonymous"}}})},
		"a sandbox on the node itself":    {"plan.gvisor-pool", append1("kubernetes:agents.x-k8s.io/v1beta1:Sandbox", obj{"metadata": obj{"namespace": "sandboxes"}, "spec": obj{"podTemplate": obj{"spec": obj{}}}})},
		"a role for a sandbox's own name": {"plan.least-privilege", set(typeProjectIAM, "member", "principal://iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/p.svc.id.goog/subject/ns/sandboxes/sa/default")},
		"a role for all of a namespace":   {"plan.least-privilege", set(typeProjectIAM, "member", "principalSet://iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/p.svc.id.goog/namespace/sandboxes")},
		"a role for all of a cluster":     {"plan.least-privilege", set(typeProjectIAM, "member", "principalSet://iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/p.svc.id.goog/kubernetes.cluster/https://container.googleapis.com/v1/projects/p/locations/r/clusters/c")},
		"another runtime by the name":     {"plan.gvisor-pool", append1("kubernetes:node.k8s.io/v1:RuntimeClass", obj{"metadata": obj{"name": "gvisor"}, "handler": "runc"})},
		"a template for another class":    {"plan.gvisor-pool", set(templateType, runtimeClass, "runc")},
		"a sandbox in the node's network": {"plan.allow-list", append1("kubernetes:agents.x-k8s.io/v1beta1:Sandbox", obj{"metadata": obj{"namespace": "sandboxes"},
			"spec": obj{"podTemplate": obj{"spec": obj{"hostNetwork": true}}}})},
		"secrets left out":     {"plan.perimeter-services", leftOut("secretmanager.googleapis.com")},
		"credentials left out": {"plan.perimeter-services", leftOut("iamcredentials.googleapis.com")},
		"autoscaling left out": {"plan.perimeter-services", leftOut("autoscaling.googleapis.com")},
		"a policy for elsewhere": {"plan.allow-list", func(g *Graph) bool {
			// The list is in another namespace than the template, whose own policy is sound.
			return set(templateType, "metadata.namespace", "other")(g) && append1("kubernetes:networking.k8s.io/v1:NetworkPolicy",
				obj{"metadata": obj{"namespace": "other"}, "spec": obj{"podSelector": obj{}, "egress": []any{obj{}}}})(g)
		}},
		"a template without a list": {"plan.allow-list", func(g *Graph) bool {
			return set(templateType, "spec.networkPolicyManagement", "Unmanaged")(g) && set(templateType, "metadata.namespace", "other")(g)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			g := standard()
			require.True(t, c.apply(&g))
			got := verdicts(g, full)
			assert.Equal(t, verdict.Breached, got[c.rule])
		})
	}
}

const (
	templateType = "kubernetes:extensions.agents.x-k8s.io/v1beta1:SandboxTemplate"
	deployment   = "kubernetes:apps/v1:Deployment"
)

// located is a change: everything is in a network but what fits, which is in another.
func located(network string, elsewhere func(Resource) bool) func(*Graph) bool {
	return func(g *Graph) bool {
		for _, r := range g.Resources {
			at := "https://www.googleapis.com/compute/v1/" + network
			if elsewhere(r) {
				at = "projects/p/global/networks/other"
			}
			switch r.Type {
			case typeCluster:
				r.put("network", network)
			case typeFirewall:
				r.put("network", at)
			case typeZone:
				r.put("privateVisibilityConfig.networks", []any{obj{"networkUrl": "projects/p/global/networks/third"}, obj{"networkUrl": at}})
			}
		}
		return true
	}
}

func TestWhatGuardsANetworkMustBeInTheClusters(t *testing.T) {
	nowhere := func(Resource) bool { return false }
	both := func(g Graph, want verdict.Verdict, why string) {
		got := verdicts(g, full)
		assert.Equal(t, want, got["plan.egress-firewall"], "%s", why)
		assert.Equal(t, want, got["plan.restricted-dns"], "%s", why)
	}
	g := standard()
	located("projects/p/global/networks/own", nowhere)(&g)
	both(g, verdict.Held, "whichever way it is written")
	// A rule of another network lets nothing of the cluster's out.
	require.True(t, append1(typeFirewall, obj{"direction": "EGRESS", "network": "projects/p/global/networks/other", "allows": []any{obj{"protocol": "all"}}})(&g))
	both(g, verdict.Held, "a rule elsewhere")

	g = standard()
	located("projects/1/global/networks/own", nowhere)(&g)
	for _, r := range g.of(typeCluster) {
		r.put("network", "projects/p/global/networks/own")
	}
	both(g, verdict.Inconclusive, "a project by its number")

	// The sound graph is as a preview has it: no network is known.
	g = standard()
	g.Resources = append(g.Resources, Resource{Type: typeNetwork, Name: "another", Inputs: obj{}})
	both(g, verdict.Inconclusive, "one of two networks")
	g = standard()
	for _, r := range g.of(typeCluster) {
		r.put("network", "default")
	}
	both(g, verdict.Inconclusive, "a network that the program does not make")
	g = standard()
	located("projects/p/global/networks/own", nowhere)(&g)
	g.Resources = append(g.Resources, Resource{Type: typeCluster, Name: "another", Inputs: obj{"network": "other"}})
	both(g, verdict.Inconclusive, "clusters in several networks")
}

// A rule without destinations is for all of them, and one that is not known is no
// reason to call the rest open.
func TestARuleThatDeniesTheRestMayBeWrittenInSeveralWays(t *testing.T) {
	g := standard()
	require.True(t, setWhere(typeFirewall, deniesAll, "destinationRanges", nil)(&g))
	assert.Equal(t, verdict.Held, verdicts(g, full)["plan.egress-firewall"])
	require.True(t, setWhere(typeFirewall, deniesAll, "sourceRanges", []any{"0.0.0.0/0"})(&g))
	assert.Equal(t, verdict.Held, verdicts(g, full)["plan.egress-firewall"])
	for _, path := range []string{"destinationRanges", "sourceRanges", "targetTags", "denies"} {
		g := standard()
		require.True(t, setWhere(typeFirewall, deniesAll, path, Unknown{})(&g))
		assert.Equal(t, verdict.Inconclusive, verdicts(g, full)["plan.egress-firewall"], path)
	}
}

// unmanaged is a change: the sandboxes bring no policy of their own, and those of
// their namespace select by this.
func unmanaged(selector obj) func(*Graph) bool {
	return func(g *Graph) bool {
		done := set(templateType, "spec.networkPolicyManagement", "Unmanaged")(g)
		for _, r := range g.Resources {
			if isFQDNPolicy(r) || isNetworkPolicy(r) {
				done = r.put("spec.podSelector", selector) && done
			}
		}
		return done
	}
}

// A template that brings no policy is in order where another one is for its Pods.
func TestATemplateMayLeaveItsPolicyToItsNamespace(t *testing.T) {
	for _, selector := range []obj{nil, {}, {"matchLabels": obj{"app": "sandbox"}}} {
		g := standard()
		unmanaged(selector)(&g)
		assert.Equal(t, verdict.Held, verdicts(g, full)["plan.allow-list"], "%v", selector)
	}
	// A policy on what comes in denies nothing of what goes out.
	g := standard()
	require.True(t, unmanaged(obj{"matchLabels": obj{"app": "other"}})(&g))
	require.True(t, append1("kubernetes:networking.k8s.io/v1:NetworkPolicy", obj{"metadata": obj{"namespace": "sandboxes"}, "spec": obj{"podSelector": obj{}, "policyTypes": []any{"Ingress"}}})(&g))
	assert.Equal(t, verdict.Breached, verdicts(g, full)["plan.allow-list"])
	require.True(t, append1("kubernetes:networking.k8s.io/v1:NetworkPolicy", obj{"metadata": obj{"namespace": "sandboxes"}, "spec": obj{"podSelector": obj{}, "policyTypes": []any{"Egress"}}})(&g))
	assert.Equal(t, verdict.Held, verdicts(g, full)["plan.allow-list"])
}

// listOf are the rules of an allow-list with one entry.
func listOf(entry obj) []any {
	return []any{obj{"matches": []any{entry}, "ports": []any{obj{"protocol": "TCP", "port": 443.0}}}}
}

// append1 is a change: one resource more.
func append1(typ string, inputs obj) func(*Graph) bool {
	return func(g *Graph) bool {
		g.Resources = append(g.Resources, Resource{Type: typ, Name: "more", Inputs: inputs})
		return true
	}
}

// What a rule does not understand, or cannot see, it does not pass.
func TestWhatIsNotUnderstoodHoldsNothing(t *testing.T) {
	for name, c := range map[string]struct {
		rule  string
		apply func(*Graph) bool
	}{
		"a document of grants":          {"plan.least-privilege", append1("gcp:projects/iAMPolicy:IAMPolicy", obj{"policyData": "{}"})},
		"a level that is not there":     {"plan.perimeter-doors", set(typePerimeter, "status.accessLevels", []any{"accessPolicies/1/accessLevels/other"})},
		"an expression for a level":     {"plan.perimeter-doors", set(typeLevel, "basic", nil)},
		"a condition turned round":      {"plan.perimeter-doors", set(typeLevel, "basic.conditions", []any{obj{"members": []any{"user:a@example.com"}, "ipSubnetworks": []any{"203.0.113.0/24"}, "negate": true}})},
		"one more condition":            {"plan.perimeter-doors", append1("gcp:accesscontextmanager/accessLevelCondition:AccessLevelCondition", obj{})},
		"a Pod template not known yet":  {"plan.image-digests", set(deployment, "spec.template.spec", Unknown{})},
		"containers not known yet":      {"plan.image-digests", set(deployment, "spec.template.spec.containers", Unknown{})},
		"a container not known yet":     {"plan.image-digests", set(deployment, "spec.template.spec.initContainers", []any{Unknown{}})},
		"a chart":                       {"plan.image-digests", append1("kubernetes:helm.sh/v3:Release", obj{"chart": "x"})},
		"a first pool that stays":       {"plan.pids-limit", set(typeCluster, "removeDefaultNodePool", false)},
		"pools of GKE's choice, maybe":  {"plan.default-pool", set(typeCluster, "clusterAutoscaling", obj{"enabled": Unknown{}})},
		"nodes of pools that GKE makes": {"plan.node-identity", set(typeCluster, "clusterAutoscaling", obj{"enabled": true})},
		"pools within the cluster":      {"plan.kubelet-port", set(typeCluster, "nodePools", []any{obj{"name": "x"}})},
		"an image policy elsewhere": {"plan.binary-authorization", func(g *Graph) bool {
			return set(typeBinauthz, "project", "theirs")(g) && set(typeCluster, "project", "mine")(g)
		}},
		"a pool of another cluster": {"plan.gvisor-pool", func(g *Graph) bool {
			return set(typeCluster, "name", "mine")(g) && setWhere(typePool, isSandboxed, "cluster", "projects/p/locations/r/clusters/theirs")(g)
		}},
		"a pool in a subnet elsewhere": {"plan.private-ranges", func(g *Graph) bool {
			return set(typeSubnet, "name", "mine")(g) && set(typePool, "networkConfig.subnetwork", "theirs")(g)
		}},
		"a pool in further networks":    {"plan.egress-firewall", set(typePool, "networkConfig.additionalNodeNetworkConfigs", []any{obj{"network": "other"}})},
		"a rule in small letters":       {"plan.egress-firewall", setWhere(typeFirewall, func(r Resource) bool { return r.Name == "own" }, "direction", "egress")},
		"a policy managed otherwise":    {"plan.allow-list", set(templateType, "spec.networkPolicyManagement", "unmanaged")},
		"containers of another shape":   {"plan.image-digests", set(deployment, "spec.template.spec.containers", "all")},
		"a mirror of another registry":  {"plan.immutable-tags", set(typeRepository, "mode", "REMOTE_REPOSITORY")},
		"an image volume not known yet": {"plan.image-digests", set(deployment, "spec.template.spec.volumes", []any{obj{"image": Unknown{}}})},
		"a subnet from another graph": {"plan.private-ranges", func(g *Graph) bool {
			return set(typeSubnet, "name", "mine")(g) && set(typeCluster, "subnetwork", "projects/p/regions/r/subnetworks/theirs")(g)
		}},
		"a range from another graph":     {"plan.private-ranges", set(typeCluster, "ipAllocationPolicy.clusterSecondaryRangeName", "other")},
		"a response policy":              {"plan.restricted-dns", append1(typeResponse, obj{"dnsName": "storage.googleapis.com."})},
		"a firewall policy":              {"plan.egress-firewall", append1("gcp:compute/networkFirewallPolicyRule:NetworkFirewallPolicyRule", obj{})},
		"a policy for the whole cluster": {"plan.allow-list", append1("kubernetes:cilium.io/v2:CiliumClusterwideNetworkPolicy", obj{"spec": obj{"endpointSelector": obj{}, "egress": []any{obj{"toEntities": []any{"world"}}}}})},
		"an administrator's policy":      {"plan.allow-list", append1("kubernetes:policy.networking.k8s.io/v1alpha1:AdminNetworkPolicy", obj{"spec": obj{}})},
		"a patch of a policy":            {"plan.allow-list", append1("kubernetes:networking.k8s.io/v1:NetworkPolicyPatch", obj{"metadata": obj{"namespace": "sandboxes"}})},
		"a chart beside the list":        {"plan.allow-list", append1("kubernetes:helm.sh/v3:Release", obj{"chart": "x"})},
		"a host by name and by pattern":  {"plan.allow-list", set("kubernetes:networking.gke.io/v1alpha1:FQDNNetworkPolicy", "spec.egress", []any{obj{"matches": []any{obj{"name": "a.example.com", "pattern": "*"}}, "ports": []any{obj{"protocol": "TCP", "port": 443.0}}}})},
		"a list for who is not known":    {"plan.allow-list", unmanaged(obj{"matchLabels": obj{"app": Unknown{}}})},
		"a list by an expression":        {"plan.allow-list", unmanaged(obj{"matchExpressions": []any{obj{"key": "app", "operator": "Exists"}}})},
		"a role on a bucket":             {"plan.least-privilege", append1("gcp:storage/bucketIAMMember:BucketIAMMember", obj{"role": "roles/storage.admin", "member": "serviceAccount:n@p.iam.gserviceaccount.com"})},
		"a role on a secret":             {"plan.least-privilege", append1("gcp:secretmanager/secretIamBinding:SecretIamBinding", obj{"role": "roles/secretmanager.secretAccessor", "members": []any{"serviceAccount:n@p.iam.gserviceaccount.com"}})},
		"pools within a private cluster": {"plan.private-nodes", set(typeCluster, "nodePools", []any{obj{"networkConfig": obj{"enablePrivateNodes": false}}})},
		"access to a subnet elsewhere": {"plan.private-google-access", func(g *Graph) bool {
			return set(typeSubnet, "name", "mine")(g) && set(typeCluster, "subnetwork", "projects/p/regions/r/subnetworks/theirs")(g)
		}},
		"a cluster in no subnet": {"plan.private-google-access", set(typeCluster, "subnetwork", nil)},
		"ranges of no subnet":    {"plan.overlapping-ranges", set(typeCluster, "subnetwork", nil)},
		"a door for a level of elsewhere": {"plan.perimeter-doors", set(typePerimeter, "status.ingressPolicies", []any{obj{"ingressFrom": obj{
			"identities": []any{"user:a@example.com"}, "sources": []any{obj{"accessLevel": "accessPolicies/1/accessLevels/other"}}}}})},
		"all perimeters, and its services": {"plan.perimeter-services", append1(typePerimeters, obj{"parent": "accessPolicies/1"})},
		"all perimeters, and its doors":    {"plan.perimeter-doors", append1(typePerimeters, obj{"parent": "accessPolicies/1"})},
		"all perimeters, and whether on":   {"plan.perimeter-enforced", append1(typePerimeters, obj{"parent": "accessPolicies/1"})},
		"all perimeters, and its network":  {"plan.perimeter-network", append1(typePerimeters, obj{"parent": "accessPolicies/1"})},
		"images of another repository":     {"plan.binary-authorization", set(typeBinauthz, "admissionWhitelistPatterns", []any{obj{"namePattern": "docker.io/library/*"}})},
		"images of every repository":       {"plan.binary-authorization", set(typeBinauthz, "admissionWhitelistPatterns", []any{obj{"namePattern": "r-docker.pkg.dev/p/**"}})},
		"an account made elsewhere":        {"plan.node-identity", set(typePool, "nodeConfig.serviceAccount", "ci@p.iam.gserviceaccount.com")},
		"an account of another project":    {"plan.node-identity", set(typePool, "nodeConfig.serviceAccount", "n@other.iam.gserviceaccount.com")},
		"a list of who may read a bucket":  {"plan.least-privilege", append1("gcp:storage/bucketACL:BucketACL", obj{"roleEntities": []any{"READER:allUsers"}})},
		"sandboxes of a namespace to come": {"plan.least-privilege", set(templateType, "metadata.namespace", Unknown{})},
		"whose role is not known yet":      {"plan.anonymous-access", append1("kubernetes:rbac.authorization.k8s.io/v1:ClusterRoleBinding", obj{"subjects": Unknown{}})},
		"a patch of a template's runtime":  {"plan.gvisor-pool", append1(templateType+"Patch", obj{"metadata": obj{"namespace": "sandboxes"}})},
		"objects in a folder":              {"plan.allow-list", append1("pulumi:providers:kubernetes", obj{"renderYamlToDirectory": "out"})},
		"a list of roles":                  {"plan.anonymous-access", append1("kubernetes:rbac.authorization.k8s.io/v1:RoleBindingList", obj{"items": []any{}})},
		"a workload pool of others":        {"plan.workload-identity", set(typeCluster, "project", "other")},
		"a patch of a template":            {"plan.allow-list", append1(templateType+"Patch", obj{"metadata": obj{"namespace": "sandboxes"}})},
		"name servers of the cluster":      {"plan.restricted-dns", append1("kubernetes:core/v1:ConfigMap", obj{"metadata": obj{"name": "kube-dns", "namespace": "kube-system"}, "data": obj{"stubDomains": "{}"}})},
		"a policy's rule not known yet":    {"plan.allow-list", set("kubernetes:networking.k8s.io/v1:NetworkPolicy", "spec.egress", Unknown{})},
	} {
		g := standard()
		require.True(t, c.apply(&g), name)
		assert.Equal(t, verdict.Inconclusive, verdicts(g, full)[c.rule], name)
	}
	// A first pool of which nobody knows any more is no reason to stop.
	g := standard()
	require.True(t, set(typeCluster, "nodeConfig", nil)(&g))
	assert.Equal(t, verdict.Held, verdicts(g, full)["plan.metadata-mode"])
	assert.Equal(t, verdict.Held, verdicts(g, full)["plan.node-identity"])
	// The cluster's own subnet, by whichever name.
	for _, name := range []any{"mine", Unknown{}} {
		g = standard()
		require.True(t, set(typeSubnet, "name", name)(&g))
		require.True(t, set(typeCluster, "subnetwork", "projects/p/regions/r/subnetworks/mine")(&g))
		assert.Equal(t, verdict.Held, verdicts(g, full)["plan.private-ranges"], "%v", name)
	}
	// Its policy may be elsewhere, where a sandbox is all that is seen.
	g = Graph{}
	require.True(t, append1("kubernetes:agents.x-k8s.io/v1beta1:Sandbox", obj{"metadata": obj{"namespace": "sandboxes"}})(&g))
	assert.Equal(t, verdict.Inconclusive, verdicts(g, full)["plan.allow-list"])
	// Google's own, which the claim names, are a registry as well.
	for _, pattern := range []string{"*.googleapis.com", "*.us-central1.gke.goog", "*.Example.co.uk."} {
		g = standard()
		require.True(t, set("kubernetes:networking.gke.io/v1alpha1:FQDNNetworkPolicy", "spec.egress", listOf(obj{"pattern": pattern}))(&g))
		assert.Equal(t, verdict.Held, verdicts(g, full)["plan.allow-list"], pattern)
	}
	// A controller's Pods may have a role, where no sandbox is among them.
	g = standard()
	require.True(t, set(typeProjectIAM, "member", "principalSet://iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/p.svc.id.goog/namespace/system")(&g))
	assert.Equal(t, verdict.Held, verdicts(g, full)["plan.least-privilege"])
	// Nor is every address for Google's services one for all of them.
	g = standard()
	require.True(t, append1(typeEndpoint, obj{"target": "vpc-sc"})(&g))
	assert.Equal(t, verdict.Held, verdicts(g, full)["plan.restricted-dns"])
	// What cannot hold a container says nothing of images.
	g = standard()
	require.True(t, append1("kubernetes:core/v1:Secret", obj{"metadata": Unknown{}, "data": Unknown{}})(&g))
	assert.Equal(t, verdict.Held, verdicts(g, full)["plan.image-digests"])
	// Where a rule denies the rest of IPv6, a subnet may have it.
	g = standard()
	require.True(t, set(typeSubnet, "stackType", "IPV4_IPV6")(&g))
	require.True(t, append1(typeFirewall, obj{"network": Unknown{}, "direction": "EGRESS", "destinationRanges": []any{"::/0"}, "denies": []any{obj{"protocol": "all"}}})(&g))
	assert.Equal(t, verdict.Held, verdicts(g, full)["plan.egress-firewall"])
	// All methods of one service, from somebody to somewhere, are a door with a lock.
	narrow := obj{"egressFrom": obj{"identities": []any{"serviceAccount:n@p.iam.gserviceaccount.com"}}, "egressTo": obj{
		"resources": []any{"projects/2"}, "operations": []any{obj{"serviceName": "storage.googleapis.com", "methodSelectors": []any{obj{"method": "*"}}}}}}
	g = standard()
	require.True(t, set(typePerimeter, "status.egressPolicies", []any{narrow})(&g))
	assert.Equal(t, verdict.Held, verdicts(g, full)["plan.perimeter-doors"])
	// Two conditions that must both be met may share the work.
	g = standard()
	require.True(t, set(typeLevel, "basic", obj{"conditions": []any{obj{"members": []any{"user:a@example.com"}}, obj{"ipSubnetworks": []any{"203.0.113.0/24"}}}})(&g))
	assert.Equal(t, verdict.Held, verdicts(g, full)["plan.perimeter-doors"])
}

func TestARuleThatMissesItsMutantHoldsNothing(t *testing.T) {
	blind := &Rule{
		ID: "plan.blind", Title: "Find nothing", Mutants: []Mutant{{"m", "something is weaker", set(typeCluster, "deletionProtection", false)}},
		judge: func(l *look) { l.sound("everything", "is fine") },
	}
	f := blind.Check(standard(), full, at)
	assert.Equal(t, verdict.Inconclusive, f.Result.Verdict())
	assert.Equal(t, verdict.ControlFailed, f.Result.Reason())
	// Nor does one whose mutant finds nothing to change.
	assert.Equal(t, verdict.ControlFailed, blind.Check(Graph{}, full, at).Result.Reason())
}

func TestAMutantLeavesTheGraphThatIsJudgedAlone(t *testing.T) {
	g := standard()
	want := g.Clone()
	Check(g, full, at)
	assert.Equal(t, want, g)
}
