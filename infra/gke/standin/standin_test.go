// SPDX-License-Identifier: Apache-2.0

package standin

import (
	"context"
	"maps"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"

	pulumirpc "github.com/pulumi/pulumi/sdk/v3/proto/go"
)

// theSchema is read once for all tests.
var theSchema = sync.OnceValues(func() (*Schema, error) { return NewSchema(context.Background()) })

// engine drives a provider as Pulumi's engine does.
type engine struct {
	t *testing.T
	p *provider
}

func start(t *testing.T, o Options) *engine {
	t.Helper()
	schema, err := theSchema()
	require.NoError(t, err)
	if o.Dir == "" {
		o.Dir = t.TempDir()
	}
	c, err := Open(schema, o)
	require.NoError(t, err)
	e := &engine{t, &provider{c: c}}
	_, err = e.p.Configure(t.Context(), &pulumirpc.ConfigureRequest{Args: e.wire(values{"project": c.opts.Project, "region": "us-central1"})})
	require.NoError(t, err)
	return e
}

func (e *engine) wire(v values) *structpb.Struct {
	e.t.Helper()
	s, err := structpb.NewStruct(v)
	require.NoError(e.t, err)
	return s
}

func urn(typ, name string) string { return "urn:pulumi:test::stockade::" + typ + "::" + name }

// check returns the inputs as the provider would have them, or what it refuses.
func (e *engine) check(typ, name string, olds, news values) (values, string) {
	e.t.Helper()
	resp, err := e.p.Check(e.t.Context(), &pulumirpc.CheckRequest{
		Urn: urn(typ, name), Type: typ, Name: name, Olds: e.wire(olds), News: e.wire(news), RandomSeed: []byte(name),
	})
	if err != nil {
		return nil, status.Convert(err).Message()
	}
	var failures []string
	for _, f := range resp.GetFailures() {
		failures = append(failures, f.GetReason())
	}
	return resp.GetInputs().AsMap(), strings.Join(failures, "; ")
}

func (e *engine) create(typ, name string, v values) (id string, outputs values, err error) {
	e.t.Helper()
	inputs, failures := e.check(typ, name, nil, v)
	require.Empty(e.t, failures, "%s %s", typ, name)
	resp, err := e.p.Create(e.t.Context(), &pulumirpc.CreateRequest{Urn: urn(typ, name), Type: typ, Name: name, Properties: e.wire(inputs)})
	return resp.GetId(), resp.GetProperties().AsMap(), err
}

// make creates what must be possible.
func (e *engine) make(typ, name string, v values) (id string, outputs values) {
	e.t.Helper()
	id, outputs, err := e.create(typ, name, v)
	require.NoError(e.t, err, "%s %s", typ, name)
	return id, outputs
}

func (e *engine) diff(typ string, before, after values) *pulumirpc.DiffResponse {
	e.t.Helper()
	resp, err := e.p.Diff(e.t.Context(), &pulumirpc.DiffRequest{Type: typ, Urn: urn(typ, "x"), OldInputs: e.wire(before), News: e.wire(after)})
	require.NoError(e.t, err)
	return resp
}

func (e *engine) update(typ, id string, v values) error {
	e.t.Helper()
	v, failures := e.check(typ, "x", nil, v)
	require.Empty(e.t, failures)
	_, err := e.p.Update(e.t.Context(), &pulumirpc.UpdateRequest{Type: typ, Urn: urn(typ, "x"), Id: id, News: e.wire(v)})
	return err
}

func (e *engine) delete(typ, id string) error {
	_, err := e.p.Delete(e.t.Context(), &pulumirpc.DeleteRequest{Type: typ, Urn: urn(typ, "x"), Id: id})
	return err
}

// with is v with other values at some paths; nil takes a value away.
func with(v values, more values) values {
	out := clone(v).(values)
	for path, x := range more {
		at := out
		keys := strings.Split(path, "/")
		for _, k := range keys[:len(keys)-1] {
			inner, ok := at[k].(map[string]any)
			if !ok {
				inner = values{}
				at[k] = inner
			}
			at = inner
		}
		if last := keys[len(keys)-1]; x == nil {
			delete(at, last)
		} else {
			at[last] = x
		}
	}
	return out
}

var (
	subnetInputs = values{
		"name": "subnet", "network": "vpc", "ipCidrRange": "10.10.0.0/20",
		"secondaryIpRanges": []any{values{"rangeName": "pods", "ipCidrRange": "10.20.0.0/16"}, values{"rangeName": "services", "ipCidrRange": "10.30.0.0/20"}},
	}
	clusterInputs = values{
		"name": "cluster", "location": "us-central1", "network": "vpc", "subnetwork": "subnet", "datapathProvider": "ADVANCED_DATAPATH",
		"initialNodeCount": 1.0, "removeDefaultNodePool": true, "deletionProtection": false,
		"ipAllocationPolicy":     values{"clusterSecondaryRangeName": "pods", "servicesSecondaryRangeName": "services"},
		"workloadIdentityConfig": values{"workloadPool": "example-project.svc.id.goog"},
		"releaseChannel":         values{"channel": "REGULAR"},
	}
	poolInputs = values{"name": "system", "location": "us-central1", "cluster": "cluster", "nodeConfig": values{"machineType": "e2-standard-4"}}
	gvisor     = values{
		"name": "sandbox", "location": "us-central1", "cluster": "cluster",
		"nodeConfig": values{"imageType": "COS_CONTAINERD", "sandboxConfig": values{"sandboxType": "gvisor"}},
	}
	perimeter = values{
		"name": "accessPolicies/1/servicePerimeters/box", "parent": "accessPolicies/1", "title": "box",
		"status": values{"resources": []any{"projects/100000000001"}, "restrictedServices": []any{apiContainer}, "accessLevels": []any{"accessPolicies/1/accessLevels/us"}},
	}
	level = values{
		"name": "accessPolicies/1/accessLevels/us", "parent": "accessPolicies/1", "title": "us",
		"basic": values{"conditions": []any{values{"members": []any{"user:me@example.com"}, "ipSubnetworks": []any{"203.0.113.0/24"}}}},
	}
)

