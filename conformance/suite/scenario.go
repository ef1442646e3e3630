// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/stockade-dev/stockade/conformance/probe"
	"github.com/stockade-dev/stockade/conformance/verdict"
)

// Role says in which place an action runs.
type Role string

// The roles. All but API are Pods; API is the runner itself, talking to the API
// server as a tenant would.
const (
	// Sandbox is the target: a claimed Pod of the template under test.
	Sandbox Role = "sandbox"
	// Sibling is a second sandbox of the same template, another session.
	Sibling Role = "sibling"
	// Control is an unrestricted peer: runc, privileged, no network policy.
	Control Role = "control"
	// Router is a Pod with the label, and in the namespace, of the one whom the
	// target's policy lets in: the Sandbox Router, or the target's own server.
	Router Role = "router"
	// Impostor is a Pod with the same label in another namespace.
	Impostor Role = "impostor"
	// ClientPod is a Pod of a namespace whose Pods may call the target's server.
	ClientPod Role = "client"
	// API is the API server's front door.
	API Role = "api"
)

// Kind of a claim (claims.md).
type Kind string

// The kinds of claim.
const (
	Guarantee Kind = "guarantee"
	Limit     Kind = "limit"
	Function  Kind = "function"
)

// Severity of a breach.
type Severity string

// The severities.
const (
	Critical Severity = "critical"
	High     Severity = "high"
	Medium   Severity = "medium"
	Low      Severity = "low"
)

// Feature is something that a target has or lacks. A scenario that needs a
// feature is NotApplicable only when the target's descriptor declares it
// absent and detection agrees.
type Feature string

// The features.
const (
	GVisor    Feature = "gvisor"
	IPv6      Feature = "ipv6"
	Admission Feature = "admission-policy"
	WarmPool  Feature = "warm-pool"
	// PodNetwork: the sandboxes have a network that only a policy closes.
	PodNetwork Feature = "pod-network"
	// PodSecurity: the sandboxes' namespace has a level of Pod Security, which also
	// looks at Pods that nobody's policy for sandboxes speaks of.
	PodSecurity Feature = "pod-security"
	// RunIdentity: every program has an identity of the server's for as long as
	// it runs, from a metadata server of the target's own.
	RunIdentity Feature = "run-identity"
)

// ofSandbox tells whether a running sandbox tells of the feature.
func (f Feature) ofSandbox() bool {
	return f == GVisor || f == IPv6 || f == PodNetwork || f == RunIdentity
}

// NoNetworkHandler is what our own nodes call gVisor with its networking off.
const NoNetworkHandler = "runsc-no-network"

// IsGVisor tells whether containerd knows gVisor by this name of a runtime
// handler: "runsc" is upstream's own, "gvisor" is GKE's. The name of a
// RuntimeClass is free and proves nothing; the handler is what the node's
// containerd looks up.
func IsGVisor(handler string) bool {
	return handler == "runsc" || handler == "gvisor" || handler == NoNetworkHandler
}

// The witnesses that a scenario can require.
const (
	// RangeLog: the range saw the control's nonce and not the attack's.
	RangeLog = "range-log"
	// Flows: Hubble has a drop with a policy reason for each of the attack's
	// destinations, and no packet that was let through.
	Flows = "flows"
	// APIServer: the API server's own state (Pod status, RuntimeClass).
	APIServer = "api-server"
	// Cgroup: the node's cgroup numbers for the sandbox's Pod.
	Cgroup = "cgroup"
)

// Flow is the network flow that an attack causes, for the Flows witness.
type Flow struct {
	// To returns every destination of the attack: "ip:port" for TCP,
	// "ip:port/udp", "ip/icmp" for echo requests, "*:port/udp" for that port of
	// any address, or "ip" for all that is sent there. A policy must be seen to
	// drop a packet to each of them, and a packet to any of them that was let
	// through is a breach. Addresses behind a Service are added by the runner.
	To func(probe.Site) []string
	// From is the role whose Pod address the flow comes from, default From
	// of the scenario.
	From Role
	// Servers says that the destinations are the target's own servers, whose
	// policies look at what comes in: the flows of their nodes are read as well,
	// a packet has got through only where it was delivered, and a drop counts only
	// there.
	Servers bool
}

