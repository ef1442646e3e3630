// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/blang/semver"
	"github.com/pulumi/pulumi/sdk/v3/go/property"
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi/policyx"

	"github.com/stockade-dev/stockade/conformance/plan"
	"github.com/stockade-dev/stockade/conformance/verdict"
)

// Name is the pack's, as Pulumi shows it.
const Name = "stockade"

// early is the name of the policy that sees each resource before it is made.
const early = "plan.early"

// wholeGraph are the rules that may call a sound program's single resource
// broken, because what they miss is another resource. Every other rule is judged
// on single resources, too.
var wholeGraph = []string{"plan.egress-firewall", "plan.gvisor-pool", "plan.restricted-dns", "plan.system-pool"}

// alone are the rules that one resource can break by itself.
func alone() (out []*plan.Rule) {
	for _, r := range plan.Rules() {
		if !slices.Contains(wholeGraph, r.ID) {
			out = append(out, r)
		}
	}
	return out
}

// Pack makes the policy pack for the stack that Pulumi is about to work on. An
// error names the environment that it does not know.
func Pack(ctx *pulumi.Context) (policyx.PolicyPack, error) {
	var policies []policyx.Policy
	set, err := readSettings(ctx)
	if err != nil {
		return nil, err
	}
	if set.profile.Name != "" {
		policies = newJudge(set, ctx.DryRun()).policies()
	}
	pack, err := policyx.NewPolicyPack(Name, semver.MustParse("0.1.0"), policyx.EnforcementLevelMandatory, policies)
	if err != nil {
		return nil, fmt.Errorf("making the policy pack: %w", err)
	}
	return pack, nil
}

// settings are what the pack reads of a stack's configuration.
type settings struct {
	// profile is empty where there is nothing to judge.
	profile plan.Profile
	// dryRun: the perimeter is declared to be one that only logs.
	dryRun bool
}

func readSettings(ctx *pulumi.Context) (settings, error) {
	get := func(key string) string { v, _ := ctx.GetConfig("stockade:" + key); return v }
	environment := get("environment")
	if environment == "" {
		environment = ctx.Stack()
	}
	p, ok := plan.Profiles[environment]
	switch {
	case environment == "dev":
		return settings{}, nil
	case !ok:
		return settings{}, fmt.Errorf("making the policy pack: stockade:environment is %.60q: it must be dev or one of %s",
			environment, strings.Join(slices.Sorted(maps.Keys(plan.Profiles)), ", "))
	}
	p.ThrowAway = get("throwAway") == "true"
	p.Workloads = get("controllerImage") != ""
	return settings{profile: p, dryRun: p.Perimeter && get("perimeterEnforced") != "true"}, nil
}

// judge gathers what a program asks for, and judges it.
type judge struct {
	settings
	preview bool

	mu sync.Mutex
	// seen are the inputs of each resource, by URN.
	seen map[string]plan.Resource
}

func newJudge(s settings, preview bool) *judge {
	return &judge{settings: s, preview: preview, seen: map[string]plan.Resource{}}
}

// policies are one for single resources, and one for each rule over all of them.
func (j *judge) policies() []policyx.Policy {
	out := []policyx.Policy{policyx.NewResourceValidationPolicy(early, policyx.ResourceValidationPolicyArgs{
		Description:      "A resource must not break a guarantee by itself",
		EnforcementLevel: policyx.EnforcementLevelMandatory,
		ValidateResource: j.one,
	})}
	for _, r := range plan.Rules() {
		about := fmt.Sprintf("%s (%s)", r.Title, strings.Join(r.Claims, ", "))
		if len(r.Claims) == 0 {
			about = r.Title
		}
		out = append(out,
			policyx.NewStackValidationPolicy(r.ID, policyx.StackValidationPolicyArgs{
				Description: about, EnforcementLevel: policyx.EnforcementLevelMandatory,
				ValidateStack: func(_ context.Context, args policyx.StackValidationArgs) error {
					j.all(r, args, true)
					return nil
				},
			}),
			policyx.NewStackValidationPolicy(r.ID+".notice", policyx.StackValidationPolicyArgs{
				Description: about, EnforcementLevel: policyx.EnforcementLevelAdvisory,
				ValidateStack: func(_ context.Context, args policyx.StackValidationArgs) error {
					j.all(r, args, false)
					return nil
				},
			}))
	}
	return out
}

