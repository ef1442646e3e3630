// SPDX-License-Identifier: Apache-2.0

package standin

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/stockade-dev/stockade/infra/atomicfile"
)

// Options are what a project has before a program runs.
type Options struct {
	// Dir is the folder of the state and the journal. It must exist.
	Dir string
	// Project is the id of the only project; empty means "example-project".
	Project string
	// Number is the project's number; empty means "100000000001".
	Number string
	// Endpoint, DNSEndpoint and CACertificate (PEM in base64) are what every
	// cluster gets as its own, so that a Kubernetes provider can be led to a
	// real API server. Empty means addresses that lead nowhere.
	Endpoint, DNSEndpoint, CACertificate string
}

// The files in Options.Dir.
const (
	stateFile   = "cloud.json"
	journalFile = "journal.ndjson"
)

// Cloud is the stand-in's project. It is safe for concurrent use.
type Cloud struct {
	opts   Options
	schema *Schema

	mu     sync.Mutex
	state  state
	faults []*Fault
	region string // of the provider's configuration
}

// state is what is kept on disk.
type state struct {
	// Serial counts what was ever made.
	Serial int `json:"serial"`
	// Resources are those that exist, by type and id.
	Resources map[string]*record `json:"resources"`
	// Services are the APIs that are switched on. They stay on when a program
	// lets go of them without switching them off.
	Services map[string]bool `json:"services"`
	// Pools are the workload identity pools. One comes with the first cluster
	// that names it, and stays.
	Pools map[string]bool `json:"pools"`
}

// record is one resource as the cloud has it.
type record struct {
	Type string `json:"type"`
	ID   string `json:"id"`
	// URN is the engine's name for it, for the journal's reader alone.
	URN string `json:"urn"`
	// Serial tells a resource from an earlier one of the same id.
	Serial int `json:"serial"`
	// Inputs are what was asked for, defaults included. What Google computes
	// follows from them and is not stored.
	Inputs values `json:"inputs"`
}

// Resource is what a test sees of a resource.
type Resource struct {
	Type, ID, URN string
	Inputs        map[string]any
}

// Name is the logical name in the program.
func (r Resource) Name() string { return nameOf(r.URN) }

func nameOf(urn string) string { return urn[strings.LastIndex(urn, "::")+len("::"):] }

// Open returns the cloud of a folder: a new one, or what an earlier process
// left there.
func Open(schema *Schema, o Options) (*Cloud, error) {
	if o.Project == "" {
		o.Project = "example-project"
	}
	if o.Number == "" {
		o.Number = "100000000001"
	}
	c := &Cloud{opts: o, schema: schema, state: state{
		Resources: map[string]*record{}, Services: map[string]bool{}, Pools: map[string]bool{},
	}}
	raw, err := os.ReadFile(filepath.Join(o.Dir, stateFile))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return c, nil
	case err != nil:
		return nil, fmt.Errorf("opening the stand-in cloud: %w", err)
	}
	if err := json.Unmarshal(raw, &c.state); err != nil {
		return nil, fmt.Errorf("opening the stand-in cloud: %w", err)
	}
	return c, nil
}

// save writes the state so that a reader sees the old or the new one, whole.
func (c *Cloud) save() error {
	raw, err := json.MarshalIndent(c.state, "", "  ")
	if err != nil {
		return fmt.Errorf("keeping the stand-in cloud: %w", err)
	}
	if err := atomicfile.Write(filepath.Join(c.opts.Dir, stateFile), raw, 0o600); err != nil {
		return fmt.Errorf("keeping the stand-in cloud: %w", err)
	}
	return nil
}

func key(typ, id string) string { return typ + " " + id }

// get returns a resource that exists, or nil.
func (c *Cloud) get(typ, id string) *record { return c.state.Resources[key(typ, id)] }

// all returns the resources of a type, in the order in which they were made.
func (c *Cloud) all(typ string) (out []*record) {
	for _, r := range c.state.Resources {
		if r.Type == typ {
			out = append(out, r)
		}
	}
	slices.SortFunc(out, func(a, b *record) int { return a.Serial - b.Serial })
	return out
}

// Resources returns what exists, in the order in which it was made.
func (c *Cloud) Resources() []Resource {
	c.mu.Lock()
	defer c.mu.Unlock()
	records := make([]*record, 0, len(c.state.Resources))
	for _, r := range c.state.Resources {
		records = append(records, r)
	}
	slices.SortFunc(records, func(a, b *record) int { return a.Serial - b.Serial })
	out := make([]Resource, 0, len(records))
	for _, r := range records {
		out = append(out, Resource{r.Type, r.ID, r.URN, clone(r.Inputs).(values)})
	}
	return out
}

