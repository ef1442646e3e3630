// SPDX-License-Identifier: Apache-2.0

package reading

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/stockade-dev/stockade/conformance/verdict"
)

var (
	dns = Outlet{Peer{Namespace: "kube-system", Label: "k8s-app", Value: "kube-dns"}, []string{"53/UDP", "53/TCP"}}
	own = Outlet{Peer{Label: "app", Value: "metadata"}, []string{"8080/TCP"}}

	listed = Outlets{Pods: []Outlet{dns, own}, Addresses: map[string][]string{"169.254.20.10/32": {"53/UDP"}}}
	public = Outlets{Pods: listed.Pods, Addresses: listed.Addresses, Public: true}
)

func port(protocol string, number any) object { return object{"protocol": protocol, "port": number} }

func block(cidr string, except ...any) object {
	return object{"to": []any{object{"ipBlock": object{"cidr": cidr, "except": except}}}}
}

func toDNS(ports ...any) object {
	return object{"ports": ports, "to": []any{object{
		"namespaceSelector": object{"matchLabels": object{namespaceLabel: "kube-system"}}, "podSelector": object{"matchLabels": object{"k8s-app": "kube-dns"}}}}}
}

func toOwn(selector object, ports ...any) object {
	return object{"to": []any{object{"podSelector": selector}}, "ports": ports}
}

// privateToo are all exceptions that a public range needs.
var (
	privateToo = []any{"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24", "192.168.0.0/16",
		"198.18.0.0/15", "224.0.0.0/4", "240.0.0.0/4"}
	privateToo6 = []any{"::/80", "64:ff9b::/96", "64:ff9b:1::/48", "2002::/16", "fc00::/7", "fe80::/10", "ff00::/8"}
)

func without(all []any, one string) (out []any) {
	for _, x := range all {
		if x != one {
			out = append(out, x)
		}
	}
	return out
}

