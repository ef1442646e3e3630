// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"errors"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
)

// FieldManager is the owner of every field this package applies.
const FieldManager = "stockade"

// Client bundles the clients for one cluster. Its fields may be replaced by
// fakes. It is safe for concurrent use.
type Client struct {
	Config    *rest.Config
	Clientset kubernetes.Interface
	Dynamic   dynamic.Interface

	// Mapper knows which resource serves a kind. When it can be reset (see
	// New), kinds that appear later are found too.
	Mapper meta.RESTMapper

	refresh sync.Mutex
}

// New returns clients for the current context of a kubeconfig file. Nothing is
// sent yet.
func New(kubeconfig string) (*Client, error) {
	// Explicit on purpose: without a path client-go would fall back to the
	// user's own cluster, which nothing here may touch.
	if kubeconfig == "" {
		return nil, errors.New("connecting to the cluster: no kubeconfig given")
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig %s: %w", kubeconfig, err)
	}
	return NewForConfig(config)
}

// NewForConfig returns clients for a connection.
func NewForConfig(config *rest.Config) (*Client, error) {
	config = rest.CopyConfig(config)
	// client-go's default of 5 requests per second is meant for controllers;
	// the API server has its own fairness.
	if config.QPS == 0 {
		config.QPS, config.Burst = 200, 400
	}
	clientset, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("connecting to the cluster: %w", err)
	}
	dyn, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("connecting to the cluster: %w", err)
	}
	disco, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("connecting to the cluster: %w", err)
	}
	return &Client{
		Config:    config,
		Clientset: clientset,
		Dynamic:   dyn,
		Mapper:    restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(disco)),
	}, nil
}

// resettable is what restmapper's deferred mapper offers.
type resettable interface{ Reset() }

// mapping finds the resource of a kind, asking the cluster again once when it
// is not known: its CustomResourceDefinition may have been applied meanwhile.
func (c *Client) mapping(gvk schema.GroupVersionKind) (*meta.RESTMapping, error) {
	m, err := c.Mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if meta.IsNoMatchError(err) {
		c.Refresh()
		m, err = c.Mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	}
	if err != nil {
		return nil, fmt.Errorf("finding the resource of %s: %w", gvk, err)
	}
	return m, nil
}

// Refresh forgets which kinds the cluster serves.
func (c *Client) Refresh() {
	c.refresh.Lock()
	defer c.refresh.Unlock()
	if r, ok := c.Mapper.(resettable); ok {
		r.Reset()
	}
}