// Reading is what the runner collects outside for the witnesses with numbers.
type Reading struct {
	// Before and After are the Pod's cgroup numbers around the attempt, keyed
	// by file name ("memory.max_usage_in_bytes", "cpuacct.usage",
	// "pids.max", ...), in the file's own units (bytes, ns, tasks).
	// A missing file is a missing key, never zero.
	Before, After map[string]float64
	// Elapsed is the time between the two.
	Elapsed time.Duration
	Site    probe.Site
	// Pod is the API server's view of the target after the attempt.
	Pod PodFacts
}

// PodFacts is what the API server says of a sandbox Pod.
type PodFacts struct {
	RuntimeClass string // spec.runtimeClassName
	Handler      string // that RuntimeClass's handler
	Node         string
	Phase        string
	// Restarts is the container's restart count minus that at the beginning.
	Restarts int
	// ExitCode and ExitReason are those of the last termination, if any since
	// the attempt began; ExitCode is -1 otherwise.
	ExitCode   int
	ExitReason string
	// EvictedFor is the Pod's eviction reason, if it was evicted.
	EvictedFor string

	// Declared is true when the fields below were read out of the live Pod's spec.
	// They are about all of its containers, init and ephemeral ones included.
	Declared bool
	// Volumes are the Pod's, as "kind:name" ("emptyDir:scratch"), the kind by
	// its name in the API.
	Volumes []string
	// Env are the names of the variables that the spec sets. EnvFrom is where their
	// values come from when they do not stand in the spec: "secret:NAME",
	// "configMap:NAME", or "file:VOLUME".
	Env, EnvFrom []string
	// Writable are the paths of mounts that are not read-only, and of disks.
	Writable []string
	// InMemory has the paths at which every container that mounts something there
	// mounts an emptyDir in memory, with the largest size limit that one of these
	// declares, in bytes; 0 is no limit.
	InMemory map[string]int64
	// ReadOnlyRoot is true when every root file system is read-only.
	ReadOnlyRoot bool
	// Args are the words of the commands and arguments that the spec sets. They
	// may hold a secret, which must get into no statement.
	Args []string
	// Privileges are what the spec lets a container do beyond an ordinary user:
	// become another user by a set-user-id program, use capabilities, be root.
	Privileges []string
	// ServiceLinks is true when the kubelet puts the Services of the namespace into
	// the containers' environment.
	ServiceLinks bool
}

// Witness declares a witness that must speak for Held.
type Witness struct {
	Name string
	// Read judges a Reading (Cgroup and APIServer). It is a pure function.
	// RangeLog and Flows have one reading for all, in package witness.
	Read func(Reading) verdict.Statement
	Flow *Flow
}

// PolicyDrop is the witness that a policy dropped a packet to each of the
// destinations that to returns (as [Flow.To] spells them), and let none through.
// An empty one, which the site does not have, is left out.
func PolicyDrop(to func(probe.Site) []string) Witness {
	return Witness{Name: Flows, Flow: &Flow{To: func(s probe.Site) []string {
		return slices.DeleteFunc(slices.Clone(to(s)), func(place string) bool { return place == "" })
	}}}
}

// NothingOut are the two outside witnesses of destinations that the range plays:
// nothing of the attack arrived there, and a policy dropped it on the way.
func NothingOut(to func(probe.Site) []string) []Witness {
	return []Witness{{Name: RangeLog}, PolicyDrop(to)}
}

// ControlSpec is the positive control: the same action where it must work.
type ControlSpec struct {
	// At is where it runs; default Control.
	At Role
	// Act is what it does; nil means the attack itself.
	Act probe.Action
	// Why says in one sentence what the control proves. Required.
	Why string
}

// Object is a Kubernetes object as JSON has it.
type Object = map[string]any

// Answer is the API server's answer to one request.
type Answer struct {
	Code    int // HTTP status; 0 when there was no answer
	Reason  string
	Message string
	Object  Object
}

// Client is what an API scenario may do, in its own namespace, as a tenant.
type Client interface {
	// Create sends obj; dryRun asks for admission without storing.
	Create(ctx context.Context, obj Object, dryRun bool) (Answer, error)
	// Update replaces an object of the run's own. It is a dry run always: what
	// passed admission must not come into being.
	Update(ctx context.Context, obj Object) (Answer, error)
	Get(ctx context.Context, apiVersion, kind, name string) (Answer, error)
	Delete(ctx context.Context, apiVersion, kind, name string) (Answer, error)
}

