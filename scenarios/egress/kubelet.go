// SPDX-License-Identifier: Apache-2.0

package egress

import (
	"context"

	"github.com/stockade-dev/stockade/conformance/probe"
	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/verdict"
)

// kubelet accepts Dropped alone, and here that tells much: most of these ports
// are closed, so a packet that got there comes back as a refusal, which is the
// policy failing even where nobody listens.
func kubelet() suite.Scenario {
	return suite.Scenario{
		ID:    "egress.kubelet",
		Title: "Reach the node's own services",
		About: "Connects to the sandbox's own node: the kubelet, its old read-only port, etcd, and Cilium's health and flow ports. " +
			"The kubelet's API runs commands in every Pod of the node, for whoever it believes.",
		Claims: []string{"AS-06", "KG-07"}, Kind: suite.Guarantee, Severity: suite.Critical,
		Techniques: []string{"T1609", "T1046"},
		Refs:       []string{"https://kubernetes.io/docs/reference/access-authn-authz/kubelet-authn-authz/", "https://kubernetes.io/docs/reference/networking/ports-and-protocols/"},
		Attack: func(ctx context.Context, env *probe.Env) []verdict.Step {
			if env.Site.Kubelet == "" {
				return []verdict.Step{probe.NoSite("connect", "address of the node")}
			}
			return probe.ReachAllTCP(ctx, env, ports(env.Site.Kubelet, nodePorts...))
		},
		Control: suite.ControlSpec{
			// What else listens on a node differs from cluster to cluster.
			Act: func(ctx context.Context, env *probe.Env) []verdict.Step {
				return probe.ReachAllTCP(ctx, env, []string{env.Site.Kubelet})
			},
			Why: "a Pod without a policy connects to the kubelet",
		},
		Accept:    dropped,
		Witnesses: []suite.Witness{suite.PolicyDrop(func(s probe.Site) []string { return ports(s.Kubelet, nodePorts...) })},
		Attempts:  2,
		Mutants:   []string{"network-unmanaged", "egress-open", "egress-node-entity", "kode-gopher-network-open", "kode-gopher-shared-network-open"},
	}
}

// nodePorts are the kubelet's read-only port, ssh, etcd, Cilium's health check
// and Hubble, kube-proxy's health check, and the controllers' metrics.
var nodePorts = []string{"10255", "22", "2379", "4240", "4244", "10256", "10257", "10259"}
