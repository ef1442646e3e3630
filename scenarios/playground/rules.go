// SPDX-License-Identifier: Apache-2.0

package playground

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"time"

	"github.com/stockade-dev/stockade/conformance/suite"
	"github.com/stockade-dev/stockade/conformance/verdict"
	"github.com/stockade-dev/stockade/scenarios/manifest"
)

// rule is one demand on every Pod of the namespace, with Pods that break it and
// nothing else.
type rule struct {
	id, title, about string
	claim            string // PG-02 where nothing stands here
	severity         suite.Severity
	// says is a part of the admission policy's message for this rule and for no
	// other; the test of package overlays compares it with the policy. standard
	// are Pod Security's words for the same thing, which is asked first and
	// forbids a part of what the policy does: a refusal by either is the rule's.
	says     string
	standard string
	mutants  []string
	cases    []variant
	// live are changes of a Pod that was admitted without them.
	live []patch
}

// variant is one way to break the rule when a Pod is created.
type variant struct {
	name   string
	change func(spec object)
}

// patch is one way to break the rule in a Pod that runs already.
type patch struct {
	name string
	// subresource of the Pod; empty is the Pod itself.
	subresource string
	spec        func(compliant object) object
}

var rules = []rule{
	{
		id: "require-gvisor", title: "Create a Pod of another runtime in the playground", claim: "PG-01",
		about: "A Pod without gVisor's runtime class would run on the node's own kernel; one with another class of gVisor's would have a network.",
		says:  "the runtime class", severity: suite.Critical,
		mutants: []string{"playground-no-runtime-class-rule", "playground-audit-only"},
		cases: []variant{
			{"no runtimeClassName", manifest.Without("runtimeClassName")},
			{"a runtime class with a network", manifest.Set("runtimeClassName", "gvisor")},
		},
	}, {
		id: "reject-privileged", title: "Create a privileged Pod in the playground",
		about: "Privilege undoes nearly every other restriction.",
		says:  "privileged containers", standard: "privileged", severity: suite.Critical,
		mutants: []string{"playground-no-privileged-rule"},
		cases: []variant{{"privileged", manifest.InContainers(func(c object) {
			s := manifest.Child(c, "securityContext")
			s["privileged"] = true
			delete(s, "allowPrivilegeEscalation") // the API server takes no false beside it
		})}},
	}, {
		id: "reject-root", title: "Create a Pod of root's in the playground",
		about: "Neither the Pod nor a container of it may leave open who it runs as, or say root. From Kubernetes 1.35 on, Pod Security allows both where the Pod has a user namespace of its own; the policy must not.",
		says:  "a user other than root", standard: "runAs", severity: suite.High,
		mutants: []string{"playground-no-root-rule", "playground-root-in-user-namespace"},
		cases: []variant{
			{"runAsNonRoot left out", unsaid}, {"runAsNonRoot left out, in a user namespace", ownUsers(unsaid)},
			{"runAsNonRoot false in a container", manifest.InContainers(manifest.Security("runAsNonRoot", false))},
			{"runAsUser 0", root}, {"runAsUser 0, in a user namespace", ownUsers(root)},
			{"runAsUser 0 in a container", manifest.InContainers(manifest.Security("runAsUser", int64(0)))},
		},
	}, {
		id: "reject-added-capability", title: "Create a Pod with a capability in the playground",
		about: "Dropping ALL and adding one back gives the one.",
		says:  "capabilities cannot be added", standard: "capabilities", severity: suite.High,
		mutants: []string{"playground-no-capability-rule"},
		cases: []variant{
			{"NET_RAW added", manifest.InContainers(manifest.Security("capabilities", object{"drop": []any{"ALL"}, "add": []any{"NET_RAW"}}))},
			{"NET_BIND_SERVICE added", manifest.InContainers(manifest.Security("capabilities", object{"drop": []any{"ALL"}, "add": []any{"NET_BIND_SERVICE"}}))},
		},
	}, {
		id: "reject-host-namespaces", title: "Create a Pod in the node's namespaces in the playground",
		about: "The node's network has the node's credentials, its process table leads to everything on it, its IPC to other Pods' memory.",
		says:  "the host's network", standard: "host namespaces", severity: suite.Critical,
		mutants: []string{"playground-no-host-namespace-rule"},
		cases: []variant{
			{"hostNetwork", manifest.Set("hostNetwork", true)}, {"hostPID", manifest.Set("hostPID", true)}, {"hostIPC", manifest.Set("hostIPC", true)},
		},
	}, {
		id: "reject-host-port", title: "Create a Pod with a port of the node in the playground",
		about: "A host port is reached past the network policy that guards the Pod.",
		says:  "ports of the host", standard: "hostPort", severity: suite.Medium,
		mutants: []string{"playground-no-host-port-rule"},
		cases: []variant{{"hostPort", manifest.InContainers(manifest.Set("ports", []any{
			object{"containerPort": int64(8080), "hostPort": int64(8080), "protocol": "TCP"}}))}},
	}, {
		id: "require-emptydir", title: "Create a Pod with a volume in the playground",
		about: "Every other kind of volume brings something from outside: a folder of the node, a secret, a token, a disk, an image of any registry.",
		says:  "only emptyDir", standard: "volume", severity: suite.Critical,
		mutants: []string{"playground-no-volume-rule", "playground-volume-deny-list"},
		cases: []variant{
			{"a folder of the node", manifest.Volume(object{"hostPath": object{"path": "/run/containerd"}})},
			{"a secret", manifest.Volume(object{"secret": object{"secretName": "stockade"}})},
			{"a config map", manifest.Volume(object{"configMap": object{"name": "kube-root-ca.crt"}})},
			{"a projected token", manifest.Volume(object{"projected": object{"sources": []any{
				object{"serviceAccountToken": object{"path": "token", "audience": "stockade.test"}}}}})},
			{"a persistent volume", manifest.Volume(object{"persistentVolumeClaim": object{"claimName": "stockade"}})},
			{"a driver's volume", manifest.Volume(object{"csi": object{"driver": "csi.stockade.test"}})},
			// These are forgotten most easily: who forbids by name, forbids what there was
			// then. No rule on images sees the last one's, which is of a tag and of
			// another registry.
			{"a disk made for it", manifest.Volume(object{"ephemeral": object{"volumeClaimTemplate": object{"spec": object{
				"accessModes": []any{"ReadWriteOnce"}, "resources": object{"requests": object{"storage": "1Gi"}}}}}})},
			{"what the API server says of it", manifest.Volume(object{"downwardAPI": object{"items": []any{
				object{"path": "labels", "fieldRef": object{"fieldPath": "metadata.labels"}}}}})},
			{"an image", manifest.Volume(object{"image": object{"reference": "registry.stockade.test/attack:dev", "pullPolicy": "IfNotPresent"}})},
		},
	}, {
		id: "require-no-token", title: "Create a Pod with a service account token in the playground",
		about: "The field must be false: left out, it is the service account's to decide.",
		says:  "automountServiceAccountToken", severity: suite.Critical,
		mutants: []string{"playground-no-token-rule"},
		cases: []variant{
			{"automountServiceAccountToken left out", manifest.Without("automountServiceAccountToken")},
			{"automountServiceAccountToken true", manifest.Set("automountServiceAccountToken", true)},
		},
	}, {
		id: "reject-init-container", title: "Create a Pod with an init container in the playground",
		about: "What runs before the run, or beside it as a sidecar, is not under the run's limits.",
		says:  "init containers", severity: suite.Medium,
		mutants: []string{"playground-no-init-container-rule"},
		cases: []variant{
			{"an init container", second(nil)},
			{"a sidecar", second(object{"restartPolicy": "Always"})},
		},
	}, {
		id: "reject-ephemeral-container", title: "Add a container to a run in the playground",
		about: "`kubectl debug` adds a container to a Pod that runs, through a subresource that a policy on Pods does not see by itself.",
		says:  "ephemeral containers", severity: suite.High,
		mutants: []string{"playground-no-ephemeral-container-rule", "playground-no-subresource", "playground-create-only"},
		live: []patch{{"an ephemeral container", "ephemeralcontainers", func(spec object) object {
			c := firstContainer(spec)
			return object{"ephemeralContainers": []any{object{
				"name": "attack", "image": c["image"], "command": []any{"sleep", "1"}, "securityContext": c["securityContext"]}}}
		}}},
	}, {
		id: "require-digest", title: "Create a Pod of an image without a digest in the playground",
		about: "What a tag names can be replaced after it was looked at. The image of a Pod that runs can be changed, too.",
		says:  "given by digest", severity: suite.High,
		mutants: []string{"playground-no-digest-rule", "playground-create-only"},
		cases: []variant{
			{"a tag", manifest.InContainers(func(c object) { c["image"] = repository(c) + ":dev" })},
			{"no tag at all", manifest.InContainers(func(c object) { c["image"] = repository(c) })},
		},
		live: []patch{{"a tag for a Pod that runs", "", func(spec object) object {
			c := firstContainer(spec)
			return object{"containers": []any{object{"name": c["name"], "image": repository(c) + ":dev"}}}
		}}},
	}, {
		id: "require-registry", title: "Create a Pod of another registry's image in the playground",
		about: "A digest says which image it is, and not who made it. Whoever has a domain can name a registry so that it begins or ends like another's, and a repository as he likes.",
		says:  "from the registry", severity: suite.High,
		mutants: []string{"playground-no-registry-rule", "playground-registry-prefix", "playground-registry-anywhere"},
		cases: []variant{
			{"another registry", manifest.InContainers(func(c object) { c["image"] = "registry.stockade.test/playground@" + digest(c) })},
			{"a registry whose name begins alike", manifest.InContainers(func(c object) {
				registry, _, _ := strings.Cut(repository(c), "/")
				c["image"] = registry + ".stockade.test/playground@" + digest(c)
			})},
			{"a registry whose name ends alike", manifest.InContainers(func(c object) { c["image"] = "not-" + repository(c) + "@" + digest(c) })},
			{"another registry's repository that is called like this one", manifest.InContainers(func(c object) {
				c["image"] = "registry.stockade.test/" + repository(c) + "@" + digest(c)
			})},
		},
	}, {
		id: "require-pod-security", title: "Create a Pod below Pod Security's restricted level in the playground",
		about: "Three demands of the level restricted that the level baseline does not make.",
		says:  `violates PodSecurity "restricted`, severity: suite.High,
		mutants: []string{"playground-pod-security-baseline"},
		cases: []variant{
			{"privilege escalation allowed", manifest.InContainers(manifest.Security("allowPrivilegeEscalation", true))},
			{"capabilities kept", manifest.InContainers(manifest.Security("capabilities", object{}))},
			{"no seccomp profile", func(spec object) { delete(manifest.Child(spec, "securityContext"), "seccompProfile") }},
		},
	},
}

