// SPDX-License-Identifier: Apache-2.0

package overlays

import (
	"fmt"
	"regexp"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// pinnedKinds are the kinds whose images have to be digests: what the playground's
// runs are made of, and the copy of it that the execution service reads.
var pinnedKinds = map[string]bool{"PodTemplate": true, "ConfigMap": true}

// imageLine finds an image in the text of a manifest.
var imageLine = regexp.MustCompile(`(?m)^(\s*(?:- )?image: )(\S+)$`)

// Pin replaces, in place, the images of Pod templates by their digests, which
// nobody knows before the images are built. digests has the references with a
// digest by those with a tag.
//
// Errors: an image whose digest is not known. The admission policy would turn
// its Pods away, one by one and later.
func Pin(objects []unstructured.Unstructured, digests map[string]string) error {
	var missing error
	digest := func(image string) string {
		if d, ok := digests[image]; ok {
			return d
		}
		missing = fmt.Errorf("looking for the digest of image %s: the nodes do not have it; `stockade images build` and `stockade up` bring it", image)
		return image
	}
	for i := range objects {
		o := &objects[i]
		switch {
		case !pinnedKinds[o.GetKind()]:
		case o.GetKind() == "ConfigMap":
			data, _, err := unstructured.NestedStringMap(o.Object, "data")
			if err != nil {
				return fmt.Errorf("reading ConfigMap %s: %w", o.GetName(), err)
			}
			for key, text := range data {
				data[key] = imageLine.ReplaceAllStringFunc(text, func(line string) string {
					m := imageLine.FindStringSubmatch(line)
					return m[1] + digest(m[2])
				})
			}
			if len(data) > 0 {
				if err := unstructured.SetNestedStringMap(o.Object, data, "data"); err != nil {
					return fmt.Errorf("writing ConfigMap %s: %w", o.GetName(), err)
				}
			}
		default:
			pinImages(o.Object, digest)
		}
	}
	return missing
}

func pinImages(v any, digest func(string) string) {
	switch v := v.(type) {
	case map[string]any:
		if image, ok := v["image"].(string); ok {
			v["image"] = digest(image)
		}
		for _, x := range v {
			pinImages(x, digest)
		}
	case []any:
		for _, x := range v {
			pinImages(x, digest)
		}
	}
}