// world is a project with one of everything.
func world(t *testing.T) (*engine, map[string]string) {
	t.Helper()
	e := start(t, Options{})
	ids := map[string]string{}
	for _, api := range []string{apiCompute, apiContainer, apiDNS, apiIAM, apiProjects, apiRegistry, apiBinauthz} {
		ids[typeService], _ = e.make(typeService, api, values{"service": api})
	}
	for _, r := range []struct {
		typ string
		v   values
	}{
		{typeNetwork, values{"name": "vpc", "autoCreateSubnetworks": false}},
		{typeSubnet, subnetInputs},
		{typeRouter, values{"name": "router", "network": "vpc"}},
		{typeNat, values{"name": "nat", "router": "router", "natIpAllocateOption": "AUTO_ONLY", "sourceSubnetworkIpRangesToNat": "ALL_SUBNETWORKS_ALL_IP_RANGES"}},
		{typeFirewall, values{"name": "rest", "network": "vpc", "direction": "EGRESS", "destinationRanges": []any{"0.0.0.0/0"}, "denies": []any{values{"protocol": "all"}}}},
		{typeZone, values{"name": "zone", "dnsName": "pkg.dev.", "visibility": "private", "privateVisibilityConfig": values{"networks": []any{values{"networkUrl": "vpc"}}}}},
		{typeRecord, values{"name": "pkg.dev.", "managedZone": "zone", "type": "A", "ttl": 300.0, "rrdatas": []any{"199.36.153.4"}}},
		{typeAccount, values{"accountId": "nodes-of-box"}},
		{typeProjectIAM, values{"project": "example-project", "role": "roles/logging.logWriter", "member": "serviceAccount:nodes-of-box@example-project.iam.gserviceaccount.com"}},
		{typeRepository, values{"repositoryId": "images", "format": "DOCKER", "location": "us-central1"}},
		{typeRepoIAM, values{"repository": "images", "location": "us-central1", "role": "roles/artifactregistry.reader", "member": "serviceAccount:nodes-of-box@example-project.iam.gserviceaccount.com"}},
		{typeBinauthz, values{"defaultAdmissionRule": values{"evaluationMode": "ALWAYS_DENY", "enforcementMode": "ENFORCED_BLOCK_AND_AUDIT_LOG"}}},
		{typeCluster, clusterInputs},
		{typeAccountIAM, values{"serviceAccountId": "projects/example-project/serviceAccounts/nodes-of-box@example-project.iam.gserviceaccount.com", "role": "roles/iam.workloadIdentityUser", "member": "serviceAccount:example-project.svc.id.goog[ns/name]"}},
		{typePool, poolInputs},
		{typePool, gvisor},
		{typeLevel, level},
		{typePerimeter, perimeter},
	} {
		ids[r.typ], _ = e.make(r.typ, "x", r.v)
	}
	return e, ids
}

func TestEveryTableSpeaksOfPropertiesThatTheSDKHas(t *testing.T) {
	schema, err := theSchema()
	require.NoError(t, err)
	for typ, k := range kinds {
		var paths []string
		paths = append(paths, k.replace...)
		for _, pair := range k.excludes {
			paths = append(paths, pair[0], pair[1])
		}
		for path := range maps.Keys(k.oneOf) {
			paths = append(paths, path)
		}
		for path := range maps.Keys(k.defaults) {
			paths = append(paths, path)
		}
		for path := range maps.Keys(k.dictated) {
			paths = append(paths, path)
		}
		if k.named != "" {
			paths = append(paths, k.named)
		}
		for _, path := range paths {
			ok, err := schema.Has(typ, path)
			require.NoError(t, err)
			assert.True(t, ok, "%s has no %s", typ, path)
		}
	}
}

func TestATypeOutsideOfTheTablesIsRefused(t *testing.T) {
	e := start(t, Options{})
	_, failure := e.check("gcp:storage/bucket:Bucket", "b", nil, values{})
	assert.Contains(t, failure, "knows nothing of gcp:storage/bucket:Bucket")
	_, err := e.p.Invoke(t.Context(), &pulumirpc.InvokeRequest{Tok: "gcp:compute/getZones:getZones"})
	assert.ErrorContains(t, err, "knows nothing of")
}

