// SPDX-License-Identifier: Apache-2.0

//go:build linux

package kind

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func aNode(name string, ready corev1.ConditionStatus) corev1.Node {
	return corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}},
	}
}

func TestOneNodeThatIsNotReadyIsEnough(t *testing.T) {
	a, b := aNode("a", corev1.ConditionTrue), aNode("b", corev1.ConditionUnknown)
	assert.Empty(t, unready([]corev1.Node{a}, nil))
	assert.Equal(t, "node b is not ready", unready([]corev1.Node{a, b}, nil))
	assert.Equal(t, "node b is not in the cluster", unready([]corev1.Node{a}, []string{"a", "b"}))
	assert.Equal(t, "there is no node", unready(nil, nil))
}

func TestAPodWithoutConditionsIsNotReady(t *testing.T) {
	assert.False(t, podReady(corev1.Pod{}))
	assert.True(t, podReady(corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodSucceeded}}))
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
