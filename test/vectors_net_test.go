package test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"sandboxd/test/require"
)

// netVectors are ways to the network.
func netVectors() []vector {
	tcp4, tcp6 := ear("tcp4", "127.0.0.1:0"), ear("tcp6", "[::1]:0")
	udp4, udp6 := ear("udp4", "127.0.0.1:0"), ear("udp6", "[::1]:0")
	to := func(network string) func(places) error {
		return func(p places) error { return sendTo(network, p.Extra["address"]) }
	}
	list := []vector{
		{name: "net tcp over ipv4", setup: tcp4, attack: to("tcp4")},
		{name: "net tcp over ipv6", setup: tcp6, attack: to("tcp6")},
		{name: "net tcp over mapped address", setup: tcp4, attack: func(p places) error {
			mapped := &unix.SockaddrInet6{Port: p.port(), Addr: [16]byte{10: 0xff, 0xff, 127, 0, 0, 1}}
			return connectRaw(unix.AF_INET6, unix.SOCK_STREAM, 0, mapped)
		}},
		{name: "net multipath tcp", setup: tcp4, attack: func(p places) error {
			return connectRaw(unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_MPTCP, p.loopback4())
		}},
		{name: "net tcp fast open by sendto", setup: tcp4, attack: fastOpen},
		{name: "net bind tcp", setup: callBack, reached: answered, attack: func(p places) error {
			return serve(p, unix.AF_INET, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}})
		}},
		{name: "net bind tcp ipv6", setup: callBack, reached: answered, attack: func(p places) error {
			return serve(p, unix.AF_INET6, &unix.SockaddrInet6{Addr: [16]byte{15: 1}})
		}},
		{name: "net listen without bind", setup: callBack, reached: answered, attack: func(p places) error {
			return serve(p, unix.AF_INET, nil)
		}},
		{name: "net udp connected ipv4", setup: udp4, attack: to("udp4")},
		{name: "net udp connected ipv6", setup: udp6, attack: to("udp6")},
		{name: "net udp unconnected ipv4", setup: udp4, attack: func(p places) error {
			return sendRaw(unix.AF_INET, []byte("hello"), p.loopback4())
		}},
		{name: "net udp unconnected ipv6", setup: udp6, attack: func(p places) error {
			return sendRaw(unix.AF_INET6, []byte("hello"), &unix.SockaddrInet6{Port: p.port(), Addr: [16]byte{15: 1}})
		}},
		{name: "net name query", setup: udp4, attack: nameQuery},
		{name: "net raw socket", setup: udp4, rootOnly: true, attack: rawPacket},
		{name: "net packet socket", setup: sniffer, rootOnly: true, attack: framePacket, reached: wrote},
		{name: "net io_uring connect", setup: tcp4, attack: ringConnect},
		{name: "net namespace of another process", setup: otherNetNS, rootOnly: true, attack: enterNetNS, reached: wrote},
		{name: "net inherited connected socket", setup: func(*scene) {}, inherit: connectedSocket, reached: wrote, attack: func(places) error {
			_, err := unix.Write(3, []byte("hello"))
			return err
		}},
		{name: "net vm socket", attack: vmSocket, reached: printed("socket was made")},
	}
	for i := range list {
		if list[i].reached == nil {
			list[i].reached = heard
		}
		list[i].setup = withTier(list[i].setup)
		list[i].honest = loopbackWorks
	}
	return list
}

// withTier tells the players where they are.
func withTier(setup func(*scene)) func(*scene) {
	return func(s *scene) {
		s.Extra["tier"] = s.Tier
		if setup != nil {
			setup(s)
		}
	}
}

// printed reports whether the attack printed what only success tells.
func printed(what string) func(*scene, result) bool {
	return func(_ *scene, r result) bool { return strings.Contains(r.Stdout, what) }
}

func (p places) port() int {
	n, _ := strconv.Atoi(p.Extra["port"]) // set by listen
	return n
}