func TestPropertiesAreCheckedByTheSDKsSource(t *testing.T) {
	e := start(t, Options{})
	for name, c := range map[string]struct {
		typ  string
		v    values
		want string
	}{
		"unknown":                  {typePool, values{"cluster": "c", "nodeCounts": 1.0}, "nodeCounts: NodePool has no such property"},
		"unknown inside":           {typePool, values{"cluster": "c", "nodeConfig": values{"kubeletConfig": values{"pidsLimit": 1.0}}}, "nodeConfig.kubeletConfig.pidsLimit"},
		"required":                 {typePool, values{}, "cluster: it is required"},
		"required inside":          {typePool, values{"cluster": "c", "nodeConfig": values{"sandboxConfig": values{}}}, "nodeConfig.sandboxConfig.sandboxType: it is required"},
		"required of a list":       {typeFirewall, values{"network": "n", "allows": []any{values{}}}, "allows[0].protocol: it is required"},
		"a pointer, yet required":  {typeRepository, values{"format": "DOCKER"}, "repositoryId: it is required"},
		"a text for a number":      {typeFirewall, values{"network": "n", "priority": "1"}, "priority: it is a string"},
		"a fraction for a number":  {typeFirewall, values{"network": "n", "priority": 1.5}, "priority"},
		"a number for a text":      {typeNetwork, values{"description": 1.0}, "description"},
		"a text for a list":        {typeFirewall, values{"network": "n", "sourceRanges": "10.0.0.0/8"}, "sourceRanges"},
		"a list for a map":         {typeZone, values{"dnsName": "a.", "labels": []any{}}, "labels"},
		"a wrong value in a map":   {typeZone, values{"dnsName": "a.", "labels": values{"a": true}}, "labels.a"},
		"a list for an object":     {typeCluster, values{"networkPolicy": []any{}}, "networkPolicy"},
		"a word that is none":      {typeCluster, values{"releaseChannel": values{"channel": "NIGHTLY"}}, "releaseChannel.channel"},
		"a name that is none":      {typeNetwork, values{"name": "Box"}, "name"},
		"a domain without its dot": {typeZone, values{"dnsName": "pkg.dev"}, "dnsName"},
		"two that exclude":         {typeFirewall, values{"network": "n", "allows": []any{values{"protocol": "tcp"}}, "denies": []any{values{"protocol": "tcp"}}}, "conflicts with allows"},
		"pools beside Autopilot":   {typeCluster, values{"enableAutopilot": true, "removeDefaultNodePool": true}, "conflicts with enableAutopilot"},
		"a false beside a true":    {typeCluster, values{"enableAutopilot": false, "enableShieldedNodes": true}, "conflicts with enableAutopilot"},
		"two maintenance windows": {typeCluster, values{"maintenancePolicy": values{
			"dailyMaintenanceWindow": values{"startTime": "03:00"},
			"recurringWindow":        values{"startTime": "2026-01-01T00:00:00Z", "endTime": "2026-01-01T06:00:00Z", "recurrence": "FREQ=DAILY"},
		}}, "two windows"},
		"a window that is none": {typeCluster, values{"maintenancePolicy": values{
			"recurringWindow": values{"startTime": "03:00", "endTime": "2026-01-01T06:00:00Z", "recurrence": "FREQ=DAILY"},
		}}, "startTime"},
		"a member that is nobody": {typeProjectIAM, values{"project": "p", "role": "r", "member": "me@example.com"}, "member"},
		"an API that is none":     {typeService, values{"service": "compute"}, "service"},
	} {
		_, failure := e.check(c.typ, "x", nil, c.v)
		assert.Contains(t, failure, c.want, name)
	}
	_, failure := e.check(typePool, "x", nil, values{"cluster": "04da6b54-80e4-46f7-96ec-b56ff0331ba9", "nodeConfig": "dd056dcd-154b-4c76-9bd3-c8f88648b5ff"})
	assert.Empty(t, failure, "what is not known yet may be anything")
}

