// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// What is read at most. A document may come from anywhere.
const (
	// MaxFile is the largest document, in bytes.
	MaxFile = 64 << 20
	// MaxResources is how many resources a document may have.
	MaxResources = 20_000
	// maxDepth is how deep inputs may nest; Kubernetes objects stay below 30.
	maxDepth = 64
)

const (
	// In the map that Pulumi writes in place of a secret, an asset or a reference
	// (github.com/pulumi/pulumi/sdk/v3/go/common/resource/sig).
	sigKey = "4dabf18193072939515e22adb298388d"
	// A preview has this for a secret, in place of the object that an export has.
	hiddenSecret = "[secret]"
)

// sentinels are the texts that Pulumi writes in place of values that are not known
// before the cloud answers
// (github.com/pulumi/pulumi/sdk/v3/go/common/resource/plugin).
var sentinels = map[string]bool{
	"1c4a061d-8072-4f0a-a4cb-0ff528b18fe7": true, // bool
	"3eeb2bf0-c639-47a8-9e75-3b44932eb421": true, // number
	"04da6b54-80e4-46f7-96ec-b56ff0331ba9": true, // string
	"6a19a0b0-7e62-4c92-b797-7f8e31da9cc2": true, // array
	"030794c1-ac77-496b-92df-f27374a8bd58": true, // asset
	"e48ece36-62e2-4504-bad9-02848725956a": true, // archive
	"dd056dcd-154b-4c76-9bd3-c8f88648b5ff": true, // object
}

// document is the union of the two documents that are understood.
type document struct {
	// Of `pulumi preview --json`.
	Steps       []step         `json:"steps"`
	Changes     map[string]int `json:"changeSummary"`
	Diagnostics []struct {
		Severity string `json:"severity"`
	} `json:"diagnostics"`
	MaybeCorrupt bool `json:"maybeCorrupt"`
	// Of `pulumi stack export`.
	Deployment *struct {
		Resources []resourceState   `json:"resources"`
		Pending   []json.RawMessage `json:"pending_operations"`
	} `json:"deployment"`
}

type step struct {
	Op    string         `json:"op"`
	URN   string         `json:"urn"`
	State *resourceState `json:"newState"`
}

type resourceState struct {
	URN    string         `json:"urn"`
	Type   string         `json:"type"`
	Delete bool           `json:"delete"`
	Inputs map[string]any `json:"inputs"`
	// The first is gone, and its replacement has not been made; of the second the
	// cloud has something else than what was asked for.
	PendingReplacement bool     `json:"pendingReplacement"`
	InitErrors         []string `json:"initErrors"`
}

// Decode reads what `pulumi preview --json` or `pulumi stack export` wrote.
// The document may be hostile: its size, count and depth are bounded. An error
// says that it is neither; a document that tells less than the whole stack
// gives a graph with Partial set.
func Decode(in io.Reader) (Graph, error) {
	raw, err := io.ReadAll(io.LimitReader(in, MaxFile+1))
	switch {
	case err != nil:
		return Graph{}, fmt.Errorf("reading the plan: %w", err)
	case len(raw) > MaxFile:
		return Graph{}, fmt.Errorf("reading the plan: it is larger than %d bytes", MaxFile)
	}
	var doc document
	if err := json.Unmarshal(raw, &doc); err != nil {
		return Graph{}, fmt.Errorf("reading the plan: %w: it must be what `pulumi preview --json` or `pulumi stack export` writes", err)
	}
	var g Graph
	switch {
	case doc.Steps != nil && doc.Deployment != nil:
		return Graph{}, errors.New("reading the plan: it is a preview and an export at once")
	case doc.Steps != nil, doc.Changes != nil && doc.Deployment == nil:
		g, err = fromPreview(doc)
	case doc.Deployment != nil:
		g, err = fromExport(doc)
	default:
		return Graph{}, errors.New("reading the plan: it has no steps and no deployment: it must be what `pulumi preview --json` or `pulumi stack export` writes")
	}
	if err != nil {
		return Graph{}, fmt.Errorf("reading the plan: %w", err)
	}
	return g, nil
}

// gone are operations on what is not there any more, or not in this way: the rest of a
// replacement, and what was only looked at.
var gone = map[string]bool{
	"delete-replaced": true, "discard": true, "discard-replaced": true,
	"remove-pending-replace": true, "read-discard": true,
}

