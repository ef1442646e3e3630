// SPDX-License-Identifier: Apache-2.0

package gke

// What each component must say, and why. Values are written out once more here,
// because a test that shares a constant with the code agrees with its mistakes.

var servicesWants = []want{
	{tService, "x-container", obj{"service": "container.googleapis.com"}, "what is not on cannot be guarded"},
	{tService, "x-container", obj{"disableOnDestroy": false}, "others in the project may need it"},
}

var networkWants = []want{
	{tNetwork, "x", obj{"autoCreateSubnetworks": false}, "a subnet in every region is a network that nobody looks at"},
	{tSubnet, "x", obj{"privateIpGoogleAccess": true}, "private nodes reach Google by its restricted addresses"},
	{tSubnet, "x", obj{"ipCidrRange": "10.10.0.0/20", "secondaryIpRanges": []any{
		obj{"rangeName": "pods", "ipCidrRange": "10.20.0.0/16"}, obj{"rangeName": "services", "ipCidrRange": "10.30.0.0/20"},
	}}, "addresses that the policies know as private"},
	{tSubnet, "x", obj{"stackType": "IPV4_ONLY"}, "no rule here is for IPv6"},
	{tSubnet, "x", obj{"logConfig": obj{"aggregationInterval": "INTERVAL_5_SEC", "flowSampling": 0.5, "metadata": "INCLUDE_ALL_METADATA"}}, "flows are a witness"},
	{tSubnet, "x", obj{"network": "id-of-x"}, "it is in our VPC"},
	{tRouter, "x", obj{"network": "id-of-x"}, "it is in our VPC"},
	{tNat, "x", obj{"sourceSubnetworkIpRangesToNat": "LIST_OF_SUBNETWORKS", "subnetworks": []any{obj{
		"name": "id-of-x", "sourceIpRangesToNats": texts("PRIMARY_IP_RANGE", "LIST_OF_SECONDARY_IP_RANGES"), "secondaryIpRangeNames": texts("pods"),
	}}}, "other subnets get no way out"},
	{tNat, "x", obj{"logConfig": obj{"enable": true, "filter": "ERRORS_ONLY"}}, "a full NAT looks like a policy that drops"},
}

func dnsWants() (out []want) {
	vip := texts("199.36.153.4", "199.36.153.5", "199.36.153.6", "199.36.153.7")
	for zone, names := range map[string][]string{
		"x-googleapis-com": {"googleapis.com.", "restricted.googleapis.com."},
		"x-gcr-io":         {"gcr.io.", "gcr.io."},
		"x-pkg-dev":        {"pkg.dev.", "pkg.dev."},
		"x-gke-goog":       {"gke.goog.", "gke.goog."},
	} {
		out = append(out,
			want{tZone, zone, obj{"dnsName": names[0], "visibility": "private", "privateVisibilityConfig": obj{"networks": []any{obj{"networkUrl": network}}}},
				"only our network sees this answer"},
			want{tRecord, zone + "-a", obj{"managedZone": zone + "-0a1b2c3", "name": names[1], "type": "A", "rrdatas": vip}, "it leads to what a perimeter guards"},
			want{tRecord, zone + "-any", obj{"managedZone": zone + "-0a1b2c3", "name": "*." + names[0], "type": "CNAME", "rrdatas": texts(names[1])}, "no name below gets past it"},
		)
	}
	return out
}

// firewallWants are those of both kinds of egress.
var firewallWants = []want{
	firewall("own", 1000, []any{"10.10.0.0/20", "10.20.0.0/16"}, "allows", obj{"protocol": "all"}),
	firewall("google", 1000, []any{"199.36.153.4/30"}, "allows", obj{"protocol": "tcp", "ports": texts("443")}),
	firewall("private", 1500, []any{"10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10"}, "denies", obj{"protocol": "all"}),
	firewall("rest", 65534, []any{"0.0.0.0/0"}, "denies", obj{"protocol": "all"}),
	{tFirewall, "x-egress-public", obj{"network": network, "direction": "EGRESS", "disabled": false, "priority": 2000.0, "destinationRanges": texts("0.0.0.0/0")},
		"private addresses are denied before public ones are allowed"},
	{tFirewall, "x-egress-private", obj{"logConfig": obj{"metadata": "INCLUDE_ALL_METADATA"}}, "what was denied is evidence"},
	{tFirewall, "x-egress-rest", obj{"logConfig": obj{"metadata": "INCLUDE_ALL_METADATA"}}, "what was denied is evidence"},
}

