// SPDX-License-Identifier: Apache-2.0

package standin

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// kind is what the stand-in knows of one type of resource.
type kind struct {
	// api must be switched on in the project before anything of the type can be
	// done; empty for what is beyond the project.
	api string
	// id is Google's name of a resource with these inputs.
	id func(c *Cloud, v values) string
	// name is what a name must look like, and named the property that holds it.
	name  *regexp.Regexp
	named string
	// autoname: the provider makes a name up where none is given.
	autoname bool
	// shared: it may be there already, made by somebody else, without a conflict.
	shared bool
	// defaults are what the provider adds to the inputs.
	defaults values
	// oneOf are the words that the provider takes, by path.
	oneOf map[string][]string
	// excludes are pairs of properties of which the provider takes one.
	excludes [][2]string
	// replace are the properties that cannot be changed in place. A value that is
	// a map or a list counts as a whole.
	replace []string
	// inPlace may say of a property in replace that this change of it can be done
	// in place all the same.
	inPlace func(path string, before, after values) bool
	// check is what else the provider refuses before it asks Google.
	check func(v values) []failure
	// accept is what Google refuses to make or to change.
	accept func(c *Cloud, id string, v values) error
	// keep is what Google refuses to delete.
	keep func(c *Cloud, r *record) error
	// gone is what else goes when a resource is deleted.
	gone func(c *Cloud, r *record)
	// done is what else comes when a resource is made or changed.
	done func(c *Cloud, v values)
	// dictated is, by path, what Google makes of a property whatever was asked for;
	// nil where it goes by that. The provider keeps what Google says, and compares it
	// with what is asked for next.
	dictated map[string]func(v values) any
	// computed are the outputs that are no inputs.
	computed func(c *Cloud, r *record) values
}

// The types that refer to each other.
const (
	typeNetwork    = "gcp:compute/network:Network"
	typeSubnet     = "gcp:compute/subnetwork:Subnetwork"
	typeRouter     = "gcp:compute/router:Router"
	typeNat        = "gcp:compute/routerNat:RouterNat"
	typeFirewall   = "gcp:compute/firewall:Firewall"
	typeCluster    = "gcp:container/cluster:Cluster"
	typePool       = "gcp:container/nodePool:NodePool"
	typeZone       = "gcp:dns/managedZone:ManagedZone"
	typeRecord     = "gcp:dns/recordSet:RecordSet"
	typeService    = "gcp:projects/service:Service"
	typeProjectIAM = "gcp:projects/iAMMember:IAMMember"
	typeAccount    = "gcp:serviceaccount/account:Account"
	typeAccountIAM = "gcp:serviceaccount/iAMMember:IAMMember"
	typeRepository = "gcp:artifactregistry/repository:Repository"
	typeRepoIAM    = "gcp:artifactregistry/repositoryIamMember:RepositoryIamMember"
	typeBinauthz   = "gcp:binaryauthorization/policy:Policy"
	typeLevel      = "gcp:accesscontextmanager/accessLevel:AccessLevel"
	typePerimeter  = "gcp:accesscontextmanager/servicePerimeter:ServicePerimeter"
)

const (
	apiCompute   = "compute.googleapis.com"
	apiContainer = "container.googleapis.com"
	apiDNS       = "dns.googleapis.com"
	apiIAM       = "iam.googleapis.com"
	apiProjects  = "cloudresourcemanager.googleapis.com"
	apiRegistry  = "artifactregistry.googleapis.com"
	apiBinauthz  = "binaryauthorization.googleapis.com"
)

// rfc1035 is what most names look like.
var rfc1035 = regexp.MustCompile(`^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$`)

// kinds are all that the stand-in knows, by type.
var kinds = map[string]*kind{
	typeNetwork:    networkKind,
	typeSubnet:     subnetKind,
	typeRouter:     routerKind,
	typeNat:        natKind,
	typeFirewall:   firewallKind,
	typeCluster:    clusterKind,
	typePool:       poolKind,
	typeZone:       zoneKind,
	typeRecord:     recordKind,
	typeService:    serviceKind,
	typeProjectIAM: projectIAMKind,
	typeAccount:    accountKind,
	typeAccountIAM: accountIAMKind,
	typeRepository: repositoryKind,
	typeRepoIAM:    repoIAMKind,
	typeBinauthz:   binauthzKind,
	typeLevel:      levelKind,
	typePerimeter:  perimeterKind,
}

// vet returns what the provider itself refuses.
func (k *kind) vet(v values) (out []failure) {
	if n := text(v, k.named); k.name != nil && n != "" && !k.name.MatchString(n) {
		out = append(out, failure{k.named, fmt.Sprintf("%.80q is not of the form %s", n, k.name)})
	}
	for path, words := range k.oneOf {
		if s := text(v, path); s != "" && !slices.Contains(words, s) {
			out = append(out, failure{path, fmt.Sprintf("%.80q is none of %s", s, strings.Join(words, ", "))})
		}
	}
	for _, pair := range k.excludes {
		if has(v, pair[0]) && has(v, pair[1]) {
			out = append(out, failure{pair[1], fmt.Sprintf("it conflicts with %s", pair[0])})
		}
	}
	if k.check != nil {
		out = append(out, k.check(v)...)
	}
	slices.SortFunc(out, func(a, b failure) int { return strings.Compare(a.path, b.path) })
	return out
}

// replaces returns the properties for whose change a new resource is needed.
func (k *kind) replaces(before, after values) (out []string) {
	for _, path := range k.replace {
		changed := map[string]rune{}
		differences(raw(before, path), raw(after, path), path, changed)
		if len(changed) > 0 && (k.inPlace == nil || !k.inPlace(path, before, after)) {
			out = append(out, path)
		}
	}
	return out
}
