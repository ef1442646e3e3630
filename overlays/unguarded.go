// SPDX-License-Identifier: Apache-2.0

package overlays

import (
	"cmp"
	"fmt"
	"io/fs"
	"maps"
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

// additive are the kinds of which one object more allows more, so that a mutant
// which adds one weakens those that are there.
var additive = []string{"NetworkPolicy", "CiliumNetworkPolicy", "Role"}

// Unguarded returns the fields of a profile's hardened deployment that hold
// something back and that none of the mutants changes: nothing here has shown that
// their loss would be noticed. They are ordered by kind, name and path.
func Unguarded(module fs.FS, base string, mutants []Mutant) ([]Field, error) {
	systems := map[string][]string{
		BaseReference:        {System, Reference},
		BasePlayground:       {Playground},
		BaseKodeGopherLocal:  {KodeGopher},
		BaseKodeGopherShared: {KodeGopherShared},
	}
	var out []Field
	for _, overlay := range systems[base] {
		objects, err := Render(module, overlay)
		if err != nil {
			return nil, err
		}
		for _, o := range objects {
			out = append(out, unguarded(o, base, mutants)...)
		}
	}
	slices.SortFunc(out, func(a, b Field) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Path, b.Path))
	})
	return out, nil
}

func unguarded(o unstructured.Unstructured, base string, mutants []Mutant) (out []Field) {
	pattern := restricts[o.GetKind()]
	if pattern == nil {
		return nil
	}
	eachLeaf("", o.Object, func(path, value string) {
		changes := func(m Mutant) bool {
			if m.Base != base || m.Changes.Kind != o.GetKind() || m.Changes.Name != "" && m.Changes.Name != o.GetName() {
				return false
			}
			if m.Changes.Path == "" {
				return slices.Contains(additive, o.GetKind())
			}
			return overlap(m.Changes.Path, path) || overlap(m.Changes.Also, path)
		}
		if pattern.MatchString(path) && !slices.ContainsFunc(mutants, changes) {
			out = append(out, Field{Kind: o.GetKind(), Name: o.GetName(), Path: path, Value: value})
		}
	})
	return out
}

// overlap is true when one of two paths leads into the other.
func overlap(a, b string) bool {
	if len(a) > len(b) {
		a, b = b, a
	}
	rest, ok := strings.CutPrefix(b, a)
	return a != "" && ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

// eachLeaf calls f for every value that holds no other, an empty list among them.
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
