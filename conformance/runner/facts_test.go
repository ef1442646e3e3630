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
	user := int64(1000)
	tight := &corev1.SecurityContext{ReadOnlyRootFilesystem: &yes, AllowPrivilegeEscalation: &no,
		Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}}
	pod := &corev1.Pod{Spec: corev1.PodSpec{
		SecurityContext: &corev1.PodSecurityContext{RunAsUser: &user},
		Volumes: []corev1.Volume{
			{Name: "a", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
			{Name: "b", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}},
			{Name: "c"},
			{Name: "d", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: "Memory", SizeLimit: resource.NewQuantity(64<<20, resource.BinarySI)}}},
			{Name: "e", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: "Memory"}}},
		},
		InitContainers: []corev1.Container{{SecurityContext: tight, Command: []string{"sh", "-c"}, Args: []string{"true"},
			EnvFrom: []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "s"}}}}}},
		Containers: []corev1.Container{{SecurityContext: tight, Args: []string{"serve"},
			VolumeMounts: []corev1.VolumeMount{{MountPath: "/tmp", Name: "a"}, {MountPath: "/ro", ReadOnly: true},
				{MountPath: "/d", Name: "d", ReadOnly: true}, {MountPath: "/e", Name: "e", ReadOnly: true}},
			Env: []corev1.EnvVar{{Name: "A", Value: "1"}, {Name: "B", ValueFrom: &corev1.EnvVarSource{
				SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "k"}}}}},
		}},
	}}
	var f suite.PodFacts
	declared(&f, pod)
	assert.Equal(t, suite.PodFacts{Declared: true, ReadOnlyRoot: true, ServiceLinks: true, Volumes: []string{"emptyDir:a", "hostPath:b", "unknown:c", "emptyDir:d", "emptyDir:e"},
		InMemory: map[string]int64{"/d": 64 << 20, "/e": 0}, Args: []string{"sh", "-c", "true", "serve"},
		Env: []string{"A", "B"}, EnvFrom: []string{"secret:s", "secret:k"}, Writable: []string{"/tmp"}}, f)

	pod.Spec.InitContainers[0].SecurityContext, pod.Spec.EnableServiceLinks = nil, &no
	f = suite.PodFacts{}
	declared(&f, pod)
	assert.False(t, f.ReadOnlyRoot, "one container is enough")
	assert.False(t, f.ServiceLinks)
	assert.Equal(t, []string{"privilege escalation", "the runtime's default capabilities"}, f.Privileges, "and here too")
}

func TestOneContainerIsEnough(t *testing.T) {
	memory := func(name, size string) corev1.Volume {
		e := &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}
		if size != "" {
			q := resource.MustParse(size)
			e.SizeLimit = &q
		}
		return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{EmptyDir: e}}
	}
	at := func(volume, path string) corev1.Container {
		return corev1.Container{VolumeMounts: []corev1.VolumeMount{{Name: volume, MountPath: path}}}
	}
	for name, c := range map[string]struct {
		containers []corev1.Container
		want       map[string]int64
	}{
		"memory":                    {[]corev1.Container{at("small", "/tmp/")}, map[string]int64{"/tmp": 64 << 20}},
		"a disk, then memory":       {[]corev1.Container{at("disk", "/tmp"), at("small", "/tmp")}, map[string]int64{}},
		"memory, then a disk":       {[]corev1.Container{at("small", "/tmp"), at("disk", "/tmp"), at("small", "/tmp")}, map[string]int64{}},
		"two sizes":                 {[]corev1.Container{at("large", "/tmp"), at("small", "/tmp")}, map[string]int64{"/tmp": 128 << 20}},
		"two, the other way around": {[]corev1.Container{at("small", "/tmp"), at("large", "/tmp")}, map[string]int64{"/tmp": 128 << 20}},
		"one without a size":        {[]corev1.Container{at("endless", "/tmp"), at("small", "/tmp")}, map[string]int64{"/tmp": 0}},
		"one without, at last":      {[]corev1.Container{at("small", "/tmp"), at("endless", "/tmp")}, map[string]int64{"/tmp": 0}},
	} {
		var f suite.PodFacts
		declared(&f, &corev1.Pod{Spec: corev1.PodSpec{Containers: c.containers, Volumes: []corev1.Volume{
			memory("small", "64Mi"), memory("large", "128Mi"), memory("endless", ""),
			{Name: "disk", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}}})
		assert.Equal(t, c.want, f.InMemory, name)
		assert.Contains(t, f.Writable, "/tmp", name)
	}
	var f suite.PodFacts
	declared(&f, &corev1.Pod{Spec: corev1.PodSpec{EphemeralContainers: []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{
		VolumeDevices: []corev1.VolumeDevice{{DevicePath: "/dev/block"}},
		Env:           []corev1.EnvVar{{Name: "A", ValueFrom: &corev1.EnvVarSource{FileKeyRef: &corev1.FileKeySelector{VolumeName: "v"}}}}}}}}})
	assert.False(t, f.ReadOnlyRoot, "of one that was added to a Pod that runs, too")
	assert.Len(t, f.Privileges, 3)
	assert.Equal(t, []string{"/dev/block"}, f.Writable)
	assert.Equal(t, []string{"file:v"}, f.EnvFrom)
}

