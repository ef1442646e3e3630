// SPDX-License-Identifier: Apache-2.0

package overlays

import (
	"cmp"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Field is one value of a deployment.
type Field struct {
	Kind, Name string
	// Path is written as in [Change].
	Path  string
	Value string
}

// restricts says by kind which fields hold something back. Of what runs untrusted
// code that is a part of the Pod, of a policy all that it says.
var restricts = map[string]*regexp.Regexp{
	"SandboxTemplate":                  podField,
	"PodTemplate":                      podField,
	"ServiceAccount":                   regexp.MustCompile(`^automountServiceAccountToken$`),
	"Namespace":                        regexp.MustCompile(`^metadata\.labels\.pod-security\.`),
	"Role":                             regexp.MustCompile(`^rules\[\d+\]\.(resources|verbs|resourceNames)`),
	"NetworkPolicy":                    regexp.MustCompile(`^spec\.`),
	"CiliumNetworkPolicy":              regexp.MustCompile(`^spec\.`),
	"ResourceQuota":                    regexp.MustCompile(`^spec\.hard\.`),
	"ValidatingAdmissionPolicy":        regexp.MustCompile(`^spec\.(failurePolicy|matchConstraints|variables\[\d+\]\.expression|validations\[\d+\]\.expression)`),
	"ValidatingAdmissionPolicyBinding": regexp.MustCompile(`^spec\.(matchResources|validationActions)`),
}

var podField = regexp.MustCompile(`\.securityContext\.|\.resources\.limits\.|\.emptyDir\.|\.readOnly$|\.terminationMessagePath$` +
	`|\.(automountServiceAccountToken|enableServiceLinks|runtimeClassName|host[A-Z][A-Za-z]*|dnsPolicy)$` +
	`|^spec\.(envVarsInjectionPolicy|volumeClaimTemplatesPolicy|networkPolicy)`)

// hardened is what each base's deployment consists of, and where its sandboxes live.
var hardened = map[string]struct {
	namespace string
	overlays  []string
}{
	BaseReference:        {ReferenceNamespace, []string{System, Reference}},
	BasePlayground:       {PlaygroundNamespace, []string{Playground}},
	BaseKodeGopherLocal:  {KodeGopherNamespace, []string{KodeGopher}},
	BaseKodeGopherShared: {KodeGopherSharedNamespace, []string{KodeGopherShared}},
}

// wholePolicy is replaced by mutants that show whether any policy is there. They do not
// show of one of its rules that its loss would be noticed.
const wholePolicy = "spec.networkPolicy"

// Unguarded returns the fields of a profile's hardened deployment that hold
// something back and that none of the mutants changes: nothing here has shown that
// their loss would be noticed. They are ordered by kind, name and path.
func Unguarded(module fs.FS, base string, mutants []Mutant) ([]Field, error) {
	disk, err := layout(module)
	if err != nil {
		return nil, fmt.Errorf("rendering %s: %w", base, err)
	}
	var twins []rendering
	for _, m := range mutants {
		if m.Base != base || restricts[m.Changes.Kind] == nil || m.Changes.Path == wholePolicy {
			continue
		}
		objects, err := m.build(disk)
		if err != nil {
			return nil, err
		}
		twins = append(twins, rendering{m, objects})
	}
	var out []Field
	for _, overlay := range hardened[base].overlays {
		objects, err := build(disk, path.Join(root, overlay))
		if err != nil {
			return nil, fmt.Errorf("rendering %s: %w", overlay, err)
		}
		for _, o := range objects {
			out = append(out, unguarded(o, twins)...)
		}
	}
	slices.SortFunc(out, func(a, b Field) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Path, b.Path))
	})
	return out, nil
}

func unguarded(o unstructured.Unstructured, twins []rendering) (out []Field) {
	pattern := restricts[o.GetKind()]
	if pattern == nil {
		return nil
	}
	left := leaves(o.Object)
	maps.DeleteFunc(left, func(path, _ string) bool { return !pattern.MatchString(path) })
	for _, t := range twins {
		t.takeFrom(left, o)
	}
	for path, value := range left {
		out = append(out, Field{Kind: o.GetKind(), Name: o.GetName(), Path: path, Value: value})
	}
	return out
}

// rendering is a mutant with its objects.
type rendering struct {
	Mutant
	objects []unstructured.Unstructured
}

// takeFrom takes away those of an object's fields that the mutant changes: it says that
// it does, and has another value there or none. Where it puts a new value over several
// fields, it may leave some as they were; and where it takes an element out of a list,
// others move that it does not change.
func (r rendering) takeFrom(fields map[string]string, o unstructured.Unstructured) {
	c := r.Changes
	if c.Kind != o.GetKind() || c.Name != "" && c.Name != o.GetName() {
		return
	}
	i := slices.IndexFunc(r.objects, func(x unstructured.Unstructured) bool {
		if x.GetKind() == "Namespace" && o.GetKind() == "Namespace" {
			// The service's namespace is called as the runs' one, with an ending.
			ending, ok := strings.CutPrefix(o.GetName(), hardened[r.Base].namespace)
			return ok && x.GetName() == r.Namespace()+ending
		}
		return x.GetKind() == o.GetKind() && (x.GetName() == o.GetName() || x.GetName() == r.own(o.GetName()))
	})
	if i < 0 {
		return
	}
	now := leaves(r.objects[i].Object)
	maps.DeleteFunc(fields, func(path, was string) bool {
		value, there := now[path]
		return (overlap(c.Path, path) || overlap(c.Also, path)) && (!there || value != was)
	})
}

// overlap is true when one of two paths leads into the other.
func overlap(a, b string) bool {
	if len(a) > len(b) {
		a, b = b, a
	}
	rest, ok := strings.CutPrefix(b, a)
	return a != "" && ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

// leaves are all values of an object that hold no other, an empty list among them, by
// their paths.
func leaves(object map[string]any) map[string]string {
	out := map[string]string{}
	eachLeaf("", object, func(path, value string) { out[path] = value })
	return out
}

// eachLeaf calls f for each of [leaves].
func eachLeaf(path string, v any, f func(path, value string)) {
	switch v := v.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			eachLeaf(strings.TrimPrefix(path+"."+key, "."), v[key], f)
		}
		if len(v) == 0 {
			f(path, "{}")
		}
	case []any:
		for i, x := range v {
			eachLeaf(fmt.Sprintf("%s[%d]", path, i), x, f)
		}
		if len(v) == 0 {
			f(path, "[]")
		}
	default:
		f(path, fmt.Sprint(v))
	}
}
