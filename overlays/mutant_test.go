// SPDX-License-Identifier: Apache-2.0

package overlays

import (
	"fmt"
	"path"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"

	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/scenarios/all"
)

func mutants(t *testing.T) []Mutant {
	t.Helper()
	ms, err := LoadMutants()
	require.NoError(t, err)
	require.NotEmpty(t, ms)
	return ms
}

// twin renders the mutant without what it changes: the scaffold in the same
// namespace.
func twin(t *testing.T, m Mutant, disk filesys.FileSystem) []unstructured.Unstructured {
	t.Helper()
	folders := []string{path.Join(root, "mutants", m.ID), path.Join(root, "mutants", m.ID, systemFolder)}
	for i, namespace := range m.Namespaces() {
		file := path.Join(folders[i], "kustomization.yaml")
		whole, err := disk.ReadFile(file)
		require.NoError(t, err)
		var k map[string]any
		require.NoError(t, yaml.Unmarshal(whole, &k))
		assert.Equal(t, namespace, k["namespace"])
		for field := range k {
			assert.Contains(t, []string{"apiVersion", "kind", "namespace", "resources", "patches"}, field,
				"a mutant is a scaffold and one change, nothing else")
		}
		resources, _ := k["resources"].([]any)
		stripped := map[string]any{"apiVersion": k["apiVersion"], "kind": k["kind"], "namespace": k["namespace"],
			"resources": slices.DeleteFunc(slices.Clone(resources), func(r any) bool {
				return !strings.HasPrefix(path.Base(fmt.Sprint(r)), "scaffold")
			})}
		text, err := yaml.Marshal(stripped)
		require.NoError(t, err)
		require.NoError(t, disk.WriteFile(file, text))
		defer func() { assert.NoError(t, disk.WriteFile(file, whole)) }() //nolint:gocritic // each until all are built
	}
	objects, err := m.build(disk)
	require.NoError(t, err)
	return objects
}

// difference is one place in which two renderings differ.
type difference struct{ kind, name, path string }

func compare(was, is []unstructured.Unstructured) []difference {
	key := func(o unstructured.Unstructured) string {
		return o.GetKind() + "/" + o.GetNamespace() + "/" + o.GetName()
	}
	before := map[string]unstructured.Unstructured{}
	for _, o := range was {
		before[key(o)] = o
	}
	var found []difference
	for _, o := range is {
		// It is a copy of the PodTemplate: see
		// TestAServiceOfAMutantsOwnMakesTheMutantsRuns.
		if o.GetKind() == "ConfigMap" && strings.HasSuffix(o.GetNamespace(), "-"+systemFolder) {
			delete(before, key(o))
			continue
		}
		old, known := before[key(o)]
		if !known {
			found = append(found, difference{o.GetKind(), o.GetName(), ""})
			continue
		}
		delete(before, key(o))
		for _, p := range diff("", old.Object, o.Object) {
			found = append(found, difference{o.GetKind(), o.GetName(), strings.TrimPrefix(p, ".")})
		}
	}
	for _, o := range before {
		found = append(found, difference{o.GetKind(), o.GetName(), "(removed)"})
	}
	return found
}

// diff returns the paths of the smallest parts that differ. An element more or
// less in a list is one difference at its index.
func diff(at string, a, b any) []string {
	if reflect.DeepEqual(a, b) {
		return nil
	}
	if am, ok := a.(map[string]any); ok {
		if bm, ok := b.(map[string]any); ok {
			return diffMaps(at, am, bm)
		}
	}
	if al, ok := a.([]any); ok {
		if bl, ok := b.([]any); ok {
			return diffLists(at, al, bl)
		}
	}
	return []string{at}
}

func diffMaps(at string, a, b map[string]any) []string {
	var found []string
	for k := range a {
		if v, ok := b[k]; ok {
			found = append(found, diff(at+"."+k, a[k], v)...)
		} else {
			found = append(found, at+"."+k)
		}
	}
	for k := range b {
		if _, ok := a[k]; !ok {
			found = append(found, at+"."+k)
		}
	}
	return found
}

func diffLists(at string, a, b []any) []string {
	longer, shorter := a, b
	if len(b) > len(a) {
		longer, shorter = b, a
	}
	if len(longer) == len(shorter)+1 {
		for i := range longer {
			if reflect.DeepEqual(slices.Delete(slices.Clone(longer), i, i+1), shorter) {
				return []string{fmt.Sprintf("%s[%d]", at, i)}
			}
		}
	}
	if len(a) != len(b) {
		return []string{at}
	}
	var found []string
	for i := range a {
		found = append(found, diff(fmt.Sprintf("%s[%d]", at, i), a[i], b[i])...)
	}
	return found
}