// scenario declares the rule's attack. It accepts the API server's refusal in
// the rule's own words alone: another refusal would look just as safe, and say
// nothing about the rule.
func (r rule) scenario() suite.Scenario {
	claim := r.claim
	if claim == "" {
		claim = "PG-02"
	}
	return suite.Scenario{
		ID: "playground." + r.id, Title: r.title,
		About: r.about + " The attack asks for a Pod of the template's with this one thing changed, as a dry run; the report says who refused it. " +
			"The control is the same Pod unchanged, which has to be taken.",
		Claims: []string{claim}, Kind: suite.Guarantee, Severity: r.severity,
		Techniques: []string{"T1610"},
		Refs:       []string{"https://kubernetes.io/docs/reference/access-authn-authz/validating-admission-policy/", "https://kubernetes.io/docs/concepts/security/pod-security-standards/"},
		Needs:      []suite.Feature{suite.Admission},
		Ask:        r.ask,
		AskControl: r.control,
		Live:       len(r.live) > 0,
		Params:     map[string]string{"says": r.says},
		Accept:     []verdict.Class{verdict.AdmissionDenied},
		Timeout:    30 * time.Second,
		Mutants:    r.mutants,
	}
}

func (r rule) ask(ctx context.Context, env *suite.APIEnv) []verdict.Step {
	steps := make([]verdict.Step, 0, len(r.cases)+len(r.live))
	for _, v := range r.cases {
		pod := env.Pod()
		v.change(manifest.Child(pod, "spec"))
		steps = append(steps, r.own(manifest.DryRun(ctx, env, v.name, pod)))
	}
	for _, p := range r.live {
		steps = append(steps, r.own(change(ctx, env, p.name, p.subresource, p.spec(manifest.Child(env.Pod(), "spec")))))
	}
	return steps
}

