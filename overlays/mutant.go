// SPDX-License-Identifier: Apache-2.0

package overlays

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/util/jsonpath"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// Scope says where a mutant's weakening lies, and so how far it is felt.
type Scope string

// The scopes. Node reaches beyond the mutant's own namespace: such a mutant is
// proved alone.
const (
	ScopeTemplate     Scope = "template"     // one field of the SandboxTemplate
	ScopePool         Scope = "pool"         // one field of the SandboxWarmPool
	ScopePolicy       Scope = "policy"       // one object more, which undoes a control
	ScopeNamespace    Scope = "namespace"    // one field of what stands around the sandboxes
	ScopeAdmission    Scope = "admission"    // one rule of the admission policy
	ScopeRuntimeClass Scope = "runtimeclass" // another RuntimeClass
	ScopeNode         Scope = "node"         // one property of the gVisor nodes
)

// The profiles whose deployments have mutants, by id.
const (
	BaseReference        = "agent-sandbox" // the hardened reference
	BasePlayground       = "playground"
	BaseKodeGopherLocal  = "kode-gopher-local"
	BaseKodeGopherShared = "kode-gopher-shared"
)

// Bases are all of them.
var Bases = []string{BaseReference, BasePlayground, BaseKodeGopherLocal, BaseKodeGopherShared}

// Mutant is a twin of a hardened deployment in which exactly one control is
// weaker. It lives in a namespace of its own, with the deployment's names.
type Mutant struct {
	ID    string `json:"id"`
	Title string `json:"title"`
	// Base is the profile whose deployment the mutant weakens; empty means that
	// of the hardened reference.
	Base  string `json:"base,omitempty"`
	Scope Scope  `json:"scope"`
	// Kills are the scenarios that must say Breached on it.
	Kills []string `json:"kills"`
	// Holds are scenarios that must still say Held on it: they tell one missing rule
	// from a policy that is not there (yet) at all. Where there is none, or anything
	// runs code, the canary must hold as well.
	Holds []string `json:"holds,omitempty"`
	// Needs are features (suite.Feature) without which the weakening cannot be
	// felt; where the target lacks one, the mutant is left out.
	Needs []string `json:"needs,omitempty"`
	// Changes is the one place that differs from the reference.
	Changes Change `json:"changes"`
	// Effect is what must be read back from the cluster before the mutant
	// counts; a mutant that did not take effect is void. All must hold.
	Effect []Effect `json:"effect"`
	// Node is set for ScopeNode only: there the objects are the scaffold's.
	Node *NodeChange `json:"node,omitempty"`
	// OwnService is true for a mutant of the playground with a folder "system":
	// an execution service of its own, in a namespace of its own. Without one its
	// runs are made by the playground's.
	OwnService bool `json:"-"`

	// bare is set where it is a scaffold, and no mutant at all.
	bare *bare
}

// Change names one place in one object.
type Change struct {
	Kind string `json:"kind"`
	// Name of the object, where the deployment has several of the kind: what guards
	// one of them guards no other. A namespace's is the deployment's name for it.
	Name string `json:"name,omitempty"`
	// Path is the field in dots and brackets ("spec.podTemplate.spec.volumes[0]").
	// Empty means that the object as a whole was added.
	Path string `json:"path,omitempty"`
	// Also is a second field of the same object, for what takes two entries to
	// say: a volume, and where it is mounted.
	Also string `json:"also,omitempty"`
}

// NodeChange is done to every node that Selector selects, and undone after.
type NodeChange struct {
	Selector map[string]string `json:"selector"`
	// RemoveTaint is the key of the taint to take away.
	RemoveTaint string `json:"removeTaint"`
}

// Effect is one fact of the cluster that shows the weakening.
type Effect struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Name of the object; empty means every object of the kind in the mutant's
	// namespace (for nodes: every one that Node.Selector selects), of which
	// there must be at least one.
	Name string `json:"name,omitempty"`
	// System says that the object is of the mutant's own execution service.
	System bool `json:"system,omitempty"`
	// Selector is a label selector, for a kind of which the namespace holds more
	// than what is meant.
	Selector string `json:"selector,omitempty"`
	// JSONPath is a kubectl JSONPath; its text is compared.
	JSONPath string `json:"jsonPath"`
	// Exactly one of Want (the text is this), Lacks (the text does not contain
	// this) and Absent (nothing is there) must be set.
	Want   *string `json:"want,omitempty"`
	Lacks  string  `json:"lacks,omitempty"`
	Absent bool    `json:"absent,omitempty"`
}

