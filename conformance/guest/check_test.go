// SPDX-License-Identifier: Apache-2.0

package guest

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/stockade-dev/stockade/infra/kube"
)

var boxKind = schema.GroupVersionKind{Group: "agents.x-k8s.io", Version: "v1beta1", Kind: "Sandbox"}

// cluster is a pretended one with the kinds of Agent Sandbox, whose API server
// stores nothing of a dry run.
func cluster(core ...runtime.Object) (*kube.Client, *dynamicfake.FakeDynamicClient) {
	mapper, lists := meta.NewDefaultRESTMapper(nil), map[schema.GroupVersionResource]string{}
	for kind, plural := range map[schema.GroupVersionKind]string{templateKind: "sandboxtemplates", poolKind: "sandboxwarmpools", boxKind: "sandboxes"} {
		resource := kind.GroupVersion().WithResource(plural)
		mapper.AddSpecific(kind, resource, resource, meta.RESTScopeNamespace)
		lists[resource] = kind.Kind + "List"
	}
	dyn := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), lists)
	dyn.PrependReactor("create", "*", func(a clienttesting.Action) (bool, runtime.Object, error) {
		create, ok := a.(clienttesting.CreateActionImpl)
		return ok && len(create.CreateOptions.DryRun) > 0, create.Object, nil
	})
	return &kube.Client{Clientset: kubefake.NewClientset(core...), Dynamic: dyn, Mapper: mapper}, dyn
}

func node(name string, labels map[string]string, images ...string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
	for _, i := range images {
		n.Status.Images = append(n.Status.Images, corev1.ContainerImage{Names: []string{i, i + "-also@sha256:" + strings.Repeat("0", 64)}})
	}
	return n
}

var gvisor = map[string]string{"sandbox.gke.io/runtime": "gvisor"}

func TestATemplateFitsWhereItsImagesAre(t *testing.T) {
	c, dyn := cluster(node("a", gvisor, "docker.io/some/image:1"))
	require.NoError(t, parsed(t, whole).Check(t.Context(), c, "system"), "docker.io is the default of a name without a registry")
	require.Len(t, dyn.Actions(), 1)
	create, ok := dyn.Actions()[0].(clienttesting.CreateActionImpl)
	require.True(t, ok)
	assert.Equal(t, []string{metav1.DryRunAll}, create.CreateOptions.DryRun, "nothing is created")
	assert.Equal(t, metav1.FieldValidationStrict, create.CreateOptions.FieldValidation)
	assert.Equal(t, "system", create.Namespace)
}

func TestATemplateThatCannotStartIsUnfitAndSaysWhatWould(t *testing.T) {
	many := make([]string, maxImages)
	for i := range many {
		many[i] = fmt.Sprintf("filler.local/x:%d", i)
	}
	for name, c := range map[string]struct {
		old, by string
		node    *corev1.Node
		want    string // none where empty
	}{
		"as it is":               {"", "", node("a", gvisor, "docker.io/some/image:1"), ""},
		"an image too few":       {"", "", node("a", gvisor, "stockade.local/python:3", "b.local/c:1"), `image "some/image:1" is not on the nodes, and no registry can be reached from the seal: name one that is there: b.local/c:1, stockade.local/python:3`},
		"another tag":            {"image:1", "image:2", node("a", gvisor, "docker.io/some/image:1"), `"some/image:2" is not on the nodes`},
		"on another node alone":  {"", "", node("a", nil, "docker.io/some/image:1"), "no node has the labels of its nodeSelector (sandbox.gke.io/runtime=gvisor)"},
		"a node that cannot say": {"", "", node("a", gvisor, many...), ""},
		"a node that says none":  {"", "", node("a", gvisor), "the nodes tell of none"},
		"always pulled":          {"image: some/image:1", "image: some/image:1\n        imagePullPolicy: Always", node("a", gvisor, "docker.io/some/image:1"), "set imagePullPolicy: IfNotPresent"},
		"pulled by default":      {"some/image:1", "some/image", node("a", gvisor, "docker.io/some/image:latest"), "set imagePullPolicy: IfNotPresent"},
		"the newest, but here":   {"image: some/image:1", "image: some/image\n        imagePullPolicy: Never", node("a", gvisor, "docker.io/some/image:latest"), ""},
		"by digest":              {"some/image:1", "some/image@sha256:" + strings.Repeat("1", 64), node("a", gvisor, "docker.io/some/image:1"), "is not on the nodes"},
		"no name at all":         {"some/image:1", "'Some Image'", node("a", gvisor, "docker.io/some/image:1"), "is no name of an image"},
		"an init container's":    {"containers:", "initContainers: [{name: i, image: 'x/y:1'}]\n      containers:", node("a", gvisor, "docker.io/some/image:1"), `image "x/y:1" is not on the nodes`},
		"a volume's":             {"containers:", "volumes: [{name: v, image: {reference: 'x/z:1'}}]\n      containers:", node("a", gvisor, "docker.io/some/image:1"), `image "x/z:1" is not on the nodes`},
	} {
		t.Run(name, func(t *testing.T) {
			k, _ := cluster(c.node)
			err := parsed(t, strings.Replace(whole, c.old, c.by, 1)).Check(t.Context(), k, "system")
			if c.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, ErrUnfit)
			require.ErrorContains(t, err, c.want)
		})
	}
}

func TestOnlyTheServersRefusalIsTheTemplatesFault(t *testing.T) {
	for _, c := range []struct {
		err   error
		unfit bool
	}{
		{apierrors.NewBadRequest(`strict decoding error: unknown field "spec.egress"`), true},
		{apierrors.NewInvalid(templateKind.GroupKind(), "mine", nil), true},
		{apierrors.NewInternalError(errors.New("etcd is away")), false},
		{errors.New("connection refused"), false},
	} {
		k, dyn := cluster(node("a", gvisor, "docker.io/some/image:1"))
		dyn.PrependReactor("create", "sandboxtemplates", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, &unstructured.Unstructured{}, c.err
		})
		err := parsed(t, whole).Check(t.Context(), k, "system")
		require.ErrorContains(t, err, c.err.Error())
		assert.Equal(t, c.unfit, errors.Is(err, ErrUnfit), c.err)
	}
}
