// SPDX-License-Identifier: Apache-2.0

package kind

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/kind/pkg/apis/config/v1alpha4"

	"github.com/stockade-dev/stockade/infra/kube"
	overlay "github.com/stockade-dev/stockade/overlays/kind"
)

type clusterConfig = v1alpha4.Cluster

// definitions are the folders of Cilium's CustomResourceDefinitions in its
// module.
var definitions = []string{
	"pkg/k8s/apis/cilium.io/client/crds/v2",
	"pkg/k8s/apis/cilium.io/client/crds/v2alpha1",
}

// apiHostPlaceholder is replaced by withAPIHost.
const apiHostPlaceholder = "STOCKADE_API_HOST"

// systemObjects reads all that Up applies: Cilium's definitions out of its
// module, and the overlay.
func systemObjects(f HostFacts, ciliumDir string) ([]*unstructured.Unstructured, error) {
	var objs []*unstructured.Unstructured
	if ciliumDir == "" {
		return nil, errors.New("reading Cilium's definitions: the folder of its module is not given")
	}
	root := os.DirFS(ciliumDir)
	for _, dir := range definitions {
		if err := readDir(root, dir, &objs); err != nil {
			return nil, fmt.Errorf("reading Cilium's definitions from %s: %w", filepath.Join(ciliumDir, dir), err)
		}
	}
	if err := readDir(overlay.Cluster, "cluster", &objs); err != nil {
		return nil, fmt.Errorf("reading the overlay: %w", err)
	}
	if !f.IPv6 {
		withoutIPv6(objs)
	}
	return objs, nil
}

func readDir(fsys fs.FS, dir string, objs *[]*unstructured.Unstructured) error {
	paths, err := fs.Glob(fsys, dir+"/*.yaml")
	if err != nil {
		return err
	}
	if len(paths) == 0 {
		return errors.New("there is no manifest")
	}
	for _, path := range paths {
		data, err := fs.ReadFile(fsys, path)
		if err != nil {
			return err
		}
		found, err := kube.Decode(bytes.NewReader(data))
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		*objs = append(*objs, found...)
	}
	return nil
}

// withoutIPv6 turns IPv6 off in Cilium's configuration.
func withoutIPv6(objs []*unstructured.Unstructured) {
	for _, obj := range objs {
		if obj.GetKind() != "ConfigMap" || obj.GetName() != "cilium-config" {
			continue
		}
		data, _, _ := unstructured.NestedMap(obj.Object, "data")
		for key := range data {
			if strings.Contains(key, "ipv6") {
				delete(data, key)
			}
		}
		data["enable-ipv6"] = "false"
		obj.Object["data"] = data
	}
}

// withAPIHost returns the objects with the API server's address filled in.
func withAPIHost(objs []*unstructured.Unstructured, host string) []*unstructured.Unstructured {
	out := make([]*unstructured.Unstructured, len(objs))
	for i, obj := range objs {
		out[i] = obj
		if obj.GetKind() == "DaemonSet" {
			out[i] = obj.DeepCopy()
			replaceStrings(out[i].Object, apiHostPlaceholder, host)
		}
	}
	return out
}

// replaceStrings replaces every string that equals old, at any depth.
func replaceStrings(value any, old, replacement string) any {
	switch v := value.(type) {
	case string:
		if v == old {
			return replacement
		}
	case map[string]any:
		for k := range v {
			v[k] = replaceStrings(v[k], old, replacement)
		}
	case []any:
		for i := range v {
			v[i] = replaceStrings(v[i], old, replacement)
		}
	}
	return value
}

// digest identifies all that a cluster is made from.
func digest(parts ...any) (string, error) {
	h := sha256.New()
	for _, part := range parts {
		data, err := json.Marshal(part)
		if err != nil {
			return "", fmt.Errorf("hashing the cluster's inputs: %w", err)
		}
		_, _ = fmt.Fprintf(h, "%d:", len(data))
		_, _ = h.Write(data)
	}
	return hex.EncodeToString(h.Sum(nil))[:16], nil
}