// Namespace is where the mutant lives.
func (m Mutant) Namespace() string { return "mutant-" + m.ID }

// system is the namespace of the mutant's own execution service.
func (m Mutant) system() string { return m.Namespace() + "-system" }

// Namespaces are all that the mutant consists of, its runs' own first.
func (m Mutant) Namespaces() []string {
	if m.OwnService {
		return []string{m.Namespace(), m.system()}
	}
	return []string{m.Namespace()}
}

// Account is the namespace and the name of the service account that makes the
// runs of a mutant of the playground.
func (m Mutant) Account() string {
	if !m.OwnService {
		return ExecutionAccount
	}
	_, name, _ := strings.Cut(ExecutionAccount, "/")
	return m.system() + "/" + name
}

// Where is the namespace in which an effect's object lives, if it is in one.
func (m Mutant) Where(e Effect) string {
	if e.System {
		return m.system()
	}
	return m.Namespace()
}

// Pool is the name of its warm pool; empty where its Pods are made when they are
// wanted.
func (m Mutant) Pool() string {
	switch m.Base {
	case BasePlayground:
		return ""
	case BaseKodeGopherLocal, BaseKodeGopherShared:
		return KodeGopherPool
	}
	return PoolName
}

// SettingsFrom is the namespace of the deployment whose ConfigMaps and Secrets
// the mutant needs as well, because no overlay has them; empty for none.
func (m Mutant) SettingsFrom() string {
	switch m.Base {
	case BaseKodeGopherLocal:
		return KodeGopherNamespace
	case BaseKodeGopherShared:
		return KodeGopherSharedNamespace
	}
	return ""
}

// Alone is true when the weakening is felt outside of the mutant's namespace.
func (m Mutant) Alone() bool { return m.Scope == ScopeNode }

// LoadMutants reads the mutants of this package, ordered by id.
func LoadMutants() ([]Mutant, error) {
	folders, err := fs.ReadDir(files, "mutants")
	if err != nil {
		return nil, fmt.Errorf("reading the mutants: %w", err)
	}
	var all []Mutant
	for _, d := range folders {
		if strings.HasPrefix(d.Name(), scaffoldPrefix) {
			continue
		}
		m, err := loadMutant(d.Name())
		if err != nil {
			return nil, fmt.Errorf("reading mutant %s: %w", d.Name(), err)
		}
		all = append(all, m)
	}
	return all, nil
}

func loadMutant(id string) (Mutant, error) {
	text, err := fs.ReadFile(files, path.Join("mutants", id, "mutant.yaml"))
	if err != nil {
		return Mutant{}, err
	}
	var m Mutant
	if err := yaml.UnmarshalStrict(text, &m); err != nil {
		return Mutant{}, err
	}
	if m.Base == "" {
		m.Base = BaseReference
	}
	_, err = fs.Stat(files, path.Join("mutants", id, systemFolder))
	m.OwnService = err == nil
	return m, m.check(id)
}

// Digest stands for all that the mutant is made of here, in hex. What it weakens, the
// base, is not part of it.
func (m Mutant) Digest() (string, error) {
	sum := sha256.New()
	err := fs.WalkDir(files, path.Join("mutants", m.ID), func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := fs.ReadFile(files, name)
		fmt.Fprintf(sum, "%s %d\n%s", name, len(text), text)
		return err
	})
	if err != nil {
		return "", fmt.Errorf("reading mutant %s: %w", m.ID, err)
	}
	return hex.EncodeToString(sum.Sum(nil))[:16], nil
}

// systemFolder is where a mutant has the overlay of its own execution service.
const systemFolder = "system"