// Edit changes a resource behind the program's back.
func (c *Cloud) Edit(typ, id string, change func(inputs map[string]any)) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.get(typ, id)
	if r == nil {
		return fmt.Errorf("changing %s %s: it does not exist", typ, id)
	}
	change(r.Inputs)
	return c.save()
}

// Drop deletes a resource behind the program's back.
func (c *Cloud) Drop(typ, id string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.get(typ, id) == nil {
		return fmt.Errorf("deleting %s %s: it does not exist", typ, id)
	}
	delete(c.state.Resources, key(typ, id))
	return c.save()
}

// Fault is an order to fail once.
type Fault struct {
	// Call is "create", "update", "delete" or "read".
	Call string
	// Type and Name narrow it down to a resource type and a logical name; empty
	// means any.
	Type, Name string
	// Nth counts the calls that fit, from 1; 0 means the first.
	Nth int
	// Status is Google's answer: 403 (quota), 409, 429, 500.
	Status int
	// Partial: the call takes effect and fails afterwards, and the caller is
	// told both.
	Partial bool
	// Lost: the call takes effect, and the caller is only told that it failed.
	Lost bool

	seen int
}

// Inject orders a failure.
func (c *Cloud) Inject(f Fault) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f.Nth = max(f.Nth, 1)
	c.faults = append(c.faults, &f)
}

// fault returns the order that this call fulfils, and takes it off the list.
func (c *Cloud) fault(call, typ, urn string) *Fault {
	for i, f := range c.faults {
		if f.Call != call || f.Type != "" && f.Type != typ || f.Name != "" && f.Name != nameOf(urn) {
			continue
		}
		if f.seen++; f.seen == f.Nth {
			c.faults = slices.Delete(c.faults, i, i+1)
			return f
		}
	}
	return nil
}

// Pending tells how many ordered failures have not happened.
func (c *Cloud) Pending() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.faults)
}

// apiError is a refusal as Google's client library words it.
type apiError struct {
	status  int
	reason  string
	message string
}

func (e *apiError) Error() string {
	return fmt.Sprintf("googleapi: Error %d: %s, %s", e.status, e.message, e.reason)
}

func refuse(format string, args ...any) error {
	return &apiError{400, "badRequest", fmt.Sprintf(format, args...)}
}

func missing(what string) error {
	return &apiError{404, "notFound", fmt.Sprintf("The resource '%s' was not found", what)}
}

func (f *Fault) err() error {
	switch f.Status {
	case 403:
		return &apiError{403, "quotaExceeded", "Quota exceeded (the stand-in was told so)"}
	case 409:
		return &apiError{409, "alreadyExists", "Already exists (the stand-in was told so)"}
	case 429:
		return &apiError{429, "rateLimitExceeded", "Too many requests (the stand-in was told so)"}
	default:
		return &apiError{f.Status, "backendError", "Internal error (the stand-in was told so)"}
	}
}

// Call is one line of the journal.
type Call struct {
	// Call is the method: "check", "diff", "create", "read", "update", "delete",
	// "invoke", "configure".
	Call string `json:"call"`
	Type string `json:"type,omitempty"`
	URN  string `json:"urn,omitempty"`
	ID   string `json:"id,omitempty"`
	// Preview: nothing was to be done.
	Preview bool `json:"preview,omitempty"`
	// Replaces are the properties for which a diff demands a new resource.
	Replaces []string `json:"replaces,omitempty"`
	// Error is what the caller was told.
	Error string `json:"error,omitempty"`
}

// Name is the logical name in the program.
func (c Call) Name() string { return nameOf(c.URN) }

// note appends to the journal.
func (c *Cloud) note(call Call) error {
	line, err := json.Marshal(call)
	if err != nil {
		return fmt.Errorf("keeping the journal: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(c.opts.Dir, journalFile), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("keeping the journal: %w", err)
	}
	_, err = f.Write(append(line, '\n'))
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("keeping the journal: %w", err)
	}
	return nil
}

// Journal returns every call since the folder was new.
func (c *Cloud) Journal() ([]Call, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	raw, err := os.ReadFile(filepath.Join(c.opts.Dir, journalFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the journal: %w", err)
	}
	var out []Call
	lines := bufio.NewScanner(bytes.NewReader(raw))
	lines.Buffer(nil, len(raw)+1)
	for lines.Scan() {
		var call Call
		if err := json.Unmarshal(lines.Bytes(), &call); err != nil {
			return nil, fmt.Errorf("reading the journal: %w", err)
		}
		out = append(out, call)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("reading the journal: %w", err)
	}
	return out, nil
}