// Each case is what Google refuses, made out of a world that it accepts.
func TestGoogleRefusesWhatCannotBe(t *testing.T) {
	reserved := []any{values{"key": reservedKey, "value": "gvisor", "effect": "NO_SCHEDULE"}}
	for name, c := range map[string]struct {
		typ  string
		v    values
		want string
	}{
		"Calico beside Dataplane V2":       {typeCluster, with(clusterInputs, values{"name": "other", "networkPolicy/enabled": true}), "Dataplane V2"},
		"FQDN policies without it":         {typeCluster, with(clusterInputs, values{"name": "other", "datapathProvider": nil, "enableFqdnNetworkPolicy": true}), "requires Dataplane V2"},
		"cluster policies without it":      {typeCluster, with(clusterInputs, values{"name": "other", "datapathProvider": nil, "enableCiliumClusterwideNetworkPolicy": true}), "requires Dataplane V2"},
		"FQDN policies beside encryption":  {typeCluster, with(clusterInputs, values{"name": "other", "enableFqdnNetworkPolicy": true, "inTransitEncryptionConfig": transparentEncryption}), "not compatible"},
		"the reserved taint at birth":      {typeCluster, with(clusterInputs, values{"name": "other", "nodeConfig/taints": reserved}), "reserved"},
		"gVisor on the default pool":       {typeCluster, with(clusterInputs, values{"name": "other", "nodeConfig/sandboxConfig": values{"sandboxType": "gvisor"}}), "default node pool"},
		"a cluster without a first node":   {typeCluster, with(clusterInputs, values{"name": "other", "initialNodeCount": nil}), "initial_node_count"},
		"somebody else's workload pool":    {typeCluster, with(clusterInputs, values{"name": "other", "workloadIdentityConfig/workloadPool": "theirs.svc.id.goog"}), "not that of the project"},
		"a range that the subnet lacks":    {typeCluster, with(clusterInputs, values{"name": "other", "ipAllocationPolicy/clusterSecondaryRangeName": "more"}), "does not exist in subnetwork"},
		"a network that is not there":      {typeCluster, with(clusterInputs, values{"name": "other", "network": "lost"}), "404"},
		"a subnet that is not there":       {typeCluster, with(clusterInputs, values{"name": "other", "subnetwork": "lost"}), "404"},
		"a control plane among the Pods":   {typeCluster, with(clusterInputs, values{"name": "other", "privateClusterConfig/masterIpv4CidrBlock": "10.20.0.0/28"}), "overlaps"},
		"a control plane that is too wide": {typeCluster, with(clusterInputs, values{"name": "other", "privateClusterConfig/masterIpv4CidrBlock": "172.16.0.0/24"}), "/28"},
		"nodes of an account that is not":  {typeCluster, with(clusterInputs, values{"name": "other", "nodeConfig/serviceAccount": "lost@example-project.iam.gserviceaccount.com"}), "does not exist"},
		"a window that is too short": {typeCluster, with(clusterInputs, values{"name": "other", "maintenancePolicy/recurringWindow": values{
			"startTime": "2026-01-01T00:00:00Z", "endTime": "2026-01-01T02:00:00Z", "recurrence": "FREQ=DAILY"}}), "4 to 24 hours"},
		"a cluster of the same name": {typeCluster, clusterInputs, "409"},

		"the reserved taint":                 {typePool, with(gvisor, values{"name": "other", "nodeConfig/taints": reserved}), "reserved"},
		"the reserved label":                 {typePool, with(gvisor, values{"name": "other", "nodeConfig/labels": values{reservedKey: "gvisor"}}), "reserved"},
		"the reserved taint without gVisor":  {typePool, with(poolInputs, values{"name": "other", "nodeConfig/taints": reserved}), "reserved"},
		"the reserved label without gVisor":  {typePool, with(poolInputs, values{"name": "other", "nodeConfig/labels": values{reservedKey: "gvisor"}}), "reserved"},
		"gVisor on Ubuntu":                   {typePool, with(gvisor, values{"name": "other", "nodeConfig/imageType": "UBUNTU_CONTAINERD"}), "COS_CONTAINERD"},
		"a disk that the machine lacks":      {typePool, with(poolInputs, values{"name": "other", "nodeConfig/machineType": "n4-standard-4", "nodeConfig/diskType": "pd-balanced"}), "cannot be used by n4-standard-4"},
		"a pool of no cluster":               {typePool, with(poolInputs, values{"name": "other", "cluster": "lost"}), "404"},
		"too few processes":                  {typePool, with(poolInputs, values{"name": "other", "nodeConfig/kubeletConfig/podPidsLimit": 100.0}), "podPidsLimit"},
		"a minimum above its maximum":        {typePool, with(poolInputs, values{"name": "other", "autoscaling": values{"totalMinNodeCount": 3.0, "totalMaxNodeCount": 1.0}}), "minimum above"},
		"limits by zone and in total":        {typePool, with(poolInputs, values{"name": "other", "autoscaling": values{"maxNodeCount": 3.0, "totalMaxNodeCount": 3.0}}), "either"},
		"a channel without upgrades":         {typePool, with(poolInputs, values{"name": "other", "management": values{"autoRepair": true, "autoUpgrade": false}}), "release channel"},
		"a pool's account that is not":       {typePool, with(poolInputs, values{"name": "other", "nodeConfig/serviceAccount": "lost@example-project.iam.gserviceaccount.com"}), "does not exist"},
		"a second pool of the name":          {typePool, poolInputs, "409"},
		"a subnet over another":              {typeSubnet, with(subnetInputs, values{"name": "other", "ipCidrRange": "10.20.1.0/24", "secondaryIpRanges": nil}), "conflicts with 10.20.0.0/16"},
		"a subnet over itself":               {typeSubnet, with(subnetInputs, values{"name": "other", "ipCidrRange": "10.40.0.0/16", "secondaryIpRanges": []any{values{"rangeName": "a", "ipCidrRange": "10.40.1.0/24"}}}), "conflicts with"},
		"two ranges of one name":             {typeSubnet, with(subnetInputs, values{"name": "other", "ipCidrRange": "10.40.0.0/16", "secondaryIpRanges": []any{values{"rangeName": "a", "ipCidrRange": "10.41.0.0/16"}, values{"rangeName": "a", "ipCidrRange": "10.42.0.0/16"}}}), "named twice"},
		"a range with bits too many":         {typeSubnet, with(subnetInputs, values{"name": "other", "ipCidrRange": "10.40.0.1/16", "secondaryIpRanges": nil}), "Invalid IPCidrRange"},
		"NAT of a range that is not":         {typeNat, values{"name": "other", "router": "router", "natIpAllocateOption": "AUTO_ONLY", "sourceSubnetworkIpRangesToNat": "LIST_OF_SUBNETWORKS", "subnetworks": []any{values{"name": "subnet", "sourceIpRangesToNats": []any{"LIST_OF_SECONDARY_IP_RANGES"}, "secondaryIpRangeNames": []any{"more"}}}}, "does not exist in subnetwork"},
		"NAT of no subnet":                   {typeNat, values{"name": "other", "router": "router", "sourceSubnetworkIpRangesToNat": "LIST_OF_SUBNETWORKS"}, "LIST_OF_SUBNETWORKS"},
		"NAT by hand without addresses":      {typeNat, values{"name": "other", "router": "router", "natIpAllocateOption": "MANUAL_ONLY", "sourceSubnetworkIpRangesToNat": "ALL_SUBNETWORKS_ALL_IP_RANGES"}, "MANUAL_ONLY"},
		"egress with sources":                {typeFirewall, values{"name": "other", "network": "vpc", "direction": "EGRESS", "sourceRanges": []any{"10.0.0.0/8"}, "allows": []any{values{"protocol": "tcp"}}}, "cannot have sources"},
		"a firewall range that is none":      {typeFirewall, values{"name": "other", "network": "vpc", "sourceRanges": []any{"10.0.0.1/8"}, "allows": []any{values{"protocol": "tcp"}}}, "not an IP range"},
		"a priority out of range":            {typeFirewall, values{"name": "other", "network": "vpc", "priority": 70000.0, "allows": []any{values{"protocol": "tcp"}}}, "priority"},
		"a rule about nothing":               {typeFirewall, values{"name": "other", "network": "vpc"}, "allow or deny"},
		"ports of ICMP":                      {typeFirewall, values{"name": "other", "network": "vpc", "allows": []any{values{"protocol": "icmp", "ports": []any{"1"}}}}, "not for protocol"},
		"a port that is none":                {typeFirewall, values{"name": "other", "network": "vpc", "allows": []any{values{"protocol": "tcp", "ports": []any{"https"}}}}, "ports"},
		"a name outside of its zone":         {typeRecord, values{"name": "gcr.io.", "managedZone": "zone", "type": "A", "rrdatas": []any{"199.36.153.4"}}, "not within the zone"},
		"a CNAME at the apex":                {typeRecord, values{"name": "pkg.dev.", "managedZone": "zone", "type": "CNAME", "rrdatas": []any{"a.pkg.dev."}}, "apex"},
		"an address that is none":            {typeRecord, values{"name": "a.pkg.dev.", "managedZone": "zone", "type": "A", "rrdatas": []any{"::1"}}, "not data"},
		"an alias without its dot":           {typeRecord, values{"name": "a.pkg.dev.", "managedZone": "zone", "type": "CNAME", "rrdatas": []any{"pkg.dev"}}, "dot"},
		"a record of no zone":                {typeRecord, values{"name": "a.pkg.dev.", "managedZone": "lost", "type": "A", "rrdatas": []any{"199.36.153.4"}}, "404"},
		"a second record of the name":        {typeRecord, values{"name": "pkg.dev.", "managedZone": "zone", "type": "A", "rrdatas": []any{"199.36.153.5"}}, "409"},
		"a public zone for one network":      {typeZone, values{"name": "other", "dnsName": "a.", "privateVisibilityConfig": values{"networks": []any{values{"networkUrl": "vpc"}}}}, "private zones"},
		"a role for nobody":                  {typeProjectIAM, values{"project": "example-project", "role": "r", "member": "serviceAccount:lost@example-project.iam.gserviceaccount.com"}, "does not exist"},
		"a role in an unknown pool":          {typeProjectIAM, values{"project": "example-project", "role": "r", "member": "serviceAccount:theirs.svc.id.goog[a/b]"}, "Identity Pool does not exist"},
		"a role for an unknown principal":    {typeProjectIAM, values{"project": "example-project", "role": "r", "member": "principal://iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/theirs.svc.id.goog/subject/ns/a/sa/b"}, "Identity Pool does not exist"},
		"a role on no account":               {typeAccountIAM, values{"serviceAccountId": "projects/example-project/serviceAccounts/lost", "role": "r", "member": "user:a@example.com"}, "404"},
		"a role on no repository":            {typeRepoIAM, values{"repository": "lost", "location": "us-central1", "role": "r", "member": "user:a@example.com"}, "404"},
		"attestation by nobody":              {typeBinauthz, values{"defaultAdmissionRule": values{"evaluationMode": "REQUIRE_ATTESTATION", "enforcementMode": "DRYRUN_AUDIT_LOG_ONLY"}}, "attestor"},
		"a perimeter of nothing":             {typePerimeter, with(perimeter, values{"name": "accessPolicies/1/servicePerimeters/other", "status": nil}), "status or a spec"},
		"a dry run that does not say so":     {typePerimeter, with(perimeter, values{"name": "accessPolicies/1/servicePerimeters/other", "status": nil, "spec": values{"resources": []any{"projects/2"}}}), "useExplicitDryRunSpec"},
		"a project by its id":                {typePerimeter, with(perimeter, values{"name": "accessPolicies/1/servicePerimeters/other", "status/resources": []any{"projects/example-project"}}), "by its number"},
		"a project in two perimeters":        {typePerimeter, with(perimeter, values{"name": "accessPolicies/1/servicePerimeters/other"}), "already"},
		"a service that is not restrictable": {typePerimeter, with(perimeter, values{"name": "accessPolicies/1/servicePerimeters/other", "status/resources": []any{"projects/2"}, "status/restrictedServices": []any{"accesscontextmanager.googleapis.com"}}), "cannot be restricted"},
		"services that are allowed for nothing": {typePerimeter, with(perimeter, values{"name": "accessPolicies/1/servicePerimeters/other", "status/resources": []any{"projects/2"},
			"status/vpcAccessibleServices": values{"enableRestriction": false, "allowedServices": []any{"RESTRICTED-SERVICES"}}}), "enableRestriction"},
		"a level that is not there":     {typePerimeter, with(perimeter, values{"name": "accessPolicies/1/servicePerimeters/other", "status/resources": []any{"projects/2"}, "status/accessLevels": []any{"accessPolicies/1/accessLevels/lost"}}), "404"},
		"a perimeter of another policy": {typePerimeter, with(perimeter, values{"parent": "accessPolicies/2", "name": "accessPolicies/1/servicePerimeters/other"}), "not within"},
		"a level for private addresses": {typeLevel, with(level, values{"name": "accessPolicies/1/accessLevels/other", "basic/conditions": []any{values{"ipSubnetworks": []any{"10.0.0.0/8"}}}}), "public range"},
		"a level for a group":           {typeLevel, with(level, values{"name": "accessPolicies/1/accessLevels/other", "basic/conditions": []any{values{"members": []any{"group:a@example.com"}}}}), "neither"},
	} {
		t.Run(name, func(t *testing.T) {
			e, _ := world(t)
			_, _, err := e.create(c.typ, "other", c.v)
			assert.ErrorContains(t, err, c.want)
		})
	}
}

