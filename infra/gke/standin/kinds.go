// SPDX-License-Identifier: Apache-2.0

package standin

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
)

// kind is what the stand-in knows of one type of resource.
type kind struct {
	// api must be switched on in the project before anything of the type can be
	// done; empty for what is beyond the project.
	api string
	// id is Google's name of a resource with these inputs.
	id func(c *Cloud, v values) string
	// name is what a name must look like, and named the property that holds it.
	name  *regexp.Regexp
	named string
	// autoname: the provider makes a name up where none is given.
	autoname bool
	// shared: it may be there already, made by somebody else, without a conflict.
	shared bool
	// defaults are what the provider adds to the inputs.
	defaults values
	// oneOf are the words that the provider takes, by path.
	oneOf map[string][]string
	// excludes are pairs of properties of which the provider takes one.
	excludes [][2]string
	// replace are the properties that cannot be changed in place. A value that is
	// a map or a list counts as a whole.
	replace []string
	// inPlace may say of a property in replace that this change of it can be done
	// in place all the same.
	inPlace func(path string, before, after values) bool
	// check is what else the provider refuses before it asks Google.
	check func(v values) []failure
	// accept is what Google refuses to make or to change.
	accept func(c *Cloud, id string, v values) error
	// keep is what Google refuses to delete.
	keep func(c *Cloud, r *record) error
	// gone is what else goes when a resource is deleted.
	gone func(c *Cloud, r *record)
	// done is what else comes when a resource is made or changed.
	done func(c *Cloud, v values)
	// computed are the outputs that are no inputs.
	computed func(c *Cloud, r *record) values
}

// The types that refer to each other.
const (
	typeNetwork    = "gcp:compute/network:Network"
	typeSubnet     = "gcp:compute/subnetwork:Subnetwork"
	typeRouter     = "gcp:compute/router:Router"
	typeNat        = "gcp:compute/routerNat:RouterNat"
	typeFirewall   = "gcp:compute/firewall:Firewall"
	typeCluster    = "gcp:container/cluster:Cluster"
	typePool       = "gcp:container/nodePool:NodePool"
	typeZone       = "gcp:dns/managedZone:ManagedZone"
	typeRecord     = "gcp:dns/recordSet:RecordSet"
	typeService    = "gcp:projects/service:Service"
	typeProjectIAM = "gcp:projects/iAMMember:IAMMember"
	typeAccount    = "gcp:serviceaccount/account:Account"
	typeAccountIAM = "gcp:serviceaccount/iAMMember:IAMMember"
	typeRepository = "gcp:artifactregistry/repository:Repository"
	typeRepoIAM    = "gcp:artifactregistry/repositoryIamMember:RepositoryIamMember"
	typeBinauthz   = "gcp:binaryauthorization/policy:Policy"
	typeLevel      = "gcp:accesscontextmanager/accessLevel:AccessLevel"
	typePerimeter  = "gcp:accesscontextmanager/servicePerimeter:ServicePerimeter"
)

const (
	apiCompute   = "compute.googleapis.com"
	apiContainer = "container.googleapis.com"
	apiDNS       = "dns.googleapis.com"
	apiIAM       = "iam.googleapis.com"
	apiProjects  = "cloudresourcemanager.googleapis.com"
	apiRegistry  = "artifactregistry.googleapis.com"
	apiBinauthz  = "binaryauthorization.googleapis.com"
)

var (
	// rfc1035 is what most names look like.
	rfc1035     = regexp.MustCompile(`^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$`)
	clusterName = regexp.MustCompile(`^[a-z]([-a-z0-9]{0,38}[a-z0-9])?$`)
	accountName = regexp.MustCompile(`^[a-z]([-a-z0-9]{4,28}[a-z0-9])$`)
	policyName  = regexp.MustCompile(`^accessPolicies/[0-9]+/(accessLevels|servicePerimeters)/[A-Za-z][A-Za-z0-9_]*$`)
)

const terraformDescription = "Managed by Pulumi"

func mustBeMember(v values) []failure {
	member := text(v, "member")
	before, after, ok := strings.Cut(member, ":")
	switch {
	case member == "", member == "allUsers", member == "allAuthenticatedUsers":
	case !ok, before == "", after == "":
		return []failure{{"member", fmt.Sprintf("%.80q is not KIND:WHO", member)}}
	}
	return nil
}

