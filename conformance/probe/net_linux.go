// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/stockade-dev/stockade/conformance/verdict"
)

// dialMapped connects an IPv6 socket to an IPv4 address mapped into IPv6. The
// library turns such an address back into an IPv4 socket, which would not try
// what is meant: a filter that looks at the socket's family only.
func dialMapped(ctx context.Context, addr string) (net.Conn, error) {
	to, err := netip.ParseAddrPort(addr)
	if err != nil || !to.Addr().Is4() {
		return nil, fmt.Errorf("connecting to %s through an IPv6 socket: it is no IPv4 address", addr)
	}
	fd, err := unix.Socket(unix.AF_INET6, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("opening an IPv6 socket: %w", err)
	}
	f := os.NewFile(uintptr(fd), addr)
	defer f.Close() //nolint:errcheck // FileConn has a copy
	err = unix.Connect(fd, &unix.SockaddrInet6{Port: int(to.Port()), Addr: netip.AddrFrom16(to.Addr().As16()).As16()})
	if err != nil && err != unix.EINPROGRESS { //nolint:errorlint // a bare errno
		return nil, fmt.Errorf("connecting to [::ffff:%s]: %w", to.Addr(), err)
	}
	if err := await(ctx, fd); err != nil {
		return nil, fmt.Errorf("connecting to [::ffff:%s]: %w", to.Addr(), err)
	}
	c, err := net.FileConn(f)
	if err != nil {
		return nil, fmt.Errorf("using the connection to [::ffff:%s]: %w", to.Addr(), err)
	}
	return c, nil
}

// await waits until a connect has ended one way or the other.
func await(ctx context.Context, fd int) error {
	end := time.Now().Add(DialTimeout)
	for {
		if ctx.Err() != nil {
			return ErrCut
		}
		left := time.Until(end)
		if left <= 0 {
			return os.ErrDeadlineExceeded
		}
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}, int(min(left, 100*time.Millisecond).Milliseconds())+1) //nolint:gosec // a descriptor is small
		if err != nil && err != unix.EINTR {
			return err
		}
		if n == 0 || err != nil {
			continue
		}
		no, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ERROR)
		if err != nil {
			return err
		}
		if no != 0 {
			return unix.Errno(no)
		}
		return nil
	}
}

// Ping sends ICMP echo requests that carry the nonce, through a ping socket or
// a raw one. Only an echo reply with the nonce is success.
func Ping(ctx context.Context, env *Env, name, addr string, raw bool) verdict.Step {
	ip, err := netip.ParseAddr(addr)
	if err != nil || !ip.Is4() {
		return NoSite(name, "IPv4 address that answers pings")
	}
	kind := unix.SOCK_DGRAM
	if raw {
		kind = unix.SOCK_RAW
	}
	fd, err := unix.Socket(unix.AF_INET, kind|unix.SOCK_CLOEXEC, unix.IPPROTO_ICMP)
	if err != nil {
		return Denied(name, fmt.Errorf("opening an ICMP socket: %w", err))
	}
	defer unix.Close(fd) //nolint:errcheck // nothing is buffered
	if err := unix.Connect(fd, &unix.SockaddrInet4{Addr: ip.As4()}); err != nil {
		return Denied(name, err)
	}
	tv := unix.NsecToTimeval(resendEvery.Nanoseconds())
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &tv); err != nil {
		return Failed(name, verdict.Unknown, "setting a timeout: %v", err)
	}
	end, buf := time.Now().Add(DialTimeout), make([]byte, maxAnswer)
	for seq := uint16(1); time.Now().Before(end); seq++ {
		if ctx.Err() != nil {
			return Denied(name, ErrCut)
		}
		if _, err := unix.Write(fd, echo(env, seq)); err != nil {
			return Denied(name, fmt.Errorf("sending an echo request: %w", err))
		}
		// A raw socket sees every ICMP packet of the peer, so a few are read.
		for range 8 {
			n, err := unix.Read(fd, buf)
			if err == unix.EAGAIN || err == unix.EINTR {
				break
			}
			if err != nil {
				return Denied(name, err)
			}
			if isEchoReply(buf[:n], env.Nonce, raw) {
				return Reached(name, "%s answered the ping", addr)
			}
		}
	}
	return Failed(name, verdict.Dropped, "%s answered no ping within %s", addr, DialTimeout)
}

func echo(env *Env, seq uint16) []byte {
	p := binary.BigEndian.AppendUint16([]byte{8, 0, 0, 0, 'S', 'K'}, seq)
	p = append(p, Payload(env)...)
	binary.BigEndian.PutUint16(p[2:], inetSum(p))
	return p
}

// isEchoReply looks for type 0 with the nonce; a raw socket gives the IP
// header too.
func isEchoReply(b []byte, nonce string, raw bool) bool {
	if raw {
		if len(b) < 20 {
			return false
		}
		if head := int(b[0]&15) * 4; head <= len(b) {
			b = b[head:]
		}
	}
	return len(b) > 8 && b[0] == 0 && bytes.Contains(b[8:], []byte(nonce))
}

// inetSum is the internet checksum (RFC 1071).
func inetSum(b []byte) uint16 {
	var sum uint32
	for i := 0; i < len(b); i += 2 {
		sum += uint32(b[i]) << 8
		if i+1 < len(b) {
			sum += uint32(b[i+1])
		}
	}
	for sum>>16 != 0 {
		sum = sum&0xffff + sum>>16
	}
	return ^uint16(sum)
}
