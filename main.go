// SPDX-License-Identifier: Apache-2.0

// Command stockade is the Pulumi program of this repository: it declares the
// environment that the stack stands for, see package stacks. The command line is
// cmd/stockade.
package main

import (
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"

	"github.com/stockade-dev/stockade/stacks"
)

func main() { pulumi.Run(stacks.Run) }
