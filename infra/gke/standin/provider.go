// SPDX-License-Identifier: Apache-2.0

package standin

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/pulumi/pulumi/sdk/v3/go/common/util/rpcutil"
	pulumirpc "github.com/pulumi/pulumi/sdk/v3/proto/go"
)

// version is the SDK's, which our programs ask for.
const version = "8.41.1"

// provider speaks the engine's protocol. It holds nothing itself, because an
// engine connects several times.
type provider struct {
	pulumirpc.UnimplementedResourceProviderServer
	c *Cloud
}

// Serve offers the cloud to engines on a loopback port, until ctx ends. Set
// PULUMI_DEBUG_PROVIDERS=gcp:PORT for an engine to use it.
func Serve(ctx context.Context, c *Cloud) (port int, err error) {
	stop := make(chan bool)
	handle, err := rpcutil.ServeWithOptions(rpcutil.ServeOptions{
		Cancel: stop,
		Init: func(s *grpc.Server) error {
			pulumirpc.RegisterResourceProviderServer(s, &provider{c: c})
			return nil
		},
	})
	if err != nil {
		return 0, fmt.Errorf("serving the stand-in cloud: %w", err)
	}
	context.AfterFunc(ctx, func() { close(stop) })
	return handle.Port, nil
}

// Handshake agrees on plain values: no secrets, no references.
func (p *provider) Handshake(context.Context, *pulumirpc.ProviderHandshakeRequest) (*pulumirpc.ProviderHandshakeResponse, error) {
	return &pulumirpc.ProviderHandshakeResponse{}, nil
}

// Attach is for an engine that finds the provider running.
func (p *provider) Attach(context.Context, *pulumirpc.PluginAttach) (*emptypb.Empty, error) {
	return &emptypb.Empty{}, nil
}

func (p *provider) GetPluginInfo(context.Context, *emptypb.Empty) (*pulumirpc.PluginInfo, error) {
	return &pulumirpc.PluginInfo{Version: version}, nil
}

func (p *provider) GetSchema(context.Context, *pulumirpc.GetSchemaRequest) (*pulumirpc.GetSchemaResponse, error) {
	return &pulumirpc.GetSchemaResponse{Schema: `{"name": "gcp", "version": "` + version + `"}`}, nil
}

func (p *provider) Cancel(context.Context, *emptypb.Empty) (*emptypb.Empty, error) {
	return &emptypb.Empty{}, nil
}

func (p *provider) CheckConfig(_ context.Context, req *pulumirpc.CheckRequest) (*pulumirpc.CheckResponse, error) {
	return &pulumirpc.CheckResponse{Inputs: req.GetNews()}, nil
}

// DiffConfig: another project would be another cloud.
func (p *provider) DiffConfig(_ context.Context, req *pulumirpc.DiffRequest) (*pulumirpc.DiffResponse, error) {
	before, after := req.GetOldInputs().AsMap(), req.GetNews().AsMap()
	out := &pulumirpc.DiffResponse{Changes: pulumirpc.DiffResponse_DIFF_NONE}
	changed := map[string]rune{}
	differences(before, after, "", changed)
	for path := range changed {
		out.Changes = pulumirpc.DiffResponse_DIFF_SOME
		out.Diffs = append(out.Diffs, path)
		if path == "project" {
			out.Replaces = append(out.Replaces, path)
		}
	}
	return out, nil
}

func (p *provider) Configure(_ context.Context, req *pulumirpc.ConfigureRequest) (*pulumirpc.ConfigureResponse, error) {
	p.c.mu.Lock()
	defer p.c.mu.Unlock()
	args := req.GetArgs().AsMap()
	err := func() error {
		if project := text(args, "project"); project != "" && project != p.c.opts.Project {
			return status.Errorf(codes.InvalidArgument, "the stand-in cloud has the project %q, and not %q", p.c.opts.Project, project)
		}
		if region := text(args, "region"); region != "" {
			p.c.region = region
		}
		return nil
	}()
	return &pulumirpc.ConfigureResponse{SupportsPreview: true}, p.done(Call{Call: "configure", URN: req.GetUrn()}, err)
}

// done journals a call with its error and returns the error.
func (p *provider) done(call Call, err error) error {
	if err != nil {
		call.Error = err.Error()
	}
	if failed := p.c.note(call); failed != nil {
		return failed
	}
	return err
}

// kindOf returns what is known of a type.
func kindOf(typ string) (*kind, error) {
	if k := kinds[typ]; k != nil {
		return k, nil
	}
	return nil, status.Errorf(codes.Unimplemented, "the stand-in cloud knows nothing of %s", typ)
}

