// SPDX-License-Identifier: Apache-2.0

package overlays

import (
	"fmt"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// ownTag is the tag of the images that are built out of this checkout. Their
// bytes change and their tags do not, so that a Pod which names the tag goes on
// with the old ones.
const ownTag = ":dev"

// imageLine finds an image in the text of a manifest.
var imageLine = regexp.MustCompile(`(?m)^(\s*(?:- )?image: )(\S+)$`)

// Pin replaces, in place, the images of our own programs by their digests, which
// nobody knows before they are built. The playground's admission policy wants
// digests, and everything else begins anew when its program has changed. digests
// has the references with a digest by those with a tag.
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
		o := &objects[i]
		if o.GetKind() != "ConfigMap" {
			pinImages(o.Object, digest)
			continue
		}
		// The copy of a Pod template that the execution service reads.
		data, found, err := unstructured.NestedStringMap(o.Object, "data")
		if err != nil {
			return fmt.Errorf("reading ConfigMap %s: %w", o.GetName(), err)
		}
		if !found {
			continue
		}
		for key, text := range data {
			data[key] = imageLine.ReplaceAllStringFunc(text, func(line string) string {
				m := imageLine.FindStringSubmatch(line)
				return m[1] + digest(m[2])
			})
		}
		if err := unstructured.SetNestedStringMap(o.Object, data, "data"); err != nil {
			return fmt.Errorf("writing ConfigMap %s: %w", o.GetName(), err)
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