// kinds are filled in by init: they and the functions in them refer to each
// other.
var kinds map[string]*kind

func init() {
	iam := func(api string, id func(*Cloud, values) string, of ...string) *kind {
		return &kind{
			api: api, id: id, shared: true, replace: append(of, "role", "member", "condition"),
			check: mustBeMember, accept: acceptMember,
			computed: func(*Cloud, *record) values { return values{"etag": "BwYAAAAAAAA="} },
		}
	}
	kinds = map[string]*kind{
		typeService: {
			id:       func(c *Cloud, v values) string { return c.project(v) + "/" + text(v, "service") },
			shared:   true,
			defaults: values{"disableOnDestroy": true},
			replace:  []string{"service", "project"},
			check: func(v values) []failure {
				if s := text(v, "service"); s != "" && !strings.HasSuffix(s, ".googleapis.com") {
					return []failure{{"service", fmt.Sprintf("%.80q is not the name of an API", s)}}
				}
				return nil
			},
			done: func(c *Cloud, v values) { c.state.Services[text(v, "service")] = true },
			gone: func(c *Cloud, r *record) {
				if flag(r.Inputs, "disableOnDestroy") {
					delete(c.state.Services, text(r.Inputs, "service"))
				}
			},
			computed: func(c *Cloud, r *record) values { return values{"project": c.project(r.Inputs)} },
		},
		typeNetwork: {
			api: apiCompute, id: global("networks"), autoname: true, name: rfc1035, named: "name",
			defaults: values{"autoCreateSubnetworks": true, "deleteDefaultRoutesOnCreate": false, "networkFirewallPolicyEnforcementOrder": "AFTER_CLASSIC_FIREWALL"},
			oneOf:    map[string][]string{"routingMode": {"REGIONAL", "GLOBAL"}},
			replace:  []string{"name", "project", "description", "autoCreateSubnetworks", "deleteDefaultRoutesOnCreate", "mtu", "enableUlaInternalIpv6", "internalIpv6Range", "networkProfile"},
			keep: func(c *Cloud, r *record) error {
				for _, typ := range []string{typeSubnet, typeFirewall, typeRouter, typeCluster} {
					for _, user := range c.all(typ) {
						if c.network(text(user.Inputs, "network")) == r.ID {
							return inUse(r, user)
						}
					}
				}
				return nil
			},
			computed: func(c *Cloud, r *record) values {
				return merge(c.made(r, "compute/v1"), values{
					"gatewayIpv4": "", "numericId": digits(r, 19), "networkId": digits(r, 19), "mtu": 1460.0, "routingMode": "REGIONAL",
				})
			},
		},
		typeSubnet: {
			api: apiCompute, id: regional("subnetworks"), autoname: true, name: rfc1035, named: "name",
			oneOf:   map[string][]string{"stackType": {"IPV4_ONLY", "IPV4_IPV6", "IPV6_ONLY"}},
			replace: []string{"name", "project", "region", "network", "description", "purpose", "ipCidrRange"},
			inPlace: func(path string, before, after values) bool {
				was, err1 := netip.ParsePrefix(text(before, path))
				is, err2 := netip.ParsePrefix(text(after, path))
				// A range may grow around what it was.
				return path == "ipCidrRange" && err1 == nil && err2 == nil && is.Bits() < was.Bits() && is.Contains(was.Addr())
			},
			accept: acceptSubnet,
			keep: func(c *Cloud, r *record) error {
				for _, user := range c.all(typeCluster) {
					if c.subnet(text(user.Inputs, "subnetwork"), r.Inputs) == r.ID {
						return inUse(r, user)
					}
				}
				for _, user := range c.all(typeNat) {
					for _, s := range objects(user.Inputs, "subnetworks") {
						if c.subnet(text(s, "name"), r.Inputs) == r.ID {
							return inUse(r, user)
						}
					}
				}
				return nil
			},
			computed: func(c *Cloud, r *record) values {
				gateway := ""
				if p, err := netip.ParsePrefix(text(r.Inputs, "ipCidrRange")); err == nil {
					gateway = p.Masked().Addr().Next().String()
				}
				return merge(c.made(r, "compute/v1"), values{
					"region": c.place(r.Inputs, "region"), "gatewayAddress": gateway, "fingerprint": hash(r, 12), "creationTimestamp": epoch,
					"purpose": "PRIVATE", "stackType": "IPV4_ONLY", "privateIpv6GoogleAccess": "DISABLE_GOOGLE_ACCESS", "subnetworkId": float64(r.Serial),
				})
			},
		},
		typeRouter: {
			api: apiCompute, id: regional("routers"), autoname: true, name: rfc1035, named: "name",
			replace: []string{"name", "project", "region", "network", "encryptedInterconnectRouter"},
			accept:  func(c *Cloud, _ string, v values) error { return c.needs(typeNetwork, c.network(text(v, "network"))) },
			computed: func(c *Cloud, r *record) values {
				return merge(c.made(r, "compute/v1"), values{"region": c.place(r.Inputs, "region"), "creationTimestamp": epoch})
			},
			// Its NAT is a part of it.
			gone: func(c *Cloud, r *record) {
				for _, n := range c.all(typeNat) {
					if c.router(n.Inputs) == r.ID {
						delete(c.state.Resources, key(n.Type, n.ID))
					}
				}
			},
		},
		typeNat: {
			api: apiCompute,
			id: func(c *Cloud, v values) string {
				return strings.Join([]string{c.project(v), c.place(v, "region"), last(text(v, "router")), text(v, "name")}, "/")
			},
			autoname: true, name: rfc1035, named: "name",
			oneOf: map[string][]string{
				"natIpAllocateOption":           {"MANUAL_ONLY", "AUTO_ONLY"},
				"sourceSubnetworkIpRangesToNat": {"ALL_SUBNETWORKS_ALL_IP_RANGES", "ALL_SUBNETWORKS_ALL_PRIMARY_IP_RANGES", "LIST_OF_SUBNETWORKS"},
			},
			replace: []string{"name", "project", "region", "router", "endpointTypes", "initialNatIps"},
			accept:  acceptNat,
			computed: func(c *Cloud, r *record) values {
				return values{"project": c.project(r.Inputs), "region": c.place(r.Inputs, "region"), "minPortsPerVm": 64.0, "enableDynamicPortAllocation": false}
			},
		},
		typeFirewall: {
			api: apiCompute, id: global("firewalls"), autoname: true, name: rfc1035, named: "name",
			defaults: values{"priority": 1000.0},
			oneOf:    map[string][]string{"direction": {"INGRESS", "EGRESS"}},
			excludes: [][2]string{{"allows", "denies"}, {"sourceRanges", "sourceServiceAccounts"}, {"sourceTags", "sourceServiceAccounts"}, {"targetTags", "targetServiceAccounts"}},
			replace:  []string{"name", "project", "network", "direction"},
			accept:   acceptFirewall,
			computed: func(c *Cloud, r *record) values {
				return merge(c.made(r, "compute/v1"), values{"direction": "INGRESS", "creationTimestamp": epoch, "enableLogging": has(r.Inputs, "logConfig")})
			},
		},
		typeCluster: {
			api: apiContainer,
			id: func(c *Cloud, v values) string {
				return fmt.Sprintf("projects/%s/locations/%s/clusters/%s", c.project(v), c.place(v, "location"), text(v, "name"))
			},
			autoname: true, name: clusterName, named: "name",
			defaults: values{"deletionProtection": true},
			oneOf: map[string][]string{
				"datapathProvider":                        {"DATAPATH_PROVIDER_UNSPECIFIED", "LEGACY_DATAPATH", "ADVANCED_DATAPATH"},
				"networkingMode":                          {"VPC_NATIVE", "ROUTES"},
				"releaseChannel.channel":                  {"UNSPECIFIED", "RAPID", "REGULAR", "STABLE", "EXTENDED"},
				"binaryAuthorization.evaluationMode":      {"DISABLED", "PROJECT_SINGLETON_POLICY_ENFORCE"},
				"anonymousAuthenticationConfig.mode":      {"ENABLED", "LIMITED"},
				"databaseEncryption.state":                {"ENCRYPTED", "DECRYPTED"},
				"securityPostureConfig.mode":              {"DISABLED", "BASIC", "ENTERPRISE", "MODE_UNSPECIFIED"},
				"securityPostureConfig.vulnerabilityMode": {"VULNERABILITY_DISABLED", "VULNERABILITY_BASIC", "VULNERABILITY_ENTERPRISE", "VULNERABILITY_MODE_UNSPECIFIED"},
				"dnsConfig.clusterDns":                    {"PROVIDER_UNSPECIFIED", "PLATFORM_DEFAULT", "CLOUD_DNS", "KUBE_DNS"},
				"nodePoolAutoConfig.nodeKubeletConfig.insecureKubeletReadonlyPortEnabled": {"TRUE", "FALSE"},
			},
			excludes: autopilotExcludes,
			replace: []string{
				"name", "project", "location", "network", "subnetwork", "description", "datapathProvider", "enableAutopilot", "initialNodeCount",
				"clusterIpv4Cidr", "networkingMode", "defaultMaxPodsPerNode", "enableKubernetesAlpha", "enableTpu", "enableMultiNetworking", "masterAuth", "confidentialNodes",
				"ipAllocationPolicy.clusterSecondaryRangeName", "ipAllocationPolicy.servicesSecondaryRangeName", "ipAllocationPolicy.clusterIpv4CidrBlock", "ipAllocationPolicy.servicesIpv4CidrBlock", "ipAllocationPolicy.stackType",
				"privateClusterConfig.masterIpv4CidrBlock", "nodeConfig.serviceAccount", "nodeConfig.sandboxConfig", "nodePools",
			},
			check: checkCluster, accept: acceptCluster, keep: keepCluster,
			done: func(c *Cloud, v values) {
				if pool := text(v, "workloadIdentityConfig.workloadPool"); pool != "" {
					c.state.Pools[pool] = true
				} else if flag(v, "enableAutopilot") {
					c.state.Pools[c.project(v)+".svc.id.goog"] = true
				}
			},
			gone: func(c *Cloud, r *record) {
				for _, p := range c.all(typePool) {
					if c.cluster(p.Inputs) == r.ID {
						delete(c.state.Resources, key(p.Type, p.ID))
					}
				}
			},
			computed: computeCluster,
		},
		typePool: {
			api:      apiContainer,
			id:       func(c *Cloud, v values) string { return c.cluster(v) + "/nodePools/" + text(v, "name") },
			autoname: true, name: clusterName, named: "name",
			oneOf: map[string][]string{
				"nodeConfig.sandboxConfig.sandboxType":                        {"gvisor"},
				"nodeConfig.workloadMetadataConfig.mode":                      {"MODE_UNSPECIFIED", "GCE_METADATA", "GKE_METADATA"},
				"nodeConfig.kubeletConfig.insecureKubeletReadonlyPortEnabled": {"TRUE", "FALSE"},
				"autoscaling.locationPolicy":                                  {"BALANCED", "ANY"},
			},
			excludes: [][2]string{{"name", "namePrefix"}},
			replace: []string{
				"name", "project", "location", "cluster", "initialNodeCount", "maxPodsPerNode", "placementPolicy", "namePrefix",
				"nodeConfig.serviceAccount", "nodeConfig.oauthScopes", "nodeConfig.sandboxConfig", "nodeConfig.shieldedInstanceConfig", "nodeConfig.metadata", "nodeConfig.spot",
				"nodeConfig.preemptible", "nodeConfig.localSsdCount", "nodeConfig.minCpuPlatform", "nodeConfig.guestAccelerators", "nodeConfig.bootDiskKmsKey", "nodeConfig.advancedMachineFeatures",
				"networkConfig.podRange", "networkConfig.podIpv4CidrBlock", "networkConfig.createPodRange",
			},
			accept: acceptPool, computed: computePool,
		},
		typeZone: {
			api: apiDNS,
			id: func(c *Cloud, v values) string {
				return fmt.Sprintf("projects/%s/managedZones/%s", c.project(v), text(v, "name"))
			},
			autoname: true, name: rfc1035, named: "name",
			defaults: values{"description": terraformDescription, "visibility": "public", "forceDestroy": false},
			oneOf:    map[string][]string{"visibility": {"private", "public"}},
			replace:  []string{"name", "project", "dnsName", "visibility"},
			check: func(v values) []failure {
				if n := text(v, "dnsName"); n != "" && !strings.HasSuffix(n, ".") {
					return []failure{{"dnsName", "it must end with a dot"}}
				}
				return nil
			},
			accept: acceptZone,
			keep: func(c *Cloud, r *record) error {
				for _, user := range c.all(typeRecord) {
					if c.zone(user.Inputs) == r.ID && !flag(r.Inputs, "forceDestroy") {
						return &apiError{400, "containerNotEmpty", fmt.Sprintf("The zone '%s' is not empty", last(r.ID))}
					}
				}
				return nil
			},
			computed: func(c *Cloud, r *record) values {
				return values{
					"project": c.project(r.Inputs), "managedZoneId": digits(r, 18), "creationTime": epoch,
					"nameServers": []any{"ns-gcp-private.googledomains.com."}, "effectiveLabels": c.labels(r.Inputs, "labels"), "pulumiLabels": c.labels(r.Inputs, "labels"),
				}
			},
		},
		typeRecord: {
			api: apiDNS,
			id: func(c *Cloud, v values) string {
				return c.zone(v) + "/rrsets/" + text(v, "name") + "/" + text(v, "type")
			},
			replace:  []string{"name", "project", "managedZone"},
			excludes: [][2]string{{"rrdatas", "routingPolicy"}},
			check: func(v values) []failure {
				if n := text(v, "name"); n != "" && !strings.HasSuffix(n, ".") {
					return []failure{{"name", "it must end with a dot"}}
				}
				return nil
			},
			accept:   acceptRecord,
			computed: func(c *Cloud, r *record) values { return values{"project": c.project(r.Inputs)} },
		},
		typeAccount: {
			api:  apiIAM,
			id:   func(c *Cloud, v values) string { return "projects/" + c.project(v) + "/serviceAccounts/" + c.email(v) },
			name: accountName, named: "accountId", autoname: true,
			replace: []string{"accountId", "project"},
			computed: func(c *Cloud, r *record) values {
				email := c.email(r.Inputs)
				return values{"project": c.project(r.Inputs), "email": email, "member": "serviceAccount:" + email, "name": r.ID, "uniqueId": digits(r, 21)}
			},
		},
		typeAccountIAM: iam(apiIAM, func(_ *Cloud, v values) string {
			return strings.Join([]string{text(v, "serviceAccountId"), text(v, "role"), text(v, "member")}, "/")
		}, "serviceAccountId"),
		typeProjectIAM: iam(apiProjects, func(_ *Cloud, v values) string {
			return strings.Join([]string{text(v, "project"), text(v, "role"), text(v, "member")}, "/")
		}, "project"),
		typeRepoIAM: iam(apiRegistry, func(c *Cloud, v values) string {
			return strings.Join([]string{c.repository(v), text(v, "role"), text(v, "member")}, "/")
		}, "project", "location", "repository"),
		typeRepository: {
			api: apiRegistry,
			id: func(c *Cloud, v values) string {
				return fmt.Sprintf("projects/%s/locations/%s/repositories/%s", c.project(v), c.place(v, "location"), text(v, "repositoryId"))
			},
			name: rfc1035, named: "repositoryId",
			defaults: values{"mode": "STANDARD_REPOSITORY"},
			oneOf:    map[string][]string{"mode": {"STANDARD_REPOSITORY", "VIRTUAL_REPOSITORY", "REMOTE_REPOSITORY"}},
			replace:  []string{"repositoryId", "project", "location", "format", "mode", "kmsKeyName", "mavenConfig"},
			computed: func(c *Cloud, r *record) values {
				return values{
					"project": c.project(r.Inputs), "location": c.place(r.Inputs, "location"), "name": text(r.Inputs, "repositoryId"),
					"createTime": epoch, "updateTime": epoch, "effectiveLabels": c.labels(r.Inputs, "labels"), "pulumiLabels": c.labels(r.Inputs, "labels"),
				}
			},
		},
		typeBinauthz: {
			api: apiBinauthz,
			id:  func(c *Cloud, v values) string { return "projects/" + c.project(v) },
			// A project always has one, which allows everything.
			shared: true,
			oneOf: map[string][]string{
				"globalPolicyEvaluationMode":           {"ENABLE", "DISABLE"},
				"defaultAdmissionRule.evaluationMode":  {"ALWAYS_ALLOW", "REQUIRE_ATTESTATION", "ALWAYS_DENY"},
				"defaultAdmissionRule.enforcementMode": {"ENFORCED_BLOCK_AND_AUDIT_LOG", "DRYRUN_AUDIT_LOG_ONLY"},
			},
			replace: []string{"project"},
			accept: func(_ *Cloud, _ string, v values) error {
				if text(v, "defaultAdmissionRule.evaluationMode") == "REQUIRE_ATTESTATION" && len(list(v, "defaultAdmissionRule.requireAttestationsBies")) == 0 {
					return refuse("An admission rule that requires attestations must name an attestor")
				}
				return nil
			},
			computed: func(c *Cloud, r *record) values { return values{"project": c.project(r.Inputs)} },
		},
		typeLevel: {
			id:   func(_ *Cloud, v values) string { return text(v, "name") },
			name: policyName, named: "name",
			replace: []string{"name", "parent"},
			accept:  acceptLevel,
			keep: func(c *Cloud, r *record) error {
				for _, p := range c.all(typePerimeter) {
					if slices.Contains(slices.Concat(texts(p.Inputs, "status.accessLevels"), texts(p.Inputs, "spec.accessLevels")), r.ID) {
						return inUse(r, p)
					}
				}
				return nil
			},
		},
		typePerimeter: {
			id:   func(_ *Cloud, v values) string { return text(v, "name") },
			name: policyName, named: "name",
			defaults: values{"perimeterType": "PERIMETER_TYPE_REGULAR"},
			oneOf:    map[string][]string{"perimeterType": {"PERIMETER_TYPE_REGULAR", "PERIMETER_TYPE_BRIDGE"}},
			replace:  []string{"name", "parent", "perimeterType"},
			accept:   acceptPerimeter,
			computed: func(*Cloud, *record) values { return values{"createTime": epoch, "updateTime": epoch} },
		},
	}
}

