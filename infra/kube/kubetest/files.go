// SPDX-License-Identifier: Apache-2.0

package kubetest

import (
	"bufio"
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// The files of the API server, in the cluster's folder.
const (
	certFile        = "apiserver.crt"
	keyFile         = "apiserver.key"
	accountKeyFile  = "accounts.key"
	tokenFile       = "tokens.csv"
	auditPolicyFile = "audit.yaml"
	auditLog        = "audit.log"
)

// auditPolicy notes what the operator asks for and nothing else. A request that is
// under way, a watch for one, is noted when it begins.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [ResponseStarted, ResponseComplete, Panic]
rules:
- level: Metadata
  users: [` + Operator + `]
- level: None
`

func (c *Cluster) writeFiles() error {
	ca, err := newKey()
	if err != nil {
		return err
	}
	authority := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "kubetest"},
		NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	server, err := newKey()
	if err != nil {
		return err
	}
	serving := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "kube-apiserver"},
		NotBefore: authority.NotBefore, NotAfter: authority.NotAfter,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	accounts, err := newKey()
	if err != nil {
		return err
	}
	var tokens strings.Builder
	for _, user := range []string{Operator, admin, controller, scheduler} {
		c.tokens[user] = rand.Text()
		fmt.Fprintf(&tokens, "%s,%s,%s,system:masters\n", c.tokens[user], user, user)
	}
	files := map[string][]byte{tokenFile: []byte(tokens.String()), auditPolicyFile: []byte(auditPolicy)}
	for path, key := range map[string]*ecdsa.PrivateKey{keyFile: server, accountKeyFile: accounts} {
		der, err := x509.MarshalECPrivateKey(key)
		if err != nil {
			return fmt.Errorf("writing a key: %w", err)
		}
		files[path] = pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})
	}
	for path, cert := range map[string]*x509.Certificate{filepath.Base(c.CAFile): authority, certFile: serving} {
		key := &server.PublicKey
		if cert.IsCA {
			key = &ca.PublicKey
		}
		der, err := x509.CreateCertificate(rand.Reader, cert, authority, key, ca)
		if err != nil {
			return fmt.Errorf("writing a certificate: %w", err)
		}
		files[path] = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	}
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(c.dir, name), data, 0o600); err != nil {
			return fmt.Errorf("writing the cluster's files: %w", err)
		}
	}
	return nil
}

func newKey() (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making a key: %w", err)
	}
	return key, nil
}

// readAudit reads the API server's log of the operator's requests. A last line that
// is still being written is no request yet.
func readAudit(path string) ([]string, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the audit log: %w", err)
	}
	data = data[:bytes.LastIndexByte(data, '\n')+1]
	var out []string
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, len(data)+1)
	for lines.Scan() {
		var event struct {
			Verb       string `json:"verb"`
			RequestURI string `json:"requestURI"`
		}
		if err := json.Unmarshal(lines.Bytes(), &event); err != nil {
			return nil, fmt.Errorf("reading the audit log: %w", err)
		}
		if u, err := url.Parse(event.RequestURI); err == nil {
			event.RequestURI = u.Path
		}
		out = append(out, event.Verb+" "+event.RequestURI)
	}
	return out, lines.Err()
}
