// SPDX-License-Identifier: Apache-2.0

package witness

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/stockade-dev/stockade/conformance/suite"
)

// Baseline is what a Pod's container looked like before an attempt, so that
// an older end is not taken for this one's.
type Baseline struct {
	UID         string
	Restarts    int
	ContainerID string
}

// BaselineOf reads the baseline of a container; empty means the Pod's first.
func BaselineOf(pod *corev1.Pod, container string) Baseline {
	b := Baseline{UID: string(pod.UID)}
	if st := status(pod, container); st != nil {
		b.Restarts, b.ContainerID = int(st.RestartCount), st.ContainerID
	}
	return b
}

// Facts turns the API server's view of a Pod into what scenarios judge.
func Facts(pod *corev1.Pod, container, handler string, since Baseline) suite.PodFacts {
	f := suite.PodFacts{Handler: handler, Node: pod.Spec.NodeName, Phase: string(pod.Status.Phase), ExitCode: -1}
	if rc := pod.Spec.RuntimeClassName; rc != nil {
		f.RuntimeClass = *rc
	}
	if pod.Status.Reason == "Evicted" {
		f.EvictedFor = pod.Status.Message
		if f.EvictedFor == "" {
			f.EvictedFor = pod.Status.Reason
		}
	}
	st := status(pod, container)
	if st == nil {
		return f
	}
	f.Restarts = int(st.RestartCount) - since.Restarts
	// A container that runs again has its end in LastTerminationState. Either
	// end counts only if it is another container's or a later state than the
	// baseline's: clocks are not compared.
	switch {
	case st.State.Terminated != nil && st.State.Terminated.ContainerID != "" && st.State.Terminated.ContainerID == since.ContainerID,
		st.State.Terminated != nil && since.ContainerID == "",
		st.State.Terminated != nil && f.Restarts > 0:
		f.ExitCode, f.ExitReason = int(st.State.Terminated.ExitCode), st.State.Terminated.Reason
	case f.Restarts > 0 && st.LastTerminationState.Terminated != nil:
		f.ExitCode, f.ExitReason = int(st.LastTerminationState.Terminated.ExitCode), st.LastTerminationState.Terminated.Reason
	}
	return f
}

// Ready says whether a Pod's first container runs and is ready.
func Ready(pod *corev1.Pod) bool {
	st := status(pod, "")
	return st != nil && st.Ready && st.State.Running != nil && pod.DeletionTimestamp == nil && pod.Status.Phase == corev1.PodRunning
}

func status(pod *corev1.Pod, container string) *corev1.ContainerStatus {
	for i := range pod.Status.ContainerStatuses {
		st := &pod.Status.ContainerStatuses[i]
		if container == "" && len(pod.Spec.Containers) > 0 {
			container = pod.Spec.Containers[0].Name
		}
		if st.Name == container {
			return st
		}
	}
	return nil
}
