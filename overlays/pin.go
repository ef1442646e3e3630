// SPDX-License-Identifier: Apache-2.0

package overlays

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// ownTag is the tag of the images that are built out of this checkout. Their bytes
// change and their tag does not, so a Pod that names the tag would go on with old
// ones.
const ownTag = ":dev"

// imageLine finds an image in the text of a manifest.
var imageLine = regexp.MustCompile(`(?m)^(\s*(?:- )?image: )(\S+)$`)

// Pin replaces, in place, the images of our own programs by their digests, which
// are not known before they are built. The playground's admission policy demands
// digests, and with one a Deployment is rolled out anew when its program has
// changed. digests has the references by digest, by those with a tag.
//
// A Deployment whose Pods read one of the ConfigMaps is rolled out anew with that,
// too: the digest of the data is an annotation of its Pods.
//
// Errors: an image whose digest is not known. The kubelet would look for it in
// vain, or the admission policy would turn its Pods away, one by one and later.
func Pin(objects []unstructured.Unstructured, digests map[string]string) error {
	var missing error
	digest := func(image string) string {
		if !strings.HasSuffix(image, ownTag) {
			return image
		}
		if d, ok := digests[image]; ok {
			return d
		}
		missing = fmt.Errorf("looking for the digest of image %s: the nodes do not have it; `stockade images build` and `stockade up` bring it", image)
		return image
	}
	for i := range objects {
		data, err := changeEachImage(&objects[i], digest)
		if err != nil {
			return err
		}
		if data == nil {
			continue
		}
		if err := announce(objects, objects[i], data); err != nil {
			return fmt.Errorf("announcing ConfigMap %s: %w", objects[i].GetName(), err)
		}
	}
	return missing
}

// Images names the images of our own programs that some parts run, sorted: what the
// nodes need beside the images that they come with.
func Images(module fs.FS, parts []Part) ([]string, error) {
	var own []string
	for _, p := range parts {
		objects, err := Render(module, p.Overlay)
		if err != nil {
			return nil, err
		}
		for i := range objects {
			_, err := changeEachImage(&objects[i], func(image string) string {
				if strings.HasSuffix(image, ownTag) {
					own = append(own, image)
				}
				return image
			})
			if err != nil {
				return nil, err
			}
		}
	}
	slices.Sort(own)
	return slices.Compact(own), nil
}

// changeEachImage replaces every image that an object names by what change returns
// for it. Of a ConfigMap, which may hold the copy of a Pod template for the
// execution service, it returns the changed data.
func changeEachImage(o *unstructured.Unstructured, change func(string) string) (data map[string]string, err error) {
	if o.GetKind() != "ConfigMap" {
		changeImages(o.Object, change)
		return nil, nil
	}
	data, found, err := unstructured.NestedStringMap(o.Object, "data")
	if err != nil {
		return nil, fmt.Errorf("reading ConfigMap %s: %w", o.GetName(), err)
	}
	if !found {
		return nil, nil
	}
	for key, text := range data {
		data[key] = imageLine.ReplaceAllStringFunc(text, func(line string) string {
			m := imageLine.FindStringSubmatch(line)
			return m[1] + change(m[2])
		})
	}
	if err := unstructured.SetNestedStringMap(o.Object, data, "data"); err != nil {
		return nil, fmt.Errorf("writing ConfigMap %s: %w", o.GetName(), err)
	}
	return data, nil
}

// announce writes the digest of a ConfigMap's data into the Deployments that
// mount it.
func announce(objects []unstructured.Unstructured, config unstructured.Unstructured, data map[string]string) error {
	text, err := json.Marshal(data) // with its keys in order
	if err != nil {
		return err
	}
	sum := sha256.Sum256(text)
	for i := range objects {
		o := &objects[i]
		if o.GetKind() != "Deployment" || o.GetNamespace() != config.GetNamespace() || !mounts(*o, config.GetName()) {
			continue
		}
		err := unstructured.SetNestedField(o.Object, hex.EncodeToString(sum[:]),
			"spec", "template", "metadata", "annotations", "stockade.dev/config-"+config.GetName())
		if err != nil {
			return err
		}
	}
	return nil
}

// mounts tells whether a Deployment's Pods have a ConfigMap as a volume.
func mounts(deployment unstructured.Unstructured, config string) bool {
	volumes, _, _ := unstructured.NestedSlice(deployment.Object, "spec", "template", "spec", "volumes")
	for _, v := range volumes {
		if v, ok := v.(map[string]any); ok {
			if name, _, _ := unstructured.NestedString(v, "configMap", "name"); name == config {
				return true
			}
		}
	}
	return false
}

func changeImages(v any, change func(string) string) {
	switch v := v.(type) {
	case map[string]any:
		if image, ok := v["image"].(string); ok {
			v["image"] = change(image)
		}
		for _, x := range v {
			changeImages(x, change)
		}
	case []any:
		for _, x := range v {
			changeImages(x, change)
		}
	}
}
