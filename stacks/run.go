// SPDX-License-Identifier: Apache-2.0

package stacks

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi/config"
)

// namespace is that of our keys: stockade:region.
const namespace = "stockade"

// programs are the environments, by the value of stockade:environment.
var programs = map[string]pulumi.RunFunc{
	"dev":           dev,
	"gke":           gkeStandard,
	"gke-autopilot": gkeAutopilot,
	"gke-shared":    gkeShared,
}

// Run is the Pulumi program. The environment is stockade:environment, and the
// stack's own name where that is not set; an error says which there are.
func Run(ctx *pulumi.Context) error {
	environment := config.New(ctx, namespace).Get("environment")
	from := namespace + ":environment"
	if environment == "" {
		environment, from = ctx.Stack(), "the stack's name, which stands in for "+from+","
	}
	program, ok := programs[environment]
	if !ok {
		return fmt.Errorf("%s is %.60q: it must be one of %s", from, environment, strings.Join(slices.Sorted(maps.Keys(programs)), ", "))
	}
	return program(ctx)
}
