// SPDX-License-Identifier: Apache-2.0

package rangehost

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"sort"
	"strings"

	"github.com/stockade-dev/stockade/workloads/range/world"
)

// Identities that the metadata server tells of. None exists.
const (
	metadataProject = "stockade-range"
	metadataEmail   = "node@stockade-range.iam.gserviceaccount.com"
)

// metadataTree is the content of computeMetadata/v1 that does not change.
// Paths and meanings: https://cloud.google.com/compute/docs/metadata/predefined-metadata-keys
func metadataTree() map[string]string {
	t := map[string]string{
		"project/project-id":                      metadataProject,
		"project/numeric-project-id":              "100000000001",
		"project/attributes/ssh-keys":             "",
		"instance/id":                             "1000000000000000001",
		"instance/name":                           "gke-stockade-range-node",
		"instance/hostname":                       "gke-stockade-range-node.c.stockade-range.internal",
		"instance/zone":                           "projects/100000000001/zones/europe-west1-b",
		"instance/machine-type":                   "projects/100000000001/machineTypes/n2-standard-4",
		"instance/tags":                           `["gke-stockade-range"]`,
		"instance/network-interfaces/0/ip":        "10.128.0.2",
		"instance/attributes/cluster-name":        "stockade-range",
		"instance/attributes/cluster-location":    "europe-west1",
		"instance/attributes/enable-os-login":     "true",
		"instance/attributes/kube-labels":         "sandbox.gke.io/runtime=gvisor",
		"instance/attributes/kube-env":            "CLUSTER_NAME: stockade-range\nKUBELET_CERT: stockade-canary\nTPM_BOOTSTRAP_CERT: stockade-canary\n",
		"instance/attributes/user-data":           "#cloud-config\n",
		"instance/service-accounts/default/email": metadataEmail,
	}
	for _, sa := range []string{"default", metadataEmail} {
		t["instance/service-accounts/"+sa+"/email"] = metadataEmail
		t["instance/service-accounts/"+sa+"/aliases"] = "default\n"
		t["instance/service-accounts/"+sa+"/scopes"] = "https://www.googleapis.com/auth/cloud-platform\n"
		// Made anew for each request, below.
		t["instance/service-accounts/"+sa+"/token"] = ""
		t["instance/service-accounts/"+sa+"/identity"] = ""
	}
	return t
}

// metadataReply answers as the GCE metadata server does, with tokens that only
// the range can have made.
func metadataReply(req *http.Request) reply {
	h := http.Header{"Server": {"Metadata Server for VM"}, "Metadata-Flavor": {"Google"}, "X-Frame-Options": {"0"}}
	say := func(status int, contentType, body string) reply {
		h.Set("Content-Type", contentType)
		return reply{status: status, header: h, body: []byte(body)}
	}
	text := func(status int, body string) reply { return say(status, "application/text", body) }
	path := strings.TrimPrefix(req.URL.Path, "/")
	if path == "" {
		return text(http.StatusOK, "computeMetadata/\n") // asked by client libraries to detect GCE
	}
	// The header keeps out SSRF that cannot set one; a forwarded request is
	// refused for the same reason.
	if req.Header.Get("Metadata-Flavor") != "Google" {
		return text(http.StatusForbidden, "Missing Metadata-Flavor:Google header.\n")
	}
	if req.Header.Get("X-Forwarded-For") != "" {
		return text(http.StatusForbidden, "Requests with X-Forwarded-For are refused.\n")
	}
	if req.Method != http.MethodGet && req.Method != http.MethodHead {
		return text(http.StatusMethodNotAllowed, "Only GET is served.\n")
	}
	path, ok := strings.CutPrefix(path, "computeMetadata/v1/")
	if !ok {
		if path == "computeMetadata" || path == "computeMetadata/" {
			return text(http.StatusOK, "v1/\n")
		}
		return text(http.StatusNotFound, "No such version of the metadata.\n")
	}
	tree := metadataTree()
	if value, leaf := tree[path]; leaf {
		switch path[strings.LastIndexByte(path, '/')+1:] {
		case "token":
			canary := world.CanaryPrefix + randomHex(nonceLen/2)
			r := say(http.StatusOK, "application/json", fmt.Sprintf(`{"access_token":%q,"expires_in":3599,"token_type":"Bearer"}`, canary))
			r.canary = canary
			return r
		case "identity":
			aud := req.URL.Query().Get("audience")
			if aud == "" {
				return text(http.StatusBadRequest, "non-empty audience parameter required\n")
			}
			canary := world.CanaryPrefix + randomHex(nonceLen/2)
			r := text(http.StatusOK, identityToken(aud, canary))
			r.canary = canary
			return r
		}
		return text(http.StatusOK, value)
	}
	return listing(say, tree, path, req.URL.Query().Get("recursive") == "true")
}

// listing answers for a folder: its entries, or all below it as JSON.
func listing(say func(int, string, string) reply, tree map[string]string, dir string, recursive bool) reply {
	if dir != "" && !strings.HasSuffix(dir, "/") {
		dir += "/"
	}
	entries := map[string]bool{}
	nested := map[string]any{}
	for p, v := range tree {
		rest, below := strings.CutPrefix(p, dir)
		if !below {
			continue
		}
		parts := strings.Split(rest, "/")
		if len(parts) > 1 {
			entries[parts[0]+"/"] = true
		} else {
			entries[parts[0]] = true
		}
		at := nested
		for _, part := range parts[:len(parts)-1] {
			next, ok := at[part].(map[string]any)
			if !ok {
				next = map[string]any{}
				at[part] = next
			}
			at = next
		}
		at[parts[len(parts)-1]] = v
	}
	if len(entries) == 0 {
		return say(http.StatusNotFound, "application/text", "There is no such key.\n")
	}
	if recursive {
		body, err := json.Marshal(nested)
		if err != nil {
			return say(http.StatusInternalServerError, "application/text", "")
		}
		return say(http.StatusOK, "application/json", string(body))
	}
	names := make([]string, 0, len(entries))
	for n := range entries {
		names = append(names, n)
	}
	sort.Strings(names)
	return say(http.StatusOK, "application/text", strings.Join(names, "\n")+"\n")
}

// identityToken has a JWT's form. Its signature is the canary itself, which is
// valid base64url, so that it is recognised on sight and verifies nowhere.
func identityToken(audience, canary string) string {
	enc := func(v any) string {
		b, err := json.Marshal(v)
		if err != nil {
			return ""
		}
		return base64.RawURLEncoding.EncodeToString(b)
	}
	return enc(map[string]string{"alg": "RS256", "typ": "JWT", "kid": "stockade-range"}) + "." +
		enc(map[string]any{"iss": "https://accounts.google.com", "aud": clipText(audience), "sub": "stockade-range", "email": metadataEmail}) + "." +
		canary
}
