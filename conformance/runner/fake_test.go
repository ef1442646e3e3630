// SPDX-License-Identifier: Apache-2.0

package runner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stockade-dev/stockade/conformance/probe"
	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/target"
	"github.com/stockade-dev/stockade/conformance/target/faketarget"
	"github.com/stockade-dev/stockade/conformance/verdict"
	"github.com/stockade-dev/stockade/conformance/witness"
	"github.com/stockade-dev/stockade/workloads/range/rangeclient"
)

// ground is a cluster without a cluster.
type ground struct {
	mu        sync.Mutex
	cluster   string
	openErr   error
	renewErr  error
	features  map[suite.Feature]bool
	detect    error
	facts     suite.PodFacts
	flows     []witness.Flow
	objects   map[Ref]string // by owner's run
	stuck     map[Ref]bool
	led       *Ledger
	claimed   []suite.Role
	furnish   func(*Field)              // adds to the field
	elsewhere map[string][]witness.Flow // of other nodes than the sandboxes'
}

func newGround() *ground {
	return &ground{cluster: "uid-1", facts: suite.PodFacts{ExitCode: -1}, objects: map[Ref]string{}}
}

func (g *ground) Cluster(context.Context) (string, error) { return g.cluster, nil }

func (g *ground) Open(_ context.Context, run string, led *Ledger, _ Timeouts, sandboxes []suite.Role) (*Field, error) {
	g.led, g.claimed = led, sandboxes
	ref := Ref{APIVersion: "v1", Kind: "SandboxClaim", Namespace: "ns", Name: "stockade-" + run}
	if err := led.Creating(ref); err != nil {
		return nil, err
	}
	g.mu.Lock()
	g.objects[ref] = run
	g.mu.Unlock()
	if g.openErr != nil {
		return nil, g.openErr
	}
	pod := func(name, ip string) target.Pod {
		return target.Pod{Namespace: "ns", Name: name, UID: "u-" + name, Node: "node", IP: ip}
	}
	boxes := map[suite.Role]target.Pod{suite.Sandbox: pod("box", "10.0.0.1"), suite.Sibling: pod("sibling", "10.0.0.2")}
	f := &Field{
		Pods: map[suite.Role]target.Pod{
			suite.Control: pod("control", "10.0.0.3"), suite.Router: pod("router", "10.0.0.4"),
		},
		Preloaded: map[suite.Role]bool{suite.Control: true, suite.Router: true},
		APIEnv: suite.APIEnv{
			Namespace: "ns", Site: probe.Site{Own: "10.0.0.1", ListenPort: 47321, PublicTCP: "203.0.113.7:8080"},
		},
	}
	for _, role := range sandboxes {
		f.Pods[role] = boxes[role]
	}
	if g.furnish != nil {
		g.furnish(f)
	}
	return f, nil
}

func (g *ground) Renew(_ context.Context, f *Field) (*Field, error) { return f, g.renewErr }

func (g *ground) Baseline(context.Context, target.Pod) (witness.Baseline, error) {
	return witness.Baseline{UID: "u-box"}, nil
}

func (g *ground) Facts(context.Context, target.Pod, witness.Baseline) (suite.PodFacts, error) {
	return g.facts, nil
}

func (g *ground) Flows(_ context.Context, node string) ([]witness.Flow, error) {
	if node == "node" {
		return g.flows, nil
	}
	return g.elsewhere[node], nil
}

func (g *ground) Detect(_ context.Context, _ *Field, f suite.Feature) (bool, error) {
	return g.features[f], g.detect
}

func (g *ground) Substrate(context.Context, *Field) map[string]string {
	return map[string]string{"node": "fake"}
}

func (g *ground) Labelled(context.Context) ([]Owned, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	var out []Owned
	for ref, run := range g.objects {
		out = append(out, Owned{ref, run})
	}
	return out, nil
}

func (g *ground) Remove(_ context.Context, run string, ref Ref) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.stuck[ref] {
		return errors.New("a finalizer holds it")
	}
	if g.objects[ref] == run {
		delete(g.objects, ref)
	}
	return nil
}

