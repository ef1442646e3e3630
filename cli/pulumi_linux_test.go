// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/stockade-dev/stockade/infra/node"
)

// built writes files in the place of what `make pulumi` builds.
func built(t *testing.T, home string) (node.Pulumi, string) {
	t.Helper()
	bin := t.TempDir()
	tools := node.Pulumi{Engine: filepath.Join(home, "bin", "p-1", "pulumi"), Kubernetes: filepath.Join(home, "bin", "k-1", kubernetesProvider)}
	for _, path := range []string{tools.Engine, tools.Kubernetes, filepath.Join(bin, languageHost)} {
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(path), 0o755))
	}
	return tools, bin
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(data)
}

func none(string) string { return "" }

func TestPulumiFindsItsPluginsAndKeepsItsStateInTheHome(t *testing.T) {
	home := t.TempDir()
	tools, bin := built(t, home)
	engine, env, err := installPulumi(home, bin, "/x/stockade", tools, none)
	require.NoError(t, err)

	// Not a symbolic link: see installPulumi.
	real, err := filepath.EvalSymlinks(engine)
	require.NoError(t, err)
	assert.Equal(t, filepath.Join(home, "pulumi", "engine", "pulumi"), real)
	assert.Equal(t, tools.Engine, read(t, engine))
	assert.Equal(t, filepath.Join(bin, languageHost), read(t, filepath.Join(filepath.Dir(engine), languageHost)))
	plugin := filepath.Join(env["PULUMI_HOME"], "plugins", "resource-kubernetes-v"+node.KubernetesProvider, kubernetesProvider)
	assert.Equal(t, tools.Kubernetes, read(t, plugin))

	assert.Equal(t, "file://"+home+"/pulumi/state", env["PULUMI_BACKEND_URL"])
	assert.DirExists(t, filepath.Join(home, "pulumi", "state"))
	assert.Equal(t, home, env["STOCKADE_HOME"])
	assert.Equal(t, "/x/stockade", env["STOCKADE_CLI"])
	assert.Equal(t, "true", env["PULUMI_SKIP_UPDATE_CHECK"])
	assert.Equal(t, "true", env["PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION"])
	assert.True(t, strings.HasPrefix(env["PATH"], filepath.Dir(engine)+":"+bin+":"))
}

func TestThePassphraseIsSecretAndMadeOnce(t *testing.T) {
	home := t.TempDir()
	tools, bin := built(t, home)
	_, env, err := installPulumi(home, bin, "/x", tools, none)
	require.NoError(t, err)
	file := env["PULUMI_CONFIG_PASSPHRASE_FILE"]
	info, err := os.Stat(file)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	first := read(t, file)
	assert.GreaterOrEqual(t, len(first), 26)
	_, _, err = installPulumi(home, bin, "/x", tools, none)
	require.NoError(t, err)
	assert.Equal(t, first, read(t, file))

	other := t.TempDir()
	tools, bin = built(t, other)
	_, env, err = installPulumi(other, bin, "/x", tools, none)
	require.NoError(t, err)
	assert.NotEqual(t, first, read(t, env["PULUMI_CONFIG_PASSPHRASE_FILE"]))

	entries, err := os.ReadDir(filepath.Join(home, "pulumi"))
	require.NoError(t, err)
	for _, e := range entries {
		assert.False(t, strings.HasPrefix(e.Name(), "."), "%s is left behind", e.Name())
	}
}

func TestWhatTheUserHasSetStays(t *testing.T) {
	home := t.TempDir()
	tools, bin := built(t, home)
	own := t.TempDir()
	user := map[string]string{
		"PULUMI_HOME": own, "PULUMI_BACKEND_URL": "gs://bucket", "PULUMI_CONFIG_PASSPHRASE": "secret",
		"PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "false", "STOCKADE_CLI": "/own/stockade", "PATH": "/usr/bin",
	}
	_, env, err := installPulumi(home, bin, "/x", tools, func(k string) string { return user[k] })
	require.NoError(t, err)
	for _, k := range []string{"PULUMI_HOME", "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION", "STOCKADE_CLI"} {
		assert.Equal(t, user[k], env[k], k)
	}
	assert.NotContains(t, env, "PULUMI_BACKEND_URL")
	assert.NotContains(t, env, "PULUMI_CONFIG_PASSPHRASE_FILE")
	assert.NoDirExists(t, filepath.Join(home, "pulumi", "state"))
	assert.NoFileExists(t, filepath.Join(home, "pulumi", "passphrase"))
	assert.True(t, strings.HasSuffix(env["PATH"], ":/usr/bin"))
}

func TestThePolicyPackJudgesUnlessTheUserSaysOtherwise(t *testing.T) {
	pack, ok := judgeBy("/b", func(string) (string, bool) { return "", false })
	assert.True(t, ok)
	assert.Equal(t, "/b/policy", pack)
	for _, own := range []string{"", "/own/pack"} {
		_, ok = judgeBy("/b", func(k string) (string, bool) { return own, k == "PULUMI_OPTION_POLICY_PACK" })
		assert.False(t, ok, "%q stays", own)
	}
}

func TestAnotherBuildTakesThePlaceOfTheFormer(t *testing.T) {
	home := t.TempDir()
	tools, bin := built(t, home)
	_, env, err := installPulumi(home, bin, "/x", tools, none)
	require.NoError(t, err)
	plugin := filepath.Join(env["PULUMI_HOME"], "plugins", "resource-kubernetes-v"+node.KubernetesProvider, kubernetesProvider)

	next := node.Pulumi{Engine: filepath.Join(home, "next"), Kubernetes: filepath.Join(home, "next-k")}
	require.NoError(t, os.WriteFile(next.Engine, []byte("next engine"), 0o755))
	require.NoError(t, os.WriteFile(next.Kubernetes, []byte("next provider"), 0o755))
	require.NoError(t, os.Remove(tools.Kubernetes), "a link that leads nowhere is replaced too")
	engine, _, err := installPulumi(home, bin, "/x", next, none)
	require.NoError(t, err)
	assert.Equal(t, "next engine", read(t, engine))
	assert.Equal(t, "next provider", read(t, plugin))

	require.NoError(t, os.Remove(plugin))
	require.NoError(t, os.WriteFile(plugin, []byte("official"), 0o755))
	_, _, err = installPulumi(home, bin, "/x", tools, none)
	require.NoError(t, err)
	assert.Equal(t, "official", read(t, plugin), "what somebody has installed is left alone")
}