func TestEveryMutantWeakensExactlyOneControl(t *testing.T) {
	disk, err := layout(module(t))
	require.NoError(t, err)
	for _, m := range mutants(t) {
		t.Run(m.ID, func(t *testing.T) {
			is, err := m.build(disk)
			require.NoError(t, err)
			was := twin(t, m, disk)
			found := compare(was, is)
			if m.Scope == ScopeNode {
				assert.Empty(t, found, "what a node's mutant changes is the node")
				return
			}
			require.NotEmpty(t, found, "it changes nothing")
			showsOnlyTheMutant(t, m, was, is)
			for _, d := range found {
				assert.Equal(t, m.Changes.Kind, d.kind)
				name := d.name
				if theirs, ok := m.deployed()[name]; ok && d.kind == "Namespace" {
					name = theirs
				}
				assert.Contains(t, []string{"", name}, m.Changes.Name)
				// A change of shape (emptyDir to hostPath) differs in several
				// leaves of the one declared place.
				declared := below(d.path, m.Changes.Path) || m.Changes.Also != "" && below(d.path, m.Changes.Also)
				assert.True(t, declared, "it declares %s and changes %s", m.Changes.Path, d.path)
			}
		})
	}
}

// deployed says which namespaces of the deployment stand for those of the mutant.
func (m Mutant) deployed() map[string]string {
	if m.Base != BasePlayground {
		return nil
	}
	theirs, _, _ := strings.Cut(ExecutionAccount, "/")
	return map[string]string{m.Namespace(): PlaygroundNamespace, m.system(): theirs}
}

// below tells whether p is the place, or lies in it.
func below(p, place string) bool {
	rest, found := strings.CutPrefix(p, place)
	return found && (place == "" && p == "" || place != "" && (rest == "" || rest[0] == '.' || rest[0] == '['))
}

// seen are the objects of a rendering that an effect speaks of, or will when its
// controllers have made them: Pods and network policies come out of templates.
func seen(m Mutant, e Effect, objects []unstructured.Unstructured) (found []map[string]any) {
	for _, o := range objects {
		object := o.Object
		switch kind := o.GetKind(); {
		case kind == e.Kind:
			if o.GetNamespace() != "" && o.GetNamespace() != m.Where(e) {
				continue
			}
		case kind == "SandboxTemplate" && e.Kind == "Pod":
			object, _, _ = unstructured.NestedMap(object, "spec", "podTemplate")
		case kind == "SandboxTemplate" && e.Kind == "NetworkPolicy":
			policy, _, _ := unstructured.NestedMap(object, "spec", "networkPolicy")
			object = map[string]any{"spec": policy, "metadata": map[string]any{"name": o.GetName() + "-network-policy"}}
		case kind == "PodTemplate" && e.Kind == "Pod":
			object, _, _ = unstructured.NestedMap(object, "template")
		case kind == "Deployment" && e.Kind == "Pod" && o.GetNamespace() == m.Where(e):
			object, _, _ = unstructured.NestedMap(object, "spec", "template")
		default:
			continue
		}
		name, _, _ := unstructured.NestedString(object, "metadata", "name")
		if e.Name == "" || e.Name == name {
			found = append(found, object)
		}
	}
	return found
}

// showsOnlyTheMutant demands that a mutant's effect is not there without it: by a
// slip in its path, or because it looks at something else, one that did not take
// effect would count.
func showsOnlyTheMutant(t *testing.T, m Mutant, was, is []unstructured.Unstructured) {
	t.Helper()
	there := true
	for _, e := range m.Effect {
		assert.NotEmpty(t, seen(m, e, is), "there is no %s %s to look at", e.Kind, e.Name)
		before := seen(m, e, was)
		there = there && len(before) > 0
		for _, object := range before {
			ok, _, err := e.Check(object) // an index too large is an error, and nothing is there
			there = there && err == nil && ok
		}
	}
	assert.False(t, there, "its effect is there without it")
}

