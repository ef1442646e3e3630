// SPDX-License-Identifier: Apache-2.0

// Package runner schedules scenarios against a deployed target, with their
// positive controls, witnesses, retries and a write-ahead ledger, and hands
// all evidence to package verdict.
package runner
