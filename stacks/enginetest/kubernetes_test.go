// SPDX-License-Identifier: Apache-2.0

//go:build pulumi

package enginetest

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pulumi/pulumi/sdk/v3/go/auto/optrefresh"
	"github.com/pulumi/pulumi/sdk/v3/go/common/apitype"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	api "k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/stockade-dev/stockade/infra/gke/standin"
	"github.com/stockade-dev/stockade/infra/kube"
	"github.com/stockade-dev/stockade/infra/kube/kubetest"
	"github.com/stockade-dev/stockade/infra/node"
	"github.com/stockade-dev/stockade/overlays"
)

// tools are the programs that were built, by name.
var tools = sync.OnceValues(func() (map[string]string, error) { return node.Tools(context.Background(), node.Options{}) })

// platform is a cluster as GKE hands it over, behind the stand-in cloud.
type platform struct {
	*kubetest.Cluster
	kubelet *kubetest.Kubelet
	// env leads the kubeconfig of a stack there.
	env map[string]string
	// plugin is the log of the plugin that fetches a credential.
	plugin string
	// strays counts the connections to where a kubeconfig of the user's would lead.
	strays *atomic.Int32
}

// onGKE starts one. The stack's kubeconfig is used as it is: the certificate is
// checked against the system's authorities, one of which is the test's own, and the
// credential comes from gke-gcloud-auth-plugin, which is the test's own, too.
func onGKE(t *testing.T) *platform {
	t.Helper()
	built, err := tools()
	require.NoError(t, err)
	dir := t.TempDir()
	folder := func(name string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.Mkdir(path, 0o700))
		return path
	}
	p := &platform{plugin: filepath.Join(dir, "plugin.log"), strays: &atomic.Int32{}}
	p.Cluster, err = kubetest.Start(t.Context(), folder("cluster"), built)
	require.NoError(t, err)
	t.Cleanup(p.Stop)
	gvisor := map[string]string{"sandbox.gke.io/runtime": "gvisor"}
	require.NoError(t, p.AddNode(t.Context(), "system", nil))
	require.NoError(t, p.AddNode(t.Context(), "sandbox", gvisor,
		corev1.Taint{Key: "sandbox.gke.io/runtime", Value: "gvisor", Effect: corev1.TaintEffectNoSchedule}))
	p.bring(t, "testdata/gke.yaml")
	p.kubelet = p.StartKubelet(controllers(built))

	credential, err := json.Marshal(map[string]any{
		"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": map[string]any{"token": p.Token(kubetest.Operator)},
	})
	require.NoError(t, err)
	file := filepath.Join(dir, "credential.json")
	require.NoError(t, os.WriteFile(file, credential, 0o600))
	script := fmt.Sprintf("#!/bin/sh\nprintf '%%s' \"$KUBERNETES_EXEC_INFO\" >>'%s'\nexec cat '%s'\n", p.plugin, file)
	bin := folder("bin")
	require.NoError(t, os.WriteFile(filepath.Join(bin, "gke-gcloud-auth-plugin"), []byte(script), 0o700)) //nolint:gosec // a program
	p.env = map[string]string{
		"PATH": bin + ":" + os.Getenv("PATH"), "SSL_CERT_FILE": p.CAFile, "SSL_CERT_DIR": folder("none"),
		"HOME": folder("home"), "KUBECONFIG": p.trap(t, dir),
	}
	return p
}

// bring applies the objects of a file.
func (p *platform) bring(t *testing.T, path string) {
	t.Helper()
	doc, err := os.Open(path)
	require.NoError(t, err)
	defer doc.Close() //nolint:errcheck // only read
	objects, err := kube.Decode(doc)
	require.NoError(t, err)
	require.NoError(t, p.Client.Apply(t.Context(), objects))
}

// trap is a kubeconfig of the user's, to a server that counts who comes.
func (p *platform) trap(t *testing.T, dir string) string {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			p.strays.Add(1)
			_ = c.Close()
		}
	}()
	path := filepath.Join(dir, "users.kubeconfig")
	doc := fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":"own","clusters":[{"name":"own","cluster":{"server":"http://%s"}}],"contexts":[{"name":"own","context":{"cluster":"own"}}]}`, l.Addr())
	require.NoError(t, os.WriteFile(path, []byte(doc), 0o600))
	return path
}

// controllers are the programs that really run: Agent Sandbox's, without what would
// listen.
func controllers(built map[string]string) func(string) *kubetest.Program {
	return func(image string) *kubetest.Program {
		name, _, _ := strings.Cut(image, "@")
		if image != overlays.ControllerImage && !strings.HasSuffix(name, "/controller") {
			return nil
		}
		return &kubetest.Program{Path: built["agent-sandbox-controller"], Args: []string{
			"--enable-webhook=false", "--leader-elect=false", "--metrics-bind-address=0", "--health-probe-bind-address=0",
		}}
	}
}

// startOn makes an empty stack whose cluster is the platform's.
func startOn(t *testing.T, p *platform, name string, config map[string]any) *rig {
	t.Helper()
	r := startWith(t, name, config, run, standin.Options{DNSEndpoint: p.Address}, p.env)
	built, err := tools()
	require.NoError(t, err)
	r.install("kubernetes", node.KubernetesProvider, built["pulumi-resource-kubernetes"])
	return r
}