func firewall(name string, priority float64, to []any, verb string, what obj) want {
	return want{tFirewall, "x-egress-" + name, obj{
		"network": network, "direction": "EGRESS", "disabled": false, "priority": priority, "destinationRanges": to, verb: []any{what},
	}, "the VPC's own word on egress"}
}

// clusterWants are those of both kinds of cluster.
var clusterWants = []want{
	{tCluster, "x", obj{"network": network, "subnetwork": subnet}, "not the default network"},
	{tCluster, "x", obj{"ipAllocationPolicy": obj{"clusterSecondaryRangeName": "pods", "servicesSecondaryRangeName": "services"}}, "GKE's own choice is no private range"},
	{tCluster, "x", obj{"enableFqdnNetworkPolicy": true}, "the allow-list goes by host name"},
	{tCluster, "x", obj{"privateClusterConfig.enablePrivateNodes": true}, "nodes have no public address"},
	{tCluster, "x", obj{"privateClusterConfig.enablePrivateEndpoint": true}, "what GKE reports without IP endpoints, so that no later plan differs"},
	{tCluster, "x", obj{"controlPlaneEndpointsConfig.ipEndpointsConfig": obj{"enabled": false}}, "the control plane answers at its host name alone"},
	{tCluster, "x", obj{"controlPlaneEndpointsConfig.dnsEndpointConfig": obj{"allowExternalTraffic": false}}, "and there for the VPC alone, unless it is asked for"},
	{tCluster, "x", obj{"anonymousAuthenticationConfig": obj{"mode": "LIMITED"}}, "nobody is let in without a name"},
	{tCluster, "x", obj{"rbacBindingConfig": obj{"enableInsecureBindingSystemAuthenticated": false, "enableInsecureBindingSystemUnauthenticated": false}}, "no role for everybody"},
	{tCluster, "x", obj{"workloadIdentityConfig": obj{"workloadPool": "example-project.svc.id.goog"}}, "a Pod is not its node"},
	{tCluster, "x", obj{"binaryAuthorization": obj{"evaluationMode": "PROJECT_SINGLETON_POLICY_ENFORCE"}}, "only known images run"},
	{tCluster, "x", obj{"serviceExternalIpsConfig": obj{"enabled": false}}, "CVE-2020-8554"},
	{tCluster, "x", obj{"securityPostureConfig": obj{"mode": "BASIC"}}, "Google looks at what is deployed"},
	{tCluster, "x", obj{"releaseChannel": obj{"channel": "REGULAR"}}, "gVisor and the kernel are patched"},
	{tCluster, "x", obj{"maintenancePolicy": obj{"recurringWindow": obj{
		"startTime": "2026-01-03T02:00:00Z", "endTime": "2026-01-03T08:00:00Z", "recurrence": "FREQ=WEEKLY;BYDAY=SA,SU",
	}}}, "patches have their time"},
	{tCluster, "x", obj{"deletionProtection": true}, "one command does not delete it"},
	{tCluster, "x", obj{"networkPolicy": absent{}, "addonsConfig.networkPolicyConfig": absent{}}, "GKE refuses Calico beside Dataplane V2"},
	{tCluster, "x", obj{"minMasterVersion": absent{}, "nodeVersion": absent{}}, "the channel chooses the version"},
	{tCluster, "x", obj{"enableLegacyAbac": absent{}, "masterAuth": absent{}, "enableKubernetesAlpha": absent{}}, "their defaults are off"},
}

var standardWants = []want{
	{tCluster, "x", obj{"datapathProvider": "ADVANCED_DATAPATH"}, "a NetworkPolicy does something"},
	{tCluster, "x", obj{"enableShieldedNodes": true}, "nodes prove who they are"},
	{tCluster, "x", obj{"enableIntranodeVisibility": true}, "traffic within a node is seen"},
	{tCluster, "x", obj{"loggingConfig": obj{"enableComponents": texts("SYSTEM_COMPONENTS", "WORKLOADS", "APISERVER")}}, "a witness"},
	{tCluster, "x", obj{"monitoringConfig": obj{
		"enableComponents": texts("SYSTEM_COMPONENTS"), "advancedDatapathObservabilityConfig": obj{"enableMetrics": true, "enableRelay": true},
	}}, "a witness"},
	{tCluster, "x", obj{"nodePoolDefaults": obj{"nodeConfigDefaults": obj{"insecureKubeletReadonlyPortEnabled": "FALSE"}}}, "nor on a pool that somebody adds"},
	{tCluster, "x", obj{"removeDefaultNodePool": true}, "its node would not be like ours"},
	{tCluster, "x", obj{"nodeConfig": obj{
		"diskType": "pd-standard", "diskSizeGb": 50.0, // the quota of a new project
		"serviceAccount": node, "oauthScopes": texts("https://www.googleapis.com/auth/cloud-platform"),
		"workloadMetadataConfig": obj{"mode": "GKE_METADATA"},
		"shieldedInstanceConfig": obj{"enableSecureBoot": true, "enableIntegrityMonitoring": true},
	}}, "the first nodes live for minutes, and are no weaker"},
	{tCluster, "x", obj{"databaseEncryption": obj{"state": "ENCRYPTED", "keyName": "projects/p/locations/l/keyRings/r/cryptoKeys/k"}}, "a key of ours for Secrets"},
	{tCluster, "x", obj{"enableAutopilot": absent{}}, "the provider refuses even false beside some settings"},
}

