// SPDX-License-Identifier: Apache-2.0

package runner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/target"
	"github.com/stockade-dev/stockade/conformance/witness"
	"github.com/stockade-dev/stockade/infra/progress"
)

// Timeouts names the long waits of a run. Zero fields get their default.
type Timeouts struct {
	// Claim is how long a SandboxClaim may take to be bound and ready; 90 s.
	Claim time.Duration
	// Refill is how long a warm pool may take to be whole again before a claim
	// is made all the same; 30 s.
	Refill time.Duration
	// Restart is how long a sandbox may take to come back by itself before a
	// new one is claimed; 6 s.
	Restart time.Duration
	// Listen is how long the listeners may take to listen; 15 s.
	Listen time.Duration
	// Exec is what an exec may take beside the attempts' own time: delivery,
	// start of the probe, transport; 20 s.
	Exec time.Duration
	// Arrive is how long a control's nonce may take to show in the range's log
	// or its flow in Hubble's; 4 s.
	Arrive time.Duration
	// Stragglers is how long the last packets of an attack get to arrive outside;
	// 250 ms.
	Stragglers time.Duration
	// End is how long the API server may take to show a container's end; 10 s.
	End time.Duration
	// Gone is how long an object may take to vanish; 20 s.
	Gone time.Duration
	// Vacate is how long a namespace may take to vanish with all that lives in
	// it; 90 s.
	Vacate time.Duration
	// Release is how long a server may take to take back the sandboxes of
	// sessions that have ended, a hundred at once among them; 90 s.
	Release time.Duration
	// Clean bounds the cleanup at the end, also after a Ctrl-C; 45 s.
	Clean time.Duration
}

func (t Timeouts) filled() Timeouts {
	def := func(d *time.Duration, v time.Duration) {
		if *d <= 0 {
			*d = v
		}
	}
	def(&t.Claim, 90*time.Second)
	def(&t.Refill, 30*time.Second)
	def(&t.Restart, 6*time.Second)
	def(&t.Listen, 15*time.Second)
	def(&t.Exec, 20*time.Second)
	def(&t.Arrive, 4*time.Second)
	def(&t.Stragglers, 250*time.Millisecond)
	def(&t.End, 10*time.Second)
	def(&t.Gone, 20*time.Second)
	def(&t.Vacate, 90*time.Second)
	def(&t.Release, 90*time.Second)
	def(&t.Clean, 45*time.Second)
	return t
}

// Field is what a run works on: its Pods and what is known of them.
type Field struct {
	// Pods by role; a role that the target lacks is missing.
	Pods map[suite.Role]target.Pod
	// Preloaded are the roles whose image has the probe.
	Preloaded map[suite.Role]bool
	// APIEnv is what scenarios of the API get, and Site also those in a Pod. Nonce
	// and Live are each attempt's own, and empty here.
	suite.APIEnv
	// Aliases maps a Service's "ip:port" to its endpoints: policies are asked
	// after the translation, and drops are seen there.
	Aliases map[string][]string
	// Servers are the nodes of the target's own servers.
	Servers []string
	// AwaitRelease waits until what the sessions of the run had is gone, and tells of
	// what is not; nil where the target keeps no sessions.
	AwaitRelease func(ctx context.Context) (residue []string)
}

// Ground is what a run needs of a cluster. Kube is the real one.
type Ground interface {
	Remover
	// Open claims a sandbox for each of the roles, and finds everything else of the
	// field.
	Open(ctx context.Context, run string, led *Ledger, t Timeouts, sandboxes []suite.Role) (*Field, error)
	// Renew returns the field with every Pod ready: it waits for restarts, and
	// claims anew what does not come back.
	Renew(ctx context.Context, f *Field) (*Field, error)
	// Baseline and Facts are the API server's view of a Pod.
	Baseline(ctx context.Context, p target.Pod) (witness.Baseline, error)
	Facts(ctx context.Context, p target.Pod, since witness.Baseline) (suite.PodFacts, error)
	// Flows returns the newest Hubble flows of a node, oldest first.
	Flows(ctx context.Context, node string) ([]witness.Flow, error)
	// Detect says whether the target has a feature. Only "not found" means
	// that it has not; anything else is an error.
	Detect(ctx context.Context, f *Field, feature suite.Feature) (bool, error)
	// Substrate tells what the run ran on.
	Substrate(ctx context.Context, f *Field) map[string]string
}

// Options of [Execute].
type Options struct {
	Ground  Ground
	Carrier target.Carrier
	// Probe is the static probe, for Pods whose image lacks it.
	Probe []byte
	// Scenarios to run, those of a profile or some of them.
	Scenarios []*suite.Scenario
	// Profile is the id of the profile that they are of.
	Profile string
	// Enforcement, where it is set, is the scenario that shows that the target's
	// network policies are enforced. It runs, whether it was selected or not, if
	// any other scenario that applies rests on the network; where it does not
	// hold, none of them does.
	Enforcement *suite.Scenario
	// TargetName is what is attacked: a name of the descriptor's, a mutant's id,
	// or "template/" with the name of a user's own template.
	TargetName string
	// Cluster is the UID that the target's descriptor gives of the cluster's
	// kube-system namespace. Another cluster is refused.
	Cluster string
	// Declared are the features that the descriptor says the target has.
	Declared []suite.Feature
	// Range is the range's log.
	Range witness.Range
	// Seal proves, before the first packet, that attacks cannot leave. It may be nil
	// where all scenarios are questions to the API server.
	Seal func(ctx context.Context) error
	// LedgerDir is where ledgers are kept.
	LedgerDir string
	// Substrate is added to what the ground tells; Differs names what differs
	// from real GKE.
	Substrate map[string]string
	Differs   []string
	Timeouts  Timeouts
	Progress  *progress.Reporter

	// enforcementAdded is true where nobody selected that scenario.
	enforcementAdded bool
}

const (
	// maxParallel is how many attempts run at once in a Pod.
	maxParallel = 16
	// maxRounds is how often a scenario may be tried.
	maxRounds = 3
)

func (o *Options) check() error {
	switch {
	case o.Ground == nil || o.Carrier == nil:
		return errors.New("no cluster was given; `stockade up` makes one")
	case len(o.Scenarios) == 0:
		return errors.New("no scenario was selected; `stockade list` shows them")
	case o.Cluster == "":
		return errors.New("the target's descriptor does not name its cluster; `stockade up` writes it anew")
	case o.LedgerDir == "":
		return errors.New("no folder for the ledger was given")
	}
	if o.Seal == nil {
		for _, s := range o.Scenarios {
			if !s.Question() {
				return fmt.Errorf("no proof of the seal was given, and %s is more than a question to the API server: attacks are not sent where they could leave the machine", s.ID)
			}
		}
	}
	o.addEnforcement()
	o.Timeouts = o.Timeouts.filled()
	return nil
}

func (o *Options) addEnforcement() {
	if o.Enforcement == nil || !slices.ContainsFunc(o.Scenarios, networked) ||
		slices.ContainsFunc(o.Scenarios, func(s *suite.Scenario) bool { return s.ID == o.Enforcement.ID }) {
		return
	}
	o.enforcementAdded = true
	o.Scenarios = append(slices.Clone(o.Scenarios), o.Enforcement)
	slices.SortFunc(o.Scenarios, func(a, b *suite.Scenario) int { return strings.Compare(a.ID, b.ID) })
}

// networked tells whether a scenario's verdict is one on the network: whether
// the range or the data plane is its witness.
func networked(s *suite.Scenario) bool {
	return requires(s, suite.RangeLog) || requires(s, suite.Flows)
}
