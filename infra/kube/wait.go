// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// state is a judgement of one object: ready, or why not, or that it never will
// be.
type state struct {
	ready  bool
	failed bool
	detail string
}

// WaitReady waits until every Deployment, DaemonSet, StatefulSet and Pod among
// the objects is ready, CustomResourceDefinitions are established, and all
// others exist. The context bounds the wait.
//
// Errors: the context's with the last known state of the first object that is
// not ready, or at once that one can never be.
func (c *Client) WaitReady(ctx context.Context, objs []*unstructured.Unstructured) error {
	for _, obj := range objs {
		judge := exists
		switch obj.GetKind() {
		case "Deployment", "StatefulSet":
			judge = replicasReady
		case "DaemonSet":
			judge = daemonReady
		case "Pod":
			judge = podReady
		case "CustomResourceDefinition":
			judge = established
		}
		if err := c.wait(ctx, obj, judge); err != nil {
			return err
		}
	}
	return nil
}

func (c *Client) wait(ctx context.Context, obj *unstructured.Unstructured, judge func(*unstructured.Unstructured) state) error {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	last := "not seen yet"
	for {
		live, err := c.Get(ctx, obj)
		switch {
		case apierrors.IsNotFound(err):
			last = "not found"
		case err != nil && ctx.Err() == nil:
			// A control plane that just started may refuse for a while.
			last = err.Error()
		case err == nil:
			s := judge(live)
			if s.ready {
				return nil
			}
			if s.failed {
				return fmt.Errorf("waiting for %s: %s", nameOf(obj), s.detail)
			}
			last = s.detail
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s (%s): %w", nameOf(obj), last, context.Cause(ctx))
		case <-tick.C:
		}
	}
}

func exists(*unstructured.Unstructured) state { return state{ready: true} }

// observed reports whether the controller has seen the latest spec: until
// then, the status speaks of an older one.
func observed(obj *unstructured.Unstructured) bool {
	seen, _, _ := unstructured.NestedInt64(obj.Object, "status", "observedGeneration")
	return seen >= obj.GetGeneration()
}

func number(obj *unstructured.Unstructured, otherwise int64, fields ...string) int64 {
	n, found, err := unstructured.NestedInt64(obj.Object, fields...)
	if err != nil || !found {
		return otherwise
	}
	return n
}

func replicasReady(obj *unstructured.Unstructured) state {
	want := number(obj, 1, "spec", "replicas")
	updated := number(obj, 0, "status", "updatedReplicas")
	ready := number(obj, 0, "status", "readyReplicas")
	total := number(obj, 0, "status", "replicas")
	return state{
		ready:  observed(obj) && updated >= want && ready >= want && total == want,
		detail: fmt.Sprintf("%d of %d replicas ready, %d updated", ready, want, updated),
	}
}

func daemonReady(obj *unstructured.Unstructured) state {
	want := number(obj, 0, "status", "desiredNumberScheduled")
	updated := number(obj, 0, "status", "updatedNumberScheduled")
	ready := number(obj, 0, "status", "numberReady")
	return state{
		// Zero wanted is what a controller says that has not looked yet.
		ready:  observed(obj) && want > 0 && updated >= want && ready >= want,
		detail: fmt.Sprintf("%d of %d nodes ready, %d updated", ready, want, updated),
	}
}

func podReady(obj *unstructured.Unstructured) state {
	phase, _, _ := unstructured.NestedString(obj.Object, "status", "phase")
	switch phase {
	case "Succeeded":
		return state{ready: true}
	case "Failed":
		reason, _, _ := unstructured.NestedString(obj.Object, "status", "reason")
		return state{failed: true, detail: "it has failed " + reason}
	}
	c := ConditionOf(obj, "Ready")
	return state{ready: c.Status == "True", detail: fmt.Sprintf("phase %s %s", phase, c.Message)}
}

func established(obj *unstructured.Unstructured) state {
	if names := ConditionOf(obj, "NamesAccepted"); names.Status == "False" {
		return state{failed: true, detail: "its names are taken: " + names.Message}
	}
	c := ConditionOf(obj, "Established")
	return state{ready: c.Status == "True", detail: "not established " + c.Message}
}

// Condition is what an object's status says of one of its conditions.
type Condition struct {
	// Status is True, False or Unknown; empty when the condition is not there.
	Status          string
	Reason, Message string
}

// ConditionOf returns the condition of a type, "Ready"; the zero Condition when
// the object has none of it.
func ConditionOf(obj *unstructured.Unstructured, kind string) (c Condition) {
	conditions, _, _ := unstructured.NestedSlice(obj.Object, "status", "conditions")
	for _, one := range conditions {
		if m, ok := one.(map[string]any); ok && m["type"] == kind {
			c.Status, _ = m["status"].(string)
			c.Reason, _ = m["reason"].(string)
			c.Message, _ = m["message"].(string)
			break
		}
	}
	return c
}
