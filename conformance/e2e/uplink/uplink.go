// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package uplink watches the machine's own network interfaces while a run is
// going on inside the seal, to show that nothing of it leaves the machine.
//
// It only listens: an AF_PACKET socket that sends nothing.
package uplink

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Packet is what is kept of one captured packet.
type Packet struct {
	Interface int // index
	Src, Dst  netip.Addr
	Payload   []byte // from the network header on, at most snapLen bytes
}

// snapLen bounds what is kept of a packet, in bytes. Nonces are put near the
// beginning of whatever is sent.
const snapLen = 2048

// Capture is an open tap on every interface of the network namespace in which
// Open was called.
type Capture struct{ fd int }

// Open opens the tap in the calling thread's network namespace. It needs
// CAP_NET_RAW.
func Open() (*Capture, error) {
	proto := htons(unix.ETH_P_ALL)
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, int(proto))
	if err != nil {
		return nil, fmt.Errorf("opening a packet socket (root is needed): %w", err)
	}
	// A short receive timeout lets Read look at its context.
	tv := unix.Timeval{Usec: 100_000}
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &tv); err != nil {
		return nil, errors.Join(fmt.Errorf("setting the receive timeout: %w", err), unix.Close(fd))
	}
	// A buffer of 8 MiB: a full one would drop just the packet that matters,
	// so Dropped is asked for at the end as well.
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 8<<20)
	return &Capture{fd: fd}, nil
}

// Close closes the tap.
func (c *Capture) Close() error { return unix.Close(c.fd) }

// Dropped tells how many packets the kernel could not deliver to the tap
// since the last call. Anything but zero makes the capture worthless.
func (c *Capture) Dropped() (uint32, error) {
	st, err := unix.GetsockoptTpacketStats(c.fd, unix.SOL_PACKET, unix.PACKET_STATISTICS)
	if err != nil {
		return 0, fmt.Errorf("reading the capture's statistics: %w", err)
	}
	return st.Drops, nil
}

// Read hands every packet to f until ctx is done. Loopback is left out: what
// stays on it does not leave the machine.
func (c *Capture) Read(ctx context.Context, f func(Packet)) error {
	buf := make([]byte, snapLen)
	for ctx.Err() == nil {
		n, from, err := unix.Recvfrom(c.fd, buf, 0)
		switch {
		case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return os.NewSyscallError("recvfrom", err)
		}
		ll, ok := from.(*unix.SockaddrLinklayer)
		if !ok || ll.Hatype == unix.ARPHRD_LOOPBACK {
			continue
		}
		p := Packet{Interface: ll.Ifindex, Payload: bytes.Clone(buf[:n])}
		p.Src, p.Dst = addresses(p.Payload)
		f(p)
	}
	return nil
}

// addresses reads the source and destination of an IPv4 or IPv6 header; the
// zero Addr stands for "no IP packet" (ARP, a truncated one).
func addresses(b []byte) (src, dst netip.Addr) {
	if len(b) < 1 {
		return
	}
	switch b[0] >> 4 {
	case 4:
		if len(b) >= 20 {
			src, _ = netip.AddrFromSlice(b[12:16])
			dst, _ = netip.AddrFromSlice(b[16:20])
		}
	case 6:
		if len(b) >= 40 {
			src, _ = netip.AddrFromSlice(b[8:24])
			dst, _ = netip.AddrFromSlice(b[24:40])
		}
	}
	return src, dst
}

// Rules say which packets belong to a run.
type Rules struct {
	// Prefixes are the networks of the cluster and the addresses of the range
	// that attacks aim at.
	Prefixes []netip.Prefix
	// Marks are byte strings that only the range's traffic carries: nonces,
	// its marker, its DNS zone.
	Marks [][]byte
}

// Match tells why a packet belongs to a run, or "".
func (r Rules) Match(p Packet) string {
	for _, a := range []netip.Addr{p.Src, p.Dst} {
		for _, x := range r.Prefixes {
			if a.IsValid() && x.Contains(a.Unmap()) {
				return fmt.Sprintf("%s → %s is in %s", p.Src, p.Dst, x)
			}
		}
	}
	for _, m := range r.Marks {
		if len(m) > 0 && bytes.Contains(p.Payload, m) {
			return fmt.Sprintf("%s → %s carries %q", p.Src, p.Dst, m)
		}
	}
	return ""
}

// Watch captures until ctx is done and returns what matched, at most limit
// descriptions, with the number of packets seen in all.
func Watch(ctx context.Context, c *Capture, r Rules, limit int) (hits []string, seen int, err error) {
	err = c.Read(ctx, func(p Packet) {
		seen++
		if why := r.Match(p); why != "" && len(hits) < limit {
			hits = append(hits, time.Now().Format(time.TimeOnly)+" "+why)
		}
	})
	return hits, seen, err
}

func htons(v uint16) uint16 {
	var b [2]byte
	binary.BigEndian.PutUint16(b[:], v)
	return binary.NativeEndian.Uint16(b[:])
}
