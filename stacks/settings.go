// SPDX-License-Identifier: Apache-2.0

package stacks

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi/config"

	"github.com/stockade-dev/stockade/conformance/plan"
	"github.com/stockade-dev/stockade/infra/gke"
	"github.com/stockade-dev/stockade/overlays"
)

// settings are what a stack's file says about an environment on Google Cloud.
// The tag is the key after "stockade:"; docs/gke.md explains each.
type settings struct {
	// Project is the id of the project, which must be there already. Required.
	Project string `key:"project"`
	// Region of everything. Default: us-central1.
	Region string `key:"region"`
	// Zones of the nodes, in the region. Default: none, GKE chooses.
	Zones []string `key:"zones"`
	// Name of what is made, at most 22 characters. Default: stockade- and the
	// environment.
	Name string `key:"name"`
	// ThrowAway takes the protection from deletion away. Default: false.
	ThrowAway bool `key:"throwAway"`
	// ReleaseChannel is RAPID, REGULAR, STABLE or EXTENDED. Default: REGULAR.
	ReleaseChannel string `key:"releaseChannel"`
	// MaintenanceHour is when upgrades may begin on a weekend, 0 to 17 UTC; they
	// have six hours. Default: 2.
	MaintenanceHour int `key:"maintenanceHour"`
	// ExternalControlPlane lets kubectl in from outside of the VPC, behind IAM.
	// Default: false.
	ExternalControlPlane bool `key:"externalControlPlane"`
	// ControllerImage and SandboxImage are in the stack's registry, by digest. What
	// runs in the cluster is deployed once both are set: the registry has to be
	// there before an image can be pushed. Default: none.
	ControllerImage string `key:"controllerImage"`
	SandboxImage    string `key:"sandboxImage"`
	// SecretsKey is a Cloud KMS key for Kubernetes Secrets. Default: none.
	SecretsKey string `key:"secretsKey"`

	// NodeRange, PodRange and ServiceRange must be in RFC 1918 and apart.
	// Defaults: 10.10.0.0/20, 10.20.0.0/16, 10.30.0.0/20.
	NodeRange    netip.Prefix `key:"nodeRange"`
	PodRange     netip.Prefix `key:"podRange"`
	ServiceRange netip.Prefix `key:"serviceRange"`
	// Egress to public addresses is all or https. Default: all, which is what the
	// default policy of an Agent Sandbox discloses. The shared server has https
	// and nothing else.
	Egress gke.Egress `key:"egress"`

	// SystemMachine and SandboxMachine are machine types that take Persistent Disks.
	// Defaults: e2-standard-4 and n2-standard-4. Not on Autopilot.
	SystemMachine  string `key:"systemMachine"`
	SandboxMachine string `key:"sandboxMachine"`
	// SystemNodes and SandboxNodes are how many there may be at most, over all
	// zones, 1 to 100; of the system's one in each zone at least, with which GKE
	// begins. Defaults: 3 and 3. Not on Autopilot.
	SystemNodes  int `key:"systemNodes"`
	SandboxNodes int `key:"sandboxNodes"`
	// PodPids bounds the processes of one sandbox, 1024 to 16384. Default: 1024.
	// Not on Autopilot.
	PodPids int `key:"podPids"`

	shared
}

// shared are the settings that only the shared server has.
type shared struct {
	// GoModuleProxy is the host of the Go module proxy that snippets may use.
	// Required.
	GoModuleProxy string `key:"goModuleProxy"`
	// EgressAllow are further hosts that they may reach, port 443; a * stands for
	// one first label. Required, and may be empty.
	EgressAllow []string `key:"egressAllow"`
	// TokenIssuer is the Kubernetes service account that hands out short-lived
	// tokens, NAMESPACE/NAME. Default: stockade-system/token-issuer.
	TokenIssuer string `key:"tokenIssuer"`
	// SandboxRoles are what snippets may do in the project. Default: none.
	SandboxRoles []string `key:"sandboxRoles"`
	// ProjectNumber is the project's number. Required.
	ProjectNumber string `key:"projectNumber"`
	// AccessPolicy is the number of the organization's access policy. Required.
	AccessPolicy string `key:"accessPolicy"`
	// Operators are who may come into the perimeter, user:… or serviceAccount:…,
	// and OperatorRanges from which addresses, public ones, none wider than /16 (IPv6: /32).
	// Both required.
	Operators      []string `key:"operators"`
	OperatorRanges []string `key:"operatorRanges"`
	// PerimeterEnforced makes the perimeter block; before that it is a dry run,
	// which only logs. Default: false.
	PerimeterEnforced bool `key:"perimeterEnforced"`
}

