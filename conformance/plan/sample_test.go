// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"maps"
	"slices"
	"time"
)

var at = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// full is the profile under which every rule has something to say.
var full = Profile{Name: "full", AllowList: true, Perimeter: true, Workloads: true}

// typeAccountIAM is one of the types that rules know by their last part alone.
const typeAccountIAM = "gcp:serviceaccount/iAMMember:IAMMember"

type obj = map[string]any

func vip() []any { return []any{"199.36.153.4", "199.36.153.5", "199.36.153.6", "199.36.153.7"} }

// standard is a graph by which every rule holds, written by hand: package
// stacks tests the same rules on what its programs really declare.
func standard() Graph {
	g := Graph{}
	add := func(typ, name string, inputs obj) {
		g.Resources = append(g.Resources, Resource{Type: typ, Name: name, Inputs: inputs})
	}
	node := func(more obj) obj {
		n := obj{
			"imageType": "COS_CONTAINERD", "serviceAccount": "n@p.iam.gserviceaccount.com",
			"labels":                 obj{"mine": "yes"},
			"workloadMetadataConfig": obj{"mode": "GKE_METADATA"},
			"shieldedInstanceConfig": obj{"enableSecureBoot": true, "enableIntegrityMonitoring": true},
			"kubeletConfig":          obj{"insecureKubeletReadonlyPortEnabled": "FALSE", "cpuCfsQuota": true, "podPidsLimit": 1024.0},
		}
		maps.Copy(n, more)
		return n
	}
	add("pulumi:pulumi:Stack", "stack", obj{})
	add(typeNetwork, "network", obj{})
	add(typeCluster, "cluster", obj{
		"network":          Unknown{},
		"subnetwork":       Unknown{},
		"datapathProvider": "ADVANCED_DATAPATH", "enableFqdnNetworkPolicy": true, "enableShieldedNodes": true, "deletionProtection": true,
		"privateClusterConfig":          obj{"enablePrivateNodes": true},
		"controlPlaneEndpointsConfig":   obj{"ipEndpointsConfig": obj{"enabled": false}},
		"anonymousAuthenticationConfig": obj{"mode": "LIMITED"},
		"rbacBindingConfig":             obj{"enableInsecureBindingSystemAuthenticated": false, "enableInsecureBindingSystemUnauthenticated": false},
		"workloadIdentityConfig":        obj{"workloadPool": "p.svc.id.goog"},
		"binaryAuthorization":           obj{"evaluationMode": "PROJECT_SINGLETON_POLICY_ENFORCE"},
		"releaseChannel":                obj{"channel": "REGULAR"},
		"ipAllocationPolicy":            obj{"clusterSecondaryRangeName": "pods", "servicesSecondaryRangeName": "services"},
		"removeDefaultNodePool":         true,
		"nodeConfig":                    obj{"serviceAccount": "n@p.iam.gserviceaccount.com", "workloadMetadataConfig": obj{"mode": "GKE_METADATA"}},
	})
	add(typePool, "system", obj{"nodeConfig": node(nil), "networkConfig": obj{"enablePrivateNodes": true}})
	add(typePool, "sandbox", obj{"nodeConfig": node(obj{"sandboxConfig": obj{"sandboxType": "gvisor"}}), "networkConfig": obj{"enablePrivateNodes": true}})
	add(typeSubnet, "subnet", obj{
		"ipCidrRange": "10.10.0.0/20", "privateIpGoogleAccess": true,
		"secondaryIpRanges": []any{obj{"rangeName": "pods", "ipCidrRange": "10.20.0.0/16"}, obj{"rangeName": "services", "ipCidrRange": "10.30.0.0/20"}},
	})
	all := []any{obj{"protocol": "all"}}
	add(typeFirewall, "rest", obj{"network": Unknown{}, "direction": "EGRESS", "destinationRanges": []any{"0.0.0.0/0"}, "denies": all, "disabled": false})
	add(typeFirewall, "public", obj{"network": Unknown{}, "direction": "EGRESS", "destinationRanges": []any{"0.0.0.0/0"}, "allows": []any{obj{"protocol": "tcp", "ports": []any{"443"}}}})
	add(typeFirewall, "own", obj{"network": Unknown{}, "direction": "EGRESS", "destinationRanges": []any{"10.10.0.0/20"}, "allows": all})
	add(typeFirewall, "in", obj{"network": Unknown{}, "direction": "INGRESS", "sourceRanges": []any{"10.10.0.0/20"}, "allows": all})
	for domain, carrier := range map[string]string{"googleapis.com": "restricted.googleapis.com", "gcr.io": "gcr.io", "pkg.dev": "pkg.dev", "gke.goog": "gke.goog"} {
		add(typeZone, domain, obj{"dnsName": domain + ".", "visibility": "private", "privateVisibilityConfig": obj{"networks": []any{obj{"networkUrl": Unknown{}}}}})
		add(typeRecord, domain+"-a", obj{"name": carrier + ".", "type": "A", "rrdatas": vip()})
		add(typeRecord, domain+"-any", obj{"name": "*." + domain + ".", "type": "CNAME", "rrdatas": []any{carrier + "."}})
	}
	add(typeService, "container", obj{"service": "container.googleapis.com"})
	add(typeProjectIAM, "node", obj{"role": "roles/container.defaultNodeServiceAccount", "member": "serviceAccount:n@p.iam.gserviceaccount.com"})
	add(typeAccount, "node", obj{"accountId": "n", "project": "p"})
	add(typeAccountIAM, "sandbox", obj{"role": "roles/iam.workloadIdentityUser", "member": "serviceAccount:p.svc.id.goog[ns/issuer]"})
	add(typeRepository, "images", obj{"location": "r", "project": "p", "repositoryId": "images", "format": "DOCKER", "dockerConfig": obj{"immutableTags": true}})
	add(typeBinauthz, "images", obj{
		"defaultAdmissionRule":       obj{"evaluationMode": "ALWAYS_DENY", "enforcementMode": "ENFORCED_BLOCK_AND_AUDIT_LOG"},
		"admissionWhitelistPatterns": []any{obj{"namePattern": "r-docker.pkg.dev/p/images/**"}},
	})
	restricted := []any{"container.googleapis.com"}
	for _, s := range slices.Concat(exits, identities, underGKE) {
		restricted = append(restricted, s)
	}
	add(typePerimeter, "perimeter", obj{"useExplicitDryRunSpec": false, "status": obj{
		"resources": []any{"projects/1"}, "restrictedServices": restricted, "accessLevels": []any{"accessPolicies/1/accessLevels/operators"},
		"vpcAccessibleServices": obj{"enableRestriction": true, "allowedServices": []any{"RESTRICTED-SERVICES"}},
	}})
	add(typeLevel, "operators", obj{"name": "accessPolicies/1/accessLevels/operators", "basic": obj{"combiningFunction": "AND", "conditions": []any{
		obj{"members": []any{"user:operator@example.com"}, "ipSubnetworks": []any{"203.0.113.0/24"}},
	}}})
	image := "r-docker.pkg.dev/p/images/app@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	add("kubernetes:apps/v1:Deployment", "controller", obj{"spec": obj{"template": obj{"spec": obj{"containers": []any{obj{"name": "app", "image": image}}}}}})
	add("kubernetes:networking.gke.io/v1alpha1:FQDNNetworkPolicy", "list", obj{"metadata": obj{"namespace": "sandboxes"}, "spec": obj{"egress": []any{obj{
		"matches": []any{obj{"pattern": "*.googleapis.com"}, obj{"name": "modules.example.com"}},
		"ports":   []any{obj{"protocol": "TCP", "port": 443.0}},
	}}}})
	add("kubernetes:networking.k8s.io/v1:NetworkPolicy", "dns", obj{"metadata": obj{"namespace": "sandboxes"}, "spec": obj{"egress": []any{obj{
		"to": []any{obj{"podSelector": obj{}}, obj{"ipBlock": obj{"cidr": "169.254.20.10/32"}}},
	}}}})
	add("kubernetes:extensions.agents.x-k8s.io/v1beta1:SandboxTemplate", "template", obj{"metadata": obj{"namespace": "sandboxes"}, "spec": obj{
		"networkPolicyManagement": "Managed", "networkPolicy": obj{"egress": []any{}},
		"podTemplate": obj{"metadata": obj{"labels": obj{"app": "sandbox"}}, "spec": obj{"runtimeClassName": "gvisor", "containers": []any{obj{"name": "app", "image": image}}}},
	}})
	add("gcp:artifactregistry/repositoryIamMember:RepositoryIamMember", "images", obj{"role": "roles/artifactregistry.reader", "member": "serviceAccount:n@p.iam.gserviceaccount.com"})
	return g
}

// autopilotGraph is the same without pools of ours.
func autopilotGraph() Graph {
	g := standard()
	kept := g.Resources[:0]
	for _, r := range g.Resources {
		if r.Type == typePool {
			continue
		}
		if r.Type == typeCluster {
			delete(r.Inputs, "datapathProvider")
			delete(r.Inputs, "enableShieldedNodes")
			delete(r.Inputs, "removeDefaultNodePool")
			delete(r.Inputs, "nodeConfig")
			r.Inputs["enableAutopilot"] = true
			r.Inputs["clusterAutoscaling"] = obj{"autoProvisioningDefaults": obj{"serviceAccount": "n@p.iam.gserviceaccount.com"}}
			r.Inputs["nodePoolAutoConfig"] = obj{"nodeKubeletConfig": obj{"insecureKubeletReadonlyPortEnabled": "FALSE"}}
		}
		kept = append(kept, r)
	}
	g.Resources = kept
	return g
}