func fromPreview(doc document) (Graph, error) {
	var order []string
	last := map[string]step{}
	for _, s := range doc.Steps {
		switch {
		case s.Op == "delete":
			// The last word as well: a refresh may have found it before.
			delete(last, s.URN)
		case gone[s.Op], s.State == nil:
		default:
			// A replacement is told in two or three steps, whose new state is the
			// same. What a refresh found comes before what the program wants.
			order = append(order, s.State.URN)
			last[s.State.URN] = s
		}
	}
	var states []resourceState
	unchanged := 0
	for _, urn := range order {
		s, there := last[urn]
		if !there {
			continue
		}
		delete(last, urn)
		states = append(states, *s.State)
		if s.Op == "same" {
			unchanged++
		}
	}
	g, err := graph(states)
	switch {
	case err != nil:
		return Graph{}, err
	case doc.Changes == nil:
		g.Partial = "the preview has no summary, so it did not end"
	case doc.Changes["same"] > unchanged:
		g.Partial = fmt.Sprintf("the preview leaves out %d unchanged resources; judge what `pulumi stack export` writes, or the preview of a fresh stack", doc.Changes["same"]-unchanged)
	case doc.MaybeCorrupt:
		g.Partial = "the preview calls itself corrupt"
	}
	for _, d := range doc.Diagnostics {
		if d.Severity == "error" {
			g.Partial = "the preview ended with an error"
		}
	}
	return g, nil
}

func fromExport(doc document) (Graph, error) {
	var states []resourceState
	unfinished := 0
	for _, s := range doc.Deployment.Resources {
		// What is marked for deletion is the rest of a replacement.
		if s.Delete {
			continue
		}
		if s.PendingReplacement || len(s.InitErrors) > 0 {
			unfinished++
		}
		states = append(states, s)
	}
	g, err := graph(states)
	switch n := len(doc.Deployment.Pending); {
	case err != nil:
	case n > 0:
		g.Partial = fmt.Sprintf("%d operations of the last update were interrupted; `pulumi refresh` settles them", n)
	case unfinished > 0:
		g.Partial = fmt.Sprintf("the last update failed, and %d resources are not there, or not as they should be; `pulumi up` finishes it", unfinished)
	}
	return g, err
}

func graph(states []resourceState) (Graph, error) {
	if len(states) > MaxResources {
		return Graph{}, fmt.Errorf("it has more than %d resources", MaxResources)
	}
	g := Graph{Resources: make([]Resource, 0, len(states))}
	for _, s := range states {
		// urn:pulumi:STACK::PROJECT::PARENT$TYPE::NAME
		parts := strings.SplitN(s.URN, "::", 4)
		if len(parts) != 4 || !strings.HasPrefix(s.URN, "urn:pulumi:") {
			return Graph{}, fmt.Errorf("%.80q is not the URN of a resource", s.URN)
		}
		typ := parts[2][strings.LastIndexByte(parts[2], '$')+1:]
		if s.Type != "" && s.Type != typ {
			return Graph{}, fmt.Errorf("the URN %.200q does not fit the type %.80q", s.URN, s.Type)
		}
		inputs := map[string]any{}
		for k, v := range s.Inputs {
			x, err := plain(v, maxDepth)
			if err != nil {
				return Graph{}, fmt.Errorf("%.200q: %w", s.URN, err)
			}
			inputs[k] = x
		}
		// Pulumi keeps for itself what begins with two underscores.
		delete(inputs, "__defaults")
		g.Resources = append(g.Resources, Resource{Type: typ, Name: parts[3], Inputs: inputs})
	}
	return g, nil
}

// plain turns Pulumi's own marks into [Unknown]: sentinels, secrets, assets. A
// secret stays unknown even where its text stands beside it, so that no report
// can ever quote it.
func plain(v any, depth int) (any, error) {
	if depth == 0 {
		return nil, fmt.Errorf("its inputs nest deeper than %d", maxDepth)
	}
	switch v := v.(type) {
	case string:
		if sentinels[v] || v == hiddenSecret {
			return Unknown{}, nil
		}
		return v, nil
	case []any:
		out := make([]any, len(v))
		for i, x := range v {
			y, err := plain(x, depth-1)
			if err != nil {
				return nil, err
			}
			out[i] = y
		}
		return out, nil
	case map[string]any:
		if _, special := v[sigKey]; special {
			return Unknown{}, nil
		}
		out := make(map[string]any, len(v))
		for k, x := range v {
			if k == "__defaults" {
				continue
			}
			y, err := plain(x, depth-1)
			if err != nil {
				return nil, err
			}
			out[k] = y
		}
		return out, nil
	default:
		return v, nil
	}
}
