// SPDX-License-Identifier: Apache-2.0

package standin

import (
	"fmt"
	"maps"
	"reflect"
	"strings"

	"github.com/pulumi/pulumi/sdk/v3/go/common/resource/sig"
)

// failure is one property that is refused, and why.
type failure struct{ path, why string }

// isUnknown tells whether the engine does not know a value yet.
func isUnknown(v any) bool {
	s, ok := v.(string)
	return ok && sig.IsUnknown(s)
}

// values are the properties of a resource as JSON has them.
type values = map[string]any

// find follows a path of keys, "nodeConfig.imageType". A value that is not
// known counts as absent.
func find(v values, path string) any {
	var at any = v
	for key := range strings.SplitSeq(path, ".") {
		m, ok := at.(map[string]any)
		if !ok || m[key] == nil || isUnknown(m[key]) {
			return nil
		}
		at = m[key]
	}
	return at
}

// raw is find for values that are not known, too.
func raw(v values, path string) any {
	var at any = v
	for key := range strings.SplitSeq(path, ".") {
		m, ok := at.(map[string]any)
		if !ok {
			return nil
		}
		at = m[key]
	}
	return at
}

func has(v values, path string) bool { return find(v, path) != nil }

func text(v values, path string) string { s, _ := find(v, path).(string); return s }

func flag(v values, path string) bool { b, _ := find(v, path).(bool); return b }

func number(v values, path string) float64 { n, _ := find(v, path).(float64); return n }

func list(v values, path string) []any { l, _ := find(v, path).([]any); return l }

// texts returns the strings of a list; what is not known is left out.
func texts(v values, path string) (out []string) {
	for _, x := range list(v, path) {
		if s, ok := x.(string); ok && !isUnknown(s) {
			out = append(out, s)
		}
	}
	return out
}

// objects returns the maps of a list.
func objects(v values, path string) (out []values) {
	for _, x := range list(v, path) {
		if m, ok := x.(map[string]any); ok {
			out = append(out, m)
		}
	}
	return out
}

func clone(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(values, len(v))
		for k, x := range v {
			out[k] = clone(x)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, x := range v {
			out[i] = clone(x)
		}
		return out
	}
	return v
}

// merge lays one set of properties over another; maps are merged, everything
// else is taken from the upper one.
func merge(lower, upper values) values {
	out := clone(lower).(values)
	for k, v := range upper {
		below, isMap := out[k].(map[string]any)
		above, also := v.(map[string]any)
		if isMap && also {
			out[k] = merge(below, above)
		} else if v != nil {
			out[k] = clone(v)
		}
	}
	return out
}

// put sets what a path of keys leads to, with the maps on the way.
func put(v values, path string, x any) {
	keys := strings.Split(path, ".")
	for _, k := range keys[:len(keys)-1] {
		inner, ok := v[k].(map[string]any)
		if !ok {
			inner = values{}
			v[k] = inner
		}
		v = inner
	}
	v[keys[len(keys)-1]] = x
}

// hide replaces everything that lower computes by "not known yet".
func hide(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(values, len(v))
		for k, x := range v {
			out[k] = hide(x)
		}
		return out
	default:
		return sig.UnknownStringValue
	}
}

// differences lists the paths at which two values differ, and how: 'A'dded,
// 'D'eleted or 'U'pdated.
func differences(before, after any, path string, out map[string]rune) {
	switch b := before.(type) {
	case map[string]any:
		a, ok := after.(map[string]any)
		if !ok {
			break
		}
		keys := maps.Clone(b)
		maps.Copy(keys, a)
		for k := range keys {
			inner := k
			if path != "" {
				inner = path + "." + k
			}
			differences(b[k], a[k], inner, out)
		}
		return
	case []any:
		a, ok := after.([]any)
		if !ok {
			break
		}
		for i := range max(len(a), len(b)) {
			var x, y any
			if i < len(b) {
				x = b[i]
			}
			if i < len(a) {
				y = a[i]
			}
			differences(x, y, fmt.Sprintf("%s[%d]", path, i), out)
		}
		return
	}
	switch {
	case reflect.DeepEqual(before, after):
	case before == nil:
		out[path] = 'A'
	case after == nil:
		out[path] = 'D'
	default:
		out[path] = 'U'
	}
}