// rangeLog is a range without a network.
type rangeLog struct {
	mu     sync.Mutex
	events []rangeclient.Event
	err    error
}

func (r *rangeLog) arrive(nonce string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, rangeclient.Event{Seq: uint64(len(r.events) + 1), Dst: "203.0.113.7:8080", Nonces: []string{nonce}})
}

func (r *rangeLog) Mark(context.Context) (rangeclient.Mark, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return rangeclient.Mark{Seq: uint64(len(r.events))}, r.err
}

func (r *rangeLog) Since(_ context.Context, m rangeclient.Mark, _ string) ([]rangeclient.Event, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]rangeclient.Event(nil), r.events[m.Seq:]...), r.err
}

// world is a whole run's surroundings.
type fakes struct {
	ground  *ground
	carrier *faketarget.Carrier
	log     *rangeLog
	o       Options
}

// setup returns a run of scenarios in which everybody is honest: what each
// action returns is what its sandbox sends.
func setup(t *testing.T, scenarios ...suite.Scenario) *fakes {
	t.Helper()
	reg := &suite.Registry{}
	for _, s := range scenarios {
		require.NoError(t, reg.Add(s))
	}
	f := &fakes{ground: newGround(), carrier: &faketarget.Carrier{}, log: &rangeLog{}}
	for _, pod := range []string{"box", "sibling", "control", "router"} {
		f.carrier.Set(pod, faketarget.Honest(reg.Find))
	}
	f.o = Options{
		Ground: f.ground, Carrier: f.carrier, Probe: []byte("\x7fELF"), Scenarios: reg.All(),
		TargetName: "reference", Cluster: "uid-1", Range: f.log, LedgerDir: t.TempDir(),
		Seal: func(context.Context) error { return nil },
		Timeouts: Timeouts{Exec: 600 * time.Millisecond, Arrive: 60 * time.Millisecond, Stragglers: time.Millisecond,
			End: 50 * time.Millisecond, Listen: 300 * time.Millisecond},
	}
	return f
}

func (f *fakes) run(t *testing.T) *Run {
	t.Helper()
	run, err := Execute(t.Context(), f.o)
	require.NoError(t, err)
	return run
}

// scenario is a declaration that registers; act is the attack.
func scenario(id string, act probe.Action) suite.Scenario {
	return suite.Scenario{
		ID: id, Title: "Try it", About: "A test.", Claims: []string{"AS-01"}, Kind: suite.Guarantee, Severity: suite.High,
		Attack: act, Control: suite.ControlSpec{Act: worked, Why: "it must work elsewhere"},
		Accept: []verdict.Class{verdict.Dropped, verdict.Killed}, Mutants: []string{"some-mutant"},
		Timeout: 200 * time.Millisecond,
	}
}

func denied(context.Context, *probe.Env) []verdict.Step {
	return []verdict.Step{{Name: "try", Class: verdict.Dropped}}
}

func worked(context.Context, *probe.Env) []verdict.Step {
	return []verdict.Step{{Name: "try", OK: true}}
}

func reaching(log *rangeLog, ok bool) probe.Action {
	return func(_ context.Context, env *probe.Env) []verdict.Step {
		log.arrive(env.Nonce)
		return []verdict.Step{{Name: "try", OK: ok, Class: verdict.Dropped}}
	}
}

func only(t *testing.T, run *Run) Outcome {
	t.Helper()
	require.Len(t, run.Outcomes, 1)
	return run.Outcomes[0]
}

func said(o Outcome) string {
	return fmt.Sprintf("%s %s: %s", o.Result.Verdict(), o.Result.Reason(), o.Result.Detail())
}

type writer = io.Writer

// flow parses a line of Hubble's export with T as the present time.
func flow(t *testing.T, line string, now time.Time) witness.Flow {
	t.Helper()
	line = strings.ReplaceAll(line, `"T"`, `"`+now.UTC().Format(time.RFC3339Nano)+`"`)
	flows, strange, err := witness.ParseFlows(strings.NewReader(line))
	require.NoError(t, err)
	require.Zero(t, strange)
	require.Len(t, flows, 1)
	return flows[0]
}
