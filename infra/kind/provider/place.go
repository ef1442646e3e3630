// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"unicode"

	"github.com/pulumi/pulumi/sdk/v3/go/common/resource"
)

// place is what `stockade place` says: cli.Place, as far as a program needs it.
// It is read again here, and not imported, for it comes from another process
// whose version may differ.
type place struct {
	Name              string            `json:"name"`
	UID               string            `json:"uid"`
	Healthy           bool              `json:"healthy"`
	Reason            string            `json:"reason"`
	Nodes             []string          `json:"nodes"`
	KubernetesVersion string            `json:"kubernetesVersion"`
	Kubeconfig        string            `json:"kubeconfig"`
	Seal              string            `json:"seal"`
	Images            map[string]string `json:"images"`
	Descriptor        map[string]any    `json:"descriptor"`
	Tokens            string            `json:"tokens"`
	SignerKeys        string            `json:"signerKeys"`
	RangeCA           string            `json:"rangeCA"`
}

// maxDepth bounds how deep a descriptor may be nested.
const maxDepth = 16

// decodePlace reads a place, and refuses what must not become part of a state.
func decodePlace(data []byte) (place, error) {
	var p place
	dec := json.NewDecoder(bytes.NewReader(data))
	if err := dec.Decode(&p); err != nil {
		return place{}, fmt.Errorf("reading what `stockade place` says: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return place{}, errors.New("reading what `stockade place` says: there is more than one document")
	}
	if p.UID == "" {
		return place{}, errors.New("reading what `stockade place` says: the cluster has no UID")
	}
	for _, s := range append([]string{p.Name, p.UID, p.KubernetesVersion, p.Seal}, p.Nodes...) {
		if len(s) > 253 || strings.ContainsFunc(s, unicode.IsControl) {
			return place{}, fmt.Errorf("reading what `stockade place` says: %.60q is no name", s)
		}
	}
	for name, ref := range p.Images {
		if len(name) > 253 || len(ref) > 512 || strings.ContainsFunc(name+ref, unicode.IsControl) || !strings.Contains(ref, "@sha256:") {
			return place{}, fmt.Errorf("reading what `stockade place` says: %.60q is no image by its digest", ref)
		}
	}
	if err := plain(p.Descriptor, 0); err != nil {
		return place{}, fmt.Errorf("reading the descriptor of `stockade place`: %w", err)
	}
	return p, nil
}

// keptLayer is the one that `stockade down` keeps.
const keptLayer = "images"

// decodeLeft reads what `stockade status` says, and returns the names of the layers
// of which something stands and which `stockade down` removes.
func decodeLeft(data []byte) ([]string, error) {
	var layers []struct {
		Name string `json:"name"`
		Up   bool   `json:"up"`
		Left bool   `json:"left"`
	}
	if err := json.Unmarshal(data, &layers); err != nil {
		return nil, fmt.Errorf("reading what `stockade status` says: %w", err)
	}
	var left []string
	for _, l := range layers {
		if len(l.Name) > 253 || strings.ContainsFunc(l.Name, unicode.IsControl) {
			return nil, fmt.Errorf("reading what `stockade status` says: %.60q is no name", l.Name)
		}
		if l.Name != keptLayer && (l.Up || l.Left) {
			left = append(left, l.Name)
		}
	}
	return left, nil
}

// plain refuses objects that the engine would take for something else than data:
// a file to read, a secret, a reference to another resource. A key marks them.
func plain(v any, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("it is nested more than %d deep", maxDepth)
	}
	switch v := v.(type) {
	case map[string]any:
		for k, x := range v {
			if k == resource.SigKey {
				return errors.New("it has a key that is reserved by Pulumi")
			}
			if err := plain(x, depth+1); err != nil {
				return err
			}
		}
	case []any:
		for _, x := range v {
			if err := plain(x, depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}

// The names of the properties.
const (
	propHome              = "home"
	propInputs            = "inputs"
	propProfiles          = "profiles"
	propPrograms          = "programs"
	propName              = "name"
	propUID               = "uid"
	propHealthy           = "healthy"
	propReason            = "reason"
	propNodes             = "nodes"
	propKubernetesVersion = "kubernetesVersion"
	propKubeconfig        = "kubeconfig"
	propSeal              = "seal"
	propImages            = "images"
	propDescriptor        = "descriptor"
	propTokens            = "tokens"
	propSignerKeys        = "signerKeys"
	propRangeCA           = "rangeCA"
)

// outputs are the resource's properties: its inputs and what the place says.
func (p place) outputs(inputs resource.PropertyMap) resource.PropertyMap {
	nodes := make([]resource.PropertyValue, len(p.Nodes))
	for i, n := range p.Nodes {
		nodes[i] = resource.NewProperty(n)
	}
	out := maps.Clone(inputs)
	out[propName] = resource.NewProperty(p.Name)
	out[propUID] = resource.NewProperty(p.UID)
	out[propHealthy] = resource.NewProperty(p.Healthy)
	out[propReason] = resource.NewProperty(p.Reason)
	out[propNodes] = resource.NewProperty(nodes)
	out[propKubernetesVersion] = resource.NewProperty(p.KubernetesVersion)
	out[propKubeconfig] = resource.MakeSecret(resource.NewProperty(p.Kubeconfig))
	out[propSeal] = resource.NewProperty(p.Seal)
	images := resource.PropertyMap{}
	for name, ref := range p.Images {
		images[resource.PropertyKey(name)] = resource.NewProperty(ref)
	}
	out[propImages] = resource.NewProperty(images)
	out[propDescriptor] = resource.NewProperty(resource.NewPropertyMapFromMap(p.Descriptor))
	out[propTokens] = resource.MakeSecret(resource.NewProperty(p.Tokens))
	out[propSignerKeys] = resource.NewProperty(p.SignerKeys)
	out[propRangeCA] = resource.NewProperty(p.RangeCA)
	return out
}

// names is an input that is a list of names, such as the profiles; without any it is
// empty.
//
// Errors: it is something else, or is not known yet.
func names(in resource.PropertyMap, key resource.PropertyKey) ([]string, error) {
	v, ok := in[key]
	if !ok || v.IsNull() {
		return nil, nil
	}
	wrong := fmt.Errorf("%s must be a list of names", key)
	if !v.IsArray() {
		return nil, wrong
	}
	var out []string
	for _, v := range v.ArrayValue() {
		if !v.IsString() || v.StringValue() == "" || strings.ContainsFunc(v.StringValue(), func(r rune) bool { return r == ',' || unicode.IsControl(r) }) {
			return nil, wrong
		}
		out = append(out, v.StringValue())
	}
	return out, nil
}

// sameNames tells whether a list of names is the same in both, as far as is known.
func sameNames(a, b resource.PropertyMap, key resource.PropertyKey) bool {
	before, errA := names(a, key)
	after, errB := names(b, key)
	return errA == nil && errB == nil && slices.Equal(before, after)
}

// updatedOutputs are the properties, as far as they are known beforehand, of a
// cluster after an update in place. A healthy cluster keeps its own, except for its
// images where its programs change; the images that further profiles bring are not
// in them yet. Of a cluster that is not healthy nothing is known: what mends it may
// make another one.
func updatedOutputs(inputs, state resource.PropertyMap) resource.PropertyMap {
	out := unknownOutputs(inputs)
	if v := state[propHealthy]; !v.IsBool() || !v.BoolValue() {
		return out
	}
	for k, v := range state {
		switch unknown, is := out[k]; {
		case !is || k == propImages && !sameNames(inputs, state, propPrograms):
		case unknown.IsSecret():
			out[k] = resource.MakeSecret(v)
		default:
			out[k] = v
		}
	}
	maps.Copy(out, inputs)
	return out
}

// unknownOutputs are the properties of a cluster that does not exist yet.
func unknownOutputs(inputs resource.PropertyMap) resource.PropertyMap {
	out := maps.Clone(inputs)
	for _, k := range []resource.PropertyKey{
		propName, propUID, propHealthy, propReason, propNodes, propKubernetesVersion, propSeal, propImages, propDescriptor, propSignerKeys, propRangeCA,
	} {
		out[k] = resource.MakeComputed(resource.NewProperty(""))
	}
	for _, k := range []resource.PropertyKey{propKubeconfig, propTokens} {
		out[k] = resource.MakeSecret(resource.MakeComputed(resource.NewProperty("")))
	}
	return out
}
