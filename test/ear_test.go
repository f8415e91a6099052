package test

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// An ear is a listener outside. Whatever reaches it is written down in the
// scene's file "heard", which no run can see. s.Extra has its network and address.

// closing is what the judge says at the end: everything before it was written
// down once it is answered.
const closing = "end of hearing"

const hearingTime = 3 * time.Second

// ear listens on an address of the scene, TCP, UDP or UNIX.
func ear(network, address string) func(s *scene) {
	return func(s *scene) { s.listen(network, address) }
}

func (s *scene) listen(network, address string) {
	s.Helper()
	var at string
	switch network {
	case "udp4", "udp6", "unixgram":
		c, err := net.ListenPacket(network, address)
		s.must(err)
		s.Cleanup(func() { c.Close() })
		go s.hearPackets(c)
		at = c.LocalAddr().String()
	default:
		// Fast open is allowed, as a server that uses it would.
		lc := net.ListenConfig{Control: func(network, _ string, c syscall.RawConn) error {
			return c.Control(func(fd uintptr) {
				if network != "unix" {
					unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_FASTOPEN, 5)
				}
			})
		}}
		l, err := lc.Listen(s.Context(), network, address)
		s.must(err)
		s.Cleanup(func() { l.Close() })
		go s.hearStreams(l)
		at = l.Addr().String()
	}
	if strings.HasPrefix(address, "/") {
		s.must(os.Chmod(address, 0o777))
	}
	s.Extra["network"], s.Extra["address"] = network, at
	if _, port, err := net.SplitHostPort(at); err == nil {
		s.Extra["port"] = port
	}
}

func (s *scene) heardFile() string { return s.Out + "/heard" }

func (s *scene) note(what string) {
	f, err := os.OpenFile(s.heardFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return // the stage is being removed
	}
	defer f.Close()
	fmt.Fprintln(f, what)
}

func (s *scene) hearStreams(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		c.SetDeadline(time.Now().Add(hearingTime))
		text, _ := io.ReadAll(io.LimitReader(c, int64(len(closing))))
		if string(text) == closing {
			io.WriteString(c, "heard")
		} else {
			s.note("connected: " + string(text))
		}
		c.Close()
	}
}

func (s *scene) hearPackets(c net.PacketConn) {
	buf := make([]byte, 512)
	for {
		n, from, err := c.ReadFrom(buf)
		if err != nil {
			return
		}
		if string(buf[:n]) != closing {
			s.note("packet: " + string(buf[:n]))
			continue
		}
		c.WriteTo([]byte("heard"), from)
	}
}

// heard reports whether anything reached the ear.
func heard(s *scene, _ result) bool {
	s.Helper()
	d := net.Dialer{Timeout: hearingTime}
	if s.Extra["network"] == "unixgram" {
		// An answer needs a name.
		d.LocalAddr = &net.UnixAddr{Name: fmt.Sprintf("@judge-%s", s.Token), Net: "unixgram"}
	}
	c, err := d.DialContext(context.Background(), s.Extra["network"], s.Extra["address"])
	s.must(err)
	defer c.Close()
	c.SetDeadline(time.Now().Add(hearingTime))
	_, err = io.WriteString(c, closing)
	s.must(err)
	answer := make([]byte, 16)
	n, err := c.Read(answer)
	if err != nil || string(answer[:n]) != "heard" {
		s.Fatalf("the ear does not answer: %q %v", answer[:n], err)
	}
	return s.content(s.heardFile()) != ""
}

// A caller is a stand-in outside that calls the address which the attack writes
// into the file "call" of the workspace, and writes down that somebody answered.

// callBack starts one that waits at most the length of a test.
func callBack(s *scene) {
	stop := make(chan struct{})
	done := make(chan struct{})
	s.Cleanup(func() { close(stop); <-done })
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			case <-time.After(5 * time.Millisecond):
			}
			text, err := os.ReadFile(s.Work + "/call")
			network, address, ok := strings.Cut(strings.TrimSuffix(string(text), "\n"), " ")
			if err != nil || !ok || !strings.HasSuffix(string(text), "\n") {
				continue
			}
			c, err := net.DialTimeout(network, address, time.Second)
			if err != nil {
				continue
			}
			s.note("answered")
			io.WriteString(c, "noted")
			c.Close()
		}
	}()
}

// answered reports whether a caller got through.
func answered(s *scene, _ result) bool { return s.content(s.heardFile()) != "" }

// awaitCall announces the listening socket fd and waits for a caller.
func awaitCall(p places, fd int, network string) error {
	name, err := unix.Getsockname(fd)
	if err != nil {
		return err
	}
	at := ""
	switch a := name.(type) {
	case *unix.SockaddrInet4:
		at = fmt.Sprintf("127.0.0.1:%d", a.Port)
	case *unix.SockaddrInet6:
		at = fmt.Sprintf("[::1]:%d", a.Port)
	}
	if err := os.WriteFile(p.Work+"/call", []byte(network+" "+at+"\n"), 0o644); err != nil {
		return err
	}
	if n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 500); err != nil || n == 0 {
		return fmt.Errorf("nobody called: %v", err)
	}
	c, _, err := unix.Accept(fd)
	if err != nil {
		return err
	}
	_, err = unix.Read(c, make([]byte, 8)) // it was noted
	return err
}
