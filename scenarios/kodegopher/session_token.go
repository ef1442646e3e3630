// SPDX-License-Identifier: Apache-2.0

package kodegopher

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stockade-dev/stockade/conformance/probe"
	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/verdict"
	"github.com/stockade-dev/stockade/scenarios/manifest"
	"github.com/stockade-dev/stockade/scenarios/reading"
)

// runToken accepts the metadata server's refusals, of a caller that is no run and
// of what a run does not get: 403, 404, and 405 for another method. It accepts
// Dropped at the port where runs begin, which a policy closes; Killed for a process
// that was ended with its run; and Confined for a lifetime that is short.
//
// Whether a token is still good after its run, the metadata server itself is asked,
// as a service that is shown the token would ask it (RFC 7662). The control shows
// that it says yes while a run goes on.
func runToken() suite.Scenario {
	return suite.Scenario{
		ID:    "kode-gopher.run-token",
		Title: "Have more of an identity than one run's token",
		About: "A program gets an access token from the metadata server that its environment names, as Google's libraries do. Then it asks for a second one, without the header " +
			"that browsers cannot send, through a proxy's header, for other identities, and at the port where runs begin; it looks for longer-lived keys in its files and its " +
			"environment, and leaves a process behind that goes on asking. After the run the token must be good for nothing, the process must get none, the next run's neither, and that run must " +
			"have another. Whether it is good, the target's own metadata server says; Google would take a token of its own until it expires. From where no run is, the suite asks itself. The control begins a run by hand, gets its token, and sees it recognised until the run ends.",
		Claims: []string{"KG-09"}, Kind: suite.Guarantee, Severity: suite.Critical,
		Techniques: []string{"T1552.005", "T1528", "T1550.001"},
		Refs: []string{"https://cloud.google.com/compute/docs/metadata/querying-metadata", "https://www.rfc-editor.org/rfc/rfc7662",
			"https://google.aip.dev/auth/4115"},
		Needs:      []suite.Feature{suite.RunIdentity},
		Ask:        stealTokens,
		AskControl: playRun,
		Accept: []verdict.Class{verdict.HTTP403, verdict.Absent, verdict.Unsupported, verdict.Dropped, verdict.Killed,
			verdict.Confined},
		As:      []string{"user4"},
		Timeout: sessionTime,
		Mutants: []string{"kode-gopher-shared-token-grace", "kode-gopher-shared-no-sweep", "kode-gopher-shared-federated-token", "kode-gopher-shared-no-run-identity"},
	}
}

// The metadata server's places, and the header without which it says nothing.
const (
	metadataHost = "$GCE_METADATA_HOST"
	accounts     = "/computeMetadata/v1/instance/service-accounts/"
	tokenPath    = accounts + "default/token"
	flavor       = "Metadata-Flavor: Google"
	latePath     = "/app/persist/late"
	// longest is how long a token of a run may live, in seconds: the longest run
	// that the server gives, and a minute for the clocks.
	longest = 660
	// pause is how long a process that was left behind has to ask again, and
	// lingers for how long it goes on asking when nobody ends it: longer than a
	// run may take. The agent has the same number.
	pause   = 1500 * time.Millisecond
	lingers = 40 * time.Second
)

// decoy looks like a key, so that the search for keys has one to find. It is in
// two parts, so that this text is none.
const (
	decoyPath = "/tmp/decoy"
	decoy     = "-----BEGIN PRIVATE " + "KEY-----"
)

func metadataTask(path string, header ...string) task {
	return task{Do: "ask", Address: metadataHost, Path: path, Header: header}
}

