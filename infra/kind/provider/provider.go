// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pulumi/pulumi/sdk/v3/go/common/resource"
	"github.com/pulumi/pulumi/sdk/v3/go/common/resource/plugin"
	"github.com/pulumi/pulumi/sdk/v3/go/common/resource/urn"
	"github.com/pulumi/pulumi/sdk/v3/go/common/util/rpcutil/rpcerror"
	pulumirpc "github.com/pulumi/pulumi/sdk/v3/proto/go"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/stockade-dev/stockade/infra/home"
)

// Type is the resource's type token.
const Type = "stockade:kind:Cluster"

// Version is the plugin's.
const Version = "0.1.0"

//go:embed schema.json
var schema string

// homeEnv is the variable that the home input defaults to.
const homeEnv = home.Env

// Options say what a [Provider] works through.
type Options struct {
	// CLI returns the command for the path in the configuration, "" for none.
	CLI func(configured string) CLI
	// Status shows a line beside the resource while it is worked on; nil shows
	// nothing.
	Status func(urn, line string)
	// Getenv reads the environment; nil is [os.Getenv].
	Getenv func(string) string
}

// Provider implements the protocol of Pulumi's resource providers.
type Provider struct {
	pulumirpc.UnimplementedResourceProviderServer
	o   Options
	cli CLI

	ctx    context.Context
	cancel context.CancelFunc
}

// New returns a provider whose work ends, in an orderly way, with ctx.
func New(ctx context.Context, o Options) *Provider {
	if o.Getenv == nil {
		o.Getenv = os.Getenv
	}
	p := &Provider{o: o, cli: o.CLI("")}
	p.ctx, p.cancel = context.WithCancel(ctx)
	return p
}

// Handshake says that secrets may be sent and are marked.
func (p *Provider) Handshake(context.Context, *pulumirpc.ProviderHandshakeRequest) (*pulumirpc.ProviderHandshakeResponse, error) {
	return &pulumirpc.ProviderHandshakeResponse{AcceptSecrets: true}, nil
}

// GetPluginInfo returns the version.
func (p *Provider) GetPluginInfo(context.Context, *emptypb.Empty) (*pulumirpc.PluginInfo, error) {
	return &pulumirpc.PluginInfo{Version: Version}, nil
}

// GetSchema returns the package's schema.
func (p *Provider) GetSchema(context.Context, *pulumirpc.GetSchemaRequest) (*pulumirpc.GetSchemaResponse, error) {
	return &pulumirpc.GetSchemaResponse{Schema: schema}, nil
}

// CheckConfig takes every key: the project has the provider's name, so its own
// configuration comes along.
func (p *Provider) CheckConfig(_ context.Context, r *pulumirpc.CheckRequest) (*pulumirpc.CheckResponse, error) {
	return &pulumirpc.CheckResponse{Inputs: r.GetNews()}, nil
}

// DiffConfig finds no difference that concerns a cluster: it does not matter by
// which copy of the command it was made, and the other keys are the project's.
func (p *Provider) DiffConfig(context.Context, *pulumirpc.DiffRequest) (*pulumirpc.DiffResponse, error) {
	return &pulumirpc.DiffResponse{Changes: pulumirpc.DiffResponse_DIFF_NONE}, nil
}

// Configure chooses the command.
func (p *Provider) Configure(_ context.Context, r *pulumirpc.ConfigureRequest) (*pulumirpc.ConfigureResponse, error) {
	p.cli = p.o.CLI(r.GetVariables()["stockade:config:cli"]) //nolint:staticcheck // the engine sends it all the same
	return &pulumirpc.ConfigureResponse{AcceptSecrets: true, SupportsPreview: true}, nil
}

// Cancel interrupts what runs, and returns at once: the engine waits for the
// calls that are under way, and they wait for the command to clean up.
func (p *Provider) Cancel(context.Context, *emptypb.Empty) (*emptypb.Empty, error) {
	p.cancel()
	return &emptypb.Empty{}, nil
}

// Check fills in the home and refuses what is no input.
func (p *Provider) Check(_ context.Context, r *pulumirpc.CheckRequest) (*pulumirpc.CheckResponse, error) {
	if err := known(r.GetUrn()); err != nil {
		return nil, err
	}
	in, err := unmarshal(r.GetNews())
	if err != nil {
		return nil, err
	}
	var failures []*pulumirpc.CheckFailure
	fail := func(key resource.PropertyKey, format string, args ...any) {
		failures = append(failures, &pulumirpc.CheckFailure{Property: string(key), Reason: fmt.Sprintf(format, args...)})
	}
	for _, key := range slices.Sorted(maps.Keys(in)) {
		v := in[key]
		switch {
		case !slices.Contains([]resource.PropertyKey{propHome, propInputs, propProfiles, propPrograms}, key):
			fail(key, "there is no such input: a cluster has home, inputs, profiles and programs")
		case v.IsComputed() || v.IsNull():
		case key == propProfiles || key == propPrograms:
			if _, err := names(in, key); err != nil {
				fail(key, "%s", err)
			}
		case !v.IsString():
			fail(key, "%s must be a string", key)
		case key == propHome && !filepath.IsAbs(v.StringValue()):
			fail(key, "home must be an absolute path, and %q is none", v.StringValue())
		case key == propHome:
			in[key] = resource.NewProperty(filepath.Clean(v.StringValue()))
		}
	}
	// Written down, so that a later call from another shell means the same one.
	if v, ok := in[propHome]; !ok || v.IsNull() {
		delete(in, propHome)
		if home := p.o.Getenv(homeEnv); home != "" {
			if !filepath.IsAbs(home) {
				fail(propHome, "%s must be an absolute path, and %q is none", homeEnv, home)
			}
			in[propHome] = resource.NewProperty(filepath.Clean(home))
		}
	}
	inputs, err := marshal(in)
	if err != nil {
		return nil, err
	}
	return &pulumirpc.CheckResponse{Inputs: inputs, Failures: failures}, nil
}

