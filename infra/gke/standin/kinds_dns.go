// SPDX-License-Identifier: Apache-2.0

package standin

import (
	"fmt"
	"strings"
)

var zoneKind = &kind{
	api: apiDNS,
	id: func(c *Cloud, v values) string {
		return fmt.Sprintf("projects/%s/managedZones/%s", c.project(v), text(v, "name"))
	},
	autoname: true, name: rfc1035, named: "name",
	defaults: values{"description": "Managed by Pulumi", "visibility": "public", "forceDestroy": false},
	oneOf:    map[string][]string{"visibility": {"private", "public"}},
	replace:  []string{"name", "project", "dnsName", "visibility"},
	check:    absolute("dnsName"),
	accept:   acceptZone,
	keep: func(c *Cloud, r *record) error {
		for _, user := range c.all(typeRecord) {
			if c.zone(user.Inputs) == r.ID && !flag(r.Inputs, "forceDestroy") {
				return &apiError{400, "containerNotEmpty", fmt.Sprintf("The zone '%s' is not empty", last(r.ID))}
			}
		}
		return nil
	},
	computed: func(c *Cloud, r *record) values {
		return values{
			"project": c.project(r.Inputs), "managedZoneId": digits(r, 18), "creationTime": epoch,
			"nameServers": []any{"ns-gcp-private.googledomains.com."}, "effectiveLabels": c.labels(r.Inputs, "labels"), "pulumiLabels": c.labels(r.Inputs, "labels"),
		}
	},
}

// absolute refuses a name in the property that does not end at the root.
func absolute(property string) func(values) []failure {
	return func(v values) []failure {
		if n := text(v, property); n != "" && !strings.HasSuffix(n, ".") {
			return []failure{{property, "it must end with a dot"}}
		}
		return nil
	}
}

var recordKind = &kind{
	api: apiDNS,
	id: func(c *Cloud, v values) string {
		return c.zone(v) + "/rrsets/" + text(v, "name") + "/" + text(v, "type")
	},
	replace:  []string{"name", "project", "managedZone"},
	excludes: [][2]string{{"rrdatas", "routingPolicy"}},
	check:    absolute("name"),
	accept:   acceptRecord,
	computed: func(c *Cloud, r *record) values { return values{"project": c.project(r.Inputs)} },
}