func TestADeclaredPlaceIsSmall(t *testing.T) {
	// "spec.podTemplate.spec" would make the test above say yes to anything.
	broad := []string{"spec", "spec.podTemplate", "spec.podTemplate.metadata", "spec.podTemplate.spec",
		"spec.podTemplate.spec.containers", "spec.podTemplate.spec.containers[0]", "spec.podTemplate.spec.volumes",
		"spec.podTemplate.spec.containers[0].volumeMounts", "spec.validations"}
	for _, m := range mutants(t) {
		assert.NotContains(t, broad, m.Changes.Path, m.ID)
		assert.NotContains(t, broad, m.Changes.Also, m.ID)
	}
}

func TestMutantsStayInTheirNamespace(t *testing.T) {
	shared := map[string]bool{"Namespace": true, "ValidatingAdmissionPolicy": true, "ValidatingAdmissionPolicyBinding": true, "RuntimeClass": true}
	for _, m := range mutants(t) {
		objects, err := m.Render(module(t))
		require.NoError(t, err)
		for _, o := range objects {
			if shared[o.GetKind()] {
				assert.True(t, strings.HasPrefix(o.GetName(), m.Namespace()), "%s: %s %s would collide with another's", m.ID, o.GetKind(), o.GetName())
				continue
			}
			assert.Contains(t, m.Namespaces(), o.GetNamespace(), "%s: %s", m.ID, o.GetKind())
		}
	}
}

func TestAnAdmissionMutantIsBoundToItsNamespaceAlone(t *testing.T) {
	for _, m := range mutants(t) {
		if m.Scope != ScopeAdmission {
			continue
		}
		objects, err := m.Render(module(t))
		require.NoError(t, err)
		binding := only(t, objects, "ValidatingAdmissionPolicyBinding")
		policy, _, _ := unstructured.NestedString(binding.Object, "spec", "policyName")
		own := only(t, objects, "ValidatingAdmissionPolicy")
		assert.Equal(t, own.GetName(), policy)
		selector, _, err := unstructured.NestedMap(binding.Object, "spec", "matchResources", "namespaceSelector")
		require.NoError(t, err)
		assert.Equal(t, map[string]any{"matchLabels": map[string]any{"kubernetes.io/metadata.name": m.Namespace()}}, selector)
	}
}

func TestTheScaffoldExemptsMutantsAndNothingElse(t *testing.T) {
	during, after, err := ScaffoldBinding(module(t))
	require.NoError(t, err)
	assert.Equal(t, []string{".spec.matchResources.namespaceSelector.matchExpressions[1]"}, diff("", after.Object, during.Object))
}

// A mutant that is not in its scenario's declaration, or the other way round,
// would be a cell of the kill matrix that nobody looks at.
func TestScenariosAndMutantsNameEachOther(t *testing.T) {
	wanted := map[string][]string{}
	for _, s := range all.Registry.All() {
		for _, m := range s.Mutants {
			wanted[m] = append(wanted[m], s.ID)
		}
	}
	for _, m := range mutants(t) {
		assert.ElementsMatch(t, wanted[m.ID], m.Kills, "mutant %s", m.ID)
		delete(wanted, m.ID)
		for _, id := range m.Holds {
			_, ok := all.Registry.Get(id)
			assert.True(t, ok, "%s: no scenario %s", m.ID, id)
			assert.NotContains(t, m.Kills, id)
		}
	}
	assert.Empty(t, wanted, "mutants without a folder, and the scenarios that name them")
}

// removedRule is the place of the validation that a mutant's policy lacks; one may
// only make it weaker.
func (m Mutant) removedRule() (i int, removes bool) {
	n, _ := fmt.Sscanf(m.Changes.Path, "spec.validations[%d]", &i)
	return i, n == 1 && m.Changes.Path == fmt.Sprintf("spec.validations[%d]", i)
}

// The scenarios may not import this package, nor read the policy; their words
// are compared with it here.
func TestEachAdmissionScenarioKnowsItsRulesMessage(t *testing.T) {
	policy := only(t, rendered(t, System), "ValidatingAdmissionPolicy")
	rules, _, err := unstructured.NestedSlice(policy.Object, "spec", "validations")
	require.NoError(t, err)
	message := func(i int) string { return fmt.Sprint(rules[i].(map[string]any)["message"]) }
	removed := map[string]string{} // mutant id to the message of the rule it removes
	for _, m := range mutants(t) {
		if i, removes := m.removedRule(); removes && m.Base == BaseReference {
			removed[m.ID] = message(i)
			for _, e := range m.Effect {
				assert.Contains(t, message(i), e.Lacks, "%s looks for the wrong message", m.ID)
			}
		}
	}
	assert.Len(t, removed, len(rules), "every rule of the policy has a mutant that lacks it")
	for _, s := range all.Registry.All() {
		says := s.Params["says"]
		if says == "" || !strings.HasPrefix(s.ID, "admission.") {
			continue
		}
		matches := 0
		for i := range rules {
			if strings.Contains(message(i), says) {
				matches++
			}
		}
		assert.Equal(t, 1, matches, "%s: %q must be in the message of exactly one rule", s.ID, says)
		for _, m := range s.Mutants {
			if text, ok := removed[m]; ok {
				assert.Contains(t, text, says, "%s removes another rule than %s attacks", m, s.ID)
			}
		}
	}
}