func (m Mutant) check(folder string) error {
	scopes := []Scope{ScopeTemplate, ScopePool, ScopePolicy, ScopeNamespace, ScopeAdmission, ScopeRuntimeClass, ScopeNode}
	switch {
	case m.ID != folder:
		return fmt.Errorf("its id is %q, which is not its folder's name", m.ID)
	case m.Title == "" || len(m.Kills) == 0 || len(m.Effect) == 0:
		return fmt.Errorf("title, kills and effect must be set")
	case !slices.Contains(Bases, m.Base):
		return fmt.Errorf("base %q is not one of %v", m.Base, Bases)
	case !slices.Contains(scopes, m.Scope):
		return fmt.Errorf("scope %q is not one of %v", m.Scope, scopes)
	case (m.Scope == ScopeNode) != (m.Node != nil):
		return fmt.Errorf("node must be set for scope node, and for no other")
	case m.Node == nil && m.Changes.Kind == "":
		return fmt.Errorf("changes must name the one place that differs")
	case m.OwnService && m.Base != BasePlayground:
		return fmt.Errorf("it has a folder %s, and is no mutant of the playground", systemFolder)
	case m.Node != nil && (m.Node.RemoveTaint == "" || len(m.Node.Selector) == 0):
		return fmt.Errorf("node must name a selector and the taint to remove")
	}
	for _, e := range m.Effect {
		set := 0
		for _, is := range []bool{e.Want != nil, e.Lacks != "", e.Absent} {
			if is {
				set++
			}
		}
		if set != 1 || e.Kind == "" || e.APIVersion == "" {
			return fmt.Errorf("effect %q needs apiVersion, kind and exactly one of want, lacks and absent", e.JSONPath)
		}
		if e.System && !m.OwnService {
			return fmt.Errorf("effect %q is on a service of its own, which it does not have", e.JSONPath)
		}
		if _, err := e.parse(); err != nil {
			return err
		}
		if _, err := labels.Parse(e.Selector); err != nil || e.Selector != "" && e.Name != "" {
			return fmt.Errorf("effect %q: selector %q is none, or stands beside a name", e.JSONPath, e.Selector)
		}
	}
	return nil
}

// Render returns the mutant's objects in the order in which they can be
// applied. For ScopeNode that is the scaffold alone.
func (m Mutant) Render(module fs.FS) ([]unstructured.Unstructured, error) {
	disk, err := layout(module)
	if err != nil {
		return nil, fmt.Errorf("rendering mutant %s: %w", m.ID, err)
	}
	return m.build(disk)
}

func (m Mutant) build(disk filesys.FileSystem) ([]unstructured.Unstructured, error) {
	if m.bare != nil {
		if err := m.bare.write(disk, m); err != nil {
			return nil, fmt.Errorf("rendering %s: %w", m.ID, err)
		}
	}
	objects, err := build(disk, path.Join(root, "mutants", m.ID))
	if err != nil {
		return nil, fmt.Errorf("rendering mutant %s: %w", m.ID, err)
	}
	ownClass := slices.ContainsFunc(objects, func(o unstructured.Unstructured) bool { return o.GetKind() == "RuntimeClass" })
	for i := range objects {
		if err := m.confine(&objects[i], ownClass); err != nil {
			return nil, fmt.Errorf("confining %s of mutant %s: %w", objects[i].GetKind(), m.ID, err)
		}
	}
	if !m.OwnService {
		return objects, nil
	}
	service, err := build(disk, path.Join(root, "mutants", m.ID, systemFolder))
	if err != nil {
		return nil, fmt.Errorf("rendering the service of mutant %s: %w", m.ID, err)
	}
	objects = append(objects, service...)
	if err := m.attach(objects); err != nil {
		return nil, fmt.Errorf("giving mutant %s its service: %w", m.ID, err)
	}
	return objects, nil
}

// attach makes the mutant's own execution service the one of the mutant's runs: it
// gives it the rights in their namespace, and makes it read the template and create
// the Pods there. In the playground itself the manifests say all three.
func (m Mutant) attach(objects []unstructured.Unstructured) error {
	var template string
	for _, o := range objects {
		if o.GetKind() == "PodTemplate" {
			own := o.DeepCopy()
			own.SetNamespace("")
			text, err := yaml.Marshal(own.Object)
			if err != nil {
				return fmt.Errorf("writing the template of runs: %w", err)
			}
			template = string(text)
		}
	}
	theirs, _, _ := strings.Cut(ExecutionAccount, "/")
	for _, o := range objects {
		var err error
		switch where := o.GetNamespace(); {
		case o.GetKind() == "RoleBinding" && where == m.Namespace():
			err = eachOf(o, func(subject map[string]any) {
				if subject["namespace"] == theirs {
					subject["namespace"] = m.system()
				}
			}, "subjects")
		case o.GetKind() == "ConfigMap" && where == m.system():
			err = unstructured.SetNestedStringMap(o.Object, map[string]string{"template.yaml": template}, "data")
		case o.GetKind() == "Deployment" && where == m.system():
			err = eachOf(o, func(container map[string]any) {
				args, _, _ := unstructured.NestedStringSlice(container, "args")
				for i, a := range args {
					if a == "--namespace="+PlaygroundNamespace {
						args[i] = "--namespace=" + m.Namespace()
					}
				}
				_ = unstructured.SetNestedStringSlice(container, args, "args") // a map takes it
			}, "spec", "template", "spec", "containers")
		}
		if err != nil {
			return fmt.Errorf("changing %s %s: %w", o.GetKind(), o.GetName(), err)
		}
	}
	return nil
}

