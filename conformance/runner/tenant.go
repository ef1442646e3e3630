// SPDX-License-Identifier: Apache-2.0

package runner

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/stockade-dev/stockade/conformance/suite"
)

// tenant is the API client of scenarios: confined to the target's namespace,
// and with everything that it stores in the run's ledger.
type tenant struct{ k *Kube }

var _ suite.Client = (*tenant)(nil)

// create sends an object to the target's namespace.
func (k *Kube) create(ctx context.Context, u *unstructured.Unstructured, dryRun bool) error {
	_, err := k.send(ctx, u, dryRun)
	return err
}

func (k *Kube) send(ctx context.Context, u *unstructured.Unstructured, dryRun bool) (*unstructured.Unstructured, error) {
	res, err := k.resource(u.GroupVersionKind())
	if err != nil {
		return nil, err
	}
	opts := metav1.CreateOptions{FieldManager: "stockade-run"}
	if dryRun {
		opts.DryRun = []string{metav1.DryRunAll}
	}
	return res.Create(ctx, u, opts)
}

func (k *Kube) resource(kind schema.GroupVersionKind) (dynamic.ResourceInterface, error) {
	m, err := k.o.Client.Mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return nil, fmt.Errorf("finding the resource of %s: %w", kind.Kind, err)
	}
	return k.o.Client.Dynamic.Resource(m.Resource).Namespace(k.o.Namespace), nil
}

// Create implements [suite.Client]. The answer is the API server's own; an
// error means that there was none.
func (t *tenant) Create(ctx context.Context, obj suite.Object, dryRun bool) (suite.Answer, error) {
	u := &unstructured.Unstructured{Object: obj}
	u.SetNamespace(t.k.o.Namespace)
	if !dryRun {
		labels := u.GetLabels()
		if labels == nil {
			labels = map[string]string{}
		}
		labels[RunLabel] = t.k.run
		u.SetLabels(labels)
		if u.GetName() == "" {
			return suite.Answer{}, errors.New("creating an object: it must have a name, so that the ledger can hold it")
		}
		if err := t.k.led.Creating(refOf(u)); err != nil {
			return suite.Answer{}, err
		}
	}
	got, err := t.k.send(ctx, u, dryRun)
	return answer(got, http.StatusCreated, err)
}

// Update implements [suite.Client].
func (t *tenant) Update(ctx context.Context, obj suite.Object) (suite.Answer, error) {
	u := &unstructured.Unstructured{Object: obj}
	u.SetNamespace(t.k.o.Namespace)
	if u.GetLabels()[RunLabel] != t.k.run {
		return suite.Answer{}, errors.New("updating an object: it is not this run's")
	}
	res, err := t.k.resource(u.GroupVersionKind())
	if err != nil {
		return suite.Answer{}, err
	}
	got, err := res.Update(ctx, u, metav1.UpdateOptions{FieldManager: "stockade-run", DryRun: []string{metav1.DryRunAll}})
	return answer(got, http.StatusOK, err)
}

// Get implements [suite.Client].
func (t *tenant) Get(ctx context.Context, apiVersion, kind, name string) (suite.Answer, error) {
	res, err := t.k.resource(schema.FromAPIVersionAndKind(apiVersion, kind))
	if err != nil {
		return suite.Answer{}, err
	}
	got, err := res.Get(ctx, name, metav1.GetOptions{})
	return answer(got, http.StatusOK, err)
}

// Delete implements [suite.Client]. It deletes only what this run created.
func (t *tenant) Delete(ctx context.Context, apiVersion, kind, name string) (suite.Answer, error) {
	ref := Ref{APIVersion: apiVersion, Kind: kind, Namespace: t.k.o.Namespace, Name: name}
	err := t.k.Remove(ctx, t.k.run, ref)
	if err == nil {
		err = t.k.led.Gone(ref)
	}
	return answer(nil, http.StatusOK, err)
}

// answer turns a reply into what scenarios judge: a refusal by the server is
// an answer, and a reply that never came is an error.
func answer(got *unstructured.Unstructured, code int, err error) (suite.Answer, error) {
	if err == nil {
		a := suite.Answer{Code: code}
		if got != nil {
			a.Object = got.Object
		}
		return a, nil
	}
	var st apierrors.APIStatus
	if errors.As(err, &st) {
		s := st.Status()
		return suite.Answer{Code: int(s.Code), Reason: string(s.Reason), Message: s.Message}, nil
	}
	return suite.Answer{}, err
}

func (k *Kube) wrap(kind schema.GroupVersionKind, spec map[string]any) suite.Object {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.made++
	return suite.Object{
		"apiVersion": kind.GroupVersion().String(), "kind": kind.Kind,
		"metadata": map[string]any{"name": fmt.Sprintf("stockade-%s-x%d", k.run, k.made), "namespace": k.o.Namespace},
		"spec":     spec,
	}
}
