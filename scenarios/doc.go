// SPDX-License-Identifier: Apache-2.0

// Package scenarios is the registry of all attacks. Each family is a package
// of its own; each file in it declares one attack.
package scenarios
