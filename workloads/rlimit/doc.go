// SPDX-License-Identifier: Apache-2.0

// Package rlimit is the helper through which every run of untrusted code
// starts: it sets the resource limits (setrlimit(2)), hard and soft alike, and
// then becomes the program. A process without CAP_SYS_RESOURCE can lower a hard
// limit and never raise it again, and children inherit it.
package rlimit