// APIEnv is what an API action gets.
type APIEnv struct {
	Nonce string
	API   Client
	// Namespace is where the target's sandboxes live. Objects are created
	// there, and everything not a dry run goes through the runner's ledger.
	Namespace string
	// Sandbox is a compliant Sandbox object of the target's own template, to
	// be varied; the caller gets a fresh copy each time.
	Sandbox func() Object
	// Pod is a compliant Pod of the target's own template.
	Pod  func() Object
	Site probe.Site

	// Live is the name of a running sandbox of the target, for scenarios that say
	// that they need one; empty for the others.
	Live string
	// Components are the namespaces of the target's own programs, Controls is
	// that of the suite's control Pods.
	Components []string
	Controls   string
	// Account is the namespace and the name of the service account that Service
	// stands for; empty where the target has no service of its own.
	Account string
	// Do sends one request as somebody. Whatever would change something is a
	// dry run.
	Do func(ctx context.Context, as Identity, r Request) (Answer, error)
	// Execute runs a program as the target's users do, through its execution
	// service; nil where it has none.
	Execute func(ctx context.Context, p Program) (Execution, error)

	SessionServer
}

// SessionServer is a target's server that keeps sessions, as an API action gets it.
// All is nil and empty where the target has none.
type SessionServer struct {
	// Open begins a session as somebody: a name of Callers is that caller, "" is
	// nobody, who where callers do not authenticate is the server's one user,
	// and anything else is sent as a bearer token.
	Open func(ctx context.Context, caller string) (Session, error)
	// Callers are those who may authenticate; none where nobody has to.
	Callers []string
	// SignIn is how ID tokens are made that the server takes; nil where it takes
	// none.
	SignIn *SignIn
	// Token is a caller's, for attacks on how tokens are compared. It must get
	// into no step.
	Token func(caller string) string
	// Gateway is the Service of the server, whose port is named mcp.
	Gateway string
	// Send sends one HTTP request to a Pod of a Service of the target's own, by
	// way of the API server: no network policy stands there, and the Pod sees it
	// come from itself.
	Send func(ctx context.Context, service, port string, m Message) (Reply, error)
	// Held lists the sandboxes that a caller has now.
	Held func(ctx context.Context, caller string) ([]Holding, error)
}

// Identity says as whom a request is made.
type Identity string

// The identities.
const (
	// Administrator may read everything.
	Administrator Identity = "administrator"
	// Service is the target's execution service.
	Service Identity = "service"
)

const accountPrefix = "account:"

// AccountIdentity is a service account of the target's namespace, by its name.
func AccountIdentity(name string) Identity { return Identity(accountPrefix + name) }

// Account is the name of the service account that an identity is; ok is false
// where it is none of the target's namespace.
func (i Identity) Account() (name string, ok bool) {
	return strings.CutPrefix(string(i), accountPrefix)
}

// Request is one call of the API server.
type Request struct {
	// Verb is the HTTP verb. PATCH sends Body as a strategic merge patch.
	Verb string
	// Path begins with a slash, and may hold a query.
	Path string
	Body Object
}

// Program is what a user hands to an execution service, or to a server.
type Program struct {
	Language string // "python", "go"
	Source   string
	Stdin    string
	// Header is sent along where the program goes by HTTP.
	Header http.Header
}

// Execution is what the service says of a run.
type Execution struct {
	// Status is the service's own word: ok, error, memory-limit, time-limit,
	// output-limit or killed; of a server also [Refused].
	Status         string
	ExitCode       int
	Stdout, Stderr string
	// UID is the user id that the run's Pod was given; -1 when none was, or when
	// the server does not tell.
	UID int64
}

// APIAction is an attack or control made through the API server.
type APIAction func(ctx context.Context, env *APIEnv) []verdict.Step

