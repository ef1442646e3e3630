// SPDX-License-Identifier: Apache-2.0

package kubetest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/stockade-dev/stockade/infra/kube"
)

// The users whose tokens the API server knows, by name. All may do everything:
// what may be done is not what a test with this cluster is about, except for the
// service accounts of its Pods.
const (
	// Operator is whoever uses the cluster from outside: kubectl, a program under
	// test. What it asks for is in the audit log.
	Operator = "operator"
	// admin is the test itself and its fakes.
	admin      = "admin"
	controller = "system:kube-controller-manager"
	scheduler  = "system:kube-scheduler"
)

// controllers are those without which what a program makes does not become ready,
// or does not go away.
var controllers = []string{
	"clusterrole-aggregation-controller", "daemonset-controller", "deployment-controller", "endpoints-controller",
	"endpointslice-controller", "garbage-collector-controller", "namespace-controller", "replicaset-controller",
	"resourcequota-controller", "serviceaccount-controller",
}

// Bounds of a cluster.
const (
	// startTimeout is how long it may take: some 10 s on two idle cores.
	startTimeout = 2 * time.Minute
	// stopGrace is how long a process may take to end before it is killed.
	stopGrace = 10 * time.Second
)

// Cluster is one that runs.
type Cluster struct {
	// Address is where the API server listens, HOST:PORT.
	Address string
	// CAFile holds the certificate of the authority behind that address, as PEM.
	CAFile string
	// Client is an administrator.
	Client *kube.Client

	dir string
	// ctx is the cluster's own life.
	ctx     context.Context
	stop    context.CancelFunc
	tokens  map[string]string
	ended   chan error
	running sync.WaitGroup
}

// Start brings up a cluster whose files lie in dir, which must exist. tools are the
// paths of its programs by name, as node.Tools returns them. It runs until Stop, or
// until ctx ends.
//
// Errors: a program that is missing, or that ended, with the end of its log.
func Start(ctx context.Context, dir string, tools map[string]string) (_ *Cluster, err error) {
	c := &Cluster{dir: dir, CAFile: filepath.Join(dir, "ca.crt"), tokens: map[string]string{}, ended: make(chan error, 1)}
	c.ctx, c.stop = context.WithCancel(ctx)
	defer func() {
		if err != nil {
			c.Stop()
		}
	}()
	if err := c.writeFiles(); err != nil {
		return nil, err
	}
	ports, err := freePorts(c.ctx, 3)
	if err != nil {
		return nil, err
	}
	c.Address = ports[0]
	if c.Client, err = kube.NewForConfig(c.Config(admin)); err != nil {
		return nil, err
	}
	for _, p := range []struct {
		name string
		args []string
		user string
	}{
		{"etcd", etcdArgs(ports[1], ports[2]), ""},
		{"kube-apiserver", c.apiserverArgs(ports[1]), ""},
		{"kube-controller-manager", []string{"--controllers=" + strings.Join(controllers, ","), "--leader-elect=false", "--secure-port=0"}, controller},
		{"kube-scheduler", []string{"--leader-elect=false", "--secure-port=0"}, scheduler},
	} {
		if p.user != "" {
			path, err := c.Kubeconfig(p.user)
			if err != nil {
				return nil, err
			}
			p.args = append(p.args, "--kubeconfig="+path)
		}
		if tools[p.name] == "" {
			return nil, fmt.Errorf("starting a cluster: %s is not built: `make images`", p.name)
		}
		if err := c.process(c.ctx, p.name, tools[p.name], p.args, nil, c.lost); err != nil {
			return nil, err
		}
		if p.name == "kube-apiserver" {
			if err := c.await("the API server", c.ready); err != nil {
				return nil, err
			}
		}
	}
	return c, c.await("the controllers", c.settled) //nolint:gocritic // c is a pointer
}

// Stop ends the cluster and waits for that. Its files stay.
func (c *Cluster) Stop() {
	c.stop()
	c.running.Wait()
}

