// SPDX-License-Identifier: Apache-2.0

package witness

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"time"

	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/verdict"
	"github.com/stockade-dev/stockade/workloads/range/rangeclient"
	"github.com/stockade-dev/stockade/workloads/range/world"
)

// Range is what the suite needs of the range; *rangeclient.Client has it.
type Range interface {
	Mark(ctx context.Context) (rangeclient.Mark, error)
	Since(ctx context.Context, m rangeclient.Mark, nonce string) ([]rangeclient.Event, error)
}

// Arrivals is what reached the range during one round.
type Arrivals struct {
	seen map[string]rangeclient.Event // by nonce, the first
	// Err is why an absence proves nothing; a presence counts all the same.
	Err error
}

// ReadArrivals reads everything since m, once all of awaited (the controls'
// nonces) arrived or ctx is done.
func ReadArrivals(ctx context.Context, r Range, m rangeclient.Mark, awaited []string) Arrivals {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	var read []rangeclient.Event
	for {
		// A read must still be possible when the waiting is over.
		rctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		events, err := r.Since(rctx, m, "")
		cancel()
		if err != nil { // what was read before has arrived all the same
			events = together(read, events)
		}
		read = events
		last := index(events, err)
		if err != nil || last.all(awaited) {
			return last
		}
		select {
		case <-ctx.Done():
			return last
		case <-tick.C:
		}
	}
}

// together are the events of two readings of the log.
func together(a, b []rangeclient.Event) []rangeclient.Event {
	all := slices.Clone(a)
	known := map[uint64]bool{}
	for _, e := range a {
		known[e.Seq] = true
	}
	for _, e := range b {
		if !known[e.Seq] {
			all = append(all, e)
		}
	}
	return all
}

func index(events []rangeclient.Event, err error) Arrivals {
	a := Arrivals{seen: map[string]rangeclient.Event{}, Err: err}
	refused := refusals(events)
	for _, e := range events {
		if err != nil && restricted(e) {
			continue // its answer, which tells what became of it, may not have been read
		}
		for _, n := range e.Nonces {
			if _, has := a.seen[n]; !has && !refused[visit{n, e.Src, e.Dst}] {
				a.seen[n] = e
			}
		}
	}
	return a
}

// restricted tells whether an event is what a front end was sent that guards a
// perimeter, without its answer.
func restricted(e rangeclient.Event) bool {
	to, err := netip.ParseAddrPort(e.Dst)
	return err == nil && e.Service == "stream" && world.IsRestricted(to.Addr())
}

// visit is one connection that carried a nonce. Who connects may do so from one
// port to several places.
type visit struct{ nonce, src, dst string }

// refusals are the connections on which every request with the nonce was turned
// away. The range answers HTTP with 403 in one case only: as a front end that
// guards a service perimeter. What such a one refuses got to nobody.
func refusals(events []rangeclient.Event) map[visit]bool {
	refused := map[visit]bool{}
	for _, e := range events {
		if e.Service != "http" {
			continue
		}
		for _, n := range e.Nonces {
			v := visit{n, e.Src, e.Dst}
			before, has := refused[v]
			refused[v] = e.Status == http.StatusForbidden && (before || !has)
		}
	}
	return refused
}

func (a Arrivals) all(nonces []string) bool {
	for _, n := range nonces {
		if _, ok := a.seen[n]; !ok {
			return false
		}
	}
	return true
}

// Judge states what the log says of a scenario. The witness lives when every
// control's nonce arrived, and it agrees when no attack's did. Where the claim
// is that the traffic does get out (disclosed is true: claims of kind limit or
// function), it agrees when every attack's did.
func (a Arrivals) Judge(controls, attacks []string, disclosed bool) verdict.Statement {
	s := verdict.Statement{Witness: suite.RangeLog, Live: len(controls) > 0}
	for _, n := range controls {
		if _, ok := a.seen[n]; !ok {
			s.Live = false
			s.Detail = fmt.Sprintf("the control's nonce %.8s did not arrive", n)
		}
	}
	arrived := 0
	for _, n := range attacks {
		e, ok := a.seen[n]
		if !ok {
			continue
		}
		arrived++
		if !disclosed {
			s.Breach = true
			s.Detail = fmt.Sprintf("nonce %.8s of the attack arrived at %s (%s, %s)", n, e.Dst, e.Proto, e.Service)
		}
	}
	if s.Breach {
		return s
	}
	if a.Err != nil {
		s.Live = false
		s.Detail = a.Err.Error()
		return s
	}
	s.Agrees = arrived == 0
	if disclosed {
		s.Agrees = len(attacks) > 0 && arrived == len(attacks)
	}
	if s.Detail == "" {
		s.Detail = fmt.Sprintf("%d of %d control nonces and %d of %d attack nonces arrived", len(controls), len(controls), arrived, len(attacks))
	}
	return s
}
