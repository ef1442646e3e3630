// SPDX-License-Identifier: Apache-2.0

// Package engine runs a Docker engine of our own inside a network namespace
// that has no way out.
//
// Attack traffic must never leave the machine. Instead of filtering it, the
// engine is put where there is nothing to filter: a fresh network namespace
// with a loopback device, in which containerd and dockerd are started and to
// which nothing is ever connected. Containers get bridges and veth pairs in
// there, and that is the whole network. Package seal proves it.
//
// Everything lies in one folder, STOCKADE_HOME/engine, with sockets, data and
// process records, so that the engine lives beside a Docker of the user's
// without touching it. The order of use:
//
//	e, err := engine.New(engine.Options{Home: home})
//	err = e.Seal(ctx)       // the namespace; root is needed
//	err = e.Prove(ctx)      // before anything runs in it
//	err = e.Start(ctx)      // containerd and dockerd
//	err = e.Enter()         // re-executes this program inside the seal
package engine