// lost keeps the first program that ended.
func (c *Cluster) lost(err error) {
	select {
	case c.ended <- err:
	default:
	}
}

// Config returns how a user of the cluster reaches it.
func (c *Cluster) Config(user string) *rest.Config {
	return &rest.Config{
		Host: "https://" + c.Address, BearerToken: c.tokens[user],
		TLSClientConfig: rest.TLSClientConfig{CAFile: c.CAFile},
		// Whoever lists everything meets what is old.
		WarningHandler: rest.NoWarnings{},
	}
}

// Token is the user's credential.
func (c *Cluster) Token(user string) string { return c.tokens[user] }

// Kubeconfig writes the user's kubeconfig, and returns its path.
func (c *Cluster) Kubeconfig(user string) (string, error) {
	return c.kubeconfig(strings.ReplaceAll(user, ":", "-"), c.tokens[user])
}

// accountKubeconfig writes that of a service account, good for an hour.
func (c *Cluster) accountKubeconfig(ctx context.Context, namespace, name string) (string, error) {
	t, err := c.Client.Clientset.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("asking for a token of %s/%s: %w", namespace, name, err)
	}
	return c.kubeconfig(namespace+"-"+name, t.Status.Token)
}

func (c *Cluster) kubeconfig(name, token string) (string, error) {
	ca, err := os.ReadFile(c.CAFile)
	if err != nil {
		return "", fmt.Errorf("writing a kubeconfig: %w", err)
	}
	file := clientcmdapi.NewConfig()
	file.Clusters["test"] = &clientcmdapi.Cluster{Server: "https://" + c.Address, CertificateAuthorityData: ca}
	file.AuthInfos["test"] = &clientcmdapi.AuthInfo{Token: token}
	file.Contexts["test"] = &clientcmdapi.Context{Cluster: "test", AuthInfo: "test"}
	file.CurrentContext = "test"
	path := filepath.Join(c.dir, name+".kubeconfig")
	if err := clientcmd.WriteToFile(*file, path); err != nil {
		return "", fmt.Errorf("writing a kubeconfig: %w", err)
	}
	return path, nil
}

// Requests returns what the operator has asked of the API server so far, a line
// each: "get /api/v1/namespaces". Reading it takes no request.
func (c *Cluster) Requests() ([]string, error) { return readAudit(filepath.Join(c.dir, auditLog)) }

// transient are the kinds that come and go by themselves.
var transient = []string{"Event", "Lease", "ComponentStatus", "APIService"}

// Objects returns everything that the API server stores, "Kind namespace/name",
// sorted. Leases and events, and what the server derives, are left out.
func (c *Cluster) Objects(ctx context.Context) ([]string, error) {
	lists, err := discovery.ServerPreferredResources(c.Client.Clientset.Discovery())
	if err != nil {
		return nil, fmt.Errorf("listing what the cluster holds: %w", err)
	}
	var out []string
	for _, list := range lists {
		group, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return nil, fmt.Errorf("listing what the cluster holds: %w", err)
		}
		for _, r := range list.APIResources {
			if !slices.Contains(r.Verbs, "list") || slices.Contains(transient, r.Kind) {
				continue
			}
			objects, err := c.Client.Dynamic.Resource(group.WithResource(r.Name)).List(ctx, metav1.ListOptions{})
			if err != nil {
				return nil, fmt.Errorf("listing %s: %w", r.Name, err)
			}
			for _, o := range objects.Items {
				out = append(out, r.Kind+" "+o.GetNamespace()+"/"+o.GetName())
			}
		}
	}
	slices.Sort(out)
	return out, nil
}

