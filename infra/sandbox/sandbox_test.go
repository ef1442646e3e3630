// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"strings"
	"sync"
	"testing"

	"github.com/pulumi/pulumi/sdk/v3/go/common/resource"
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// recorder remembers what a program declares.
type recorder struct {
	mu   sync.Mutex
	seen []pulumi.MockResourceArgs
}

func (r *recorder) NewResource(a pulumi.MockResourceArgs) (string, resource.PropertyMap, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen = append(r.seen, a)
	return a.Name + "-id", a.Inputs, nil
}

func (*recorder) Call(pulumi.MockCallArgs) (resource.PropertyMap, error) { return nil, nil }

func declare(t *testing.T, args *OverlayArgs) ([]pulumi.MockResourceArgs, error) {
	t.Helper()
	r := &recorder{}
	err := pulumi.RunErr(func(ctx *pulumi.Context) error {
		_, err := NewOverlay(ctx, "o", args)
		return err
	}, pulumi.WithMocks("stockade", "dev", r))
	return r.seen, err
}

func kubeObject(apiVersion, kind, namespace, name string, spec map[string]any) unstructured.Unstructured {
	u := unstructured.Unstructured{Object: map[string]any{"apiVersion": apiVersion, "kind": kind}}
	u.SetNamespace(namespace)
	u.SetName(name)
	if spec != nil {
		u.Object["spec"] = spec
	}
	return u
}

func one(t *testing.T, seen []pulumi.MockResourceArgs, token string) pulumi.MockResourceArgs {
	t.Helper()
	for _, r := range seen {
		if r.TypeToken == token {
			return r
		}
	}
	require.Fail(t, "not declared", token)
	return pulumi.MockResourceArgs{}
}

func TestObjectsKeepTheirKindAndContent(t *testing.T) {
	withStatus := kubeObject("v1", "Namespace", "", "n", nil)
	withStatus.Object["status"] = map[string]any{"phase": "Active"}
	seen, err := declare(t, &OverlayArgs{Objects: []unstructured.Unstructured{
		withStatus, kubeObject("apps/v1", "Deployment", "n", "d", map[string]any{"replicas": int64(3)}),
	}})
	require.NoError(t, err)
	ns := one(t, seen, "kubernetes:core/v1:Namespace")
	assert.Equal(t, "o/Namespace/n", ns.Name)
	assert.NotContains(t, ns.Inputs.Mappable(), "status", "it is the server's")
	d := one(t, seen, "kubernetes:apps/v1:Deployment")
	assert.Equal(t, "o/Deployment/n/d", d.Name)
	assert.Equal(t, map[string]any{"replicas": 3.0}, d.Inputs.Mappable()["spec"])
}

func TestAWarmPoolIsWaitedFor(t *testing.T) {
	pool := kubeObject("extensions.agents.x-k8s.io/v1beta1", "SandboxWarmPool", "n", "p", map[string]any{"replicas": int64(2)})
	empty := kubeObject("extensions.agents.x-k8s.io/v1beta1", "SandboxWarmPool", "n", "e", map[string]any{"replicas": int64(0)})
	seen, err := declare(t, &OverlayArgs{Objects: []unstructured.Unstructured{pool, empty}})
	require.NoError(t, err)
	for _, r := range seen {
		notes := r.Inputs.Mappable()["metadata"]
		switch {
		case strings.HasSuffix(r.Name, "/p"):
			assert.Equal(t, map[string]any{
				"pulumi.com/waitFor": "jsonpath={.status.readyReplicas}=2", "pulumi.com/timeoutSeconds": "300",
			}, notes.(map[string]any)["annotations"])
		case strings.HasSuffix(r.Name, "/e"):
			assert.NotContains(t, notes, "annotations", "an empty pool is ready as it is")
		}
	}
	assert.Empty(t, pool.GetAnnotations(), "the caller's object is not changed")
}

func TestAServiceIsNotWatchedForPodsThatItsDeploymentIsAwaitedFor(t *testing.T) {
	seen, err := declare(t, &OverlayArgs{Objects: []unstructured.Unstructured{
		kubeObject("v1", "Service", "n", "s", nil), kubeObject("apps/v1", "Deployment", "n", "s", nil)}})
	require.NoError(t, err)
	service := one(t, seen, "kubernetes:core/v1:Service").Inputs.Mappable()["metadata"].(map[string]any)
	assert.Equal(t, map[string]any{"pulumi.com/skipAwait": "true"}, service["annotations"])
	assert.NotContains(t, one(t, seen, "kubernetes:apps/v1:Deployment").Inputs.Mappable()["metadata"], "annotations")
}

// Kubernetes makes it again at once, and whoever waits for its end may wait for ever.
func TestANamespacesDefaultAccountGoesWithTheNamespace(t *testing.T) {
	for name, stays := range map[string]bool{"default": true, "own": false} {
		seen, err := declare(t, &OverlayArgs{Objects: []unstructured.Unstructured{kubeObject("v1", "ServiceAccount", "n", name, nil)}})
		require.NoError(t, err)
		assert.Equal(t, stays, one(t, seen, "kubernetes:core/v1:ServiceAccount").RegisterRPC.GetRetainOnDelete(), name)
	}
}

