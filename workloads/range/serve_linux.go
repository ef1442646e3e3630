// SPDX-License-Identifier: Apache-2.0

package rangehost

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/stockade-dev/stockade/infra/procstat"
	"github.com/stockade-dev/stockade/workloads/range/rangeclient"
	"github.com/stockade-dev/stockade/workloads/range/world"
)

const (
	watchEvery  = 2 * time.Second        // how often the seal is looked at again
	healthFresh = 250 * time.Millisecond // how old a check may be in an answer
	stopTime    = 5 * time.Second        // for the API's open requests
)

// Host is a range that serves.
type Host struct {
	conf    Config
	started time.Time
	log     *eventLog
	svc     *services
	cap     *capture
	packets []*packetSocket
	udp     []*datagrams
	conns   connTable
	ready   Ready
	lock    *os.File

	group   *errgroup.Group
	cancel  context.CancelFunc
	closers []io.Closer
	api     *http.Server

	mu      sync.Mutex
	checked time.Time
	problem error

	stop    sync.Once
	stopErr error
}

// Serve runs the range until ctx is done, then takes everything away again.
// It calls ready, when that is not nil, as soon as it serves. The error wraps
// [ErrUnsealed] when the namespace is not, or stops being, sealed.
func Serve(ctx context.Context, conf Config, ready func(Ready)) error {
	h, err := Start(ctx, conf)
	if err != nil {
		return err
	}
	if ready != nil {
		ready(h.Ready())
	}
	return errors.Join(h.Wait(), h.Stop())
}

// Start checks the seal, installs the capture and begins to serve. The whole
// process must be in the network namespace. A range that was killed is taken
// over: its rules are replaced, its log goes on. Cancelling ctx ends the
// service; [Host.Stop] must be called all the same.
func Start(ctx context.Context, conf Config) (_ *Host, err error) {
	if err := conf.check(); err != nil {
		return nil, err
	}
	if err := CheckSealed(conf.NetNS); err != nil {
		return nil, err
	}
	h := &Host{conf: conf, started: time.Now()}
	h.conns.max = conf.MaxConns
	h.conns.lose = func() { h.log.lose(1) }
	ctx, h.cancel = context.WithCancel(ctx)
	h.group, ctx = errgroup.WithContext(ctx)
	defer func() {
		if err != nil {
			err = errors.Join(err, h.Stop())
		}
	}()
	if h.lock, err = lockPID(conf.PIDFile); err != nil {
		return nil, err
	}
	if h.log, err = openLog(conf.Log, time.Now); err != nil {
		return nil, err
	}
	ca, err := newAuthority(h.started)
	if err != nil {
		return nil, err
	}
	h.svc = &services{log: h.log, zone: world.Zone{GoProxyHost: conf.GoProxyHost}, ca: ca}
	if err := h.listen(ctx); err != nil {
		return nil, err
	}
	if err := h.listenAPI(ctx, ca.pem); err != nil {
		return nil, err
	}
	// Written before the first packet: a gap between two runs shows.
	h.log.append(rangeclient.Event{Service: "range", Name: "started", Path: strings.Join(conf.Bridges, ",")})
	if err := h.cap.install(); err != nil {
		return nil, err
	}
	if err := h.check(); err != nil {
		return nil, err
	}
	h.group.Go(func() error { return h.watch(ctx) })
	h.ready = Ready{Ready: true, PID: os.Getpid(), Run: h.log.run, Socket: conf.Socket, Bridges: conf.Bridges, IPv6: h.cap.ipv6}
	return h, nil
}

// Ready describes the range that serves.
func (h *Host) Ready() Ready { return h.ready }

