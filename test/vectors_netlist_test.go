package test

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"sandboxd/test/require"
)

// netListVectors are ways to see the host's network without sending anything.
func netListVectors() []vector {
	tcp4 := ear("tcp4", "127.0.0.1:0")
	// /proc cannot be granted without what the kernel shows in it, and the ioctl
	// works on any socket, such as one of a pair.
	open := []gap{{tier: "base", part: "network state"}}
	list := []vector{
		{name: "net list routes", setup: hostAddress, attack: listRoutes, reached: leaksAddress},
		{name: "net list interfaces by ioctl", setup: hostAddress, attack: listByIoctl, reached: leaksAddress, open: open},
		{name: "net list device events", setup: deviceEvent, attack: listenDeviceEvents, reached: leaks},
		{name: "net list by socket diagnosis", setup: tcp4, attack: diagnose, reached: leaksPort},
		{name: "net list proc net tcp", setup: tcp4, reached: leaksPort, open: open,
			attack: func(places) error { return show("/proc/net/tcp") }},
		{name: "net list proc self net tcp", setup: tcp4, reached: leaksPort, open: open,
			attack: func(places) error { return show("/proc/self/net/tcp") }},
		{name: "net list proc net unix", reached: leaks, open: open,
			setup:  func(s *scene) { s.listen("unix", "@sandboxd-"+s.Token) },
			attack: func(places) error { return show("/proc/net/unix") }},
		{name: "net list sys class net", setup: hostInterface, reached: leaksInterface,
			attack: func(places) error { return listNames("/sys/class/net") }},
		{name: "net packet socket listens", setup: chatter, rootOnly: true, attack: sniff, reached: leaks},
	}
	for i := range list {
		list[i].setup, list[i].honest = withTier(list[i].setup), loopbackWorks
	}
	return list
}

// hostAddress is the address of an interface that a run has not.
func hostAddress(s *scene) {
	addresses, err := net.InterfaceAddrs()
	s.must(err)
	for _, a := range addresses {
		if ip, ok := a.(*net.IPNet); ok && !ip.IP.IsLoopback() && ip.IP.To4() != nil {
			s.Extra["host"] = ip.IP.String()
			return
		}
	}
	require.Missing(s, require.Host, "this host has loopback only")
}

func leaksAddress(s *scene, r result) bool { return strings.Contains(r.Stdout, s.Extra["host"]) }

func hostInterface(s *scene) {
	interfaces, err := net.Interfaces()
	s.must(err)
	for _, i := range interfaces {
		if i.Flags&net.FlagLoopback == 0 {
			s.Extra["interface"] = i.Name
			return
		}
	}
	require.Missing(s, require.Host, "this host has loopback only")
}

func leaksInterface(s *scene, r result) bool {
	return strings.Contains(r.Stdout, s.Extra["interface"])
}

// leaksPort looks for the ear's port, as a number and as /proc/net writes it.
func leaksPort(s *scene, r result) bool {
	return strings.Contains(r.Stdout, "port "+s.Extra["port"]) || strings.Contains(r.Stdout, fmt.Sprintf("0100007F:%04X", s.places.port()))
}

func listNames(dir string) error {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		fmt.Println(e.Name())
	}
	return err
}

func listRoutes(places) error {
	text, err := syscall.NetlinkRIB(unix.RTM_GETADDR, unix.AF_INET)
	if err != nil {
		return err
	}
	messages, err := syscall.ParseNetlinkMessage(text)
	if err != nil {
		return err
	}
	for _, m := range messages {
		attributes, err := syscall.ParseNetlinkRouteAttr(&m)
		if err != nil {
			continue // the end of the list
		}
		for _, a := range attributes {
			if a.Attr.Type == unix.IFA_LOCAL {
				fmt.Println(net.IP(a.Value))
			}
		}
	}
	return nil
}

// listByIoctl asks a local socket for the interfaces: the kernel answers on
// sockets of every family.
func listByIoctl(places) error {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	type entry struct {
		name    [16]byte
		address unix.RawSockaddrInet4
		rest    [8]byte
	}
	entries := make([]entry, 64)
	conf := struct {
		length int32
		pad    int32
		buffer uintptr
	}{int32(len(entries) * int(unsafe.Sizeof(entries[0]))), 0, uintptr(unsafe.Pointer(&entries[0]))}
	const getConf = 0x8912 // SIOCGIFCONF
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(pair[0]), getConf, uintptr(unsafe.Pointer(&conf))); errno != 0 {
		return errno
	}
	for _, e := range entries[:conf.length/int32(unsafe.Sizeof(entries[0]))] {
		fmt.Println(net.IP(e.address.Addr[:]))
	}
	return nil
}

