// SPDX-License-Identifier: Apache-2.0

package execution

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kubefake "k8s.io/client-go/kubernetes/fake"
	ktesting "k8s.io/client-go/testing"
)

func podTemplate(notes map[string]string) *corev1.PodTemplate {
	one := int64(1000)
	return &corev1.PodTemplate{
		ObjectMeta: metav1.ObjectMeta{Annotations: notes},
		Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "run"}},
			Spec: corev1.PodSpec{
				SecurityContext: &corev1.PodSecurityContext{RunAsUser: &one},
				Containers:      []corev1.Container{{Name: "run", Command: []string{"sleep", "infinity"}}},
			},
		},
	}
}

func notes() map[string]string {
	return map[string]string{UIDs: "20000-20003", Rlimits: "nproc=8,as=4Gi", Rlimits + ".python": "as=256Mi"}
}

func template(t *testing.T, notes map[string]string) *Template {
	t.Helper()
	out, err := Read(podTemplate(notes))
	require.NoError(t, err)
	return out
}

func TestATemplateThatCannotBeReadIsRefused(t *testing.T) {
	for name, n := range map[string]map[string]string{
		"an unknown limit":               {Rlimits: "memory=1"},
		"an unknown limit of a language": {Rlimits + ".python": "as=lots"},
		"no range":                       {UIDs: "20000"},
		"a range that ends before":       {UIDs: "20001-20000"},
		"root":                           {UIDs: "0-10"},
		"words":                          {UIDs: "some-users"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Read(podTemplate(n))
			assert.Error(t, err)
		})
	}
	two := podTemplate(nil)
	two.Template.Spec.Containers = append(two.Template.Spec.Containers, corev1.Container{})
	_, err := Read(two)
	assert.ErrorContains(t, err, "2 containers")
}

func TestAPodGetsItsUserAndItsFirstProcessTheLimits(t *testing.T) {
	tm := template(t, notes())
	p := tm.Pod("ns", "r", 20001, map[string]string{"x": "y"})
	assert.Equal(t, int64(20001), *p.Spec.SecurityContext.RunAsUser)
	assert.Equal(t, int64(20001), *p.Spec.SecurityContext.RunAsGroup)
	assert.Equal(t, map[string]string{"app": "run", "x": "y"}, p.Labels)
	assert.Equal(t, []string{Helper, "as=4294967296,nproc=8", "--", "sleep", "infinity"}, p.Spec.Containers[0].Command)
	again := tm.Pod("ns", "s", 0, nil)
	assert.Equal(t, int64(1000), *again.Spec.SecurityContext.RunAsUser, "without a range it is the template's own")

	python, err := tm.Limits(Python)
	require.NoError(t, err)
	assert.Equal(t, "as=268435456,nproc=8", python.String())
	bare := template(t, nil)
	assert.Equal(t, []string{"sleep", "infinity"}, bare.Pod("ns", "r", 0, nil).Spec.Containers[0].Command)
}

// cluster is one in which every Pod runs as soon as it is asked for.
func cluster(t *testing.T) *kubefake.Clientset {
	t.Helper()
	c := kubefake.NewClientset()
	c.PrependReactor("create", "pods", func(a ktesting.Action) (bool, runtime.Object, error) {
		p, ok := a.(ktesting.CreateAction).GetObject().(*corev1.Pod) //nolint:forcetypeassert // it is a create
		if ok {
			p.Status = corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{{
				Name: "run", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}}
		}
		return false, nil, nil
	})
	return c
}

func newService(t *testing.T, c *kubefake.Clientset, x Exec, n map[string]string) *Service {
	t.Helper()
	s, err := New(Options{
		Client: c, Exec: x, Namespace: "ns", Template: template(t, n), MaxOutput: 128,
		Timeouts: Timeouts{Start: 2 * time.Second, Run: 200 * time.Millisecond, Remove: 300 * time.Millisecond},
	})
	require.NoError(t, err)
	return s
}

func TestEveryRunGetsAUserIDOfItsOwn(t *testing.T) {
	c := cluster(t)
	s := newService(t, c, nil, notes())
	seen := map[int64]bool{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			p, err := s.Start(t.Context(), fmt.Sprint("r", i), nil)
			if assert.NoError(t, err) {
				mu.Lock()
				defer mu.Unlock()
				assert.False(t, seen[uidOf(p)], "%d was given twice", uidOf(p))
				seen[uidOf(p)] = true
			}
		})
	}
	wg.Wait()
	_, err := s.Start(t.Context(), "r5", nil)
	assert.ErrorIs(t, err, ErrBusy, "there is no fifth in the range")
	require.NoError(t, s.Remove(t.Context(), "r1"))
	_, err = s.Start(t.Context(), "r6", nil)
	assert.NoError(t, err, "what was given back can be had again")

	other := newService(t, c, nil, notes())
	_, err = other.Start(t.Context(), "r7", nil)
	assert.ErrorIs(t, err, ErrBusy, "after a restart the service sees the Pods of before")
}

