// SPDX-License-Identifier: Apache-2.0

package cli

// Claims are the claims that scenarios speak for, in a sentence each.
var Claims = map[string]string{
	"AS-01": "code sees gVisor's kernel, not the node's",
	"AS-02": "no service account token, at its path or elsewhere",
	"AS-03": "169.254.0.0/16, and with it the metadata server, is blocked",
	"AS-04": "nobody but the Sandbox Router gets in",
	"AS-05": "private ranges, cluster DNS and metadata are blocked by the default policy; the public internet is not",
	"AS-06": "with no egress rule nothing gets out at all",
	"AS-07": "nothing outside /tmp can be written",
	"AS-08": "a runaway allocation gets the container killed instead of pressing on the node",
	"AS-09": "an endless loop cannot starve the node",
	"AS-10": "admission demands the required fields and rejects host access and privilege",
	"AS-11": "a bare Sandbox gets no network policy (disclosed)",
	"AS-12": "a network policy needs an enforcer, and here there is one",
	"AS-13": "only Pods that tolerate the taint land on the gVisor nodes",
	"AS-14": "a claim does not wait for a cold start",
	"AS-15": "honest code works: script as argument, data on stdin, only stdout comes back",
	"AS-16": "/tmp holds 64 MiB and no more",
	"AS-17": "the cluster is of the shape that the text describes",
	"PG-07": "podPidsLimit bounds what a sandbox's processes take of the node",
}