// Diff replaces a cluster whose inputs change, which is not healthy, or which is
// not the one of the state any more. A node cannot be added: what `stockade up`
// makes instead is another cluster, in which nothing is deployed. The old one goes
// first, because a home has one place. In place come the images of more profiles and of
// newer programs, and the gate, without which there is no kubeconfig.
func (p *Provider) Diff(_ context.Context, r *pulumirpc.DiffRequest) (*pulumirpc.DiffResponse, error) {
	state, err := unmarshal(r.GetOlds())
	if err != nil {
		return nil, err
	}
	olds, err := unmarshal(r.GetOldInputs())
	if err != nil {
		return nil, err
	}
	news, err := unmarshal(r.GetNews())
	if err != nil {
		return nil, err
	}
	detail := map[string]*pulumirpc.PropertyDiff{}
	for _, key := range []resource.PropertyKey{propHome, propInputs} {
		before, had := olds[key]
		after, has := news[key]
		switch {
		case had && !has:
			detail[string(key)] = &pulumirpc.PropertyDiff{Kind: pulumirpc.PropertyDiff_DELETE_REPLACE, InputDiff: true}
		case !had && has:
			detail[string(key)] = &pulumirpc.PropertyDiff{Kind: pulumirpc.PropertyDiff_ADD_REPLACE, InputDiff: true}
		case had && !before.DeepEquals(after):
			detail[string(key)] = &pulumirpc.PropertyDiff{Kind: pulumirpc.PropertyDiff_UPDATE_REPLACE, InputDiff: true}
		}
	}
	for _, key := range []resource.PropertyKey{propProfiles, propPrograms} {
		if !sameNames(olds, news, key) {
			detail[string(key)] = &pulumirpc.PropertyDiff{Kind: pulumirpc.PropertyDiff_UPDATE, InputDiff: true}
		}
	}
	if v := state[propHealthy]; !v.IsBool() || !v.BoolValue() {
		kind := pulumirpc.PropertyDiff_UPDATE_REPLACE
		if v := state[propKubeconfig]; v.IsString() && v.StringValue() == "" {
			kind = pulumirpc.PropertyDiff_UPDATE
		}
		detail[propHealthy] = &pulumirpc.PropertyDiff{Kind: kind}
	}
	if v := state[propUID]; !v.IsString() || v.StringValue() != r.GetId() {
		detail[propUID] = &pulumirpc.PropertyDiff{Kind: pulumirpc.PropertyDiff_UPDATE_REPLACE}
	}
	if len(detail) == 0 {
		return &pulumirpc.DiffResponse{Changes: pulumirpc.DiffResponse_DIFF_NONE}, nil
	}
	d := &pulumirpc.DiffResponse{
		Changes: pulumirpc.DiffResponse_DIFF_SOME, Diffs: slices.Sorted(maps.Keys(detail)),
		DeleteBeforeReplace: true, DetailedDiff: detail, HasDetailedDiff: true,
	}
	for _, key := range d.Diffs {
		if detail[key].GetKind() != pulumirpc.PropertyDiff_UPDATE {
			d.Replaces = append(d.Replaces, key)
		}
	}
	return d, nil
}

// Create brings the cluster up, or takes over the healthy one that stands. Where
// that fails halfway, the resource becomes part of the state all the same, so
// that the next `pulumi up` or `pulumi destroy` clears it away.
func (p *Provider) Create(ctx context.Context, r *pulumirpc.CreateRequest) (*pulumirpc.CreateResponse, error) {
	if err := known(r.GetUrn()); err != nil {
		return nil, err
	}
	in, err := unmarshal(r.GetProperties())
	if err != nil {
		return nil, err
	}
	if r.GetPreview() {
		props, err := marshal(unknownOutputs(in))
		return &pulumirpc.CreateResponse{Properties: props}, err
	}
	o := p.operation(ctx, r.GetUrn(), in, r.GetTimeout())
	defer o.done()
	at, err := o.converge("")
	if err != nil {
		return nil, err
	}
	props, err := marshal(at.outputs(in))
	if err != nil {
		return nil, err
	}
	return &pulumirpc.CreateResponse{Id: at.UID, Properties: props}, nil
}