func TestARuleThatLeadsElsewhereIsFound(t *testing.T) {
	metadata := object{"matchLabels": object{"app": "metadata"}}
	const open, odd, fine = verdict.Class(""), verdict.Unknown, verdict.Absent
	for name, c := range map[string]struct {
		rule           object
		listed, public verdict.Class
	}{
		"the resolver":                        {toDNS(port("UDP", float64(53)), port("TCP", int64(53))), fine, fine},
		"the resolver at every port":          {toDNS(), open, open},
		"the resolver at another port":        {toDNS(port("TCP", float64(9153))), open, open},
		"the resolver at a range of ports":    {toDNS(object{"protocol": "UDP", "port": float64(53), "endPort": float64(99)}), open, open},
		"the resolver at a range of one":      {toDNS(object{"protocol": "UDP", "port": float64(53), "endPort": float64(53)}), fine, fine},
		"the resolver at all ports of UDP":    {toDNS(object{"protocol": "UDP"}), open, open},
		"a protocol that is left out is TCP":  {toDNS(object{"port": float64(53)}), fine, fine},
		"the metadata server":                 {toOwn(metadata, port("TCP", float64(8080))), fine, fine},
		"where its runs begin":                {toOwn(metadata, port("TCP", float64(8081))), open, open},
		"every Pod of its namespace":          {toOwn(object{}, port("TCP", float64(8080))), open, open},
		"some Pods of its namespace":          {toOwn(object{"matchLabels": object{"app": "x"}}, port("TCP", float64(8080))), odd, odd},
		"every Pod":                           {object{"to": []any{object{"namespaceSelector": object{}}}}, open, open},
		"a port of everything":                {object{"ports": []any{port("TCP", float64(443))}}, open, open},
		"everything":                          {object{}, open, open},
		"an address":                          {block("192.0.2.7/32"), open, fine},
		"the node's cache":                    {object{"to": []any{object{"ipBlock": object{"cidr": "169.254.20.10/32"}}}, "ports": []any{port("UDP", float64(53))}}, fine, fine},
		"another port of the node's":          {object{"to": []any{object{"ipBlock": object{"cidr": "169.254.20.10/32"}}}, "ports": []any{port("TCP", float64(80))}}, open, open},
		"public addresses":                    {block("0.0.0.0/0", privateToo...), open, fine},
		"all addresses":                       {block("0.0.0.0/0"), open, open},
		"all but a part of the private ones":  {block("0.0.0.0/0", append(without(privateToo, "10.0.0.0/8"), "10.1.0.0/16")...), open, open},
		"all but half of a private one":       {block("0.0.0.0/0", append(without(privateToo, "10.0.0.0/8"), "10.0.0.0/9")...), open, open},
		"an exception in two halves":          {block("0.0.0.0/0", append(without(privateToo, "10.0.0.0/8"), "10.128.0.0/9", "10.0.0.0/10", "10.64.0.0/10")...), open, fine},
		"an exception in halves, of IPv6":     {block("::/0", append(without(privateToo6, "fc00::/7"), "fd00::/8", "fc00::/8")...), open, fine},
		"all but half of one, of IPv6":        {block("::/0", append(without(privateToo6, "fc00::/7"), "fd00::/8")...), open, open},
		"all but one address of a small one":  {block("10.0.0.0/31", "10.0.0.0"), open, open},
		"two addresses, and both taken out":   {block("10.0.0.0/31", "10.0.0.0", "10.0.0.1/32"), open, fine},
		"public addresses of IPv6":            {block("::/0", privateToo6...), open, fine},
		"those with IPv4 in them":             {block("::/0", without(privateToo6, "64:ff9b:1::/48")...), open, open},
		"a private address":                   {block("10.99.0.7/32"), open, open},
		"a private address that is taken out": {block("10.0.0.0/8", "10.0.0.0/8"), open, fine},
		"one exception for two ranges":        {block("0.0.0.0/0", append(without(without(privateToo, "224.0.0.0/4"), "240.0.0.0/4"), "224.0.0.0/3")...), open, fine},
		"groups of hosts":                     {block("224.0.0.0/4"), open, open},
		"the host itself, of IPv6":            {block("::1/128"), open, open},
		"no range":                            {block("x"), odd, odd},
		"no exception":                        {block("192.0.0.0/8", "x"), open, odd},
	} {
		for _, w := range []struct {
			o    Outlets
			want verdict.Class
		}{{listed, c.listed}, {public, c.public}} {
			p := named("p", object{"podSelector": object{"matchLabels": object{"app": "box"}}, "policyTypes": []any{"Egress"}, "egress": []any{c.rule}})
			s := Egress.worst([]object{p}, object{"app": "box"}, w.o.rule).step("x", "")
			assert.Equal(t, w.want, s.Class, "%s, public %t: %s", name, w.o.Public, s.Detail)
			assert.Equal(t, w.want == open, s.OK, "%s, public %t: %s", name, w.o.Public, s.Detail)
			assert.Equal(t, fine, Egress.worst([]object{p}, object{"app": "other"}, w.o.rule).step("x", "").Class, "%s: a policy of other Pods", name)
		}
	}
	few := Outlets{Public: true, Private: Prefixes("10.0.0.0/8", "fc00::/7")}
	assert.Empty(t, few.rule(block("0.0.0.0/0", "10.0.0.0/8")).open)
	assert.NotEmpty(t, few.rule(block("0.0.0.0/0", "192.168.0.0/16")).open, "what is excepted is another one")
	// A range without one of the private ones is what this is for.
	for _, except := range privateToo {
		assert.NotEmpty(t, public.rule(block("0.0.0.0/0", without(privateToo, except.(string))...)).open, except) //nolint:forcetypeassert // it is a text
	}
	for _, except := range privateToo6 {
		assert.NotEmpty(t, public.rule(block("::/0", without(privateToo6, except.(string))...)).open, except) //nolint:forcetypeassert // it is a text
	}
}

