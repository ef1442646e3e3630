// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/verdict"
	"github.com/stockade-dev/stockade/scenarios/manifest"
)

// controller answers as an API server whose controller has one policy for all that a
// claim may bring. Tests change what it does.
type controller struct {
	cluster
	t        *testing.T
	policy   string // Disallowed, Allowed, or Ignored: it takes a claim and leaves out what it brings
	template []any
	claim    suite.Object // that was made last
	why      string       // it turns down a claim by these words
	prunes   bool         // the API has no such field
	forces   bool         // it makes a Sandbox for what it turns down
}

func newController(t *testing.T, policy string) *controller {
	t.Helper()
	return &controller{t: t, policy: policy, template: []any{object{"metadata": object{"name": "the-template"}}}}
}

func (c *controller) env() *suite.APIEnv {
	e := env(&c.cluster)
	e.API, e.Namespace, e.Pod = c, "boxes", func() suite.Object { return object{"spec": c.podSpec()} }
	e.Do = func(_ context.Context, _ suite.Identity, r suite.Request) (suite.Answer, error) {
		assert.Equal(c.t, "/apis/extensions.agents.x-k8s.io/v1beta1/namespaces/boxes/sandboxtemplates", r.Path)
		return suite.Answer{Code: 200, Object: object{"items": c.template}}, nil
	}
	return e
}

func (c *controller) podSpec() object {
	return object{
		"containers": []any{object{"name": "runtime", "env": []any{object{"name": "HOME", "value": "/tmp"}}}},
		"volumes":    []any{object{"name": "trust", "configMap": object{}}, object{"name": "scratch", "emptyDir": object{}}, object{"name": "shm", "emptyDir": object{}}},
	}
}

func (c *controller) Create(ctx context.Context, o suite.Object, dryRun bool) (suite.Answer, error) {
	o = manifest.Clone(o) // what is stored is another than what was sent
	spec, _ := o["spec"].(object)
	switch o["kind"] {
	case "SandboxWarmPool":
		assert.Equal(c.t, object{"name": "the-template"}, spec["sandboxTemplateRef"])
		assert.Equal(c.t, int64(0), spec["replicas"], "a warm sandbox would be given to a claim that brings nothing")
	case "SandboxClaim":
		if c.prunes {
			delete(spec, "env")
			delete(spec, "volumeClaimTemplates")
		}
		c.claim = o
	}
	return c.cluster.Create(ctx, o, dryRun)
}

func (c *controller) Get(_ context.Context, _, kind, name string) (suite.Answer, error) {
	claimed, _ := c.claim["spec"].(object)
	env, disks := claimed["env"], claimed["volumeClaimTemplates"]
	brings := env != nil || disks != nil
	refused := brings && c.policy == "Disallowed"
	if c.policy != "Allowed" {
		env, disks = nil, nil
	}
	ready := object{"type": "Ready", "status": "False", "reason": "SandboxNotReady"}
	status := object{"conditions": []any{ready}, "sandbox": object{"name": name}}
	spec := c.podSpec()
	if more, ok := env.([]any); ok {
		first := spec["containers"].([]any)[0].(object) //nolint:forcetypeassert // see podSpec
		own, _ := first["env"].([]any)
		first["env"] = slices.Concat(own, more)
	}
	switch {
	case kind == "SandboxClaim" && refused:
		ready["reason"], ready["message"] = variable.refused, "injection is not allowed by the template policy"
		if claimed["volumeClaimTemplates"] != nil {
			ready["reason"], ready["message"] = disk.refused, "volume claim templates are disallowed by the template"
		}
		if c.why != "" {
			ready["message"] = c.why
		}
		delete(status, "sandbox")
		return suite.Answer{Code: 200, Object: object{"status": status}}, nil
	case kind == "SandboxClaim":
		return suite.Answer{Code: 200, Object: object{"status": status}}, nil
	case refused && !c.forces:
		return suite.Answer{Code: 404}, nil
	case kind == "Sandbox":
		box := object{"metadata": object{"name": name}, "spec": object{"podTemplate": object{"spec": spec}}}
		if disks != nil {
			box["spec"].(object)["volumeClaimTemplates"] = disks //nolint:forcetypeassert // it was made above
		}
		return suite.Answer{Code: 200, Object: box}, nil
	}
	return suite.Answer{Code: 200, Object: object{"metadata": object{"name": name}, "spec": spec}}, nil
}

