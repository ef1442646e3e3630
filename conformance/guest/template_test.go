// SPDX-License-Identifier: Apache-2.0

package guest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const whole = `
apiVersion: extensions.agents.x-k8s.io/v1beta1
kind: SandboxTemplate
metadata:
  name: mine
  namespace: elsewhere
  uid: 1234
  resourceVersion: "7"
  finalizers: [nobody.example/removes-this]
  labels: {team: a}
spec:
  podTemplate:
    spec:
      runtimeClassName: gvisor
      nodeSelector: {sandbox.gke.io/runtime: gvisor}
      containers:
      - name: main
        image: some/image:1
status: {}
`

func parsed(t *testing.T, text string) *Template {
	t.Helper()
	got, err := Parse([]byte(text))
	require.NoError(t, err)
	return got
}

func TestATemplateIsDeployedUnderOurNamesAndWithoutTheServersFields(t *testing.T) {
	got := parsed(t, whole)
	assert.Equal(t, "template/mine", got.Target())
	o := got.in("guest-1")
	assert.Equal(t, map[string]any{"name": "budget-sandbox", "namespace": "guest-1", "labels": map[string]any{"team": "a"}}, o.Object["metadata"])
	assert.NotContains(t, o.Object, "status")
	assert.Equal(t, got.object.Object["spec"], o.Object["spec"], "what is attacked is what the user wrote")
	assert.Equal(t, "mine", got.object.GetName(), "the template itself is not changed")
}

func TestAFileThatIsNotOneTemplateIsRefusedWithWhatToDo(t *testing.T) {
	swap := func(old, by string) string {
		require.Contains(t, whole, old)
		return strings.Replace(whole, old, by, 1)
	}
	for name, c := range map[string]struct{ text, want string }{
		"nothing":                  {"", "it is empty"},
		"comments alone":           {"# a\n---\n# b\n", "it is empty"},
		"no YAML":                  {"kind: [", "document 1 is no YAML"},
		"no text":                  {"\xff\xfek\x00", "no UTF-8 text"},
		"a list":                   {"- a\n- b\n", "is no Kubernetes object"},
		"a word":                   {"hello", "is no Kubernetes object"},
		"two templates":            {whole + "---\n" + whole, "it holds 2 objects (SandboxTemplate mine, SandboxTemplate mine)"},
		"two behind a comment":     {whole + "--- # the pool\nkind: SandboxWarmPool\n", "it holds 2 objects"},
		"two behind an end":        {whole + "...\n" + whole, "it holds 2 objects"},
		"broken behind a whole":    {whole + "---\nkind: [\n", "document 2 is no YAML"},
		"a key twice":              {swap("kind: SandboxTemplate", "kind: SandboxTemplate\nkind: Pod"), "already set"},
		"another kind":             {swap("kind: SandboxTemplate", "kind: Sandbox"), `it is kind "Sandbox"`},
		"another group":            {swap("extensions.agents.x-k8s.io", "example.com"), "a SandboxTemplate of extensions.agents.x-k8s.io/v1beta1 is needed"},
		"another version":          {swap("v1beta1", "v1alpha1"), "write it for extensions.agents.x-k8s.io/v1beta1"},
		"no name":                  {swap("name: mine", "generateName: mine-"), "metadata.name"},
		"a name with an escape":    {swap("name: mine", `name: "\e[31m"`), "metadata.name"},
		"metadata of a wrong kind": {"apiVersion: extensions.agents.x-k8s.io/v1beta1\nkind: SandboxTemplate\nmetadata: 7\n", "metadata.name"},
		"no containers":            {"apiVersion: extensions.agents.x-k8s.io/v1beta1\nkind: SandboxTemplate\nmetadata: {name: a}\nspec: {}\n", "containers is empty"},
		"a container, no image":    {swap("image: some/image:1", "command: [sleep]"), `container "main" of spec.podTemplate.spec names no image`},
		"an unknown field":         {swap("runtimeClassName", "runtimeClass"), `unknown field "runtimeClass"`},
		"another case":             {swap("runtimeClassName", "RuntimeClassName"), `unknown field "RuntimeClassName"`},
		"a field of a wrong kind":  {swap("runtimeClassName: gvisor", "runtimeClassName: [gvisor]"), "spec.podTemplate.spec"},
		"a spec of a wrong kind":   {"apiVersion: extensions.agents.x-k8s.io/v1beta1\nkind: SandboxTemplate\nmetadata: {name: a}\nspec: {podTemplate: x}\n", "spec.podTemplate.spec"},
		"too much":                 {"#" + strings.Repeat("x", MaxSize), "larger than 1048576 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse([]byte(c.text))
			require.ErrorContains(t, err, c.want)
		})
	}
}

func TestAMarkInsideOfALineSeparatesNothing(t *testing.T) {
	parsed(t, "---\r\n"+strings.Replace(whole, "labels: {team: a}", "annotations: {a: 'b --- c', d: '...'}", 1)+"\n---\n")
	parsed(t, strings.Replace(whole, "status: {}", "# ---\n#...\n", 1))
}

func TestAFileIsReadOnlyIfItIsOne(t *testing.T) {
	dir := t.TempDir()
	_, err := Read(filepath.Join(dir, "absent.yaml"))
	require.ErrorContains(t, err, "there is no file")
	_, err = Read(dir)
	require.ErrorContains(t, err, "no regular file")
	path := filepath.Join(dir, "t.yaml")
	require.NoError(t, os.WriteFile(path, []byte(whole), 0o600))
	got, err := Read(path)
	require.NoError(t, err)
	assert.Equal(t, "mine", got.Name)
	require.NoError(t, os.WriteFile(path, []byte("kind: ["), 0o600))
	_, err = Read(path)
	require.ErrorContains(t, err, path)
	require.NoError(t, os.WriteFile(path, make([]byte, MaxSize+1), 0o600))
	_, err = Read(path)
	require.ErrorContains(t, err, "larger than")
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(whole))
	f.Add([]byte("--- a\n...\n--- {apiVersion: extensions.agents.x-k8s.io/v1beta1, kind: SandboxTemplate}"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if got, err := Parse(text); err == nil {
			assert.NotEmpty(t, got.in("n").GetName())
			assert.NotEmpty(t, images(got.pod))
		}
	})
}
