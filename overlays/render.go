// SPDX-License-Identifier: Apache-2.0

package overlays

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

//go:embed base mutants
var files embed.FS

// The overlays of a cluster of our own; [Parts] has their order. Those of kode-gopher
// are at [KodeGopher].
const (
	System    = "base/agent-sandbox-system" // controller, CRDs, admission policy
	Reference = "base/agent-sandbox"        // the hardened template and pool
	Seed      = "base/seed"                 // the seed's own template and pool
	Controls  = "base/controls"             // control, impostor and client
	Router    = "base/router"               // whom the sandboxes' policy lets in
	// Default is the hardened template under the controller's default policy.
	Default    = "base/agent-sandbox-default"
	Playground = "base/playground" // the execution service and its namespace
)

// The names of Agent Sandbox's targets: the same in each namespace.
const (
	ReferenceNamespace = "sandboxes"
	SeedNamespace      = "seed"
	DefaultNamespace   = "sandboxes-default"
	ControlsNamespace  = "stockade-system"
	ClientsNamespace   = "stockade-clients" // whose Pods may call the targets' servers
	TemplateName       = "budget-sandbox"
	PoolName           = "budget-pool"

	PlaygroundNamespace = "playground"
	// PodTemplateName is what runs are made of, and ExecutionAccount the service
	// account that makes them.
	PodTemplateName  = "run"
	ExecutionAccount = "playground-system/execution"
)

// The images that the overlays name. They are on our own nodes only; elsewhere
// they are replaced.
const (
	ControllerImage = "stockade.local/agent-sandbox-controller:v0.5.6"
	SandboxImage    = "stockade.local/python-sandbox:3.11"
)

// SandboxLabel is the key of the label that all sandboxes of a template have;
// its value is [TemplateName], of kode-gopher's [KodeGopherSandboxApp].
const SandboxLabel = "app"

// moduleFolders are the parts of the agent-sandbox module that overlays use.
var moduleFolders = []string{"k8s", "examples/policy/vap"}

// root is where the embedded tree lies in the renderer's file system; the
// module's files lie beside it, in /module.
const root = "/overlays"

// Render builds the overlay at a path of this package's tree ("base/seed") and
// returns its objects, in the order in which they can be applied. It is a pure
// function of the embedded files and of module, which comes from [ModuleFS].
func Render(module fs.FS, overlay string) ([]unstructured.Unstructured, error) {
	disk, err := layout(module)
	if err != nil {
		return nil, fmt.Errorf("rendering %s: %w", overlay, err)
	}
	objects, err := build(disk, path.Join(root, overlay))
	if err != nil {
		return nil, fmt.Errorf("rendering %s: %w", overlay, err)
	}
	return objects, nil
}

// layout copies both trees into memory: kustomize reads one file system only.
func layout(module fs.FS) (filesys.FileSystem, error) {
	disk := filesys.MakeFsInMemory()
	if err := copyTree(files, ".", root, disk.WriteFile); err != nil {
		return nil, err
	}
	for _, folder := range moduleFolders {
		if err := copyTree(module, folder, "/module", headsOf(disk)); err != nil {
			return nil, fmt.Errorf("reading %s of the agent-sandbox module (is it the pinned version?): %w", folder, err)
		}
	}
	return disk, nil
}

// definitions is where the whole text of each CustomResourceDefinition lies, by the
// name of the object.
const definitions = "/definitions"

// headsOf returns the function that writes the module's files for kustomize. Of a
// CustomResourceDefinition it writes the head without the schema, which [whole]
// puts back afterwards: kustomize copies a file once for each level of nesting,
// which takes a second for the two of 400 kB.
func headsOf(disk filesys.FileSystem) func(name string, text []byte) error {
	return func(name string, text []byte) error {
		head, _, long := bytes.Cut(text, []byte("\nspec:\n"))
		if !long || !bytes.Contains(head, []byte("kind: CustomResourceDefinition\n")) {
			return disk.WriteFile(name, text)
		}
		var o unstructured.Unstructured
		if err := yaml.Unmarshal(head, &o.Object); err != nil {
			return err
		}
		if err := disk.WriteFile(path.Join(definitions, o.GetName()), text); err != nil {
			return err
		}
		return disk.WriteFile(name, head)
	}
}

// whole puts the schema of a CustomResourceDefinition back. An overlay may change its
// metadata, and nothing else.
func whole(disk filesys.FileSystem, o *unstructured.Unstructured) error {
	file := path.Join(definitions, o.GetName())
	if o.GetKind() != "CustomResourceDefinition" || !disk.Exists(file) {
		return nil
	}
	text, err := disk.ReadFile(file)
	if err != nil {
		return err
	}
	full, err := object(text)
	if err != nil {
		return err
	}
	for k, v := range full.Object {
		if _, there := o.Object[k]; !there {
			o.Object[k] = v
		} else if k == "spec" {
			return errors.New("an overlay changes its spec")
		}
	}
	return nil
}

// object reads one as JSON. Numbers of whole value become int64 this way, as the
// dynamic client wants them; yaml.Unmarshal alone makes them float64.
func object(text []byte) (o unstructured.Unstructured, err error) {
	asJSON, err := yaml.YAMLToJSON(text)
	if err != nil {
		return o, err
	}
	err = o.UnmarshalJSON(asJSON)
	return o, err
}

func copyTree(from fs.FS, folder, to string, write func(name string, text []byte) error) error {
	return fs.WalkDir(from, folder, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(name, ".yaml") {
			return err
		}
		text, err := fs.ReadFile(from, name)
		if err != nil {
			return err
		}
		return write(path.Join(to, name), text)
	})
}

func build(disk filesys.FileSystem, folder string) ([]unstructured.Unstructured, error) {
	options := krusty.MakeDefaultOptions()
	// The module's policy files lie outside of our folders, and kustomize's
	// own load rule would forbid naming them.
	options.LoadRestrictions = types.LoadRestrictionsNone
	options.Reorder = krusty.ReorderOptionLegacy
	found, err := krusty.MakeKustomizer(options).Run(disk, folder)
	if err != nil {
		return nil, err
	}
	objects := make([]unstructured.Unstructured, 0, found.Size())
	for _, r := range found.Resources() {
		text, err := r.MarshalJSON()
		if err != nil {
			return nil, fmt.Errorf("writing %s: %w", r.CurId(), err)
		}
		var o unstructured.Unstructured
		if err := o.UnmarshalJSON(text); err != nil {
			return nil, fmt.Errorf("reading %s: %w", r.CurId(), err)
		}
		if err := whole(disk, &o); err != nil {
			return nil, fmt.Errorf("reading %s: %w", r.CurId(), err)
		}
		objects = append(objects, o)
	}
	return objects, nil
}
