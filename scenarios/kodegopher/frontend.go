// SPDX-License-Identifier: Apache-2.0

package kodegopher

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/stockade-dev/stockade/conformance/probe"
	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/verdict"
)

// sharedFrontEnd shows what the text admits of a list that works on addresses:
// whoever may reach one host of a front end reaches all hosts there, and everything
// that the allowed host keeps for others. Hosts at addresses of their own, and
// other ports of the front end, would be more than that; only Dropped is accepted
// of these. The range must have heard every attempt.
func sharedFrontEnd() suite.Scenario {
	return suite.Scenario{
		ID:    "kode-gopher.shared-front-end",
		Title: "Send data through a front end that an allowed host shares",
		About: "Asks for an allowed host, and then speaks to its address in the name of a host that is on no list, and writes to a bucket of another project, both of which the text " +
			"discloses: Google's hosts share front ends, and the list works on addresses. Then tries the front end at other ports, and hosts at addresses of their own, which stay closed. " +
			"What stops the former is a service perimeter, see kode-gopher.perimeter.",
		Claims: []string{"KG-12"}, Kind: suite.Limit, Severity: suite.Medium,
		Techniques: []string{"T1567.002", "T1090.004"},
		Refs:       []string{"https://cloud.google.com/vpc-service-controls/docs/overview", "https://cloud.google.com/kubernetes-engine/docs/how-to/fqdn-network-policies"},
		Attack: func(ctx context.Context, env *probe.Env) []verdict.Step {
			s := env.Site
			names := []string{s.AllowedHost}
			for _, host := range s.Unlisted {
				names = append(names, host.Name)
			}
			if failed := askFor(ctx, env, names...); failed != nil {
				return failed
			}
			steps := disclosed([]verdict.Step{
				again(func() verdict.Step {
					return reachHost(ctx, env, "reach a host that shares the address", s.FrontEnd, s.SharingHost)
				}),
				again(func() verdict.Step {
					return errand{"write to a bucket of another project", http.MethodPut, s.AllowedHost, "/" + s.ForeignBucket + "/" + env.Nonce}.run(ctx, s.FrontEnd, env.Nonce)
				}),
			})
			return append(steps, probe.ReachAllTCP(ctx, env, closed(s))...)
		},
		Control:   suite.ControlSpec{Why: "a Pod without a policy reaches all of them, and the bucket takes what it is sent"},
		Accept:    dropped,
		Witnesses: suite.NothingOut(closed),
		Attempts:  2,
		Timeout:   20 * time.Second,
		Mutants:   []string{"kode-gopher-shared-allow-list-wildcard", "kode-gopher-shared-allow-list-any-port", "kode-gopher-shared-network-open"},
	}
}

// closed are the places of which the text does not say that they are open.
func closed(s probe.Site) []string { return append(otherPorts(s), unlisted(s)...) }

// perimeter accepts HTTP403 alone: the front end is reached, and refuses to let
// anything out of the perimeter. The range stands in for Google's restricted front
// end. It must have taken what the control sent, and nothing that an attempt sent.
// Only the probe says that an attempt got as far as the front end; but an attempt
// that sent nothing got nothing out either.
//
// The question is whether a deployment's names lead to the restricted front end,
// and what can be got out there. That Google's own front end guards a perimeter,
// only Google can show.
func perimeter() suite.Scenario {
	return suite.Scenario{
		ID:    "kode-gopher.perimeter",
		Title: "Get data out of a service perimeter",
		About: "Asks for the front end that guards a service perimeter, as the sandbox resolves it, and writes there to a bucket of another project in the three ways that Cloud Storage takes, " +
			"and to a host that shares front ends with it. It must refuse all of them, which without a perimeter go through (see kode-gopher.shared-front-end). " +
			"The front end is the range's stand-in for `restricted.googleapis.com`, whose rules it plays by its documentation.",
		Claims: []string{"KG-12"}, Kind: suite.Guarantee, Severity: suite.High,
		Techniques: []string{"T1567.002", "T1537"},
		Refs: []string{
			"https://cloud.google.com/vpc-service-controls/docs/overview", "https://cloud.google.com/vpc-service-controls/docs/private-connectivity",
			"https://cloud.google.com/storage/docs/request-endpoints",
		},
		Attack: func(ctx context.Context, env *probe.Env) []verdict.Step {
			return throughRestricted(ctx, env, leaving(env))
		},
		Control: suite.ControlSpec{
			Act: func(ctx context.Context, env *probe.Env) []verdict.Step {
				s := env.Site
				return throughRestricted(ctx, env, []errand{
					{"write to a bucket of the perimeter", http.MethodPut, s.AllowedHost, "/" + s.OwnBucket + "/" + env.Nonce},
				})
			},
			Why: "a bucket inside of the perimeter takes what a Pod without a policy sends to it by the same front end",
		},
		Accept:    []verdict.Class{verdict.HTTP403},
		Witnesses: []suite.Witness{{Name: suite.RangeLog}},
		Attempts:  2,
		Timeout:   20 * time.Second,
		Mutants:   []string{"kode-gopher-shared-around-perimeter"},
	}
}

