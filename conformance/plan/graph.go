// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"strings"
)

// Unknown is a value that the graph does not tell: one that only the cloud
// will compute, or one that is encrypted.
type Unknown struct{}

// Resource is one resource with the inputs that the program gave it.
type Resource struct {
	// Type is Pulumi's token, "gcp:container/cluster:Cluster".
	Type string
	// Name is the logical name in the program.
	Name string
	// Inputs hold what JSON holds (nil, bool, float64, string, []any and
	// map[string]any) and [Unknown].
	Inputs map[string]any
}

// Graph is everything that a program declares.
type Graph struct {
	Resources []Resource
	// Partial says why the graph may lack resources; empty when it is whole.
	// Nothing holds over a partial graph: what is wrong may be in the rest.
	Partial string
}

// The resource types that rules look at.
const (
	typeCluster      = "gcp:container/cluster:Cluster"
	typePool         = "gcp:container/nodePool:NodePool"
	typeNetwork      = "gcp:compute/network:Network"
	typeSubnet       = "gcp:compute/subnetwork:Subnetwork"
	typeFirewall     = "gcp:compute/firewall:Firewall"
	typeZone         = "gcp:dns/managedZone:ManagedZone"
	typeRecord       = "gcp:dns/recordSet:RecordSet"
	typeService      = "gcp:projects/service:Service"
	typeProjectIAM   = "gcp:projects/iAMMember:IAMMember"
	typeAccount      = "gcp:serviceaccount/account:Account"
	typeAccountKey   = "gcp:serviceaccount/key:Key"
	typeStorageKey   = "gcp:storage/hmacKey:HmacKey"
	typeRepository   = "gcp:artifactregistry/repository:Repository"
	typeBinauthz     = "gcp:binaryauthorization/policy:Policy"
	typePerimeter    = "gcp:accesscontextmanager/servicePerimeter:ServicePerimeter"
	typeLevel        = "gcp:accesscontextmanager/accessLevel:AccessLevel"
	prefixKubernetes = "kubernetes:"
)

// strangers are packages whose resources may do to the project, or in the cluster,
// whatever the rules look for, in a form that no rule reads: other providers for Google
// Cloud and for Kubernetes, and resources that run a program.
var strangers = map[string]bool{
	"command": true, "google": true, "google-beta": true, "google-native": true,
	"helm": true, "kubectl": true, "pulumi-nodejs": true, "pulumi-python": true,
}

// stranger returns a resource of which it cannot be told what it does.
func (g Graph) stranger() (Resource, bool) {
	for _, r := range g.Resources {
		if pkg, _, _ := strings.Cut(r.Type, ":"); strangers[pkg] {
			return r, true
		}
	}
	return Resource{}, false
}

// of returns the resources of one type, in the order of the graph.
func (g Graph) of(typ string) []Resource {
	var out []Resource
	for _, r := range g.Resources {
		if r.Type == typ {
			out = append(out, r)
		}
	}
	return out
}

// Clone returns a copy that shares nothing with g.
func (g Graph) Clone() Graph {
	out := Graph{Partial: g.Partial, Resources: make([]Resource, len(g.Resources))}
	for i, r := range g.Resources {
		r.Inputs, _ = clone(r.Inputs).(map[string]any)
		out.Resources[i] = r
	}
	return out
}

func clone(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, x := range v {
			out[k] = clone(x)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, x := range v {
			out[i] = clone(x)
		}
		return out
	default:
		return v
	}
}

// kind is the short name of a resource's type, for people.
func (r Resource) kind() string {
	_, after, _ := strings.Cut(r.Type, "/")
	if after == "" {
		after = r.Type
	}
	if i := strings.LastIndexByte(after, ':'); i >= 0 {
		after = after[i+1:]
	}
	return after
}

func (r Resource) String() string { return fmt.Sprintf("%s %.80q", r.kind(), r.Name) }

// state says what is known of a value.
type state uint8

const (
	absent state = iota
	unknown
	known
)

// find follows a path of keys, "nodeConfig.imageType". A place of another
// shape than the path expects is unknown: something is there, and this code
// does not understand it.
func (r Resource) find(path string) (any, state) {
	var at any = r.Inputs
	for key := range strings.SplitSeq(path, ".") {
		m, ok := at.(map[string]any)
		if !ok {
			return nil, unknown
		}
		v, there := m[key]
		if !there || v == nil {
			return nil, absent
		}
		if at = v; holdsUnknown(v) {
			return nil, unknown
		}
	}
	return at, known
}

// holdsUnknown tells whether the value itself is unknown; what lies inside of a
// list or map is looked at by whoever looks inside.
func holdsUnknown(v any) bool {
	_, u := v.(Unknown)
	return u
}

// is tells whether so much is known of the value at path.
func (r Resource) is(path string, want state) bool {
	_, st := r.find(path)
	return st == want
}

// text returns the string at path.
func (r Resource) text(path string) (string, state) {
	v, st := r.find(path)
	if st != known {
		return "", st
	}
	s, ok := v.(string)
	if !ok {
		return "", unknown
	}
	return s, known
}

// host returns the name of a host at path. In names letters of either size are the
// same.
func (r Resource) host(path string) (string, state) {
	s, st := r.text(path)
	return strings.ToLower(s), st
}

// flag returns the bool at path.
func (r Resource) flag(path string) (value bool, st state) {
	v, st := r.find(path)
	if st != known {
		return false, st
	}
	b, ok := v.(bool)
	if !ok {
		return false, unknown
	}
	return b, known
}

// list returns the list at path; one that is missing is empty and absent.
func (r Resource) list(path string) ([]any, state) {
	v, st := r.find(path)
	if st != known {
		return nil, st
	}
	l, ok := v.([]any)
	if !ok {
		return nil, unknown
	}
	return l, known
}

// texts returns the list of strings at path. One unknown entry makes the whole
// unknown: it could be any value.
func (r Resource) texts(path string) ([]string, state) {
	l, st := r.list(path)
	if st != known {
		return nil, st
	}
	out := make([]string, 0, len(l))
	for _, v := range l {
		s, ok := v.(string)
		if !ok {
			return nil, unknown
		}
		out = append(out, s)
	}
	return out, known
}

// objects returns the list of maps at path. Entries that are none (unknown
// ones, too) make it unknown.
func (r Resource) objects(path string) ([]Resource, state) {
	l, st := r.list(path)
	if st != known {
		return nil, st
	}
	out := make([]Resource, 0, len(l))
	for _, v := range l {
		m, ok := v.(map[string]any)
		if !ok {
			return nil, unknown
		}
		out = append(out, Resource{Type: r.Type, Name: r.Name, Inputs: m})
	}
	return out, known
}

// put sets the value at path, making the maps on the way. It reports whether
// that changed anything.
func (r Resource) put(path string, v any) bool {
	at := r.Inputs
	keys := strings.Split(path, ".")
	for _, key := range keys[:len(keys)-1] {
		next, ok := at[key].(map[string]any)
		if !ok {
			if at[key] != nil {
				return false
			}
			next = map[string]any{}
			at[key] = next
		}
		at = next
	}
	last := keys[len(keys)-1]
	if same(at[last], v) {
		return false
	}
	at[last] = v
	return true
}

func same(a, b any) bool { return fmt.Sprintf("%#v", a) == fmt.Sprintf("%#v", b) }
