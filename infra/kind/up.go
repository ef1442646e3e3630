// SPDX-License-Identifier: Apache-2.0

//go:build linux

package kind

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/kind/pkg/cluster"
	"sigs.k8s.io/kind/pkg/cluster/nodes"
	"sigs.k8s.io/kind/pkg/cluster/nodeutils"
	kindexec "sigs.k8s.io/kind/pkg/exec"

	"github.com/stockade-dev/stockade/infra/atomicfile"
	"github.com/stockade-dev/stockade/infra/kube"
	"github.com/stockade-dev/stockade/infra/node"
	"github.com/stockade-dev/stockade/infra/node/engine"
	"github.com/stockade-dev/stockade/infra/progress"
)

// DefaultName is the cluster's name, and the beginning of its nodes' names.
const DefaultName = "stockade"

// Options says which cluster is meant.
type Options struct {
	// Home is STOCKADE_HOME; it must be set.
	Home string
	// Name of the cluster; empty means DefaultName.
	Name string
	// Engine runs the nodes. The calling process must be inside its seal.
	Engine *engine.Engine
	// CiliumDir is the folder of the module github.com/cilium/cilium (see
	// node.ModuleDir), which the definitions are read from.
	CiliumDir string
	// Timeouts bound every wait; zero fields take their defaults.
	Timeouts Timeouts
}

// Timeouts names every wait of this package.
type Timeouts struct {
	// Probe bounds the question whether a cluster is healthy.
	Probe time.Duration
	// Settle bounds the time that a cluster which is not well gets before it is
	// replaced.
	Settle time.Duration
	// Network bounds the time until Cilium and DNS serve.
	Network time.Duration
	// Remove bounds the removal of a cluster that could not be finished.
	Remove time.Duration
}

func (o Options) orDefaults() (Options, error) {
	if o.Home == "" || o.Engine == nil {
		return o, errors.New("locating the cluster: the home folder or the engine is not given")
	}
	if o.Name == "" {
		o.Name = DefaultName
	}
	if o.Timeouts.Probe == 0 {
		o.Timeouts.Probe = 5 * time.Second
	}
	if o.Timeouts.Settle == 0 {
		o.Timeouts.Settle = 30 * time.Second
	}
	if o.Timeouts.Network == 0 {
		// A minute on two idle cores; compiling the datapath is what grows
		// when they are not.
		o.Timeouts.Network = 10 * time.Minute
	}
	if o.Timeouts.Remove == 0 {
		o.Timeouts.Remove = 2 * time.Minute
	}
	return o, nil
}

// KubeconfigPath is where Up writes the administrator's kubeconfig. The server's
// address is valid inside the seal, and may be another machine's outside: the
// file's name warns against using it with a kubectl outside (`stockade exec --
// kubectl` uses it inside).
func (o Options) KubeconfigPath() string { return filepath.Join(o.Home, "run", "sealed.kubeconfig") }

func (o Options) identityPath() string { return filepath.Join(o.Home, "run", "cluster.json") }

