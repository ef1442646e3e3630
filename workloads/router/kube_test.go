// SPDX-License-Identifier: Apache-2.0

package router

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

func TestOnlyAClaimedSandboxOfTheRightUIDIsFound(t *testing.T) {
	controller := map[string]any{"kind": "SandboxClaim", "apiVersion": "extensions.agents.x-k8s.io/v1beta1", "name": "c", "uid": "c-1", "controller": true}
	pool := map[string]any{"kind": "SandboxWarmPool", "apiVersion": "extensions.agents.x-k8s.io/v1beta1", "name": "p", "uid": "p-1", "controller": true}
	object := func(name string, meta map[string]any, ips ...any) map[string]any {
		meta["name"], meta["uid"] = name, "u-1"
		return map[string]any{"apiVersion": "agents.x-k8s.io/v1beta1", "kind": "Sandbox", "metadata": meta, "status": map[string]any{"podIPs": ips}}
	}
	objects := map[string]map[string]any{
		"box":    object("box", map[string]any{"ownerReferences": []any{controller}}, "10.0.0.7", "fd00::7"),
		"pooled": object("pooled", map[string]any{"ownerReferences": []any{pool}}, "10.0.0.8"),
		"bare":   object("bare", map[string]any{}, "10.0.0.9"),
		"going":  object("going", map[string]any{"ownerReferences": []any{controller}, "deletionTimestamp": "2026-01-01T00:00:00Z"}, "10.0.0.9"),
		"new":    object("new", map[string]any{"ownerReferences": []any{controller}}),
		"ended":  object("ended", map[string]any{"ownerReferences": []any{controller}}, "10.0.0.10"),
		"busy":   object("busy", map[string]any{"ownerReferences": []any{controller}}, "10.0.0.11"),
	}
	conditions := func(name, kind, status string) {
		objects[name]["status"].(map[string]any)["conditions"] = []any{map[string]any{"type": "Other", "status": "True"}, map[string]any{"type": kind, "status": status}}
	}
	// Its address may be another session's by now.
	conditions("ended", "Finished", "True")
	// A runner that builds something may be slow to say that it is ready.
	conditions("busy", "Ready", "False")
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, ok := strings.CutPrefix(r.URL.Path, "/apis/agents.x-k8s.io/v1beta1/namespaces/ns/sandboxes/")
		w.Header().Set("Content-Type", "application/json")
		if !ok || objects[name] == nil {
			w.WriteHeader(http.StatusNotFound)
			_ = json.NewEncoder(w).Encode(map[string]any{"apiVersion": "v1", "kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404})
			return
		}
		_ = json.NewEncoder(w).Encode(objects[name])
	}))
	defer api.Close()
	client, err := dynamic.NewForConfig(&rest.Config{Host: api.URL})
	require.NoError(t, err)
	k := Kube{Client: client}
	resolve := func(id, uid string) (string, error) {
		addr, err := k.Resolve(t.Context(), Target{Namespace: "ns", ID: id, UID: uid})
		return addr.String(), err
	}
	for _, uid := range []string{"", "u-1"} {
		addr, err := resolve("box", uid)
		require.NoError(t, err)
		assert.Equal(t, "10.0.0.7", addr)
	}
	addr, err := resolve("busy", "u-1")
	require.NoError(t, err)
	assert.Equal(t, "10.0.0.11", addr)
	for _, id := range []string{"pooled", "bare", "going", "ended", "nobody"} {
		_, err := resolve(id, "u-1")
		assert.ErrorIs(t, err, ErrNotFound, id)
	}
	_, err = resolve("box", "u-2")
	require.ErrorIs(t, err, ErrNotFound)
	_, err = resolve("new", "u-1")
	assert.ErrorContains(t, err, "no address yet")
}