// one keeps the inputs of a resource, and judges what it may break by itself.
func (j *judge) one(_ context.Context, args policyx.ResourceValidationArgs) error {
	r := asked(args.Resource)
	j.mu.Lock()
	j.seen[args.Resource.URN] = r
	j.mu.Unlock()
	for _, rule := range alone() {
		f := rule.Check(plan.Graph{Resources: []plan.Resource{r}}, j.profile, time.Now())
		if f.Result.Verdict() == verdict.Breached && j.mandatory(f) {
			args.Manager.ReportViolation(describe(f), args.Resource.URN)
		}
	}
	return nil
}

// all judges the graph by one rule, and reports either what stops an update or
// what is only shown.
func (j *judge) all(rule *plan.Rule, args policyx.StackValidationArgs, mandatory bool) {
	f := rule.Check(j.graph(args.Resources), j.profile, time.Now())
	switch f.Result.Verdict() {
	case verdict.Held, verdict.NotApplicable:
		return
	default:
	}
	if j.mandatory(f) == mandatory {
		args.Manager.ReportViolation(describe(f), "")
	}
}

// mandatory tells whether a finding that is not good stops the update.
func (j *judge) mandatory(f plan.Finding) bool {
	if f.Rule.ID == "plan.perimeter-enforced" && j.dryRun {
		return false
	}
	// NotRun cannot be; if it were, it would not be a pass.
	return f.Result.Verdict() != verdict.Inconclusive || !j.preview
}

// graph is what the program asked for. Of a resource that was not registered
// this time only the outputs are known, and they are another matter.
func (j *judge) graph(resources []policyx.AnalyzerResource) plan.Graph {
	j.mu.Lock()
	defer j.mu.Unlock()
	var g plan.Graph
	for _, r := range resources {
		seen, ok := j.seen[r.URN]
		if !ok {
			g.Partial = fmt.Sprintf("this update leaves out %s", r.URN)
			continue
		}
		g.Resources = append(g.Resources, seen)
	}
	// Pulumi gives them in any order; evidence is to be the same each time.
	slices.SortFunc(g.Resources, func(a, b plan.Resource) int {
		return strings.Compare(a.Type+"\x00"+a.Name, b.Type+"\x00"+b.Name)
	})
	return g
}

// describe says what was found: the weaknesses, or else why it cannot be told.
func describe(f plan.Finding) string {
	var lines []string
	for _, a := range f.Evidence.Attempts {
		for _, s := range a.Steps {
			if s.OK {
				lines = append(lines, s.Name+": "+s.Detail)
			}
		}
	}
	if len(lines) == 0 {
		lines = append(lines, f.Result.Detail())
		for _, a := range f.Evidence.Attempts {
			for _, s := range a.Steps {
				if s.Class == verdict.Unknown {
					lines = append(lines, s.Name+": "+s.Detail)
				}
			}
		}
	}
	const most = 5
	if n := len(lines); n > most {
		lines = append(lines[:most], fmt.Sprintf("and %d more", n-most))
	}
	return fmt.Sprintf("%s: %s\n%s", f.Rule.ID, f.Result.Verdict(), strings.Join(lines, "\n"))
}

func asked(r policyx.AnalyzerResource) plan.Resource {
	inputs := map[string]any{}
	for k, v := range r.Properties.All {
		// Pulumi keeps for itself what begins with two underscores.
		if !strings.HasPrefix(k, "__") {
			inputs[k] = value(v)
		}
	}
	return plan.Resource{Type: r.Type, Name: r.Name, Inputs: inputs}
}

// value turns Pulumi's values into those of a graph. A secret is unknown, so
// that no message can ever quote it.
func value(v property.Value) any {
	switch {
	case v.Secret():
		return plan.Unknown{}
	case v.IsNull():
		return nil
	case v.IsBool():
		return v.AsBool()
	case v.IsNumber():
		return v.AsNumber()
	case v.IsString():
		return v.AsString()
	case v.IsArray():
		out := []any{}
		for _, x := range v.AsArray().All {
			out = append(out, value(x))
		}
		return out
	case v.IsMap():
		out := map[string]any{}
		for k, x := range v.AsMap().All {
			out[k] = value(x)
		}
		return out
	}
	// Computed, an asset, a reference to another resource.
	return plan.Unknown{}
}
