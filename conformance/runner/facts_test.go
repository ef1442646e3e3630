// SPDX-License-Identifier: Apache-2.0

package runner

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"

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
		},
		InitContainers: []corev1.Container{{SecurityContext: tight,
			EnvFrom: []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "s"}}}}}},
		Containers: []corev1.Container{{SecurityContext: tight,
			VolumeMounts: []corev1.VolumeMount{{MountPath: "/tmp"}, {MountPath: "/ro", ReadOnly: true}},
			Env: []corev1.EnvVar{{Name: "A", Value: "1"}, {Name: "B", ValueFrom: &corev1.EnvVarSource{
				SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "k"}}}}},
		}},
	}}
	var f suite.PodFacts
	declared(&f, pod)
	assert.Equal(t, suite.PodFacts{Declared: true, ReadOnlyRoot: true, ServiceLinks: true, Volumes: []string{"emptyDir:a", "hostPath:b", "unknown:c"},
		Env: []string{"A", "B"}, EnvFrom: []string{"secret:s", "secret:k"}, Writable: []string{"/tmp"}}, f)

	pod.Spec.InitContainers[0].SecurityContext, pod.Spec.EnableServiceLinks = nil, &no
	f = suite.PodFacts{}
	declared(&f, pod)
	assert.False(t, f.ReadOnlyRoot, "one container is enough")
	assert.False(t, f.ServiceLinks)
}
