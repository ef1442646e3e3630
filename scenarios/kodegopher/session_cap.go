// SPDX-License-Identifier: Apache-2.0

package kodegopher

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stockade-dev/stockade/conformance/probe"
	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/verdict"
)

// What a user may have at a time, how many sessions ask at once, and how many more with
// ID tokens of one person.
const (
	allowedBoxes = 2
	manySessions = 100
	manyTokens   = 6
)

// sandboxCap accepts ResourceLimit alone: the server's own word that the user has
// as many as are allowed. Any other refusal may be the crowd's doing. How many
// sandboxes the user had at a time, the API server is asked all the while.
func sandboxCap() suite.Scenario {
	return suite.Scenario{
		ID:    "kode-gopher.sandbox-cap",
		Title: "Have a third sandbox as one user",
		About: fmt.Sprintf("Opens %d sessions of one user, with whichever replicas of the server, and has all of them run a program at once: whoever counts before it makes a sandbox, and "+
			"not while, gives out too many. %d must be served, the others refused for that reason, and the API server must never have known of a third sandbox of the "+
			"user's. Where users sign in, %d sessions of one person ask beside them, each with an ID token of its own: issued at another time, and with another address where the account may have one; a "+
			"server that counts by anything but the subject gives out too many there, too. That two are served is part of the attack; the control is a session of the same user's.", manySessions, allowedBoxes, manyTokens),
		Claims: []string{"KG-15"}, Kind: suite.Guarantee, Severity: suite.High,
		Techniques: []string{"T1499.003", "T1496"},
		Refs:       []string{"https://cwe.mitre.org/data/definitions/367.html"},
		Ask: func(ctx context.Context, env *suite.APIEnv) []verdict.Step {
			return crowdIn(ctx, env, manySessions)
		},
		AskControl: greet("user5"),
		Accept:     []verdict.Class{verdict.ResourceLimit},
		As:         []string{"user5"},
		// A hundred connections take the node's attention from others.
		Exclusive: true,
		Timeout:   sessionTime,
		Mutants:   []string{"kode-gopher-shared-three-sandboxes"},
	}
}

// small is a program that costs little to build.
const small = "package main\n\nfunc main() { println(\"served\") }\n"

// tally is what became of a crowd's calls.
type tally struct {
	served, capped atomic.Int32
	mu             sync.Mutex
	other          []string
}

func (t *tally) add(x suite.Execution, err error) {
	switch {
	case err == nil && x.Status == "ok":
		t.served.Add(1)
	case err == nil && x.Status == suite.Refused && strings.Contains(x.Stderr, "as many as a user may have"):
		t.capped.Add(1)
	default:
		t.mu.Lock()
		defer t.mu.Unlock()
		t.other = append(t.other, fmt.Sprintf("%s %.80q %v", x.Status, x.Stderr, err))
	}
}

// crowdIn opens sessions and has them all run a program at once, while the API
// server is asked how many sandboxes the user has.
func crowdIn(ctx context.Context, env *suite.APIEnv, n int) []verdict.Step {
	if env.Held == nil {
		return []verdict.Step{probe.Failed("open sessions", verdict.ToolMissing, "the target has no server that keeps sessions")}
	}
	caller := known(env, "user5")
	if held, err := env.Held(ctx, caller); err != nil || len(held) > 0 {
		return []verdict.Step{probe.Failed("begin without a sandbox", verdict.Unknown, "the user has %d already; another session of its goes on: %v", len(held), err)}
	}
	tokens, err := samePerson(env.SignIn, env.Nonce)
	if err != nil {
		return []verdict.Step{probe.Failed("make the ID tokens", verdict.ToolMissing, "%v", err)}
	}
	callers := append(slices.Repeat([]string{caller}, n), tokens...)
	all := len(callers)
	sessions := make([]suite.Session, all)
	errs := make([]error, all)
	inParallel(all, 8, func(i int) { sessions[i], errs[i] = env.Open(ctx, callers[i]) })
	if err := errors.Join(errs...); err != nil {
		return []verdict.Step{probe.Failed("open the sessions", verdict.TransportError, "%.300v", err)}
	}
	wctx, stop := context.WithCancel(ctx)
	var most, looks int
	var watch sync.WaitGroup
	watch.Go(func() { most, looks = mostHeld(wctx, env, caller) })
	var t, person tally
	inParallel(all, all, func(i int) {
		x, err := sessions[i].Run(ctx, suite.Program{Language: "go", Source: small})
		if i < n {
			t.add(x, err)
		} else {
			person.add(x, err)
		}
	})
	// One who comes later, with everybody in place.
	late, err := env.Held(ctx, caller)
	stop()
	watch.Wait()
	if err == nil {
		most, looks = max(most, len(late)), looks+1
	}
	steps := judgeCrowd(n, int(t.served.Load()), int(t.capped.Load()), t.other, most, looks)
	if len(tokens) > 0 {
		steps = append(steps, judgePerson(len(tokens), int(person.served.Load()), int(person.capped.Load()), person.other))
	}
	return steps
}