// Read looks at the cluster. One that is broken, or another one, is described as it
// is, and Diff replaces it. So is a place without a cluster of which something stands,
// as an `up` that failed leaves it: Delete has to clear it away. Nothing at all is a
// resource that is gone.
func (p *Provider) Read(ctx context.Context, r *pulumirpc.ReadRequest) (*pulumirpc.ReadResponse, error) {
	if err := known(r.GetUrn()); err != nil {
		return nil, err
	}
	in, err := unmarshal(r.GetInputs())
	if err != nil {
		return nil, err
	}
	imported := len(r.GetInputs().GetFields()) == 0 && len(r.GetProperties().GetFields()) == 0
	if home := p.o.Getenv(homeEnv); imported && home != "" {
		in[propHome] = resource.NewProperty(home)
	}
	o := p.operation(ctx, r.GetUrn(), in, r.GetTimeout())
	defer o.done()
	at, err := o.look(o.ctx)
	if errors.Is(err, errNoPlace) {
		if imported {
			return &pulumirpc.ReadResponse{}, nil
		}
		var left []string
		if left, err = o.left(); err == nil && left == nil {
			return &pulumirpc.ReadResponse{}, nil
		}
		at = place{Reason: fmt.Sprintf("there is no cluster, and what was made for it is left: %s", strings.Join(left, ", "))}
	}
	if err != nil {
		return nil, failure("reading the cluster", err)
	}
	if imported && at.UID != r.GetId() {
		return nil, failure("importing the cluster", fmt.Errorf("the one that stands here has the UID %s", at.UID))
	}
	inputs, err := marshal(in)
	if err != nil {
		return nil, err
	}
	props, err := marshal(at.outputs(in))
	if err != nil {
		return nil, err
	}
	return &pulumirpc.ReadResponse{Id: r.GetId(), Inputs: inputs, Properties: props}, nil
}

// Update brings the images that the profiles need, and opens the gate again: bringing up what
// stands already changes nothing else. Where more was broken than that, the cluster is
// another one afterwards, and the next Diff replaces the resource and what is deployed
// in it.
func (p *Provider) Update(ctx context.Context, r *pulumirpc.UpdateRequest) (*pulumirpc.UpdateResponse, error) {
	in, err := unmarshal(r.GetNews())
	if err != nil {
		return nil, err
	}
	if r.GetPreview() {
		state, err := unmarshal(r.GetOlds())
		if err != nil {
			return nil, err
		}
		props, err := marshal(updatedOutputs(in, state))
		return &pulumirpc.UpdateResponse{Properties: props}, err
	}
	o := p.operation(ctx, r.GetUrn(), in, r.GetTimeout())
	defer o.done()
	at, err := o.converge(r.GetId())
	if err != nil {
		return nil, err
	}
	if at.UID != r.GetId() && o.p.o.Status != nil {
		o.p.o.Status(r.GetUrn(), "the cluster is another one now: run `pulumi up` again to deploy into it")
	}
	props, err := marshal(at.outputs(in))
	if err != nil {
		return nil, err
	}
	return &pulumirpc.UpdateResponse{Properties: props}, nil
}

// Delete removes the cluster with its seal. One that is gone already is no error.
func (p *Provider) Delete(ctx context.Context, r *pulumirpc.DeleteRequest) (*emptypb.Empty, error) {
	if err := known(r.GetUrn()); err != nil {
		return nil, err
	}
	state, err := unmarshal(r.GetProperties())
	if err != nil {
		return nil, err
	}
	o := p.operation(ctx, r.GetUrn(), state, r.GetTimeout())
	defer o.done()
	if _, err := o.run(o.ctx, "down"); err != nil {
		return nil, failure("removing the cluster", err)
	}
	return &emptypb.Empty{}, nil
}

// known refuses the types of other versions of this plugin.
func known(name string) error {
	u, err := urn.Parse(name)
	if err != nil {
		return rpcerror.New(codes.InvalidArgument, err.Error())
	}
	if t := u.Type(); t != Type {
		return rpcerror.Newf(codes.InvalidArgument, "there is no resource type %q here, only %s", t, Type)
	}
	return nil
}

// failure is an error by which the engine knows that nothing is in doubt: an
// Unknown or Internal one would leave the operation pending in the state.
func failure(what string, err error) error {
	return rpcerror.New(codes.FailedPrecondition, fmt.Errorf("%s: %w", what, err).Error())
}

func unmarshal(s *structpb.Struct) (resource.PropertyMap, error) {
	m, err := plugin.UnmarshalProperties(s, plugin.MarshalOptions{KeepUnknowns: true, SkipNulls: true, RejectAssets: true})
	if err != nil {
		return nil, rpcerror.New(codes.InvalidArgument, fmt.Errorf("reading the properties: %w", err).Error())
	}
	return m, nil
}

func marshal(m resource.PropertyMap) (*structpb.Struct, error) {
	s, err := plugin.MarshalProperties(m, plugin.MarshalOptions{KeepUnknowns: true, KeepSecrets: true})
	if err != nil {
		return nil, rpcerror.New(codes.FailedPrecondition, fmt.Errorf("writing the properties: %w", err).Error())
	}
	return s, nil
}