var autopilotWants = []want{
	{tCluster, "x", obj{"enableAutopilot": true}, "GKE makes the nodes"},
	{tCluster, "x", obj{"clusterAutoscaling": obj{"autoProvisioningDefaults": obj{
		"serviceAccount": node, "oauthScopes": texts("https://www.googleapis.com/auth/cloud-platform"),
	}}}, "not as the project's default account"},
	{tCluster, "x", obj{"nodePoolAutoConfig": obj{"nodeKubeletConfig": obj{"insecureKubeletReadonlyPortEnabled": "FALSE"}}}, "the kubelet asks who it is"},
	{tCluster, "x", obj{"datapathProvider": absent{}, "enableShieldedNodes": absent{}, "nodeConfig": absent{}, "removeDefaultNodePool": absent{}}, "Autopilot has them and takes no word for it"},
	{tCluster, "x", obj{"databaseEncryption": absent{}}, "no key was named"},
}

func poolWants(name, role string) []want {
	return []want{
		{tPool, name, obj{"nodeConfig.imageType": "COS_CONTAINERD"}, "gVisor runs on no other"},
		{tPool, name, obj{"nodeConfig.serviceAccount": node, "nodeConfig.oauthScopes": texts("https://www.googleapis.com/auth/cloud-platform")}, "not the project's default account"},
		{tPool, name, obj{"nodeConfig.workloadMetadataConfig": obj{"mode": "GKE_METADATA"}}, "a Pod is not its node"},
		{tPool, name, obj{"nodeConfig.metadata": obj{"disable-legacy-endpoints": "true"}}, "the old metadata server asks for no header"},
		{tPool, name, obj{"nodeConfig.shieldedInstanceConfig": obj{"enableSecureBoot": true, "enableIntegrityMonitoring": true}}, "an escape does not outlive a boot"},
		{tPool, name, obj{"nodeConfig.kubeletConfig.cpuCfsQuota": true}, "CPU limits hold"},
		{tPool, name, obj{"nodeConfig.kubeletConfig.insecureKubeletReadonlyPortEnabled": "FALSE"}, "the kubelet asks who it is"},
		{tPool, name, obj{"nodeConfig.taints": absent{}, "nodeConfig.labels": obj{"stockade.dev/pool": role}}, "GKE sets its own label and taint and refuses them from us"},
		{tPool, name, obj{"networkConfig": obj{"enablePrivateNodes": true}}, "nodes have no public address"},
		{tPool, name, obj{"management": obj{"autoRepair": true, "autoUpgrade": true}}, "nodes are patched"},
		{tPool, name, obj{"version": absent{}, "nodeCount": absent{}}, "the channel and the autoscaler choose"},
	}
}

var sandboxPoolWants = []want{
	{tPool, "x-sandbox", obj{"nodeConfig.sandboxConfig": obj{"sandboxType": "gvisor"}}, "what this is for"},
	{tPool, "x-system", obj{"nodeConfig.sandboxConfig": absent{}}, "GKE's own Pods do not run under gVisor"},
	{tPool, "x-sandbox", obj{"nodeConfig.kubeletConfig.podPidsLimit": 1024.0}, "the host's side of a process bomb"},
	{tPool, "x-sandbox", obj{"autoscaling.totalMaxNodeCount": 5.0}, "what a flood of claims costs is bounded"},
	{tPool, "x-sandbox", obj{"autoscaling.totalMinNodeCount": 0.0, "initialNodeCount": 0.0}, "none runs for nobody"},
	{tPool, "x-system", obj{"autoscaling.totalMaxNodeCount": 3.0, "autoscaling.totalMinNodeCount": 1.0}, "the controller has a place"},
	{tPool, "x-system", obj{"initialNodeCount": 1.0}, "a cluster without any node never gets one"},
	{tPool, "x-system", obj{"autoscaling.minNodeCount": absent{}, "autoscaling.maxNodeCount": absent{}}, "limits for each zone would be three times as many"},
}