func (p places) loopback4() *unix.SockaddrInet4 {
	return &unix.SockaddrInet4{Port: p.port(), Addr: [4]byte{127, 0, 0, 1}}
}

// loopbackWorks: a server and its client inside one run. The base tier has no IP
// sockets; there a pair of sockets has to do.
func loopbackWorks(p places) error {
	if p.Extra["tier"] == "base" {
		pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		if _, err := unix.Write(pair[0], []byte("x")); err != nil {
			return err
		}
		_, err = unix.Read(pair[1], make([]byte, 1))
		return err
	}
	for _, at := range []string{"127.0.0.1:0", "[::1]:0"} {
		l, err := net.Listen("tcp", at)
		if err != nil {
			return err
		}
		got := make(chan error, 1)
		go func() {
			c, err := l.Accept()
			if err == nil {
				_, err = io.ReadFull(c, make([]byte, 5))
			}
			got <- err
		}()
		if err := errors.Join(sendTo("tcp", l.Addr().String()), <-got); err != nil {
			return err
		}
	}
	return nil
}

func sendTo(network, address string) error {
	c, err := net.Dial(network, address)
	if err != nil {
		return err
	}
	_, err = io.WriteString(c, "hello")
	return errors.Join(err, c.Close())
}

func connectRaw(family, kind, protocol int, to unix.Sockaddr) error {
	fd, err := unix.Socket(family, kind, protocol)
	if err != nil {
		return fmt.Errorf("socket: %w", err)
	}
	if err := unix.Connect(fd, to); err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	_, err = unix.Write(fd, []byte("hello"))
	return errors.Join(err, unix.Close(fd))
}

func sendRaw(family int, text []byte, to unix.Sockaddr) error {
	fd, err := unix.Socket(family, unix.SOCK_DGRAM, 0)
	if err != nil {
		return fmt.Errorf("socket: %w", err)
	}
	return unix.Sendto(fd, text, 0, to)
}

// fastOpen connects by sending. The socket waits until the peer has it all.
func fastOpen(p places) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	if err != nil {
		return fmt.Errorf("socket: %w", err)
	}
	return errors.Join(unix.Sendto(fd, []byte("hello"), unix.MSG_FASTOPEN, p.loopback4()), unix.Close(fd))
}

// serve listens at an address, or at none, and waits for a caller.
func serve(p places, family int, at unix.Sockaddr) error {
	fd, err := unix.Socket(family, unix.SOCK_STREAM, 0)
	if err != nil {
		return fmt.Errorf("socket: %w", err)
	}
	if at != nil {
		if err := unix.Bind(fd, at); err != nil {
			return fmt.Errorf("bind: %w", err)
		}
	}
	if err := unix.Listen(fd, 4); err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	return awaitCall(p, fd, map[int]string{unix.AF_INET: "tcp4", unix.AF_INET6: "tcp6"}[family])
}

// nameQuery carries something out in the shape of a query for a name.
func nameQuery(p places) error {
	r := net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp4", p.Extra["address"])
	}}
	ctx, cancel := context.WithTimeout(context.Background(), 300*1e6)
	defer cancel()
	_, err := r.LookupHost(ctx, "carried-out.example.test.") // the ear does not answer
	return err
}

// udpPacket is an IPv4 packet to the ear.
func udpPacket(p places) []byte {
	text := "raw"
	b := make([]byte, 28, 28+len(text))
	b[0], b[8], b[9] = 0x45, 64, unix.IPPROTO_UDP
	binary.BigEndian.PutUint16(b[2:], uint16(28+len(text)))
	copy(b[12:], []byte{127, 0, 0, 1, 127, 0, 0, 1})
	sum := uint32(0)
	for i := 0; i < 20; i += 2 {
		sum += uint32(binary.BigEndian.Uint16(b[i:]))
	}
	binary.BigEndian.PutUint16(b[10:], ^uint16(sum+sum>>16))
	binary.BigEndian.PutUint16(b[20:], 9)
	binary.BigEndian.PutUint16(b[22:], uint16(p.port()))
	binary.BigEndian.PutUint16(b[24:], uint16(8+len(text)))
	return append(b, text...) // no checksum: allowed over IPv4
}

