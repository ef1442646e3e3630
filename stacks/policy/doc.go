// SPDX-License-Identifier: Apache-2.0

// Package policy runs the rules of conformance/plan as a Pulumi policy pack, so
// that an update which would break a guarantee is stopped.
//
// The pack judges what the program asks for, as `stockade plan-check` does, and
// not what the cloud made of it: GKE itself sets the very taint that a program
// must not. Pulumi shows a pack the inputs of each resource when it is
// registered, and the outputs of all of them at the end; so the pack keeps the
// inputs, and judges them at the end as one graph. That is too late for an
// update that skips its preview (`pulumi up --skip-preview`, and the Automation
// API): resources are there by then. Therefore rules that one resource can break
// by itself ([alone]) are also judged when it is registered, before it is made.
//
// What a verdict does:
//
//   - Breached is a mandatory violation: the preview or update fails.
//   - Held and NotApplicable pass.
//   - Inconclusive is shown and lets a preview pass, because in a preview values
//     that only the cloud knows are missing. In an update nothing is missing any
//     more, so there it is a mandatory violation: a guarantee that cannot be
//     seen is not kept. An update that leaves resources out (--target) cannot
//     show it.
//
// One guarantee is not claimed yet while a perimeter is a declared dry run
// (stockade:perimeterEnforced is not true): plan.perimeter-enforced only warns
// then. The dev stack has no plan to judge, so no policies.
package policy