func stealTokens(ctx context.Context, env *suite.APIEnv) []verdict.Step {
	control, step := addressOf(ctx, env, controlService)
	if step != nil {
		return []verdict.Step{*step}
	}
	s, step := enter(ctx, env, "user4")
	if step != nil {
		return []verdict.Step{*step}
	}
	names := []string{
		"ask without the header", "ask with another flavor", "ask through a proxy's header", "ask for another identity's token",
		"ask for an ID token", "ask for the node's attributes", "ask by another method",
	}
	first, step := order(ctx, s, nil,
		metadataTask(tokenPath, flavor), metadataTask(tokenPath, flavor), task{Do: "linger", Address: metadataHost, Path: tokenPath, Header: []string{flavor}, Text: latePath},
		metadataTask(tokenPath), metadataTask(tokenPath, "Metadata-Flavor: google"), metadataTask(tokenPath, flavor, "X-Forwarded-For: 127.0.0.1"),
		metadataTask(accounts+"owner@example.iam.gserviceaccount.com/token", flavor), metadataTask(accounts+"default/identity?audience=stockade", flavor),
		metadataTask("/computeMetadata/v1/instance/attributes/kube-env", flavor), task{Do: "ask", Address: metadataHost, Path: tokenPath, Header: []string{flavor}, Method: http.MethodPost},
		task{Do: "dial", Address: control}, task{Do: "plant", Path: decoyPath, Text: decoy}, task{Do: "secrets"})
	if step != nil {
		return []verdict.Step{*step}
	}
	ended := time.Now()
	steps := []verdict.Step{given("get a token for the run", first.Did[0]), left(first.Did[2])}
	token, again := tokenIn(first.Did[0].Text), tokenIn(first.Did[1].Text)
	steps = append(steps, lifetime(token), another(token, again))
	for i, name := range names {
		steps = append(steps, heard(name, first.Did[3+i]))
	}
	// A connection, which a policy denies by silence.
	steps = append(steps, first.Did[3+len(names)].read("reach the port where runs begin"))
	steps = append(steps, judgeSecrets(first.Did[len(first.Did)-1]))
	steps = append(steps, stillGood(ctx, env, "use the token after its run", token.Value))
	steps = append(steps, fromNowhere(ctx, env)...)
	t := time.NewTimer(pause)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
	second, step := order(ctx, s, nil, metadataTask(tokenPath, flavor), task{Do: "pause"}, task{Do: "read", Path: latePath})
	if step != nil {
		return append(steps, *step)
	}
	return append(steps, given("get a token for the next run", second.Did[0]), inherited(token, tokenIn(second.Did[0].Text)),
		judgeLate(second.Did[2], ended))
}

// heard reads what came of a question to the metadata server, which a run may
// reach. Only an answer of the server's refuses anything: where nobody answered,
// the server may be away, or the network of a sandbox that has just begun. It is
// a pure function.
func heard(name string, d did) verdict.Step {
	step := d.read(name)
	if d.Code == 0 {
		step = unknown(step)
	}
	return step
}

// given tells whether a run was given its token.
func given(name string, d did) verdict.Step { return mustWork(heard(name, d)) }

// judgeSecrets reads the search for keys: of the decoy alone. A search that did
// not find that one has shown nothing. It is a pure function.
func judgeSecrets(d did) verdict.Step {
	const name = "find a key or a token that outlives the run"
	places := strings.Split(d.Text, ", ")
	more := slices.DeleteFunc(slices.Clone(places), func(place string) bool { return place == decoyPath })
	switch {
	case !d.OK:
		return unknown(d.read(name))
	case len(more) > 0:
		return probe.Reached(name, "%.200q", more)
	}
	return probe.Failed(name, verdict.Absent, "nothing but the decoy that was planted")
}

// left tells whether a process could be left behind at all; that it can is no
// breach, and that it cannot says nothing of tokens.
func left(d did) verdict.Step {
	return mustWork(unknown(d.read("leave a process behind")))
}

// accessToken is a metadata server's answer.
type accessToken struct {
	Value   string `json:"access_token"`
	Expires int    `json:"expires_in"` // seconds
}

func tokenIn(body string) (t accessToken) {
	if json.Unmarshal([]byte(body), &t) != nil {
		return accessToken{}
	}
	return t
}

// The judges of tokens are pure functions. No value gets into a step: a digest
// tells two apart.

func lifetime(t accessToken) verdict.Step {
	const name = "have a token that outlives every run"
	switch {
	case t.Value == "":
		return probe.Failed(name, verdict.Unknown, "there is no token")
	case t.Expires > longest:
		return probe.Reached(name, "it lives for %d s", t.Expires)
	}
	return probe.Failed(name, verdict.Confined, "it lives for %d s", t.Expires)
}

func another(first, second accessToken) verdict.Step {
	const name = "get a second token in the same run"
	switch {
	case first.Value == "" || second.Value == "":
		return probe.Failed(name, verdict.Unknown, "there is no token")
	case first.Value != second.Value:
		return probe.Reached(name, "digests %s and %s", probe.Digest([]byte(first.Value)), probe.Digest([]byte(second.Value)))
	}
	return probe.Failed(name, verdict.Absent, "it is the same one, digest %s", probe.Digest([]byte(first.Value)))
}

func inherited(before, now accessToken) verdict.Step {
	const name = "be given the token of the run before"
	switch {
	case before.Value == "" || now.Value == "":
		return probe.Failed(name, verdict.Unknown, "there is no token")
	case before.Value == now.Value:
		return probe.Reached(name, "digest %s", probe.Digest([]byte(now.Value)))
	}
	return probe.Failed(name, verdict.Absent, "digests %s and %s", probe.Digest([]byte(before.Value)), probe.Digest([]byte(now.Value)))
}

