// SPDX-License-Identifier: Apache-2.0

// Package fake plays the API server's list of an account's rights, for unit tests.
package fake

import (
	"strings"

	"github.com/stockade-dev/stockade/conformance/suite"
)

// Right is one rule of an account's rights: API groups, resources and verbs, each with
// blanks between them.
func Right(groups, resources, verbs string) any {
	split := func(s string) (out []any) {
		for x := range strings.SplitSeq(s, " ") {
			out = append(out, x)
		}
		return out
	}
	return suite.Object{"apiGroups": split(groups), "resources": split(resources), "verbs": split(verbs)}
}

// Review is the API server's answer to a SelfSubjectRulesReview: what every account has,
// and more.
func Review(more ...any) suite.Answer {
	return suite.Answer{Code: 201, Object: suite.Object{"status": suite.Object{"incomplete": false,
		"resourceRules":    append([]any{Right("authorization.k8s.io", "selfsubjectaccessreviews selfsubjectrulesreviews", "create")}, more...),
		"nonResourceRules": []any{suite.Object{"verbs": []any{"get"}, "nonResourceURLs": []any{"/api", "/api/*", "/healthz", "/version/"}}},
	}}}
}
