// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/verdict"
	"github.com/stockade-dev/stockade/scenarios/reading"
)

// controllersOwn answers as an API server with a sandbox of a template that has no network
// policy of its own, and with what the controller then writes for it: the router may
// come in, and so may more. Where it may not send is given.
func controllersOwn(except []any, more ...any) *suite.APIEnv {
	const where, hash = "sandboxes", "agents.x-k8s.io/sandbox-template-ref-hash"
	router := object{"namespaceSelector": object{"matchLabels": object{"kubernetes.io/metadata.name": "agent-sandbox-system"}},
		"podSelector": object{"matchLabels": object{"app": "sandbox-router"}}}
	written := object{"metadata": object{"name": "budget-sandbox-network-policy"}, "spec": object{
		"podSelector": object{"matchLabels": object{hash: "abc"}}, "policyTypes": []any{"Ingress", "Egress"},
		"ingress": []any{object{"from": append([]any{router}, more...)}},
		"egress":  []any{object{"to": []any{object{"ipBlock": object{"cidr": "0.0.0.0/0", "except": except}}}}},
	}}
	answers := map[string]object{
		"/api/v1/namespaces/" + where + "/pods/live": {"metadata": object{"labels": object{hash: "abc", "app": "budget-sandbox"}}},
		reading.PoliciesOf(where):                    {"items": []any{written}},
	}
	return &suite.APIEnv{Namespace: where, Live: "live", Do: func(_ context.Context, _ suite.Identity, r suite.Request) (suite.Answer, error) {
		if o, ok := answers[r.Path]; ok {
			return suite.Answer{Code: 200, Object: o}, nil
		}
		return suite.Answer{Code: 404}, nil
	}}
}

func TestWhomTheControllersOwnPolicyLetsInIsRead(t *testing.T) {
	s := ingressPolicy()
	for name, c := range map[string]struct {
		more  []any
		class verdict.Class
	}{
		"the router alone":            {nil, verdict.Absent},
		"every Pod of the namespace":  {[]any{object{"podSelector": object{}}}, ""},
		"a sandbox":                   {[]any{object{"podSelector": object{"matchLabels": object{"app": "budget-sandbox"}}}}, ""},
		"the router of any namespace": {[]any{object{"namespaceSelector": object{}, "podSelector": object{"matchLabels": object{"app": "sandbox-router"}}}}, ""},
		"whoever has an address":      {[]any{object{"ipBlock": object{"cidr": "10.0.0.0/8"}}}, ""},
		"somebody whom nobody knows":  {[]any{object{"podSelector": object{"matchLabels": object{"app": "x"}}}}, verdict.Unknown},
	} {
		env := controllersOwn(nil, c.more...)
		require.True(t, s.AskControl(t.Context(), env)[0].OK, name)
		steps := s.Ask(t.Context(), env)
		require.Len(t, steps, 2+len(reading.PolicyGroups), name)
		for i, step := range steps {
			want := verdict.Absent
			if i == 1 { // the others look for a policy at all, and for other kinds
				want = c.class
			}
			assert.Equal(t, want, step.Class, "%s: %s: %s", name, step.Name, step.Detail)
			assert.Equal(t, want == "", step.OK, "%s: %s: %s", name, step.Name, step.Detail)
		}
	}
}

func TestWhereTheControllersOwnPolicyLeadsIsRead(t *testing.T) {
	s := defaultEgressPolicy()
	private := []any{"10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"}
	for name, c := range map[string]struct {
		except []any
		open   bool
	}{
		"what the text says":           {append([]any{"169.254.0.0/16"}, private...), false},
		"the metadata server alone":    {append([]any{"169.254.169.254/32"}, private...), true},
		"no link-local address":        {private, true},
		"half of a private range":      {append([]any{"169.254.0.0/16", "192.168.0.0/17"}, private[:2]...), true},
		"no exception":                 {nil, true},
		"more than what the text says": {append([]any{"169.254.0.0/16", "100.64.0.0/10"}, private...), false},
	} {
		env := controllersOwn(c.except)
		require.True(t, s.AskControl(t.Context(), env)[0].OK, name)
		steps := s.Ask(t.Context(), env)
		require.Len(t, steps, 2+len(reading.PolicyGroups), name)
		for i, step := range steps {
			assert.Equal(t, c.open && i == 1, step.OK, "%s: %s: %s", name, step.Name, step.Detail)
			assert.True(t, step.OK || step.Class == verdict.Absent, "%s: %s: %s", name, step.Name, step.Detail)
		}
	}
}
