// SPDX-License-Identifier: Apache-2.0

package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
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

// runs are sandboxes that an execution service makes, a Pod for each run. They
// are made by the service's own code and as its own service account, so that a
// service with too few rights, or a door that is shut to its Pods, is noticed.
type runs struct {
	k         *Kube
	namespace string // of the service
	config    *rest.Config
	client    *kubernetes.Clientset

	template *service.Template
	service  *service.Service
}

func newRuns(k *Kube) (*runs, error) {
	namespace, name, found := strings.Cut(k.o.Service, "/")
	if !found || namespace == "" || name == "" {
		return nil, fmt.Errorf("describing the target: the service %q must be the namespace and the name of its service account", k.o.Service)
	}
	r := &runs{k: k, namespace: namespace, config: rest.CopyConfig(k.o.Client.Config)}
	r.config.Impersonate = rest.ImpersonationConfig{
		UserName: "system:serviceaccount:" + namespace + ":" + name,
		Groups:   []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace, "system:authenticated"},
	}
	var err error
	if r.client, err = kubernetes.NewForConfig(r.config); err != nil {
		return nil, fmt.Errorf("describing the target: %w", err)
	}
	return r, nil
}

func (r *runs) open(ctx context.Context) error {
	t, err := r.k.o.Client.Clientset.CoreV1().PodTemplates(r.k.o.Namespace).Get(ctx, r.k.o.PodTemplate, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("reading the target's Pod template (`stockade up` deploys it): %w", err)
	}
	if r.template, err = service.Read(t); err != nil {
		return err
	}
	r.service, err = service.New(service.Options{
		Client: r.client, Exec: service.OverAPI(r.config, r.client), Namespace: r.k.o.Namespace, Template: r.template,
		// Attacks run at the same time, and slow is not broken.
		Timeouts: service.Timeouts{Start: r.k.t.Claim, Run: 3 * r.k.t.End},
	})
	return err
}

func (r *runs) ref(name string) Ref {
	return Ref{APIVersion: "v1", Kind: podKind.Kind, Namespace: r.k.o.Namespace, Name: name}
}

func (r *runs) order(ctx context.Context, name string) error {
	_, err := r.service.Start(ctx, name, map[string]string{RunLabel: r.k.run})
	return err
}

func (r *runs) find(ctx context.Context, name string) (target.Pod, error) {
	pod, err := r.k.o.Client.Clientset.CoreV1().Pods(r.k.o.Namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return target.Pod{}, err
	}
	if !witness.Ready(pod, "") || pod.Status.PodIP == "" {
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
func (r *runs) command(argv []string) []string {
	limits, err := r.template.Limits("")
	if err != nil {
		return argv // it was read before
	}
	return service.Command(limits, argv)
}

func (r *runs) furnish(f *Field) {
	f.Pod, f.Do, f.Execute = r.pod, r.do, r.execute
	f.Components = []string{r.namespace}
}

// pod is a compliant Pod, as the service would make it.
func (r *runs) pod() suite.Object {
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
func (r *runs) do(ctx context.Context, as suite.Identity, q suite.Request) (suite.Answer, error) {
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

// execute has the service run a program.
func (r *runs) execute(ctx context.Context, p suite.Program) (suite.Execution, error) {
	r.k.mu.Lock()
	r.k.made++
	name := fmt.Sprintf("stockade-%s-run%d", r.k.run, r.k.made)
	r.k.mu.Unlock()
	ref := r.ref(name)
	if err := r.k.led.Creating(ref); err != nil {
		return suite.Execution{}, err
	}
	result, err := r.service.Run(ctx, service.Program{
		Name: name, Labels: map[string]string{RunLabel: r.k.run}, Language: p.Language, Source: p.Source, Stdin: p.Stdin,
	})
	// The service has removed the Pod; this waits until it is gone. What it
	// cannot remove stays in the ledger.
	gone := r.k.Remove(context.WithoutCancel(ctx), r.k.run, ref)
	if gone == nil {
		gone = r.k.led.Gone(ref)
	}
	if err := errors.Join(err, gone); err != nil {
		return suite.Execution{}, err
	}
	return suite.Execution{
		Status: string(result.Status), ExitCode: result.ExitCode, Stdout: result.Stdout, Stderr: result.Stderr, UID: result.UID,
	}, nil
}