// judgeLate reads what a process wrote that was left behind: after its run it must
// have got no token, and none of the next run's either, in whose sandbox it would
// be. It writes the time of each answer by the sandbox's clock, which is its node's;
// a little is left out after the run's end. That it was ended says something of a
// process only that got a token in the run, and would have gone on.
func judgeLate(d did, ended time.Time) verdict.Step {
	const name = "get a token by a process that was left behind"
	if !d.OK {
		return unknown(d.read(name))
	}
	within, refused := 0, 0
	var first time.Time // that it got one
	from := ended.Add(200 * time.Millisecond)
	for line := range strings.SplitSeq(d.Text, "\n") {
		at, code, _ := strings.Cut(line, " ")
		millis, err := strconv.ParseInt(at, 10, 64)
		if err != nil {
			continue
		}
		t := time.UnixMilli(millis)
		if first.IsZero() && code == "200" && t.Before(ended) {
			first = t
		}
		if t.Before(from) {
			continue
		}
		within++
		switch code {
		case "200":
			return probe.Reached(name, "%s after the run's end", t.Sub(ended).Round(time.Millisecond))
		case "403":
			refused++
		}
	}
	switch {
	case first.IsZero():
		return probe.Failed(name, verdict.Unknown, "it got none in the run either")
	case within == 0 && !first.Add(lingers).After(from.Add(time.Second)):
		return probe.Failed(name, verdict.Unknown, "the run took so long that it ended by itself")
	case within == 0:
		return probe.Failed(name, verdict.Killed, "it asked no more: it was ended with the run")
	case refused == within:
		return probe.Failed(name, verdict.HTTP403, "it was refused %d times", refused)
	}
	return probe.Failed(name, verdict.Unknown, "of %d answers %d were refusals", within, refused)
}

// stillGood asks the metadata server whether a token is that of a run that goes
// on.
func stillGood(ctx context.Context, env *suite.APIEnv, name, token string) verdict.Step {
	if token == "" {
		return probe.Failed(name, verdict.Unknown, "there is no token")
	}
	r, err := introspect(ctx, env, token)
	return judgeActive(name, r, err)
}

func introspect(ctx context.Context, env *suite.APIEnv, token string) (suite.Reply, error) {
	return env.Send(ctx, controlService, controlPort, suite.Message{
		Method: http.MethodPost, Path: "/v1/introspect", Body: url.Values{"token": {token}}.Encode(),
		Header: http.Header{"Content-Type": {"application/x-www-form-urlencoded"}},
	})
}

// judgeActive is a pure function.
func judgeActive(name string, r suite.Reply, err error) verdict.Step {
	var says struct {
		Active *bool `json:"active"`
	}
	switch {
	case err != nil:
		return probe.Failed(name, verdict.TransportError, "%v", err)
	case r.Code != http.StatusOK || json.Unmarshal([]byte(r.Body), &says) != nil || says.Active == nil:
		return probe.Failed(name, verdict.Unknown, "status %d, and no word on the token", r.Code)
	case *says.Active:
		return probe.Reached(name, "the metadata server takes it for that of a run that goes on")
	}
	return probe.Failed(name, verdict.Absent, "the metadata server knows no run of it")
}

// fromNowhere asks the metadata server from where no run is.
func fromNowhere(ctx context.Context, env *suite.APIEnv) []verdict.Step {
	plain := http.Header{"Metadata-Flavor": {"Google"}}
	passed := plain.Clone()
	passed.Set("X-Forwarded-For", env.Site.Own)
	var steps []verdict.Step
	for _, a := range []struct {
		name   string
		header http.Header
	}{{"ask without a run", plain}, {"ask without a run, for a sandbox's address", passed}} {
		r, err := askToken(ctx, env, a.header)
		steps = append(steps, replied(a.name, r, err))
	}
	return steps
}

func askToken(ctx context.Context, env *suite.APIEnv, header http.Header) (suite.Reply, error) {
	return env.Send(ctx, tokenService, tokenPort, suite.Message{Method: http.MethodGet, Path: tokenPath, Header: header})
}

