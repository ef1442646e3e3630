// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/stockade-dev/stockade/conformance/verdict"
)

func order(nonce string, timeout time.Duration) Order {
	return Order{Scenario: "a.b", Part: Attack, Nonce: nonce, Timeout: timeout}
}

// play runs a plan with one action for everything, and collects.
func play(t *testing.T, act Action, orders ...Order) []verdict.Attempt {
	t.Helper()
	plan, err := json.Marshal(Plan{Orders: orders, Parallel: 4})
	require.NoError(t, err)
	var out bytes.Buffer
	require.NoError(t, Run(t.Context(), bytes.NewReader(plan), &out, func(string, Part) (Action, bool) { return act, act != nil }))
	attempts, err := Collect(&out, orders, time.Now)
	require.NoError(t, err)
	return attempts
}

func TestEveryOrderBecomesAnAttempt(t *testing.T) {
	a := play(t, func(_ context.Context, e *Env) []verdict.Step {
		return []verdict.Step{{Name: "saw " + e.Nonce, Class: verdict.Dropped}}
	}, order("n1", time.Second), order("n2", time.Second))
	require.Len(t, a, 2)
	for i, nonce := range []string{"n1", "n2"} {
		assert.True(t, a[i].Complete, a[i].Error)
		assert.Equal(t, "saw "+nonce, a[i].Steps[0].Name)
	}
}

func TestABrokenActionIsNoEvidence(t *testing.T) {
	for name, act := range map[string]Action{
		"unknown": nil,
		"panics":  func(context.Context, *Env) []verdict.Step { panic("boo") },
		"hangs":   func(context.Context, *Env) []verdict.Step { select {} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := play(t, act, order("n", 10*time.Millisecond))[0]
			require.True(t, a.Complete, a.Error)
			require.NotEmpty(t, a.Steps)
			assert.False(t, a.Steps[0].Class.IsEvidence())
		})
	}
}

func TestWhatIsReportedLateIsNotSent(t *testing.T) {
	late := make(chan func(), 1)
	act := func(_ context.Context, e *Env) []verdict.Step {
		late <- func() { e.Report(verdict.Step{Name: "late"}) }
		return []verdict.Step{{Name: "in time", Class: verdict.Dropped}}
	}
	plan, err := json.Marshal(Plan{Orders: []Order{order("n", time.Second)}})
	require.NoError(t, err)
	var out bytes.Buffer
	require.NoError(t, Run(t.Context(), bytes.NewReader(plan), &out, func(string, Part) (Action, bool) { return act, true }))
	(<-late)()
	a, err := Collect(&out, []Order{order("n", time.Second)}, time.Now)
	require.NoError(t, err)
	assert.Len(t, a[0].Steps, 1)
}

func TestRawBytesInADetailDoNotBreakTheStream(t *testing.T) {
	a := play(t, func(context.Context, *Env) []verdict.Step {
		return []verdict.Step{{Name: strings.Repeat("\xff", 600), Detail: strings.Repeat("\xfe\x00", 4000), Class: verdict.Dropped}}
	}, order("n", time.Second))
	assert.True(t, a[0].Complete, a[0].Error)
}

func TestAPlanThatIsHeldEndsWithItsInput(t *testing.T) {
	plan, err := json.Marshal(Plan{Hold: true, Orders: []Order{order("n", time.Minute)}})
	require.NoError(t, err)
	r, w := io.Pipe()
	var ended atomic.Bool
	done := make(chan error, 1)
	go func() {
		done <- Run(t.Context(), r, io.Discard, func(string, Part) (Action, bool) {
			return func(ctx context.Context, _ *Env) []verdict.Step {
				<-ctx.Done()
				ended.Store(true)
				return nil
			}, true
		})
	}()
	_, err = w.Write(plan)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	select {
	case err := <-done:
		require.NoError(t, err)
		assert.True(t, ended.Load())
	case <-time.After(10 * time.Second):
		t.Fatal("the plan went on without a listener")
	}
}

