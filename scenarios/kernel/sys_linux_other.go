// SPDX-License-Identifier: Apache-2.0

//go:build linux && !amd64

package kernel

// archCalls are calls that this processor alone has.
func archCalls() []call { return nil }
