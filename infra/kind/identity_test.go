// SPDX-License-Identifier: Apache-2.0

//go:build linux

package kind

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/stockade-dev/stockade/infra/kube"
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