// The same for the playground, whose policy is in this repository.
func TestEachPlaygroundScenarioKnowsItsRulesMessage(t *testing.T) {
	policy := only(t, rendered(t, Playground), "ValidatingAdmissionPolicy")
	rules, _, err := unstructured.NestedSlice(policy.Object, "spec", "validations")
	require.NoError(t, err)
	message := func(i int) string { return fmt.Sprint(rules[i].(map[string]any)["message"]) }
	removed := map[string]string{}
	for _, m := range mutants(t) {
		if i, removes := m.removedRule(); removes && m.Base == BasePlayground {
			removed[m.ID] = message(i)
			assert.Contains(t, message(i), m.Effect[0].Lacks, "%s looks for the wrong message", m.ID)
		}
	}
	assert.Len(t, removed, len(rules), "every rule of the policy has a mutant that lacks it")
	attacked := map[string]bool{}
	for _, s := range all.Registry.All() {
		says := s.Params["says"]
		if says == "" || !strings.HasPrefix(s.ID, "playground.") || strings.Contains(says, "PodSecurity") {
			continue
		}
		matches := 0
		for i := range rules {
			if strings.Contains(message(i), says) {
				matches++
				attacked[message(i)] = true
			}
		}
		assert.Equal(t, 1, matches, "%s: %q must be in the message of exactly one rule", s.ID, says)
		for _, m := range s.Mutants {
			if text, ok := removed[m]; ok {
				assert.Contains(t, text, says, "%s removes another rule than %s attacks", m, s.ID)
			}
		}
	}
	assert.Len(t, attacked, len(rules), "every rule of the policy has a scenario of its own")
}

func TestAMutantsScenariosAreOfItsProfile(t *testing.T) {
	for _, m := range mutants(t) {
		p, ok := suite.ProfileByID(m.Base)
		require.True(t, ok, "%s: there is no profile %s", m.ID, m.Base)
		for _, id := range m.Kills {
			s, ok := all.Registry.Get(id)
			require.True(t, ok, "%s: no scenario %s", m.ID, id)
			// The default policy's scenarios attack the reference's mutants.
			assert.True(t, p.Has(s) || m.Base == BaseReference, "%s kills %s, which is not of profile %s", m.ID, id, m.Base)
		}
	}
}

// What must hold on a mutant stands for the rest of its deployment. So it has to
// be of the deployment's profile, and something that another mutant of the
// deployment breaks: what nothing breaks holds where there is no control at all.
func TestWhatAMutantMustHoldAnotherBreaks(t *testing.T) {
	ms := mutants(t)
	for _, m := range ms {
		p, _ := suite.ProfileByID(m.Base)
		for _, id := range m.Holds {
			if id == p.Canary {
				continue
			}
			broken := slices.ContainsFunc(ms, func(o Mutant) bool { return o.Base == m.Base && slices.Contains(o.Kills, id) })
			assert.True(t, broken, "%s holds %s, which no mutant of %s breaks", m.ID, id, m.Base)
		}
	}
}

// wideOpen are the mutants of whose network policy nothing is left that an attack
// could meet: the runs of the playground's have no network to get out by.
var wideOpen = []string{"network-unmanaged", "kode-gopher-network-open", "kode-gopher-shared-network-open", "playground-ingress-open"}

// Where no policy is enforced (yet), every attack on the network gets through, so
// that a mutant with one hole in it looks killed before its hole was tried.
func TestAHoleInANetworkPolicyIsToldFromNoPolicy(t *testing.T) {
	n := 0
	for _, m := range mutants(t) {
		if !changesNetworkPolicy(m.Changes) {
			continue
		}
		n++
		assert.Equal(t, slices.Contains(wideOpen, m.ID), len(m.Holds) == 0, "%s must hold a scenario that the rest of its policy still stops", m.ID)
	}
	assert.Greater(t, n, len(wideOpen))
}

