// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"fmt"
	"slices"
	"strings"

	"github.com/stockade-dev/stockade/conformance/probe"
)

// Profile is a system as it is deployed, and what its text claims of it: the
// set of scenario ids that a run is about. It has every scenario that speaks
// for one of its claims, and each is in the report once: with a result, or among
// those that were not selected.
type Profile struct {
	ID string
	// Title says in a few words what is deployed.
	Title string
	// Target is the name, in the descriptor, of what is attacked.
	Target string
	// Claims are the ids that the deployment has to answer for.
	Claims []string
	// Only is the kind of deployment that its scenarios must be restricted to
	// (Scenario.Target); empty means those that are not restricted.
	Only string
	// Also are scenarios that no claim of the system's text asks for, or that are of
	// no kind of deployment, and that hold on a deployment that is hardened.
	Also []string
	// Most is the most that one sandbox may declare; zero is any. A limit that is
	// raised is kept as well as the right one, and no attack on it would notice.
	Most probe.Limits
	// Canary is the scenario of honest work that must hold in every mutant of
	// the deployment; empty where it has none. It need not be of the profile.
	Canary string
}

// DefaultProfile is what is run when nobody says otherwise.
const DefaultProfile = "agent-sandbox"

// Profiles are all that there are. A claim of a system that a deployment of it
// does not make (AS-05 speaks of the default policy, which the hardened
// reference replaces) is not in its list.
var Profiles = []Profile{
	{
		ID: DefaultProfile, Title: "Agent Sandbox with a policy of its own that lets nothing out", Target: "reference",
		Claims: numbered("AS", 1, 2, 3, 4, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17),
		// The text's own limits; of the disk it says nothing, and it is for logs alone.
		Most: probe.Limits{Memory: 512 << 20, CPU: 0.5, Storage: 128 << 20},
		Also: []string{"resources.process-bomb"}, Canary: coffee,
	}, {
		ID: "agent-sandbox-default", Title: "Agent Sandbox with the controller's default network policy", Target: "default",
		Claims: numbered("AS", 3, 4, 5, 11), Only: "seed",
		// The attacks on AS-04 try two doors. What the controller writes is read too.
		Also: []string{"sandbox.bare-sandbox-network", "sandbox.ingress-policy"},
	}, {
		ID: "kode-gopher-local", Title: "kode-gopher on a cluster of one user's own", Target: "kode-gopher-local",
		// Not KG-09 and KG-11: the text runs local snippets as their user, with the user's
		// own credentials. This deployment gives them none, and shows that it does not.
		Claims: numbered("KG", 1, 2, 3, 4, 6, 7, 8, 10, 13), Canary: gopher,
		Also: []string{"credentials.environment-secrets", "sandbox.claim-environment"},
	}, {
		ID: "kode-gopher-shared", Title: "kode-gopher as a server for several users", Target: "kode-gopher-shared",
		Claims: numbered("KG", 1, 2, 3, 4, 5, 7, 8, 9, 10, 11, 12, 14, 15, 16), Canary: gopher,
	}, {
		ID: "playground", Title: "An execution service that starts a Pod for each run", Target: "playground",
		Claims: numbered("PG", 1, 2, 3, 4, 5, 6, 7, 8, 9, 10),
		// The text has no numbers: what a run of a small program needs.
		Most: probe.Limits{Memory: 512 << 20, CPU: 0.5, Storage: 128 << 20},
		Also: []string{"resources.declared-limits"}, Canary: coffee,
	},
}

// What honest code does, by what a sandbox has to offer: Python, or Go.
const (
	coffee = "sandbox.coffee-totals"
	gopher = "kode-gopher.run-program"
)

func numbered(system string, numbers ...int) []string {
	out := make([]string, 0, len(numbers))
	for _, n := range numbers {
		out = append(out, fmt.Sprintf("%s-%02d", system, n))
	}
	return out
}

// ProfileByID returns a profile.
func ProfileByID(id string) (Profile, bool) {
	i := slices.IndexFunc(Profiles, func(p Profile) bool { return p.ID == id })
	if i < 0 {
		return Profile{}, false
	}
	return Profiles[i], true
}

// ProfileIDs lists the profiles by id.
func ProfileIDs() []string {
	out := make([]string, 0, len(Profiles))
	for _, p := range Profiles {
		out = append(out, p.ID)
	}
	return out
}

// Has tells whether a scenario belongs to the profile.
func (p Profile) Has(s *Scenario) bool {
	if slices.Contains(p.Also, s.ID) {
		return true
	}
	return s.Target == p.Only && slices.ContainsFunc(s.Claims, func(c string) bool { return slices.Contains(p.Claims, c) })
}

// Of returns the scenarios of a profile, in the order given.
func (p Profile) Of(all []*Scenario) []*Scenario {
	var out []*Scenario
	for _, s := range all {
		if p.Has(s) {
			out = append(out, s)
		}
	}
	return out
}

// ProfilesOf names the profiles that a scenario belongs to.
func ProfilesOf(s *Scenario) []string {
	var out []string
	for _, p := range Profiles {
		if p.Has(s) {
			out = append(out, p.ID)
		}
	}
	return out
}

// Pick returns the scenarios of a profile that the words select (see
// [Registry.Select]). A word that selects only scenarios of other profiles is
// an error that names those: it must not look as if it had been run.
func (r *Registry) Pick(p Profile, words ...string) ([]*Scenario, error) {
	if len(words) == 0 {
		return p.Of(r.All()), nil
	}
	for _, w := range words {
		found, err := r.Select(w)
		if err != nil {
			return nil, err
		}
		if len(p.Of(found)) > 0 {
			continue
		}
		others := map[string]bool{}
		for _, s := range found {
			for _, id := range ProfilesOf(s) {
				others[id] = true
			}
		}
		var names []string
		for _, id := range ProfileIDs() {
			if others[id] {
				names = append(names, id)
			}
		}
		return nil, fmt.Errorf("selecting scenarios: %q has none in the profile %s; --profile %s has", w, p.ID, strings.Join(names, " or "))
	}
	found, err := r.Select(words...)
	return p.Of(found), err
}
