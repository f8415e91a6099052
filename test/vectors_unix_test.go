package test

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"sandboxd/test/require"
)

// unixVectors are ways to local services: a container engine below /run, a key
// agent in the home, a message bus in /tmp or without a path.
func unixVectors() []vector {
	places := []struct {
		name string
		at   func(s *scene) string
	}{
		{"below run", func(s *scene) string { return tempBelow(s, "/run") + "/engine.sock" }},
		{"in home", func(s *scene) string { return s.mkdir(s.Home+"/.agent") + "/key.sock" }},
		{"in tmp", func(s *scene) string { return tempBelow(s, "/tmp") + "/bus.sock" }},
		{"through symlink", func(s *scene) string {
			s.link("../out/service.sock", s.Work+"/door")
			return s.Out + "/service.sock"
		}},
		{"granted for reading", func(s *scene) string { return s.mkdir(s.Out+"/read") + "/service.sock" }},
		{"abstract", func(s *scene) string { return "@sandboxd-" + s.Token }},
	}
	var list []vector
	for _, place := range places {
		for _, network := range []string{"unix", "unixgram"} {
			kind := map[string]string{"unix": "stream", "unixgram": "datagram"}[network]
			list = append(list, vector{
				name: "unix " + kind + " socket " + place.name,
				flags: func(s *scene) []string {
					if place.name == "granted for reading" {
						return []string{"--ro", s.Out + "/read"}
					}
					return nil
				},
				setup:   withTier(func(s *scene) { s.listen(network, place.at(s)) }),
				attack:  func(p placesOf) error { return knock(p, network, place.name == "through symlink") },
				reached: heard, honest: ownSockets,
			})
		}
	}
	return append(list, vector{
		name: "unix descriptor from abstract peer", reached: leaks, honest: ownSockets,
		setup:  withTier(func(s *scene) { handOut(s, "@sandboxd-"+rand.Text()) }),
		attack: func(p placesOf) error { return takeDescriptor(p.Extra["peer"]) },
	}, vector{
		name: "unix descriptor from peer in tmp", reached: leaks, honest: ownSockets,
		setup:  withTier(func(s *scene) { handOut(s, tempBelow(s, "/tmp")+"/peer") }),
		attack: func(p placesOf) error { return takeDescriptor(p.Extra["peer"]) },
	}, vector{
		// A pair needs no connect: each of its ends sends to any name.
		name: "unix datagram pair sends to path", reached: heard, honest: ownSockets,
		setup:  withTier(func(s *scene) { s.listen("unixgram", s.Out+"/service.sock") }),
		attack: func(p placesOf) error { return pairSends(p.Extra["address"]) },
	})
}

type placesOf = places // the name is hidden where a list is called so

// tempBelow makes a directory of the scene's user for this test.
func tempBelow(s *scene, parent string) string {
	s.Helper()
	dir, err := os.MkdirTemp(parent, runName()+"-")
	if errors.Is(err, os.ErrPermission) {
		require.NotHere(s, err)
	}
	s.must(err)
	s.Cleanup(func() { os.RemoveAll(dir) })
	s.must(os.Chmod(dir, 0o755))
	s.own(dir)
	return dir
}

// knock sends to the service. A socket without Go's own handling is used, since
// that would need a name of its own to send from.
func knock(p places, network string, throughLink bool) error {
	address := p.Extra["address"]
	if throughLink {
		address = "door"
	}
	kind := map[string]int{"unix": unix.SOCK_STREAM, "unixgram": unix.SOCK_DGRAM}[network]
	fd, err := unix.Socket(unix.AF_UNIX, kind, 0)
	if err != nil {
		return fmt.Errorf("socket: %w", err)
	}
	if err := unix.Connect(fd, &unix.SockaddrUnix{Name: address}); err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	_, err = unix.Write(fd, []byte("hello"))
	return errors.Join(err, unix.Close(fd))
}

// handOut is a peer that gives each caller a descriptor of a secret file.
func handOut(s *scene, at string) {
	s.Helper()
	secret, err := os.Open(s.file(s.Out+"/secret", s.Token))
	s.must(err)
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: at, Net: "unix"})
	s.must(err)
	if at[0] == '/' {
		s.must(os.Chmod(at, 0o777))
	}
	s.Extra["peer"] = at
	s.Cleanup(func() { l.Close(); secret.Close() })
	go func() {
		for {
			c, err := l.AcceptUnix()
			if err != nil {
				return
			}
			c.WriteMsgUnix([]byte("x"), unix.UnixRights(int(secret.Fd())), nil)
			c.Close()
		}
	}()
}

func takeDescriptor(from string) error {
	c, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: from, Net: "unix"})
	if err != nil {
		return err
	}
	space := make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := c.ReadMsgUnix(make([]byte, 1), space)
	if err != nil {
		return err
	}
	messages, err := unix.ParseSocketControlMessage(space[:n])
	if err != nil || len(messages) == 0 {
		return fmt.Errorf("no descriptor: %v", err)
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil {
		return err
	}
	text := make([]byte, 100)
	n, err = unix.Pread(fds[0], text, 0)
	fmt.Printf("%s\n", text[:max(n, 0)])
	return err
}

func pairSends(to string) error {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	return unix.Sendto(pair[0], []byte("hello"), 0, &unix.SockaddrUnix{Name: to})
}

// ownSockets: services that the run itself starts, in the workspace, in its
// temporary directory and without a path. The base tier has pairs only.
func ownSockets(p places) error {
	if p.Extra["tier"] == "base" {
		return loopbackWorks(p)
	}
	for _, at := range []string{filepath.Join(p.Work, "s"), os.TempDir() + "/s", "@own"} {
		l, err := net.Listen("unix", at)
		if err != nil {
			return err
		}
		go func() {
			if c, err := l.Accept(); err == nil {
				c.Close()
			}
		}()
		c, err := net.Dial("unix", at)
		if err != nil {
			return err
		}
		if err := errors.Join(c.Close(), l.Close()); err != nil {
			return err
		}
	}
	return nil
}
