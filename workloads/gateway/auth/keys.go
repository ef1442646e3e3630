// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"context"
	"crypto"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"
	"golang.org/x/sync/singleflight"
)

// KeySet checks signatures: [RemoteKeys], [KeysFile], or what [ParseKeys] returns.
type KeySet = oidc.KeySet

// algorithms are those that signatures may have. Asymmetric ones only: with a
// symmetric one a public key would sign.
var algorithms = []jose.SignatureAlgorithm{jose.RS256, jose.ES256}

// fetchEvery is the least time between two requests to a signer, maxAge how old its
// keys may be before it is asked again, and fetchRetry how long it is left alone
// when it did not answer. Signers publish a key long before they use it, and take
// back one that others have come to know.
const (
	fetchEvery   = time.Minute
	maxAge       = time.Hour
	fetchRetry   = 10 * time.Second
	fetchTimeout = 10 * time.Second
	freshWait    = time.Second // for an answer whether a known key is still one
)

// RemoteKeys are the keys that a signer publishes. Anybody can send a token with an
// unknown key, so a token must not decide how often the signer is asked: at most
// every fetchEvery, and once for all who wait.
type RemoteKeys struct {
	url    string
	client *http.Client
	now    func() time.Time
	flight singleflight.Group

	mu   sync.Mutex
	keys []jose.JSONWebKey
	next time.Time // not asked before
	old  time.Time // the keys are, from then on
	err  error     // of the last time
}

// NewRemoteKeys returns the keys at a URL. It asks nobody yet.
func NewRemoteKeys(url string) *RemoteKeys {
	return &RemoteKeys{url: url, client: &http.Client{Timeout: fetchTimeout}, now: time.Now}
}

// VerifySignature implements [KeySet]. A token has to name its key, as Google's
// do.
func (r *RemoteKeys) VerifySignature(ctx context.Context, token string) ([]byte, error) {
	jws, err := jose.ParseSignedCompact(token, algorithms)
	if err != nil {
		return nil, fmt.Errorf("reading the token: %w", err)
	}
	id := jws.Signatures[0].Header.KeyID
	if id == "" {
		return nil, errors.New("the token names no key")
	}
	keys, err := r.named(ctx, id)
	if err != nil {
		return nil, err
	}
	for _, k := range keys {
		if payload, err := jws.Verify(k.Key); err == nil {
			return payload, nil
		}
	}
	return nil, errors.New("the signature is not by the key that the token names")
}

// named returns the keys of a name, at least one.
func (r *RemoteKeys) named(ctx context.Context, id string) ([]jose.JSONWebKey, error) {
	was := r.known(id)
	if len(was) > 0 && !r.stale() {
		return was, nil
	}
	// Whoever came first may leave, and the others still want to know.
	flight := r.flight.DoChan("", func() (any, error) { return nil, r.refresh(context.WithoutCancel(ctx)) })
	var enough <-chan time.Time // for who has a key already
	if len(was) > 0 {
		t := time.NewTimer(freshWait)
		defer t.Stop()
		enough = t.C
	}
	select {
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-enough:
		return was, nil
	case done := <-flight:
		// It leaves the keys as they are, and who has one goes on below.
		if done.Err != nil && len(was) == 0 {
			return nil, done.Err
		}
	}
	if keys := r.known(id); len(keys) > 0 {
		return keys, nil
	}
	return nil, errors.New("the signer has no key of the name that the token says")
}

func (r *RemoteKeys) known(id string) []jose.JSONWebKey {
	r.mu.Lock()
	defer r.mu.Unlock()
	set := jose.JSONWebKeySet{Keys: r.keys}
	return set.Key(id)
}

func (r *RemoteKeys) stale() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.now().Before(r.old)
}

// refresh asks the signer if it is time to. A signer that does not answer costs
// nobody the keys that are known.
func (r *RemoteKeys) refresh(ctx context.Context) error {
	r.mu.Lock()
	early, err := r.now().Before(r.next), r.err
	r.mu.Unlock()
	if early {
		return err
	}
	keys, err := r.fetch(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.err = err
	if err != nil {
		r.next = r.now().Add(fetchRetry)
		return err
	}
	r.keys, r.next, r.old = keys, r.now().Add(fetchEvery), r.now().Add(maxAge)
	return nil
}

func (r *RemoteKeys) fetch(ctx context.Context) ([]jose.JSONWebKey, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.url, http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("asking for the signer's keys: %w", err)
	}
	res, err := r.client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("asking for the signer's keys: %w", err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("asking for the signer's keys: %s", res.Status)
	}
	return readKeys(res.Body)
}

// ParseKeys reads JSON Web Key Sets (RFC 7517) of public keys, for a server that
// cannot ask for them. A signature by any of the keys is one.
func ParseKeys(sets ...io.Reader) (KeySet, error) {
	var keys []crypto.PublicKey
	for _, r := range sets {
		all, err := readKeys(r)
		if err != nil {
			return nil, err
		}
		for _, k := range all {
			keys = append(keys, k.Key)
		}
	}
	if len(keys) == 0 {
		return nil, errors.New("reading the keys: there is none")
	}
	return &oidc.StaticKeySet{PublicKeys: keys}, nil
}

// maxKeys is larger than any key set, in bytes.
const maxKeys = 1 << 20

// readKeys returns those that are for signatures. A signer may have some of a
// kind that nobody here knows, which are passed over.
func readKeys(r io.Reader) ([]jose.JSONWebKey, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxKeys))
	if err != nil {
		return nil, fmt.Errorf("reading the keys: %w", err)
	}
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(text, &set); err != nil {
		return nil, fmt.Errorf("reading the keys: %w", err)
	}
	var keys []jose.JSONWebKey
	for _, text := range set.Keys {
		var k jose.JSONWebKey
		if err := json.Unmarshal(text, &k); errors.Is(err, jose.ErrUnsupportedKeyType) {
			continue
		} else if err != nil {
			return nil, fmt.Errorf("reading the keys: %w", err)
		}
		if !k.Valid() || !k.IsPublic() {
			return nil, fmt.Errorf("reading the keys: the key %.40q is not a public one", k.KeyID)
		}
		if k.Use == "" || k.Use == "sig" {
			keys = append(keys, k)
		}
	}
	if len(keys) == 0 {
		return nil, errors.New("reading the keys: there is none for signatures")
	}
	return keys, nil
}
