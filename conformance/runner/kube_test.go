// SPDX-License-Identifier: Apache-2.0

package runner

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	kubefake "k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"

	"github.com/stockade-dev/stockade/conformance/probe"
	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/target"
	"github.com/stockade-dev/stockade/infra/kube"
	"github.com/stockade-dev/stockade/workloads/range/world"
)

const box = "sandboxes"

// pretended returns a ground on a cluster that holds the objects, with a
// ledger open for run "r".
func pretended(t *testing.T, pods []runtime.Object, objects ...runtime.Object) *Kube {
	t.Helper()
	mapper, lists := meta.NewDefaultRESTMapper(nil), map[schema.GroupVersionResource]string{}
	for _, kind := range []schema.GroupVersionKind{claimKind, poolKind, templateKind, sandboxKind, podKind} {
		plural, _ := meta.UnsafeGuessKindToResource(kind)
		mapper.Add(kind, meta.RESTScopeNamespace)
		lists[plural] = kind.Kind + "List"
	}
	mapper.Add(spaceKind, meta.RESTScopeRoot)
	lists[corev1.SchemeGroupVersion.WithResource("namespaces")] = "NamespaceList"
	k, err := NewKube(KubeOptions{
		Client: &kube.Client{
			Clientset: kubefake.NewClientset(pods...), Mapper: mapper,
			Dynamic: dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), lists, objects...),
		},
		Carrier: canned{}, Namespace: box, Pool: "pool",
	})
	require.NoError(t, err)
	k.run = "r"
	k.t = Timeouts{Claim: 300 * time.Millisecond, Gone: 300 * time.Millisecond, Vacate: 300 * time.Millisecond, Release: 300 * time.Millisecond}.filled()
	k.led, err = OpenLedger(t.TempDir(), "r", "uid")
	require.NoError(t, err)
	return k
}

// canned is a carrier whose every program prints the same and ends with code.
type canned struct {
	text string
	code int
}

func (c canned) Exec(_ context.Context, _ target.Pod, _ []string, s target.Streams) (int, error) {
	_, err := io.Copy(s.Stdout, bytes.NewBufferString(c.text))
	return c.code, err
}

func owner(uid string) []metav1.OwnerReference {
	yes := true
	return []metav1.OwnerReference{{UID: types.UID(uid), Controller: &yes}}
}

// chain is a claim with its Sandbox and the Sandbox's Pod, all as they should be.
type chain struct {
	claim, sandbox *unstructured.Unstructured
	pod            *corev1.Pod
}

func sound() chain {
	c := chain{claim: object(claimKind, box, "c"), sandbox: object(sandboxKind, box, "s")}
	c.claim.SetUID("claim-uid")
	c.claim.Object["status"] = map[string]any{
		"conditions": []any{map[string]any{"type": "Ready", "status": "True"}}, "sandbox": map[string]any{"name": "s"}}
	c.sandbox.SetUID("sandbox-uid")
	c.sandbox.SetOwnerReferences(owner("claim-uid"))
	c.sandbox.SetAnnotations(map[string]string{podNameAnnotation: "warm-1"})
	c.pod = &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: box, Name: "warm-1", UID: "pod-uid", OwnerReferences: owner("sandbox-uid")},
		Spec:       corev1.PodSpec{NodeName: "n", Containers: []corev1.Container{{Name: "main"}}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, PodIP: "10.0.0.1", ContainerStatuses: []corev1.ContainerStatus{{
			Name: "main", Ready: true, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}},
	}
	return c
}