// playRun begins a run at the metadata server's own loopback, which is where the
// suite's requests come from, and shows that a token is there and recognised
// while it goes on. It speaks the server's side of the protocol: with another
// implementation it fails, and nothing is concluded.
func playRun(ctx context.Context, env *suite.APIEnv) []verdict.Step {
	if env.Send == nil {
		return []verdict.Step{probe.Failed("begin a run", verdict.ToolMissing, "the target has no server of its own")}
	}
	id := "stockade-" + env.Nonce
	body, err := json.Marshal(map[string]any{"id": id, "addrs": []string{"127.0.0.1", "::1"}, "seconds": 60})
	if err != nil {
		return []verdict.Step{probe.Failed("begin a run", verdict.Unknown, "%v", err)}
	}
	end := func(ctx context.Context) (suite.Reply, error) {
		return env.Send(ctx, controlService, controlPort, suite.Message{Method: http.MethodDelete, Path: "/v1/runs/" + id})
	}
	r, err := env.Send(ctx, controlService, controlPort, suite.Message{
		Method: http.MethodPost, Path: "/v1/runs", Body: string(body), Header: http.Header{"Content-Type": {"application/json"}}})
	steps := []verdict.Step{replied("begin a run", r, err)}
	if !steps[0].OK {
		return steps
	}
	r, err = askToken(ctx, env, http.Header{"Metadata-Flavor": {"Google"}})
	steps = append(steps, replied("get its token", r, err), stillGood(ctx, env, "have the token recognised", tokenIn(r.Body).Value))
	r, err = end(context.WithoutCancel(ctx))
	return append(steps, replied("end the run", r, err))
}

// addressOf is where a Service of the target's own listens, at its first port.
func addressOf(ctx context.Context, env *suite.APIEnv, service string) (string, *verdict.Step) {
	name := "find the Service " + service
	o, step := reading.Object(ctx, env, name, "/api/v1/namespaces/"+env.Namespace+"/services/"+service)
	if step != nil {
		return "", step
	}
	ip, _ := manifest.At(o, "spec", "clusterIP").(string)
	ports, _ := manifest.At(o, "spec", "ports").([]any)
	if ip == "" || len(ports) == 0 {
		return "", &verdict.Step{Name: name, Class: verdict.Unknown, Detail: "the API server names no address of it"}
	}
	number, ok := manifest.At(ports[0], "port").(float64)
	if !ok {
		return "", &verdict.Step{Name: name, Class: verdict.Unknown, Detail: "the API server names no port of it"}
	}
	return net.JoinHostPort(ip, strconv.Itoa(int(number))), nil
}

// runIdentity shows the exposure that the text admits: a program is its identity,
// for as long as it runs. More than that would be another identity, one that can
// speak for the account elsewhere, or one that stays.
func runIdentity() suite.Scenario {
	return suite.Scenario{
		ID:    "kode-gopher.run-identity",
		Title: "Act as the identity that a run is given",
		About: "A program learns whose identity it has, with which scopes, and gets its access token, which the text discloses: what the identity may do, a program may. Then it looks " +
			"for more: another account, an ID token that would prove to others to be the account, and the use of the token after the run. The control begins a run by hand and " +
			"sees its token recognised.",
		Claims: []string{"KG-11"}, Kind: suite.Limit, Severity: suite.Medium,
		Techniques: []string{"T1078.004", "T1550.001"},
		Refs:       []string{"https://cloud.google.com/compute/docs/access/service-accounts"},
		Needs:      []suite.Feature{suite.RunIdentity},
		Ask:        actAsIdentity,
		AskControl: playRun,
		Accept:     []verdict.Class{verdict.HTTP403, verdict.Absent},
		As:         []string{"user4"},
		Timeout:    sessionTime,
		Mutants:    []string{"kode-gopher-shared-token-grace"},
	}
}

func actAsIdentity(ctx context.Context, env *suite.APIEnv) []verdict.Step {
	s, step := enter(ctx, env, "user4")
	if step != nil {
		return []verdict.Step{*step}
	}
	a, step := order(ctx, s, nil,
		metadataTask(accounts+"default/email", flavor), metadataTask(accounts+"default/scopes", flavor), metadataTask(tokenPath, flavor),
		metadataTask(accounts, flavor), metadataTask(accounts+"owner@example.iam.gserviceaccount.com/token", flavor),
		metadataTask(accounts+"default/identity?audience=stockade", flavor))
	if step != nil {
		return []verdict.Step{*step}
	}
	steps := disclosed([]verdict.Step{
		a.Did[0].read("learn whose identity the run has"), a.Did[1].read("learn its scopes"), a.Did[2].read("get its access token")})
	email := strings.TrimSpace(a.Did[0].Text)
	return append(steps, otherAccounts(email, a.Did[3]),
		heard("get another account's token", a.Did[4]), heard("get an ID token", a.Did[5]),
		stillGood(ctx, env, "keep the identity after the run", tokenIn(a.Did[2].Text).Value))
}

// otherAccounts looks for an account beside the run's own. It is a pure function.
func otherAccounts(email string, d did) verdict.Step {
	const name = "find another account"
	if !d.OK || email == "" {
		return unknown(d.read(name))
	}
	for line := range strings.FieldsSeq(d.Text) {
		if account := strings.TrimSuffix(line, "/"); account != "default" && account != email {
			return probe.Reached(name, "%.80q", account)
		}
	}
	return probe.Failed(name, verdict.Absent, "there is none beside %.80q", email)
}
