// SPDX-License-Identifier: Apache-2.0

package overlays

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/stockade-dev/stockade/workloads/execution"
)

// typed reads an object as the API server would, and refuses a field that it
// does not know.
func typed[T any](t *testing.T, o unstructured.Unstructured) T {
	t.Helper()
	var out T
	require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(o.Object, &out, true))
	return out
}

func of(objects []unstructured.Unstructured, namespace string) (out []unstructured.Unstructured) {
	for _, o := range objects {
		if o.GetNamespace() == namespace {
			out = append(out, o)
		}
	}
	return out
}

func TestTheExecutionServiceMayManageAndEnterPodsAlone(t *testing.T) {
	objects := rendered(t, Playground)
	n := kinds(objects)
	assert.Equal(t, 1, n["Role"])
	assert.Zero(t, n["ClusterRole"]+n["ClusterRoleBinding"])
	for _, r := range typed[rbacv1.Role](t, only(t, objects, "Role")).Rules {
		assert.Equal(t, []string{""}, r.APIGroups)
		for _, what := range r.Resources {
			assert.Contains(t, []string{"pods", "pods/exec"}, what)
		}
		assert.NotContains(t, r.Verbs, "*")
	}
	binding := typed[rbacv1.RoleBinding](t, only(t, objects, "RoleBinding"))
	assert.Equal(t, PlaygroundNamespace, binding.Namespace)
	require.Len(t, binding.Subjects, 1)
	assert.Equal(t, ExecutionAccount, binding.Subjects[0].Namespace+"/"+binding.Subjects[0].Name)
}

func TestTheNetworkOfRunsIsDeniedInBothDirections(t *testing.T) {
	p := typed[networkingv1.NetworkPolicy](t, only(t, of(rendered(t, Playground), PlaygroundNamespace), "NetworkPolicy"))
	assert.Empty(t, p.Spec.PodSelector.MatchLabels)
	assert.ElementsMatch(t, []networkingv1.PolicyType{"Ingress", "Egress"}, p.Spec.PolicyTypes)
	assert.Empty(t, p.Spec.Ingress)
	assert.Empty(t, p.Spec.Egress)
}

func TestTheTemplateOfRunsIsReadByTheService(t *testing.T) {
	objects := rendered(t, Playground)
	template := typed[corev1.PodTemplate](t, only(t, objects, "PodTemplate"))
	read, err := execution.Read(&template)
	require.NoError(t, err)
	base, err := read.Limits("")
	require.NoError(t, err)
	python, err := read.Limits(execution.Python)
	require.NoError(t, err)
	for _, name := range []string{"nproc", "nofile", "fsize", "core", "as"} {
		assert.Contains(t, base, name)
	}
	memory := template.Template.Spec.Containers[0].Resources.Limits.Memory().Value()
	assert.Less(t, python["as"], uint64(memory), "Python must meet its own limit before its Pod's")
	for _, v := range template.Template.Spec.Volumes {
		require.NotNil(t, v.EmptyDir, v.Name)
		assert.Equal(t, corev1.StorageMediumMemory, v.EmptyDir.Medium, v.Name)
		assert.NotNil(t, v.EmptyDir.SizeLimit, v.Name)
	}

	copied := typed[corev1.ConfigMap](t, only(t, objects, "ConfigMap"))
	var same corev1.PodTemplate
	require.NoError(t, yaml.UnmarshalStrict([]byte(copied.Data["template.yaml"]), &same))
	same.Namespace = PlaygroundNamespace
	assert.Equal(t, template, same, "the service must read what the cluster has")
}

func TestWhatTheServiceReadsIsWhereItLooks(t *testing.T) {
	deployment := only(t, of(rendered(t, Playground), "playground-system"), "Deployment")
	spec, _, err := unstructured.NestedMap(deployment.Object, "spec", "template", "spec")
	require.NoError(t, err)
	text, err := yaml.Marshal(spec)
	require.NoError(t, err)
	for _, want := range []string{"--namespace=" + PlaygroundNamespace, "--template=/etc/playground/template.yaml", "mountPath: /etc/playground", "name: run"} {
		assert.Contains(t, string(text), want)
	}
	assert.NotContains(t, string(text), "hostPath")
}

