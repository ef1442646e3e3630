// SPDX-License-Identifier: Apache-2.0

// Package execution is the playground's execution service: it runs a program of
// a stranger's in a Pod that is made for this one run and removed after it.
//
// What a run gets is written in one place, the namespace's PodTemplate: its
// container, and in annotations the range that its user id is drawn from and
// the limits that the helper in the image sets before the program starts (see
// package rlimit). The service needs no right but to manage the Pods of that
// namespace and to exec into them, and has no other.
package execution
