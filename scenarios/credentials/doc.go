// SPDX-License-Identifier: Apache-2.0

// Package credentials looks for something in the sandbox that speaks for
// somebody: tokens on disk, secrets in the environment, and the metadata
// server, which hands out the node's.
//
// Whatever is found is reported by place and digest, never by value.
//
// Left out, and why: decimal, octal and hexadecimal spellings of 169.254.169.254
// (0xA9FEA9FE, 0251.0376.0251.0376). The C library turns them into the same
// four bytes before the kernel sees anything, so inside a sandbox they are one
// attack with [metadataToken]; they matter to a proxy that reads URLs, and here
// is none.
package credentials

import "github.com/stockade-dev/stockade/conformance/suite"

// Scenarios returns the family's scenarios.
func Scenarios() []suite.Scenario {
	return []suite.Scenario{
		serviceAccountToken(), environmentSecrets(), metadataToken(), metadataAliases(), metadataIPv6(),
		defaultPolicyMetadata(), defaultPolicyMetadataIPv6(),
	}
}