// errand is a request to a front end, in the name of a host.
type errand struct{ name, method, host, path string }

// leaving are errands that carry something out of the perimeter.
func leaving(env *probe.Env) []errand {
	s := env.Site
	return []errand{
		{"write to a bucket of another project", http.MethodPut, s.AllowedHost, "/" + s.ForeignBucket + "/" + env.Nonce},
		{"write to it by a host name of its own", http.MethodPut, s.ForeignBucket + "." + s.AllowedHost, "/" + env.Nonce},
		{"write to it by the JSON API", http.MethodPost, s.AllowedHost, "/upload/storage/v1/b/" + s.ForeignBucket + "/o?uploadType=media&name=" + env.Nonce},
		{"write to a host that shares the front end", http.MethodPut, s.SharingHost, "/" + env.Nonce},
	}
}

// throughRestricted runs errands at the front end to which the restricted name
// leads, by whatever resolves names for the sandbox's programs: the cluster's DNS
// must have been asked all the same, for the policy to let the answer's address
// through.
func throughRestricted(ctx context.Context, env *probe.Env, all []errand) []verdict.Step {
	s := env.Site
	if s.RestrictedHost == "" || s.ForeignBucket == "" || s.OwnBucket == "" {
		return []verdict.Step{probe.NoSite("write", "front end of a perimeter")}
	}
	if failed := askFor(ctx, env, s.AllowedHost, s.RestrictedHost); failed != nil {
		return failed
	}
	addrs, err := net.DefaultResolver.LookupNetIP(ctx, "ip4", s.RestrictedHost)
	if err != nil || len(addrs) == 0 {
		return []verdict.Step{probe.Failed("find the front end", verdict.Unknown, "%s has no address: %v", s.RestrictedHost, err)}
	}
	addr := netip.AddrPortFrom(addrs[0].Unmap(), 443).String()
	acts := make([]func() verdict.Step, 0, len(all))
	for _, e := range all {
		acts = append(acts, func() verdict.Step { return again(func() verdict.Step { return e.run(ctx, addr, env.Nonce) }) })
	}
	return probe.Together(acts...)
}

// run sends the errand to a front end, with the nonce for its content. That it
// went through is the aim; 403 is the front end's refusal, and any other answer
// tells nothing.
func (e errand) run(ctx context.Context, addr, nonce string) verdict.Step {
	if addr == "" || e.host == "" {
		return probe.NoSite(e.name, "front end for it")
	}
	req, err := http.NewRequestWithContext(ctx, e.method, "https://"+bare(e.host)+e.path, strings.NewReader(nonce))
	if err != nil {
		return probe.Failed(e.name, verdict.Unknown, "%v", err)
	}
	answer, err := (&http.Transport{
		DisableKeepAlives: true,
		DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return probe.Dial(ctx, "tcp", addr) },
		// Whoever answers for the host is who would get the data.
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // see above
	}).RoundTrip(req)
	if err != nil {
		return probe.Denied(e.name, err)
	}
	defer answer.Body.Close()
	switch {
	case answer.StatusCode == http.StatusForbidden:
		return probe.Failed(e.name, verdict.HTTP403, "%s refused it", addr)
	case answer.StatusCode/100 == 2:
		return probe.Reached(e.name, "%s took it for %s, with status %d", addr, bare(e.host), answer.StatusCode)
	}
	return probe.Failed(e.name, verdict.Unknown, "%s answered with status %d", addr, answer.StatusCode)
}