// control asks for the unchanged Pod, and where a Pod that runs is changed, for
// a harmless change of it.
func (r rule) control(ctx context.Context, env *suite.APIEnv) []verdict.Step {
	steps := []verdict.Step{manifest.DryRun(ctx, env, "the compliant Pod", env.Pod())}
	if len(r.live) > 0 {
		steps = append(steps, send(ctx, env, "a harmless change of a Pod that runs", "", object{
			"metadata": object{"annotations": object{"stockade.dev/harmless": env.Nonce}}}))
	}
	return steps
}

// own demands that it was this rule that refused, and says whose refusal it was:
// of two that forbid the same, the second may be missing for as long as there is
// the first.
func (r rule) own(step verdict.Step) verdict.Step {
	standard := strings.Contains(step.Detail, "violates PodSecurity")
	switch {
	case step.Class != verdict.AdmissionDenied:
	case standard && (strings.Contains(step.Detail, r.says) || r.standard != "" && strings.Contains(step.Detail, r.standard)):
		step.Detail = "refused by Pod Security: " + step.Detail
	case !standard && strings.Contains(step.Detail, r.says):
		step.Detail = "refused by the admission policy: " + step.Detail
	default:
		step.Class, step.Detail = verdict.Unknown, "refused, but not by this rule: "+step.Detail
	}
	return step
}