func TestImagesArePinnedOnceTheClusterKnowsThem(t *testing.T) {
	r := &recorder{}
	object := kubeObject("apps/v1", "Deployment", "n", "d", map[string]any{"image": "app:dev"})
	declared := func(pin func(*unstructured.Unstructured, map[string]string) error) error {
		return pulumi.RunErr(func(ctx *pulumi.Context) error {
			_, err := NewOverlay(ctx, "o", &OverlayArgs{
				Objects: []unstructured.Unstructured{object}, Pin: pin,
				Digests: pulumi.StringMap{"app:dev": pulumi.String("app@sha256:0123")}.ToStringMapOutput(),
			})
			return err
		}, pulumi.WithMocks("stockade", "dev", r))
	}
	require.NoError(t, declared(func(o *unstructured.Unstructured, digests map[string]string) error {
		if digests == nil {
			return assert.AnError // there is something to pin
		}
		return unstructured.SetNestedField(o.Object, digests["app:dev"], "spec", "image")
	}))
	d := one(t, r.seen, "kubernetes:apps/v1:Deployment").Inputs.Mappable()
	assert.Equal(t, map[string]any{"image": "app@sha256:0123"}, d["spec"])
	assert.Equal(t, "apps/v1", d["apiVersion"])
	assert.Equal(t, map[string]any{"image": "app:dev"}, object.Object["spec"], "the caller's object is not changed")

	assert.ErrorContains(t, declared(func(*unstructured.Unstructured, map[string]string) error { return assert.AnError }), assert.AnError.Error())
}

func TestEveryContainersImageIsReplacedAndNoReplacementIsForgotten(t *testing.T) {
	template := kubeObject("extensions.agents.x-k8s.io/v1beta1", "SandboxTemplate", "n", "t", map[string]any{
		"podTemplate": map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"name": "c", "image": "local/app:1"}}}},
	})
	const digest = "registry.example.com/app@sha256:0123"
	args := &OverlayArgs{Objects: []unstructured.Unstructured{template}, Images: map[string]string{"local/app:1": digest}}
	seen, err := declare(t, args)
	require.NoError(t, err)
	spec := one(t, seen, "kubernetes:extensions.agents.x-k8s.io/v1beta1:SandboxTemplate").Inputs.Mappable()["spec"]
	assert.Contains(t, spec.(map[string]any)["podTemplate"].(map[string]any)["spec"].(map[string]any)["containers"].([]any)[0], "image")
	assert.Equal(t, digest, spec.(map[string]any)["podTemplate"].(map[string]any)["spec"].(map[string]any)["containers"].([]any)[0].(map[string]any)["image"])

	args.Images["local/other:1"] = digest
	_, err = declare(t, args)
	assert.ErrorContains(t, err, "local/other:1")
}

func TestFieldsOfAnotherManagerAreTakenOverOnlyWhereThatIsAsked(t *testing.T) {
	for _, takeOver := range []bool{true, false} {
		seen, err := declare(t, &OverlayArgs{Objects: []unstructured.Unstructured{kubeObject("v1", "Namespace", "", "n", nil)}, TakeOver: takeOver})
		require.NoError(t, err)
		metadata := one(t, seen, "kubernetes:core/v1:Namespace").Inputs.Mappable()["metadata"].(map[string]any)
		if takeOver {
			assert.Equal(t, map[string]any{"pulumi.com/patchForce": "true"}, metadata["annotations"])
		} else {
			assert.NotContains(t, metadata, "annotations")
		}
	}
}

func TestFieldsThatAreKnownLaterReplaceTheObjects(t *testing.T) {
	objects := []unstructured.Unstructured{kubeObject("v1", "ConfigMap", "n", "c", nil), kubeObject("v1", "Secret", "n", "c", nil)}
	for i := range objects {
		objects[i].Object["data"] = map[string]any{"key": ""}
	}
	later := pulumi.Map{"data": pulumi.Map{"key": pulumi.ToSecret(pulumi.String("hunter2"))}}
	seen, err := declare(t, &OverlayArgs{Objects: objects, Fill: map[string]pulumi.Map{"Secret/c": later}})
	require.NoError(t, err)
	data := one(t, seen, "kubernetes:core/v1:Secret").RegisterRPC.GetObject().GetFields()["data"].String()
	assert.Contains(t, data, "hunter2")
	assert.Contains(t, data, resource.SecretSig, "it stays a secret on its way")
	assert.Equal(t, []string{"data", "stringData"}, one(t, seen, "kubernetes:core/v1:Secret").RegisterRPC.GetAdditionalSecretOutputs())
	config := one(t, seen, "kubernetes:core/v1:ConfigMap")
	assert.Equal(t, map[string]any{"key": ""}, config.Inputs.Mappable()["data"])
	assert.Empty(t, config.RegisterRPC.GetAdditionalSecretOutputs())
	assert.Equal(t, map[string]any{"key": ""}, objects[1].Object["data"], "the caller's objects stay as they were")

	_, err = declare(t, &OverlayArgs{Objects: objects, Fill: map[string]pulumi.Map{"Secret/other": later}})
	assert.ErrorContains(t, err, "Secret/other")
}