var nodeIdentityWants = []want{
	{tAccount, "x", obj{"project": project, "accountId": "x-node"}, "an account of its own"},
	{tProjectIAM, "x", obj{"project": project, "role": "roles/container.defaultNodeServiceAccount", "member": "serviceAccount:" + node}, "the least that a node needs"},
}

var sandboxIdentityWants = []want{
	{tAccount, "x", obj{"project": project, "accountId": "x-sandbox"}, "an account of its own"},
	{tAccountIAM, "x", obj{
		"serviceAccountId": "x-0a1b2c3", "role": "roles/iam.workloadIdentityUser", "member": "serviceAccount:example-project.svc.id.goog[ns/issuer]",
	}, "one service account acts as it, and no sandbox's"},
	{tProjectIAM, "x-monitoring-viewer", obj{"project": project, "role": "roles/monitoring.viewer", "member": "serviceAccount:" + sandbox}, "what was asked for"},
}

var registryWants = []want{
	{tRepository, "x", obj{"project": project, "location": "us-central1", "repositoryId": "x", "format": "DOCKER"}, "it is where the image policy looks"},
	{tRepository, "x", obj{"dockerConfig": obj{"immutableTags": true}}, "no tag moves after review"},
	{tReader, "x", obj{
		"project": project, "location": "us-central1", "repository": "x-0a1b2c3", "role": "roles/artifactregistry.reader", "member": "serviceAccount:" + node,
	}, "nodes read this repository and nothing else"},
}

var imageWants = []want{
	{tImages, "x", obj{"project": project, "defaultAdmissionRule": obj{"evaluationMode": "ALWAYS_DENY", "enforcementMode": "ENFORCED_BLOCK_AND_AUDIT_LOG"}}, "what is not listed does not run"},
	{tImages, "x", obj{"admissionWhitelistPatterns": []any{obj{"namePattern": "us-central1-docker.pkg.dev/example-project/x/**"}}}, "our registry alone"},
	{tImages, "x", obj{"globalPolicyEvaluationMode": "ENABLE"}, "GKE's own Pods still run"},
}

func perimeterWants(part string) []want {
	return []want{
		{tPerimeter, "x", obj{"parent": "accessPolicies/123", "perimeterType": "PERIMETER_TYPE_REGULAR", "name": "accessPolicies/123/servicePerimeters/x_y", "title": "x-y"}, "a perimeter of its own"},
		{tPerimeter, "x", obj{part + ".resources": texts("projects/456")}, "our project is inside"},
		{tPerimeter, "x", obj{part + ".restrictedServices": texts(
			"aiplatform.googleapis.com", "artifactregistry.googleapis.com", "autoscaling.googleapis.com", "bigquery.googleapis.com", "bigquerydatatransfer.googleapis.com",
			"bigtable.googleapis.com", "cloudbuild.googleapis.com", "cloudfunctions.googleapis.com",
			"container.googleapis.com", "firestore.googleapis.com", "iamcredentials.googleapis.com", "kubernetesmetadata.googleapis.com", "logging.googleapis.com",
			"monitoring.googleapis.com", "pubsub.googleapis.com", "run.googleapis.com", "secretmanager.googleapis.com",
			"spanner.googleapis.com", "storage.googleapis.com", "storagetransfer.googleapis.com", "sts.googleapis.com",
		)}, "what is used, what carries data out for everybody, and what GKE stands on"},
		{tPerimeter, "x", obj{part + ".vpcAccessibleServices": obj{"enableRestriction": true, "allowedServices": texts("RESTRICTED-SERVICES")}}, "the network reaches nothing that is not guarded"},
		{tPerimeter, "x", obj{part + ".accessLevels": texts("accessPolicies/123/accessLevels/x_y_operators")}, "the operators are not shut out"},
		{tPerimeter, "x", obj{part + ".ingressPolicies": absent{}, part + ".egressPolicies": absent{}}, "there is no other door"},
		{tLevel, "x-operators", obj{"parent": "accessPolicies/123", "name": "accessPolicies/123/accessLevels/x_y_operators", "basic": obj{
			"combiningFunction": "AND", "conditions": []any{obj{"members": texts("user:operator@example.com"), "ipSubnetworks": texts("203.0.113.0/24")}},
		}}, "who and from where, both"},
	}
}
