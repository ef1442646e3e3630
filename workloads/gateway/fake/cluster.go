// SPDX-License-Identifier: Apache-2.0

package fake

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	k8slabels "k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/stockade-dev/stockade/workloads/gateway/sandboxes"
	"github.com/stockade-dev/stockade/workloads/runner/wire"
)

// Namespace is the one that the cluster has.
const Namespace = "kode-gopher"

// Box is what runs in a sandbox.
type Box struct {
	Handler http.Handler // serves the sandbox's port
	Stop    func()       // called when the Pod is gone; may be nil
}

// Runner is a sandbox's inside that has every request take its turn, as a runner
// has, before run gets it.
func Runner(run http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		const turn = "TURN"
		switch {
		case r.URL.Path == wire.RunPath && r.Method == http.MethodGet:
			_ = json.NewEncoder(w).Encode(wire.Turn{Turn: turn}) // the caller is gone: nobody to tell
		case r.URL.Path == wire.RunPath && r.URL.Query().Get(wire.TurnParam) != turn:
			http.Error(w, "it is another's turn", http.StatusConflict)
		default:
			run(w, r)
		}
	})
}

// Cluster is the fake. Its fields are set before the first request.
type Cluster struct {
	// Start makes a sandbox's inside; nil makes one that answers 404.
	Start func(name string) Box
	// Bind is how long a claim waits for its sandbox, Gone how long a deleted
	// one is still there.
	Bind, Gone time.Duration

	t      testing.TB
	server *httptest.Server
	wg     sync.WaitGroup

	mu     sync.Mutex
	down   bool
	serial int
	astray string // see Misdirect
	claims map[string]*unstructured.Unstructured
	boxes  map[string]*box
	most   map[string]int // the most Pods that a user had at a time
}

type box struct {
	object *unstructured.Unstructured
	user   string
	ip     string
	server *httptest.Server
	stop   func()
}

// New starts a cluster that ends with the test.
func New(t testing.TB) *Cluster {
	c := &Cluster{t: t, claims: map[string]*unstructured.Unstructured{}, boxes: map[string]*box{}, most: map[string]int{}}
	c.server = httptest.NewServer(http.HandlerFunc(c.serve))
	t.Cleanup(func() {
		c.wg.Wait()
		c.server.Close()
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, b := range c.boxes {
			c.end(b)
		}
	})
	return c
}

// Client returns a real client of the fake API server.
func (c *Cluster) Client() dynamic.Interface {
	client, err := dynamic.NewForConfig(&rest.Config{Host: c.server.URL, QPS: -1})
	if err != nil {
		c.t.Fatal(err)
	}
	return client
}

// Dial connects to a Pod's address, whatever the port: a Pod has one.
func (c *Cluster) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	to := ""
	for _, b := range c.boxes {
		if b.ip == host {
			to = b.server.Listener.Addr().String()
		}
	}
	c.mu.Unlock()
	if to == "" {
		return nil, fmt.Errorf("dialing %s: no route to host", addr)
	}
	var d net.Dialer
	return d.DialContext(ctx, network, to)
}

// SetDown makes the API server refuse everything, as one does that restarts.
func (c *Cluster) SetDown(down bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.down = down
}

// Claims returns the names of the claims that there are, sorted.
func (c *Cluster) Claims() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Sorted(maps.Keys(c.claims))
}

// Pods returns the names of the Pods that there are, sorted.
func (c *Cluster) Pods() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Sorted(maps.Keys(c.boxes))
}

// Most returns the most Pods that each user had at a time, by digest.
func (c *Cluster) Most() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.most)
}

// Kill ends a Pod without its claim, as a node that fails does.
func (c *Cluster) Kill(pod string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if b := c.boxes[pod]; b != nil {
		c.end(b)
		delete(c.boxes, pod)
	}
}

// Misdirect makes the controller write the name of another's sandbox into every
// later claim.
func (c *Cluster) Misdirect(to string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.astray = to
}

// Change edits a claim behind everybody's back.
func (c *Cluster) Change(claim string, edit func(*unstructured.Unstructured)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	edit(c.claims[claim])
}

// ChangeBox edits what the API server says of a Sandbox; where its Pod is, Dial still
// goes by the address that it had.
func (c *Cluster) ChangeBox(pod string, edit func(*unstructured.Unstructured)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	edit(c.boxes[pod].object)
}

