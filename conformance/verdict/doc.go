// SPDX-License-Identifier: Apache-2.0

// Package verdict holds the rules by which the suite may say anything.
//
// A Result can say Held only when [Decide] made it, and Decide says Held only
// for evidence that is complete: the probe's completion frame with this
// attempt's nonce, a positive control that succeeded in the same window, a
// denial of a class that the scenario expects for every step, and every
// required witness, alive and in agreement. Whatever is missing makes the
// result Inconclusive, with a reason out of a closed set.
//
// The package imports the standard library only: the static probe links it.
package verdict