// Up makes the cluster, or finds the healthy one that is there already. One
// that is broken, half made or made from other inputs is replaced.
//
// Errors: the process is not inside the seal, the seal is open, or a phase
// failed; the error has the phase's own words.
func Up(ctx context.Context, o Options, images node.Images, rep *progress.Reporter) error {
	o, err := o.orDefaults()
	if err != nil {
		return err
	}
	inside, err := o.Engine.Inside()
	if err != nil {
		return fmt.Errorf("making the cluster: %w", err)
	}
	if !inside {
		return errors.New("making the cluster: this process is not inside the seal; call Engine.Enter first")
	}
	if err := o.Engine.Start(ctx); err != nil {
		return err
	}
	if err := o.Engine.Setenv(); err != nil {
		return err
	}
	host, err := DetectHost()
	if err != nil {
		return fmt.Errorf("making the cluster: %w", err)
	}
	system, err := systemObjects(host, o.CiliumDir)
	if err != nil {
		return fmt.Errorf("making the cluster: %w", err)
	}
	filesDir := filepath.Join(o.Home, "run", "node-files")
	config := Config(host, o.Name, images.NodeTag, images.Repository, filesDir)
	inputs, err := digest(config, NodeFiles(host), system)
	if err != nil {
		return fmt.Errorf("making the cluster: %w", err)
	}

	id, err := settle(ctx, o.Timeouts.Settle, rep, func(ctx context.Context) (Identity, error) { return o.healthy(ctx, inputs) })
	if err == nil {
		rep.Note("cluster %s is up already", o.Name)
		return o.refresh(ctx, id, images.Archives, rep)
	}
	if cause := context.Cause(ctx); cause != nil {
		// The caller gave up: that says nothing about the cluster, which must stay.
		return fmt.Errorf("looking at the cluster: %w", cause)
	}
	if id.UID != "" {
		rep.Note("replacing cluster %s: %v", o.Name, err)
	}
	if err := o.remove(ctx); err != nil {
		return fmt.Errorf("removing a broken cluster: %w", err)
	}
	if err := o.Engine.EnsureNetwork(ctx); err != nil {
		return err
	}
	if err := o.loadNodeImage(ctx, images, rep); err != nil {
		return err
	}
	if err := writeFiles(filesDir, NodeFiles(host)); err != nil {
		return err
	}
	provider, err := o.create(ctx, config, system, rep)
	if err == nil {
		err = o.furnish(ctx, provider, images, inputs, rep)
	}
	if err != nil {
		// The next call must not mistake half a cluster for a whole one. kind
		// removes what it could not finish, but the docker command that it uses for
		// that is ended by the terminal's Ctrl-C as well.
		err = errors.Join(err, o.giveUp(ctx, rep))
	}
	return err
}

// giveUp removes a cluster that could not be finished, also after a Ctrl-C.
func (o Options) giveUp(ctx context.Context, rep *progress.Reporter) (err error) {
	done := rep.Step("removing the half-made cluster")
	defer func() { done("", err) }()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), o.Timeouts.Remove)
	defer cancel()
	return o.remove(ctx)
}

// refresh imports into a healthy cluster the archives that it lacks. Our own
// programs change often, and each archive is named after its content; a profile
// that is deployed for the first time needs archives of its own.
func (o Options) refresh(ctx context.Context, id Identity, archives []string, rep *progress.Reporter) error {
	var missing []string
	for _, a := range archives {
		if !slices.Contains(id.Archives, filepath.Base(a)) {
			missing = append(missing, a)
		}
	}
	if len(missing) > 0 {
		members, err := cluster.NewProvider(cluster.ProviderWithDocker()).ListInternalNodes(o.Name)
		if err != nil {
			return fmt.Errorf("listing the nodes: %w", err)
		}
		digests, err := importImages(ctx, members, missing, rep)
		if err != nil {
			return err
		}
		id.Archives = imported(id.Archives, baseNames(missing))
		if id.Digests == nil {
			id.Digests = map[string]string{}
		}
		maps.Copy(id.Digests, digests)
		return id.write(o.identityPath())
	}
	return nil
}

// imported returns the archives whose images the nodes have once more has been
// imported. An older archive of the same program is left out: the tag has moved to
// the new image, so that going back to the old one takes another import.
func imported(had, more []string) []string {
	program := func(archive string) string { return archive[:max(0, strings.LastIndexByte(archive, '-'))] }
	kept := slices.DeleteFunc(slices.Clone(had), func(a string) bool {
		return slices.ContainsFunc(more, func(b string) bool { return program(a) == program(b) })
	})
	return append(kept, more...)
}

func baseNames(paths []string) []string {
	names := make([]string, len(paths))
	for i, p := range paths {
		names[i] = filepath.Base(p)
	}
	return names
}

// create runs kind and, as soon as there is an API server, installs what makes
// Pods run. Cilium compiles its datapath on every node for as long as kubeadm takes,
// and kubeadm mostly waits: one after the other would cost a quarter of a minute.
func (o Options) create(ctx context.Context, config *clusterConfig, system []*unstructured.Unstructured,
	rep *progress.Reporter,
) (*cluster.Provider, error) {
	log := &kindLog{}
	provider := cluster.NewProvider(cluster.ProviderWithDocker(), cluster.ProviderWithLogger(log))
	return provider, beside(ctx,
		func() error { return o.runKind(provider, log, config, rep) },
		func(ctx context.Context) error { return o.install(ctx, provider, system, rep) })
}