// deviceEvent makes the kernel announce a change of a harmless device, with the
// token in it, once the attack listens.
func deviceEvent(s *scene) {
	f, err := os.OpenFile("/sys/class/mem/null/uevent", os.O_WRONLY, 0)
	if err != nil {
		require.Missing(s, require.Host, err)
	}
	stop, done := make(chan struct{}), make(chan struct{})
	s.Cleanup(func() { close(stop); <-done; f.Close() })
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			case <-time.After(20 * time.Millisecond):
				if exists(s.Work + "/listening") {
					// Letters and digits only, see Documentation/ABI/testing/sysfs-uevent.
					fmt.Fprintf(f, "change 00000000-0000-0000-0000-000000000000 T=%s", strings.TrimPrefix(s.Token, "token-"))
				}
			}
		}
	}()
}

func listenDeviceEvents(p places) error {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_DGRAM, unix.NETLINK_KOBJECT_UEVENT)
	if err != nil {
		return err
	}
	if err := unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: 1}); err != nil {
		return err
	}
	if err := os.WriteFile(p.Work+"/listening", nil, 0o644); err != nil {
		return err
	}
	for range 20 {
		if n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 500); err != nil || n == 0 {
			return errors.Join(err, errors.New("nothing heard"))
		}
		text := make([]byte, 4096)
		n, err := unix.Read(fd, text)
		if err != nil {
			return err
		}
		if _, word, ok := strings.Cut(string(text[:n]), "SYNTH_ARG_T="); ok {
			word, _, _ = strings.Cut(word, "\x00")
			fmt.Println("token-" + word)
			return nil
		}
	}
	return nil
}

// diagnose lists the TCP listeners of this network namespace, see sock_diag(7).
func diagnose(places) error {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_INET_DIAG)
	if err != nil {
		return err
	}
	const byFamily, listening = 20, 1 << 10
	request := make([]byte, unix.SizeofNlMsghdr+56)
	*(*unix.NlMsghdr)(unsafe.Pointer(&request[0])) = unix.NlMsghdr{Len: uint32(len(request)), Type: byFamily, Flags: unix.NLM_F_REQUEST | unix.NLM_F_DUMP}
	request[16], request[17] = unix.AF_INET, unix.IPPROTO_TCP
	binary.NativeEndian.PutUint32(request[20:], listening)
	if err := unix.Sendto(fd, request, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return err
	}
	for {
		text := make([]byte, 1<<16)
		n, err := unix.Read(fd, text)
		if err != nil {
			return err
		}
		messages, err := syscall.ParseNetlinkMessage(text[:n])
		if err != nil {
			return err
		}
		for _, m := range messages {
			if m.Header.Type == unix.NLMSG_DONE || m.Header.Type == unix.NLMSG_ERROR || len(m.Data) < 6 {
				return nil
			}
			fmt.Println("port", binary.BigEndian.Uint16(m.Data[4:]))
		}
	}
}

// chatter is traffic between two programs outside: the token, again and again.
func chatter(s *scene) {
	to, err := net.ListenPacket("udp4", "127.0.0.1:0")
	s.must(err)
	stop, done := make(chan struct{}), make(chan struct{})
	s.Cleanup(func() { close(stop); <-done; to.Close() })
	go func() {
		defer close(done)
		from, err := net.Dial("udp4", to.LocalAddr().String())
		if err != nil {
			return
		}
		defer from.Close()
		for {
			select {
			case <-stop:
				return
			case <-time.After(5 * time.Millisecond):
				from.Write([]byte(s.Token))
			}
		}
	}()
}

// listenToAll opens a socket that gets every packet of this network namespace.
func listenToAll() (int, error) {
	const all = unix.ETH_P_ALL>>8&0xff | unix.ETH_P_ALL&0xff<<8
	return unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, all)
}

// sniffer is an ear for packets that no program is meant to get.
func sniffer(s *scene) {
	require.Root(s, "to listen to packets")
	fd, err := listenToAll()
	s.must(err)
	s.Extra["word"] = rand.Text()
	done := make(chan struct{})
	s.Cleanup(func() { <-done; unix.Close(fd) })
	go func() {
		defer close(done)
		for s.Context().Err() == nil { // which ends before the cleanup
			if n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 50); err != nil || n == 0 {
				continue
			}
			text := make([]byte, 2048)
			if n, err := unix.Read(fd, text); err == nil && strings.Contains(string(text[:n]), s.Extra["word"]) {
				s.note("packet")
			}
		}
	}()
}

// sniff prints what passes by for a moment.
func sniff(places) error {
	fd, err := listenToAll()
	if err != nil {
		return err
	}
	for end := time.Now().Add(300 * time.Millisecond); time.Now().Before(end); {
		if n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 100); err != nil || n == 0 {
			continue
		}
		text := make([]byte, 2048)
		n, err := unix.Read(fd, text)
		if err != nil {
			return err
		}
		if i := strings.Index(string(text[:n]), "token-"); i >= 0 {
			fmt.Printf("%s\n", text[i:n])
		}
	}
	return nil
}