// Wait returns when the service has ended: nil when its context was done.
func (h *Host) Wait() error {
	err := h.group.Wait()
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// listen opens every socket and starts its reader. Nothing arrives before the
// capture is installed.
func (h *Host) listen(ctx context.Context) error {
	bridges, err := findBridges(h.conf.Bridges)
	if err != nil {
		return err
	}
	h.cap = &capture{bridges: bridges, ipv6: ipv6Enabled(), state: h.conf.PIDFile + NoteSuffix}
	var own []netip.Prefix
	for _, b := range bridges {
		own = append(own, b.own...)
	}
	for _, b := range bridges {
		p, err := openPackets(b, own)
		if err != nil {
			return err
		}
		h.closers = append(h.closers, p)
		h.packets = append(h.packets, p)
		h.group.Go(func() error { return p.serve(h.log) })
	}
	families := []bool{false}
	if h.cap.ipv6 {
		families = append(families, true)
	}
	for _, v6 := range families {
		tcp, err := listenTCP(ctx, v6)
		if err != nil {
			return err
		}
		h.closers = append(h.closers, tcp)
		h.group.Go(func() error { return h.serveTCP(ctx, tcp) })
		udp, err := listenUDP(ctx, v6)
		if err != nil {
			return err
		}
		h.closers = append(h.closers, udp)
		h.udp = append(h.udp, udp)
		h.group.Go(func() error { return h.serveUDP(udp) })
		tp, up := addrPort(tcp.Addr()).Port(), addrPort(udp.LocalAddr()).Port()
		if v6 {
			h.cap.ports.tcp6, h.cap.ports.udp6 = tp, up
		} else {
			h.cap.ports.tcp4, h.cap.ports.udp4 = tp, up
		}
	}
	return nil
}

// listenAPI opens the unix socket. The lock is held, so that a socket which
// is there already is a dead run's.
func (h *Host) listenAPI(ctx context.Context, caPEM []byte) error {
	if err := os.Remove(h.conf.Socket); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing an old socket: %w", err)
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "unix", h.conf.Socket)
	if err != nil {
		return fmt.Errorf("opening the range's socket: %w", err)
	}
	if err := os.Chmod(h.conf.Socket, 0o600); err != nil {
		return errors.Join(fmt.Errorf("opening the range's socket: %w", err), l.Close())
	}
	h.api = newAPI(h.log, caPEM, h.health)
	h.group.Go(func() error {
		if err := h.api.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serving the range's socket: %w", err)
		}
		return nil
	})
	return nil
}

func (h *Host) serveTCP(ctx context.Context, l *net.TCPListener) error {
	for {
		c, err := l.AcceptTCP()
		switch {
		case errors.Is(err, net.ErrClosed):
			return nil
		case errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE):
			h.log.lose(1)
			h.conns.evictOldest()
			continue
		case err != nil && ctx.Err() == nil && temporary(err):
			h.log.lose(1)
			continue
		case err != nil:
			return fmt.Errorf("accepting connections: %w", err)
		}
		src, dst := addrPort(c.RemoteAddr()), addrPort(c.LocalAddr())
		done := h.conns.add(c)
		h.group.Go(func() error {
			defer done()
			h.svc.serveTCP(ctx, c, src, dst)
			return nil
		})
	}
}

// temporary errors of accept concern one connection, or pass.
func temporary(err error) bool {
	for _, e := range []error{unix.ECONNABORTED, unix.EINTR, unix.EPROTO, unix.ENETDOWN, unix.EHOSTUNREACH, unix.ENETUNREACH} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

func (h *Host) serveUDP(u *datagrams) error {
	buf, oob := make([]byte, 64<<10), make([]byte, 512)
	for {
		n, on, _, src, err := u.ReadMsgUDPAddrPort(buf, oob)
		switch {
		case errors.Is(err, net.ErrClosed):
			return nil
		case err != nil:
			return fmt.Errorf("reading datagrams: %w", err)
		}
		dst, err := ancillary(oob[:on])
		if err != nil {
			h.log.lose(1)
			continue
		}
		src = netip.AddrPortFrom(src.Addr().Unmap(), src.Port())
		if answer := h.svc.answerUDP(buf[:n], src, dst); answer != nil {
			// A source without a way back gets no answer, as anywhere.
			_ = sendFrom(unix.SOCK_DGRAM, 0, dst, src, answer)
		}
	}
}

// watch ends the service as soon as the namespace is no longer sealed: then
// neither the attacks nor the witness are safe.
func (h *Host) watch(ctx context.Context) error {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			h.close()
			return nil
		case <-tick.C:
		}
		if err := h.check(); errors.Is(err, ErrUnsealed) {
			h.log.append(rangeclient.Event{Service: "range", Name: "unsealed", Path: err.Error()})
			h.close()
			return err
		}
	}
}

