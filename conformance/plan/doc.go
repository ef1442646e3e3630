// SPDX-License-Identifier: Apache-2.0

// Package plan judges an environment before it exists: it reads the resource
// graph of a Pulumi program and says which claims that graph keeps.
//
// A [Rule] is a pure function of a [Graph]. It goes by the rules of the live
// suite. A value that is absent or not known yet makes a rule Inconclusive, and
// so does a graph without a single resource to look at: only what was read can
// hold. Held comes from [verdict.Decide], whose positive control is here the
// rule's own mutant: [Check] applies it to a copy of the very graph that is
// judged, and a rule that does not notice proves nothing about it.
//
// The graph may come from `pulumi preview --json` or `pulumi stack export`
// ([Decode]), or from a program that runs under mocks or in a policy pack. What
// a plan says is what was asked of the cloud, not what the cloud did: a report
// from here never speaks of a running cluster.
//
// The package knows nothing of Pulumi but the shape of its documents.
package plan