// What values look like.
var (
	projectID   = regexp.MustCompile(`^[a-z][a-z0-9-]{4,28}[a-z0-9]$`)
	digits      = regexp.MustCompile(`^[0-9]{1,20}$`)
	regionName  = regexp.MustCompile(`^[a-z]+-[a-z]+[0-9]{1,2}$`)
	objectName  = regexp.MustCompile(`^[a-z]([a-z0-9-]{0,20}[a-z0-9])?$`)
	machineType = regexp.MustCompile(`^[a-z][0-9][a-z]{0,2}-[a-z0-9-]+$`)
	// hyperdiskOnly are machine types that do not take the Persistent Disks of our nodes.
	// https://docs.cloud.google.com/compute/docs/disks/hyperdisks
	hyperdiskOnly = regexp.MustCompile(`^(n4|c4)`)
	imageDigest   = regexp.MustCompile(`^[a-z0-9-]+-docker\.pkg\.dev(/[a-z0-9._-]+)+@sha256:[0-9a-f]{64}$`)
	kmsKey        = regexp.MustCompile(`^projects/[^/]+/locations/[^/]+/keyRings/[^/]+/cryptoKeys/[^/]+$`)
	hostName      = regexp.MustCompile(`^(\*\.)?([a-z0-9]([a-z0-9-]*[a-z0-9])?\.)+[a-z]([a-z0-9-]*[a-z0-9])?$`)
	plainHost     = regexp.MustCompile(`^([a-z0-9]([a-z0-9-]*[a-z0-9])?\.)+[a-z]([a-z0-9-]*[a-z0-9])?$`)
	kubeName      = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?/[a-z0-9]([a-z0-9-]*[a-z0-9])?$`)
	operator      = regexp.MustCompile(`^(user|serviceAccount):[^@\s*]+@[^@\s*]+$`)
)

// readSettings reads and checks everything that the environment needs. The
// error names every key that is wrong, not only the first.
func readSettings(ctx *pulumi.Context, environment string) (settings, error) {
	r := &reader{cfg: config.New(ctx, namespace)}
	s := settings{
		Project:              r.like("project", "", projectID, "the id of a project, 6 to 30 of a-z, 0-9 and -"),
		Region:               r.like("region", "us-central1", regionName, "a region, like us-central1"),
		Zones:                r.list("zones", false),
		Name:                 r.like("name", "stockade-"+environment, objectName, "1 to 22 of a-z, 0-9 and -"),
		ThrowAway:            r.flag("throwAway"),
		ReleaseChannel:       r.oneOf("releaseChannel", "REGULAR", "RAPID", "REGULAR", "STABLE", "EXTENDED"),
		MaintenanceHour:      r.number("maintenanceHour", 2, 0, 17),
		ExternalControlPlane: r.flag("externalControlPlane"),
		NodeRange:            r.private("nodeRange", "10.10.0.0/20"),
		PodRange:             r.private("podRange", "10.20.0.0/16"),
		ServiceRange:         r.private("serviceRange", "10.30.0.0/20"),
	}
	if r.cfg.Get("secretsKey") != "" {
		s.SecretsKey = r.like("secretsKey", "", kmsKey, "a Cloud KMS key, projects/…/locations/…/keyRings/…/cryptoKeys/…")
		// A regional cluster takes a key of its own region alone.
		if kmsKey.MatchString(s.SecretsKey) && !strings.Contains(s.SecretsKey, "/locations/"+s.Region+"/") {
			r.wrong("secretsKey", s.SecretsKey, "a key in the region "+s.Region)
		}
	}
	s.ControllerImage, s.SandboxImage = r.images(fmt.Sprintf("%s-docker.pkg.dev/%s/%s/", s.Region, s.Project, s.Name))
	for _, z := range s.Zones {
		if letter, ok := strings.CutPrefix(z, s.Region+"-"); !ok || len(letter) != 1 || letter < "a" || letter > "z" {
			r.wrong("zones", z, "zones of "+s.Region)
		}
	}
	r.apart(s)
	switch environment {
	case "gke-shared":
		s.shared = r.shared()
		s.Egress = gke.Egress(r.oneOf("egress", string(gke.EgressHTTPS), string(gke.EgressHTTPS)))
	default:
		s.Egress = gke.Egress(r.oneOf("egress", string(gke.EgressAll), string(gke.EgressAll), string(gke.EgressHTTPS)))
	}
	if environment != "gke-autopilot" {
		s.SystemMachine = r.machine("systemMachine", "e2-standard-4")
		s.SandboxMachine = r.machine("sandboxMachine", "n2-standard-4")
		s.SystemNodes = r.number("systemNodes", 3, 1, 100)
		s.SandboxNodes = r.number("sandboxNodes", 3, 1, 100)
		// GKE begins with one node of the system in each zone.
		if n := s.zones(); s.SystemNodes > 0 && s.SystemNodes < n {
			r.wrong("systemNodes", strconv.Itoa(s.SystemNodes), fmt.Sprintf("at least %d, one for each zone: name fewer in %s:zones", n, namespace))
		}
		s.PodPids = r.number("podPids", 1024, 1024, plan.MaxPids)
	}
	if err := errors.Join(r.errs...); err != nil {
		return settings{}, fmt.Errorf("reading the settings of %s: %w", environment, err)
	}
	return s, nil
}

// zones is in how many zones nodes are. Where it is GKE's choice, it chooses three.
func (s settings) zones() int {
	if len(s.Zones) == 0 {
		return 3
	}
	return len(s.Zones)
}

func (r *reader) shared() shared {
	s := shared{
		GoModuleProxy:     r.like("goModuleProxy", "", plainHost, "the host name of a Go module proxy, without a *"),
		EgressAllow:       r.list("egressAllow", true),
		TokenIssuer:       r.like("tokenIssuer", "stockade-system/token-issuer", kubeName, "NAMESPACE/NAME"),
		SandboxRoles:      r.list("sandboxRoles", false),
		ProjectNumber:     r.like("projectNumber", "", digits, "the project's number"),
		AccessPolicy:      r.like("accessPolicy", "", digits, "the number of an access policy"),
		Operators:         r.some("operators"),
		OperatorRanges:    r.some("operatorRanges"),
		PerimeterEnforced: r.flag("perimeterEnforced"),
	}
	// Whatever runs in a sandbox is the service account of its Pod to Google.
	if namespace, _, _ := strings.Cut(s.TokenIssuer, "/"); namespace == overlays.ReferenceNamespace {
		r.wrong("tokenIssuer", s.TokenIssuer, "a service account outside of the sandboxes' namespace")
	}
	for _, h := range s.EgressAllow {
		// *.com is not somebody's.
		if !hostName.MatchString(h) || strings.Count(strings.TrimPrefix(h, "*."), ".") == 0 {
			r.wrong("egressAllow", h, "host names of at least two labels, where a first one may be *")
		}
	}
	for _, role := range s.SandboxRoles {
		if !slices.Contains(plan.Roles, role) {
			r.wrong("sandboxRoles", role, "any of "+strings.Join(plan.Roles, ", "))
		}
	}
	for _, o := range s.Operators {
		if !operator.MatchString(o) {
			r.wrong("operators", o, "user:EMAIL or serviceAccount:EMAIL")
		}
	}
	for _, x := range s.OperatorRanges {
		p, err := netip.ParsePrefix(x)
		// Google sees a caller's public address, and takes no other for a level.
		if err != nil || p != p.Masked() || p.Addr().IsPrivate() || p.Addr().Is4() && p.Bits() < 16 || p.Addr().Is6() && p.Bits() < 32 {
			r.wrong("operatorRanges", x, "public address ranges of at most /16, or /32 for IPv6")
		}
	}
	return s
}

// reader reads values and gathers what is wrong with them.
type reader struct {
	cfg  *config.Config
	errs []error
}

func (r *reader) wrong(key, got, want string) {
	if got == "" {
		r.errs = append(r.errs, fmt.Errorf("%s:%s must be set: %s", namespace, key, want))
		return
	}
	r.errs = append(r.errs, fmt.Errorf("%s:%s is %.80q: it must be %s", namespace, key, got, want))
}

// like reads a text that fits the expression. Without a default it is required.
func (r *reader) like(key, def string, re *regexp.Regexp, want string) string {
	got := r.cfg.Get(key)
	if got == "" {
		got = def
	}
	if !re.MatchString(got) {
		r.wrong(key, got, want)
	}
	return got
}

// machine reads a machine type. Google would refuse one without Persistent Disks only
// after the cluster is there.
func (r *reader) machine(key, def string) string {
	got := r.like(key, def, machineType, "a machine type, like "+def)
	if hyperdiskOnly.MatchString(got) {
		r.wrong(key, got, "one that takes Persistent Disks, which nodes have here: N4 and C4 machines take Hyperdisk alone")
	}
	return got
}

// images reads both or neither: half of them would be half a deployment. Nodes pull
// from the stack's own registry, and the image policy lets no other image run.
func (r *reader) images(registry string) (controller, sandbox string) {
	const controllerKey, sandboxKey = "controllerImage", "sandboxImage"
	if r.cfg.Get(controllerKey) == "" && r.cfg.Get(sandboxKey) == "" {
		return "", ""
	}
	own := func(key string) string {
		got := r.cfg.Get(key)
		if !imageDigest.MatchString(got) || !strings.HasPrefix(got, registry) {
			r.wrong(key, got, "an image in the stack's registry by its digest, "+registry+"…@sha256:…")
		}
		return got
	}
	return own(controllerKey), own(sandboxKey)
}

func (r *reader) oneOf(key, def string, allowed ...string) string {
	got := r.cfg.Get(key)
	if got == "" {
		got = def
	}
	if !slices.Contains(allowed, got) {
		r.wrong(key, got, strings.Join(allowed, " or "))
	}
	return got
}

// flag reads true or false; false is always the default, and the safe one.
func (r *reader) flag(key string) bool { return r.oneOf(key, "false", "false", "true") == "true" }

func (r *reader) number(key string, def, low, high int) int {
	got := r.cfg.Get(key)
	if got == "" {
		return def
	}
	n, err := strconv.Atoi(got)
	if err != nil || n < low || n > high {
		r.wrong(key, got, fmt.Sprintf("a number from %d to %d", low, high))
	}
	return n
}

// list reads a list of texts, which Pulumi hands over as JSON. A required one
// must be there, be it empty.
func (r *reader) list(key string, required bool) []string {
	got := r.cfg.Get(key)
	if got == "" && !required {
		return nil
	}
	var out []string
	if got == "" || json.Unmarshal([]byte(got), &out) != nil {
		r.wrong(key, got, "a list")
	}
	return out
}

// some reads a list with something in it.
func (r *reader) some(key string) []string {
	out := r.list(key, true)
	if r.cfg.Get(key) != "" && len(out) == 0 {
		r.wrong(key, r.cfg.Get(key), "a list with at least one entry")
	}
	return out
}

// privateSpace is what the sandboxes' policies take for private (RFC 1918).
var privateSpace = []netip.Prefix{
	netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("172.16.0.0/12"), netip.MustParsePrefix("192.168.0.0/16"),
}

func (r *reader) private(key, def string) netip.Prefix {
	got := r.cfg.Get(key)
	if got == "" {
		got = def
	}
	p, err := netip.ParsePrefix(got)
	inside := slices.ContainsFunc(privateSpace, func(s netip.Prefix) bool { return s.Bits() <= p.Bits() && s.Contains(p.Addr()) })
	if err != nil || !inside || p != p.Masked() {
		r.wrong(key, got, "an address range in 10.0.0.0/8, 172.16.0.0/12 or 192.168.0.0/16")
	}
	return p
}

// apart checks that no two ranges share an address.
func (r *reader) apart(s settings) {
	if s.NodeRange.Overlaps(s.PodRange) {
		r.wrong("podRange", s.PodRange.String(), "apart from nodeRange")
	}
	if s.ServiceRange.Overlaps(s.NodeRange) || s.ServiceRange.Overlaps(s.PodRange) {
		r.wrong("serviceRange", s.ServiceRange.String(), "apart from nodeRange and podRange")
	}
}
