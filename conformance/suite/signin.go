// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
)

// SignIn is a server's sign-in with ID tokens (OpenID Connect), as one has it who
// signs them: Google, or whoever plays it.
type SignIn struct {
	Issuer string
	// ClientID is the application that users sign in to: the audience of their
	// tokens.
	ClientID string
	// KeyID is the name of the signer's key, Public its public part.
	KeyID  string
	Public *ecdsa.PublicKey
	// Emails and Domains are those whom the server lets in: single addresses, and
	// Workspace domains.
	Emails, Domains []string
	// Sign signs as the signer does: see [SignES256].
	Sign func(input string) (string, error)
}

// SignES256 signs the input of a JSON Web Signature (RFC 7515, section 5.1) by the
// algorithm ES256 (RFC 7518, section 3.4), and returns the signature in base64url.
//
// Errors: the key is of another curve than P-256.
func SignES256(key *ecdsa.PrivateKey, input string) (string, error) {
	const size = 32 // of each of the two numbers, in bytes
	if key.Params().BitSize != 8*size {
		return "", errors.New("signing a token: ES256 wants a key of the curve P-256")
	}
	digest := sha256.Sum256([]byte(input))
	r, s, err := ecdsa.Sign(rand.Reader, key, digest[:])
	if err != nil {
		return "", fmt.Errorf("signing a token: %w", err)
	}
	var raw [2 * size]byte
	r.FillBytes(raw[:size])
	s.FillBytes(raw[size:])
	return base64.RawURLEncoding.EncodeToString(raw[:]), nil
}
