// SPDX-License-Identifier: Apache-2.0

package execution

import (
	"fmt"
	"maps"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stockade-dev/stockade/workloads/rlimit"
)

// The annotations of a PodTemplate that say what a run gets.
const (
	// UIDs is the range of user ids, "20000-59999". Without it every run has
	// the template's own.
	UIDs = "stockade.dev/uids"
	// Rlimits are the limits of every run; with a dot and a language's name
	// behind, those of its runs in addition or instead.
	Rlimits = "stockade.dev/rlimits"
)

// Helper is where the images of runs have the helper that sets the limits.
const Helper = "/rlimit"

// Template is a PodTemplate that was read.
type Template struct {
	pod    corev1.PodTemplateSpec
	notes  map[string]string
	limits rlimit.Limits
	// first and last bound the user ids; both 0 means that the template's own
	// is used.
	first, last int64
}

// Read reads the template of runs.
//
// Errors: no container, or an annotation that cannot be read. A limit that
// nobody understands must not become no limit.
func Read(t *corev1.PodTemplate) (*Template, error) {
	if len(t.Template.Spec.Containers) != 1 {
		return nil, fmt.Errorf("reading the template of runs: it has %d containers and must have one", len(t.Template.Spec.Containers))
	}
	out := &Template{pod: t.Template, notes: t.Annotations}
	var err error
	if out.limits, err = rlimit.Parse(t.Annotations[Rlimits]); err != nil {
		return nil, fmt.Errorf("reading the template of runs: %w", err)
	}
	for key := range t.Annotations {
		if language, found := strings.CutPrefix(key, Rlimits+"."); found {
			if _, err := out.Limits(language); err != nil {
				return nil, fmt.Errorf("reading the template of runs: %s: %w", key, err)
			}
		}
	}
	if text := t.Annotations[UIDs]; text != "" {
		first, last, _ := strings.Cut(text, "-")
		a, err1 := strconv.ParseInt(first, 10, 32)
		b, err2 := strconv.ParseInt(last, 10, 32)
		if err1 != nil || err2 != nil || a < 1 || b < a {
			return nil, fmt.Errorf("reading the template of runs: the user ids %q must be a range such as 20000-59999, without 0", text)
		}
		out.first, out.last = a, b
	}
	return out, nil
}

// Limits returns the limits of a run in a language; empty is any program.
func (t *Template) Limits(language string) (rlimit.Limits, error) {
	more, err := rlimit.Parse(t.notes[Rlimits+"."+language])
	if err != nil {
		return nil, err
	}
	return t.limits.With(more), nil
}

// Command returns what has to be executed in a run's Pod for a program: the
// helper, the limits, the program. Without any limit it is the program alone.
func Command(l rlimit.Limits, argv []string) []string {
	if len(l) == 0 {
		return argv
	}
	return append([]string{Helper, l.String(), "--"}, argv...)
}

// Pod returns the Pod of a run. uid 0 leaves the user to the template. Its first
// process gets the limits of every run as well: it is of the same user, so that
// a run could take it over.
func (t *Template) Pod(namespace, name string, uid int64, labels map[string]string) *corev1.Pod {
	spec := t.pod.DeepCopy()
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name, Annotations: spec.Annotations, Labels: maps.Clone(spec.Labels),
		},
		Spec: spec.Spec,
	}
	if p.Labels == nil {
		p.Labels = map[string]string{}
	}
	maps.Copy(p.Labels, labels)
	c := &p.Spec.Containers[0]
	c.Command = Command(t.limits, c.Command)
	if uid > 0 {
		if p.Spec.SecurityContext == nil {
			p.Spec.SecurityContext = &corev1.PodSecurityContext{}
		}
		p.Spec.SecurityContext.RunAsUser, p.Spec.SecurityContext.RunAsGroup = &uid, &uid
	}
	return p
}

// uidOf returns the user id that a Pod was given, or -1.
func uidOf(p *corev1.Pod) int64 {
	if c := p.Spec.SecurityContext; c != nil && c.RunAsUser != nil {
		return *c.RunAsUser
	}
	return -1
}
