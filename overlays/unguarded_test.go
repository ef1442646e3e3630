// SPDX-License-Identifier: Apache-2.0

package overlays

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func unguardedPaths(t *testing.T, base string, mutants []Mutant) (out []string) {
	t.Helper()
	fields, err := Unguarded(module(t), base, mutants)
	require.NoError(t, err)
	for _, f := range fields {
		out = append(out, f.Kind+" "+f.Path)
	}
	return out
}

func TestAFieldIsGuardedByTheMutantThatChangesIt(t *testing.T) {
	mutants, err := LoadMutants()
	require.NoError(t, err)
	for id, field := range map[string]string{
		"rootfs-writable":         "SandboxTemplate spec.podTemplate.spec.containers[0].securityContext.readOnlyRootFilesystem",
		"tmp-no-size":             "SandboxTemplate spec.podTemplate.spec.volumes[0].emptyDir.sizeLimit",
		"admission-audit-only":    "ValidatingAdmissionPolicyBinding spec.validationActions[0]",
		"playground-no-quota":     "ResourceQuota spec.hard.pods",
		"playground-tmp-disk":     "PodTemplate template.spec.volumes[1].emptyDir.medium",
		"kode-gopher-run-as-root": "SandboxTemplate spec.podTemplate.spec.securityContext.runAsNonRoot",
	} {
		at := slices.IndexFunc(mutants, func(m Mutant) bool { return m.ID == id })
		require.GreaterOrEqual(t, at, 0, id)
		base := mutants[at].Base
		assert.NotContains(t, unguardedPaths(t, base, mutants[at:at+1]), field)
		assert.Contains(t, unguardedPaths(t, base, nil), field, "without %s", id)
	}
}

// What a mutant writes again as it was, and what only moves up a list, it does not
// change; and where all of a policy is opened, no rule of it is looked at.
func TestAMutantGuardsNoFieldThatItKeeps(t *testing.T) {
	mutants, err := LoadMutants()
	require.NoError(t, err)
	const pod, policy = "SandboxTemplate spec.podTemplate.spec.", "SandboxTemplate spec.networkPolicy."
	for id, kept := range map[string][]string{
		"run-as-root":                           {pod + "securityContext.seccompProfile.type"},
		"kode-gopher-run-as-root":               {pod + "securityContext.seccompProfile.type", pod + "securityContext.fsGroup"},
		"kode-gopher-nat64-hole":                {policy + "egress[1].to[1].ipBlock.except[1]", policy + "egress[1].to[1].ipBlock.except[3]"},
		"kode-gopher-network-open":              {policy + "ingress[0].ports[0].port", policy + "ingress[0].ports[0].protocol"},
		"kode-gopher-shared-network-open":       {policy + "ingress[0].ports[0].port"},
		"kode-gopher-shared-ingress-port-range": {policy + "ingress[0].ports[0].protocol"},
		"playground-pod-security-baseline":      {"Namespace metadata.labels.pod-security.kubernetes.io/enforce"}, // of the service's
	} {
		at := slices.IndexFunc(mutants, func(m Mutant) bool { return m.ID == id })
		require.GreaterOrEqual(t, at, 0, id)
		assert.Subset(t, unguardedPaths(t, mutants[at].Base, mutants[at:at+1]), kept, id)
	}
}

// Of two objects of a kind, the one is not guarded by the other's mutant.
func TestAMutantGuardsTheObjectThatItNames(t *testing.T) {
	mutants, err := LoadMutants()
	require.NoError(t, err)
	at := slices.IndexFunc(mutants, func(m Mutant) bool { return m.ID == "playground-execution-unselected" })
	require.GreaterOrEqual(t, at, 0)
	of := func(name string, ms ...Mutant) bool {
		fields, err := Unguarded(module(t), BasePlayground, ms)
		require.NoError(t, err)
		return slices.ContainsFunc(fields, func(f Field) bool {
			return f.Kind == "NetworkPolicy" && f.Name == name && strings.HasPrefix(f.Path, "spec.podSelector")
		})
	}
	assert.True(t, of("execution"))
	assert.False(t, of("execution", mutants[at]))
	assert.True(t, of("default-deny", mutants[at]))
}

// The level of the runs' namespace says nothing of the service's.
func TestANamespaceIsGuardedByTheMutantOfItsOwnLevel(t *testing.T) {
	mutants, err := LoadMutants()
	require.NoError(t, err)
	left := func(without string) (names []string) {
		fields, err := Unguarded(module(t), BasePlayground, slices.DeleteFunc(slices.Clone(mutants), func(m Mutant) bool { return m.ID == without }))
		require.NoError(t, err)
		for _, f := range fields {
			if f.Kind == "Namespace" {
				names = append(names, f.Name)
			}
		}
		return names
	}
	assert.Equal(t, []string{"playground"}, left("playground-pod-security-baseline"))
	assert.Equal(t, []string{"playground-system"}, left("playground-component-pod-security"))
	assert.Empty(t, left(""))
}

func TestWithoutMutantsEverythingIsUnguarded(t *testing.T) {
	for _, base := range Bases {
		assert.Greater(t, len(unguardedPaths(t, base, nil)), 20, base)
	}
}

func TestAPathOverlapsWithWhatItLeadsTo(t *testing.T) {
	for _, pair := range [][2]string{{"spec.a", "spec.a"}, {"spec.a", "spec.a.b"}, {"spec.a[0].b", "spec.a"}} {
		assert.True(t, overlap(pair[0], pair[1]), pair)
	}
	for _, pair := range [][2]string{{"spec.a", "spec.ab"}, {"", "spec"}, {"spec.a[0]", "spec.a[1]"}, {"spec.a[1]", "spec.a[10]"}} {
		assert.False(t, overlap(pair[0], pair[1]), pair)
	}
}