func rawPacket(p places) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_RAW)
	if err != nil {
		return err
	}
	return unix.Sendto(fd, udpPacket(p), 0, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}})
}

func framePacket(p places) error {
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM, 0)
	if err != nil {
		return err
	}
	lo, err := net.InterfaceByName("lo")
	if err != nil {
		return err
	}
	to := &unix.SockaddrLinklayer{Ifindex: lo.Index, Protocol: unix.ETH_P_IP>>8 | unix.ETH_P_IP&0xff<<8, Halen: 6}
	return unix.Sendto(fd, []byte(p.Extra["word"]), 0, to)
}

// ringConnect makes and connects a socket by ring operations alone.
func ringConnect(p places) error {
	const ringSocket, ringConnect, ringSend = 45, 16, 26
	r, err := newRing()
	if err != nil {
		return err
	}
	fd, err := r.do(ringEntry{Op: ringSocket, FD: unix.AF_INET, Off: unix.SOCK_STREAM})
	if err != nil {
		return fmt.Errorf("socket: %w", err)
	}
	at := unix.RawSockaddrInet4{Family: unix.AF_INET, Addr: [4]byte{127, 0, 0, 1}}
	binary.BigEndian.PutUint16((*[2]byte)(unsafe.Pointer(&at.Port))[:], uint16(p.port()))
	if _, err := r.do(ringEntry{Op: ringConnect, FD: fd, Addr: uint64(uintptr(unsafe.Pointer(&at))), Off: uint64(unsafe.Sizeof(at))}); err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	text := []byte("hello")
	_, err = r.do(ringEntry{Op: ringSend, FD: fd, Addr: uint64(uintptr(unsafe.Pointer(&text[0]))), Len: uint32(len(text))})
	return err
}

// otherNetNS puts an ear into a network namespace of its own: a thread enters
// one, listens and stays, so that there is a process to enter it through.
func otherNetNS(s *scene) {
	require.Root(s, "to make a network namespace")
	type made struct {
		fd  int
		err error
	}
	ready, end := make(chan made), make(chan struct{})
	s.Cleanup(func() { close(end) })
	go func() {
		l, err := listenInOwnNetNS(s)
		ready <- made{l, err}
		<-end // the locked thread ends with its goroutine
	}()
	m := <-ready
	s.must(m.err)
	s.Extra["netns"] = fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), m.fd)
	s.Cleanup(func() { unix.Close(m.fd) })
}

func enterNetNS(p places) error {
	fd, err := unix.Open(p.Extra["netns"], unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	return inNetNS(fd, func() error { return connectRaw(unix.AF_INET, unix.SOCK_STREAM, 0, p.loopback4()) })
}

// connectedSocket is a connection that the caller of sbx holds open.
func connectedSocket(s *scene) []*os.File {
	s.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	s.must(err)
	defer l.Close()
	c, err := net.Dial("tcp4", l.Addr().String())
	s.must(err)
	defer c.Close()
	peer, err := l.Accept()
	s.must(err)
	s.Cleanup(func() { peer.Close() })
	go func() {
		text := make([]byte, 16)
		if n, err := peer.Read(text); err == nil {
			s.note(string(text[:n]))
		}
	}()
	f, err := c.(*net.TCPConn).File()
	s.must(err)
	s.Cleanup(func() { f.Close() })
	return []*os.File{f}
}

// vmSocket reaches the hypervisor where there is one; nobody here listens there,
// so the socket itself is the effect.
func vmSocket(places) error {
	fd, err := unix.Socket(unix.AF_VSOCK, unix.SOCK_STREAM, 0)
	if err != nil {
		return err
	}
	fmt.Println("socket was made:", fd)
	err = unix.Connect(fd, &unix.SockaddrVM{CID: unix.VMADDR_CID_LOCAL, Port: 1})
	if errors.Is(err, syscall.ENODEV) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.ENETUNREACH) {
		return nil
	}
	return err
}
