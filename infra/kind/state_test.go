// SPDX-License-Identifier: Apache-2.0

//go:build linux

package kind

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/stockade-dev/stockade/infra/kube"
	"github.com/stockade-dev/stockade/infra/node/engine"
	"github.com/stockade-dev/stockade/infra/progress"
)

func system(uid string) *kube.Client {
	return &kube.Client{Clientset: fake.NewClientset(&corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{Name: "kube-system", UID: types.UID(uid)},
	})}
}

func recorded(t *testing.T, uid string) (home string) {
	t.Helper()
	home = t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(home, "run"), 0o755))
	require.NoError(t, Identity{Name: "stockade", UID: uid}.write(Options{Home: home}.identityPath()))
	return home
}

func TestOurClusterIsConfirmed(t *testing.T) {
	require.NoError(t, Confirm(t.Context(), system("1-2-3"), recorded(t, "1-2-3")))
}

func TestAnyOtherClusterIsRefused(t *testing.T) {
	require.ErrorIs(t, Confirm(t.Context(), system("9-9-9"), recorded(t, "1-2-3")), ErrOtherCluster)
}

func TestWithoutARecordNothingIsConfirmed(t *testing.T) {
	require.ErrorIs(t, Confirm(t.Context(), system("1-2-3"), t.TempDir()), os.ErrNotExist)
}

func aNode(name string, ready corev1.ConditionStatus) corev1.Node {
	return corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}},
	}
}

func TestOneNodeThatIsNotReadyIsEnough(t *testing.T) {
	assert.Empty(t, unready([]corev1.Node{aNode("a", corev1.ConditionTrue)}))
	assert.Equal(t, "node b is not ready", unready([]corev1.Node{aNode("a", corev1.ConditionTrue), aNode("b", corev1.ConditionUnknown)}))
	assert.Equal(t, "there is no node", unready(nil))
}

func TestAPodWithoutConditionsIsNotReady(t *testing.T) {
	assert.False(t, podReady(corev1.Pod{}))
	assert.True(t, podReady(corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodSucceeded}}))
}

func TestAnArchiveTakesTheTagOverFromTheOneBefore(t *testing.T) {
	had := []string{"probe-1.tar", "probe-host-1.tar", "router-1.tar"}
	assert.Equal(t, []string{"probe-host-1.tar", "router-1.tar", "probe-2.tar", "runner-1.tar"}, imported(had, []string{"probe-2.tar", "runner-1.tar"}))
}

func TestAnInterruptRemovesNoCluster(t *testing.T) {
	home := recorded(t, "1-2-3")
	e, err := engine.New(engine.Options{Home: home})
	require.NoError(t, err)
	o, err := Options{Home: home, Engine: e}.orDefaults()
	require.NoError(t, err)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("ctrl-c"))
	require.ErrorContains(t, o.remove(ctx), "ctrl-c", "what stays must not count as removed")
	_, err = ReadIdentity(home)
	require.NoError(t, err, "the next `up` finds its cluster")

	var said bytes.Buffer
	require.NoError(t, o.giveUp(ctx, progress.New(&said, func(s string) string { return s })), "half a cluster goes all the same")
	_, err = ReadIdentity(home)
	require.ErrorIs(t, err, fs.ErrNotExist)
	assert.Contains(t, said.String(), "removing the half-made cluster")
}

func TestAClusterThatIsLateIsNotReplaced(t *testing.T) {
	late := errors.New("the Pod coredns is not ready")
	asked := 0
	id, err := settle(t.Context(), 10*time.Second, nil, func(context.Context) (Identity, error) {
		if asked++; asked == 1 {
			return Identity{UID: "1-2-3"}, late
		}
		return Identity{UID: "1-2-3"}, nil
	})
	require.NoError(t, err)
	assert.Equal(t, "1-2-3", id.UID)

	_, err = settle(t.Context(), 10*time.Millisecond, nil, func(context.Context) (Identity, error) { return Identity{UID: "1-2-3"}, late })
	assert.ErrorIs(t, err, late, "patience has an end")
}

func TestWhatIsBrokenForGoodIsNotWaitedFor(t *testing.T) {
	for name, broken := range map[string]error{
		"other inputs": errInputs, "stopped": fmt.Errorf("%w: none", errStopped), "another": ErrOtherCluster, "gone": fs.ErrNotExist,
	} {
		asked := 0
		_, err := settle(t.Context(), time.Minute, nil, func(context.Context) (Identity, error) { asked++; return Identity{UID: "1-2-3"}, broken })
		assert.ErrorIs(t, err, broken, name)
		assert.Equal(t, 1, asked, name)
	}
	asked := 0
	_, err := settle(t.Context(), time.Minute, nil, func(context.Context) (Identity, error) { asked++; return Identity{}, errors.New("torn") })
	assert.Error(t, err)
	assert.Equal(t, 1, asked, "a record that nobody can read")
}
