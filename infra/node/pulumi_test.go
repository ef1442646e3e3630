// SPDX-License-Identifier: Apache-2.0

package node

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTheKubernetesProviderGoesByTheVersionOfItsSDK(t *testing.T) {
	gomod, err := os.ReadFile(filepath.Join(checkout, "go.mod"))
	require.NoError(t, err)
	sdk := regexp.MustCompile(`github\.com/pulumi/pulumi-kubernetes/sdk/v4 v(\S+)`).FindSubmatch(gomod)
	require.NotNil(t, sdk)
	assert.Equal(t, KubernetesProvider, string(sdk[1]), "the engine looks for a provider of the SDK's version")
}

func TestTheEngineIsOfTheVersionOfOurSDK(t *testing.T) {
	engine, err := os.ReadFile(filepath.Join(checkout, "tools", "pulumi", "go.mod"))
	require.NoError(t, err)
	ours, err := os.ReadFile(filepath.Join(checkout, "go.mod"))
	require.NoError(t, err)
	sdk := Component{Name: "sdk", Module: "github.com/pulumi/pulumi/sdk/v3"}
	want, err := sdk.version(ours)
	require.NoError(t, err)
	for _, module := range []string{sdk.Module, "github.com/pulumi/pulumi/pkg/v3"} {
		got, err := Component{Name: "pulumi", Module: module}.version(engine)
		require.NoError(t, err)
		assert.Equal(t, want, got, module)
	}
}

func TestPulumiIsFoundOnceAllOfItIsBuilt(t *testing.T) {
	b := testBuilder(t)
	require.NoError(t, b.keyComponents(PulumiComponents()))
	_, ok := b.pulumi()
	assert.False(t, ok)
	write(t, b.components["pulumi"].path("pulumi"), "program")
	_, ok = b.pulumi()
	assert.False(t, ok, "the provider is missing")
	write(t, b.components["pulumi-kubernetes"].path("pulumi-resource-kubernetes"), "")
	_, ok = b.pulumi()
	assert.False(t, ok, "the provider is empty")
	write(t, b.components["pulumi-kubernetes"].path("pulumi-resource-kubernetes"), "program")
	tools, ok := b.pulumi()
	assert.True(t, ok)
	assert.FileExists(t, tools.Engine)
	assert.FileExists(t, tools.Kubernetes)
}

func TestTheClustersImagesDoNotWaitForPulumi(t *testing.T) {
	b := testBuilder(t)
	assert.NotContains(t, b.components, "pulumi")
	assert.NotContains(t, b.components, "pulumi-kubernetes")
}

// TestWhatIsEmbeddedIsInNoCheckout also guards against a build that leaves its
// generated files behind: they would become part of the key, and of a commit.
func TestWhatIsEmbeddedIsInNoCheckout(t *testing.T) {
	n := 0
	for _, c := range PulumiComponents() {
		for to := range c.Embed {
			n++
			assert.NoFileExists(t, filepath.Join(checkout, "tools", c.Name, to))
		}
	}
	assert.Positive(t, n, "something is embedded")
}

func TestEmbeddedFilesReachTheCompilerAndNotTheSources(t *testing.T) {
	source, module, work := t.TempDir(), t.TempDir(), t.TempDir()
	write(t, filepath.Join(module, "cmd", "doc.json"), "{\n  \"a\": 1\n}\n")
	dir := filepath.Join(source, "tools", "x")
	write(t, filepath.Join(dir, "go.mod"), "module tools\n\ngo 1.26.0\n")
	write(t, filepath.Join(dir, "p", "main.go"), "package main\n\nimport _ \"embed\"\n\n//go:embed doc.json\nvar doc string\n\nfunc main() { print(doc) }\n")
	c := built{Component: Component{Name: "x", Embed: map[string]string{"p/doc.json": "cmd/doc.json"}}}

	tc, err := readToolchain(t.Context(), checkout)
	require.NoError(t, err)
	b := &builder{Options: Options{Source: source}, tc: tc}
	overlay, err := b.embed(c, module, work)
	require.NoError(t, err)
	to := filepath.Join(work, "p")
	args := append([]string{"build"}, buildFlags...)
	_, err = b.goCommand(dir, append(args, "-overlay", overlay, "-o", to, "./p")...).run(t.Context())
	require.NoError(t, err)

	program, err := os.ReadFile(to)
	require.NoError(t, err)
	assert.Contains(t, string(program), `{"a":1}`, "minified, and in the program")
	assert.NoFileExists(t, filepath.Join(dir, "p", "doc.json"))
}

func TestWhatCannotBeEmbeddedIsNamed(t *testing.T) {
	module := t.TempDir()
	write(t, filepath.Join(module, "broken.json"), "{")
	for file, want := range map[string]string{"none.json": "no such file", "broken.json": "minifying broken.json of x"} {
		c := built{Component: Component{Name: "x", Embed: map[string]string{"p/doc.json": file}}}
		_, err := (&builder{}).embed(c, module, t.TempDir())
		assert.ErrorContains(t, err, want)
		assert.ErrorContains(t, err, file)
	}
}

func TestToolsAreThoseThatAreBuilt(t *testing.T) {
	source, err := filepath.Abs(checkout)
	require.NoError(t, err)
	o := Options{Home: t.TempDir(), Source: source}
	tools, err := Tools(t.Context(), o)
	require.NoError(t, err)
	assert.Empty(t, tools)
	b, err := prepareComponents(t.Context(), o, Components())
	require.NoError(t, err)
	path := b.components["etcd"].path("etcd")
	write(t, path, "")
	tools, err = Tools(t.Context(), o)
	require.NoError(t, err)
	assert.Equal(t, map[string]string{"etcd": path}, tools)
}