// beside runs install while create makes the cluster. Where there is no control
// plane install fails, too, and may fail first; the error returned is then that of
// create, which is the cause.
func beside(ctx context.Context, create func() error, install func(context.Context) error) error {
	g, ctx := errgroup.WithContext(ctx)
	var broken error
	g.Go(func() error {
		broken = create()
		return broken
	})
	g.Go(func() error { return install(ctx) })
	if err := g.Wait(); broken == nil {
		return err
	}
	return broken
}

// runKind makes nodes and control plane. kind takes no context; its own waits are
// bounded.
func (o Options) runKind(provider *cluster.Provider, log *kindLog, config *clusterConfig, rep *progress.Reporter) (err error) {
	done := rep.Step("creating two nodes and the control plane")
	defer func() { done("", err) }()
	err = provider.Create(o.Name,
		cluster.CreateWithV1Alpha4Config(config),
		cluster.CreateWithKubeconfigPath(o.KubeconfigPath()),
		cluster.CreateWithDisplayUsage(false),
		cluster.CreateWithDisplaySalutation(false))
	if err != nil {
		words := log.tail(5)
		if run := kindexec.RunErrorForError(err); run != nil {
			words = lastLines(string(run.Output), 25)
		}
		return fmt.Errorf("creating the cluster: %w\n%s", err, words)
	}
	return nil
}

// install installs Cilium and the runtime class, once the administrator may do so.
func (o Options) install(ctx context.Context, provider *cluster.Provider, system []*unstructured.Unstructured,
	rep *progress.Reporter,
) (err error) {
	ctx, cancel := context.WithTimeout(ctx, o.Timeouts.Network)
	defer cancel()
	var client *kube.Client
	var apiHost string
	var last error
	// Each attempt runs several docker processes, hence no shorter interval.
	if wait.PollUntilContextCancel(ctx, time.Second, true, func(ctx context.Context) (bool, error) {
		client, apiHost, last = o.administrator(ctx, provider)
		return last == nil, nil
	}) != nil {
		return fmt.Errorf("waiting for the API server: %w (%w)", context.Cause(ctx), last)
	}
	done := rep.Step("installing Cilium and the gVisor runtime class")
	defer func() { done("", err) }()
	// kubeadm is still at work, and an API server that is seconds old may refuse
	// once what it takes a moment later.
	tries := wait.Backoff{Steps: 4, Duration: 2 * time.Second}
	if err := wait.ExponentialBackoffWithContext(ctx, tries, func(ctx context.Context) (bool, error) {
		last = client.Apply(ctx, withAPIHost(system, apiHost))
		return last == nil, nil
	}); err != nil {
		return fmt.Errorf("installing the network: %w", cmp.Or(last, err))
	}
	return nil
}

// administrator returns a client that may do everything, and the control plane's
// address. It is an error that kubeadm has not come that far yet.
func (o Options) administrator(ctx context.Context, provider *cluster.Provider) (*kube.Client, string, error) {
	config, apiHost, err := o.adminConfig(provider)
	if err != nil {
		return nil, "", err
	}
	connection, err := clientcmd.NewDefaultClientConfig(*config, nil).ClientConfig()
	if err != nil {
		return nil, "", err
	}
	client, err := kube.NewForConfig(connection)
	if err != nil {
		return nil, "", err
	}
	// Ready means that the namespaces exist. kubeadm makes this user an
	// administrator only after that, hence the question below.
	if _, err := client.Clientset.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(ctx); err != nil {
		return nil, "", err
	}
	review, err := client.Clientset.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx,
		&authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
			ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "*", Group: "*", Resource: "*"},
		}}, metav1.CreateOptions{})
	if err == nil && !review.Status.Allowed {
		err = errors.New("the administrator may not do everything yet")
	}
	return client, apiHost, err
}