func TestThePodIsFoundThroughItsClaimAlone(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(*chain)
		want  string // of the error; none where empty
	}{
		"as it should be":                {func(*chain) {}, ""},
		"a Pod of the Sandbox's name":    {func(c *chain) { c.sandbox.SetAnnotations(nil); c.pod.Name = "s" }, ""},
		"the claim is not ready":         {func(c *chain) { delete(c.claim.Object, "status") }, "not ready"},
		"the Sandbox is somebody else's": {func(c *chain) { c.sandbox.SetOwnerReferences(owner("other")) }, "not the claim's own"},
		"the Pod is somebody else's":     {func(c *chain) { c.pod.OwnerReferences = owner("other") }, "not Sandbox s's own"},
		"the Pod has no owner":           {func(c *chain) { c.pod.OwnerReferences = nil }, "not Sandbox s's own"},
		"the Pod is not ready":           {func(c *chain) { c.pod.Status.ContainerStatuses[0].Ready = false }, "not ready"},
		"the Pod is being deleted": {func(c *chain) {
			c.pod.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
			c.pod.Finalizers = []string{"f/f"}
		}, "not ready"},
	} {
		t.Run(name, func(t *testing.T) {
			ch := sound()
			c.spoil(&ch)
			k := pretended(t, []runtime.Object{ch.pod}, ch.claim, ch.sandbox)
			pod, err := k.source.find(t.Context(), "c")
			if c.want != "" {
				require.ErrorContains(t, err, c.want)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, "pod-uid", pod.UID)
			assert.Equal(t, "main", pod.Container)
		})
	}
}

func TestAClaimIsInTheLedgerEvenIfItIsNeverBound(t *testing.T) {
	k := pretended(t, nil)
	_, err := k.claim(t.Context(), suite.Sandbox)
	require.ErrorContains(t, err, "waiting for the sandbox")
	require.Len(t, k.led.Open(), 1)
	ref := k.led.Open()[0]
	assert.Equal(t, "SandboxClaim", ref.Kind)
	live, err := k.get(t.Context(), claimKind, ref.Name)
	require.NoError(t, err)
	assert.Equal(t, "r", live.GetLabels()[RunLabel])
	owned, err := k.Labelled(t.Context())
	require.NoError(t, err)
	assert.Equal(t, []Owned{{Ref: ref, Run: "r"}}, owned)
}

func TestRemoveLeavesAloneWhatTheRunDidNotMake(t *testing.T) {
	mine, other := object(podKind, box, "mine"), object(podKind, box, "other")
	mine.SetLabels(map[string]string{RunLabel: "r"})
	k := pretended(t, nil, mine, other)
	require.NoError(t, k.Remove(t.Context(), "r", refOf(mine)))
	require.NoError(t, k.Remove(t.Context(), "r", refOf(other)))
	require.NoError(t, k.Remove(t.Context(), "r", Ref{APIVersion: "v1", Kind: "Pod", Namespace: box, Name: "never"}))
	_, err := k.get(t.Context(), podKind, "mine")
	assert.True(t, apierrors.IsNotFound(err))
	_, err = k.get(t.Context(), podKind, "other")
	assert.NoError(t, err)
}

func TestANamespaceOfARunIsFoundAndRemovedWithItsPods(t *testing.T) {
	mine, other := object(spaceKind, "", "mine"), object(spaceKind, "", "other")
	mine.SetLabels(map[string]string{RunLabel: "r"})
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "mine", Name: "p"}}
	k := pretended(t, []runtime.Object{pod}, mine, other)
	owned, err := k.Labelled(t.Context())
	require.NoError(t, err)
	require.Equal(t, []Owned{{Ref: refOf(mine), Run: "r"}}, owned)

	require.NoError(t, k.Remove(t.Context(), "r", owned[0].Ref))
	require.NoError(t, k.Remove(t.Context(), "r", refOf(other)))
	_, err = k.get(t.Context(), spaceKind, "other")
	require.NoError(t, err, "a namespace that no run made is left alone")
	pods, err := k.o.Client.Clientset.CoreV1().Pods("mine").List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	assert.Empty(t, pods.Items)
}

// What scenarios store is of these kinds: the warm pool is the one of
// sandbox.warm-claim.
func TestEveryKindThatARunStoresIsFoundByItsLabel(t *testing.T) {
	var objects []runtime.Object
	var want []Owned
	for _, kind := range []schema.GroupVersionKind{claimKind, poolKind, sandboxKind, podKind} {
		o := object(kind, box, "left")
		o.SetLabels(map[string]string{RunLabel: "dead"})
		objects, want = append(objects, o), append(want, Owned{Ref: refOf(o), Run: "dead"})
	}
	own := object(poolKind, box, "pool") // the target's, of no run
	owned, err := pretended(t, nil, append(objects, own)...).Labelled(t.Context())
	require.NoError(t, err)
	assert.ElementsMatch(t, want, owned)
}

