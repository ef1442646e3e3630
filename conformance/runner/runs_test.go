// SPDX-License-Identifier: Apache-2.0

package runner

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	kubefake "k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"

	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/target"
	"github.com/stockade-dev/stockade/infra/kube"
)

func runTemplate() *corev1.PodTemplate {
	return &corev1.PodTemplate{
		ObjectMeta: metav1.ObjectMeta{Namespace: "playground", Name: "run", Annotations: map[string]string{"stockade.dev/rlimits": "core=0"}},
		Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "run"}},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "run", Image: "i@sha256:x"}}},
		},
	}
}

// executed is the ground of an execution service's target.
func executed(t *testing.T, host string, carried target.Carrier) *Kube {
	t.Helper()
	k, err := NewKube(KubeOptions{
		Client: &kube.Client{
			Clientset: kubefake.NewClientset(runTemplate()), Mapper: meta.NewDefaultRESTMapper(nil), Config: &rest.Config{Host: host},
		},
		Carrier: carried, Namespace: "playground", PodTemplate: "run", Service: "playground-system/execution",
	})
	require.NoError(t, err)
	require.NoError(t, k.source.open(t.Context()))
	return k
}

func TestATargetIsOfOneKind(t *testing.T) {
	client := &kube.Client{Config: &rest.Config{}}
	for name, o := range map[string]KubeOptions{
		"neither":             {},
		"both":                {Pool: "p", PodTemplate: "t", Service: "a/b"},
		"no service":          {PodTemplate: "t"},
		"a service of a pool": {Pool: "p", Service: "a/b"},
		"a service nowhere":   {PodTemplate: "t", Service: "b"},
	} {
		o.Client, o.Carrier, o.Namespace = client, canned{}, "ns"
		_, err := NewKube(o)
		assert.Error(t, err, name)
	}
}

// argvs remembers what was executed where.
type argvs struct{ all map[string][]string }

func (a argvs) Exec(_ context.Context, pod target.Pod, argv []string, _ target.Streams) (int, error) {
	a.all[pod.Namespace] = argv
	return 0, nil
}

func TestAttacksStartThroughTheHelperWhereRunsDo(t *testing.T) {
	a := argvs{map[string][]string{}}
	c := executed(t, "http://127.0.0.1:1", a).Carrier()
	for _, ns := range []string{"playground", "stockade-system"} {
		_, err := c.Exec(t.Context(), target.Pod{Namespace: ns}, []string{"sh"}, target.Streams{})
		require.NoError(t, err)
	}
	assert.Equal(t, []string{"/rlimit", "core=0", "--", "sh"}, a.all["playground"])
	assert.Equal(t, []string{"sh"}, a.all["stockade-system"], "a control has no limits")
}

func TestACompliantPodIsTheServicesOwn(t *testing.T) {
	k := executed(t, "http://127.0.0.1:1", canned{})
	f := &Field{}
	k.source.furnish(f)
	pod := f.Pod()
	assert.Equal(t, "Pod", pod["kind"])
	spec, ok := pod["spec"].(map[string]any)
	require.True(t, ok)
	containers, ok := spec["containers"].([]any)
	require.True(t, ok)
	assert.Equal(t, "i@sha256:x", containers[0].(map[string]any)["image"]) //nolint:forcetypeassert // it is a container
	assert.Equal(t, map[string]any{"app": "run"}, pod["metadata"].(map[string]any)["labels"])
	assert.NotEqual(t, pod["metadata"].(map[string]any)["name"], f.Pod()["metadata"].(map[string]any)["name"])
	assert.Equal(t, []string{"playground-system"}, f.Components)
	assert.Equal(t, "playground-system/execution", f.Account)
	assert.Nil(t, f.Sandbox, "there are no Sandbox objects")
}

