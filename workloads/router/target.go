// SPDX-License-Identifier: Apache-2.0

package router

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// The headers by which a caller names a sandbox.
const (
	IDHeader        = "X-Sandbox-Id"
	NamespaceHeader = "X-Sandbox-Namespace"
	PortHeader      = "X-Sandbox-Port"
	UIDHeader       = "X-Sandbox-Uid"
	// PodIPHeader exists upstream. Here it is refused: a caller that names an
	// address makes a proxy to anywhere out of the router.
	PodIPHeader = "X-Sandbox-Pod-Ip"

	headerPrefix = "X-Sandbox-"
)

// Target is a sandbox that a caller asked for.
type Target struct {
	Namespace, ID string
	// UID tells the sandbox from an earlier or later one of the same name; empty
	// means any.
	UID string
}

// target reads the headers. Its errors are for the caller to read.
func (r *Router) target(h http.Header) (Target, error) {
	for name, values := range h {
		if !strings.HasPrefix(http.CanonicalHeaderKey(name), headerPrefix) {
			continue
		}
		switch http.CanonicalHeaderKey(name) {
		case IDHeader, NamespaceHeader, PortHeader, UIDHeader:
		default:
			return Target{}, fmt.Errorf("the header %.40q is not taken", name)
		}
		// Two values are two readings: whoever checked one of them before did
		// not check the other.
		if len(values) != 1 {
			return Target{}, fmt.Errorf("the header %s comes more than once", name)
		}
	}
	t := Target{ID: h.Get(IDHeader), Namespace: h.Get(NamespaceHeader), UID: h.Get(UIDHeader)}
	if len(validation.IsDNS1123Label(t.ID)) > 0 {
		return Target{}, errors.New("X-Sandbox-ID must be the name of a sandbox")
	}
	if t.Namespace == "" {
		t.Namespace = r.o.Namespaces[0]
	}
	if !slices.Contains(r.o.Namespaces, t.Namespace) {
		return Target{}, errors.New("X-Sandbox-Namespace must be a namespace of sandboxes")
	}
	if port := h.Get(PortHeader); port != "" && port != strconv.Itoa(r.o.Port) {
		return Target{}, fmt.Errorf("X-Sandbox-Port must be %d", r.o.Port)
	}
	if !plain(t.UID) {
		return Target{}, errors.New("X-Sandbox-UID must be the uid of a sandbox")
	}
	return t, nil
}

// plain tells whether a uid is made of what uids are made of.
func plain(uid string) bool {
	return len(uid) <= 64 && !strings.ContainsFunc(uid, func(r rune) bool {
		return r != '-' && (r < '0' || r > '9') && (r < 'a' || r > 'z')
	})
}
