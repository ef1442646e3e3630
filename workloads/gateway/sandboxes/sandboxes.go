// SPDX-License-Identifier: Apache-2.0

package sandboxes

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"strconv"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/dynamic"

	"github.com/stockade-dev/stockade/infra/kube/agentsandbox"
)

// Claims and Boxes are the resources that are used here.
var (
	Claims = agentsandbox.Claims
	Boxes  = agentsandbox.Sandboxes
)

// What every claim made here bears.
const (
	ManagedByLabel = "app.kubernetes.io/managed-by"
	ManagedBy      = "kode-gopher"
	HolderLabel    = "kode-gopher.stockade.dev/holder" // the server that made it
	UserLabel      = "kode-gopher.stockade.dev/user"   // a digest, see [Digest]
	tryNote        = "kode-gopher.stockade.dev/try"    // an annotation: the very request that made it
)

// MaxPerUser is how many sandboxes a user may have at a time where nobody says
// otherwise.
const MaxPerUser = 2

var (
	// ErrTooMany says that all slots of a user are taken.
	ErrTooMany = errors.New("taking a sandbox: the user has as many as are allowed")
	// ErrLost says that the claim is gone, and the sandbox with it.
	ErrLost = errors.New("keeping a sandbox: its claim is gone")
)

// Timeouts bound everything that is waited for.
type Timeouts struct {
	Take    time.Duration // a sandbox to be ready, or a slot that empties; default 90 s
	Release time.Duration // the API server to take back what failed; default 10 s
	Poll    time.Duration // the pause between two looks; default 200 ms
}

// Options say where sandboxes come from.
type Options struct {
	Client dynamic.Interface
	// Keep is the client that renews and ends claims; nil means Client. It should
	// have a request rate of its own: with one for both, a user who asks for
	// sandboxes without end would hold up the renewals of all others until their
	// claims expire.
	Keep      dynamic.Interface
	Namespace string
	Pool      string // the SandboxWarmPool
	// Holder names this server: its Pod's name. Another process of the same
	// name must have ended before this one begins.
	Holder string
	// TTL is how long a claim lives that nobody renews; default 2 min. Renewing
	// every third of it leaves room for an API server that is restarted.
	TTL time.Duration
	// MaxPerUser is how many sandboxes a user may have at a time; 0 means
	// [MaxPerUser]. All servers of a namespace must say the same.
	MaxPerUser int
	Timeouts   Timeouts
	Now        func() time.Time // nil means time.Now
	Log        *slog.Logger     // nil is silent
}

// Sandbox is one that a session has.
type Sandbox struct {
	Name string // of the Sandbox object
	UID  string // of the Sandbox object: a later one of the same name is another
	// Addrs were the Pod's addresses when it was taken; see [Manager.Locate].
	Addrs []netip.Addr

	claim string
	uid   types.UID // the claim's
}

// Manager takes and gives back. It is safe for concurrent use.
type Manager struct {
	o Options

	mu sync.Mutex
	// mine counts, by the claim's name, the sessions of this process that hold
	// it or are about to find out whether they do. All other claims with this
	// server's name are a dead predecessor's.
	mine map[string]int
}