func (c *Cluster) end(b *box) {
	b.server.CloseClientConnections()
	b.server.Close()
	if b.stop != nil {
		b.stop()
	}
}

func (c *Cluster) serve(w http.ResponseWriter, r *http.Request) {
	resource, name, ok := parse(r.URL.Path)
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.down:
		fail(w, http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable, "the API server restarts")
	case !ok:
		fail(w, http.StatusNotFound, metav1.StatusReasonNotFound, "there is no such resource")
	case resource == sandboxes.Boxes.Resource && r.Method == http.MethodGet:
		if b := c.boxes[name]; b != nil {
			send(w, http.StatusOK, b.object)
			return
		}
		fail(w, http.StatusNotFound, metav1.StatusReasonNotFound, "no such Sandbox")
	case resource == sandboxes.Claims.Resource:
		c.serveClaims(w, r, name)
	default:
		fail(w, http.StatusForbidden, metav1.StatusReasonForbidden, "the gateway's role does not allow that")
	}
}

func parse(path string) (resource, name string, ok bool) {
	for _, gvr := range []struct{ group, version, resource string }{
		{sandboxes.Claims.Group, sandboxes.Claims.Version, sandboxes.Claims.Resource},
		{sandboxes.Boxes.Group, sandboxes.Boxes.Version, sandboxes.Boxes.Resource},
	} {
		rest, found := strings.CutPrefix(path, "/apis/"+gvr.group+"/"+gvr.version+"/namespaces/"+Namespace+"/"+gvr.resource)
		if found {
			return gvr.resource, strings.TrimPrefix(rest, "/"), true
		}
	}
	return "", "", false
}

func (c *Cluster) serveClaims(w http.ResponseWriter, r *http.Request, name string) {
	claim := c.claims[name]
	if name != "" && claim == nil {
		fail(w, http.StatusNotFound, metav1.StatusReasonNotFound, "no such claim")
		return
	}
	switch r.Method {
	case http.MethodPost:
		c.create(w, r)
	case http.MethodGet:
		if name == "" {
			c.list(w, r)
			return
		}
		send(w, http.StatusOK, claim)
	case http.MethodPatch:
		c.patch(w, r, claim)
	case http.MethodDelete:
		c.remove(w, r, claim)
	default:
		fail(w, http.StatusMethodNotAllowed, metav1.StatusReasonMethodNotAllowed, r.Method)
	}
}

func (c *Cluster) next(what string) string {
	c.serial++
	return fmt.Sprintf("%s-%d", what, c.serial)
}

func (c *Cluster) create(w http.ResponseWriter, r *http.Request) {
	claim := &unstructured.Unstructured{}
	if err := read(r, &claim.Object); err != nil {
		fail(w, http.StatusBadRequest, metav1.StatusReasonBadRequest, err.Error())
		return
	}
	if c.claims[claim.GetName()] != nil {
		fail(w, http.StatusConflict, metav1.StatusReasonAlreadyExists, "the name is taken")
		return
	}
	claim.SetUID(types.UID("uid-" + c.next("claim")))
	claim.SetCreationTimestamp(metav1.Now())
	c.claims[claim.GetName()] = claim
	c.later(c.Bind, func() { c.bind(claim) })
	send(w, http.StatusCreated, claim)
}

// later does what a controller does: after a while, and on its own.
func (c *Cluster) later(d time.Duration, f func()) {
	c.wg.Go(func() {
		<-time.After(d)
		c.mu.Lock()
		defer c.mu.Unlock()
		f()
	})
}

func (c *Cluster) bind(claim *unstructured.Unstructured) {
	if c.claims[claim.GetName()] != claim || claim.GetDeletionTimestamp() != nil {
		return
	}
	name := c.next("pool-sandbox")
	b := &box{user: claim.GetLabels()[sandboxes.UserLabel], ip: fmt.Sprintf("10.99.%d.%d", c.serial/250, c.serial%250+1)}
	inside := Box{Handler: http.NotFoundHandler()}
	if c.Start != nil {
		inside = c.Start(name)
	}
	b.stop, b.server = inside.Stop, httptest.NewServer(inside.Handler)
	controller := true
	b.object = &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": sandboxes.Boxes.GroupVersion().String(), "kind": "Sandbox",
		"status": map[string]any{"podIPs": []any{b.ip}},
	}}
	b.object.SetName(name)
	b.object.SetNamespace(Namespace)
	b.object.SetUID(types.UID("uid-" + name))
	b.object.SetOwnerReferences([]metav1.OwnerReference{{
		APIVersion: claim.GetAPIVersion(), Kind: claim.GetKind(), Name: claim.GetName(), UID: claim.GetUID(), Controller: &controller,
	}})
	c.boxes[name] = b
	n := 0
	for _, other := range c.boxes {
		if other.user == b.user {
			n++
		}
	}
	c.most[b.user] = max(c.most[b.user], n)
	if c.astray != "" {
		name = c.astray
	}
	claim.Object["status"] = map[string]any{
		"conditions": []any{map[string]any{"type": "Ready", "status": "True"}},
		"sandbox":    map[string]any{"name": name, "podIPs": []any{b.ip}},
	}
}