// Scenario is one attack, declared in a file of its own under scenarios/.
type Scenario struct {
	// ID is family.kebab-name; it never changes once released.
	ID string
	// Title starts with a verb: "Reach the metadata server".
	Title string
	// About says what is tried and why the accepted denials are right, in a
	// few sentences of Markdown, for the docs page.
	About  string
	Claims []string
	Kind   Kind
	// Techniques are MITRE ATT&CK ids; Refs are advisories or specs.
	Techniques []string
	Refs       []string
	Severity   Severity
	Needs      []Feature

	// From is where the attack runs; default Sandbox.
	From Role
	// Attack runs in a Pod; Ask runs through the API server. Exactly one.
	Attack probe.Action
	Ask    APIAction
	// Control, for attacks in a Pod; AskControl for API scenarios.
	Control    ControlSpec
	AskControl APIAction
	Params     map[string]string

	// Judge is asked by the runner, outside of the sandbox, for what the steps
	// of an attempt of the attack amount to, where more is known than the
	// attacker's word: what work must have printed, for the nonce that it was
	// given. Nil leaves the steps as they are. It is a pure function of what is
	// hostile: no step has to be there, or to be what the attack would send.
	Judge     func(nonce string, steps []verdict.Step) []verdict.Step
	Accept    []verdict.Class
	Witnesses []Witness
	// Attempts is how often the attack is made in each round; 0 means 1, and
	// network scenarios say 2.
	Attempts int
	// Listener asks for listeners on Site.ListenPort while it runs.
	Listener bool
	// Server says that the API actions call a server of the target's own, or have it
	// run programs: they get the means only then ([APIEnv]'s Execute and
	// [SessionServer]). Those that are made As somebody do so too.
	Server bool
	// SelfReported says that the verdict goes by what programs printed which the
	// target's server ran in its sandboxes, and by the word of nobody else.
	SelfReported bool
	// Stores says that the API actions store objects, of which Pods may start: those
	// of the others can only ask for dry runs.
	Stores bool
	// Warm says that they take sandboxes out of the target's pool, which has to be
	// whole; the run's own do not count.
	Warm bool
	// Live says that the API actions need a running sandbox ([APIEnv]'s Live). Where
	// no scenario of a run has a use for one, none is claimed.
	Live bool
	// As names the callers as whom it opens sessions. No two scenarios are the
	// same caller at the same time, since a user may have only so many sandboxes;
	// where nobody authenticates, all callers are one.
	As []string
	// Exclusive scenarios run alone, after all others: they load the sandbox, or
	// measure. One that has no use for the run's sandboxes may be made while one of
	// them comes back.
	Exclusive bool
	// MayKill marks attacks whose expected end is the sandbox's own death: an
	// outside fact (the container's exit) may stand in for the completion
	// frame. They run after all that need the sandbox as it is.
	MayKill bool
	// Timeout bounds one attempt; 0 means 10 s.
	Timeout time.Duration

	// Target restricts the scenario to deployments of one kind; empty means the
	// hardened ones. "seed" is those that leave their network to the
	// controller's default policy.
	Target string

	// Mutants are the overlays under overlays/mutants that this scenario must
	// report as Breached.
	Mutants []string
}

// Sandboxes are the run's sandboxes that the scenario has a use for: both where it
// is made in a Pod, where it listens and where a witness is asked, and one where the
// API server is asked about one that runs, or one tells whether a feature is there.
func (s *Scenario) Sandboxes() []Role {
	switch {
	case s.Attack != nil || s.Listener || len(s.Witnesses) > 0:
		return []Role{Sandbox, Sibling}
	case s.Live || slices.ContainsFunc(s.Needs, Feature.ofSandbox):
		return []Role{Sandbox}
	}
	return nil
}

// Question tells whether the scenario asks the API server and nothing else: it sends
// no attack traffic, runs no program and stores nothing but the sandbox that it may
// have to look at, so that it may be asked where nobody watches what leaves.
func (s *Scenario) Question() bool {
	return s.Ask != nil && !s.Calls() && !s.Stores && !s.Exclusive && !s.MayKill && !s.Listener && len(s.Witnesses) == 0
}

// Calls tells whether the scenario calls a server of the target's own.
func (s *Scenario) Calls() bool { return s.Server || len(s.As) > 0 }

// ProbeOnly tells whether the verdict rests on the word of code in a sandbox alone: of
// the probe, or of programs that a server ran there, and no witness has to speak for
// it. What the API server or the target's own server answers, the runner hears itself.
func (s *Scenario) ProbeOnly() bool {
	return (s.Attack != nil || s.SelfReported) && len(s.Witnesses) == 0
}