func TestGVisorCannotBeOnTheOnlyPool(t *testing.T) {
	e, ids := world(t)
	require.NoError(t, e.delete(typePool, ids[typePool]))
	require.NoError(t, e.delete(typePool, "projects/example-project/locations/us-central1/clusters/cluster/nodePools/system"))
	_, _, err := e.create(typePool, "x", gvisor)
	assert.ErrorContains(t, err, "only node pool")
	e.make(typePool, "x", poolInputs)
	e.make(typePool, "x", gvisor)
}

func TestPoolsOfOursHaveNoPlaceOnAutopilot(t *testing.T) {
	e, _ := world(t)
	e.make(typeCluster, "x", with(clusterInputs, values{
		"name": "pilot", "enableAutopilot": true, "removeDefaultNodePool": nil, "initialNodeCount": nil, "datapathProvider": nil, "enableFqdnNetworkPolicy": true, "deletionProtection": false,
	}))
	_, _, err := e.create(typePool, "x", with(poolInputs, values{"cluster": "pilot"}))
	assert.ErrorContains(t, err, "Autopilot")
}

func TestTheMetadataServerNeedsAWorkloadPool(t *testing.T) {
	e, _ := world(t)
	e.make(typeCluster, "x", with(clusterInputs, values{"name": "plain", "workloadIdentityConfig": nil}))
	_, _, err := e.create(typePool, "x", with(poolInputs, values{"cluster": "plain", "nodeConfig/workloadMetadataConfig": values{"mode": "GKE_METADATA"}}))
	assert.ErrorContains(t, err, "Workload Identity")
}