func (c *Cluster) list(w http.ResponseWriter, r *http.Request) {
	selector, err := k8slabels.Parse(r.URL.Query().Get("labelSelector"))
	if err != nil {
		fail(w, http.StatusBadRequest, metav1.StatusReasonBadRequest, err.Error())
		return
	}
	items := []any{}
	for _, claim := range c.claims {
		if selector.Matches(k8slabels.Set(claim.GetLabels())) {
			items = append(items, claim.Object)
		}
	}
	send(w, http.StatusOK, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": sandboxes.Claims.GroupVersion().String(), "kind": "SandboxClaimList", "metadata": map[string]any{}, "items": items,
	}})
}

func (c *Cluster) patch(w http.ResponseWriter, r *http.Request, claim *unstructured.Unstructured) {
	var p struct {
		Metadata struct {
			UID string `json:"uid"`
		} `json:"metadata"`
		Spec struct {
			Lifecycle struct {
				ShutdownTime string `json:"shutdownTime"`
			} `json:"lifecycle"`
		} `json:"spec"`
	}
	if err := read(r, &p); err != nil {
		fail(w, http.StatusBadRequest, metav1.StatusReasonBadRequest, err.Error())
		return
	}
	if p.Metadata.UID != "" && p.Metadata.UID != string(claim.GetUID()) {
		fail(w, http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, "metadata.uid: field is immutable")
		return
	}
	if err := unstructured.SetNestedField(claim.Object, p.Spec.Lifecycle.ShutdownTime, "spec", "lifecycle", "shutdownTime"); err != nil {
		fail(w, http.StatusBadRequest, metav1.StatusReasonBadRequest, err.Error())
		return
	}
	send(w, http.StatusOK, claim)
}

func (c *Cluster) remove(w http.ResponseWriter, r *http.Request, claim *unstructured.Unstructured) {
	var o metav1.DeleteOptions
	if err := read(r, &o); err != nil && !errors.Is(err, io.EOF) {
		fail(w, http.StatusBadRequest, metav1.StatusReasonBadRequest, err.Error())
		return
	}
	if o.Preconditions != nil && o.Preconditions.UID != nil && *o.Preconditions.UID != claim.GetUID() {
		fail(w, http.StatusConflict, metav1.StatusReasonConflict, "the uid is another's")
		return
	}
	if claim.GetDeletionTimestamp() == nil {
		now := metav1.Now()
		claim.SetDeletionTimestamp(&now)
		c.later(c.Gone, func() { c.gone(claim) })
		if o.PropagationPolicy == nil || *o.PropagationPolicy != metav1.DeletePropagationForeground {
			// In the background the name is free at once.
			delete(c.claims, claim.GetName())
		}
	}
	send(w, http.StatusOK, claim)
}

func (c *Cluster) gone(claim *unstructured.Unstructured) {
	for name, b := range c.boxes {
		if owner := metav1.GetControllerOf(b.object); owner != nil && owner.UID == claim.GetUID() {
			c.end(b)
			delete(c.boxes, name)
		}
	}
	if c.claims[claim.GetName()] == claim {
		delete(c.claims, claim.GetName())
	}
}

func read(r *http.Request, into any) error {
	return json.NewDecoder(io.LimitReader(r.Body, 1<<20)).Decode(into)
}

func send(w http.ResponseWriter, code int, o *unstructured.Unstructured) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(o.Object)
}

func fail(w http.ResponseWriter, code int, reason metav1.StatusReason, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
		Status:   metav1.StatusFailure, Code: int32(code), Reason: reason, Message: message, //nolint:gosec // a status
	})
}
