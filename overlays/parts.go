// SPDX-License-Identifier: Apache-2.0

package overlays

import (
	"fmt"
	"slices"
	"strings"
)

// Part is an overlay of a cluster of our own.
type Part struct {
	// Name is that of the target, where it is one.
	Name, Overlay string
	// Profile is the one that is tried on it; empty is what all of them need.
	Profile string
	// Free says that it needs no other part; all others need the first.
	Free bool
}

// parts are all of them, in the order in which they can be deployed.
var parts = []Part{
	{Name: "agent-sandbox-system", Overlay: System},
	{Name: "controls", Overlay: Controls, Free: true},
	{Name: "router", Overlay: Router},
	{Name: "reference", Overlay: Reference, Profile: BaseReference},
	{Name: "seed", Overlay: Seed, Profile: BaseReference},
	{Name: "default", Overlay: Default, Profile: "agent-sandbox-default"},
	{Name: "playground", Overlay: Playground, Profile: BasePlayground},
	{Name: "kode-gopher-local", Overlay: KodeGopherDev, Profile: BaseKodeGopherLocal},
	{Name: "kode-gopher-shared", Overlay: KodeGopherSharedDev, Profile: BaseKodeGopherShared},
}

// What stands for every profile, and what is deployed when nobody says which: an
// idle gVisor sandbox takes a twentieth of a core, and all profiles have eight.
const (
	AllProfiles    = "all"
	DefaultProfile = BaseReference
)

// Profiles names the profiles that [Parts] takes.
func Profiles() []string {
	var out []string
	for _, p := range parts {
		if p.Profile != "" && !slices.Contains(out, p.Profile) {
			out = append(out, p.Profile)
		}
	}
	return out
}

// Parts returns what is deployed for some profiles, or for [AllProfiles], in the
// order in which it can be. None is [DefaultProfile].
//
// Errors: there is no such profile.
func Parts(profiles ...string) ([]Part, error) {
	if len(profiles) == 0 {
		profiles = []string{DefaultProfile}
	}
	known := Profiles()
	for _, p := range profiles {
		if p != AllProfiles && !slices.Contains(known, p) {
			return nil, fmt.Errorf("there is no profile %.60q: it is %s or %s", p, strings.Join(known, ", "), AllProfiles)
		}
	}
	return slices.DeleteFunc(slices.Clone(parts), func(p Part) bool {
		return p.Profile != "" && !slices.Contains(profiles, p.Profile) && !slices.Contains(profiles, AllProfiles)
	}), nil
}
