// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/stockade-dev/stockade/conformance/descriptor"
	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/infra/kube"
	"github.com/stockade-dev/stockade/infra/node"
	"github.com/stockade-dev/stockade/overlays"
	"github.com/stockade-dev/stockade/workloads/gateway/auth"
)

// homely is a machine with a run folder, and a cluster that holds the objects.
func homely(t *testing.T, objects ...runtime.Object) (callersLayer, *kube.Client) {
	t.Helper()
	m := machine{home: t.TempDir()}
	require.NoError(t, os.Mkdir(m.file(), 0o700))
	return callersLayer{m}, &kube.Client{Clientset: fake.NewClientset(objects...)}
}

func sharedNamespace() *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: overlays.KodeGopherSharedNamespace}}
}

func server(ready int32) *appsv1.Deployment {
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: overlays.KodeGopherSharedNamespace, Name: overlays.KodeGopherName},
		Status:     appsv1.DeploymentStatus{ReadyReplicas: ready},
	}
}

func (l callersLayer) read(t *testing.T) map[string]string {
	t.Helper()
	callers, err := descriptor.ReadCallers(l.m.callersFile())
	require.NoError(t, err)
	return callers
}

func TestCallersAreKnownToTheServerByDigestsAlone(t *testing.T) {
	l, c := homely(t)
	require.NoError(t, l.make(t.Context(), c))
	callers := l.read(t)
	assert.Len(t, callers, 5)
	known := digests(callers)
	static, err := auth.ParseStatic(strings.NewReader(known))
	require.NoError(t, err)
	seen := map[string]bool{}
	for name, token := range callers {
		id, err := static.Verify(t.Context(), token)
		require.NoError(t, err)
		assert.Equal(t, "static:"+name, id.User)
		assert.NotContains(t, known, token)
		seen[token] = true
	}
	assert.Len(t, seen, 5, "nobody has another's")
	state, err := l.Status(t.Context())
	require.NoError(t, err)
	assert.Equal(t, State{Up: true, Detail: "user1, user2, user3, user4, user5"}, state)
}

func TestTheSignersPublicKeyIsWhatTheServerVerifiesWith(t *testing.T) {
	l, c := homely(t)
	require.NoError(t, l.make(t.Context(), c))
	signer, err := descriptor.ReadSignIn(l.m.signerFile())
	require.NoError(t, err)
	known, err := signerKeys(signer)
	require.NoError(t, err)
	assert.NotContains(t, known, `"d"`, "the private part")
	keys, err := auth.ParseKeys(strings.NewReader(known))
	require.NoError(t, err)
	google, err := auth.NewGoogle(auth.GoogleOptions{ClientID: signer.ClientID, Issuer: signer.Issuer, Keys: keys, Domains: signer.Domains})
	require.NoError(t, err)
	encode := base64.RawURLEncoding.EncodeToString
	input := encode([]byte(`{"alg":"ES256","kid":"`+signer.KeyID+`"}`)) + "." + encode(fmt.Appendf(nil,
		`{"iss":%q,"aud":%q,"sub":"1","email":"a@team.stockade.test","email_verified":true,"hd":%q,"exp":4102444800}`, signer.Issuer, signer.ClientID, signer.Domains[0]))
	signature, err := signer.Sign(input)
	require.NoError(t, err)
	id, err := google.Verify(t.Context(), input+"."+signature)
	require.NoError(t, err)
	assert.True(t, id.Allowed)
}

func TestTokensLiveAsLongAsTheNamespace(t *testing.T) {
	l, c := homely(t)
	require.NoError(t, l.make(t.Context(), c))
	first := l.read(t)
	require.NoError(t, l.make(t.Context(), c))
	second := l.read(t)
	assert.NotEqual(t, first["user1"], second["user1"], "another cluster")

	_, err := c.Clientset.CoreV1().Namespaces().Create(t.Context(), sharedNamespace(), metav1.CreateOptions{})
	require.NoError(t, err)
	require.NoError(t, l.make(t.Context(), c))
	assert.Equal(t, second, l.read(t))

	require.NoError(t, l.Down(t.Context(), nil))
	assert.NoFileExists(t, l.m.callersFile())
	assert.NoFileExists(t, l.m.signerFile())
	require.NoError(t, l.Down(t.Context(), nil), "it may be repeated")
	state, err := l.Status(t.Context())
	require.NoError(t, err)
	assert.False(t, state.Up)
}

func TestAServerWhoseCallersOrSignerAreLostIsDeployedAgain(t *testing.T) {
	for _, lost := range []func(machine) string{machine.callersFile, machine.signerFile} {
		l, c := homely(t, server(2))
		require.NoError(t, l.make(t.Context(), c))
		_, err := c.Clientset.CoreV1().Namespaces().Create(t.Context(), sharedNamespace(), metav1.CreateOptions{})
		require.NoError(t, err)
		require.NoError(t, os.Remove(lost(l.m)))
		require.NoError(t, l.make(t.Context(), c))
		assert.Len(t, l.read(t), 5)
		assert.FileExists(t, lost(l.m))
		list, err := c.Clientset.AppsV1().Deployments("").List(t.Context(), metav1.ListOptions{})
		require.NoError(t, err)
		assert.Empty(t, list.Items, "it would go on asking for the old tokens")
	}
}

func TestEveryProfilesTargetIsDeployed(t *testing.T) {
	m := machine{home: "/h"}
	all := m.targets()
	for _, p := range suite.Profiles {
		assert.Contains(t, all, p.Target, p.ID)
	}
	for name, target := range all {
		assert.Equal(t, strings.HasPrefix(name, "kode-gopher"), target.Gateway != "", name)
		if name == kodeGopherShared {
			assert.Equal(t, filepath.Join("/h", "run", "callers.json"), target.Callers)
			assert.Equal(t, filepath.Join("/h", "run", "signer.json"), target.SignIn)
		} else {
			assert.Empty(t, target.Callers+target.SignIn, name)
		}
	}
	assert.Empty(t, targets[kodeGopherShared].Callers, "of no home in particular")
}

func TestAServerCountsWhenAReplicaIsReady(t *testing.T) {
	shared := targets[kodeGopherShared]
	for what, objects := range map[string][]runtime.Object{"absent": nil, "starting": {server(0)}, "ready": {server(1)}} {
		_, c := homely(t, objects...)
		up, err := serves(t.Context(), c, shared)
		require.NoError(t, err)
		assert.Equal(t, what == "ready", up, what)
		up, err = serves(t.Context(), c, targets[seedTarget])
		require.NoError(t, err)
		assert.True(t, up, "it has none")
	}
}

func TestAProxyThatSandboxesCannotUseIsAnErrorWithAWayOut(t *testing.T) {
	for list, want := range map[string][2]string{
		"off": {"off", ""}, "https://a.example.com,https://b.example.com,direct": {"https://a.example.com,https://b.example.com", "a.example.com"},
	} {
		t.Setenv(node.GoProxyEnv, list)
		proxy, host, err := goProxy(t.Context())
		require.NoError(t, err)
		assert.Equal(t, want, [2]string{proxy, host})
	}
	t.Setenv(node.GoProxyEnv, "http://a.example.com")
	_, _, err := goProxy(t.Context())
	assert.ErrorContains(t, err, "set STOCKADE_GOPROXY")
}
