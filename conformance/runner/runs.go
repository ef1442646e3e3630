// SPDX-License-Identifier: Apache-2.0

package runner

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/target"
	"github.com/stockade-dev/stockade/conformance/witness"
	service "github.com/stockade-dev/stockade/workloads/execution"
)

// executionPods are sandboxes that an execution service makes, a Pod for each run. Those
// that stand for the length of the suite's run are made here, by the service's
// own code and as its own service account, so that a service with too few
// rights, or a door that is shut to its Pods, is noticed. Programs are given to
// the service that is deployed.
type executionPods struct {
	k         *Kube
	namespace string                // of the service
	name      string                // of its Service, as of its service account
	client    *kubernetes.Clientset // as that account

	template *service.Template
	service  *service.Service
}

func newExecutionPods(k *Kube) (*executionPods, error) {
	namespace, name, found := strings.Cut(k.o.Service, "/")
	if !found || namespace == "" || name == "" {
		return nil, fmt.Errorf("describing the target: the service %q must be the namespace and the name of its service account", k.o.Service)
	}
	r := &executionPods{k: k, namespace: namespace, name: name}
	var err error
	if r.client, err = impersonating(k.o.Client.Config, namespace, name); err != nil {
		return nil, fmt.Errorf("describing the target: %w", err)
	}
	return r, nil
}

// impersonating returns a client that asks as a service account.
func impersonating(admin *rest.Config, namespace, name string) (*kubernetes.Clientset, error) {
	config := rest.CopyConfig(admin)
	config.Impersonate = rest.ImpersonationConfig{
		UserName: "system:serviceaccount:" + namespace + ":" + name,
		Groups:   []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace, "system:authenticated"},
	}
	return kubernetes.NewForConfig(config)
}

func (r *executionPods) open(ctx context.Context) error {
	t, err := r.k.o.Client.Clientset.CoreV1().PodTemplates(r.k.o.Namespace).Get(ctx, r.k.o.PodTemplate, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("reading the target's Pod template (`stockade up` deploys it): %w", err)
	}
	if r.template, err = service.Read(t); err != nil {
		return err
	}
	r.service, err = service.New(service.Options{
		Client: r.client, Namespace: r.k.o.Namespace, Template: r.template,
		Timeouts: service.Timeouts{Start: r.k.t.Claim},
	})
	return err
}

func (r *executionPods) ref(name string) Ref {
	return Ref{APIVersion: "v1", Kind: podKind.Kind, Namespace: r.k.o.Namespace, Name: name}
}

func (r *executionPods) create(ctx context.Context, name string) error {
	_, err := r.service.Start(ctx, name, map[string]string{RunLabel: r.k.run})
	return err
}

func (r *executionPods) find(ctx context.Context, name string) (target.Pod, error) {
	pod, err := r.k.o.Client.Clientset.CoreV1().Pods(r.k.o.Namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return target.Pod{}, err
	}
	if !witness.Ready(pod) || pod.Status.PodIP == "" {
		return target.Pod{}, fmt.Errorf("Pod %s is not ready: phase %s %s", name, pod.Status.Phase, waiting(pod))
	}
	return podRef(pod), nil
}

// waiting tells what a Pod's container waits for.
func waiting(pod *corev1.Pod) string {
	for _, c := range pod.Status.ContainerStatuses {
		if w := c.State.Waiting; w != nil {
			return w.Reason + " " + w.Message
		}
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return c.Reason + " " + c.Message
		}
	}
	return ""
}

// command starts a program as every run starts.
func (r *executionPods) command(argv []string) []string {
	limits, err := r.template.Limits("")
	if err != nil {
		return argv // it was read before
	}
	return service.Command(limits, argv)
}

func (r *executionPods) furnish(f *Field) {
	f.Pod, f.Do, f.Execute = r.pod, r.do, r.execute
	f.Components, f.Account = []string{r.namespace}, r.k.o.Service
}

// locate adds where the deployed service is called. One that is not there is not
// attacked, and what has to call it says so.
func (r *executionPods) locate(ctx context.Context, f *Field) error {
	f.Servers, f.Site.Server = nil, "" // a field is looked at again after a restart
	addr, err := r.k.service(ctx, f, r.namespace, r.name, servicePort)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	f.Site.Server = addr
	return r.k.serverNodes(ctx, f, r.namespace, r.name)
}

