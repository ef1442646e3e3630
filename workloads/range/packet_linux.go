// SPDX-License-Identifier: Apache-2.0

package rangehost

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"sync/atomic"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// packetBuffer is what the kernel may queue for one packet socket, in bytes.
const packetBuffer = 8 << 20

// packetSocket sees what arrives at a bridge for the bridge itself, which
// includes all that it would route.
type packetSocket struct {
	file   *os.File
	own    []netip.Prefix
	closed atomic.Bool
}

// Close ends serve. The runtime's error for a read on a closed file is not
// exported, so that the socket remembers it itself.
func (s *packetSocket) Close() error {
	s.closed.Store(true)
	return s.file.Close()
}

// packetFilter keeps out, in the kernel, what the transparent sockets see:
// UDP, and of TCP all but the first packet.
func packetFilter() ([]unix.SockFilter, error) {
	const keep, skip = 0xffff, 0
	prog := []bpf.Instruction{
		/* 0*/ bpf.LoadExtension{Num: bpf.ExtType},
		/* 1*/ bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: unix.PACKET_HOST, SkipTrue: 18}, // skip
		/* 2*/ bpf.LoadExtension{Num: bpf.ExtProto},
		/* 3*/ bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.ETH_P_IPV6, SkipTrue: 8}, // 12
		/* 4*/ bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: unix.ETH_P_IP, SkipTrue: 15}, // skip
		/* 5*/ bpf.LoadAbsolute{Off: 6, Size: 2},
		/* 6*/ bpf.JumpIf{Cond: bpf.JumpBitsSet, Val: 0x1fff, SkipTrue: 12}, // a later fragment: keep
		/* 7*/ bpf.LoadAbsolute{Off: 9, Size: 1},
		/* 8*/ bpf.JumpIf{Cond: bpf.JumpEqual, Val: protoUDP, SkipTrue: 11}, // skip
		/* 9*/ bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: protoTCP, SkipTrue: 9}, // keep
		/*10*/ bpf.LoadMemShift{Off: 0},
		/*11*/ bpf.Jump{Skip: 4}, // 16
		/*12*/ bpf.LoadAbsolute{Off: 6, Size: 1},
		/*13*/ bpf.JumpIf{Cond: bpf.JumpEqual, Val: protoUDP, SkipTrue: 6}, // skip
		/*14*/ bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: protoTCP, SkipTrue: 4}, // keep
		/*15*/ bpf.LoadConstant{Dst: bpf.RegX, Val: 40},
		/*16*/ bpf.LoadIndirect{Off: 13, Size: 1},
		/*17*/ bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: tcpSYN | tcpACK},
		/*18*/ bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: tcpSYN, SkipTrue: 1}, // skip
		/*19*/ bpf.RetConstant{Val: keep},
		/*20*/ bpf.RetConstant{Val: skip},
	}
	raw, err := bpf.Assemble(prog)
	if err != nil {
		return nil, fmt.Errorf("assembling the packet filter: %w", err)
	}
	out := make([]unix.SockFilter, len(raw))
	for i, r := range raw {
		out[i] = unix.SockFilter{Code: r.Op, Jt: r.Jt, Jf: r.Jf, K: r.K}
	}
	return out, nil
}

func openPackets(b bridge, own []netip.Prefix) (*packetSocket, error) {
	filter, err := packetFilter()
	if err != nil {
		return nil, err
	}
	// Protocol 0: nothing is received before the filter is attached.
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("opening a packet socket: %w (the range needs CAP_NET_RAW: run as root)", err)
	}
	prog := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]} //nolint:gosec // 21 instructions
	const all = unix.ETH_P_ALL<<8 | unix.ETH_P_ALL>>8                    // in network order
	err = errors.Join(
		unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &prog),
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, packetBuffer),
		unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: all & 0xffff, Ifindex: b.index}),
	)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("preparing the packet socket of %s: %w", b.name, err), unix.Close(fd))
	}
	return &packetSocket{file: os.NewFile(uintptr(fd), "packets of "+b.name), own: own}, nil
}

// serve writes down packets until the socket is closed.
func (s *packetSocket) serve(l *eventLog) error {
	conn, err := s.file.SyscallConn()
	if err != nil {
		return fmt.Errorf("reading packets: %w", err)
	}
	buf := make([]byte, 64<<10)
	for {
		n := 0
		var rerr error
		err := conn.Read(func(fd uintptr) bool {
			n, _, rerr = unix.Recvfrom(int(fd), buf, unix.MSG_DONTWAIT)
			return !errors.Is(rerr, unix.EAGAIN)
		})
		switch {
		case s.closed.Load():
			return nil
		case err != nil:
			return fmt.Errorf("reading packets: %w", err)
		case errors.Is(rerr, unix.EINTR):
			continue
		case rerr != nil: // ENETDOWN, when the bridge goes
			return fmt.Errorf("reading packets: %w (was the node network removed?)", rerr)
		}
		s.handle(buf[:n], l)
	}
}

func (s *packetSocket) handle(b []byte, l *eventLog) {
	p, err := parsePacket(b)
	if err != nil {
		l.lose(1)
		return
	}
	if p.dst.IsMulticast() || p.dst.IsLinkLocalUnicast() && p.dst.Is6() {
		return
	}
	for _, own := range s.own {
		if own.Contains(p.dst) {
			return // node to engine, no egress
		}
	}
	e, ok := p.event()
	if !ok {
		return
	}
	e.Nonces, e.Canaries = l.find(p.payload)
	l.append(e)
	if reply := p.echoReply(); reply != nil {
		// A source without a way back gets no answer, as anywhere.
		_ = sendFrom(unix.SOCK_RAW, unix.IPPROTO_ICMP, netip.AddrPortFrom(p.dst, 0), netip.AddrPortFrom(p.src, 0), reply)
	}
}

// dropped returns how many packets the kernel dropped since the last call.
func (s *packetSocket) dropped() uint64 {
	conn, err := s.file.SyscallConn()
	if err != nil {
		return 0
	}
	var n uint64
	_ = conn.Control(func(fd uintptr) {
		if st, err := unix.GetsockoptTpacketStats(int(fd), unix.SOL_PACKET, unix.PACKET_STATISTICS); err == nil {
			n = uint64(st.Drops)
		}
	})
	return n
}