func TestWhatAClaimBringsIsFoundInItsSandbox(t *testing.T) {
	for _, s := range []suite.Scenario{claimEnvironment(), claimVolume()} {
		for name, c := range map[string]struct {
			policy string
			change func(*controller)
			ok     bool
			want   verdict.Class
		}{
			"it is turned down":              {"Disallowed", func(*controller) {}, false, verdict.Absent},
			"it comes":                       {"Allowed", func(*controller) {}, true, ""},
			"it is left out":                 {"Ignored", func(*controller) {}, false, verdict.Absent},
			"turned down for something else": {"Disallowed", func(c *controller) { c.why = "container uses EnvFrom sources" }, false, verdict.Unknown},
			"turned down, and made":          {"Disallowed", func(c *controller) { c.forces = true }, false, verdict.Unknown},
			"a field that the API lacks":     {"Allowed", func(c *controller) { c.prunes = true }, false, verdict.Unknown},
			"two templates":                  {"Allowed", func(c *controller) { c.template = append(c.template, object{}) }, false, verdict.Unknown},
			"no template":                    {"Disallowed", func(c *controller) { c.template = nil }, false, verdict.Unknown},
		} {
			t.Run(s.ID+": "+name, func(t *testing.T) {
				api := newController(t, c.policy)
				c.change(api)
				steps := s.Ask(t.Context(), api.env())
				require.Len(t, steps, 1)
				assert.Equal(t, c.ok, steps[0].OK, steps[0].Detail)
				assert.Equal(t, c.want, steps[0].Class, steps[0].Detail)
				assert.ElementsMatch(t, api.made, api.deleted, "what was made is taken away")
				steps = s.AskControl(t.Context(), api.env())
				assert.Equal(t, len(api.template) == 1, steps[0].OK, "a claim that brings nothing: %s", steps[0].Detail)
				assert.ElementsMatch(t, api.made, api.deleted)
			})
		}
	}
}

// late has a Pod of its own: what it has, the Sandbox does not show.
type late struct {
	*controller
	pod suite.Object
}

func (l late) Get(ctx context.Context, apiVersion, kind, name string) (suite.Answer, error) {
	if kind == "Pod" {
		if l.pod == nil {
			return suite.Answer{Code: 404}, nil
		}
		return suite.Answer{Code: 200, Object: l.pod}, nil
	}
	return l.controller.Get(ctx, apiVersion, kind, name)
}

func TestThePodIsLookedAtAsWell(t *testing.T) {
	with := func(spec object) suite.Object { return object{"spec": spec} }
	for name, c := range map[string]struct {
		s    suite.Scenario
		pod  suite.Object
		ok   bool
		want verdict.Class
	}{
		"the variable":           {claimEnvironment(), with(object{"containers": []any{object{"env": []any{object{"name": variableName, "value": nonce}}}}}), true, ""},
		"one of its name":        {claimEnvironment(), with(object{"containers": []any{object{"env": []any{object{"name": variableName, "value": "other"}}}}}), false, verdict.Absent},
		"the disk":               {claimVolume(), with(object{"volumes": []any{object{"name": "scratch", "persistentVolumeClaim": object{}}}}), true, ""},
		"a disk of the template": {claimVolume(), with(object{"volumes": []any{object{"name": "data", "persistentVolumeClaim": object{}}}}), false, verdict.Absent},
		"no Pod":                 {claimVolume(), nil, false, verdict.Unknown},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			api := newController(t, "Ignored")
			e := api.env()
			e.API = late{api, c.pod}
			steps := c.s.Ask(ctx, e)
			require.Len(t, steps, 1)
			assert.Equal(t, c.ok, steps[0].OK, steps[0].Detail)
			assert.Equal(t, c.want, steps[0].Class, steps[0].Detail)
			assert.Equal(t, c.pod != nil, c.s.AskControl(ctx, e)[0].OK, "the control wants the Pod too")
			assert.ElementsMatch(t, api.made, api.deleted)
		})
	}
}

func TestADiskTakesThePlaceOfTheFirstFolderInMemory(t *testing.T) {
	api := newController(t, "Allowed")
	claimVolume().Ask(t.Context(), api.env())
	spec, _ := api.claim["spec"].(object)
	assert.True(t, some(spec["volumeClaimTemplates"], func(v any) bool { return manifest.At(v, "metadata", "name") == "scratch" }), "%v", spec)
	bare := &suite.APIEnv{Pod: func() suite.Object { return object{} }}
	assert.Equal(t, "stockade", folder(bare), "a template without one")
}

func TestAClaimThatIsNeitherServedNorTurnedDownIsNoEvidence(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 120*time.Millisecond)
	defer cancel()
	api := newController(t, "Allowed")
	e := api.env()
	e.API = mute{api}
	for _, act := range []suite.APIAction{claimEnvironment().Ask, claimVolume().Ask, claimNothing} {
		steps := act(ctx, e)
		require.Len(t, steps, 1)
		assert.False(t, steps[0].OK || steps[0].Class.IsEvidence(), steps[0].Detail)
	}
	e.Do = nil
	assert.Equal(t, verdict.ToolMissing, claimNothing(t.Context(), e)[0].Class)
}

// mute is a controller that does nothing.
type mute struct{ *controller }

func (mute) Get(context.Context, string, string, string) (suite.Answer, error) {
	return suite.Answer{Code: 200, Object: object{}}, nil
}