func TestRequestsAreMadeAsSomebodyAndChangeNothing(t *testing.T) {
	type seen struct{ verb, path, query, user, kind string }
	var got []seen
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = append(got, seen{r.Method, r.URL.Path, r.URL.RawQuery, r.Header.Get("Impersonate-User"), r.Header.Get("Content-Type")})
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path == "/api/v1/nodes" {
			w.WriteHeader(http.StatusForbidden)
			_ = json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
				Status: metav1.StatusFailure, Code: 403, Reason: metav1.StatusReasonForbidden, Message: "nodes is forbidden: cannot list"})
			return
		}
		_, _ = w.Write([]byte(`{"items":[]}`))
	}))
	defer api.Close()
	k := executed(t, api.URL, canned{})
	k.o.Client.Clientset = kubernetes.NewForConfigOrDie(k.o.Client.Config)
	f := &Field{}
	k.source.furnish(f)
	ask := func(as suite.Identity, verb, path string, body suite.Object) suite.Answer {
		a, err := f.Do(t.Context(), as, suite.Request{Verb: verb, Path: path, Body: body})
		require.NoError(t, err)
		return a
	}
	a := ask(suite.Service, http.MethodGet, "/api/v1/namespaces/x/pods?limit=1", nil)
	assert.Equal(t, 200, a.Code)
	assert.Contains(t, a.Object, "items")
	a = ask(suite.Service, http.MethodGet, "/api/v1/nodes", nil)
	assert.Equal(t, 403, a.Code)
	assert.Contains(t, a.Message, "cannot list")
	ask(suite.Administrator, http.MethodPatch, "/api/v1/namespaces/x", suite.Object{"metadata": suite.Object{}})
	ask(suite.Service, http.MethodDelete, "/apis/a/v1/b", nil)

	require.Len(t, got, 4)
	const user = "system:serviceaccount:playground-system:execution"
	assert.Equal(t, seen{http.MethodGet, "/api/v1/namespaces/x/pods", "limit=1", user, ""}, got[0])
	assert.Equal(t, seen{http.MethodPatch, "/api/v1/namespaces/x", "dryRun=All", "", "application/strategic-merge-patch+json"}, got[2])
	assert.Equal(t, "dryRun=All", got[3].query)
	for _, q := range []suite.Request{{Verb: http.MethodGet, Path: "/healthz"}, {Verb: http.MethodPut, Path: "/api/v1/x"}, {Verb: http.MethodGet, Path: "\x00"}} {
		_, err := f.Do(t.Context(), suite.Service, q)
		assert.Error(t, err, q.Path)
	}
}

// The service may lie, or not be there; what is not its result must not look like
// one.
func TestProgramsAreGivenToTheDeployedService(t *testing.T) {
	for name, c := range map[string]struct {
		code int
		body string
		want suite.Execution
		says string
	}{
		"a result":           {200, `{"status":"ok","exitCode":0,"stdout":"45\n","stderr":"","uid":20001,"millis":7}`, suite.Execution{Status: "ok", Stdout: "45\n", UID: 20001}, ""},
		"no service":         {503, `{"kind":"Status","apiVersion":"v1","status":"Failure","code":503,"message":"no endpoints available"}`, suite.Execution{}, "no endpoints available"},
		"a full house":       {429, "no more runs can be started now", suite.Execution{}, "too many requests"},
		"an odd answer":      {200, "<html>", suite.Execution{}, "which is no result"},
		"an answer of none":  {200, "{}", suite.Execution{}, "which is no result"},
		"a run that is lost": {502, "it is not known how the run ended", suite.Execution{}, "not known"},
	} {
		t.Run(name, func(t *testing.T) {
			var path, asked string
			api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, err := io.ReadAll(r.Body)
				assert.NoError(t, err)
				path, asked = r.Method+" "+r.URL.Path, string(body)
				if c.body[0] == '{' {
					w.Header().Set("Content-Type", "application/json")
				}
				w.WriteHeader(c.code)
				_, _ = io.WriteString(w, c.body)
			}))
			defer api.Close()
			k := executed(t, api.URL, canned{})
			k.o.Client.Clientset = kubernetes.NewForConfigOrDie(k.o.Client.Config)
			f := &Field{}
			k.source.furnish(f)
			x, err := f.Execute(t.Context(), suite.Program{Language: "python", Source: "print(45)", Stdin: "in"})
			assert.Equal(t, "POST /api/v1/namespaces/playground-system/services/http:execution:8080/proxy/v1/runs", path)
			assert.JSONEq(t, `{"language":"python","source":"print(45)","stdin":"in"}`, asked)
			assert.Equal(t, c.want, x)
			if c.says == "" {
				assert.NoError(t, err)
			} else {
				assert.ErrorContains(t, err, c.says)
			}
		})
	}
}

func TestTheServiceIsFoundWhereItIsCalled(t *testing.T) {
	k := executed(t, "http://127.0.0.1:1", canned{})
	f := &Field{Aliases: map[string][]string{}, Servers: []string{"gone"}}
	f.Site.Server = "10.96.0.1:1"
	require.NoError(t, k.source.locate(t.Context(), f))
	assert.Empty(t, f.Site.Server, "one that is not there has no address")
	assert.Empty(t, f.Servers)

	node, number := "system", int32(8080)
	k.o.Client.Clientset = kubefake.NewClientset(
		&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "playground-system", Name: "execution"}, Spec: corev1.ServiceSpec{ClusterIP: "10.96.0.7"}},
		&discoveryv1.EndpointSlice{
			ObjectMeta: metav1.ObjectMeta{Namespace: "playground-system", Name: "e", Labels: map[string]string{discoveryv1.LabelServiceName: "execution"}},
			Endpoints:  []discoveryv1.Endpoint{{Addresses: []string{"10.0.9.1"}, NodeName: &node}}, Ports: []discoveryv1.EndpointPort{{Port: &number}}})
	require.NoError(t, k.source.locate(t.Context(), f))
	assert.Equal(t, "10.96.0.7:8080", f.Site.Server)
	assert.Equal(t, []string{"10.0.9.1:8080"}, f.Aliases["10.96.0.7:8080"])
	assert.Equal(t, []string{"system"}, f.Servers)
}
