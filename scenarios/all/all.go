// SPDX-License-Identifier: Apache-2.0

// Package all is the one registry of every scenario, linked into the runner
// and into the probe.
package all

import (
	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/scenarios/admission"
	"github.com/stockade-dev/stockade/scenarios/credentials"
	"github.com/stockade-dev/stockade/scenarios/egress"
	"github.com/stockade-dev/stockade/scenarios/filesystem"
	"github.com/stockade-dev/stockade/scenarios/ingress"
	"github.com/stockade-dev/stockade/scenarios/kernel"
	"github.com/stockade-dev/stockade/scenarios/kodegopher"
	"github.com/stockade-dev/stockade/scenarios/playground"
	"github.com/stockade-dev/stockade/scenarios/resources"
	"github.com/stockade-dev/stockade/scenarios/sandbox"
)

// Registry holds every scenario of the suite.
var Registry = build()

func build() *suite.Registry {
	r := &suite.Registry{}
	r.MustAdd(admission.Scenarios()...)
	r.MustAdd(credentials.Scenarios()...)
	r.MustAdd(egress.Scenarios()...)
	r.MustAdd(filesystem.Scenarios()...)
	r.MustAdd(ingress.Scenarios()...)
	r.MustAdd(kernel.Scenarios()...)
	r.MustAdd(kodegopher.Scenarios()...)
	r.MustAdd(playground.Scenarios()...)
	r.MustAdd(resources.Scenarios()...)
	r.MustAdd(sandbox.Scenarios()...)
	return r
}
