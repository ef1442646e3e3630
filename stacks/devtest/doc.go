// SPDX-License-Identifier: Apache-2.0

// Package devtest holds the test of the stack dev: the real engine and the real
// Kubernetes provider, against the real cluster. `make deploy` comes before it,
// and nothing is left after it.
package devtest
