// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/go-jose/go-jose/v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stockade-dev/stockade/conformance/descriptor"
	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/infra/atomicfile"
	"github.com/stockade-dev/stockade/infra/kube"
	"github.com/stockade-dev/stockade/infra/node"
	"github.com/stockade-dev/stockade/infra/progress"
	"github.com/stockade-dev/stockade/overlays"
	"github.com/stockade-dev/stockade/workloads/gateway"
	"github.com/stockade-dev/stockade/workloads/gateway/auth"
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
	shared.Callers, shared.SignIn = m.callersFile(), m.signerFile()
	all[kodeGopherShared] = shared
	return all
}

// callersFile has the tokens, and is a secret.
func (m machine) callersFile() string { return m.file("callers.json") }

// signerFile has the private key of who signs ID tokens, and is a secret.
func (m machine) signerFile() string { return m.file("signer.json") }

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

// makeSigner writes a file of a new signer, which plays Google to the server for
// several users.
func makeSigner(path string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("making the key of who signs ID tokens: %w", err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return fmt.Errorf("making the key of who signs ID tokens: %w", err)
	}
	signer := descriptor.SignIn{
		Issuer: auth.GoogleIssuer, ClientID: overlays.DevSignIn.ClientID, KeyID: rand.Text(),
		Key:    string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})),
		Emails: overlays.DevSignIn.Emails, Domains: overlays.DevSignIn.Domains,
	}
	err = atomicfile.WriteFunc(path, 0o600, func(w io.Writer) error { return json.NewEncoder(w).Encode(signer) })
	if err != nil {
		return fmt.Errorf("making the key of who signs ID tokens: %w", err)
	}
	return nil
}

// signerKeys are the signer's public keys, a JSON Web Key Set.
func signerKeys(s *suite.SignIn) (string, error) {
	set, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{
		{Key: s.Public, KeyID: s.KeyID, Algorithm: string(jose.ES256), Use: "sig"},
	}})
	if err != nil {
		return "", fmt.Errorf("writing the keys of who signs ID tokens: %w", err)
	}
	return string(set), nil
}

// digests are the tokens as the server knows them.
func digests(callers map[string]string) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(callers)) {
		fmt.Fprintf(&b, "%s sha256:%x\n", name, sha256.Sum256([]byte(callers[name])))
	}
	return b.String()
}

// callersLayer are the tokens of who may call the shared kode-gopher, and the key of
// who signs ID tokens for it. They are made before it is deployed, whoever does that,
// and live as long as it: random, in files of this home, and as digests and a public
// key in the cluster.
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
		if l.whole() {
			return nil
		}
		// The server read what is in the cluster when it started, and nobody has
		// the secrets to that any more: it is deployed again.
		err := c.Clientset.AppsV1().Deployments(overlays.KodeGopherSharedNamespace).Delete(ctx, overlays.KodeGopherName, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("stopping the server whose callers are lost: %w", err)
		}
	}
	if err := makeSigner(l.m.signerFile()); err != nil {
		return err
	}
	return makeCallers(l.m.callersFile())
}

// whole tells whether both files are there and can be read.
func (l callersLayer) whole() bool {
	_, errCallers := descriptor.ReadCallers(l.m.callersFile())
	_, errSigner := descriptor.ReadSignIn(l.m.signerFile())
	return errCallers == nil && errSigner == nil
}

func (l callersLayer) Status(context.Context) (State, error) {
	callers, err := descriptor.ReadCallers(l.m.callersFile())
	if errors.Is(err, fs.ErrNotExist) {
		return State{Detail: "none"}, nil
	}
	if err == nil {
		_, err = descriptor.ReadSignIn(l.m.signerFile())
	}
	if err != nil {
		return State{}, fmt.Errorf("%w; `stockade up` makes new ones", err)
	}
	return State{Up: true, Detail: strings.Join(slices.Sorted(maps.Keys(callers)), ", ")}, nil
}

func (l callersLayer) Down(context.Context, *progress.Reporter) error {
	return errors.Join(remove(l.m.callersFile()), remove(l.m.signerFile()))
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
	s.SignIn = overlays.DevSignIn
	g, err := m.given(ctx)
	s.Tokens, s.SignerKeys, s.Trust = g.tokens, g.signerKeys, g.ca
	return s, err
}

// given is what this machine has made for kode-gopher: the callers' tokens, as
// digests, the public keys of who signs ID tokens, and the range's certificate
// authority.
type given struct{ tokens, signerKeys, ca string }

func (m machine) given(ctx context.Context) (g given, err error) {
	callers, err := descriptor.ReadCallers(m.callersFile())
	if err != nil {
		return g, err
	}
	signer, err := descriptor.ReadSignIn(m.signerFile())
	if err != nil {
		return g, err
	}
	g.tokens = digests(callers)
	if g.signerKeys, err = signerKeys(signer); err != nil {
		return g, err
	}
	c := rangeclient.New(rangeLayer{m}.socket())
	defer c.Close()
	ca, err := c.CA(ctx)
	g.ca = string(ca)
	return g, err
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