// asked returns how often the credential was asked for, and how many requests the
// API server got with it.
func (p *platform) asked(t *testing.T) (plugin, requests int) {
	t.Helper()
	data, err := os.ReadFile(p.plugin)
	if !os.IsNotExist(err) {
		require.NoError(t, err)
	}
	for line := range strings.Lines(string(data)) {
		assert.Contains(t, line, p.Address, "the plugin is told for which cluster")
		plugin++
	}
	all, err := p.Requests()
	require.NoError(t, err)
	return plugin, len(all)
}

// image is one in the registry of the stack, by a digest of its own.
func image(stack, name string, n int) string {
	return fmt.Sprintf("us-central1-docker.pkg.dev/example-project/stockade-%s/%s@sha256:%064x", stack, name, n)
}

// inCluster are edits of a stack's file that change objects in its cluster, how many,
// and nothing else.
var inCluster = map[string]struct {
	config  map[string]any
	changed int
}{
	"gke":           {map[string]any{"stockade:sandboxImage": image("gke", "sandbox", 9)}, 1},
	"gke-autopilot": {map[string]any{"stockade:sandboxImage": image("gke-autopilot", "sandbox", 9), "stockade:controllerImage": image("gke-autopilot", "controller", 9)}, 2},
	"gke-shared":    {map[string]any{"stockade:egressAllow": []any{"*.example.org"}}, 1},
}

// The stacks with all that runs in their cluster: the real Kubernetes provider, a
// real API server with the real controllers, and Google's part a stand-in. They take
// turns with one cluster, so that each begins with what the one before left.
func TestAStackIsDeployedIntoItsClusterAndTakenAway(t *testing.T) {
	p := onGKE(t)
	for _, name := range clouds {
		t.Run(name, func(t *testing.T) {
			config := map[string]any{"stockade:controllerImage": image(name, "controller", 1), "stockade:sandboxImage": image(name, "sandbox", 1)}
			maps.Copy(config, changes[name])
			r := startOn(t, p, name, config)
			empty, err := p.Objects(t.Context())
			require.NoError(t, err)
			plugin, requests := p.asked(t)

			before, err := r.stack.Preview(t.Context())
			require.NoError(t, err)
			only(t, summary(before), apitype.OpCreate)
			assert.Greater(t, before.ChangeSummary[apitype.OpCreate], 60)
			assert.Empty(t, r.cloud.Resources(), "a preview makes nothing")
			pluginAfter, requestsAfter := p.asked(t)
			assert.Equal(t, [2]int{plugin, requests}, [2]int{pluginAfter, requestsAfter}, "nothing may be dialled in a preview")

			only(t, r.up(), apitype.OpCreate)
			pluginAfter, requestsAfter = p.asked(t)
			assert.Greater(t, pluginAfter, plugin, "the stack's own way to a credential was taken")
			assert.Greater(t, requestsAfter, requests)
			runs(t, p, name)
			r.unchanged()
			_, err = r.stack.Refresh(t.Context(), optrefresh.ExpectNoChanges())
			require.NoError(t, err)

			r.set(inCluster[name].config)
			inside := r.up()
			only(t, inside, apitype.OpUpdate)
			assert.Equal(t, inCluster[name].changed, inside[string(apitype.OpUpdate)], "%v", inside)
			runs(t, p, name)
			r.unchanged()
			keepsItsRules(t, name, r.graph(), true)

			r.destroy()
			var left []string
			assert.Eventually(t, func() bool {
				all, err := p.Objects(context.WithoutCancel(t.Context()))
				left = slices.DeleteFunc(all, func(o string) bool { return slices.Contains(empty, o) })
				return err == nil && len(left) == 0
			}, 30*time.Second, time.Second, "the cluster must be as it was")
			assert.Empty(t, left)
			assert.Zero(t, p.strays.Load(), "the user's own cluster is none of the stack's business")
			require.NoError(t, p.kubelet.Err())
		})
	}
}

// runs asserts that what the stack has deployed is there and works, as far as that
// can be without nodes.
func runs(t *testing.T, p *platform, name string) {
	t.Helper()
	get := func(apiVersion, kind, namespace, name string) (*unstructured.Unstructured, error) {
		o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": apiVersion, "kind": kind}}
		o.SetNamespace(namespace)
		o.SetName(name)
		return p.Client.Get(t.Context(), o)
	}
	pool, err := get("extensions.agents.x-k8s.io/v1beta1", "SandboxWarmPool", overlays.ReferenceNamespace, overlays.PoolName)
	require.NoError(t, err)
	ready, _, err := unstructured.NestedInt64(pool.Object, "status", "readyReplicas")
	require.NoError(t, err)
	assert.EqualValues(t, 2, ready, "the real controller has made the sandboxes")
	_, err = get("networking.gke.io/v1alpha1", "FQDNNetworkPolicy", overlays.ReferenceNamespace, "egress-allow")
	if name == "gke-shared" {
		require.NoError(t, err)
	} else {
		assert.True(t, apierrors.IsNotFound(err), "%v", err)
	}

	// The admission policy stands before every Sandbox.
	sandbox := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "agents.x-k8s.io/v1beta1", "kind": "Sandbox",
		"metadata": map[string]any{"name": "weak", "namespace": overlays.ReferenceNamespace},
		"spec": map[string]any{"podTemplate": map[string]any{"spec": map[string]any{
			"containers": []any{map[string]any{"name": "c", "image": "registry.example.com/none"}},
		}}},
	}}
	_, err = p.Client.Dynamic.Resource(api.GroupVersionResource{Group: "agents.x-k8s.io", Version: "v1beta1", Resource: "sandboxes"}).
		Namespace(overlays.ReferenceNamespace).Create(t.Context(), sandbox, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	assert.ErrorContains(t, err, "secure-sandbox-policy")
}
