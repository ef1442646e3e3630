// SPDX-License-Identifier: Apache-2.0

// Package report turns a run into a document, and reads such documents back.
//
// A report is an interface (apiVersion stockade.dev/v1alpha1): every id of the
// run is in it exactly once, with the evidence that its verdict rests on, so
// that whoever reads it can judge again. [Read] does: it refuses a document
// that calls something Held which its own evidence does not carry.
//
// Much of a report's text comes from a hostile sandbox. [Clean] is the one
// place that makes it harmless; [From] applies it when a report is made, and
// [Read] applies it again, because a file may come from anywhere.
package report
