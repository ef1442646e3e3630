// SPDX-License-Identifier: Apache-2.0

package overlays

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// The overlays of kode-gopher, each in a namespace of its own with the same
// names in it.
const (
	KodeGopher       = "base/kode-gopher"        // for one person
	KodeGopherShared = "base/kode-gopher-shared" // for several users

	// KodeGopherDev and KodeGopherSharedDev add to these the Pods that attacks are
	// compared with.
	KodeGopherDev       = "base/kode-gopher-dev"
	KodeGopherSharedDev = "base/kode-gopher-shared-dev"

	KodeGopherNamespace       = "kode-gopher"
	KodeGopherSharedNamespace = "kode-gopher-shared"

	// KodeGopherName is what the template, and the server's Deployment, Service,
	// ConfigMap and Secret are called; KodeGopherPool is the warm pool's name.
	KodeGopherName = "kode-gopher"
	KodeGopherPool = KodeGopherName
	// KodeGopherSandboxApp is the label "app" of the sandboxes, which their
	// allow-list selects.
	KodeGopherSandboxApp = "kode-gopher-sandbox"
	// KodeGopherClients is the label by which a namespace's Pods may call the
	// server, with the value "true".
	KodeGopherClients = "kode-gopher.stockade.dev/clients"
	// KodeGopherTrust is the ConfigMap with the certificates that sandboxes trust
	// beside the public ones.
	KodeGopherTrust = "kode-gopher-trust"
	// KodeGopherAllowList is the policy that lets sandboxes of a shared server out.
	KodeGopherAllowList = "kode-gopher-egress"
)

// The keys of the Secret and of [KodeGopherTrust].
const (
	KodeGopherTokensKey = "tokens"
	KodeGopherSignerKey = "keys.json"
	KodeGopherTrustKey  = "extra.pem"
)

// settingsNote is the annotation that has the server's Pods replaced when their
// settings change: the server reads these when it starts.
const settingsNote = "stockade.dev/settings"

// KodeGopherSettings are what is known only where kode-gopher is deployed, and
// therefore in no overlay.
type KodeGopherSettings struct {
	// GoProxy is the go command's GOPROXY for programs; "off" leaves them the
	// standard library.
	GoProxy string
	// Trust are certificates in PEM, for a module proxy that no public authority
	// vouches for; empty is none.
	Trust string
	// Tokens are those of the shared server's callers, as digests, a line each: see
	// package auth of workloads/gateway. Whoever reads them cannot sign in with
	// them.
	Tokens string
	// SignIn says whose ID tokens the shared server takes; SignerKeys are the
	// public keys of who signs them, a JSON Web Key Set.
	SignIn     SignIn
	SignerKeys string
	// Hosts are what sandboxes of the shared server may reach, as AllowListArgs
	// has them.
	Hosts []string
}

// SignIn is the part of Google sign-in that is no secret: the OAuth client to which
// users sign in, and the allow-list of addresses and of Workspace domains.
type SignIn struct {
	ClientID        string
	Emails, Domains []string
}

// DevSignIn is that of the server for several users on a laptop, where nobody is
// whom Google knows: the suite signs the ID tokens.
var DevSignIn = SignIn{
	ClientID: "kode-gopher.stockade.test",
	Emails:   []string{"guest@partner.stockade.test"},
	Domains:  []string{"team.stockade.test"},
}

// settings are what the server reads out of its ConfigMap.
func (s SignIn) settings() map[string]any {
	return map[string]any{
		"GOOGLE_CLIENT_ID": s.ClientID, "ALLOW_EMAILS": strings.Join(s.Emails, ","), "ALLOW_DOMAINS": strings.Join(s.Domains, ","),
		"GOOGLE_KEYS_FILE": kodeGopherAuth + "/" + KodeGopherSignerKey,
	}
}

// kodeGopherAuth is where the Secret is mounted in the server's Pod.
const kodeGopherAuth = "/etc/kode-gopher"

// Local adds the settings to the objects of [KodeGopher], or of a mutant of it,
// which it changes in place.
//
// Errors: the objects have no server.
func (s KodeGopherSettings) Local(objects []unstructured.Unstructured) ([]unstructured.Unstructured, error) {
	return s.with(objects, nil)
}

// with adds the settings of both servers, and more of one.
func (s KodeGopherSettings) with(objects []unstructured.Unstructured, more map[string]any) ([]unstructured.Unstructured, error) {
	i := slices.IndexFunc(objects, func(o unstructured.Unstructured) bool {
		return o.GetKind() == "Deployment" && o.GetName() == KodeGopherName
	})
	if i < 0 {
		return nil, fmt.Errorf("configuring kode-gopher: there is no Deployment %s", KodeGopherName)
	}
	namespace := objects[i].GetNamespace()
	// Neither a sandbox nor, on most clusters, anything outside could ask the
	// public checksum database about modules of one's own.
	settings := map[string]any{"GOPROXY": s.GoProxy, "GOSUMDB": "off"}
	maps.Copy(settings, more)
	text, err := json.Marshal(settings) // in the order of its keys
	if err != nil {
		return nil, fmt.Errorf("configuring kode-gopher: %w", err)
	}
	note := fmt.Sprintf("%.16x", sha256.Sum256(text))
	if err := unstructured.SetNestedField(objects[i].Object, note, "spec", "template", "metadata", "annotations", settingsNote); err != nil {
		return nil, fmt.Errorf("configuring kode-gopher: %w", err)
	}
	return append(objects,
		keyed("ConfigMap", namespace, KodeGopherName, settings),
		keyed("ConfigMap", namespace, KodeGopherTrust, map[string]any{KodeGopherTrustKey: s.Trust})), nil
}

// Shared does the same for [KodeGopherShared], whose server has callers and
// whose sandboxes an allow-list.
//
// Errors: as Local and [AllowList].
func (s KodeGopherSettings) Shared(objects []unstructured.Unstructured) ([]unstructured.Unstructured, error) {
	objects, err := s.with(objects, s.SignIn.settings())
	if err != nil {
		return nil, err
	}
	namespace := objects[len(objects)-1].GetNamespace()
	list, err := AllowList(Cilium, AllowListArgs{
		Namespace: namespace, Name: KodeGopherAllowList, Hosts: s.Hosts,
		Labels: map[string]string{SandboxLabel: KodeGopherSandboxApp},
	})
	if err != nil {
		return nil, fmt.Errorf("configuring kode-gopher: %w", err)
	}
	return append(append(objects, list...), keyed("Secret", namespace, KodeGopherName, KodeGopherSecret(s.Tokens, s.SignerKeys))), nil
}

// KodeGopherSecret is the data of the shared server's Secret.
func KodeGopherSecret(tokens, signerKeys string) map[string]any {
	return map[string]any{
		KodeGopherTokensKey: base64.StdEncoding.EncodeToString([]byte(tokens)),
		KodeGopherSignerKey: base64.StdEncoding.EncodeToString([]byte(signerKeys)),
	}
}

// keyed is a ConfigMap or a Secret.
func keyed(kind, namespace, name string, data map[string]any) unstructured.Unstructured {
	return unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": kind, "data": data,
		"metadata": map[string]any{"namespace": namespace, "name": name},
	}}
}