func TestAnIDIsNotGivenAgainAtOnce(t *testing.T) {
	s := newService(t, cluster(t), nil, notes())
	first, err := s.Start(t.Context(), "a", nil)
	require.NoError(t, err)
	require.NoError(t, s.Remove(t.Context(), "a"))
	second, err := s.Start(t.Context(), "b", nil)
	require.NoError(t, err)
	assert.NotEqual(t, uidOf(first), uidOf(second))
}

func TestAUsedUpQuotaIsBusy(t *testing.T) {
	c := cluster(t)
	c.PrependReactor("create", "pods", func(ktesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "r", errors.New("exceeded quota: runs"))
	})
	s := newService(t, c, nil, notes())
	_, err := s.Start(t.Context(), "r", nil)
	assert.ErrorIs(t, err, ErrBusy)
	assert.Empty(t, s.given, "the id is free again")
}

func exec(code int, out, errs string, err error) Exec {
	return func(_ context.Context, _ *corev1.Pod, _ []string, _ io.Reader, stdout, stderr io.Writer) (int, error) {
		_, _ = io.WriteString(stdout, out)
		_, _ = io.WriteString(stderr, errs)
		return code, err
	}
}

func TestARunIsReportedAndRemoved(t *testing.T) {
	const trace = "Traceback (most recent call last):\n  File \"<string>\", line 1, in <module>\n"
	for name, tc := range map[string]struct {
		exec Exec
		want Status
		fail bool
	}{
		"it ended well":                    {exec(0, "45\n", "", nil), OK, false},
		"it failed":                        {exec(1, "", trace+"ValueError: MemoryError\n", nil), Failed, false},
		"out of memory":                    {exec(1, "", trace+"MemoryError\n", nil), MemoryLimit, false},
		"out of memory, with words":        {exec(1, "", trace+"MemoryError: no room\n", nil), MemoryLimit, false},
		"out of memory after a long story": {exec(1, "", strings.Repeat("x", 5000)+"\nMemoryError\n", nil), MemoryLimit, false},
		"it recovered":                     {exec(0, "", trace+"MemoryError\nbut went on\n", nil), OK, false},
		"it says so and ends otherwise":    {exec(3, "", "MemoryError\n", nil), Failed, false},
		"it talks too much":                {exec(0, strings.Repeat("y", 200), "", nil), OutputLimit, false},
		"the exec was lost":                {exec(0, "", "", errors.New("reset")), "", true},
		"it takes too long": {func(ctx context.Context, _ *corev1.Pod, _ []string, _ io.Reader, _, _ io.Writer) (int, error) {
			<-ctx.Done()
			return 0, ctx.Err()
		}, TimeLimit, false},
	} {
		t.Run(name, func(t *testing.T) {
			c := cluster(t)
			s := newService(t, c, tc.exec, notes())
			r, err := s.Run(t.Context(), Program{Name: "r", Language: Python, Source: "x"})
			assert.Equal(t, tc.fail, err != nil, err)
			assert.Equal(t, tc.want, r.Status)
			assert.LessOrEqual(t, len(r.Stdout), 128)
			left, lerr := c.CoreV1().Pods("ns").List(t.Context(), metav1.ListOptions{})
			require.NoError(t, lerr)
			assert.Empty(t, left.Items, "its Pod is gone, whatever became of it")
			assert.Empty(t, s.given)
		})
	}
}

func TestARunStartsThroughTheHelper(t *testing.T) {
	var got []string
	var in string
	s := newService(t, cluster(t), func(_ context.Context, _ *corev1.Pod, argv []string, stdin io.Reader, _, _ io.Writer) (int, error) {
		got = argv
		b, err := io.ReadAll(stdin)
		in = string(b)
		return 0, err
	}, notes())
	r, err := s.Run(t.Context(), Program{Name: "r", Language: Python, Source: "print(1)", Stdin: "data"})
	require.NoError(t, err)
	assert.Equal(t, []string{Helper, "as=268435456,nproc=8", "--", "python3", "-I", "-c", loader, "8"}, got)
	assert.Equal(t, "print(1)data", in, "the source is read off the input first, and is in no request's address")
	assert.GreaterOrEqual(t, r.UID, int64(20000))
}

func left(t *testing.T, c *kubefake.Clientset) []string {
	t.Helper()
	list, err := c.CoreV1().Pods("ns").List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	names := []string{}
	for _, p := range list.Items {
		names = append(names, p.Name)
	}
	return names
}

