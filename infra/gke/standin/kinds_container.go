// SPDX-License-Identifier: Apache-2.0

package standin

import (
	"fmt"
	"regexp"
)

var clusterName = regexp.MustCompile(`^[a-z]([-a-z0-9]{0,38}[a-z0-9])?$`)

var clusterKind = &kind{
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
	dictated: map[string]func(v values) any{
		// The opposite of a public IP endpoint, and without any there is none.
		"privateClusterConfig.enablePrivateEndpoint": func(v values) any {
			if on, ok := find(v, "controlPlaneEndpointsConfig.ipEndpointsConfig.enabled").(bool); ok && !on {
				return true
			}
			return nil
		},
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
}

// autopilotExcludes are settings that the provider does not take beside
// enableAutopilot, be it true or false.
var autopilotExcludes = [][2]string{
	{"enableAutopilot", "removeDefaultNodePool"}, {"enableAutopilot", "networkPolicy"}, {"enableAutopilot", "enableShieldedNodes"},
	{"enableAutopilot", "enableIntranodeVisibility"}, {"enableAutopilot", "defaultMaxPodsPerNode"},
	{"enableAutopilot", "addonsConfig.networkPolicyConfig"}, {"enableAutopilot", "addonsConfig.dnsCacheConfig"}, {"enableAutopilot", "clusterAutoscaling.enabled"},
}

var poolKind = &kind{
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
}
