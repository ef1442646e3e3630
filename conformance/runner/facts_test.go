// SPDX-License-Identifier: Apache-2.0

package runner

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/stockade-dev/stockade/conformance/suite"
)

func TestTheSpecIsReadForEveryContainer(t *testing.T) {
	yes, no := true, false
	tight := &corev1.SecurityContext{ReadOnlyRootFilesystem: &yes}
	pod := &corev1.Pod{Spec: corev1.PodSpec{
		Volumes: []corev1.Volume{
			{Name: "a", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
			{Name: "b", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}},
			{Name: "c"},
			{Name: "d", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: "Memory", SizeLimit: resource.NewQuantity(64<<20, resource.BinarySI)}}},
			{Name: "e", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: "Memory"}}},
		},
		InitContainers: []corev1.Container{{SecurityContext: tight,
			EnvFrom: []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "s"}}}}}},
		Containers: []corev1.Container{{SecurityContext: tight,
			VolumeMounts: []corev1.VolumeMount{{MountPath: "/tmp", Name: "a"}, {MountPath: "/ro", ReadOnly: true},
				{MountPath: "/d", Name: "d", ReadOnly: true}, {MountPath: "/e", Name: "e", ReadOnly: true}},
			Env: []corev1.EnvVar{{Name: "A", Value: "1"}, {Name: "B", ValueFrom: &corev1.EnvVarSource{
				SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "k"}}}}},
		}},
	}}
	var f suite.PodFacts
	declared(&f, pod)
	assert.Equal(t, suite.PodFacts{Declared: true, ReadOnlyRoot: true, ServiceLinks: true, Volumes: []string{"emptyDir:a", "hostPath:b", "unknown:c", "emptyDir:d", "emptyDir:e"},
		InMemory: map[string]int64{"/d": 64 << 20, "/e": 0},
		Env:      []string{"A", "B"}, EnvFrom: []string{"secret:s", "secret:k"}, Writable: []string{"/tmp"}}, f)

	pod.Spec.InitContainers[0].SecurityContext, pod.Spec.EnableServiceLinks = nil, &no
	f = suite.PodFacts{}
	declared(&f, pod)
	assert.False(t, f.ReadOnlyRoot, "one container is enough")
	assert.False(t, f.ServiceLinks)
}
