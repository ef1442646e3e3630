// SPDX-License-Identifier: Apache-2.0

package runner

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/stockade-dev/stockade/conformance/suite"
)

// declared adds what the live Pod's spec says: unlike the probe, it is no word
// of the sandbox's.
func declared(f *suite.PodFacts, pod *corev1.Pod) {
	f.Declared, f.ReadOnlyRoot, f.InMemory = true, true, map[string]int64{}
	memory := map[string]int64{} // by volume
	links := pod.Spec.EnableServiceLinks
	f.ServiceLinks = links == nil || *links // so it is where nobody says
	for _, v := range pod.Spec.Volumes {
		f.Volumes = append(f.Volumes, volumeKind(v.VolumeSource)+":"+v.Name)
		if e := v.EmptyDir; e != nil && e.Medium == corev1.StorageMediumMemory {
			memory[v.Name] = 0
			if e.SizeLimit != nil {
				memory[v.Name] = e.SizeLimit.Value()
			}
		}
	}
	containers := slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers)
	for _, c := range pod.Spec.EphemeralContainers {
		containers = append(containers, corev1.Container(c.EphemeralContainerCommon))
	}
	other := map[string]bool{} // paths that are not in memory for one of them
	for _, c := range containers {
		if s := c.SecurityContext; s == nil || s.ReadOnlyRootFilesystem == nil || !*s.ReadOnlyRootFilesystem {
			f.ReadOnlyRoot = false
		}
		for _, m := range c.VolumeMounts {
			at := path.Clean(m.MountPath)
			if !m.ReadOnly {
				f.Writable = append(f.Writable, at)
			}
			size, ok := memory[m.Name]
			had, twice := f.InMemory[at]
			switch {
			case !ok || other[at]:
				other[at] = true
				delete(f.InMemory, at)
			case twice && (had == 0 || size != 0 && size < had): // 0 is the largest
			default:
				f.InMemory[at] = size
			}
		}
		for _, d := range c.VolumeDevices {
			f.Writable = append(f.Writable, path.Clean(d.DevicePath))
		}
		variables(f, c)
		f.Args = slices.Concat(f.Args, c.Command, c.Args)
		f.Privileges = append(f.Privileges, privileges(pod.Spec.SecurityContext, c.SecurityContext)...)
	}
}

// privileges tells what a container may do that Pod Security's level restricted
// would not let it. What nobody says anything of, the runtime grants: its default
// capabilities, set-user-id programs, and the image's own user, who may be root.
func privileges(pod *corev1.PodSecurityContext, c *corev1.SecurityContext) (found []string) {
	if pod == nil {
		pod = &corev1.PodSecurityContext{}
	}
	if c == nil {
		c = &corev1.SecurityContext{}
	}
	if c.Privileged != nil && *c.Privileged {
		found = append(found, "everything (privileged)")
	}
	if c.AllowPrivilegeEscalation == nil || *c.AllowPrivilegeEscalation {
		found = append(found, "privilege escalation")
	}
	caps := c.Capabilities
	if caps == nil {
		caps = &corev1.Capabilities{}
	}
	if !slices.Contains(caps.Drop, "ALL") {
		found = append(found, "the runtime's default capabilities")
	}
	for _, name := range caps.Add {
		found = append(found, "the capability "+string(name))
	}
	user, unprivileged := cmp.Or(c.RunAsUser, pod.RunAsUser), cmp.Or(c.RunAsNonRoot, pod.RunAsNonRoot)
	switch {
	case user != nil && *user == 0:
		found = append(found, "root")
	case user == nil && (unprivileged == nil || !*unprivileged):
		found = append(found, "the image's user")
	}
	return found
}

// volumeKind is the name of the one field that is set, as the API spells it.
func volumeKind(v corev1.VolumeSource) string {
	text, err := json.Marshal(v)
	var fields map[string]json.RawMessage
	if err == nil {
		err = json.Unmarshal(text, &fields)
	}
	if err != nil || len(fields) != 1 {
		return "unknown"
	}
	for kind := range fields {
		return kind
	}
	return "unknown"
}

func variables(f *suite.PodFacts, c corev1.Container) {
	from := func(kind, name string) { f.EnvFrom = append(f.EnvFrom, fmt.Sprintf("%s:%s", kind, name)) }
	for _, e := range c.EnvFrom {
		if e.SecretRef != nil {
			from("secret", e.SecretRef.Name)
		}
		if e.ConfigMapRef != nil {
			from("configMap", e.ConfigMapRef.Name)
		}
	}
	for _, e := range c.Env {
		f.Env = append(f.Env, e.Name)
		switch v := e.ValueFrom; {
		case v == nil:
		case v.SecretKeyRef != nil:
			from("secret", v.SecretKeyRef.Name)
		case v.ConfigMapKeyRef != nil:
			from("configMap", v.ConfigMapKeyRef.Name)
		case v.FileKeyRef != nil:
			from("file", v.FileKeyRef.VolumeName)
		}
	}
}
