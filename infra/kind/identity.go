// SPDX-License-Identifier: Apache-2.0

//go:build linux

package kind

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stockade-dev/stockade/infra/atomicfile"
	"github.com/stockade-dev/stockade/infra/kube"
)

// Identity tells this cluster from every other. The suite refuses to attack a
// cluster whose identity it cannot confirm.
type Identity struct {
	Name string `json:"name"`
	// UID is that of the namespace kube-system, which lives as long as the
	// cluster.
	UID string `json:"uid"`
	// Inputs is a digest of what the cluster was made from.
	Inputs string `json:"inputs"`
	// Archives are the file names of the images that were imported since.
	Archives []string `json:"archives,omitempty"`
	// Digests are the references by digest of the images on the nodes, by their
	// names with a tag.
	Digests map[string]string `json:"digests,omitempty"`
}

func (o Options) identityPath() string { return filepath.Join(o.Home, "run", "cluster.json") }

func (i Identity) write(path string) error {
	data, err := json.MarshalIndent(i, "", "  ")
	if err != nil {
		return fmt.Errorf("recording the cluster's identity: %w", err)
	}
	if err := atomicfile.Write(path, append(data, '\n'), 0o644); err != nil {
		return fmt.Errorf("recording the cluster's identity: %w", err)
	}
	return nil
}

// ReadIdentity reads what Up has recorded. The error wraps os.ErrNotExist when
// there is no cluster.
func ReadIdentity(home string) (Identity, error) {
	var id Identity
	data, err := os.ReadFile(Options{Home: home}.identityPath())
	if err != nil {
		return id, fmt.Errorf("reading the cluster's identity: %w", err)
	}
	if err := json.Unmarshal(data, &id); err != nil {
		return id, fmt.Errorf("reading the cluster's identity: %w", err)
	}
	return id, nil
}

// identify asks the cluster who it is.
func identify(ctx context.Context, client *kube.Client, name, inputs string) (Identity, error) {
	ns, err := client.Clientset.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		return Identity{}, fmt.Errorf("asking the cluster for its identity: %w", err)
	}
	return Identity{Name: name, UID: string(ns.UID), Inputs: inputs}, nil
}

// ErrOtherCluster says that a kubeconfig leads to a cluster that is not ours.
var ErrOtherCluster = errors.New("the kubeconfig leads to a cluster that Stockade has not made; run `stockade up`")

// Confirm returns ErrOtherCluster unless the client's cluster is the one that
// Up has recorded under home.
func Confirm(ctx context.Context, client *kube.Client, home string) error {
	want, err := ReadIdentity(home)
	if err != nil {
		return err
	}
	have, err := identify(ctx, client, want.Name, want.Inputs)
	if err != nil {
		return err
	}
	if have.UID != want.UID {
		return ErrOtherCluster
	}
	return nil
}