func TestAnAPIThatIsOffAnswersNothing(t *testing.T) {
	e := start(t, Options{})
	_, _, err := e.create(typeNetwork, "vpc", values{"name": "vpc"})
	assert.ErrorContains(t, err, "compute.googleapis.com has not been used")
	id, _ := e.make(typeService, "compute", values{"service": apiCompute, "disableOnDestroy": false})
	e.make(typeNetwork, "vpc", values{"name": "vpc"})
	require.NoError(t, e.delete(typeService, id))
	e.make(typeNetwork, "vpc", values{"name": "vpc2"})
	id, _ = e.make(typeService, "compute", values{"service": apiCompute})
	require.NoError(t, e.delete(typeService, id))
	_, _, err = e.create(typeNetwork, "vpc", values{"name": "vpc3"})
	assert.ErrorContains(t, err, "disabled", "it was switched off on destroy")
}

func TestAnEnforcedPerimeterWithoutADoorShutsEverybodyOut(t *testing.T) {
	e, ids := world(t)
	shut := with(perimeter, values{"status/accessLevels": nil})
	require.NoError(t, e.update(typePerimeter, ids[typePerimeter], shut))
	assert.ErrorContains(t, e.delete(typeCluster, ids[typeCluster]), "organization's policy")
	require.NoError(t, e.update(typePerimeter, ids[typePerimeter], with(shut, values{"spec": shut["status"], "status": nil, "useExplicitDryRunSpec": true})))
	require.NoError(t, e.delete(typeCluster, ids[typeCluster]), "a dry run blocks nothing")
}

func TestWhatIsInUseIsKept(t *testing.T) {
	e, ids := world(t)
	for _, typ := range []string{typeNetwork, typeSubnet, typeZone, typeLevel} {
		assert.Error(t, e.delete(typ, ids[typ]), typ)
	}
	for _, typ := range []string{typePerimeter, typeLevel, typeRecord, typeZone, typeCluster, typeSubnet, typeFirewall, typeRouter, typeNetwork} {
		require.NoError(t, e.delete(typ, ids[typ]), typ)
	}
	for _, r := range e.p.c.Resources() {
		assert.NotContains(t, []string{typePool, typeNat}, r.Type, "it goes with what it is a part of")
	}
}

func TestAProtectedClusterIsNotDeleted(t *testing.T) {
	e, _ := world(t)
	id, outputs := e.make(typeCluster, "x", with(clusterInputs, values{"name": "kept", "deletionProtection": nil}))
	assert.Equal(t, true, outputs["deletionProtection"], "it is the default")
	assert.ErrorContains(t, e.delete(typeCluster, id), "deletionProtection is on")
	require.NoError(t, e.update(typeCluster, id, with(clusterInputs, values{"name": "kept", "deletionProtection": false})))
	require.NoError(t, e.delete(typeCluster, id))
}

