// SPDX-License-Identifier: Apache-2.0

// Package enginetest holds the tests of the environments on Google Cloud that
// need Pulumi's engine. They run the program in this process, the stand-in cloud
// of infra/gke/standin beside it, and the real `pulumi` between the two:
//
//	make pulumi
//	STOCKADE_PULUMI=…/pulumi go test -tags pulumi ./stacks/enginetest
//
// What they show is that the programs can be applied, changed, mended and taken
// away, in an order that the stand-in accepts. What it encodes is all that they
// show of Google.
//
// What a stack deploys in its cluster goes through the real Kubernetes provider to a
// real API server with the real controllers (package kubetest), and the stack's own
// kubeconfig leads there. The nodes are fake, so these tests show that the objects
// are accepted, come and go in order and do not drift; not that anything runs.
package enginetest
