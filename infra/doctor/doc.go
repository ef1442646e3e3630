// SPDX-License-Identifier: Apache-2.0

// Package doctor says whether this machine can run a local cluster, and what to
// do where it cannot.
//
// Looking and judging are apart: Gather reads facts off the machine and changes
// nothing, Judge is a pure function from facts to findings.
package doctor
