// SPDX-License-Identifier: Apache-2.0

package standin

import (
	"regexp"
	"slices"
)

var policyName = regexp.MustCompile(`^accessPolicies/[0-9]+/(accessLevels|servicePerimeters)/[A-Za-z][A-Za-z0-9_]*$`)

var levelKind = &kind{
	id:   func(_ *Cloud, v values) string { return text(v, "name") },
	name: policyName, named: "name",
	replace: []string{"name", "parent"},
	accept:  acceptLevel,
	keep: func(c *Cloud, r *record) error {
		for _, p := range c.all(typePerimeter) {
			if slices.Contains(slices.Concat(texts(p.Inputs, "status.accessLevels"), texts(p.Inputs, "spec.accessLevels")), r.ID) {
				return inUse(r, p)
			}
		}
		return nil
	},
}

var perimeterKind = &kind{
	id:   func(_ *Cloud, v values) string { return text(v, "name") },
	name: policyName, named: "name",
	defaults: values{"perimeterType": "PERIMETER_TYPE_REGULAR"},
	oneOf:    map[string][]string{"perimeterType": {"PERIMETER_TYPE_REGULAR", "PERIMETER_TYPE_BRIDGE"}},
	replace:  []string{"name", "parent", "perimeterType"},
	accept:   acceptPerimeter,
	computed: func(*Cloud, *record) values { return values{"createTime": epoch, "updateTime": epoch} },
}