// Check fills in names and defaults, and refuses what the provider itself would
// refuse, before anything is asked of the cloud.
func (p *provider) Check(_ context.Context, req *pulumirpc.CheckRequest) (*pulumirpc.CheckResponse, error) {
	p.c.mu.Lock()
	defer p.c.mu.Unlock()
	call := Call{Call: "check", Type: req.GetType(), URN: req.GetUrn()}
	k, err := kindOf(req.GetType())
	if err != nil {
		return nil, p.done(call, err)
	}
	news := merge(k.defaults, req.GetNews().AsMap())
	if k.autoname && news[k.named] == nil && news["namePrefix"] == nil {
		news[k.named] = autoname(req, k.named)
	}
	failures, err := p.c.schema.Check(req.GetType(), news)
	if err != nil {
		return nil, p.done(call, status.Error(codes.Internal, err.Error()))
	}
	// Rules over values of the wrong type would only say the same again.
	if len(failures) == 0 {
		failures = k.vet(news)
	}
	out := &pulumirpc.CheckResponse{}
	for _, f := range failures {
		out.Failures = append(out.Failures, &pulumirpc.CheckFailure{Property: f.path, Reason: f.path + ": " + f.why})
		call.Error += f.path + ": " + f.why + "\n"
	}
	if out.Inputs, err = structpb.NewStruct(news); err != nil {
		return nil, p.done(call, status.Error(codes.Internal, err.Error()))
	}
	return out, p.done(call, nil)
}

// autoname keeps the name that a resource has, or makes one up: the logical name
// and seven digits, which the engine's seed decides.
func autoname(req *pulumirpc.CheckRequest, named string) string {
	if old := text(req.GetOlds().AsMap(), named); old != "" {
		return old
	}
	seed := req.GetRandomSeed()
	if len(seed) == 0 {
		seed = []byte(req.GetUrn())
	}
	sum := sha256.Sum256(seed)
	return req.GetName() + "-" + hex.EncodeToString(sum[:])[:7]
}

// Diff compares what was asked for with what is asked for now; for what Google
// dictates, what Google said with what is asked for now.
func (p *provider) Diff(_ context.Context, req *pulumirpc.DiffRequest) (*pulumirpc.DiffResponse, error) {
	p.c.mu.Lock()
	defer p.c.mu.Unlock()
	call := Call{Call: "diff", Type: req.GetType(), URN: req.GetUrn(), ID: req.GetId()}
	k, err := kindOf(req.GetType())
	if err != nil {
		return nil, p.done(call, err)
	}
	before, after := req.GetOldInputs().AsMap(), req.GetNews().AsMap()
	changed := map[string]rune{}
	differences(before, after, "", changed)
	state := req.GetOlds().AsMap()
	dictated := map[string]bool{}
	for path, say := range k.dictated {
		if said := raw(state, path); said != nil && say(before) != nil {
			delete(changed, path)
			differences(said, raw(after, path), path, changed)
			dictated[path] = true
		}
	}
	out := &pulumirpc.DiffResponse{
		Changes: pulumirpc.DiffResponse_DIFF_NONE, HasDetailedDiff: true,
		DetailedDiff: map[string]*pulumirpc.PropertyDiff{}, Replaces: k.replaces(before, after),
	}
	call.Replaces = out.Replaces
	for path, how := range changed {
		out.Changes = pulumirpc.DiffResponse_DIFF_SOME
		out.Diffs = append(out.Diffs, path)
		d := map[rune]pulumirpc.PropertyDiff_Kind{
			'A': pulumirpc.PropertyDiff_ADD, 'D': pulumirpc.PropertyDiff_DELETE, 'U': pulumirpc.PropertyDiff_UPDATE,
		}[how]
		out.DetailedDiff[path] = &pulumirpc.PropertyDiff{Kind: d, InputDiff: !dictated[path]}
	}
	for _, path := range out.Replaces {
		d := pulumirpc.PropertyDiff_UPDATE_REPLACE
		switch {
		case raw(before, path) == nil:
			d = pulumirpc.PropertyDiff_ADD_REPLACE
		case raw(after, path) == nil:
			d = pulumirpc.PropertyDiff_DELETE_REPLACE
		}
		out.DetailedDiff[path] = &pulumirpc.PropertyDiff{Kind: d, InputDiff: true}
	}
	// Two of one name cannot stand beside each other.
	out.DeleteBeforeReplace = len(out.Replaces) > 0 && k.id(p.c, before) == k.id(p.c, after)
	slices.Sort(out.Diffs)
	return out, p.done(call, nil)
}