// check looks at the seal and the capture, and counts the kernel's drops.
func (h *Host) check() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	// Whatever else an answer may leave as it was: who asks wants to know whether
	// anything was lost until now.
	for _, p := range h.packets {
		h.log.lose(p.dropped())
	}
	for _, u := range h.udp {
		if n, err := u.dropped(); err == nil { // a socket that is closed has told before
			h.log.lose(n)
		}
	}
	if time.Since(h.checked) < healthFresh {
		return h.problem
	}
	h.problem = CheckSealed(h.conf.NetNS)
	if h.problem == nil {
		h.problem = h.cap.check()
	}
	h.checked = time.Now()
	return h.problem
}

func (h *Host) health() rangeclient.Health {
	out := rangeclient.Health{
		OK: true, PID: os.Getpid(), Started: h.started.UTC(), IPv6: h.cap.ipv6,
		GoProxyHost: h.conf.GoProxyHost,
	}
	if err := h.check(); err != nil {
		out.OK, out.Problem = false, err.Error()
	}
	h.log.state(&out)
	return out
}

// close ends all readers; the API last, so that a suite can still ask.
func (h *Host) close() {
	for _, c := range h.closers {
		_ = c.Close() // closed twice when both watch and Stop get here
	}
	h.conns.closeAll()
	if h.api != nil {
		ctx, cancel := context.WithTimeout(context.Background(), stopTime)
		defer cancel()
		_ = h.api.Shutdown(ctx) // what is still open after that is cut by the exit
	}
}

// Stop ends the service and takes rules, routes, sysctls and files away,
// except the log. It may be called more than once.
func (h *Host) Stop() error {
	h.stop.Do(func() {
		h.cancel()
		h.close()
		_ = h.group.Wait() // Wait reports it
		var errs []error
		if h.cap != nil {
			errs = append(errs, h.cap.remove())
		}
		if h.log != nil {
			h.log.append(rangeclient.Event{Service: "range", Name: "stopped"})
			errs = append(errs, h.log.close())
		}
		if h.lock != nil {
			for _, f := range []string{h.conf.Socket, h.conf.PIDFile} {
				if err := os.Remove(f); err != nil && !errors.Is(err, fs.ErrNotExist) {
					errs = append(errs, err)
				}
			}
			errs = append(errs, h.lock.Close())
		}
		if err := errors.Join(errs...); err != nil {
			h.stopErr = fmt.Errorf("stopping the range: %w", err)
		}
	})
	return h.stopErr
}

// pidNote is the pid file's content. The start time tells a process from a
// later one with the same number.
type pidNote struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"` // in clock ticks since boot, /proc/PID/stat
}

// lockPID takes the pid file. The kernel drops the lock with the process,
// however it ends, so that a stale file stops nobody.
func lockPID(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the pid file: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		var note pidNote
		b, _ := io.ReadAll(io.LimitReader(f, 4096))
		_ = json.Unmarshal(b, &note)
		return nil, errors.Join(fmt.Errorf("locking the pid file %s: another range runs, as process %d (`stockade down` stops it): %w", path, note.PID, err), f.Close())
	}
	stat, err := procstat.Read(os.Getpid())
	if err == nil {
		var b []byte
		if b, err = json.Marshal(pidNote{PID: os.Getpid(), Start: stat.Start}); err == nil {
			err = f.Truncate(0)
			if err == nil {
				_, err = f.WriteAt(append(b, '\n'), 0)
			}
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("writing the pid file: %w", err), f.Close())
	}
	return f, nil
}

func addrPort(a net.Addr) netip.AddrPort {
	var ap netip.AddrPort
	switch a := a.(type) {
	case *net.TCPAddr:
		ap = a.AddrPort()
	case *net.UDPAddr:
		ap = a.AddrPort()
	}
	return netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port())
}
