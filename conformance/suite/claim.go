// SPDX-License-Identifier: Apache-2.0

package suite

// Topic is what a claim is about. The claims of different systems about one
// topic stand side by side when their reports are compared.
type Topic string

// The topics, in the order in which a reviewer asks for them.
const (
	Kernel      Topic = "kernel"
	Credentials Topic = "identity and tokens"
	NetworkOut  Topic = "network out"
	NetworkIn   Topic = "network in"
	Files       Topic = "files"
	Load        Topic = "load"
	Door        Topic = "admission and placement"
	Sessions    Topic = "sessions and callers"
	HonestWork  Topic = "honest work"
	Environment Topic = "environment"
)

// Topics lists them in order.
var Topics = []Topic{Kernel, Credentials, NetworkOut, NetworkIn, Files, Load, Door, Sessions, HonestWork, Environment}

// Claim is one sentence of a system's text that can be true or false.
type Claim struct {
	// ID is the system's two letters and a number: AS Agent Sandbox, KG
	// kode-gopher, PG playground.
	ID    string
	Text  string
	Kinds []Kind
	Topic Topic
}

// Claims are all claims of the three systems, by system and number.
var Claims = []Claim{
	{"AS-01", "code sees gVisor's kernel, not the node's", guarantee, Kernel},
	{"AS-02", "no service account token, at its path or elsewhere", guarantee, Credentials},
	{"AS-03", "169.254.0.0/16, and with it the metadata server, is blocked", guarantee, NetworkOut},
	{"AS-04", "nobody but the Sandbox Router gets in", guarantee, NetworkIn},
	{"AS-05", "private ranges, cluster DNS and metadata are blocked by the default policy; the public internet is not", guaranteeAndLimit, NetworkOut},
	{"AS-06", "with no egress rule nothing gets out at all", guarantee, NetworkOut},
	{"AS-07", "nothing outside /tmp can be written", guarantee, Files},
	{"AS-08", "a runaway allocation gets the container killed instead of pressing on the node", guarantee, Load},
	{"AS-09", "an endless loop cannot starve the node", guarantee, Load},
	{"AS-10", "admission demands the required fields and rejects host access and privilege", guarantee, Door},
	{"AS-11", "a bare Sandbox gets no network policy", limit, NetworkOut},
	{"AS-12", "a network policy needs an enforcer, and here there is one", function, NetworkOut},
	{"AS-13", "only Pods that tolerate the taint land on the gVisor nodes", guarantee, Door},
	{"AS-14", "a claim does not wait for a cold start", function, HonestWork},
	{"AS-15", "honest code works: script as argument, data on stdin, only stdout comes back", function, HonestWork},
	{"AS-16", "/tmp holds 64 MiB and no more", guarantee, Files},
	{"AS-17", "the cluster is of the shape that the text describes", guarantee, Environment},

	{"KG-01", "system calls are served by gVisor, for a user without privileges", guarantee, Kernel},
	{"KG-02", "one Pod for each session; no session sees files, caches or tokens of another", guarantee, Sessions},
	{"KG-03", "no service account token; a snippet cannot act on its cluster", guarantee, Credentials},
	{"KG-04", "no Service of the namespace is in the environment", guarantee, Environment},
	{"KG-05", "egress is DNS, and on 443 an allow-list of names", guarantee, NetworkOut},
	{"KG-06", "egress is DNS and public addresses", guarantee, NetworkOut},
	{"KG-07", "private ranges, the API server and the metadata server are blocked", guarantee, NetworkOut},
	{"KG-08", "only the router and kode-gopher reach the sandbox's server port", guarantee, NetworkIn},
	{"KG-09", "one short-lived access token for each run, and no long-lived secret", guarantee, Credentials},
	{"KG-10", "/app is wiped before every call except /app/persist; nothing outlives the session", guarantee, Files},
	{"KG-11", "the identity's own permissions are not contained", limit, Credentials},
	{"KG-12", "the allow-list works on addresses, and a bucket of another project can be written, until the perimeter is on", guaranteeAndLimit, NetworkOut},
	{"KG-13", "locally, data can be sent to any public address", limit, NetworkOut},
	{"KG-14", "callers authenticate by a static token, or by Google sign-in with an allow-list", guarantee, Sessions},
	{"KG-15", "at most two sandboxes for each user", guarantee, Sessions},
	{"KG-16", "network policies limit what reaches kode-gopher and the router", guarantee, NetworkIn},

	{"PG-01", "every Pod of the namespace uses the gVisor RuntimeClass", guarantee, Kernel},
	{"PG-02", "admission rejects privileged and root containers, added capabilities, the host's namespaces and ports, volumes but emptyDir, tokens, init and ephemeral containers, images without a digest or from another registry, and what Pod Security's level restricted forbids", guarantee, Door},
	{"PG-03", "the network is denied by default, and gVisor's own networking is off", guarantee, NetworkOut},
	{"PG-04", "a quota bounds the number of Pods", guarantee, Load},
	{"PG-05", "/workspace and /tmp are memory of a fixed size, and a compiled program runs in /workspace", []Kind{Guarantee, Function}, Files},
	{"PG-06", "a static helper sets the resource limits before a run, and code cannot raise them", guarantee, Load},
	{"PG-07", "podPidsLimit bounds the host side", guarantee, Load},
	{"PG-08", "every run gets its own uid", guarantee, Sessions},
	{"PG-09", "a Python run that ends with MemoryError is reported as a violation of the memory limit", function, HonestWork},
	{"PG-10", "no component holds a container runtime's socket; the execution service only manages and enters Pods of the sandbox namespace", guarantee, Credentials},
}

var (
	guarantee         = []Kind{Guarantee}
	limit             = []Kind{Limit}
	function          = []Kind{Function}
	guaranteeAndLimit = []Kind{Guarantee, Limit}
)

// ClaimText returns the sentence of a claim; empty for an unknown id.
func ClaimText(id string) string {
	for _, c := range Claims {
		if c.ID == id {
			return c.Text
		}
	}
	return ""
}
