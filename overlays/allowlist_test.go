// SPDX-License-Identifier: Apache-2.0

package overlays

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var hosts = AllowListArgs{Namespace: "n", Name: "list", Labels: map[string]string{"app": "x"}, Hosts: []string{"*.googleapis.com", "modules.example.com"}}

func TestTheAllowListOfGKEOpensOnlyPort443OfTheHosts(t *testing.T) {
	objects, err := AllowList(GKE, hosts)
	require.NoError(t, err)
	require.Len(t, objects, 2)
	egress := objects[0].Object["spec"].(map[string]any)["egress"].([]any)
	require.Len(t, egress, 1)
	rule := egress[0].(map[string]any)
	assert.Equal(t, []any{map[string]any{"protocol": "TCP", "port": int64(443)}}, rule["ports"], "no ports would mean all ports")
	assert.Equal(t, []any{map[string]any{"pattern": "*.googleapis.com"}, map[string]any{"name": "modules.example.com"}}, rule["matches"])
	dns := objects[1].Object["spec"].(map[string]any)
	assert.Equal(t, []any{"Egress"}, dns["policyTypes"], "else a policy without ingress rules would close that too")
	pods := func(app string) map[string]any {
		return map[string]any{
			"namespaceSelector": map[string]any{"matchLabels": map[string]any{"kubernetes.io/metadata.name": "kube-system"}},
			"podSelector":       map[string]any{"matchLabels": map[string]any{"k8s-app": app}},
		}
	}
	// Without one of them sandboxes of some clusters resolve no name: Dataplane V2
	// judges by the Pod that a question is redirected to.
	assert.Equal(t, []any{map[string]any{
		"to":    []any{pods("kube-dns"), pods("node-local-dns"), map[string]any{"ipBlock": map[string]any{"cidr": "169.254.20.10/32"}}},
		"ports": []any{map[string]any{"protocol": "UDP", "port": int64(53)}, map[string]any{"protocol": "TCP", "port": int64(53)}},
	}}, dns["egress"])
}

func TestTheAllowListOfCiliumMeansTheSame(t *testing.T) {
	objects, err := AllowList(Cilium, hosts)
	require.NoError(t, err)
	require.Len(t, objects, 1)
	egress := objects[0].Object["spec"].(map[string]any)["egress"].([]any)
	require.Len(t, egress, 2)
	assert.Contains(t, egress[0], "toEndpoints", "DNS, by way of the agent")
	names := egress[1].(map[string]any)
	assert.Equal(t, []any{map[string]any{"matchPattern": "*.googleapis.com"}, map[string]any{"matchName": "modules.example.com"}}, names["toFQDNs"])
	assert.Equal(t, []any{map[string]any{"ports": []any{map[string]any{"port": "443", "protocol": "TCP"}}}}, names["toPorts"])
}

func TestAnAllowListThatAllowsEverythingOrNothingIsRefused(t *testing.T) {
	for _, bad := range [][]string{nil, {"*"}, {""}, {"*.*"}, {"*.com"}, {"a.*.com"}, {"x.exam*le.com"}, {"localhost"}, {"https://example.com"}, {"a b.example.com"}, {"example.com."}, {"Example.com"}} {
		for _, d := range []Dialect{GKE, Cilium} {
			a := hosts
			a.Hosts = bad
			_, err := AllowList(d, a)
			assert.Error(t, err, "%v", bad)
		}
	}
	_, err := AllowList("calico", hosts)
	assert.ErrorContains(t, err, "calico")
}