func TestAPodWhoseCreationGotNoAnswerIsRemoved(t *testing.T) {
	c := cluster(t)
	s := newService(t, c, exec(0, "", "", nil), notes())
	c.PrependReactor("create", "pods", func(a ktesting.Action) (bool, runtime.Object, error) {
		p := a.(ktesting.CreateAction).GetObject() //nolint:forcetypeassert // it is a create
		assert.NoError(t, c.Tracker().Add(p))
		return true, nil, errors.New("the connection was lost")
	})
	_, err := s.Run(t.Context(), Program{Name: "r", Language: Python, Source: "x"})
	require.ErrorContains(t, err, "the connection was lost")
	assert.Empty(t, left(t, c))
	assert.Empty(t, s.running)
}

func TestARemovalThatIsRefusedIsTriedAgain(t *testing.T) {
	c, refused := cluster(t), 0
	c.PrependReactor("delete", "pods", func(ktesting.Action) (bool, runtime.Object, error) {
		refused++
		return refused == 1, nil, apierrors.NewServiceUnavailable("it starts")
	})
	s := newService(t, c, exec(0, "", "", nil), notes())
	_, err := s.Run(t.Context(), Program{Name: "r", Language: Python, Source: "x"})
	require.NoError(t, err)
	assert.Empty(t, left(t, c))
}

func TestASweepRemovesWhatNobodyWaitsFor(t *testing.T) {
	c := cluster(t)
	killed := newService(t, c, nil, notes())
	_, err := killed.start(t.Context(), "of-a-killed-service", map[string]string{OwnLabel: "true"}, killed.life())
	require.NoError(t, err)
	_, err = killed.Start(t.Context(), "of-the-suite", nil)
	require.NoError(t, err)
	var during []string
	var s *Service
	s = newService(t, c, func(ctx context.Context, _ *corev1.Pod, _ []string, _ io.Reader, _, _ io.Writer) (int, error) {
		err := s.Sweep(ctx)
		during = left(t, c)
		return 0, err
	}, notes())
	_, err = s.Run(t.Context(), Program{Name: "under-way", Language: Python, Source: "x"})
	require.NoError(t, err)
	assert.ElementsMatch(t, []string{"of-the-suite", "under-way"}, during)
	assert.Equal(t, []string{"of-the-suite"}, left(t, c))

	c.PrependReactor("list", "pods", func(ktesting.Action) (bool, runtime.Object, error) { return true, nil, errors.New("no") })
	assert.ErrorContains(t, s.Sweep(t.Context()), "listing the Pods of runs")
}

func TestThePodOfARunEndsByItself(t *testing.T) {
	var pod *corev1.Pod
	s := newService(t, cluster(t), func(_ context.Context, p *corev1.Pod, _ []string, _ io.Reader, _, _ io.Writer) (int, error) {
		pod = p
		return 0, nil
	}, notes())
	_, err := s.Run(t.Context(), Program{Name: "r", Language: Python, Source: "x"})
	require.NoError(t, err)
	require.NotNil(t, pod.Spec.ActiveDeadlineSeconds)
	assert.Equal(t, "true", pod.Labels[OwnLabel])
	took := s.o.Timeouts.Start + s.o.Timeouts.Run + s.o.Timeouts.Remove
	assert.Greater(t, time.Duration(*pod.Spec.ActiveDeadlineSeconds)*time.Second, took)
	lasting, err := s.Start(t.Context(), "lasting", nil)
	require.NoError(t, err)
	assert.Nil(t, lasting.Spec.ActiveDeadlineSeconds, "who starts a Pod removes it when it likes")
	assert.NotContains(t, lasting.Labels, OwnLabel)
}

func TestARunEndsWithItsCaller(t *testing.T) {
	c := cluster(t)
	ctx, leave := context.WithCancel(t.Context())
	s := newService(t, c, func(ctx context.Context, _ *corev1.Pod, _ []string, _ io.Reader, _, _ io.Writer) (int, error) {
		leave()
		<-ctx.Done()
		return 0, ctx.Err()
	}, notes())
	_, err := s.Run(ctx, Program{Name: "r", Language: Python, Source: "x"})
	require.ErrorIs(t, err, context.Canceled)
	assert.Empty(t, left(t, c))
}

func TestAFloodIsEnded(t *testing.T) {
	c, sent := cluster(t), 0
	s := newService(t, c, func(ctx context.Context, _ *corev1.Pod, _ []string, _ io.Reader, stdout, _ io.Writer) (int, error) {
		for piece := []byte(strings.Repeat("y", 1<<12)); ctx.Err() == nil; {
			n, err := stdout.Write(piece)
			if sent += n; err != nil {
				return 0, err
			}
		}
		return 0, ctx.Err()
	}, notes())
	s.o.Timeouts.Run = time.Minute
	r, err := s.Run(t.Context(), Program{Name: "r", Language: Python, Source: "x"})
	require.NoError(t, err)
	assert.Equal(t, OutputLimit, r.Status)
	assert.Equal(t, 137, r.ExitCode)
	assert.Len(t, r.Stdout, 128)
	assert.Less(t, sent, 2*maxBeyond)
}

