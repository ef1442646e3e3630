// SPDX-License-Identifier: Apache-2.0

package reading

import (
	"errors"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/verdict"
	"github.com/stockade-dev/stockade/scenarios/manifest"
	"github.com/stockade-dev/stockade/scenarios/reading/fake"
)

func TestWhoMayIsToldFromTheAnswer(t *testing.T) {
	for name, c := range map[string]struct {
		answer suite.Answer
		err    error
		ok     bool
		want   verdict.Class
	}{
		"not authorized":          {suite.Answer{Code: 403, Message: `secrets is forbidden: User "x" cannot list resource "secrets" in API group ""`}, nil, false, verdict.HTTP403},
		"refused to the suite":    {suite.Answer{Code: 403, Message: `serviceaccounts "b" is forbidden: User "me" cannot impersonate resource "serviceaccounts" in API group ""`}, nil, false, verdict.Unknown},
		"our own policy's words":  {suite.Answer{Code: 403, Message: `pods "x" is forbidden: capabilities cannot be added`}, nil, true, ""},
		"served":                  {suite.Answer{Code: 200}, nil, true, ""},
		"authorized, not there":   {suite.Answer{Code: 404, Message: "not found"}, nil, true, ""},
		"authorized, and refused": {suite.Answer{Code: 403, Message: "violates PodSecurity"}, nil, true, ""},
		"no upgrade":              {suite.Answer{Code: 400, Message: "Upgrade request required"}, nil, true, ""},
		"unknown to the server":   {suite.Answer{Code: 401}, nil, false, verdict.Unknown},
		"overloaded":              {suite.Answer{Code: 429}, nil, false, verdict.Unknown},
		"no answer":               {suite.Answer{}, nil, false, verdict.TransportError},
		"lost":                    {suite.Answer{}, errors.New("reset"), false, verdict.TransportError},
	} {
		step := judgeRight("x", c.answer, c.err)
		assert.Equal(t, c.ok, step.OK, name)
		assert.Equal(t, c.want, step.Class, name)
	}
}

func TestRightsAreComparedWithAllThatSomebodyMayHave(t *testing.T) {
	onPods := []string{"create /pods", "delete /pods", "get /pods", "list /pods", "watch /pods", "create /pods/exec", "get /pods/exec"}
	own := fake.Right("", "pods", "create delete get list watch")
	enter := fake.Right("", "pods/exec", "create get")
	with := func(change func(status object)) suite.Answer {
		a := fake.Review(own)
		change(manifest.Child(a.Object, "status"))
		return a
	}
	for name, c := range map[string]struct {
		answer suite.Answer
		err    error
		ok     bool
		want   verdict.Class
	}{
		"what it may have":      {fake.Review(own, enter), nil, false, verdict.Absent},
		"less":                  {fake.Review(), nil, false, verdict.Absent},
		"secrets":               {fake.Review(own, fake.Right("", "secrets", "get")), nil, true, ""},
		"one secret by name":    {fake.Review(object{"apiGroups": []any{""}, "resources": []any{"secrets"}, "verbs": []any{"get"}, "resourceNames": []any{"a"}}), nil, true, ""},
		"another verb":          {fake.Review(fake.Right("", "pods", "patch")), nil, true, ""},
		"everything":            {fake.Review(fake.Right("*", "*", "*")), nil, true, ""},
		"Pods of another group": {fake.Review(fake.Right("metrics.k8s.io", "pods", "get")), nil, true, ""},
		"impersonation":         {fake.Review(fake.Right("", "users groups serviceaccounts", "impersonate")), nil, true, ""},
		"a path": {with(func(s object) {
			s["nonResourceRules"] = []any{object{"verbs": []any{"get"}, "nonResourceURLs": []any{"/metrics"}}}
		}), nil, true, ""},
		"all paths": {with(func(s object) {
			s["nonResourceRules"] = []any{object{"verbs": []any{"*"}, "nonResourceURLs": []any{"*"}}}
		}), nil, true, ""},
		"a list that is not whole": {with(func(s object) { s["incomplete"] = true }), nil, false, verdict.Unknown},
		"one that does not say so": {with(func(s object) { delete(s, "incomplete") }), nil, false, verdict.Unknown},
		"an error on the way":      {with(func(s object) { s["evaluationError"] = "no such role" }), nil, false, verdict.Unknown},
		"nothing at all":           {suite.Answer{Code: 201, Object: object{}}, nil, false, verdict.Unknown},
		"a refusal":                {suite.Answer{Code: 403}, nil, false, verdict.Unknown},
		"a lost connection":        {suite.Answer{}, errors.New("reset"), false, verdict.TransportError},
	} {
		step := judgeRights("x", slices.Concat(everybody, onPods), c.answer, c.err)
		assert.Equal(t, c.ok, step.OK, "%s: %s", name, step.Detail)
		assert.Equal(t, c.want, step.Class, "%s: %s", name, step.Detail)
	}
}

func TestWhatSomebodyNeedsIsFoundInTheSameList(t *testing.T) {
	needed := []string{"create /pods", "get apps/deployments"}
	pods, apps := fake.Right("", "pods", "create get"), fake.Right("apps", "deployments", "get")
	for name, c := range map[string]struct {
		answer suite.Answer
		err    error
		ok     bool
		want   verdict.Class
	}{
		"both":              {fake.Review(pods, apps), nil, true, ""},
		"one":               {fake.Review(pods), nil, false, verdict.Absent},
		"another group":     {fake.Review(pods, fake.Right("extensions", "deployments", "get")), nil, false, verdict.Absent},
		"another verb":      {fake.Review(pods, fake.Right("apps", "deployments", "list")), nil, false, verdict.Absent},
		"a part of one":     {fake.Review(pods, fake.Right("apps", "deployments/scale", "get")), nil, false, verdict.Absent},
		"all verbs":         {fake.Review(pods, fake.Right("apps", "deployments", "*")), nil, true, ""},
		"everything":        {fake.Review(fake.Right("*", "*", "*")), nil, true, ""},
		"some by name":      {fake.Review(pods, object{"apiGroups": []any{"apps"}, "resources": []any{"deployments"}, "verbs": []any{"get"}, "resourceNames": []any{"a"}}), nil, false, verdict.Absent},
		"a refusal":         {suite.Answer{Code: 403}, nil, false, verdict.Absent},
		"a lost connection": {suite.Answer{}, errors.New("reset"), false, verdict.TransportError},
	} {
		step := judgeNeeds("x", needed, c.answer, c.err)
		assert.Equal(t, c.ok, step.OK, "%s: %s", name, step.Detail)
		assert.Equal(t, c.want, step.Class, "%s: %s", name, step.Detail)
	}
}

func TestWhereNobodyCanBeAskedAsNothingIsConcluded(t *testing.T) {
	steps := Try(t.Context(), &suite.APIEnv{}, suite.Service, []Attempt{{Name: "list the nodes"}})
	assert.Equal(t, []verdict.Step{{Name: "list the nodes", Class: verdict.ToolMissing, Detail: "nobody can be asked as here"}}, steps)
}
