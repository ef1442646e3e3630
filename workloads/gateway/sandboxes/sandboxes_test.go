// SPDX-License-Identifier: Apache-2.0

package sandboxes_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/dynamic"

	"github.com/stockade-dev/stockade/workloads/gateway/fake"
	"github.com/stockade-dev/stockade/workloads/gateway/sandboxes"
)

func manager(t *testing.T, c *fake.Cluster, holder string, change func(*sandboxes.Options)) *sandboxes.Manager {
	t.Helper()
	o := sandboxes.Options{Client: c.Client(), Namespace: fake.Namespace, Pool: "pool", Holder: holder,
		Timeouts: sandboxes.Timeouts{Take: 10 * time.Second, Release: 5 * time.Second, Poll: 2 * time.Millisecond}}
	if change != nil {
		change(&o)
	}
	m, err := sandboxes.New(o)
	require.NoError(t, err)
	return m
}

func take(t *testing.T, m *sandboxes.Manager, user string) *sandboxes.Sandbox {
	t.Helper()
	b, err := m.Take(t.Context(), user)
	require.NoError(t, err)
	return b
}

func empty(t *testing.T, c *fake.Cluster) {
	t.Helper()
	assert.Eventually(t, func() bool { return len(c.Claims()) == 0 && len(c.Pods()) == 0 }, 20*time.Second, time.Millisecond)
}

func TestEachSessionHasASandboxOfItsOwn(t *testing.T) {
	c := fake.New(t)
	m := manager(t, c, "a", nil)
	one, two, other := take(t, m, "u"), take(t, m, "u"), take(t, m, "v")
	assert.NotEqual(t, one.UID, two.UID)
	assert.NotEqual(t, one.Addrs, other.Addrs)
	for _, b := range []*sandboxes.Sandbox{one, two, other} {
		require.NoError(t, m.Renew(t.Context(), b))
		require.NoError(t, m.Release(t.Context(), b))
	}
	empty(t, c)
}

// An address that a sandbox had is another session's by now.
func TestASandboxIsLocatedWhereItIsNow(t *testing.T) {
	c := fake.New(t)
	m := manager(t, c, "a", nil)
	b := take(t, m, "u")
	addrs, err := m.Locate(t.Context(), b)
	require.NoError(t, err)
	assert.Equal(t, b.Addrs, addrs)
	status := func(value map[string]any) {
		c.ChangeBox(b.Name, func(o *unstructured.Unstructured) { o.Object["status"] = value })
	}
	status(map[string]any{"podIPs": []any{"10.98.0.1", "fd00::1"}})
	addrs, err = m.Locate(t.Context(), b)
	require.NoError(t, err)
	assert.Equal(t, []netip.Addr{netip.MustParseAddr("10.98.0.1"), netip.MustParseAddr("fd00::1")}, addrs)
	status(map[string]any{})
	_, err = m.Locate(t.Context(), b)
	require.ErrorContains(t, err, "no address yet")
	require.NotErrorIs(t, err, sandboxes.ErrLost)
	status(map[string]any{"podIPs": []any{"10.98.0.1"}, "conditions": []any{map[string]any{"type": "Finished", "status": "True"}}})
	_, err = m.Locate(t.Context(), b)
	require.ErrorIs(t, err, sandboxes.ErrLost)
	c.SetDown(true)
	_, err = m.Locate(t.Context(), b)
	require.Error(t, err)
	require.NotErrorIs(t, err, sandboxes.ErrLost)
	c.SetDown(false)
	c.ChangeBox(b.Name, func(o *unstructured.Unstructured) { o.SetUID("another") })
	_, err = m.Locate(t.Context(), b)
	require.ErrorIs(t, err, sandboxes.ErrLost)
	c.Kill(b.Name)
	_, err = m.Locate(t.Context(), b)
	require.ErrorIs(t, err, sandboxes.ErrLost)
}

func TestTheThirdSandboxIsRefused(t *testing.T) {
	c := fake.New(t)
	m := manager(t, c, "a", nil)
	take(t, m, "u")
	b := take(t, m, "u")
	_, err := m.Take(t.Context(), "u")
	require.ErrorIs(t, err, sandboxes.ErrTooMany)
	require.NoError(t, m.Release(t.Context(), b))
	take(t, m, "u") // waits for the slot
}

func TestASlotIsFreeOnlyWhenItsPodIsGone(t *testing.T) {
	c := fake.New(t)
	c.Gone = 100 * time.Millisecond
	m := manager(t, c, "a", nil)
	b := take(t, m, "u")
	take(t, m, "u")
	start := time.Now()
	require.NoError(t, m.Release(t.Context(), b))
	take(t, m, "u")
	assert.GreaterOrEqual(t, time.Since(start), c.Gone)
	assert.Equal(t, map[string]int{sandboxes.Digest("u"): 2}, c.Most())
}