func TestAKilledSandboxIsToldFromALostExec(t *testing.T) {
	for reason, want := range map[string]Status{"OOMKilled": MemoryLimit, "Error": Killed} {
		c := cluster(t)
		s := newService(t, c, func(ctx context.Context, p *corev1.Pod, _ []string, _ io.Reader, _, _ io.Writer) (int, error) {
			live, err := c.CoreV1().Pods("ns").Get(ctx, p.Name, metav1.GetOptions{})
			if err != nil {
				return 0, err
			}
			live.Status.ContainerStatuses[0].State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 137, Reason: reason}}
			if _, err := c.CoreV1().Pods("ns").UpdateStatus(ctx, live, metav1.UpdateOptions{}); err != nil {
				return 0, err
			}
			return 0, errors.New("the stream was cut")
		}, notes())
		r, err := s.Run(t.Context(), Program{Name: "r", Language: Python, Source: "x"})
		require.NoError(t, err, reason)
		assert.Equal(t, want, r.Status, reason)
		assert.Equal(t, 137, r.ExitCode)
	}
}

func TestWhatCannotBeRunIsRefusedBeforeAnythingIsStarted(t *testing.T) {
	c := cluster(t)
	s := newService(t, c, exec(0, "", "", nil), notes())
	for name, p := range map[string]Program{
		"no name": {Language: Python, Source: "x"}, "another language": {Name: "r", Language: "ruby", Source: "x"},
		"no source": {Name: "r", Language: Python}, "a zero": {Name: "r", Language: Python, Source: "a\x00b"},
		"too long": {Name: "r", Language: Python, Source: strings.Repeat("x", maxSource+1)},
	} {
		_, err := s.Run(t.Context(), p)
		assert.Error(t, err, name)
	}
	assert.Empty(t, c.Actions())
}

func TestAPodThatEndsBeforeItsRunIsAnError(t *testing.T) {
	c := kubefake.NewClientset()
	c.PrependReactor("create", "pods", func(a ktesting.Action) (bool, runtime.Object, error) {
		if p, ok := a.(ktesting.CreateAction).GetObject().(*corev1.Pod); ok { //nolint:forcetypeassert // it is a create
			p.Status = corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted"}
		}
		return false, nil, nil
	})
	s := newService(t, c, exec(0, "", "", nil), notes())
	_, err := s.Run(t.Context(), Program{Name: "r", Language: Python, Source: "x"})
	assert.ErrorContains(t, err, "Evicted")
}

func TestTheServiceAnswersOverHTTP(t *testing.T) {
	full := cluster(t)
	full.PrependReactor("create", "pods", func(ktesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "r", errors.New("exceeded quota: runs"))
	})
	for name, tc := range map[string]struct {
		service *Service
		body    string
		code    int
		has     string
	}{
		"a run":           {newService(t, cluster(t), exec(0, "45\n", "", nil), notes()), `{"language":"python","source":"print(45)"}`, 200, `"status":"ok"`},
		"no JSON":         {newService(t, cluster(t), nil, notes()), `print(45)`, 400, "no program"},
		"an odd field":    {newService(t, cluster(t), nil, notes()), `{"language":"python","source":"x","uid":0}`, 400, "no program"},
		"an odd language": {newService(t, cluster(t), nil, notes()), `{"language":"ruby","source":"x"}`, 400, "ruby"},
		"a full house":    {newService(t, full, exec(0, "", "", nil), notes()), `{"language":"python","source":"x"}`, 429, ErrBusy.Error()},
		"a lost exec":     {newService(t, cluster(t), exec(0, "", "", errors.New("10.0.0.1: refused")), notes()), `{"language":"python","source":"x"}`, 502, "not known"},
	} {
		t.Run(name, func(t *testing.T) {
			w := httptest.NewRecorder()
			tc.service.Handler(slog.New(slog.DiscardHandler)).ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/v1/runs", strings.NewReader(tc.body)))
			assert.Equal(t, tc.code, w.Code, w.Body.String())
			assert.Contains(t, w.Body.String(), tc.has)
			assert.NotContains(t, w.Body.String(), "10.0.0.1", "the cluster's words are for the log")
		})
	}
	w := httptest.NewRecorder()
	newService(t, cluster(t), nil, notes()).Handler(slog.New(slog.DiscardHandler)).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/healthz", nil))
	assert.Equal(t, http.StatusOK, w.Code)
}
