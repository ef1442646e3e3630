// SPDX-License-Identifier: Apache-2.0

// Package fake is a stockade command whose cluster is made up, for the tests of
// the provider. Nothing here touches a machine or a cluster, and no shipped
// program links it.
package fake

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/stockade-dev/stockade/infra/kind/provider"
)

// Stockade implements [provider.CLI]. The zero value has no cluster.
type Stockade struct {
	// Cluster is what `place` prints; nil is no cluster.
	Cluster map[string]any
	// Raw, where it is set, is what `place` prints instead.
	Raw string
	// Left are the layers that stand although there is no cluster.
	Left []string
	// Fail makes the command with these words ("up --bare") fail.
	Fail map[string]error
	// Half makes `up` leave an unhealthy cluster behind when it fails.
	Half bool
	// Block makes `up` wait until it is interrupted.
	Block bool
	// Started is closed when `up` begins to wait.
	Started chan struct{}
	// Kubeconfig is that of every cluster; empty means one that leads nowhere.
	Kubeconfig string
	// Images are the digests of its images; nil means one of them.
	Images map[string]string

	mu    sync.Mutex
	made  int
	calls []string
}

// Calls are the commands so far, each with the home before it: "/h: up --bare".
func (s *Stockade) Calls() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.calls...)
}

// Run implements [provider.CLI].
func (s *Stockade) Run(ctx context.Context, home string, line func(string), args ...string) ([]byte, error) {
	words := strings.Join(args, " ")
	s.mu.Lock()
	s.calls = append(s.calls, home+": "+words)
	s.mu.Unlock()
	line("… " + words)
	words, _, _ = strings.Cut(words, " --profile ")
	if words == "up --bare" && s.Block {
		close(s.Started)
		<-ctx.Done()
		s.Cluster = nil
		return nil, &provider.ExitError{Code: 130, Said: "stockade: interrupted"}
	}
	if err := s.Fail[words]; err != nil {
		if words == "up --bare" && s.Half {
			s.Cluster = s.cluster()
			s.Cluster["healthy"], s.Cluster["reason"] = false, "node n2 is not ready"
		}
		return nil, err
	}
	switch words {
	case "up --bare":
		if s.Cluster == nil || s.Cluster["healthy"] != true {
			s.Cluster = s.cluster()
		}
		return nil, nil
	case "place":
		switch {
		case s.Raw != "":
			return []byte(s.Raw), nil
		case s.Cluster == nil:
			return nil, &provider.ExitError{Code: 3, Said: "stockade: there is no cluster here"}
		}
		return json.Marshal(s.Cluster)
	case "status --json":
		return s.status()
	case "down":
		s.Cluster, s.Left = nil, nil
		return nil, nil
	}
	return nil, fmt.Errorf("the made-up stockade has no command %q", words)
}

// status is what the layers are; one that is down makes the command say so.
func (s *Stockade) status() ([]byte, error) {
	type layer struct {
		Name string `json:"name"`
		Up   bool   `json:"up"`
		Left bool   `json:"left,omitempty"`
	}
	out, err := json.Marshal([]layer{
		{Name: "images", Up: true},
		{Name: "sealed engine", Up: s.Cluster != nil, Left: slices.Contains(s.Left, "sealed engine")},
		{Name: "cluster", Up: s.Cluster != nil, Left: slices.Contains(s.Left, "cluster")},
	})
	if err == nil && s.Cluster == nil {
		err = &provider.ExitError{Code: 3}
	}
	return out, err
}

// cluster is a new one: each has a UID of its own.
func (s *Stockade) cluster() map[string]any {
	s.made++
	images := s.Images
	if images == nil {
		images = map[string]string{"stockade.local/probe:dev": "stockade.local/probe@sha256:0123"}
	}
	return map[string]any{ //nolint:gosec // made up
		"name": "stockade", "uid": fmt.Sprintf("uid-%d", s.made), "healthy": true, "nodes": []string{"n1", "n2"},
		"kubernetesVersion": "v1.36.3", "kubeconfig": cmp.Or(s.Kubeconfig, "made: up"), "seal": "stockade", "tokens": "made sha256:up\n", "signerKeys": "{}", "rangeCA": "PEM",
		"images":     images,
		"descriptor": map[string]any{"clusterUID": fmt.Sprintf("uid-%d", s.made), "disruptive": true},
	}
}
