// SPDX-License-Identifier: Apache-2.0

// Command stockade builds a place for untrusted code and tries to break out
// of it. Named kubectl-stockade it is a kubectl plugin.
package main

import (
	"os"

	"github.com/stockade-dev/stockade/cli"
)

func main() { os.Exit(cli.Main(os.Args[1:])) }