// Whoever reads the plan can answer all of it, and the decoder cannot tell. But
// an answer in which a lie was seen is worth nothing, also what came before it.
func TestNothingOfAForgedStreamIsComplete(t *testing.T) {
	orders := []Order{order("n1", time.Second), order("n2", time.Second)}
	var whole bytes.Buffer
	enc := NewEncoder(&whole)
	send := func(kind Kind, nonce string) {
		f := Frame{Kind: kind, Scenario: "a.b", Nonce: nonce}
		if kind == Step {
			f.Step = &verdict.Step{Name: "x", Class: verdict.Dropped}
		}
		if kind == Done {
			f.Steps = 1
		}
		require.NoError(t, enc.Encode(f))
	}
	send(Begin, "n1")
	send(Step, "n1")
	send(Done, "n1")
	first := bytes.Clone(whole.Bytes())
	send(Begin, "n2")
	begun := bytes.Clone(whole.Bytes())
	whole.Reset()
	send(Step, "n3")
	for name, c := range map[string]struct {
		stream   []byte
		complete bool
	}{
		"all that came is the probe's":   {first, true},
		"it was cut in the second":       {begun, true},
		"it was cut after a head":        {begun[:len(first)+frameHeaderLen], true},
		"it was cut in a frame":          {begun[:len(begun)-3], true},
		"a nonce that nobody gave out":   {append(bytes.Clone(begun), whole.Bytes()...), false},
		"something that is no frame":     {append(bytes.Clone(begun), "HELD HELD"...), false},
		"the same attempt a second time": {append(bytes.Clone(first), first...), false},
	} {
		t.Run(name, func(t *testing.T) {
			attempts, _ := Collect(bytes.NewReader(c.stream), orders, time.Now)
			assert.Equal(t, c.complete, attempts[0].Complete)
			assert.Len(t, attempts[0].Steps, 1, "what it said stays in the report, and a breach stays one")
			assert.Equal(t, c.complete, attempts[0].Error == "")
			assert.False(t, attempts[1].Complete)
		})
	}
}

func FuzzCollect(f *testing.F) {
	orders := []Order{order("0123456789abcdef0123456789abcdef", time.Second)}
	var good bytes.Buffer
	enc := NewEncoder(&good)
	for _, fr := range []Frame{{Kind: Begin}, {Kind: Step, Step: &verdict.Step{Name: "x", Class: verdict.Dropped}}, {Kind: Done, Steps: 1}} {
		fr.Scenario, fr.Nonce = orders[0].Scenario, orders[0].Nonce
		if err := enc.Encode(fr); err != nil {
			f.Fatal(err)
		}
	}
	f.Add(good.Bytes())
	f.Add(good.Bytes()[:good.Len()-1])
	f.Add([]byte("SKF1\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, b []byte) {
		attempts, _ := Collect(bytes.NewReader(b), orders, time.Now)
		if len(attempts) != 1 || attempts[0].Nonce != orders[0].Nonce {
			t.Fatal("attempts are the orders', whatever was sent")
		}
		a := attempts[0]
		if a.Complete && a.Start.IsZero() {
			t.Fatal("complete without a begin")
		}
		if !a.Complete && a.Error == "" {
			t.Fatal("incomplete without a reason")
		}
		for _, s := range a.Steps {
			if len(s.Detail) > maxDetail || len(s.Name) > maxName || len(s.Class) > maxWord {
				t.Fatal("a step passes its bounds")
			}
		}
	})
}

func FuzzDecoder(f *testing.F) {
	f.Add([]byte("SKF1\x00\x00\x00\x02{}"))
	f.Fuzz(func(t *testing.T, b []byte) {
		dec := NewDecoder(bytes.NewReader(b))
		for range MaxFrames + 1 {
			fr, err := dec.Next()
			if err != nil {
				return
			}
			if (fr.Kind == Step) != (fr.Step != nil) {
				t.Fatal("a step without content")
			}
		}
		t.Fatal("more frames than allowed")
	})
}

func TestStepsThatDoNotFitAreNoSilentEnd(t *testing.T) {
	steps := make([]verdict.Step, 5)
	assert.Len(t, fit(steps, 5), 5)
	cut := fit(steps, 3)
	require.Len(t, cut, 3)
	assert.Equal(t, verdict.Unknown, cut[2].Class)
	assert.Contains(t, cut[2].Detail, "3 of 5")
	assert.Len(t, fit(steps, 0), 1, "which the bound then drops")
}

func TestAnActionKnowsWhetherItIsTheControl(t *testing.T) {
	var got Part
	find := func(string, Part) (Action, bool) {
		return func(_ context.Context, env *Env) []verdict.Step { got = env.Part; return nil }, true
	}
	execute(t.Context(), Site{}, Order{Scenario: "a.b", Part: Control, Nonce: testNonce}, NewEncoder(io.Discard), find)
	assert.Equal(t, Control, got)
}
