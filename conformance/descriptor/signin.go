// SPDX-License-Identifier: Apache-2.0

package descriptor

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"

	"github.com/stockade-dev/stockade/conformance/suite"
)

// SignIn is the file with which ID tokens are made that a server takes. Like the
// callers' tokens it is a secret.
type SignIn struct {
	Issuer   string `json:"issuer"`
	ClientID string `json:"clientID"`
	KeyID    string `json:"keyID"`
	// Key is the signer's private key, of the curve P-256: PKCS #8 in PEM.
	Key     string   `json:"key"`
	Emails  []string `json:"emails,omitempty"`
	Domains []string `json:"domains,omitempty"`
}

// ReadSignIn reads a SignIn from a file, which is refused when anybody but its owner
// can read it.
//
// Errors: it cannot be read, has no key of the kind, or says not for whom the tokens
// are.
func ReadSignIn(path string) (*suite.SignIn, error) {
	text, err := readSecret(path)
	if err != nil {
		return nil, fmt.Errorf("reading who signs ID tokens: %w", err)
	}
	var s SignIn
	// Neither error quotes the text.
	if err := json.Unmarshal(text, &s); err != nil {
		return nil, fmt.Errorf("reading who signs ID tokens: %s is not of the form of a signer", path)
	}
	key, err := signingKey(s.Key)
	if err != nil {
		return nil, fmt.Errorf("reading who signs ID tokens: %s: %w", path, err)
	}
	if s.Issuer == "" || s.ClientID == "" || len(s.Emails)+len(s.Domains) == 0 {
		return nil, fmt.Errorf("reading who signs ID tokens: %s must name an issuer, a clientID, and whom the server lets in, by emails or by domains", path)
	}
	for _, e := range s.Emails {
		if user, domain, is := strings.Cut(e, "@"); !is || user == "" || domain == "" {
			return nil, fmt.Errorf("reading who signs ID tokens: %s has emails that are no addresses", path)
		}
	}
	return &suite.SignIn{
		Issuer: s.Issuer, ClientID: s.ClientID, KeyID: s.KeyID, Public: &key.PublicKey, Emails: s.Emails, Domains: s.Domains,
		Sign: func(input string) (string, error) { return suite.SignES256(key, input) },
	}, nil
}

func signingKey(text string) (*ecdsa.PrivateKey, error) {
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		return nil, errors.New("its key is not in PEM")
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, errors.New("its key is not of PKCS #8")
	}
	key, ok := parsed.(*ecdsa.PrivateKey)
	if !ok || key.Curve != elliptic.P256() {
		return nil, errors.New("its key is not of the curve P-256")
	}
	return key, nil
}
