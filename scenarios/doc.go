// SPDX-License-Identifier: Apache-2.0

// Package scenarios holds all attacks: each family is a package below it, and a
// file there declares one attack, or the cases of one rule. Package all is their
// registry; packages manifest and reading are no families, but what several of them
// share.
package scenarios
