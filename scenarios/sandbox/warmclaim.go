// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"context"
	"fmt"
	"time"

	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/verdict"
	"github.com/stockade-dev/stockade/scenarios/manifest"
)

// warmClaim is honest work, so it accepts no denial. A claim that the pool did
// not serve is Absent: no warm sandbox was there for it.
func warmClaim() suite.Scenario {
	return suite.Scenario{
		ID:    "sandbox.warm-claim",
		Title: "Claim a sandbox without waiting for a cold start",
		About: "Claims a sandbox from the pool, and one from a pool of size zero with the same template. The first has to be " +
			"labelled as warm by the controller and ready in less than half of the second's time; a warm one that is slow is measured up to three times. The times are reported, and the " +
			"claims a second that they amount to for one client, beside the quoted 300 for a cluster. The control is a cold claim alone.",
		Claims:     []string{"AS-14"},
		Kind:       suite.Function,
		Severity:   suite.Low,
		Needs:      []suite.Feature{suite.WarmPool},
		Ask:        askWarm,
		AskControl: askCold,
		Stores:     true,
		Warm:       true,
		// Starting Pods beside other scenarios would measure those.
		Exclusive: true,
		Timeout:   120 * time.Second,
		Mutants:   []string{"pool-empty"},
	}
}

// claimed is what became of a claim.
type claimed struct {
	took   time.Duration
	launch string // "warm" or "cold", as the controller labels the Sandbox
}

// tries is how often a warm start that was slow is measured again: a node that is
// busy for a moment must not look like an empty pool.
const tries = 3

func askWarm(ctx context.Context, env *suite.APIEnv) []verdict.Step {
	const name = "claim from the warm pool"
	var step verdict.Step
	for i := range tries {
		if err := poolReady(ctx, env); err != nil {
			return []verdict.Step{{Name: name, Expect: verdict.MustWork, Class: verdict.Unknown, Detail: err.Error()}}
		}
		warm, missed := claim(ctx, env, own(env, fmt.Sprintf("warm%d", i)), poolName)
		if missed != nil {
			return []verdict.Step{*missed}
		}
		cold, missed := claimCold(ctx, env, own(env, fmt.Sprintf("cold%d", i)))
		if missed != nil {
			return []verdict.Step{*missed}
		}
		if step = judgeWarm(name, warm, cold); step.OK || warm.launch != "warm" {
			break
		}
	}
	return []verdict.Step{step}
}

func judgeWarm(name string, warm, cold claimed) verdict.Step {
	step := verdict.Step{Name: name, Expect: verdict.MustWork, Millis: warm.took.Milliseconds(),
		Detail: fmt.Sprintf("%s start in %d ms, cold start in %d ms: %.1f claims a second for one client (quoted for a cluster: 300)",
			warm.launch, warm.took.Milliseconds(), cold.took.Milliseconds(), 1/max(warm.took, time.Millisecond).Seconds())}
	if step.OK = warm.launch == "warm" && warm.took < cold.took/2; !step.OK {
		step.Class = verdict.Absent
	}
	return step
}

func askCold(ctx context.Context, env *suite.APIEnv) []verdict.Step {
	cold, step := claimCold(ctx, env, own(env, "control"))
	if step != nil {
		return []verdict.Step{*step}
	}
	return []verdict.Step{{Name: "claim with a cold start", OK: true, Millis: cold.took.Milliseconds(), Detail: cold.launch}}
}

// claimCold claims from a pool that keeps nothing warm.
func claimCold(ctx context.Context, env *suite.APIEnv, name string) (claimed, *verdict.Step) {
	if step := emptyPool(ctx, env, name, templateName); step != nil {
		return claimed{}, step
	}
	defer manifest.Remove(ctx, env, extensionsAPI, "SandboxWarmPool", name)
	return claim(ctx, env, name, name)
}

// emptyPool makes a pool that keeps nothing warm.
func emptyPool(ctx context.Context, env *suite.APIEnv, name, template string) *verdict.Step {
	pool := object{"apiVersion": extensionsAPI, "kind": "SandboxWarmPool", "metadata": object{"name": name},
		"spec": object{"replicas": int64(0), "sandboxTemplateRef": object{"name": template}}}
	a, err := env.API.Create(ctx, pool, false)
	return failed("create an empty pool", a, err)
}

// claim makes a claim, waits until it is ready, and gives it back.
func claim(ctx context.Context, env *suite.APIEnv, name, pool string) (claimed, *verdict.Step) {
	what := "claim from the pool " + pool
	obj := object{"apiVersion": extensionsAPI, "kind": "SandboxClaim", "metadata": object{"name": name},
		"spec": object{"warmPoolRef": object{"name": pool}}}
	began := time.Now()
	a, err := env.API.Create(ctx, obj, false)
	if step := failed(what, a, err); step != nil {
		return claimed{}, step
	}
	defer manifest.Remove(ctx, env, extensionsAPI, "SandboxClaim", name)
	ready, err := await(ctx, env, extensionsAPI, "SandboxClaim", name, isReady)
	if err != nil {
		return claimed{}, &verdict.Step{Name: what, Class: verdict.Unknown, Detail: err.Error()}
	}
	c := claimed{took: time.Since(began)}
	box, _ := manifest.At(ready, "status", "sandbox", "name").(string)
	a, err = env.API.Get(ctx, agentsAPI, "Sandbox", box)
	if step := failed("read the claimed Sandbox", a, err); step != nil {
		return c, step
	}
	c.launch, _ = manifest.At(a.Object, "metadata", "labels", "agents.x-k8s.io/launch-type").(string)
	return c, nil
}

// isReady reads the Ready condition, and wants the Sandbox to be named.
func isReady(o suite.Object) bool {
	return manifest.Condition(o, "Ready")["status"] == "True" && manifest.At(o, "status", "sandbox", "name") != nil
}

// poolReady waits until the pool holds a ready sandbox: other scenarios may
// have taken the last. A pool that is not meant to hold any is not waited for.
func poolReady(ctx context.Context, env *suite.APIEnv) error {
	_, err := await(ctx, env, extensionsAPI, "SandboxWarmPool", poolName, func(o suite.Object) bool {
		return number(manifest.At(o, "spec", "replicas")) == 0 || number(manifest.At(o, "status", "readyReplicas")) > 0
	})
	return err
}

// number reads a JSON number, whichever decoder made it.
func number(v any) float64 {
	switch v := v.(type) {
	case int64:
		return float64(v)
	case float64:
		return v
	case int:
		return float64(v)
	}
	return 0
}
