// SPDX-License-Identifier: Apache-2.0

package witness

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stockade-dev/stockade/workloads/range/rangeclient"
)

const (
	control = "cccccccccccccccccccccccccccccccc"
	attack  = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
)

func seen(nonces ...string) []rangeclient.Event {
	return []rangeclient.Event{{Dst: "203.0.113.7:8080", Nonces: nonces}}
}

func TestTheRangeLogSpeaksOnlyIfItSawTheControl(t *testing.T) {
	for name, c := range map[string]struct {
		events               []rangeclient.Event
		err                  error
		disclosed            bool
		live, agrees, breach bool
	}{
		"the control alone arrived":              {seen(control), nil, false, true, true, false},
		"nothing arrived":                        {nil, nil, false, false, true, false},
		"both arrived":                           {seen(control, attack), nil, false, true, false, true},
		"the attack alone arrived":               {seen(attack), nil, false, false, false, true},
		"the log has a gap":                      {seen(control), rangeclient.ErrIncomplete, false, false, false, false},
		"the log has a gap, and the attack":      {seen(attack), rangeclient.ErrIncomplete, false, false, false, true},
		"a disclosed exposure was seen":          {seen(control, attack), nil, true, true, true, false},
		"a disclosed exposure was not seen":      {seen(control), nil, true, true, false, false},
		"a disclosed exposure without control's": {seen(attack), nil, true, false, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := index(c.events, c.err).Judge([]string{control}, []string{attack}, c.disclosed)
			assert.Equal(t, c.breach, s.Breach, s.Detail)
			assert.Equal(t, c.live, s.Live, s.Detail)
			if !c.breach {
				assert.Equal(t, c.agrees, s.Agrees, s.Detail)
			}
			assert.NotEmpty(t, s.Detail)
		})
	}
}

func TestARangeLogWithoutAnyControlIsDead(t *testing.T) {
	assert.False(t, index(nil, nil).Judge(nil, []string{attack}, false).Live)
}

// A front end that guards a perimeter hears what it refuses.
func TestWhatAFrontEndRefusedDidNotArrive(t *testing.T) {
	const src = "172.30.0.2:40001"
	stream := rangeclient.Event{Service: "stream", Src: src, Nonces: []string{attack}}
	answered := func(src string, status int) rangeclient.Event {
		return rangeclient.Event{Service: "http", Src: src, Status: status, Nonces: []string{attack}}
	}
	for name, c := range map[string]struct {
		events  []rangeclient.Event
		arrived bool
	}{
		"refused":                              {[]rangeclient.Event{stream, answered(src, 403)}, false},
		"taken":                                {[]rangeclient.Event{stream, answered(src, 200)}, true},
		"refused after something was taken":    {[]rangeclient.Event{answered(src, 200), answered(src, 403)}, true},
		"taken after something was refused":    {[]rangeclient.Event{stream, answered(src, 403), answered(src, 200)}, true},
		"refused on one connection, not on":    {[]rangeclient.Event{stream, answered(src, 403), answered("172.30.0.2:40002", 200)}, true},
		"another connection, and no request":   {[]rangeclient.Event{answered(src, 403), {Service: "stream", Src: "172.30.0.2:40002", Nonces: []string{attack}}}, true},
		"another place, from the same port":    {[]rangeclient.Event{answered(src, 403), {Service: "stream", Src: src, Dst: "203.0.113.7:8080", Nonces: []string{attack}}}, true},
		"refused by the metadata server alone": {[]rangeclient.Event{{Service: "metadata", Src: src, Status: 403, Nonces: []string{attack}}}, true},
	} {
		_, arrived := index(c.events, nil).seen[attack]
		assert.Equal(t, c.arrived, arrived, name)
	}
}

type slowRange struct{ reads int }

func (r *slowRange) Mark(context.Context) (rangeclient.Mark, error) { return rangeclient.Mark{}, nil }

func (r *slowRange) Since(context.Context, rangeclient.Mark, string) ([]rangeclient.Event, error) {
	if r.reads++; r.reads < 3 {
		return nil, nil
	}
	return seen(control), nil
}

func TestArrivalsAreAwaitedForTheControls(t *testing.T) {
	r := &slowRange{}
	a := ReadArrivals(t.Context(), r, rangeclient.Mark{}, []string{control})
	assert.True(t, a.all([]string{control}))
	assert.Equal(t, 3, r.reads)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r = &slowRange{}
	a = ReadArrivals(ctx, r, rangeclient.Mark{}, []string{control})
	assert.False(t, a.all([]string{control}), "a wait that is over still gets one reading")
	assert.Equal(t, 1, r.reads)
}

// failingRange answers once, and then with a part and an error.
type failingRange struct {
	slowRange
	first, then []rangeclient.Event
}

func (r *failingRange) Since(context.Context, rangeclient.Mark, string) ([]rangeclient.Event, error) {
	if r.reads++; r.reads == 1 {
		return r.first, nil
	}
	return r.then, errors.New("the range does not answer")
}