func TestOurOwnImagesArePinnedByTheirDigest(t *testing.T) {
	const digest = "stockade.local/playground@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	objects := rendered(t, Playground)
	const service = "stockade.local/execution@sha256:fedcba9876543210fedcba9876543210fedcba9876543210fedcba9876543210"
	require.NoError(t, Pin(objects, map[string]string{"stockade.local/playground:dev": digest, "stockade.local/execution:dev": service}))
	template := typed[corev1.PodTemplate](t, only(t, objects, "PodTemplate"))
	assert.Equal(t, digest, template.Template.Spec.Containers[0].Image)
	copied := typed[corev1.ConfigMap](t, only(t, objects, "ConfigMap"))
	assert.Contains(t, copied.Data["template.yaml"], "image: "+digest+"\n")
	assert.NotContains(t, copied.Data["template.yaml"], ":dev")
	deployment := only(t, objects, "Deployment")
	images := []string{}
	eachImage(deployment.Object, func(image string) { images = append(images, image) })
	assert.Equal(t, []string{service}, images)

	assert.ErrorContains(t, Pin(rendered(t, Playground), map[string]string{"stockade.local/execution:dev": service}), "stockade.local/playground:dev")
	assert.ErrorContains(t, Pin(rendered(t, Controls), nil), "stockade.local/probe:dev", "a control Pod begins anew with a new probe")
	assert.NoError(t, Pin(rendered(t, Reference), nil), "what comes with the node image has tags of its own")
}

// The service reads its template once, when it starts.
func TestTheServiceBeginsAnewWithAnotherTemplate(t *testing.T) {
	digests := func(n string) map[string]string {
		return map[string]string{"stockade.local/playground:dev": "stockade.local/playground@sha256:" + strings.Repeat(n, 64),
			"stockade.local/execution:dev": "stockade.local/execution@sha256:" + strings.Repeat("0", 64)}
	}
	announced := func(objects []unstructured.Unstructured, n string) string {
		require.NoError(t, Pin(objects, digests(n)))
		text, found, err := unstructured.NestedString(only(t, objects, "Deployment").Object,
			"spec", "template", "metadata", "annotations", "stockade.dev/config-run")
		require.NoError(t, err)
		assert.True(t, found)
		return text
	}
	was := announced(rendered(t, Playground), "1")
	assert.Equal(t, was, announced(rendered(t, Playground), "1"), "without a change nothing restarts")
	assert.NotEqual(t, was, announced(rendered(t, Playground), "2"), "another image of the runs")
	objects := rendered(t, Playground)
	for i := range objects {
		if objects[i].GetKind() == "ConfigMap" {
			text, _, err := unstructured.NestedString(objects[i].Object, "data", "template.yaml")
			require.NoError(t, err)
			require.NoError(t, unstructured.SetNestedField(objects[i].Object, strings.ReplaceAll(text, "nproc=256", "nproc=255"), "data", "template.yaml"))
		}
	}
	assert.NotEqual(t, was, announced(objects, "1"), "another limit")
}

func TestTheDefaultPolicyIsTheControllersOwn(t *testing.T) {
	template := only(t, rendered(t, Default), "SandboxTemplate")
	assert.Equal(t, DefaultNamespace, template.GetNamespace())
	_, found, err := unstructured.NestedMap(template.Object, "spec", "networkPolicy")
	require.NoError(t, err)
	assert.False(t, found)
	was := only(t, rendered(t, Reference), "SandboxTemplate")
	unstructured.RemoveNestedField(was.Object, "spec", "networkPolicy")
	was.SetNamespace(DefaultNamespace)
	assert.Equal(t, was.Object, template.Object, "nothing else differs from the reference")
}