func TestGoogleComputesWhatItComputes(t *testing.T) {
	e, _ := world(t)
	_, plain := e.make(typeCluster, "x", with(clusterInputs, values{"name": "plain", "ipAllocationPolicy": nil}))
	assert.Equal(t, "34.118.224.0/20", plain["servicesIpv4Cidr"])
	_, pool := e.make(typePool, "x", with(gvisor, values{"name": "more", "nodeConfig/labels": values{"mine": "yes"}, "nodeConfig/taints": []any{values{"key": "mine", "value": "yes", "effect": "NO_EXECUTE"}}}))
	assert.Equal(t, values{"mine": "yes", reservedKey: "gvisor"}, find(pool, "nodeConfig.labels"))
	assert.Equal(t, []any{
		values{"key": "mine", "value": "yes", "effect": "NO_EXECUTE"}, values{"key": reservedKey, "value": "gvisor", "effect": "NO_SCHEDULE"},
	}, find(pool, "nodeConfig.effectiveTaints"))

	_, cluster := e.make(typeCluster, "x", with(clusterInputs, values{"name": "more", "privateClusterConfig/masterIpv4CidrBlock": "172.16.0.0/28"}))
	assert.Equal(t, "172.16.0.2", cluster["endpoint"])
	assert.Regexp(t, `^gke-[0-9a-f]{32}-100000000001\.us-central1\.gke\.goog$`, find(cluster, "controlPlaneEndpointsConfig.dnsEndpointConfig.endpoint"))
	assert.Equal(t, "10.20.0.0/16", cluster["clusterIpv4Cidr"])
	assert.NotEmpty(t, find(cluster, "masterAuth.clusterCaCertificate"))

	_, account := e.make(typeAccount, "x", values{"accountId": "more-of-them"})
	assert.Equal(t, "more-of-them@example-project.iam.gserviceaccount.com", account["email"])
	_, network := e.make(typeNetwork, "x", values{})
	assert.Regexp(t, `^x-[0-9a-f]{7}$`, network["name"], "it got a name")
	assert.Equal(t, "https://www.googleapis.com/compute/v1/projects/example-project/global/networks/"+network["name"].(string), network["selfLink"])
}

func TestAClusterLeadsWhereTheTestSays(t *testing.T) {
	e := start(t, Options{Endpoint: "127.0.0.1:6443", DNSEndpoint: "localhost:6443", CACertificate: "Q0E="})
	out := computeCluster(e.p.c, &record{Type: typeCluster, Inputs: clusterInputs})
	assert.Equal(t, "127.0.0.1:6443", out["endpoint"])
	assert.Equal(t, "Q0E=", find(out, "masterAuth.clusterCaCertificate"))
	assert.Equal(t, "localhost:6443", find(out, "controlPlaneEndpointsConfig.dnsEndpointConfig.endpoint"))
}

func TestAPreviewDoesNothingAndKnowsNothingThatIsComputed(t *testing.T) {
	e := start(t, Options{})
	before := len(e.p.c.Resources())
	resp, err := e.p.Create(t.Context(), &pulumirpc.CreateRequest{Urn: urn(typeCluster, "c"), Type: typeCluster, Name: "c", Preview: true, Properties: e.wire(clusterInputs)})
	require.NoError(t, err)
	out := resp.GetProperties().AsMap()
	assert.Empty(t, resp.GetId())
	assert.Equal(t, "cluster", out["name"])
	assert.True(t, isUnknown(out["endpoint"]))
	assert.True(t, isUnknown(raw(out, "controlPlaneEndpointsConfig.dnsEndpointConfig.endpoint")))
	assert.Len(t, e.p.c.Resources(), before)
}

// The engine compares what it reads with what it was told: any difference here
// would be a change in every refresh.
func TestWhatIsReadIsWhatWasMade(t *testing.T) {
	e, _ := world(t)
	for _, r := range e.p.c.Resources() {
		inputs, failure := e.check(r.Type, "x", r.Inputs, r.Inputs)
		require.Empty(t, failure)
		resp, err := e.p.Read(t.Context(), &pulumirpc.ReadRequest{Type: r.Type, Urn: r.URN, Id: r.ID, Inputs: e.wire(inputs)})
		require.NoError(t, err)
		assert.Equal(t, inputs, resp.GetInputs().AsMap(), r.ID)
		again, err := e.p.Read(t.Context(), &pulumirpc.ReadRequest{Type: r.Type, Urn: r.URN, Id: r.ID})
		require.NoError(t, err)
		assert.Equal(t, resp.GetProperties().AsMap(), again.GetProperties().AsMap(), r.ID)
		assert.Equal(t, pulumirpc.DiffResponse_DIFF_NONE, e.diff(r.Type, resp.GetInputs().AsMap(), inputs).GetChanges(), r.ID)
	}
}

// Google reports a private endpoint wherever there is no IP endpoint, and a program
// that does not say so wants to change that with each update, in vain.
func TestAProgramThatDoesNotSayWhatGoogleDictatesNeverConverges(t *testing.T) {
	const path = "privateClusterConfig.enablePrivateEndpoint"
	e, _ := world(t)
	off := with(clusterInputs, values{"controlPlaneEndpointsConfig/ipEndpointsConfig/enabled": false, "privateClusterConfig/enablePrivateNodes": true})
	diff := func(olds, before, after values) []string {
		resp, err := e.p.Diff(t.Context(), &pulumirpc.DiffRequest{
			Type: typeCluster, Urn: urn(typeCluster, "x"), Olds: e.wire(olds), OldInputs: e.wire(before), News: e.wire(after)})
		require.NoError(t, err)
		return resp.GetDiffs()
	}
	for name, c := range map[string]struct {
		v    values
		want []string
	}{
		"left-out": {off, []string{path}},
		"denied":   {with(off, values{"privateClusterConfig/enablePrivateEndpoint": false}), []string{path}},
		"said":     {with(off, values{"privateClusterConfig/enablePrivateEndpoint": true}), nil},
		"with-ips": {with(off, values{"controlPlaneEndpointsConfig/ipEndpointsConfig/enabled": true}), nil},
	} {
		v := with(c.v, values{"name": name})
		id, outputs := e.make(typeCluster, "x", v)
		if name != "with-ips" {
			assert.Equal(t, true, find(outputs, path), name)
		}
		assert.Equal(t, c.want, diff(outputs, v, v), name)
		require.NoError(t, e.update(typeCluster, id, v))
		resp, err := e.p.Read(t.Context(), &pulumirpc.ReadRequest{Type: typeCluster, Urn: urn(typeCluster, "x"), Id: id})
		require.NoError(t, err)
		assert.Equal(t, c.want, diff(resp.GetProperties().AsMap(), v, v), "%s: an update changes nothing of it", name)
	}
	_, outputs := e.make(typeCluster, "x", with(off, values{"name": "mended"}))
	assert.Empty(t, diff(outputs, off, with(off, values{"privateClusterConfig/enablePrivateEndpoint": true})), "to say it is no change")
}