func TestAPolicyOfCiliumsThatLeadsElsewhereIsFound(t *testing.T) {
	ports := func(all ...any) []any { return []any{object{"ports": all}} }
	resolver := object{"toEndpoints": []any{object{"matchLabels": object{"k8s:io.kubernetes.pod.namespace": "kube-system", "k8s:k8s-app": "kube-dns"}}},
		"toPorts": []any{object{"ports": []any{port("ANY", "53")}, "rules": object{"dns": []any{}}}}}
	names := func(n object, p []any) object { return object{"toFQDNs": []any{n}, "toPorts": p} }
	https := ports(port("TCP", "443"))
	box := object{"matchLabels": object{"k8s:app": "box"}}
	const open, odd, fine = "open", "unread", ""
	for name, c := range map[string]struct {
		rule           object
		listed, public string
	}{
		"the resolver":             {resolver, fine, fine},
		"a name":                   {names(object{"matchName": "proxy.golang.org"}, https), fine, fine},
		"a domain's names":         {names(object{"matchPattern": "*.googleapis.com"}, https), fine, fine},
		"every name":               {names(object{"matchPattern": "*"}, https), open, fine},
		"every name that is one":   {names(object{"matchPattern": "*.com"}, https), open, fine},
		"a name at every port":     {object{"toFQDNs": []any{object{"matchName": "proxy.golang.org"}}}, open, fine},
		"a name at another port":   {names(object{"matchName": "proxy.golang.org"}, ports(port("TCP", "443"), port("TCP", "22"))), open, fine},
		"a name by any protocol":   {names(object{"matchName": "proxy.golang.org"}, ports(object{"port": "443"})), open, fine},
		"an address":               {object{"toCIDR": []any{"192.0.2.99/32"}}, open, fine},
		"a private address":        {object{"toCIDR": []any{"10.0.0.1"}}, open, open},
		"a range":                  {object{"toCIDRSet": []any{object{"cidr": "0.0.0.0/0", "except": privateToo}}}, open, fine},
		"a range with a hole":      {object{"toCIDRSet": []any{object{"cidr": "0.0.0.0/0", "except": without(privateToo, "10.0.0.0/8")}}}, open, open},
		"an entity":                {object{"toEntities": []any{"world"}}, open, open},
		"nobody":                   {object{"toEntities": []any{"none"}}, fine, fine},
		"every Pod":                {object{"toEndpoints": []any{object{}}}, open, open},
		"every Pod of a namespace": {object{"toEndpoints": []any{object{"matchLabels": object{"k8s:io.kubernetes.pod.namespace": "x"}}}}, open, open},
		"some Pods":                {object{"toEndpoints": []any{object{"matchLabels": object{"app": "x"}}}}, odd, odd},
		"a service":                {object{"toServices": []any{object{}}}, odd, odd},
		"a port of everything":     {object{"toPorts": https}, open, open},
		"echoes":                   {object{"icmps": []any{object{}}}, open, open},
	} {
		for _, w := range []struct {
			o    Outlets
			want string
		}{{listed, c.listed}, {public, c.public}} {
			p := named("p", object{"endpointSelector": box, "egress": []any{c.rule}})
			f := w.o.cilium(p, object{"app": "box"})
			assert.Equal(t, w.want == open, f.open != "", "%s, public %t: %v", name, w.o.Public, f)
			assert.Equal(t, w.want == odd, f.open == "" && f.unread != "", "%s, public %t: %v", name, w.o.Public, f)
			assert.Equal(t, finding{}, w.o.cilium(p, object{"app": "other"}), "%s: a policy of other Pods", name)
			assert.Equal(t, f, w.o.cilium(object{"specs": []any{object{"ingress": []any{}}, p["spec"]}}, object{"app": "box"}), "%s: one of several", name)
		}
	}
	wide := object{"endpointSelector": box, "egress": []any{object{"toEntities": []any{"world"}}}, "egressDeny": []any{object{}}}
	assert.NotEmpty(t, listed.cilium(named("p", wide), object{"app": "box"}).unread, "what is denied is not read")
	assert.NotEmpty(t, listed.cilium(object{}, object{"app": "box"}).unread)
	chosen := object{"endpointSelector": object{"matchExpressions": []any{object{}}}, "egress": []any{object{}}}
	assert.NotEmpty(t, listed.cilium(named("p", chosen), object{"app": "box"}).unread)
	assert.Equal(t, finding{}, listed.cilium(named("p", object{"nodeSelector": object{}, "egress": []any{object{}}}), object{}), "the nodes' own")
}

