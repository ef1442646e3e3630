// SPDX-License-Identifier: Apache-2.0

// Package descriptor is the one small document in which the two halves of
// Stockade meet: whoever builds a place for untrusted code writes down where
// it is, and the suite reads there what to attack, and what not.
package descriptor

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"sigs.k8s.io/yaml"

	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/infra/atomicfile"
)

// What stands in a descriptor's apiVersion and kind.
const (
	APIVersion = "stockade.dev/v1alpha1"
	Kind       = "Target"
)

// ErrCloud says what is missing on Google Cloud.
var ErrCloud = errors.New("it is on Google Cloud, where there is no range and no witness yet: `stockade run --questions --stack` asks what its API server alone can answer, and `stockade plan-check --stack` judges what a plan can decide")

// Descriptor says where the targets of one cluster are.
type Descriptor struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Kubeconfig is the path of the file that leads to the cluster. The
	// current context of the user is never used.
	Kubeconfig string `json:"kubeconfig"`
	// ClusterUID is the UID of the namespace kube-system. A cluster with
	// another one is not attacked.
	ClusterUID string `json:"clusterUID"`
	// Targets by name, see docs/substrate.md.
	Targets map[string]Target `json:"targets"`
	// Controls is the namespace of the control Pods.
	Controls string `json:"controls"`
	// RangeSocket is the unix socket of the range's log.
	RangeSocket string `json:"rangeSocket"`
	// Probe is the path of the static probe, the one that the control Pods run.
	Probe string `json:"probe"`
	// Seal is the network namespace in which the cluster lives.
	Seal string `json:"seal"`
	// Features are those that the target claims to have. One that is claimed
	// and not found is a breach; one that is not claimed and not found makes
	// its scenarios NotApplicable.
	Features []suite.Feature `json:"features"`
	// Disruptive allows attacks that load or kill, and proofs, which weaken what
	// protects the cluster: throw-away clusters only.
	Disruptive bool `json:"disruptive"`
	// Substrate names versions; DiffersFromGKE says what is not as there.
	Substrate      map[string]string `json:"substrate,omitempty"`
	DiffersFromGKE []string          `json:"differsFromGKE,omitempty"`
}

// Target is one deployment of sandboxes on the cluster: a template and a warm
// pool of Agent Sandbox, or a Pod template and the service that makes Pods of it.
type Target struct {
	Namespace string `json:"namespace"`
	Template  string `json:"template,omitempty"`
	Pool      string `json:"pool,omitempty"`

	PodTemplate string `json:"podTemplate,omitempty"`
	// Service is the namespace and the name of the service's account, and of the
	// Service by which it is asked.
	Service string `json:"service,omitempty"`

	// Gateway is the name of the Service, in Namespace, whose port "mcp" is an
	// MCP server that gives each session a sandbox of the pool; empty is none.
	Gateway string `json:"gateway,omitempty"`
	// Callers is the path of the file that [ReadCallers] reads; empty means that
	// the server asks nobody who they are.
	Callers string `json:"callers,omitempty"`
	// SignIn is the path of the file that [ReadSignIn] reads; empty means that the
	// server takes no ID tokens, or that nobody here can make any.
	SignIn string `json:"signIn,omitempty"`
}

func (t Target) check() error {
	pooled, executed := t.Template != "" && t.Pool != "", t.PodTemplate != "" && t.Service != ""
	switch {
	case t.Namespace == "":
		return errors.New("namespace must be set")
	case pooled == executed, !pooled && t.Template+t.Pool != "", !executed && t.PodTemplate+t.Service != "":
		return errors.New("either template and pool must be set, or podTemplate and service")
	case t.Gateway != "" && !pooled:
		return errors.New("gateway needs template and pool, whose sandboxes its sessions have")
	case t.Callers+t.SignIn != "" && t.Gateway == "":
		return errors.New("callers and signIn need a gateway that could be called")
	}
	return nil
}

// Read reads and checks a descriptor.
func Read(path string) (*Descriptor, error) {
	doc, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("reading the target's descriptor: %w: `stockade up` writes it", err)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the target's descriptor: %w", err)
	}
	d, err := Decode(doc)
	if err != nil {
		return nil, fmt.Errorf("reading the target's descriptor %s: %w; `stockade up` writes it anew", path, err)
	}
	return d, nil
}

// Decode reads and checks a descriptor's text. A field that is not known is an
// error: it may be what somebody relies on.
func Decode(doc []byte) (*Descriptor, error) {
	if IsCloud(doc) {
		return nil, ErrCloud
	}
	var d Descriptor
	if err := yaml.UnmarshalStrict(doc, &d); err != nil {
		return nil, err
	}
	if err := d.check(); err != nil {
		return nil, err
	}
	return &d, nil
}

// Write writes the descriptor as a whole or not at all, so that no run ever
// reads half of one.
func (d Descriptor) Write(path string) error {
	d.APIVersion, d.Kind = APIVersion, Kind
	if err := d.check(); err != nil {
		return fmt.Errorf("writing the target's descriptor: %w", err)
	}
	doc, err := json.MarshalIndent(d, "", "  ")
	if err != nil {
		return fmt.Errorf("writing the target's descriptor: %w", err)
	}
	if err := atomicfile.Write(path, append(doc, '\n'), 0o600); err != nil {
		return fmt.Errorf("writing the target's descriptor: %w", err)
	}
	return nil
}

func (d Descriptor) check() error {
	switch {
	case d.APIVersion != APIVersion || d.Kind != Kind:
		return fmt.Errorf("apiVersion %q and kind %q where %s and %s are expected", d.APIVersion, d.Kind, APIVersion, Kind)
	case d.Kubeconfig == "" || d.ClusterUID == "":
		return errors.New("kubeconfig and clusterUID must be set: they say which cluster may be attacked")
	case d.RangeSocket == "" || d.Seal == "":
		return errors.New("rangeSocket and seal must be set: without them nothing would witness an attack, or hold it back")
	case d.Controls == "" || d.Probe == "":
		return errors.New("controls and probe must be set: without positive controls nothing can be held")
	case len(d.Targets) == 0:
		return errors.New("it names no target")
	}
	for name, t := range d.Targets {
		if err := t.check(); err != nil {
			return fmt.Errorf("target %q: %w", name, err)
		}
	}
	return nil
}

// ReadCallers reads the tokens of those who may authenticate, by name, from a
// file of the form {"NAME": "TOKEN"}. A descriptor holds no secret; such a file
// is one, and is refused when anybody but its owner can read it.
func ReadCallers(path string) (map[string]string, error) {
	text, err := readSecret(path)
	if err != nil {
		return nil, fmt.Errorf("reading the callers' tokens: %w", err)
	}
	callers := map[string]string{}
	// A syntax error would quote the text.
	if err := json.Unmarshal(text, &callers); err != nil {
		return nil, fmt.Errorf("reading the callers' tokens: %s is not of the form {\"NAME\": \"TOKEN\"}", path)
	}
	if len(callers) == 0 {
		return nil, fmt.Errorf("reading the callers' tokens: %s names nobody", path)
	}
	for name, token := range callers {
		if name == "" || token == "" {
			return nil, fmt.Errorf("reading the callers' tokens: %s has an empty name or token", path)
		}
	}
	return callers, nil
}

// maxSecret is more than any file of secrets has, in bytes.
const maxSecret = 1 << 20

// readSecret reads a file that is its owner's alone.
func readSecret(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // read-only
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("%s can be read by others (mode %04o): chmod 600", path, info.Mode().Perm())
	}
	return io.ReadAll(io.LimitReader(f, maxSecret))
}
