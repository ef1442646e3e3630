// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stockade-dev/stockade/conformance/descriptor"
	"github.com/stockade-dev/stockade/infra/atomicfile"
	"github.com/stockade-dev/stockade/infra/kube"
	"github.com/stockade-dev/stockade/infra/node"
	"github.com/stockade-dev/stockade/infra/progress"
	"github.com/stockade-dev/stockade/overlays"
	"github.com/stockade-dev/stockade/workloads/gateway"
	"github.com/stockade-dev/stockade/workloads/range/rangeclient"
)

// served is a target of kode-gopher.
func served(namespace string) descriptor.Target {
	return descriptor.Target{
		Namespace: namespace, Template: overlays.KodeGopherName, Pool: overlays.KodeGopherPool, Gateway: overlays.KodeGopherName,
	}
}

// targets are those of the descriptor: with the callers' file of this home.
func (m machine) targets() map[string]descriptor.Target {
	all := maps.Clone(targets)
	shared := all[kodeGopherShared]
	shared.Callers = m.callersFile()
	all[kodeGopherShared] = shared
	return all
}

// callersFile has the tokens, and is a secret.
func (m machine) callersFile() string { return m.file("callers.json") }

// callerNames are who may call the shared server.
var callerNames = []string{"user1", "user2", "user3", "user4", "user5"}

// makeCallers writes a file of new tokens.
func makeCallers(path string) error {
	tokens := map[string]string{}
	for _, name := range callerNames {
		tokens[name] = rand.Text()
	}
	err := atomicfile.WriteFunc(path, 0o600, func(w io.Writer) error { return json.NewEncoder(w).Encode(tokens) })
	if err != nil {
		return fmt.Errorf("making the callers' tokens: %w", err)
	}
	return nil
}

// digests are the tokens as the server knows them.
func digests(callers map[string]string) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(callers)) {
		fmt.Fprintf(&b, "%s sha256:%x\n", name, sha256.Sum256([]byte(callers[name])))
	}
	return b.String()
}

// callersLayer are the tokens of who may call the shared kode-gopher. They are
// made before it is deployed, whoever does that, and live as long as it: random,
// in one file of this home, and as digests in the cluster.
type callersLayer struct{ m machine }

func (callersLayer) Name() string { return "callers" }
func (callersLayer) Sealed() bool { return true }

func (l callersLayer) Up(ctx context.Context, _ UpOptions, _ *progress.Reporter) error {
	c, err := kube.New(l.m.kubeconfig())
	if err != nil {
		return err
	}
	return l.make(ctx, c)
}

func (l callersLayer) make(ctx context.Context, c *kube.Client) error {
	there, err := hasNamespace(ctx, c, overlays.KodeGopherSharedNamespace)
	if err != nil {
		return fmt.Errorf("looking for the server of the callers: %w", err)
	}
	if there {
		if _, err := descriptor.ReadCallers(l.m.callersFile()); err == nil {
			return nil
		}
		// The server read what is in the cluster when it started, and nobody has
		// the tokens to that any more: it is deployed again.
		err := c.Clientset.AppsV1().Deployments(overlays.KodeGopherSharedNamespace).Delete(ctx, overlays.KodeGopherName, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("stopping the server whose callers are lost: %w", err)
		}
	}
	return makeCallers(l.m.callersFile())
}

func (l callersLayer) Status(context.Context) (State, error) {
	callers, err := descriptor.ReadCallers(l.m.callersFile())
	if errors.Is(err, fs.ErrNotExist) {
		return State{Detail: "none"}, nil
	}
	if err != nil {
		return State{}, err
	}
	return State{Up: true, Detail: strings.Join(slices.Sorted(maps.Keys(callers)), ", ")}, nil
}

func (l callersLayer) Down(context.Context, *progress.Reporter) error {
	return remove(l.m.callersFile())
}

// goProxy is where programs in sandboxes take their modules from, and the host
// that is asked first, "" for none. Inside of the seal the range plays it.
func goProxy(ctx context.Context) (proxy, host string, err error) {
	list, err := node.GoProxy(ctx)
	if err != nil {
		return "", "", err
	}
	proxy, hosts, err := gateway.Proxies(list)
	if err != nil {
		return "", "", fmt.Errorf("%w; set %s to another one, or to off", err, node.GoProxyEnv)
	}
	if len(hosts) > 0 {
		host = hosts[0]
	}
	return proxy, host, nil
}

// kodeGopher are the settings of kode-gopher on this machine.
func (m machine) kodeGopher(ctx context.Context) (s overlays.KodeGopherSettings, err error) {
	if s.GoProxy, _, err = goProxy(ctx); err != nil {
		return s, err
	}
	if s.Hosts, err = (gateway.Egress{GoProxy: s.GoProxy}).Hosts(); err != nil {
		return s, err
	}
	s.Tokens, s.Trust, err = m.given(ctx)
	return s, err
}

// given are what this machine has made for kode-gopher: the callers' tokens, as
// digests, and the range's certificate authority.
func (m machine) given(ctx context.Context) (tokens, ca string, err error) {
	callers, err := descriptor.ReadCallers(m.callersFile())
	if err != nil {
		return "", "", err
	}
	c := rangeclient.New(rangeLayer{m}.socket())
	defer c.Close()
	pem, err := c.CA(ctx)
	return digests(callers), string(pem), err
}

// serves tells whether the target's server is there, or its execution service, if
// it has one.
func serves(ctx context.Context, c *kube.Client, t descriptor.Target) (bool, error) {
	namespace, name := t.Namespace, t.Gateway
	if t.Service != "" {
		// The service is called as its account is.
		namespace, name, _ = strings.Cut(t.Service, "/")
	}
	if name == "" {
		return true, nil
	}
	d, err := c.Clientset.AppsV1().Deployments(namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	return err == nil && d.Status.ReadyReplicas > 0, err
}