func TestAPolicyOfHostNamesIsRead(t *testing.T) {
	https := []any{port("TCP", float64(443))}
	for name, c := range map[string]struct {
		match object
		ports []any
		open  bool
	}{
		"a name":               {object{"name": "proxy.golang.org"}, https, false},
		"a domain's names":     {object{"pattern": "*.googleapis.com"}, https, false},
		"every name":           {object{"pattern": "*"}, https, true},
		"a name at every port": {object{"name": "proxy.golang.org"}, nil, true},
	} {
		p := named("p", object{"podSelector": object{"matchLabels": object{"app": "box"}}, "egress": []any{object{"matches": []any{c.match}, "ports": c.ports}}})
		f := listed.hosts(p, object{"app": "box"})
		assert.Equal(t, c.open, f.open != "", "%s: %v", name, f)
		assert.Empty(t, f.unread, name)
		assert.Equal(t, finding{}, listed.hosts(p, object{"app": "other"}), name)
		assert.Equal(t, finding{}, public.hosts(p, object{"app": "box"}), name)
	}
	chosen := named("p", object{"podSelector": object{"matchExpressions": []any{object{}}}})
	assert.NotEmpty(t, listed.hosts(chosen, object{"app": "box"}).unread)
	e := with(cluster{"/apis/networking.gke.io/v1alpha1/namespaces/boxes/" + hostNames: listOf(chosen)}, cluster{}).env()
	assert.Equal(t, verdict.Absent, Others(t.Context(), e, Ingress)[1].Class, "it speaks of egress alone")
}

func TestWhereASandboxMaySendIsReadAsAWhole(t *testing.T) {
	const cnps = "/apis/cilium.io/v2/namespaces/boxes/ciliumnetworkpolicies"
	live := cluster{"/api/v1/namespaces/boxes/pods/live": {Code: 200, Object: object{"metadata": object{"labels": object{"app": "box"}}}}}
	deny := named("deny", object{"podSelector": object{}, "policyTypes": []any{"Egress"}})
	some := named("some", object{"podSelector": object{}, "policyTypes": []any{"Egress"}, "egress": []any{toDNS(port("UDP", float64(53)))}})
	more := named("more", object{"endpointSelector": object{}, "egress": []any{object{"toEntities": []any{"cluster"}}}})
	e := with(cluster{cnps: listOf(more)}, live.and(PoliciesOf("boxes"), listOf(deny, some))).env()
	steps := NowhereElse(t.Context(), e, listed)
	require.Len(t, steps, 2+len(PolicyGroups))
	for i, s := range steps {
		assert.Equal(t, i == 2, s.OK, "%s: %s", s.Name, s.Detail)
		assert.True(t, s.OK || s.Class == verdict.Absent, "%s: %s", s.Name, s.Detail)
	}
	assert.True(t, SomethingLetOut(t.Context(), e)[0].OK)
	e = with(nil, live.and(PoliciesOf("boxes"), listOf())).env()
	assert.True(t, NowhereElse(t.Context(), e, listed)[0].OK, "without a policy all is allowed")
	assert.Equal(t, verdict.Unknown, SomethingLetOut(t.Context(), e)[0].Class)
}

// What is not understood is no evidence, and no breach either.
func TestASelectorByExpressionsAndAPortByNameAreNotRead(t *testing.T) {
	elsewhere := object{"matchExpressions": []any{object{"key": namespaceLabel, "operator": "In", "values": []any{"system"}}}}
	for name, f := range map[string]finding{
		"a namespace by an expression": judgePeer(object{"namespaceSelector": elsewhere}, nil, nil, nil),
		"a port by its name":           within("the service", portsOf(object{"ports": []any{port("TCP", "http")}}), web),
	} {
		step := f.step(name, "nothing")
		assert.False(t, step.OK, "%s: %+v", name, step)
		assert.Equal(t, verdict.Unknown, step.Class, name)
	}
	assert.True(t, judgePeer(object{"namespaceSelector": object{}}, nil, nil, nil).step("every namespace", "").OK)
}
