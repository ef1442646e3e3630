// SPDX-License-Identifier: Apache-2.0

package descriptor

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"os"
	"path/filepath"
	"testing"

	"github.com/go-jose/go-jose/v4"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func pkcs8(t *testing.T, key crypto.PrivateKey) string {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}

func onCurve(t *testing.T, c elliptic.Curve) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(c, rand.Reader)
	require.NoError(t, err)
	return pkcs8(t, key)
}

// write puts a signer into a file of its owner's.
func (s SignIn) write(t *testing.T) string {
	t.Helper()
	text, err := json.Marshal(s)
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "signer.json")
	require.NoError(t, os.WriteFile(path, text, 0o600))
	return path
}

func TestASignerSignsWhatOthersCanVerify(t *testing.T) {
	path := SignIn{Issuer: "https://i", ClientID: "c", KeyID: "k", Key: onCurve(t, elliptic.P256()), Emails: []string{"a@example.com"}, Domains: []string{"example.com"}}.write(t)
	s, err := ReadSignIn(path)
	require.NoError(t, err)
	assert.Equal(t, []string{"https://i", "c", "k"}, []string{s.Issuer, s.ClientID, s.KeyID})
	const input = "eyJhbGciOiJFUzI1NiJ9.e30"
	signature, err := s.Sign(input)
	require.NoError(t, err)
	signed, err := jose.ParseSignedCompact(input+"."+signature, []jose.SignatureAlgorithm{jose.ES256})
	require.NoError(t, err)
	payload, err := signed.Verify(s.Public)
	require.NoError(t, err)
	assert.Equal(t, "{}", string(payload))

	require.NoError(t, os.Chmod(path, 0o604))
	_, err = ReadSignIn(path)
	require.ErrorContains(t, err, "chmod 600")
	_, err = ReadSignIn(path + "x")
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestASignersFileIsCheckedAndNeverQuoted(t *testing.T) {
	good := SignIn{Issuer: "https://i", ClientID: "c", Key: onCurve(t, elliptic.P256()), Emails: []string{"a@example.com"}, Domains: []string{"example.com"}}
	for why, change := range map[string]func(s *SignIn){
		"not in PEM":          func(s *SignIn) { s.Key = "hunter2" },
		"not of PKCS #8":      func(s *SignIn) { s.Key = "-----BEGIN PRIVATE KEY-----\naHVudGVyMg==\n-----END PRIVATE KEY-----\n" },
		"not of the curve":    func(s *SignIn) { s.Key = onCurve(t, elliptic.P384()) },
		"must name an issuer": func(s *SignIn) { s.Issuer = "" },
		"a clientID":          func(s *SignIn) { s.ClientID = "" },
		"by emails or":        func(s *SignIn) { s.Emails, s.Domains = nil, nil },
		"no addresses":        func(s *SignIn) { s.Emails = []string{"example.com"} },
	} {
		s := good
		change(&s)
		_, err := ReadSignIn(s.write(t))
		require.ErrorContains(t, err, why)
		assert.NotContains(t, err.Error(), "hunter2")
	}
	path := filepath.Join(t.TempDir(), "signer.json")
	require.NoError(t, os.WriteFile(path, []byte("hunter2"), 0o600))
	_, err := ReadSignIn(path)
	require.ErrorContains(t, err, "not of the form")
	assert.NotContains(t, err.Error(), "hunter2")
}