// autopilotExcludes are settings that the provider does not take beside
// enableAutopilot, be it true or false.
var autopilotExcludes = [][2]string{
	{"enableAutopilot", "removeDefaultNodePool"}, {"enableAutopilot", "networkPolicy"}, {"enableAutopilot", "enableShieldedNodes"},
	{"enableAutopilot", "enableIntranodeVisibility"}, {"enableAutopilot", "defaultMaxPodsPerNode"},
	{"enableAutopilot", "addonsConfig.networkPolicyConfig"}, {"enableAutopilot", "addonsConfig.dnsCacheConfig"}, {"enableAutopilot", "clusterAutoscaling.enabled"},
}

// vet returns what the provider itself refuses.
func (k *kind) vet(v values) (out []failure) {
	if n := text(v, k.named); k.name != nil && n != "" && !k.name.MatchString(n) {
		out = append(out, failure{k.named, fmt.Sprintf("%.80q is not of the form %s", n, k.name)})
	}
	for path, words := range k.oneOf {
		if s := text(v, path); s != "" && !slices.Contains(words, s) {
			out = append(out, failure{path, fmt.Sprintf("%.80q is none of %s", s, strings.Join(words, ", "))})
		}
	}
	for _, pair := range k.excludes {
		if has(v, pair[0]) && has(v, pair[1]) {
			out = append(out, failure{pair[1], fmt.Sprintf("it conflicts with %s", pair[0])})
		}
	}
	if k.check != nil {
		out = append(out, k.check(v)...)
	}
	slices.SortFunc(out, func(a, b failure) int { return strings.Compare(a.path, b.path) })
	return out
}

// replaces returns the properties for whose change a new resource is needed.
func (k *kind) replaces(before, after values) (out []string) {
	for _, path := range k.replace {
		changed := map[string]rune{}
		differences(raw(before, path), raw(after, path), path, changed)
		if len(changed) > 0 && (k.inPlace == nil || !k.inPlace(path, before, after)) {
			out = append(out, path)
		}
	}
	return out
}

// raw is find for values that are not known, too.
func raw(v values, path string) any {
	var at any = v
	for key := range strings.SplitSeq(path, ".") {
		m, ok := at.(map[string]any)
		if !ok {
			return nil
		}
		at = m[key]
	}
	return at
}