func TestWhatChangedBehindTheProgramIsSeen(t *testing.T) {
	e, ids := world(t)
	require.NoError(t, e.p.c.Edit(typeSubnet, ids[typeSubnet], func(v map[string]any) { v["privateIpGoogleAccess"] = false }))
	resp, err := e.p.Read(t.Context(), &pulumirpc.ReadRequest{Type: typeSubnet, Urn: urn(typeSubnet, "x"), Id: ids[typeSubnet]})
	require.NoError(t, err)
	d := e.diff(typeSubnet, resp.GetInputs().AsMap(), subnetInputs)
	assert.Equal(t, []string{"privateIpGoogleAccess"}, d.GetDiffs())

	require.NoError(t, e.p.c.Drop(typeFirewall, ids[typeFirewall]))
	resp, err = e.p.Read(t.Context(), &pulumirpc.ReadRequest{Type: typeFirewall, Urn: urn(typeFirewall, "x"), Id: ids[typeFirewall]})
	require.NoError(t, err)
	assert.Empty(t, resp.GetId(), "it is gone")
	assert.Error(t, e.p.c.Drop(typeFirewall, "lost"))
	assert.Error(t, e.p.c.Edit(typeFirewall, "lost", nil))
}

func TestOnlySomeChangesNeedANewResource(t *testing.T) {
	e := start(t, Options{})
	for name, c := range map[string]struct {
		typ           string
		before, after values
		replaces      []string
	}{
		"a machine type":          {typePool, poolInputs, with(poolInputs, values{"nodeConfig/machineType": "n2-standard-4"}), nil},
		"a limit of processes":    {typePool, gvisor, with(gvisor, values{"nodeConfig/kubeletConfig/podPidsLimit": 2048.0}), nil},
		"a sandbox":               {typePool, poolInputs, with(poolInputs, values{"nodeConfig/sandboxConfig": values{"sandboxType": "gvisor"}}), []string{"nodeConfig.sandboxConfig"}},
		"the data path":           {typeCluster, clusterInputs, with(clusterInputs, values{"datapathProvider": nil}), []string{"datapathProvider"}},
		"the channel":             {typeCluster, clusterInputs, with(clusterInputs, values{"releaseChannel/channel": "RAPID"}), nil},
		"the protection":          {typeCluster, clusterInputs, with(clusterInputs, values{"deletionProtection": true}), nil},
		"a subnet that grows":     {typeSubnet, subnetInputs, with(subnetInputs, values{"ipCidrRange": "10.10.0.0/19"}), nil},
		"a subnet that shrinks":   {typeSubnet, subnetInputs, with(subnetInputs, values{"ipCidrRange": "10.10.0.0/21"}), []string{"ipCidrRange"}},
		"a subnet that moves":     {typeSubnet, subnetInputs, with(subnetInputs, values{"ipCidrRange": "10.12.0.0/20"}), []string{"ipCidrRange"}},
		"a perimeter in earnest":  {typePerimeter, with(perimeter, values{"spec": perimeter["status"], "status": nil, "useExplicitDryRunSpec": true}), perimeter, nil},
		"a network not known yet": {typeSubnet, subnetInputs, with(subnetInputs, values{"network": "04da6b54-80e4-46f7-96ec-b56ff0331ba9"}), []string{"network"}},
	} {
		d := e.diff(c.typ, c.before, c.after)
		assert.Equal(t, pulumirpc.DiffResponse_DIFF_SOME, d.GetChanges(), name)
		assert.Equal(t, c.replaces, d.GetReplaces(), name)
	}
	assert.True(t, e.diff(typeCluster, clusterInputs, with(clusterInputs, values{"datapathProvider": nil})).GetDeleteBeforeReplace(), "two of one name cannot be")
	assert.False(t, e.diff(typeNetwork, values{"name": "a"}, values{"name": "b"}).GetDeleteBeforeReplace())
}

func TestANameThatWasMadeUpIsKept(t *testing.T) {
	e := start(t, Options{})
	first, _ := e.check(typeNetwork, "vpc", nil, values{})
	again, _ := e.check(typeNetwork, "vpc", first, values{})
	assert.Equal(t, first["name"], again["name"])
	assert.Regexp(t, `^vpc-[0-9a-f]{7}$`, first["name"])
	account, _ := e.check(typeAccount, "nodes", nil, values{})
	assert.Regexp(t, `^nodes-[0-9a-f]{7}$`, account["accountId"])
}