func TestAHundredRequestsAtOnceTakeTwoAUserAcrossReplicas(t *testing.T) {
	c := fake.New(t)
	c.Bind, c.Gone = 5*time.Millisecond, 5*time.Millisecond
	replicas := []*sandboxes.Manager{manager(t, c, "a", nil), manager(t, c, "b", nil)}
	const users, requests = 5, 100
	var taken [users]atomic.Int32
	var refused atomic.Int32
	var wg sync.WaitGroup
	var mu sync.Mutex
	var held []func() error
	for i := range requests {
		wg.Go(func() {
			m, user := replicas[i%2], i%users
			b, err := m.Take(t.Context(), fmt.Sprint("user ", user))
			switch {
			case err == nil:
				taken[user].Add(1)
				mu.Lock()
				defer mu.Unlock()
				held = append(held, func() error { return m.Release(t.Context(), b) })
			case errors.Is(err, sandboxes.ErrTooMany):
				refused.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for i := range taken {
		assert.Equal(t, int32(sandboxes.MaxPerUser), taken[i].Load(), "user %d", i)
	}
	assert.Equal(t, int32(requests-users*sandboxes.MaxPerUser), refused.Load())
	for user, n := range c.Most() {
		assert.Equal(t, sandboxes.MaxPerUser, n, user)
	}
	for _, release := range held {
		require.NoError(t, release())
	}
	empty(t, c)
}

func TestTakingAndReleasingInTurnNeverMakesAThird(t *testing.T) {
	c := fake.New(t)
	c.Bind, c.Gone = time.Millisecond, 3*time.Millisecond
	replicas := []*sandboxes.Manager{manager(t, c, "a", nil), manager(t, c, "b", nil)}
	var wg sync.WaitGroup
	var got atomic.Int32
	for i := range 20 {
		wg.Go(func() {
			m, user := replicas[i%2], fmt.Sprint("user ", i%3)
			for range 10 {
				b, err := m.Take(t.Context(), user)
				if errors.Is(err, sandboxes.ErrTooMany) {
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				got.Add(1)
				if err := m.Release(t.Context(), b); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	assert.Positive(t, got.Load())
	for user, n := range c.Most() {
		assert.LessOrEqual(t, n, sandboxes.MaxPerUser, user)
	}
	empty(t, c)
}

func TestWhatACrashedServerLeftIsCollected(t *testing.T) {
	c := fake.New(t)
	take(t, manager(t, c, "a", nil), "u")
	foreign := take(t, manager(t, c, "b", nil), "u")

	// Not by another server, while its time is not over.
	m := manager(t, c, "c", nil)
	n, err := m.Collect(t.Context())
	require.NoError(t, err)
	assert.Zero(t, n)

	// By its successor of the same name, at once, and only its own.
	again := manager(t, c, "a", nil)
	mine := take(t, again, "v")
	n, err = again.Collect(t.Context())
	require.NoError(t, err)
	assert.Equal(t, 1, n)
	require.NoError(t, again.Renew(t.Context(), mine))

	// By anybody, when its time is over.
	later := manager(t, c, "d", func(o *sandboxes.Options) { o.Now = func() time.Time { return time.Now().Add(time.Hour) } })
	n, err = later.Collect(t.Context())
	require.NoError(t, err)
	assert.Equal(t, 2, n)
	empty(t, c)
	require.ErrorIs(t, again.Renew(t.Context(), mine), sandboxes.ErrLost)
	require.ErrorIs(t, again.Renew(t.Context(), foreign), sandboxes.ErrLost)
}

func TestASlotWhoseTimeIsOverIsTakenOver(t *testing.T) {
	c := fake.New(t)
	m := manager(t, c, "a", nil)
	old := take(t, m, "u")
	take(t, m, "u")
	later := manager(t, c, "b", func(o *sandboxes.Options) { o.Now = func() time.Time { return time.Now().Add(time.Hour) } })
	b := take(t, later, "u")
	assert.NotEqual(t, old.UID, b.UID)
	// The first server's session must not touch what is another's now.
	require.NoError(t, m.Release(t.Context(), old))
	require.NoError(t, later.Renew(t.Context(), b))
}

func TestRenewingMovesTheEndOn(t *testing.T) {
	c := fake.New(t)
	now := time.Now()
	m := manager(t, c, "a", func(o *sandboxes.Options) { o.Now = func() time.Time { return now } })
	b := take(t, m, "u")
	end := func() (s string) {
		c.Change(c.Claims()[0], func(u *unstructured.Unstructured) {
			s, _, _ = unstructured.NestedString(u.Object, "spec", "lifecycle", "shutdownTime")
		})
		return s
	}
	first := end()
	now = now.Add(time.Minute)
	require.NoError(t, m.Renew(t.Context(), b))
	assert.Greater(t, end(), first)
}

// asking is a client for new sandboxes, which after a while must not be used.
type asking struct {
	dynamic.Interface
	t    *testing.T
	over bool
}

func (a *asking) Resource(r schema.GroupVersionResource) dynamic.NamespaceableResourceInterface {
	assert.False(a.t, a.over, "whoever asks for sandboxes can hold this up")
	return a.Interface.Resource(r)
}

func TestWhatSessionsHaveDoesNotWaitForWhoAsksForMore(t *testing.T) {
	c := fake.New(t)
	client := &asking{Interface: c.Client(), t: t}
	m := manager(t, c, "a", func(o *sandboxes.Options) { o.Client, o.Keep = client, c.Client() })
	b := take(t, m, "u")
	client.over = true
	require.NoError(t, m.Renew(t.Context(), b))
	_, err := m.Collect(t.Context())
	require.NoError(t, err)
	require.NoError(t, m.Release(t.Context(), b))
	empty(t, c)
}

// hasty gives up on what it asks for just when that has been done.
type hasty struct{ dynamic.Interface }

func (h hasty) Resource(r schema.GroupVersionResource) dynamic.NamespaceableResourceInterface {
	return hastyResource{h.Interface.Resource(r)}
}

type hastyResource struct {
	dynamic.NamespaceableResourceInterface
}

func (h hastyResource) Namespace(ns string) dynamic.ResourceInterface {
	return hastyCreate{h.NamespaceableResourceInterface.Namespace(ns)}
}

type hastyCreate struct{ dynamic.ResourceInterface }

func (h hastyCreate) Create(ctx context.Context, o *unstructured.Unstructured, opts metav1.CreateOptions, sub ...string) (*unstructured.Unstructured, error) {
	if _, err := h.ResourceInterface.Create(ctx, o, opts, sub...); err != nil {
		return nil, err
	}
	return nil, context.Canceled
}

func TestAClaimWhoseMakingGotNoAnswerIsTakenBack(t *testing.T) {
	c := fake.New(t)
	m := manager(t, c, "a", func(o *sandboxes.Options) { o.Client = hasty{Interface: c.Client()} })
	_, err := m.Take(t.Context(), "u")
	require.ErrorIs(t, err, context.Canceled)
	empty(t, c)
	// Another's of the same name stays.
	other := take(t, manager(t, c, "b", nil), "u")
	_, err = m.Take(t.Context(), "u")
	require.ErrorIs(t, err, context.Canceled)
	assert.Eventually(t, func() bool { return len(c.Claims()) == 1 }, 20*time.Second, time.Millisecond)
	require.NoError(t, m.Renew(t.Context(), other))
}

func TestASandboxThatIsNotTheClaimsOwnIsNotUsed(t *testing.T) {
	c := fake.New(t)
	victim := take(t, manager(t, c, "a", nil), "victim")
	c.Misdirect(victim.Name)
	m := manager(t, c, "b", func(o *sandboxes.Options) { o.Timeouts.Take = 2 * time.Second })
	_, err := m.Take(t.Context(), "attacker")
	require.ErrorContains(t, err, "not its own")
}

func TestAnAPIServerThatRestartsIsWaitedFor(t *testing.T) {
	c := fake.New(t)
	m := manager(t, c, "a", nil)
	b := take(t, m, "u")
	c.SetDown(true)
	require.Error(t, m.Renew(t.Context(), b))
	var wg sync.WaitGroup
	wg.Go(func() {
		<-time.After(50 * time.Millisecond)
		c.SetDown(false)
	})
	require.NoError(t, m.Release(t.Context(), b))
	wg.Wait()
	empty(t, c)
}

func TestAClaimThatNeverBindsIsTakenBack(t *testing.T) {
	c := fake.New(t)
	c.Bind = 2 * time.Second
	m := manager(t, c, "a", func(o *sandboxes.Options) { o.Timeouts.Take = 500 * time.Millisecond })
	_, err := m.Take(t.Context(), "u")
	require.ErrorContains(t, err, "it is not ready")
	empty(t, c)
}

func TestAUsersNameIsInNoName(t *testing.T) {
	c := fake.New(t)
	m := manager(t, c, "a", nil)
	take(t, m, "Alice@example.com; drop table")
	name := c.Claims()[0]
	assert.Empty(t, validation.IsDNS1123Label(name))
	assert.NotContains(t, name, "lice")
	c.Change(name, func(u *unstructured.Unstructured) {
		for k, v := range u.GetLabels() {
			assert.Empty(t, validation.IsValidLabelValue(v), k)
			assert.NotContains(t, v, "lice")
		}
		policy, _, _ := unstructured.NestedString(u.Object, "spec", "lifecycle", "shutdownPolicy")
		assert.Equal(t, "DeleteForeground", policy)
	})
	assert.NotEqual(t, sandboxes.Digest("a"), sandboxes.Digest("b"))
}

func TestWhoeverDeploysSaysHowManyAUserMayHave(t *testing.T) {
	c := fake.New(t)
	m := manager(t, c, "a", func(o *sandboxes.Options) { o.MaxPerUser = 3 })
	for range 3 {
		take(t, m, "u")
	}
	_, err := m.Take(t.Context(), "u")
	require.ErrorIs(t, err, sandboxes.ErrTooMany)
}

func TestSettingsAreChecked(t *testing.T) {
	for _, o := range []sandboxes.Options{{}, {Namespace: "n", Pool: "p"}, {Namespace: "../n", Pool: "p", Holder: "h"},
		{Namespace: "n", Pool: "p", Holder: "h", MaxPerUser: -1}} {
		_, err := sandboxes.New(o)
		assert.Error(t, err)
	}
}