// outputs are what was asked for, and what the cloud adds to it.
func (p *provider) outputs(k *kind, r *record, preview bool) (*structpb.Struct, error) {
	computed := values{}
	if k.computed != nil {
		computed = k.computed(p.c, r)
	}
	if preview {
		computed, _ = hide(computed).(values)
	}
	all := merge(computed, r.Inputs)
	for path, say := range k.dictated {
		if said := say(r.Inputs); said != nil && !preview {
			put(all, path, said)
		}
	}
	return structpb.NewStruct(all)
}

func (p *provider) Create(_ context.Context, req *pulumirpc.CreateRequest) (*pulumirpc.CreateResponse, error) {
	p.c.mu.Lock()
	defer p.c.mu.Unlock()
	call := Call{Call: "create", Type: req.GetType(), URN: req.GetUrn(), Preview: req.GetPreview()}
	out, err := p.create(req, &call)
	return out, p.done(call, err)
}

func (p *provider) create(req *pulumirpc.CreateRequest, call *Call) (*pulumirpc.CreateResponse, error) {
	k, err := kindOf(req.GetType())
	if err != nil {
		return nil, err
	}
	v := req.GetProperties().AsMap()
	r := &record{Type: req.GetType(), URN: req.GetUrn(), Serial: p.c.state.Serial + 1, Inputs: v}
	if req.GetPreview() {
		out, err := p.outputs(k, r, true)
		return &pulumirpc.CreateResponse{Properties: out}, err
	}
	r.ID = k.id(p.c, v)
	call.ID = r.ID
	if err := p.c.reach(k); err != nil {
		return nil, err
	}
	fault := p.c.fault("create", req.GetType(), req.GetUrn())
	if fault != nil && !fault.Partial && !fault.Lost {
		return nil, fault.err()
	}
	if p.c.get(r.Type, r.ID) != nil && !k.shared {
		return nil, &apiError{409, "alreadyExists", fmt.Sprintf("The resource '%s' already exists", r.ID)}
	}
	if k.accept != nil {
		if err := k.accept(p.c, r.ID, v); err != nil {
			return nil, err
		}
	}
	if err := p.keep(k, r); err != nil {
		return nil, err
	}
	out, err := p.outputs(k, r, false)
	switch {
	case err != nil:
		return nil, err
	case fault != nil && fault.Lost:
		return nil, fault.err()
	case fault != nil:
		return nil, partial(r.ID, out, req.GetProperties(), fault.err())
	}
	return &pulumirpc.CreateResponse{Id: r.ID, Properties: out}, nil
}

// reach refuses a call to an API that is off, or that a perimeter guards.
func (c *Cloud) reach(k *kind) error {
	if k.api == "" {
		return nil
	}
	if !c.state.Services[k.api] {
		return c.off(k.api)
	}
	return c.shut(k.api)
}

// keep puts a resource into the cloud.
func (p *provider) keep(k *kind, r *record) error {
	p.c.state.Serial = max(p.c.state.Serial, r.Serial)
	p.c.state.Resources[key(r.Type, r.ID)] = r
	if k.done != nil {
		k.done(p.c, r.Inputs)
	}
	return p.c.save()
}

// partial tells the engine of a resource that is there and not well.
func partial(id string, outputs, inputs *structpb.Struct, why error) error {
	st, err := status.New(codes.Unknown, why.Error()).WithDetails(&pulumirpc.ErrorResourceInitFailed{
		Id: id, Properties: outputs, Inputs: inputs, Reasons: []string{why.Error()},
	})
	if err != nil {
		return errors.Join(why, err)
	}
	return st.Err()
}

// Read returns what the cloud has. Inputs are those that it would take to get
// there, so that a change behind the program's back is a difference.
func (p *provider) Read(_ context.Context, req *pulumirpc.ReadRequest) (*pulumirpc.ReadResponse, error) {
	p.c.mu.Lock()
	defer p.c.mu.Unlock()
	call := Call{Call: "read", Type: req.GetType(), URN: req.GetUrn(), ID: req.GetId()}
	out, err := p.read(req)
	return out, p.done(call, err)
}

func (p *provider) read(req *pulumirpc.ReadRequest) (*pulumirpc.ReadResponse, error) {
	k, err := kindOf(req.GetType())
	if err != nil {
		return nil, err
	}
	if err := p.c.reach(k); err != nil {
		return nil, err
	}
	if fault := p.c.fault("read", req.GetType(), req.GetUrn()); fault != nil {
		return nil, fault.err()
	}
	r := p.c.get(req.GetType(), req.GetId())
	if r == nil {
		// No id means that it is gone.
		return &pulumirpc.ReadResponse{}, nil
	}
	out, err := p.outputs(k, r, false)
	if err != nil {
		return nil, err
	}
	inputs, err := structpb.NewStruct(r.Inputs)
	return &pulumirpc.ReadResponse{Id: r.ID, Properties: out, Inputs: inputs}, err
}

