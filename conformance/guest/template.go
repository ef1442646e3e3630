// SPDX-License-Identifier: Apache-2.0

package guest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"

	"github.com/stockade-dev/stockade/infra/kube/agentsandbox"
	"github.com/stockade-dev/stockade/overlays"
)

// MaxSize bounds a template's file, in bytes. The API server would refuse
// more, after it was sent.
const MaxSize = 1 << 20

// The two kinds that a guest is made of.
var (
	templateKind = agentsandbox.Template
	poolKind     = agentsandbox.WarmPool
)

// Template is a user's SandboxTemplate that has been read and looks whole.
type Template struct {
	// Name is what the user calls it.
	Name string

	object *unstructured.Unstructured
	pod    corev1.PodSpec
}

// Target is the name that a report gives the template; it cannot be that of
// one of our own targets.
func (t *Template) Target() string { return "template/" + t.Name }

// Read reads a template from a file. What it cannot use is an error that says
// what to change.
func Read(path string) (*Template, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil, fmt.Errorf("reading the template: there is no file %s", path)
	case err != nil:
		return nil, fmt.Errorf("reading the template: %w", err)
	case !info.Mode().IsRegular():
		// A pipe could be read only once, and it is read on both sides of the
		// seal.
		return nil, fmt.Errorf("reading the template: %s is no regular file: save it as one first", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("reading the template: %w", err)
	}
	doc, err := io.ReadAll(io.LimitReader(f, MaxSize+1))
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, fmt.Errorf("reading the template: %w", err)
	}
	t, err := Parse(doc)
	if err != nil {
		return nil, fmt.Errorf("reading the template %s: %w", path, err)
	}
	return t, nil
}

// Parse reads a template out of a YAML or JSON text that holds nothing else.
func Parse(text []byte) (*Template, error) {
	if len(text) > MaxSize {
		return nil, fmt.Errorf("it is larger than %d bytes, which no API server takes: leave only the SandboxTemplate in it", MaxSize)
	}
	if !utf8.Valid(text) {
		return nil, errors.New("it is no UTF-8 text: save it as one")
	}
	var found []*unstructured.Unstructured
	for n, doc := range documents(text) {
		// Strict: of a key that stands there twice, a reader would see one and
		// the cluster the other.
		asJSON, err := yaml.YAMLToJSONStrict(doc)
		if err != nil {
			return nil, fmt.Errorf("document %d is no YAML: %w", n+1, err)
		}
		var content any
		if err := utiljson.Unmarshal(asJSON, &content); err != nil {
			return nil, fmt.Errorf("document %d is no YAML: %w", n+1, err)
		}
		if content == nil {
			continue // comments only
		}
		object, ok := content.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("document %d is no Kubernetes object: a SandboxTemplate begins with apiVersion and kind", n+1)
		}
		found = append(found, &unstructured.Unstructured{Object: object})
	}
	switch len(found) {
	case 0:
		return nil, errors.New("it is empty: one SandboxTemplate is needed")
	case 1:
		return sound(found[0])
	}
	kinds := make([]string, 0, len(found))
	for _, o := range found {
		kinds = append(kinds, o.GetKind()+" "+o.GetName())
	}
	return nil, fmt.Errorf("it holds %d objects (%s): leave exactly one SandboxTemplate; its namespace and its pool are made for the run", len(found), strings.Join(kinds, ", "))
}

// documents splits a text where YAML does: at the lines that begin with "---"
// or are "...". The common libraries read the first document of several and say
// nothing, or miss a separator with a comment behind it.
func documents(text []byte) [][]byte {
	docs := [][]byte{nil}
	for line := range bytes.Lines(text) {
		last := len(docs) - 1
		mark, rest := line[:min(3, len(line))], line[min(3, len(line)):]
		ends := len(bytes.TrimLeft(rest, " \t\r\n")) < len(rest) || len(rest) == 0
		switch {
		case ends && string(mark) == "---":
			docs = append(docs, slices.Clone(rest))
		case ends && string(mark) == "...":
			docs = append(docs, nil)
		default:
			docs[last] = append(docs[last], line...)
		}
	}
	return docs
}

// sound checks what can be told without a cluster.
func sound(o *unstructured.Unstructured) (*Template, error) {
	switch got := o.GroupVersionKind(); {
	case got == templateKind:
	case got.GroupKind() == templateKind.GroupKind():
		return nil, fmt.Errorf("it is a SandboxTemplate of %s: write it for %s", got.GroupVersion(), templateKind.GroupVersion())
	default:
		return nil, fmt.Errorf("it is kind %q of apiVersion %q: a SandboxTemplate of %s is needed", o.GetKind(), o.GetAPIVersion(), templateKind.GroupVersion())
	}
	t := &Template{Name: o.GetName(), object: o}
	if wrong := validation.IsDNS1123Subdomain(t.Name); len(wrong) > 0 {
		return nil, fmt.Errorf("metadata.name %q: %s", t.Name, strings.Join(wrong, "; "))
	}
	spec, _, err := unstructured.NestedMap(o.Object, "spec", "podTemplate", "spec")
	if err != nil {
		return nil, fmt.Errorf("spec.podTemplate.spec: %w", err)
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(spec, &t.pod, true); err != nil {
		return nil, fmt.Errorf("spec.podTemplate.spec: %w", err)
	}
	if len(t.pod.Containers) == 0 {
		return nil, errors.New("spec.podTemplate.spec.containers is empty: there is nothing to run")
	}
	for _, c := range slices.Concat(t.pod.InitContainers, t.pod.Containers) {
		if c.Image == "" {
			return nil, fmt.Errorf("container %q of spec.podTemplate.spec names no image", c.Name)
		}
	}
	return t, nil
}

// in returns the template as it is deployed in a namespace. Its name is that of
// our own templates, as the scenarios know it. Of its metadata, labels and
// annotations stay: an exported object has fields of the server's own, and a
// finalizer of nobody here would keep the namespace forever.
func (t *Template) in(namespace string) *unstructured.Unstructured {
	o := t.object.DeepCopy()
	meta := map[string]any{"name": overlays.TemplateName, "namespace": namespace}
	if had, ok := o.Object["metadata"].(map[string]any); ok {
		for _, field := range []string{"labels", "annotations"} {
			if v, ok := had[field]; ok {
				meta[field] = v
			}
		}
	}
	o.Object["metadata"] = meta
	delete(o.Object, "status")
	return o
}

// pool returns the warm pool of one that goes with it.
func pool(namespace string) *unstructured.Unstructured {
	p := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"replicas": int64(1), "sandboxTemplateRef": map[string]any{"name": overlays.TemplateName},
	}}}
	p.SetGroupVersionKind(poolKind)
	p.SetNamespace(namespace)
	p.SetName(overlays.PoolName)
	return p
}