// New returns a manager. It asks the cluster nothing yet.
func New(o Options) (*Manager, error) {
	for what, s := range map[string]string{"namespace": o.Namespace, "pool": o.Pool, "holder": o.Holder} {
		if msgs := validation.IsDNS1123Label(s); len(msgs) > 0 {
			return nil, fmt.Errorf("setting up the sandboxes: the %s %q is no name: %s", what, s, msgs[0])
		}
	}
	if o.TTL == 0 {
		o.TTL = 2 * time.Minute
	}
	switch {
	case o.MaxPerUser == 0:
		o.MaxPerUser = MaxPerUser
	case o.MaxPerUser < 0:
		return nil, fmt.Errorf("setting up the sandboxes: a user cannot have %d", o.MaxPerUser)
	}
	for _, f := range []struct {
		to *time.Duration
		or time.Duration
	}{{&o.Timeouts.Take, 90 * time.Second}, {&o.Timeouts.Release, 10 * time.Second}, {&o.Timeouts.Poll, 200 * time.Millisecond}} {
		if *f.to == 0 {
			*f.to = f.or
		}
	}
	if o.Keep == nil {
		o.Keep = o.Client
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Manager{o: o, mine: map[string]int{}}, nil
}

// TTL is how long a claim lives that nobody renews.
func (m *Manager) TTL() time.Duration { return m.o.TTL }

// Digest stands for a user in names and labels, which are no place for an
// e-mail address, and take few characters.
func Digest(user string) string {
	sum := sha256.Sum256([]byte("kode-gopher user\x00" + user))
	return hex.EncodeToString(sum[:16])
}

func claimName(user string, slot int) string { return "kg-" + Digest(user) + "-" + strconv.Itoa(slot) }

func (m *Manager) claims() dynamic.ResourceInterface {
	return m.o.Client.Resource(Claims).Namespace(m.o.Namespace)
}

// kept are the claims for who keeps and ends them.
func (m *Manager) kept() dynamic.ResourceInterface {
	return m.o.Keep.Resource(Claims).Namespace(m.o.Namespace)
}

// Take returns a sandbox that is ready and nobody else's, or [ErrTooMany]. It
// waits for a slot that is being emptied, but not for one that is in use.
func (m *Manager) Take(ctx context.Context, user string) (*Sandbox, error) {
	ctx, cancel := context.WithTimeout(ctx, m.o.Timeouts.Take)
	defer cancel()
	for {
		emptying := false
		for slot := range m.o.MaxPerUser {
			box, busy, err := m.try(ctx, user, claimName(user, slot))
			if box != nil || err != nil {
				return box, err
			}
			emptying = emptying || !busy
		}
		if !emptying {
			return nil, ErrTooMany
		}
		if err := m.pause(ctx); err != nil {
			return nil, fmt.Errorf("%w, and none went in time: %w", ErrTooMany, err)
		}
	}
}

// try takes one slot. Without a sandbox and an error, busy tells whether
// somebody uses the slot, or whether another look is worthwhile.
func (m *Manager) try(ctx context.Context, user, name string) (box *Sandbox, busy bool, err error) {
	m.count(name, 1)
	defer func() {
		if box == nil {
			m.count(name, -1)
		}
	}()
	try := rand.Text()
	claim, err := m.claims().Create(ctx, m.claim(user, name, try), metav1.CreateOptions{FieldManager: ManagedBy})
	if apierrors.IsAlreadyExists(err) {
		busy, err = m.taken(ctx, name)
		return nil, busy, err
	}
	if err != nil {
		if unsure(err) {
			m.retract(context.WithoutCancel(ctx), name, try)
		}
		return nil, false, fmt.Errorf("claiming a sandbox: %w", err)
	}
	box, err = m.await(ctx, name, claim.GetUID())
	if err != nil {
		// Whoever asked may be gone already; the claim must go all the same.
		if back := m.remove(context.WithoutCancel(ctx), name, claim.GetUID()); back != nil {
			m.o.Log.Warn("a claim stays until it ends by itself", "claim", name, "err", back)
		}
		return nil, false, err
	}
	return box, false, nil
}

// unsure tells whether a request may have been carried out that has failed: it
// may have reached the API server, which did not say that it was not.
func unsure(err error) bool {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		return apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err)
	}
	return !utilnet.IsConnectionRefused(err)
}

// retractLooks is how often a claim is looked for that may only be on its way.
const retractLooks = 5

// retract removes a claim that was made although nobody was told, and no other
// of its name.
func (m *Manager) retract(ctx context.Context, name, try string) {
	ctx, cancel := context.WithTimeout(ctx, m.o.Timeouts.Release)
	defer cancel()
	for looks := 1; ; looks++ {
		claim, err := m.kept().Get(ctx, name, metav1.GetOptions{})
		if err == nil && claim.GetAnnotations()[tryNote] == try {
			err = m.remove(ctx, name, claim.GetUID())
		}
		if err == nil || apierrors.IsNotFound(err) && looks >= retractLooks {
			return
		}
		if m.pause(ctx) != nil {
			m.o.Log.Warn("a claim may be there until it ends by itself", "claim", name, "err", err)
			return
		}
	}
}

func (m *Manager) count(name string, by int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.mine[name] += by; m.mine[name] <= 0 {
		delete(m.mine, name)
	}
}

