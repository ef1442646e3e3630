// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// Egress says what sandboxes of a shared server may reach on port 443.
type Egress struct {
	// GoProxy is the go command's GOPROXY: its hosts are where modules come from.
	// No host is known here; it comes from who deploys.
	GoProxy string
	// Region is the cluster's, such as europe-west1: its control planes may be
	// reached by name. Empty leaves them out.
	Region string
	// Allow is EGRESS_ALLOW: further hosts, by comma or space.
	Allow string
}

var region = regexp.MustCompile(`^[a-z]+-[a-z]+[0-9]{1,2}$`)

// Hosts returns the allow-list, names and patterns in which * stands for a part
// of one label, sorted. Errors name the setting that is wrong.
func (e Egress) Hosts() ([]string, error) {
	hosts := []string{"*.googleapis.com"}
	_, proxies, err := Proxies(e.GoProxy)
	if err != nil {
		return nil, fmt.Errorf("listing the allowed hosts: %w", err)
	}
	hosts = append(hosts, proxies...)
	if e.Region != "" {
		if !region.MatchString(e.Region) {
			return nil, fmt.Errorf("listing the allowed hosts: %q is no region", e.Region)
		}
		// The DNS endpoints of control planes: gke-<id>-<project number>.<region>.gke.goog.
		hosts = append(hosts, "*."+e.Region+".gke.goog")
	}
	for _, h := range strings.FieldsFunc(e.Allow, func(r rune) bool { return r == ',' || r == ' ' || r == '\n' }) {
		if err := checkHost(h); err != nil {
			return nil, fmt.Errorf("listing the allowed hosts: EGRESS_ALLOW: %w", err)
		}
		hosts = append(hosts, h)
	}
	slices.Sort(hosts)
	return slices.Compact(hosts), nil
}

// Proxies reads a GOPROXY, a list with commas or bars, and returns it as
// sandboxes can use it, with its hosts. "direct" is left out: it would mean
// every host that modules name, which no allow-list opens, so that a build would
// wait for answers that never come. A list with nothing left is "off".
//
// Errors: an entry that is no https URL on port 443, or has a password.
func Proxies(list string) (proxy string, hosts []string, err error) {
	var kept []string
	for _, entry := range strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == '|' }) {
		entry = strings.TrimSpace(entry)
		switch entry {
		case "", "off", "direct", "none":
			continue
		}
		u, err := url.Parse(entry)
		if err != nil || u.Scheme != "https" || u.Port() != "" && u.Port() != "443" || u.User != nil {
			// The entry is not in the error: it may have a password.
			return "", nil, errors.New("reading GOPROXY: it must be https URLs on port 443 and without a password")
		}
		if err := checkHost(u.Hostname()); err != nil || strings.Contains(u.Hostname(), "*") {
			return "", nil, fmt.Errorf("reading GOPROXY: %q is no host", u.Hostname())
		}
		kept, hosts = append(kept, entry), append(hosts, u.Hostname())
	}
	if len(kept) == 0 {
		return "off", nil, nil
	}
	return strings.Join(kept, ","), hosts, nil
}

// checkHost takes names of hosts that are somewhere outside. An address, or a
// name of the cluster's own or of the metadata server, would open what is closed
// for everybody.
func checkHost(h string) error {
	labels := strings.Split(h, ".")
	_, addr := netip.ParseAddr(h)
	switch {
	case len(labels) < 2, addr == nil, len(validation.IsDNS1123Subdomain(strings.ReplaceAll(h, "*", "x"))) > 0,
		strings.Contains(strings.Join(labels[len(labels)-2:], "."), "*"):
		return fmt.Errorf("%.60q is no host name; a * may stand in front of the last two labels", h)
	case slices.Contains([]string{"internal", "local", "localhost", "svc", "cluster"}, labels[len(labels)-1]):
		return fmt.Errorf("%.60q is a name of the inside", h)
	}
	return nil
}