// eachOf changes every map of a list in an object.
func eachOf(o unstructured.Unstructured, change func(map[string]any), where ...string) error {
	list, _, err := unstructured.NestedSlice(o.Object, where...)
	if err != nil {
		return err
	}
	for _, x := range list {
		if x, ok := x.(map[string]any); ok {
			change(x)
		}
	}
	return unstructured.SetNestedSlice(o.Object, list, where...)
}

// confine gives the mutant's cluster-wide objects names of their own and binds
// its policy to its namespace, so that no other namespace feels it. ownClass is
// true when the mutant brings the RuntimeClass that its template asks for.
func (m Mutant) confine(o *unstructured.Unstructured, ownClass bool) error {
	switch o.GetKind() {
	case "SandboxTemplate":
		where := []string{"spec", "podTemplate", "spec", "runtimeClassName"}
		class, found, err := unstructured.NestedString(o.Object, where...)
		if err != nil || !found || !ownClass {
			return err
		}
		return unstructured.SetNestedField(o.Object, m.own(class), where...)
	case "ValidatingAdmissionPolicy", "RuntimeClass":
		o.SetName(m.own(o.GetName()))
	case "ValidatingAdmissionPolicyBinding":
		o.SetName(m.own(o.GetName()))
		policy, _, err := unstructured.NestedString(o.Object, "spec", "policyName")
		if err != nil {
			return err
		}
		if err := unstructured.SetNestedField(o.Object, m.own(policy), "spec", "policyName"); err != nil {
			return err
		}
		return unstructured.SetNestedMap(o.Object, map[string]any{
			"matchLabels": map[string]any{"kubernetes.io/metadata.name": m.Namespace()},
		}, "spec", "matchResources", "namespaceSelector")
	}
	return nil
}

func (m Mutant) own(name string) string { return m.Namespace() + "-" + name }

// ScaffoldBinding returns the reference's admission binding as it has to be
// while mutants are proved, and as it is otherwise. The first leaves out
// namespaces with the label stockade.dev/mutant; prove applies it once and
// applies the second afterwards, whatever happened.
func ScaffoldBinding(module fs.FS) (during, after unstructured.Unstructured, err error) {
	objects, err := Render(module, System)
	if err != nil {
		return during, after, err
	}
	for _, o := range objects {
		if o.GetKind() != "ValidatingAdmissionPolicyBinding" {
			continue
		}
		after, during = o, *o.DeepCopy()
		where := []string{"spec", "matchResources", "namespaceSelector", "matchExpressions"}
		rules, _, err := unstructured.NestedSlice(during.Object, where...)
		if err != nil {
			return during, after, fmt.Errorf("reading the admission binding: %w", err)
		}
		rules = append(rules, map[string]any{"key": "stockade.dev/mutant", "operator": "DoesNotExist"})
		if err := unstructured.SetNestedSlice(during.Object, rules, where...); err != nil {
			return during, after, fmt.Errorf("exempting the mutants: %w", err)
		}
		return during, after, nil
	}
	return during, after, fmt.Errorf("rendering %s: it has no admission binding", System)
}

func (e Effect) parse() (*jsonpath.JSONPath, error) {
	p := jsonpath.New(e.Kind).AllowMissingKeys(true)
	if err := p.Parse(e.JSONPath); err != nil {
		return nil, fmt.Errorf("parsing the JSONPath %q: %w", e.JSONPath, err)
	}
	return p, nil
}

// Check reads the fact out of one object (unstructured content) and tells
// whether it is as the mutant needs it, and what was seen.
func (e Effect) Check(object map[string]any) (ok bool, saw string, err error) {
	p, err := e.parse()
	if err != nil {
		return false, "", err
	}
	var text bytes.Buffer
	if err := p.Execute(&text, object); err != nil {
		return false, "", fmt.Errorf("reading %s of a %s: %w", e.JSONPath, e.Kind, err)
	}
	got := strings.TrimSpace(text.String())
	saw = fmt.Sprintf("%s %s is %q", e.Kind, e.JSONPath, got)
	switch {
	case e.Absent:
		return got == "", saw, nil
	case e.Want != nil:
		return got == *e.Want, saw, nil
	default:
		// An empty text lacks everything; it also means that nothing was read.
		return got != "" && !strings.Contains(got, e.Lacks), saw, nil
	}
}