func (p *provider) Update(_ context.Context, req *pulumirpc.UpdateRequest) (*pulumirpc.UpdateResponse, error) {
	p.c.mu.Lock()
	defer p.c.mu.Unlock()
	call := Call{Call: "update", Type: req.GetType(), URN: req.GetUrn(), ID: req.GetId(), Preview: req.GetPreview()}
	out, err := p.update(req)
	return out, p.done(call, err)
}

func (p *provider) update(req *pulumirpc.UpdateRequest) (*pulumirpc.UpdateResponse, error) {
	k, err := kindOf(req.GetType())
	if err != nil {
		return nil, err
	}
	was := p.c.get(req.GetType(), req.GetId())
	if was == nil {
		return nil, missing(req.GetId())
	}
	r := *was
	r.Inputs = req.GetNews().AsMap()
	if req.GetPreview() {
		// What is computed stays as it is: nothing is made anew.
		out, err := p.outputs(k, &r, false)
		return &pulumirpc.UpdateResponse{Properties: out}, err
	}
	if err := p.c.reach(k); err != nil {
		return nil, err
	}
	fault := p.c.fault("update", req.GetType(), req.GetUrn())
	if fault != nil && !fault.Partial && !fault.Lost {
		return nil, fault.err()
	}
	if replaces := k.replaces(was.Inputs, r.Inputs); len(replaces) > 0 {
		return nil, refuse("%v cannot be changed", replaces)
	}
	if k.accept != nil {
		if err := k.accept(p.c, r.ID, r.Inputs); err != nil {
			return nil, err
		}
	}
	if err := p.keep(k, &r); err != nil {
		return nil, err
	}
	out, err := p.outputs(k, &r, false)
	switch {
	case err != nil:
		return nil, err
	case fault != nil && fault.Lost:
		return nil, fault.err()
	case fault != nil:
		return nil, partial(r.ID, out, req.GetNews(), fault.err())
	}
	return &pulumirpc.UpdateResponse{Properties: out}, nil
}

func (p *provider) Delete(_ context.Context, req *pulumirpc.DeleteRequest) (*emptypb.Empty, error) {
	p.c.mu.Lock()
	defer p.c.mu.Unlock()
	call := Call{Call: "delete", Type: req.GetType(), URN: req.GetUrn(), ID: req.GetId()}
	return &emptypb.Empty{}, p.done(call, p.delete(req))
}

func (p *provider) delete(req *pulumirpc.DeleteRequest) error {
	k, err := kindOf(req.GetType())
	if err != nil {
		return err
	}
	if err := p.c.reach(k); err != nil {
		return err
	}
	fault := p.c.fault("delete", req.GetType(), req.GetUrn())
	if fault != nil && !fault.Lost {
		return fault.err()
	}
	r := p.c.get(req.GetType(), req.GetId())
	if r == nil {
		// It is gone already, which is all that was asked for.
		return nil
	}
	if k.keep != nil {
		if err := k.keep(p.c, r); err != nil {
			return err
		}
	}
	delete(p.c.state.Resources, key(r.Type, r.ID))
	if k.gone != nil {
		k.gone(p.c, r)
	}
	if err := p.c.save(); err != nil {
		return err
	}
	if fault != nil {
		return fault.err()
	}
	return nil
}

// Invoke answers the few questions that a program may ask.
func (p *provider) Invoke(_ context.Context, req *pulumirpc.InvokeRequest) (*pulumirpc.InvokeResponse, error) {
	p.c.mu.Lock()
	defer p.c.mu.Unlock()
	var answer values
	var err error
	switch req.GetTok() {
	case "gcp:organizations/getProject:getProject":
		answer = values{"id": "projects/" + p.c.opts.Project, "projectId": p.c.opts.Project, "name": p.c.opts.Project, "number": p.c.opts.Number}
	case "gcp:organizations/getClientConfig:getClientConfig":
		answer = values{"id": "config", "project": p.c.opts.Project, "region": p.c.region, "zone": ""}
	default:
		err = status.Errorf(codes.Unimplemented, "the stand-in cloud knows nothing of %s", req.GetTok())
	}
	out, convert := structpb.NewStruct(answer)
	return &pulumirpc.InvokeResponse{Return: out}, p.done(Call{Call: "invoke", Type: req.GetTok()}, errors.Join(err, convert))
}