// furnish turns kind's bare cluster into one that Pods can run in.
func (o Options) furnish(ctx context.Context, provider *cluster.Provider, images node.Images,
	inputs string, rep *progress.Reporter,
) error {
	members, err := provider.ListInternalNodes(o.Name)
	if err != nil {
		return fmt.Errorf("listing the nodes: %w", err)
	}
	names := make([]string, len(members))
	for i, n := range members {
		names[i] = n.String()
	}
	// kind lets Docker boot the nodes again after a reboot; with new addresses
	// and without the seal's network they would only come up broken.
	if _, err := o.Engine.Docker(ctx, append([]string{"update", "--restart=no"}, names...)...); err != nil {
		return err
	}
	if err := o.writeKubeconfig(provider); err != nil {
		return err
	}
	client, err := kube.New(o.KubeconfigPath())
	if err != nil {
		return err
	}

	// Importing images and starting the network have nothing to do with each
	// other: the node image carries the system's images.
	ctx, cancel := context.WithTimeout(ctx, o.Timeouts.Network)
	defer cancel()
	g, gctx := errgroup.WithContext(ctx)
	var digests map[string]string
	g.Go(func() (err error) {
		digests, err = importImages(gctx, members, images.Archives, rep)
		return err
	})
	g.Go(func() error { return waitNetwork(gctx, client, names, rep) })
	if err := g.Wait(); err != nil {
		return err
	}
	id, err := identify(ctx, client, o.Name, inputs)
	if err != nil {
		return err
	}
	id.Archives, id.Digests = baseNames(images.Archives), digests
	return id.write(o.identityPath())
}

// waitNetwork waits until Pods can run on the nodes and resolve names. The nodes
// have to be ready first: Cilium's DaemonSet counts as ready when it is so on the
// nodes that it knows, and a node that is still joining is not among them. Cilium
// is what makes a node ready.
func waitNetwork(ctx context.Context, client *kube.Client, names []string, rep *progress.Reporter) (err error) {
	done := rep.Step("waiting for Cilium and DNS")
	defer func() { done("", err) }()
	if err := waitNodes(ctx, client, names); err != nil {
		return err
	}
	if err := client.WaitReady(ctx, []*unstructured.Unstructured{
		object("apps/v1", "DaemonSet", "kube-system", "cilium"),
		object("apps/v1", "Deployment", "kube-system", "coredns"),
	}); err != nil {
		return fmt.Errorf("waiting for the network: %w", err)
	}
	return nil
}

func object(apiVersion, kind, namespace, name string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetAPIVersion(apiVersion)
	u.SetKind(kind)
	u.SetNamespace(namespace)
	u.SetName(name)
	return u
}

// loadNodeImage gives the node image to the engine, once.
func (o Options) loadNodeImage(ctx context.Context, images node.Images, rep *progress.Reporter) (err error) {
	if _, err := o.Engine.Docker(ctx, "image", "inspect", "--format", "{{.Id}}", images.NodeTag); err == nil {
		return nil
	}
	done := rep.Step("loading the node image")
	defer func() { done("", err) }()
	if _, err := o.Engine.Docker(ctx, "load", "--quiet", "--input", images.NodeArchive); err != nil {
		return fmt.Errorf("loading the node image: %w", err)
	}
	// Node images are gigabytes, and no cluster uses the older ones any more.
	tags, err := o.Engine.Docker(ctx, "image", "ls", "--format", "{{.Repository}}:{{.Tag}}")
	if err != nil {
		return fmt.Errorf("looking for older node images: %w", err)
	}
	repository, _, _ := strings.Cut(images.NodeTag, ":")
	for tag := range strings.FieldsSeq(tags) {
		if strings.HasPrefix(tag, repository+":") && tag != images.NodeTag {
			if _, err := o.Engine.Docker(ctx, "image", "rm", tag); err != nil {
				rep.Note("removing an older node image: %v", err)
			}
		}
	}
	return nil
}