func TestWhatASpecLeavesToAContainer(t *testing.T) {
	yes, no, root, user := true, false, int64(0), int64(1000)
	for name, c := range map[string]struct {
		pod    *corev1.PodSecurityContext
		change func(*corev1.SecurityContext)
		want   []string
	}{
		"nothing":                        {&corev1.PodSecurityContext{RunAsUser: &user}, func(*corev1.SecurityContext) {}, nil},
		"no user but a promise":          {&corev1.PodSecurityContext{RunAsNonRoot: &yes}, func(*corev1.SecurityContext) {}, nil},
		"a container's user of its own":  {&corev1.PodSecurityContext{RunAsUser: &root}, func(c *corev1.SecurityContext) { c.RunAsUser = &user }, nil},
		"root":                           {&corev1.PodSecurityContext{RunAsUser: &root}, func(*corev1.SecurityContext) {}, []string{"root"}},
		"root, in the container":         {&corev1.PodSecurityContext{RunAsUser: &user}, func(c *corev1.SecurityContext) { c.RunAsUser = &root }, []string{"root"}},
		"whoever the image says":         {nil, func(*corev1.SecurityContext) {}, []string{"the image's user"}},
		"the promise taken back":         {&corev1.PodSecurityContext{RunAsNonRoot: &yes}, func(c *corev1.SecurityContext) { c.RunAsNonRoot = &no }, []string{"the image's user"}},
		"programs of other users":        {&corev1.PodSecurityContext{RunAsUser: &user}, func(c *corev1.SecurityContext) { c.AllowPrivilegeEscalation = nil }, []string{"privilege escalation"}},
		"a capability beside none":       {&corev1.PodSecurityContext{RunAsUser: &user}, func(c *corev1.SecurityContext) { c.Capabilities.Add = []corev1.Capability{"SYS_CHROOT"} }, []string{"the capability SYS_CHROOT"}},
		"one capability less than usual": {&corev1.PodSecurityContext{RunAsUser: &user}, func(c *corev1.SecurityContext) { c.Capabilities.Drop = []corev1.Capability{"NET_RAW"} }, []string{"the runtime's default capabilities"}},
		"privileged":                     {&corev1.PodSecurityContext{RunAsUser: &user}, func(c *corev1.SecurityContext) { c.Privileged = &yes }, []string{"everything (privileged)"}},
	} {
		box := &corev1.SecurityContext{AllowPrivilegeEscalation: &no, Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}}
		c.change(box)
		assert.Equal(t, c.want, privileges(c.pod, box), name)
	}
	assert.Len(t, privileges(nil, nil), 3, "a spec that says nothing")
}