// The kinds in which one control hides another have scaffolds without the other.
func TestAMutantOfThePlaygroundHasTheScaffoldThatShowsIt(t *testing.T) {
	for _, m := range mutants(t) {
		if m.Base != BasePlayground {
			assert.False(t, strings.HasPrefix(m.ID, "playground-"), "%s is called after the playground and is not of it", m.ID)
			continue
		}
		objects, err := m.Render(module(t))
		require.NoError(t, err)
		n := kinds(objects)
		assert.Equal(t, m.Scope == ScopeAdmission, n["ValidatingAdmissionPolicy"] == 1, m.ID)
		assert.Zero(t, n["SandboxTemplate"], m.ID)
		// What Pod Security refuses the service is no hole in the policy.
		level := "privileged"
		if slices.Contains(m.Kills, "playground.forbidden-pods") {
			level = "restricted"
		}
		if slices.Contains(m.Kills, "playground.execution-rights") {
			assert.True(t, m.OwnService, "%s: the playground's own service has its rights in two namespaces", m.ID)
		}
		for _, o := range objects {
			if o.GetKind() == "Namespace" && m.Changes.Kind != "Namespace" {
				assert.Equal(t, level, o.GetLabels()["pod-security.kubernetes.io/enforce"],
					"%s: Pod Security would turn its weakened Pods away", m.ID)
				assert.Contains(t, o.GetLabels(), "stockade.dev/mutant", m.ID)
			}
		}
	}
}

// A mutant whose weakening only the playground's own service could feel, or that
// of another mutant, would be killed by nobody.
func TestAServiceOfAMutantsOwnMakesTheMutantsRuns(t *testing.T) {
	n := 0
	for _, m := range mutants(t) {
		if !m.OwnService {
			assert.Equal(t, []string{m.Namespace()}, m.Namespaces())
			assert.Equal(t, ExecutionAccount, m.Account())
			continue
		}
		n++
		t.Run(m.ID, func(t *testing.T) {
			objects, err := m.Render(module(t))
			require.NoError(t, err)
			namespace, name, _ := strings.Cut(m.Account(), "/")
			assert.Equal(t, m.Namespaces()[1], namespace)
			binding := typed[rbacv1.RoleBinding](t, only(t, of(objects, m.Namespace()), "RoleBinding"))
			require.Len(t, binding.Subjects, 1)
			account := rbacv1.Subject{Kind: "ServiceAccount", Name: name, Namespace: namespace}
			assert.Equal(t, account, binding.Subjects[0])
			for _, o := range of(objects, namespace) {
				if o.GetKind() == "RoleBinding" {
					assert.Equal(t, []rbacv1.Subject{account}, typed[rbacv1.RoleBinding](t, o).Subjects, "what one more binds is the service")
				}
			}
			deployment := typed[appsv1.Deployment](t, only(t, of(objects, namespace), "Deployment"))
			assert.Contains(t, deployment.Spec.Template.Spec.Containers[0].Args, "--namespace="+m.Namespace())
			assert.NotContains(t, deployment.Spec.Template.Spec.Containers[0].Args, "--namespace="+PlaygroundNamespace)
			template := typed[corev1.PodTemplate](t, only(t, objects, "PodTemplate"))
			var read corev1.PodTemplate
			copied := typed[corev1.ConfigMap](t, only(t, objects, "ConfigMap"))
			require.NoError(t, yaml.UnmarshalStrict([]byte(copied.Data["template.yaml"]), &read))
			read.Namespace = m.Namespace()
			assert.Equal(t, template, read, "the service must read what the mutant has")

			digest := "@sha256:" + strings.Repeat("0", 64)
			require.NoError(t, Pin(objects, map[string]string{
				"stockade.local/playground:dev": "stockade.local/playground" + digest, "stockade.local/execution:dev": "stockade.local/execution" + digest}))
			copied = typed[corev1.ConfigMap](t, only(t, objects, "ConfigMap"))
			assert.Contains(t, copied.Data["template.yaml"], "image: stockade.local/playground"+digest)
		})
	}
	assert.Positive(t, n)
}
