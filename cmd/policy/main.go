// SPDX-License-Identifier: Apache-2.0

// Command policy is a Pulumi policy pack that stops an update which would break
// a guarantee: `pulumi up --policy-pack bin/policy`.
package main

import (
	"fmt"
	"os"

	"github.com/pulumi/pulumi/sdk/v3/go/pulumi/policyx"

	"github.com/stockade-dev/stockade/stacks/policy"
)

func main() {
	if err := policyx.Main(policy.Pack); err != nil {
		fmt.Fprintln(os.Stderr, "policy:", err)
		os.Exit(1)
	}
}