func (m *Manager) claim(user, name, try string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": Claims.GroupVersion().String(), "kind": "SandboxClaim",
		"metadata": map[string]any{
			"name": name, "namespace": m.o.Namespace,
			"labels":      map[string]any{ManagedByLabel: ManagedBy, HolderLabel: m.o.Holder, UserLabel: Digest(user)},
			"annotations": map[string]any{tryNote: try},
		},
		"spec": map[string]any{
			"warmPoolRef": map[string]any{"name": m.o.Pool},
			"lifecycle":   map[string]any{"shutdownTime": m.end(), "shutdownPolicy": "DeleteForeground"},
		},
	}}
}

// end is when a claim that is made or renewed now will end, as the API writes it.
func (m *Manager) end() string { return m.o.Now().Add(m.o.TTL).UTC().Format(time.RFC3339) }

// taken looks at a claim that was there already.
func (m *Manager) taken(ctx context.Context, name string) (busy bool, err error) {
	claim, err := m.claims().Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("looking at a claim: %w", err)
	case claim.GetDeletionTimestamp() != nil:
		return false, nil
	case m.expired(claim):
		return false, m.remove(ctx, name, claim.GetUID())
	}
	return true, nil
}

// expired tells whether a claim's server has given up on it. The controller
// deletes such a claim too; the margin is for clocks that differ.
func (m *Manager) expired(claim *unstructured.Unstructured) bool {
	text, _, _ := unstructured.NestedString(claim.Object, "spec", "lifecycle", "shutdownTime")
	end, err := time.Parse(time.RFC3339, text)
	return err == nil && m.o.Now().After(end.Add(m.o.TTL/2))
}

// await waits until the claim's sandbox can be used. A cluster that does not
// answer for a while is waited for as well.
func (m *Manager) await(ctx context.Context, name string, uid types.UID) (*Sandbox, error) {
	last := errors.New("not looked yet")
	for {
		box, err := m.look(ctx, name, uid)
		if err == nil || errors.Is(err, ErrLost) {
			return box, err
		}
		// A look that the deadline cut short says nothing about the claim.
		if ctx.Err() == nil {
			last = err
		}
		if stop := m.pause(ctx); stop != nil {
			return nil, fmt.Errorf("waiting for the sandbox of claim %s (%w): %w", name, last, stop)
		}
	}
}

func (m *Manager) pause(ctx context.Context) error {
	t := time.NewTimer(m.o.Timeouts.Poll)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}

