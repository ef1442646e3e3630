// SPDX-License-Identifier: Apache-2.0

package standin

import (
	"fmt"
	"regexp"
	"strings"
)

var accountName = regexp.MustCompile(`^[a-z]([-a-z0-9]{4,28}[a-z0-9])$`)

var serviceKind = &kind{
	id:       func(c *Cloud, v values) string { return c.project(v) + "/" + text(v, "service") },
	shared:   true,
	defaults: values{"disableOnDestroy": true},
	replace:  []string{"service", "project"},
	check: func(v values) []failure {
		if s := text(v, "service"); s != "" && !strings.HasSuffix(s, ".googleapis.com") {
			return []failure{{"service", fmt.Sprintf("%.80q is not the name of an API", s)}}
		}
		return nil
	},
	done: func(c *Cloud, v values) { c.state.Services[text(v, "service")] = true },
	gone: func(c *Cloud, r *record) {
		if flag(r.Inputs, "disableOnDestroy") {
			delete(c.state.Services, text(r.Inputs, "service"))
		}
	},
	computed: func(c *Cloud, r *record) values { return values{"project": c.project(r.Inputs)} },
}

var accountKind = &kind{
	api:  apiIAM,
	id:   func(c *Cloud, v values) string { return "projects/" + c.project(v) + "/serviceAccounts/" + c.email(v) },
	name: accountName, named: "accountId", autoname: true,
	replace: []string{"accountId", "project"},
	computed: func(c *Cloud, r *record) values {
		email := c.email(r.Inputs)
		return values{"project": c.project(r.Inputs), "email": email, "member": "serviceAccount:" + email, "name": r.ID, "uniqueId": digits(r, 21)}
	},
}

var accountIAMKind = memberKind(apiIAM, func(_ *Cloud, v values) string {
	return strings.Join([]string{text(v, "serviceAccountId"), text(v, "role"), text(v, "member")}, "/")
}, "serviceAccountId")

var projectIAMKind = memberKind(apiProjects, func(_ *Cloud, v values) string {
	return strings.Join([]string{text(v, "project"), text(v, "role"), text(v, "member")}, "/")
}, "project")

var repoIAMKind = memberKind(apiRegistry, func(c *Cloud, v values) string {
	return strings.Join([]string{c.repository(v), text(v, "role"), text(v, "member")}, "/")
}, "project", "location", "repository")

// memberKind is the kind of a grant to a member, of what the properties in of name.
func memberKind(api string, id func(*Cloud, values) string, of ...string) *kind {
	return &kind{
		api: api, id: id, shared: true, replace: append(of, "role", "member", "condition"),
		check: mustBeMember, accept: acceptMember,
		computed: func(*Cloud, *record) values { return values{"etag": "BwYAAAAAAAA="} },
	}
}

func mustBeMember(v values) []failure {
	member := text(v, "member")
	before, after, ok := strings.Cut(member, ":")
	switch {
	case member == "", member == "allUsers", member == "allAuthenticatedUsers":
	case !ok, before == "", after == "":
		return []failure{{"member", fmt.Sprintf("%.80q is not KIND:WHO", member)}}
	}
	return nil
}