// change patches the spec of the target's live Pod, as a dry run.
func change(ctx context.Context, env *suite.APIEnv, name, subresource string, spec object) verdict.Step {
	return send(ctx, env, name, subresource, object{"spec": spec})
}

func send(ctx context.Context, env *suite.APIEnv, name, subresource string, body object) verdict.Step {
	if env.Do == nil || env.Live == "" {
		return verdict.Step{Name: name, Class: verdict.ToolMissing, Detail: "the target has no Pod that runs"}
	}
	path := fmt.Sprintf("/api/v1/namespaces/%s/pods/%s", env.Namespace, env.Live)
	if subresource != "" {
		path += "/" + subresource
	}
	answer, err := env.Do(ctx, suite.Administrator, suite.Request{Verb: http.MethodPatch, Path: path, Body: body})
	return manifest.Judge(name, answer, err)
}

func unsaid(spec object) { delete(manifest.Child(spec, "securityContext"), "runAsNonRoot") }

func root(spec object) { manifest.Child(spec, "securityContext")["runAsUser"] = int64(0) }

// ownUsers makes the change in a Pod whose users are not the node's.
func ownUsers(change func(object)) func(object) {
	return func(spec object) {
		spec["hostUsers"] = false
		change(spec)
	}
}

// second puts a twin of the Pod's container among its init containers.
func second(more object) func(object) {
	return func(spec object) {
		twin := manifest.Clone(firstContainer(spec))
		twin["name"] = "attack"
		maps.Copy(twin, more)
		spec["initContainers"] = []any{twin}
	}
}

func firstContainer(spec object) object {
	if all := manifest.Containers(spec); len(all) > 0 {
		return all[0]
	}
	return object{}
}

// repository is a container's image without tag and digest.
func repository(c object) string {
	image, _ := c["image"].(string)
	image, _, _ = strings.Cut(image, "@")
	// A colon before the last slash is a port's.
	if i := strings.LastIndexByte(image, ':'); i > strings.LastIndexByte(image, '/') {
		image = image[:i]
	}
	return image
}

// digest is that of a container's image, or one of none.
func digest(c object) string {
	image, _ := c["image"].(string)
	if _, digest, found := strings.Cut(image, "@"); found {
		return digest
	}
	return "sha256:" + strings.Repeat("0", 64)
}