// importImages puts docker archives into every node's containerd, and returns
// the images' references by digest, by the names that they came with.
func importImages(ctx context.Context, members []nodes.Node, archives []string, rep *progress.Reporter) (digests map[string]string, err error) {
	if len(archives) == 0 {
		return nil, nil
	}
	done := rep.Step("importing images into the nodes")
	defer func() { done("", err) }()
	var names []string
	for _, archive := range archives {
		n, err := node.ArchiveNames(archive)
		if err != nil {
			return nil, fmt.Errorf("importing images: %w", err)
		}
		names = append(names, n...)
	}
	g, ctx := errgroup.WithContext(ctx)
	found := make([]map[string]string, len(members))
	for i, member := range members {
		g.Go(func() error {
			for _, archive := range archives {
				if err := importImage(ctx, member.String(), archive); err != nil {
					return err
				}
			}
			var err error
			found[i], err = nameDigests(ctx, member.String(), names)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	for i, other := range found[1:] {
		for name, digest := range other {
			if was, ok := found[0][name]; ok && was != digest {
				return nil, fmt.Errorf("importing images: %s is %s on node %s and %s on node %s", name, was, members[0], digest, members[i+1])
			}
		}
	}
	return found[0], nil
}

// importImage puts a docker archive into one node's containerd, so that Pods
// there can use its images without pulling them.
func importImage(ctx context.Context, nodeName, archive string) error {
	f, err := os.Open(archive)
	if err != nil {
		return fmt.Errorf("importing an image: %w", err)
	}
	defer f.Close() //nolint:errcheck // it was only read
	if _, err := ctr(ctx, nodeName, f, "images", "import", "--snapshotter=overlayfs", "-"); err != nil {
		return fmt.Errorf("importing %s: %w", filepath.Base(archive), err)
	}
	return nil
}

// nameDigests gives images of a node a second name, by their digest: the kubelet
// looks a Pod's image up by its name, and an import knows tags alone. The digest
// is containerd's own, of the manifest that it made of the archive.
func nameDigests(ctx context.Context, nodeName string, names []string) (map[string]string, error) {
	out, err := ctr(ctx, nodeName, nil, "images", "ls")
	if err != nil {
		return nil, fmt.Errorf("listing the images: %w", err)
	}
	tags, named := parseImages(out)
	digests := map[string]string{}
	for _, name := range names {
		by, ok := tags[name]
		if !ok {
			return nil, fmt.Errorf("listing the images: %s was imported into node %s and is not there", name, nodeName)
		}
		digests[name] = by
		if named[by] {
			continue
		}
		if _, err := ctr(ctx, nodeName, nil, "images", "tag", name, by); err != nil {
			return nil, fmt.Errorf("naming %s by its digest: %w", name, err)
		}
	}
	return digests, nil
}

// parseImages reads containerd's table of images: name, media type, digest, and
// more. It returns the references by digest of the images with a tag, and which
// of these names there are already.
func parseImages(table string) (tags map[string]string, named map[string]bool) {
	tags, named = map[string]string{}, map[string]bool{}
	for line := range strings.Lines(table) {
		f := strings.Fields(line)
		if len(f) < 3 || !strings.HasPrefix(f[2], "sha256:") || strings.HasPrefix(f[0], "sha256:") {
			continue // the head, or an image by its id alone
		}
		if strings.Contains(f[0], "@") {
			named[f[0]] = true
			continue
		}
		repository := f[0]
		if i := strings.LastIndexByte(repository, ':'); i > strings.LastIndexByte(repository, '/') {
			repository = repository[:i]
		}
		tags[f[0]] = repository + "@" + f[2]
	}
	return tags, named
}

// ctr runs containerd's own client in a node.
func ctr(ctx context.Context, nodeName string, stdin io.Reader, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "docker", append([]string{"exec", "--interactive", nodeName, "ctr", "--namespace=k8s.io"}, args...)...)
	cmd.Stdin = stdin
	var out, diag bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &diag
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("ctr %s on node %s: %w: %s", args[0], nodeName, err, bytes.TrimSpace(append(out.Bytes(), diag.Bytes()...)))
	}
	return out.String(), nil
}

func writeFiles(dir string, files Files) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("writing files for the nodes: %w", err)
	}
	for path, content := range files {
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(path)), []byte(content), 0o644); err != nil {
			return fmt.Errorf("writing files for the nodes: %w", err)
		}
	}
	return nil
}

// writeKubeconfig writes the administrator's kubeconfig over kind's, which leads
// through Docker's port forwarder.
func (o Options) writeKubeconfig(provider *cluster.Provider) error {
	config, _, err := o.adminConfig(provider)
	if err != nil {
		return err
	}
	if err := clientcmd.WriteToFile(*config, o.KubeconfigPath()); err != nil {
		return fmt.Errorf("writing the kubeconfig: %w", err)
	}
	return nil
}