// pod is a compliant Pod, as the service would make it.
func (r *executionPods) pod() suite.Object {
	spec, err := runtime.DefaultUnstructuredConverter.ToUnstructured(r.template.Pod("", "", 0, nil))
	if err != nil {
		return r.k.wrap(podKind, map[string]any{}) // which the API server refuses, and so the control
	}
	inner, _ := spec["spec"].(map[string]any)
	obj := r.k.wrap(podKind, inner)
	if meta, ok := spec["metadata"].(map[string]any); ok {
		if labels, ok := meta["labels"]; ok {
			obj["metadata"].(map[string]any)["labels"] = labels //nolint:forcetypeassert // wrap made it
		}
	}
	return obj
}

// do sends one request as somebody; whatever is not a GET is a dry run.
func (r *executionPods) do(ctx context.Context, as suite.Identity, q suite.Request) (suite.Answer, error) {
	client := r.k.o.Client.Clientset.CoreV1().RESTClient()
	if as == suite.Service {
		client = r.client.CoreV1().RESTClient()
	}
	return ask(ctx, client, q)
}

func ask(ctx context.Context, client rest.Interface, q suite.Request) (suite.Answer, error) {
	at, err := url.Parse(q.Path)
	if err != nil || !strings.HasPrefix(at.Path, "/api") {
		return suite.Answer{}, fmt.Errorf("asking the API server: %q is no path of an API", q.Path)
	}
	if !slices.Contains([]string{http.MethodGet, http.MethodPost, http.MethodPatch, http.MethodDelete}, q.Verb) {
		return suite.Answer{}, fmt.Errorf("asking the API server: the verb %q is not one that is asked with", q.Verb)
	}
	req := client.Verb(q.Verb).AbsPath(at.Path)
	for key, values := range at.Query() {
		for _, v := range values {
			req = req.Param(key, v)
		}
	}
	if q.Verb != http.MethodGet {
		req = req.Param("dryRun", metav1.DryRunAll)
	}
	if q.Body != nil {
		body, err := json.Marshal(q.Body)
		if err != nil {
			return suite.Answer{}, fmt.Errorf("asking the API server: %w", err)
		}
		kind := "application/json"
		if q.Verb == http.MethodPatch {
			kind = string(types.StrategicMergePatchType)
		}
		req = req.SetHeader("Content-Type", kind).Body(body)
	}
	result := req.SetHeader("Accept", "application/json").Do(ctx)
	// Error and not Raw: only the former reads the Status out of a refusal.
	if err := result.Error(); err != nil {
		return answer(nil, 0, err)
	}
	raw, err := result.Raw()
	if err != nil {
		return suite.Answer{}, fmt.Errorf("asking the API server: %w", err)
	}
	var code int
	result.StatusCode(&code)
	a := suite.Answer{Code: code}
	// What a proxy or a log answers may be no JSON.
	if json.Unmarshal(raw, &a.Object) != nil {
		a.Message = fmt.Sprintf("%.200q", raw)
	}
	return a, nil
}

// execute has the deployed service run a program, as its users do, through the
// API server's proxy. Whatever it does not answer with a result is an error: a
// service that is not there says nothing of its runs. Their Pods are the
// service's own to remove.
func (r *executionPods) execute(ctx context.Context, p suite.Program) (suite.Execution, error) {
	body, err := json.Marshal(service.Program{Language: p.Language, Source: p.Source, Stdin: p.Stdin})
	if err != nil {
		return suite.Execution{}, fmt.Errorf("asking the execution service: %w", err)
	}
	path := fmt.Sprintf("/api/v1/namespaces/%s/services/http:%s:%d/proxy/v1/runs", r.namespace, r.name, servicePort)
	raw, err := r.k.o.Client.Clientset.CoreV1().RESTClient().Post().AbsPath(path).
		SetHeader("Content-Type", "application/json").Body(body).Do(ctx).Raw()
	if err != nil {
		return suite.Execution{}, fmt.Errorf("asking the execution service %s: %w: %.200q", r.k.o.Service, err, raw)
	}
	var x service.Result
	if err := json.Unmarshal(raw, &x); err != nil || x.Status == "" {
		return suite.Execution{}, fmt.Errorf("asking the execution service %s: it answered %.200q, which is no result", r.k.o.Service, raw)
	}
	return suite.Execution{
		Status: string(x.Status), ExitCode: x.ExitCode, Stdout: x.Stdout, Stderr: x.Stderr, UID: x.UID,
	}, nil
}

// servicePort is where an execution service listens.
const servicePort = 8080
