// SPDX-License-Identifier: Apache-2.0

// Package e2e is the run on the real thing, as `go test` sees it: one Feature
// of the e2e-framework for each scenario, the honest client of the seed, the
// machine's uplink during the run, what a killed run leaves behind, and the clients
// of kode-gopher, one, a hundred, and while the cluster is restarted around them.
//
// The tests need root and the environment of `stockade up`; they are built
// with the tag "cluster", and they fail, rather than skip, without either.
// They use the stockade command only, from outside the seal, as a user does; the
// clients of kode-gopher come in by the place's gate.
//
// The engine of Stockade owns verdicts, cleanup and exec: the framework is
// used for naming and selecting (-feature, -labels), nothing here asks it what
// passed.
package e2e