func TestAClaimIsGoneOnlyWithItsSandbox(t *testing.T) {
	ch := sound()
	ch.claim.SetLabels(map[string]string{RunLabel: "r"})
	k := pretended(t, nil, ch.claim, ch.sandbox)
	assert.ErrorContains(t, k.Remove(t.Context(), "r", refOf(ch.claim)), "to be gone", "the Sandbox is still there")
}

func TestARefusalIsAnAnswerAndSilenceIsAnError(t *testing.T) {
	a, err := answer(nil, http.StatusOK, apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "x", errors.New("denied by policy")))
	require.NoError(t, err)
	assert.Equal(t, http.StatusForbidden, a.Code)
	assert.Equal(t, "Forbidden", a.Reason)
	assert.Contains(t, a.Message, "denied by policy")
	_, err = answer(nil, http.StatusOK, errors.New("connection refused"))
	assert.Error(t, err)
}

func TestWhatATenantStoresIsLabelledAndInTheLedger(t *testing.T) {
	k := pretended(t, nil)
	api := &tenant{k: k}
	obj := suite.Object{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": "p", "namespace": "elsewhere"}}
	a, err := api.Create(t.Context(), obj, false)
	require.NoError(t, err)
	assert.Equal(t, http.StatusCreated, a.Code)
	live, err := k.get(t.Context(), podKind, "p")
	require.NoError(t, err, "it is in the target's namespace, whatever the object said")
	assert.Equal(t, "r", live.GetLabels()[RunLabel])
	assert.Len(t, k.led.Open(), 1)
	_, err = api.Delete(t.Context(), "v1", "Pod", "p")
	require.NoError(t, err)
	assert.Empty(t, k.led.Open())
	_, err = api.Create(t.Context(), suite.Object{"apiVersion": "v1", "kind": "Pod"}, false)
	assert.ErrorContains(t, err, "must have a name")
}

func TestObjectsOfTheTemplateAreFreshCopies(t *testing.T) {
	k := pretended(t, nil)
	c := &warmPool{k: k, template: object(templateKind, box, "t")}
	c.template.Object["spec"] = map[string]any{"networkPolicyManagement": "Managed", "podTemplate": map[string]any{
		"metadata": map[string]any{"labels": map[string]any{"a": "b"}},
		"spec":     map[string]any{"runtimeClassName": "gvisor"}}}
	pod := c.pod()
	spec, ok := pod["spec"].(map[string]any)
	require.True(t, ok)
	assert.Equal(t, false, spec["automountServiceAccountToken"])
	spec["runtimeClassName"] = "runc"
	again, _, _ := unstructured.NestedString(c.pod(), "spec", "runtimeClassName")
	assert.Equal(t, "gvisor", again)
	sandbox := c.sandbox()
	assert.Equal(t, "Sandbox", sandbox["kind"])
	assert.NotContains(t, sandbox["spec"], "networkPolicyManagement", "it is a field of templates alone")
	assert.NotEqual(t, sandbox["metadata"], c.sandbox()["metadata"], "each has a name of its own")
}

// What scenarios read of such a target they read as the administrator; they may ask
// as the accounts of its namespace, and as nobody else.
func TestATargetWithAPoolIsAskedAsItsOwnAccountsAlone(t *testing.T) {
	var users []string
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		users = append(users, r.Header.Get("Impersonate-User")+" "+r.URL.RawQuery)
		assert.Equal(t, []string{"system:serviceaccounts", "system:serviceaccounts:" + box, "system:authenticated"}, r.Header.Values("Impersonate-Group"))
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"status":{}}`))
	}))
	defer api.Close()
	k, f := pretended(t, nil), &Field{}
	k.o.Client.Config = &rest.Config{Host: api.URL}
	k.source.furnish(f)
	require.NotNil(t, f.Do)
	for _, name := range []string{"router", "router", "server"} {
		a, err := f.Do(t.Context(), suite.AccountIdentity(name), suite.Request{Verb: http.MethodPost, Path: "/api/v1/x"})
		require.NoError(t, err)
		assert.Equal(t, 200, a.Code)
	}
	const as = "system:serviceaccount:" + box
	assert.Equal(t, []string{as + ":router dryRun=All", as + ":router dryRun=All", as + ":server dryRun=All"}, users)
	for _, as := range []suite.Identity{suite.Service, suite.AccountIdentity(""), "router"} {
		_, err := f.Do(t.Context(), as, suite.Request{Verb: http.MethodGet, Path: "/api/v1/x"})
		assert.ErrorContains(t, err, "no identity", "%q", as)
	}
	_, err := f.Do(t.Context(), suite.Administrator, suite.Request{Verb: http.MethodPut, Path: "/api/v1/x"})
	assert.ErrorContains(t, err, "not one that is asked with")
}

func TestPodSecurityIsALabelOfTheNamespace(t *testing.T) {
	for level, want := range map[string]bool{"": false, "privileged": true, "restricted": true} {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: box, Labels: map[string]string{"pod-security.kubernetes.io/enforce": level}}}
		has, err := pretended(t, []runtime.Object{ns}).Detect(t.Context(), &Field{}, suite.PodSecurity)
		require.NoError(t, err)
		assert.Equal(t, want, has, level)
	}
	_, err := pretended(t, nil).Detect(t.Context(), &Field{}, suite.PodSecurity)
	assert.Error(t, err, "a namespace that is not there")
}

func TestLimitsAreThoseOfTheDeclarationUpToWhatItMayBe(t *testing.T) {
	declared := func(cpu, memory string) *corev1.Pod {
		limits := corev1.ResourceList{}
		if cpu != "" {
			limits["cpu"], limits["memory"] = resource.MustParse(cpu), resource.MustParse(memory)
		}
		return &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{Limits: limits}}}}}
	}
	heavy := declared("1", "8Gi")
	heavy.Spec.Overhead = corev1.ResourceList{"cpu": resource.MustParse("100m"), "memory": resource.MustParse("10Mi")}
	most := probe.Limits{Memory: 512 << 20, CPU: 0.5, Storage: 1}
	for name, c := range map[string]struct {
		pod    *corev1.Pod
		most   probe.Limits
		memory int64
		cpu    float64
	}{
		"what is declared":          {declared("500m", "512Mi"), most, 512, 0.5},
		"less than may be":          {declared("250m", "64Mi"), most, 64, 0.25},
		"more than may be":          {declared("2", "8Gi"), most, 512, 0.5},
		"nothing":                   {declared("", ""), most, 512, 0.5},
		"nothing, and any may be":   {declared("", ""), probe.Limits{}, 0, 0},
		"much, and any may be":      {declared("2", "8Gi"), probe.Limits{}, 8192, 2},
		"more, and the runtime's":   {heavy, most, 522, 0.6},
		"of one of them any may be": {declared("2", "8Gi"), probe.Limits{CPU: 1}, 8192, 1},
	} {
		var site probe.Site
		limits(&site, c.pod, c.most)
		assert.Equal(t, c.memory<<20, site.MemoryLimit, name)
		assert.InDelta(t, c.cpu, site.CPULimit, 1e-9, name)
		assert.Equal(t, c.most, site.Most, name)
	}
}

// The cgroup that the witness reads is the whole Pod's.
func TestLimitsOfSeveralContainersAreTheirSum(t *testing.T) {
	c := func(memory string) corev1.Container {
		limits := corev1.ResourceList{}
		if memory != "" {
			limits["memory"] = resource.MustParse(memory)
		}
		return corev1.Container{Resources: corev1.ResourceRequirements{Limits: limits}}
	}
	always := corev1.ContainerRestartPolicyAlways
	sidecar := c("8Mi")
	sidecar.RestartPolicy = &always
	for name, tc := range map[string]struct {
		spec corev1.PodSpec
		want int64
	}{
		"two containers":         {corev1.PodSpec{Containers: []corev1.Container{c("64Mi"), c("32Mi")}}, 96},
		"one without a limit":    {corev1.PodSpec{Containers: []corev1.Container{c("64Mi"), c("")}}, 0},
		"a large init container": {corev1.PodSpec{Containers: []corev1.Container{c("64Mi")}, InitContainers: []corev1.Container{c("100Mi")}}, 100},
		"a sidecar":              {corev1.PodSpec{Containers: []corev1.Container{c("64Mi")}, InitContainers: []corev1.Container{sidecar}}, 72},
		"the runtime's overhead": {corev1.PodSpec{Containers: []corev1.Container{c("64Mi")}, Overhead: corev1.ResourceList{"memory": resource.MustParse("10Mi")}}, 74},
		"the Pod's own": {corev1.PodSpec{Containers: []corev1.Container{c("64Mi"), c("")},
			Resources: &corev1.ResourceRequirements{Limits: corev1.ResourceList{"memory": resource.MustParse("70Mi")}}}, 70},
	} {
		var site probe.Site
		limits(&site, &corev1.Pod{Spec: tc.spec}, probe.Limits{})
		assert.Equal(t, tc.want<<20, site.MemoryLimit, name)
	}
}

func TestFlowsComeFromTheAgentOfTheNode(t *testing.T) {
	agent := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "cilium-x", Labels: map[string]string{"k8s-app": "cilium"}},
		Spec:       corev1.PodSpec{NodeName: "n", Containers: []corev1.Container{{Name: "cilium-agent"}}},
	}
	k := pretended(t, []runtime.Object{agent})
	k.o.Carrier = canned{text: `{"flow":{"time":"2026-11-29T16:30:00Z","verdict":"DROPPED","IP":{"source":"10.0.0.1","destination":"10.0.0.2"}}}` + "\n"}
	flows, err := k.Flows(t.Context(), "n")
	require.NoError(t, err)
	assert.Len(t, flows, 1)
	k.o.Carrier = canned{code: 1}
	_, err = k.Flows(t.Context(), "n")
	assert.ErrorContains(t, err, "code 1")
	k = pretended(t, nil)
	_, err = k.Flows(t.Context(), "n")
	assert.ErrorContains(t, err, "there is none")
}

// The stand-in for whom a policy lets in is where the target says, and nowhere
// else: another's would make every control fail, or none.
func TestEverySeatIsTakenInItsOwnNamespace(t *testing.T) {
	seat := func(namespace, name, role, node string, ready bool) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{RoleLabel: role}},
			Spec:       corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "c"}}},
			Status: corev1.PodStatus{Phase: corev1.PodRunning, PodIP: "10.0.0.1", ContainerStatuses: []corev1.ContainerStatus{{
				Name: "c", Ready: ready, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}},
		}
	}
	pods := []runtime.Object{
		seat("stockade-system", "far", "control", "m", true), seat("stockade-system", "near", "control", "n", true),
		seat("stockade-system", "impostor", "impostor", "n", true), seat("stockade-system", "late", "impostor", "m", false),
		seat("agent-sandbox-system", "theirs", "router", "n", true), seat("ours", "ours", "router", "m", true),
	}
	for router, want := range map[string]string{"": "theirs", "ours": "ours"} {
		k := pretended(t, pods)
		if router != "" {
			k.o.Router = router
		}
		f := &Field{Pods: map[suite.Role]target.Pod{}}
		require.NoError(t, k.findControlPods(t.Context(), f, "n"))
		assert.Equal(t, "near", f.Pods[suite.Control].Name)
		assert.Equal(t, "impostor", f.Pods[suite.Impostor].Name)
		assert.Equal(t, want, f.Pods[suite.Router].Name)
	}
}

func TestTheHostsOfAnAllowListAreWhereTheRangePlaysThem(t *testing.T) {
	assert.Equal(t, "203.0.113.66:443", https(world.AttackerHost))
	assert.Equal(t, https(world.AllowedFrontEnd), https(world.SharingHost))
	assert.NotEqual(t, https(world.AllowedFrontEnd), https(lookAlike), "it only begins like one of them")
	assert.Empty(t, https("nowhere.invalid."))
}

func TestATenantChangesOnlyWhatTheRunMadeAndOnlyForShow(t *testing.T) {
	k := pretended(t, nil)
	k.run = "0123456789abcdef"
	_, err := (&tenant{k: k}).Update(t.Context(), suite.Object{"apiVersion": "v1", "kind": "Pod",
		"metadata": map[string]any{"name": "somebody-elses"}})
	assert.ErrorContains(t, err, "not this run's")
}

func TestARunWaitsForItsPoolToBeWholeAgainAndNotForEver(t *testing.T) {
	pool := object(poolKind, box, "pool")
	require.NoError(t, unstructured.SetNestedField(pool.Object, int64(2), "spec", "replicas"))
	require.NoError(t, unstructured.SetNestedField(pool.Object, int64(1), "status", "readyReplicas"))
	k := pretended(t, nil, pool)
	k.t.Refill = 3 * poll
	begun := time.Now()
	(&warmPool{k: k}).refilled(t.Context())
	assert.GreaterOrEqual(t, time.Since(begun), k.t.Refill, "one of two is not whole")

	k = pretended(t, nil, pool)
	k.t.Refill = time.Hour
	time.AfterFunc(2*poll, func() {
		whole := pool.DeepCopy()
		_ = unstructured.SetNestedField(whole.Object, int64(2), "status", "readyReplicas") // seen below when it fails
		plural, _ := meta.UnsafeGuessKindToResource(poolKind)
		_, _ = k.o.Client.Dynamic.Resource(plural).Namespace(box).Update(context.Background(), whole, metav1.UpdateOptions{})
	})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	(&warmPool{k: k}).refilled(ctx)
	assert.NoError(t, ctx.Err(), "it went on once the pool was whole")
}

func TestTheEndOfAFullExportIsReadWithTheNewOne(t *testing.T) {
	file := filepath.Join(t.TempDir(), "events.log")
	read := func(most string) (string, error) {
		out, err := exec.CommandContext(t.Context(), "sh", "-c", readExport, "sh", file, most).Output()
		return string(out), err
	}
	_, err := read("100")
	require.Error(t, err, "no export is not an export without a flow")
	write := func(name, text string, age time.Duration) {
		path := filepath.Join(filepath.Dir(file), name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		require.NoError(t, os.Chtimes(path, time.Time{}, time.Now().Add(-age)))
	}
	write("events.log", "new\n", 0)
	got, err := read("100")
	require.NoError(t, err)
	assert.Equal(t, "new\n", got)
	write("events-2026-01-01T00-00-00.000.log", "oldest\n", time.Hour)
	write("events-2026-01-01T00-01-00.000.log", "just before\n", time.Minute)
	write("other.log", "not an export\n", time.Second)
	got, err = read("100")
	require.NoError(t, err)
	assert.Equal(t, "just before\nnew\n", got)
	got, err = read("7")
	require.NoError(t, err)
	assert.Equal(t, "re\nnew\n", got)

	// What is read of two files is no whole where a third has come in between.
	bin := t.TempDir()
	real, err := exec.LookPath("tail")
	require.NoError(t, err)
	rotate := fmt.Sprintf("#!/bin/sh\nif [ -f %[1]s/events.log ] && [ \"$1\" = -c ]; then mv %[1]s/events.log %[1]s/events-2026-01-01T00-02-00.000.log; echo newer >%[1]s/events.log; fi\nexec %[2]s \"$@\"\n", filepath.Dir(file), real)
	require.NoError(t, os.WriteFile(filepath.Join(bin, "tail"), []byte(rotate), 0o700)) //nolint:gosec // it is a program
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	_, err = read("100")
	require.Error(t, err)
}
