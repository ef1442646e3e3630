// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"reflect"

	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"
)

// Type is the resource's type token.
const Type = "stockade:kind:Cluster"

// Cluster is the sealed place of one STOCKADE_HOME with its cluster. It is
// replaced, the old one first, when it is broken: whatever is deployed in it
// should name it in [pulumi.DeletedWith].
type Cluster struct {
	pulumi.CustomResourceState

	// Name is the cluster's; its nodes' names begin with it.
	Name pulumi.StringOutput `pulumi:"name"`
	// UID is that of the namespace kube-system, which lives as long as the
	// cluster. It is the resource's id as well.
	UID pulumi.StringOutput `pulumi:"uid"`
	// Healthy says that nodes and system Pods are ready and the gate is open;
	// Reason says what is not.
	Healthy pulumi.BoolOutput   `pulumi:"healthy"`
	Reason  pulumi.StringOutput `pulumi:"reason"`
	// Nodes are the names of those that are ready.
	Nodes             pulumi.StringArrayOutput `pulumi:"nodes"`
	KubernetesVersion pulumi.StringOutput      `pulumi:"kubernetesVersion"`
	// Kubeconfig is a secret: the administrator's, through the gate on this
	// machine's loopback address.
	Kubeconfig pulumi.StringOutput `pulumi:"kubeconfig"`
	// Seal is the name of the network namespace.
	Seal pulumi.StringOutput `pulumi:"seal"`
	// Images are the references by digest of the images on the nodes that are
	// built out of a checkout, by their names with a tag.
	Images pulumi.StringMapOutput `pulumi:"images"`
	// Descriptor is what `stockade run` reads; empty until there are targets.
	Descriptor pulumi.MapOutput `pulumi:"descriptor"`
	// Tokens are those of the callers of the shared kode-gopher, as digests, a
	// line each, and a secret all the same. SignerKeys are the public keys of who
	// signs ID tokens for it, a JSON Web Key Set. RangeCA is the certificate
	// authority of the range, which plays the outside world, in PEM.
	Tokens     pulumi.StringOutput `pulumi:"tokens"`
	SignerKeys pulumi.StringOutput `pulumi:"signerKeys"`
	RangeCA    pulumi.StringOutput `pulumi:"rangeCA"`
}

// Args are a cluster's inputs. A change of Home or Inputs makes a new cluster.
type Args struct {
	// Home is the folder for all files, an absolute path. Default: the variable
	// STOCKADE_HOME, else stockade in the user's cache folder.
	Home pulumi.StringPtrInput
	// Inputs stands for what the cluster is made from, where the program knows
	// of anything.
	Inputs pulumi.StringPtrInput
	// Profiles are those whose images the nodes need; "all" stands for every one. A
	// change brings more, in place. Default: agent-sandbox.
	Profiles pulumi.StringArrayInput
	// Programs stand for those in the images, where the program knows of anything. A
	// change brings the newer ones, in place.
	Programs pulumi.StringArrayInput
}

type clusterArgs struct {
	Home     *string  `pulumi:"home"`
	Inputs   *string  `pulumi:"inputs"`
	Profiles []string `pulumi:"profiles"`
	Programs []string `pulumi:"programs"`
}

// ElementType implements [pulumi.Input].
func (Args) ElementType() reflect.Type { return reflect.TypeFor[clusterArgs]() }

// New declares the cluster.
func New(ctx *pulumi.Context, name string, args *Args, opts ...pulumi.ResourceOption) (*Cluster, error) {
	if args == nil {
		args = &Args{}
	}
	c := &Cluster{}
	// Here as well as in the plugin: no state must show them, whatever the
	// version of the plugin.
	opts = append(opts, pulumi.AdditionalSecretOutputs([]string{"kubeconfig", "tokens"}))
	if err := ctx.RegisterResource(Type, name, args, c, opts...); err != nil {
		return nil, fmt.Errorf("declaring cluster %s: %w", name, err)
	}
	return c, nil
}