func changesNetworkPolicy(c Change) bool {
	return c.Kind == "NetworkPolicy" || c.Kind == "CiliumNetworkPolicy" ||
		c.Kind == "SandboxTemplate" && strings.HasPrefix(c.Path, "spec.networkPolicy")
}

func TestAnEffectIsReadFromTheObject(t *testing.T) {
	want := func(s string) *string { return &s }
	pod := map[string]any{"spec": map[string]any{"runtimeClassName": "gvisor", "flag": false, "list": []any{
		map[string]any{"message": "one"}, map[string]any{"message": "two"}}}}
	for name, tc := range map[string]struct {
		effect Effect
		ok     bool
	}{
		"the wanted value":         {Effect{JSONPath: "{.spec.runtimeClassName}", Want: want("gvisor")}, true},
		"another value":            {Effect{JSONPath: "{.spec.runtimeClassName}", Want: want("runc")}, false},
		"a boolean":                {Effect{JSONPath: "{.spec.flag}", Want: want("false")}, true},
		"absent":                   {Effect{JSONPath: "{.spec.nothing}", Absent: true}, true},
		"not absent":               {Effect{JSONPath: "{.spec.runtimeClassName}", Absent: true}, false},
		"lacking":                  {Effect{JSONPath: "{.spec.list[*].message}", Lacks: "three"}, true},
		"not lacking":              {Effect{JSONPath: "{.spec.list[*].message}", Lacks: "two"}, false},
		"lacking, nothing read":    {Effect{JSONPath: "{.spec.nothing[*].message}", Lacks: "two"}, false},
		"filtered and not there":   {Effect{JSONPath: "{.spec.list[?(@.message=='x')].message}", Absent: true}, true},
		"filtered, no list at all": {Effect{JSONPath: "{.spec.taints[?(@.key=='x')].key}", Absent: true}, true},
	} {
		t.Run(name, func(t *testing.T) {
			ok, saw, err := tc.effect.Check(pod)
			require.NoError(t, err)
			assert.Equal(t, tc.ok, ok, saw)
		})
	}
}

func TestABadMutantIsRefused(t *testing.T) {
	good := Mutant{ID: "x", Title: "t", Base: BaseReference, Scope: ScopeTemplate, Kills: []string{"a.b"}, Changes: Change{Kind: "SandboxTemplate"},
		Effect: []Effect{{APIVersion: "v1", Kind: "Pod", JSONPath: "{.spec}", Absent: true}}}
	require.NoError(t, good.check("x"))
	for name, spoil := range map[string]func(*Mutant){
		"another folder":       func(m *Mutant) { m.ID = "y" },
		"kills nothing":        func(m *Mutant) { m.Kills = nil },
		"no effect":            func(m *Mutant) { m.Effect = nil },
		"unknown scope":        func(m *Mutant) { m.Scope = "world" },
		"unknown base":         func(m *Mutant) { m.Base = "nothing" },
		"node without a node":  func(m *Mutant) { m.Scope = ScopeNode },
		"no change":            func(m *Mutant) { m.Changes = Change{} },
		"an effect of nothing": func(m *Mutant) { m.Effect = []Effect{{APIVersion: "v1", Kind: "Pod", JSONPath: "{.spec}"}} },
		"a name and a selector": func(m *Mutant) {
			m.Effect = []Effect{{APIVersion: "v1", Kind: "Pod", Name: "x", Selector: "a=b", JSONPath: "{.spec}", Absent: true}}
		},
		"a bad selector": func(m *Mutant) {
			m.Effect = []Effect{{APIVersion: "v1", Kind: "Pod", Selector: "a=b=c", JSONPath: "{.spec}", Absent: true}}
		},
		"a service of the reference": func(m *Mutant) { m.OwnService = true },
		"an effect on no service": func(m *Mutant) {
			m.Effect = []Effect{{APIVersion: "v1", Kind: "Pod", System: true, JSONPath: "{.spec}", Absent: true}}
		},
		"an effect's bad path": func(m *Mutant) {
			m.Effect = []Effect{{APIVersion: "v1", Kind: "Pod", JSONPath: "{.spec", Absent: true}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := good
			spoil(&m)
			assert.Error(t, m.check("x"))
		})
	}
}