func TestWhatArrivedIsNotForgottenWhenTheLogCannotBeReadAgain(t *testing.T) {
	at := func(seq uint64, service string, status int) rangeclient.Event {
		return rangeclient.Event{Seq: seq, Service: service, Status: status, Nonces: []string{attack}}
	}
	to := func(dst string) rangeclient.Event {
		return rangeclient.Event{Seq: 1, Service: "stream", Dst: dst, Nonces: []string{attack}}
	}
	for name, c := range map[string]struct {
		first, then []rangeclient.Event
		breach      bool
	}{
		"seen before the error":                  {[]rangeclient.Event{at(1, "udp", 0)}, nil, true},
		"seen with the error":                    {nil, []rangeclient.Event{at(1, "udp", 0)}, true},
		"never seen":                             {nil, nil, false},
		"refused, which the second reading has":  {[]rangeclient.Event{at(1, "stream", 0)}, []rangeclient.Event{at(1, "stream", 0), at(2, "http", 403)}, false},
		"sent to who refuses, without an answer": {nil, []rangeclient.Event{to("199.36.153.4:443")}, false},
		"sent to who does not refuse":            {nil, []rangeclient.Event{to("198.51.100.7:443")}, true},
	} {
		a := ReadArrivals(t.Context(), &failingRange{first: c.first, then: c.then}, rangeclient.Mark{}, []string{control})
		s := a.Judge([]string{control}, []string{attack}, false)
		assert.Equal(t, c.breach, s.Breach, name)
		assert.False(t, s.Agrees, name)
		assert.Error(t, a.Err, name)
	}
}

func TestCgroupSamplesAreThoseAroundTheAttempt(t *testing.T) {
	at := time.Unix(1000, 0)
	clock := func() time.Time { at = at.Add(time.Second); return at }
	n := &Numbers{}
	lines := strings.Repeat(`{"values":{"x":1}}`+"\n", 2) + `{"error":"no cgroup of this Pod"}` + "\n" + strings.Repeat(`{"values":{"x":2}}`+"\n", 2)
	require.NoError(t, n.Read(strings.NewReader(lines), clock))
	assert.Equal(t, 4, n.Len())
	// Samples at 1001, 1002, 1004 and 1005.
	before, after, took, ok := n.Around(time.Unix(1002, 5e8), time.Unix(1003, 5e8))
	require.True(t, ok)
	assert.InDelta(t, 1, before["x"], 0)
	assert.InDelta(t, 2, after["x"], 0)
	assert.Equal(t, 2*time.Second, took)

	// Neither a reader that began too late nor one that ended too early saw it.
	_, _, _, ok = n.Around(time.Unix(1000, 0), time.Unix(1003, 0))
	assert.False(t, ok, "nothing was read before")
	_, _, _, ok = n.Around(time.Unix(1002, 0), time.Unix(1006, 0))
	assert.False(t, ok, "nothing was read after")
	// That the cgroup has gone is a reading too.
	_, after, _, ok = n.Around(time.Unix(1001, 0), time.Unix(1003, 0))
	require.True(t, ok)
	assert.InDelta(t, 1, after["x"], 0)

	_, _, _, ok = (&Numbers{}).Around(at, at)
	assert.False(t, ok)
	assert.Error(t, n.Read(strings.NewReader("garbage\n"), clock))
	assert.Error(t, n.Read(strings.NewReader(strings.Repeat("x", 1<<20)), clock))
}

func TestOneSampleIsNoMeasurement(t *testing.T) {
	n := &Numbers{}
	require.NoError(t, n.Read(strings.NewReader(`{"values":{"x":1}}`+"\n"), func() time.Time { return time.Unix(5, 0) }))
	_, _, _, ok := n.Around(time.Unix(4, 0), time.Unix(6, 0))
	assert.False(t, ok)
}

func pod(restarts int32, id string, state, last corev1.ContainerState) *corev1.Pod {
	class := "gvisor"
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{UID: "u"},
		Spec:       corev1.PodSpec{NodeName: "n", RuntimeClassName: &class, Containers: []corev1.Container{{Name: "box"}}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{{
			Name: "box", RestartCount: restarts, ContainerID: id, State: state, LastTerminationState: last, Ready: state.Running != nil,
		}}},
	}
}

func ended(id string, code int32) corev1.ContainerState {
	return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ContainerID: id, ExitCode: code, Reason: "OOMKilled"}}
}

func TestOnlyAnEndSinceTheBaselineCounts(t *testing.T) {
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	base := BaselineOf(pod(1, "c1", running, ended("c0", 1)), "")
	for name, c := range map[string]struct {
		now      *corev1.Pod
		exit     int
		restarts int
	}{
		"it runs on":                          {pod(1, "c1", running, ended("c0", 1)), -1, 0},
		"it ended":                            {pod(1, "c1", ended("c1", 137), ended("c0", 1)), 137, 0},
		"it ended and runs again":             {pod(2, "c2", running, ended("c1", 137)), 137, 1},
		"it ended, ran again and ended again": {pod(2, "c2", ended("c2", 9), ended("c1", 137)), 9, 1},
		"an end of before that shows up late": {pod(1, "c1", ended("c0", 1), corev1.ContainerState{}), -1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			f := Facts(c.now, "", "runsc", base)
			assert.Equal(t, c.exit, f.ExitCode)
			assert.Equal(t, c.restarts, f.Restarts)
			assert.Equal(t, "gvisor", f.RuntimeClass)
			assert.Equal(t, "runsc", f.Handler)
		})
	}
}

func TestAnEvictionIsToldWithItsReason(t *testing.T) {
	p := pod(0, "", corev1.ContainerState{}, corev1.ContainerState{})
	p.Status.Phase, p.Status.Reason, p.Status.Message = corev1.PodFailed, "Evicted", "emptyDir limit"
	assert.Equal(t, "emptyDir limit", Facts(p, "", "", Baseline{}).EvictedFor)
	assert.False(t, Ready(p))
}