// samePerson are ID tokens of one person that differ in all that may differ; none
// where nobody signs in.
func samePerson(s *suite.SignIn, nonce string) (tokens []string, err error) {
	if s == nil {
		return nil, nil
	}
	who := listed(s, nonce+"crowd")[0]
	domain, _ := who["hd"].(string)
	for i := range manyTokens {
		c := who.but(idClaims{"iat": time.Now().Add(-time.Duration(i+1) * time.Minute).Unix(), "jti": fmt.Sprintf("%s-%d", nonce, i)})
		if i%2 == 1 && slices.Contains(s.Domains, domain) {
			c["email"] = fmt.Sprintf("alias-%d@%s", i, domain)
		}
		token, err := signed(s, c)
		if err != nil {
			return nil, err
		}
		tokens = append(tokens, token)
	}
	return tokens, nil
}

// judgePerson is a pure function.
func judgePerson(n, served, capped int, other []string) verdict.Step {
	step := probe.Failed("have a third sandbox as one person with several ID tokens", verdict.ResourceLimit,
		"of %d sessions %d were served and %d refused for their number", n, served, capped)
	switch {
	case served > allowedBoxes:
		return probe.Reached(step.Name, "of %d sessions %d were served", n, served)
	case served < allowedBoxes || served+capped < n:
		step.Class, step.Detail = verdict.Unknown, fmt.Sprintf("%d were served, %d refused for their number, and %d got another answer: %.300q", served, capped, len(other), other)
	}
	return step
}

// judgeCrowd is a pure function.
func judgeCrowd(n, served, capped int, other []string, most, looks int) []verdict.Step {
	third := probe.Failed("have a third sandbox", verdict.ResourceLimit, "of %d sessions %d were served and %d refused for their number", n, served, capped)
	if served > allowedBoxes {
		third = probe.Reached("have a third sandbox", "of %d sessions %d were served", n, served)
	} else if served+capped < n {
		third.Class, third.Detail = verdict.Unknown, fmt.Sprintf("%d sessions got another answer: %.300q", len(other), other)
	}
	two := mustWork(probe.Reached("have two sandboxes", "%d sessions were served", served))
	if served < allowedBoxes {
		two = mustWork(probe.Failed("have two sandboxes", verdict.Unknown, "%d sessions were served", served))
	}
	count := probe.Failed("be seen with a third sandbox by the API server", verdict.ResourceLimit, "the most of %d looks was %d", looks, most)
	switch {
	case most > allowedBoxes:
		count = probe.Reached(count.Name, "it knew of %d at a time", most)
	case most < served || looks < 3:
		// It did not see what there was, so that it cannot say what there was not.
		count.Class, count.Detail = verdict.Unknown, fmt.Sprintf("%d sessions were served, and the most of %d looks was %d", served, looks, most)
	}
	return []verdict.Step{third, two, count}
}

// mostHeld counts until ctx ends.
func mostHeld(ctx context.Context, env *suite.APIEnv, caller string) (most, looks int) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		if held, err := env.Held(ctx, caller); err == nil {
			most, looks = max(most, len(held)), looks+1
		}
		select {
		case <-ctx.Done():
			return most, looks
		case <-tick.C:
		}
	}
}

// inParallel calls f for each of n, at most so many at once.
func inParallel(n, atOnce int, f func(i int)) {
	slots := make(chan struct{}, atOnce)
	var wg sync.WaitGroup
	for i := range n {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			f(i)
		})
	}
	wg.Wait()
}
