// SPDX-License-Identifier: Apache-2.0

package standin

import (
	"fmt"
)

var repositoryKind = &kind{
	api: apiRegistry,
	id: func(c *Cloud, v values) string {
		return fmt.Sprintf("projects/%s/locations/%s/repositories/%s", c.project(v), c.place(v, "location"), text(v, "repositoryId"))
	},
	name: rfc1035, named: "repositoryId",
	defaults: values{"mode": "STANDARD_REPOSITORY"},
	oneOf:    map[string][]string{"mode": {"STANDARD_REPOSITORY", "VIRTUAL_REPOSITORY", "REMOTE_REPOSITORY"}},
	replace:  []string{"repositoryId", "project", "location", "format", "mode", "kmsKeyName", "mavenConfig"},
	computed: func(c *Cloud, r *record) values {
		return values{
			"project": c.project(r.Inputs), "location": c.place(r.Inputs, "location"), "name": text(r.Inputs, "repositoryId"),
			"createTime": epoch, "updateTime": epoch, "effectiveLabels": c.labels(r.Inputs, "labels"), "pulumiLabels": c.labels(r.Inputs, "labels"),
		}
	},
}

var binauthzKind = &kind{
	api: apiBinauthz,
	id:  func(c *Cloud, v values) string { return "projects/" + c.project(v) },
	// A project always has one, which allows everything.
	shared: true,
	oneOf: map[string][]string{
		"globalPolicyEvaluationMode":           {"ENABLE", "DISABLE"},
		"defaultAdmissionRule.evaluationMode":  {"ALWAYS_ALLOW", "REQUIRE_ATTESTATION", "ALWAYS_DENY"},
		"defaultAdmissionRule.enforcementMode": {"ENFORCED_BLOCK_AND_AUDIT_LOG", "DRYRUN_AUDIT_LOG_ONLY"},
	},
	replace: []string{"project"},
	accept: func(_ *Cloud, _ string, v values) error {
		if text(v, "defaultAdmissionRule.evaluationMode") == "REQUIRE_ATTESTATION" && len(list(v, "defaultAdmissionRule.requireAttestationsBies")) == 0 {
			return refuse("An admission rule that requires attestations must name an attestor")
		}
		return nil
	},
	computed: func(c *Cloud, r *record) values { return values{"project": c.project(r.Inputs)} },
}
