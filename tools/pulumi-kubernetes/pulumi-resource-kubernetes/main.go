// SPDX-License-Identifier: Apache-2.0

// Program pulumi-resource-kubernetes is Pulumi's Kubernetes provider. Upstream's
// module has no main package that builds: what it embeds is generated first. The
// two files here come out of the same module when the program is built (see
// Component.Embed in infra/node); they are in no checkout.
package main

import (
	_ "embed"
	"fmt"
	"os"

	"github.com/pulumi/pulumi-kubernetes/provider/v4/pkg/provider"
	"github.com/pulumi/pulumi-kubernetes/provider/v4/pkg/version"
)

var (
	//go:embed schema.json
	schema []byte
	//go:embed terraform-mapping.json
	terraformMapping []byte
)

func main() {
	clean, err := privateTemp()
	if err != nil {
		fmt.Fprintln(os.Stderr, "pulumi-resource-kubernetes:", err)
		os.Exit(1)
	}
	provider.Serve("kubernetes", version.Version, schema, terraformMapping)
	clean()
}
