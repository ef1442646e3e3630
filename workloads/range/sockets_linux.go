// SPDX-License-Identifier: Apache-2.0

package rangehost

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// transparent lets a socket own addresses that the namespace does not have.
func transparent(fd int, v6 bool) error {
	if v6 {
		return unix.SetsockoptInt(fd, unix.SOL_IPV6, unix.IPV6_TRANSPARENT, 1)
	}
	return unix.SetsockoptInt(fd, unix.SOL_IP, unix.IP_TRANSPARENT, 1)
}

func loopback(v6 bool) (network, addr string) {
	if v6 {
		return "6", "[::1]:0"
	}
	return "4", "127.0.0.1:0"
}

// listenTCP opens the socket to which TPROXY leads. Its accepted connections
// carry the destination that was meant as their local address.
func listenTCP(ctx context.Context, v6 bool) (*net.TCPListener, error) {
	lc := net.ListenConfig{
		KeepAlive: -1,
		Control: func(_, _ string, c syscall.RawConn) error {
			return control(c, func(fd int) error { return transparent(fd, v6) })
		},
	}
	network, addr := loopback(v6)
	l, err := lc.Listen(ctx, "tcp"+network, addr)
	if err != nil {
		return nil, fmt.Errorf("listening for TCP: %w (IP_TRANSPARENT needs CAP_NET_ADMIN: run as root)", err)
	}
	tl, ok := l.(*net.TCPListener)
	if !ok {
		return nil, errors.Join(fmt.Errorf("listening for TCP: got a %T", l), l.Close())
	}
	return tl, nil
}

// udpBuffer is what the kernel may queue, in bytes, while we write to disk.
const udpBuffer = 8 << 20

// datagrams is a socket for them that knows how many the kernel had to drop.
type datagrams struct {
	*net.UDPConn
	raw   syscall.RawConn
	known uint32 // drops that were told
}

// dropped returns how many datagrams the kernel dropped since the last call. It is
// the socket's own count: what the kernel notes beside a datagram says nothing of
// those that were dropped after it. It may not be called concurrently.
func (d *datagrams) dropped() (uint64, error) {
	var now uint32
	if err := control(d.raw, func(fd int) (err error) { now, err = drops(fd); return err }); err != nil {
		return 0, fmt.Errorf("counting dropped datagrams: %w", err)
	}
	n := now - d.known // modulo 2^32, as the kernel counts
	d.known = now
	return uint64(n), nil
}

// drops reads the last of the numbers that the kernel has of a socket's memory.
func drops(fd int) (uint32, error) {
	var numbers [9]uint32 // SK_MEMINFO_VARS
	size := uint32(unsafe.Sizeof(numbers))
	_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(fd), unix.SOL_SOCKET, unix.SO_MEMINFO,
		uintptr(unsafe.Pointer(&numbers)), uintptr(unsafe.Pointer(&size)), 0) //nolint:gosec // the kernel writes no more than size says
	switch {
	case errno != 0:
		return 0, os.NewSyscallError("getsockopt", errno)
	case size != uint32(unsafe.Sizeof(numbers)):
		return 0, errors.New("the kernel has too few numbers")
	}
	return numbers[8], nil // SK_MEMINFO_DROPS
}

// listenUDP opens the socket to which TPROXY leads for datagrams; the kernel
// tells each one's destination.
func listenUDP(ctx context.Context, v6 bool) (*datagrams, error) {
	lc := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		return control(c, func(fd int) error {
			orig, level := unix.IP_RECVORIGDSTADDR, unix.SOL_IP
			if v6 {
				orig, level = unix.IPV6_RECVORIGDSTADDR, unix.SOL_IPV6
			}
			return errors.Join(
				transparent(fd, v6),
				unix.SetsockoptInt(fd, level, orig, 1),
				unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, udpBuffer),
			)
		})
	}}
	network, addr := loopback(v6)
	p, err := lc.ListenPacket(ctx, "udp"+network, addr)
	if err != nil {
		return nil, fmt.Errorf("listening for UDP: %w (IP_TRANSPARENT needs CAP_NET_ADMIN: run as root)", err)
	}
	u, ok := p.(*net.UDPConn)
	if !ok {
		return nil, errors.Join(fmt.Errorf("listening for UDP: got a %T", p), p.Close())
	}
	d, err := countDrops(u)
	if err != nil {
		return nil, errors.Join(err, u.Close())
	}
	return d, nil
}

// countDrops fails where they cannot be counted: nobody would know that one was.
func countDrops(u *net.UDPConn) (*datagrams, error) {
	raw, err := u.SyscallConn()
	if err != nil {
		return nil, fmt.Errorf("counting dropped datagrams: %w", err)
	}
	d := &datagrams{UDPConn: u, raw: raw}
	_, err = d.dropped()
	return d, err
}

func control(c syscall.RawConn, f func(fd int) error) error {
	var ferr error
	if err := c.Control(func(fd uintptr) { ferr = f(int(fd)) }); err != nil {
		return err
	}
	return ferr
}

// ancillary reads what the kernel says about one datagram: where it was meant
// to go.
func ancillary(oob []byte) (dst netip.AddrPort, err error) {
	msgs, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return dst, fmt.Errorf("reading a datagram's destination: %w", err)
	}
	for i := range msgs {
		m := &msgs[i]
		switch {
		case m.Header.Level == unix.SOL_IP && m.Header.Type == unix.IP_ORIGDSTADDR && len(m.Data) >= 8:
			// struct sockaddr_in: family, port, address
			dst = netip.AddrPortFrom(netip.AddrFrom4([4]byte(m.Data[4:8])), binary.BigEndian.Uint16(m.Data[2:4]))
		case m.Header.Level == unix.SOL_IPV6 && m.Header.Type == unix.IPV6_ORIGDSTADDR && len(m.Data) >= 24:
			// struct sockaddr_in6: family, port, flow, address, scope
			dst = netip.AddrPortFrom(netip.AddrFrom16([16]byte(m.Data[8:24])), binary.BigEndian.Uint16(m.Data[2:4]))
		}
	}
	if !dst.IsValid() {
		return dst, errors.New("reading a datagram's destination: the kernel did not tell")
	}
	return dst, nil
}

// sendFrom sends one packet with a source address that is not ours. The
// socket is not connected, so that TPROXY does not lead later packets to it.
func sendFrom(kind, proto int, from, to netip.AddrPort, p []byte) error {
	family := unix.AF_INET
	if from.Addr().Is6() {
		family = unix.AF_INET6
	}
	fd, err := unix.Socket(family, kind|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, proto)
	if err != nil {
		return os.NewSyscallError("socket", err)
	}
	defer unix.Close(fd) //nolint:errcheck // nothing is pending
	if err := errors.Join(
		transparent(fd, family == unix.AF_INET6),
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1),
	); err != nil {
		return os.NewSyscallError("setsockopt", err)
	}
	if err := unix.Bind(fd, sockaddr(from)); err != nil {
		return os.NewSyscallError("bind", err)
	}
	return os.NewSyscallError("sendto", unix.Sendto(fd, p, unix.MSG_DONTWAIT, sockaddr(to)))
}

func sockaddr(a netip.AddrPort) unix.Sockaddr {
	if a.Addr().Is6() {
		return &unix.SockaddrInet6{Port: int(a.Port()), Addr: a.Addr().As16()}
	}
	return &unix.SockaddrInet4{Port: int(a.Port()), Addr: a.Addr().As4()}
}