// adminConfig returns the administrator's kubeconfig, pointed at the control plane
// itself, and its address: inside the seal it can be reached. Before kubeadm has
// written it there is an error.
func (o Options) adminConfig(provider *cluster.Provider) (*clientcmdapi.Config, string, error) {
	members, err := provider.ListInternalNodes(o.Name)
	if err != nil {
		return nil, "", fmt.Errorf("listing the nodes: %w", err)
	}
	controlPlanes, err := nodeutils.ControlPlaneNodes(members)
	if err != nil {
		return nil, "", fmt.Errorf("listing the nodes: %w", err)
	}
	if len(controlPlanes) == 0 {
		return nil, "", errors.New("listing the nodes: there is no control plane")
	}
	host, _, err := controlPlanes[0].IP()
	if err != nil {
		return nil, "", fmt.Errorf("finding the control plane's address: %w", err)
	}
	text, err := provider.KubeConfig(o.Name, true)
	if err != nil {
		return nil, "", fmt.Errorf("reading the kubeconfig: %w", err)
	}
	config, err := clientcmd.Load([]byte(text))
	if err != nil {
		return nil, "", fmt.Errorf("reading the kubeconfig: %w", err)
	}
	for _, c := range config.Clusters {
		c.Server = "https://" + host + ":6443"
	}
	return config, host, nil
}

// Down removes the cluster's nodes and what Up has written about it. The engine
// goes on. A cluster that is not there is no error.
func Down(ctx context.Context, o Options) error {
	o, err := o.orDefaults()
	if err != nil {
		return err
	}
	if err := o.remove(ctx); err != nil {
		return fmt.Errorf("removing the cluster: %w", err)
	}
	return nil
}

// remove removes nodes, kubeconfig and identity. It does not use kind, so that
// it works from outside the seal, and on nodes that kind would not recognise. With
// a context that has ended it leaves everything as it is.
func (o Options) remove(ctx context.Context) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	for _, path := range []string{o.identityPath(), o.KubeconfigPath(), o.KubeconfigPath() + ".lock"} {
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	if o.Engine.Ping(ctx) != nil {
		// Without an engine there are no nodes. Where only ctx has ended there may
		// be some, and the error says so.
		return context.Cause(ctx)
	}
	ids, err := o.Engine.Docker(ctx, "ps", "--all", "--quiet", "--filter", "label=io.x-k8s.kind.cluster="+o.Name)
	if err != nil || ids == "" {
		return err
	}
	_, err = o.Engine.Docker(ctx, append([]string{"rm", "--force", "--volumes"}, strings.Fields(ids)...)...)
	return err
}

// Identity tells this cluster from every other. The suite refuses to attack a
// cluster whose identity it cannot confirm.
type Identity struct {
	Name string `json:"name"`
	// UID is that of the namespace kube-system, which lives as long as the
	// cluster.
	UID string `json:"uid"`
	// Inputs is a digest of what the cluster was made from.
	Inputs string `json:"inputs"`
	// Archives are the file names of the images that were imported since.
	Archives []string `json:"archives,omitempty"`
	// Digests are the references by digest of the images on the nodes, by their
	// names with a tag.
	Digests map[string]string `json:"digests,omitempty"`
}

func (i Identity) write(path string) error {
	data, err := json.MarshalIndent(i, "", "  ")
	if err != nil {
		return fmt.Errorf("recording the cluster's identity: %w", err)
	}
	if err := atomicfile.Write(path, append(data, '\n'), 0o644); err != nil {
		return fmt.Errorf("recording the cluster's identity: %w", err)
	}
	return nil
}

// ReadIdentity reads what Up has recorded. The error wraps os.ErrNotExist when
// there is no cluster.
func ReadIdentity(home string) (Identity, error) {
	var id Identity
	data, err := os.ReadFile(Options{Home: home}.identityPath())
	if err != nil {
		return id, fmt.Errorf("reading the cluster's identity: %w", err)
	}
	if err := json.Unmarshal(data, &id); err != nil {
		return id, fmt.Errorf("reading the cluster's identity: %w", err)
	}
	return id, nil
}