// freePorts returns n loopback addresses that nobody listens on. Another program
// may take one before it is used; then the one that wanted it ends, and says so.
func freePorts(ctx context.Context, n int) (out []string, err error) {
	var lc net.ListenConfig
	for range n {
		l, err := lc.Listen(ctx, "tcp4", "127.0.0.1:0")
		if err != nil {
			return nil, fmt.Errorf("looking for a free port: %w", err)
		}
		defer l.Close() //nolint:errcheck,gocritic // nothing was written; all are held until there are enough
		out = append(out, l.Addr().String())
	}
	return out, nil
}

func etcdArgs(client, peer string) []string {
	return []string{
		"--data-dir=etcd", "--unsafe-no-fsync", "--log-level=warn",
		"--listen-client-urls=http://" + client, "--advertise-client-urls=http://" + client,
		"--listen-peer-urls=http://" + peer, "--initial-advertise-peer-urls=http://" + peer, "--initial-cluster=default=http://" + peer,
	}
}

func (c *Cluster) apiserverArgs(etcd string) []string {
	_, port, _ := net.SplitHostPort(c.Address) // freePorts made it
	return []string{
		"--etcd-servers=http://" + etcd,
		"--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", "--secure-port=" + port,
		// The loopback address is refused as an endpoint of the Service "kubernetes".
		"--endpoint-reconciler-type=none",
		"--cert-dir=.", "--tls-cert-file=" + certFile, "--tls-private-key-file=" + keyFile,
		"--token-auth-file=" + tokenFile, "--anonymous-auth=false", "--authorization-mode=RBAC",
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + accountKeyFile, "--service-account-signing-key-file=" + accountKeyFile,
		"--service-cluster-ip-range=10.96.0.0/16", "--allow-privileged=true",
		"--audit-policy-file=" + auditPolicyFile, "--audit-log-path=" + auditLog, "--audit-log-mode=blocking",
	}
}

// process starts a program in the cluster's folder. It ends with ctx, or at the
// latest with this process; ended then gets the reason, and the end of its log.
func (c *Cluster) process(ctx context.Context, name, path string, args, env []string, ended func(error)) error {
	log, err := os.OpenFile(filepath.Join(c.dir, name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("starting %s: %w", name, err)
	}
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = c.dir, log, log
	cmd.Env = append(os.Environ(), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = stopGrace
	started := make(chan error)
	c.running.Go(func() {
		defer log.Close() //nolint:errcheck // a log
		// The kernel sends the signal when the thread that started the program ends,
		// and not only when this process does.
		runtime.LockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			ended(fmt.Errorf("%s has ended: %w\n%s", name, cmp.Or(cmd.Wait(), errNoFailure), tail(log.Name())))
		}
	})
	if err := <-started; err != nil {
		return fmt.Errorf("starting %s: %w", name, err)
	}
	return nil
}

var errNoFailure = errors.New("exit status 0")

// await asks again until there is no error.
func (c *Cluster) await(what string, ask func(context.Context) error) error {
	ctx, end := context.WithTimeout(c.ctx, startTimeout)
	defer end()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		asked := ask(ctx)
		if asked == nil {
			return nil
		}
		select {
		case err := <-c.ended:
			return fmt.Errorf("waiting for %s: %w", what, err)
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w", what, errors.Join(ctx.Err(), asked))
		case <-tick.C:
		}
	}
}

func (c *Cluster) ready(ctx context.Context) error {
	return c.Client.Clientset.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
}

// settled tells whether the controllers have done their first work: nothing appears
// after that without a reason.
func (c *Cluster) settled(ctx context.Context) error {
	for _, namespace := range []string{metav1.NamespaceDefault, metav1.NamespaceSystem, metav1.NamespacePublic, corev1.NamespaceNodeLease} {
		if _, err := c.Client.Clientset.CoreV1().ServiceAccounts(namespace).Get(ctx, "default", metav1.GetOptions{}); err != nil {
			return err
		}
	}
	return nil
}

// tail is the end of a log, for an error.
func tail(path string) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	return strings.Join(lines[max(0, len(lines)-15):], "\n")
}
