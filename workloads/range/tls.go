// SPDX-License-Identifier: Apache-2.0

package rangehost

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/netip"
	"strings"
	"sync"
	"time"
)

// maxCerts bounds the cache of leaf certificates; a full cache is emptied.
const maxCerts = 256

// authority signs a certificate for whatever name a client asks for. Its key
// lives in memory only and is worth nothing outside of the seal.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	leaf *ecdsa.PrivateKey // one for all names: making keys is what costs
	pem  []byte

	mu    sync.Mutex
	certs map[string]*tls.Certificate
}

func newAuthority(now time.Time) (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making the range's CA: %w", err)
	}
	leaf, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making the range's CA: %w", err)
	}
	tmpl := &x509.Certificate{
		SerialNumber:          serial(),
		Subject:               pkix.Name{CommonName: "Stockade range (not a real CA)"},
		NotBefore:             now.Add(-time.Hour),
		NotAfter:              now.Add(365 * 24 * time.Hour),
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("making the range's CA: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("making the range's CA: %w", err)
	}
	return &authority{
		cert: cert, key: key, leaf: leaf,
		pem:   pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		certs: map[string]*tls.Certificate{},
	}, nil
}

// certificate returns one for the name that the client asked for, or for the
// address that it connected to. Names are hostile: what x509 will not encode
// gets a certificate for no name, and the handshake goes on.
func (a *authority) certificate(sni string, dst netip.Addr) (*tls.Certificate, error) {
	id := sni
	if id == "" {
		id = dst.String()
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if c, ok := a.certs[id]; ok {
		return c, nil
	}
	tmpl := &x509.Certificate{
		SerialNumber: serial(),
		Subject:      pkix.Name{CommonName: "stockade range"},
		NotBefore:    a.cert.NotBefore,
		NotAfter:     a.cert.NotAfter,
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	switch {
	case sni != "" && printable(sni):
		tmpl.DNSNames = []string{sni}
	case sni == "" && dst.IsValid():
		tmpl.IPAddresses = []net.IP{dst.AsSlice()}
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, a.cert, a.leaf.Public(), a.key)
	if err != nil {
		return nil, fmt.Errorf("signing a certificate for %q: %w", id, err)
	}
	c := &tls.Certificate{Certificate: [][]byte{der, a.cert.Raw}, PrivateKey: a.leaf}
	if len(a.certs) >= maxCerts {
		clear(a.certs)
	}
	a.certs[id] = c
	return c, nil
}

// config makes the TLS configuration of one connection. hello is called with
// the client's first message, before anything is answered.
func (a *authority) config(dst netip.Addr, hello func(sni string, alpn []string)) *tls.Config {
	base := &tls.Config{MinVersion: tls.VersionTLS12}
	base.GetConfigForClient = func(h *tls.ClientHelloInfo) (*tls.Config, error) {
		hello(h.ServerName, h.SupportedProtos)
		cert, err := a.certificate(h.ServerName, dst)
		if err != nil {
			return nil, err
		}
		c := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{*cert}}
		// HTTP/1.1 is all that is spoken here; a client that offers only
		// something else is let in without ALPN instead of being refused.
		for _, p := range h.SupportedProtos {
			if p == "http/1.1" {
				c.NextProtos = []string{"http/1.1"}
			}
		}
		return c, nil
	}
	return base
}

func serial() *big.Int {
	n, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return big.NewInt(time.Now().UnixNano())
	}
	return n.Add(n, big.NewInt(1))
}

// printable says whether s can stand in a certificate as a DNS name.
func printable(s string) bool {
	return len(s) < 254 && strings.IndexFunc(s, func(r rune) bool { return r <= ' ' || r > '~' }) < 0
}