// look goes from the claim to its Sandbox, and checks on the way that it is the
// claim's own: names alone may be another session's by now.
func (m *Manager) look(ctx context.Context, name string, uid types.UID) (*Sandbox, error) {
	claim, err := m.claims().Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && (claim.GetUID() != uid || claim.GetDeletionTimestamp() != nil) {
		return nil, ErrLost
	}
	if err != nil {
		return nil, err
	}
	if !condition(claim, "Ready") {
		return nil, errors.New("it is not ready")
	}
	box, _, _ := unstructured.NestedString(claim.Object, "status", "sandbox", "name")
	if len(validation.IsDNS1123Label(box)) > 0 {
		return nil, errors.New("it names no Sandbox that can be routed to")
	}
	sandbox, err := m.o.Client.Resource(Boxes).Namespace(m.o.Namespace).Get(ctx, box, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	if owner := metav1.GetControllerOf(sandbox); owner == nil || owner.UID != uid {
		return nil, errors.New("the Sandbox that it names is not its own")
	}
	got := &Sandbox{Name: box, UID: string(sandbox.GetUID()), Addrs: Addresses(sandbox), claim: name, uid: uid}
	if len(got.Addrs) == 0 {
		return nil, errNoAddress
	}
	return got, nil
}

var errNoAddress = errors.New("its Pod has no address yet")

// Addresses are those that the API names for a Sandbox's Pod. See [Ended].
func Addresses(sandbox *unstructured.Unstructured) (out []netip.Addr) {
	ips, _, _ := unstructured.NestedStringSlice(sandbox.Object, "status", "podIPs")
	for _, ip := range ips {
		if addr, err := netip.ParseAddr(ip); err == nil {
			out = append(out, addr)
		}
	}
	return out
}

// Locate returns the addresses that a sandbox has now. They are asked for each
// time, because its Pod may have been replaced and the old address may belong to
// another session's. [ErrLost] means that there is none, or that its Pod has ended.
func (m *Manager) Locate(ctx context.Context, b *Sandbox) ([]netip.Addr, error) {
	sandbox, err := m.o.Keep.Resource(Boxes).Namespace(m.o.Namespace).Get(ctx, b.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && (string(sandbox.GetUID()) != b.UID || sandbox.GetDeletionTimestamp() != nil || Ended(sandbox)) {
		return nil, ErrLost
	}
	if err != nil {
		return nil, fmt.Errorf("locating a sandbox: %w", err)
	}
	addrs := Addresses(sandbox)
	if len(addrs) == 0 {
		return nil, fmt.Errorf("locating a sandbox: %w", errNoAddress)
	}
	return addrs, nil
}

// Ended tells whether a Sandbox's Pod has come to its end, such as by an eviction,
// which its program can bring about. The API still names its address, which the
// network may have given to another session's Pod.
func Ended(sandbox *unstructured.Unstructured) bool { return condition(sandbox, "Finished") }

// condition tells whether an object's status says yes to a condition.
func condition(o *unstructured.Unstructured, kind string) bool {
	conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, c := range conditions {
		if c, ok := c.(map[string]any); ok && c["type"] == kind {
			return c["status"] == "True"
		}
	}
	return false
}

// Renew moves the time on at which the sandbox ends by itself. [ErrLost] means
// that it has ended.
func (m *Manager) Renew(ctx context.Context, b *Sandbox) error {
	patch, err := json.Marshal(map[string]any{
		// The API server refuses the patch if another claim has the name now.
		"metadata": map[string]any{"uid": b.uid},
		"spec":     map[string]any{"lifecycle": map[string]any{"shutdownTime": m.end()}},
	})
	if err != nil {
		return fmt.Errorf("renewing a claim: %w", err)
	}
	claim, err := m.kept().Patch(ctx, b.claim, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: ManagedBy})
	// Another uid is no valid change of this one.
	if apierrors.IsNotFound(err) || apierrors.IsInvalid(err) || err == nil && claim.GetDeletionTimestamp() != nil {
		return ErrLost
	}
	if err != nil {
		return fmt.Errorf("renewing a claim: %w", err)
	}
	return nil
}

// Release gives a sandbox back. Its slot is free when its Pod is gone, shortly
// after. On an error the claim ends by itself, and [Manager.Collect] tries again.
func (m *Manager) Release(ctx context.Context, b *Sandbox) error {
	defer m.count(b.claim, -1)
	return m.remove(ctx, b.claim, b.uid)
}

// remove deletes the claim with this uid and no other of its name.
func (m *Manager) remove(ctx context.Context, name string, uid types.UID) error {
	ctx, cancel := context.WithTimeout(ctx, m.o.Timeouts.Release)
	defer cancel()
	foreground := metav1.DeletePropagationForeground
	for {
		err := m.kept().Delete(ctx, name, metav1.DeleteOptions{
			Preconditions: &metav1.Preconditions{UID: &uid}, PropagationPolicy: &foreground,
		})
		if err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
			return nil
		}
		// An API server that is being restarted is back in a moment.
		if stop := m.pause(ctx); stop != nil {
			return fmt.Errorf("releasing claim %s (%w): %w", name, err, stop)
		}
	}
}

// Collect removes the claims that nobody will: those whose time is over, and
// those of an earlier process of this server's name. It returns how many.
func (m *Manager) Collect(ctx context.Context) (int, error) {
	list, err := m.kept().List(ctx, metav1.ListOptions{LabelSelector: ManagedByLabel + "=" + ManagedBy})
	if err != nil {
		return 0, fmt.Errorf("collecting claims: %w", err)
	}
	n := 0
	var errs []error
	for _, c := range list.Items {
		if c.GetDeletionTimestamp() != nil || !m.expired(&c) && !m.orphan(&c) {
			continue
		}
		if err := m.remove(ctx, c.GetName(), c.GetUID()); err != nil {
			errs = append(errs, err)
			continue
		}
		n++
	}
	return n, errors.Join(errs...)
}

func (m *Manager) orphan(claim *unstructured.Unstructured) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	// A claim of this process was counted before it was made, and the list is
	// older than this look: one that has been released meanwhile goes twice,
	// which does no harm.
	return claim.GetLabels()[HolderLabel] == m.o.Holder && m.mine[claim.GetName()] == 0
}
