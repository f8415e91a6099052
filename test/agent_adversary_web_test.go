package test

import (
	"fmt"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"sandboxd/test/require"
)

// Addresses of the network that these tests make: one that counts as public, and that
// at which clouds give out credentials.
const (
	publicAddress   = "8.8.8.8"
	metadataAddress = "169.254.169.254"
)

// enterWeb puts the calling goroutine, and what it starts and listens at, into a
// network of its own in which this machine has those addresses too. The thread ends
// with the goroutine.
func enterWeb(t *testing.T) (fd int) {
	t.Helper()
	require.Root(t, "to make a network")
	runtime.LockOSThread()
	err := unix.Unshare(unix.CLONE_NEWNET)
	if err == nil {
		err = loopbackUp()
	}
	for i, a := range []string{publicAddress, metadataAddress} {
		if err == nil {
			err = addLoopback(i, a)
		}
	}
	if err == nil {
		fd, err = unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	return fd
}

// addLoopback gives the loopback device an address besides its own, see netdevice(7).
func addLoopback(n int, address string) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	alias, err := unix.NewIfreq(fmt.Sprintf("lo:%d", n+1))
	if err != nil {
		return err
	}
	if err := alias.SetInet4Addr(net.ParseIP(address).To4()); err != nil {
		return err
	}
	return unix.IoctlIfreq(fd, unix.SIOCSIFADDR, alias)
}

// fetch is a call of web_fetch.
func fetch(address string) modelCall { return use("web_fetch", object{"url": address}) }

// forbidden listens at all addresses of this machine, and fails the test when
// somebody comes. It returns its port, with a colon.
func forbidden(s *scene) string {
	s.Helper()
	return serveWeb(s, ":0", http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		s.Errorf("%s http://%s%s was reached", r.Method, r.Host, r.URL)
	}))
}

func serveWeb(s *scene, at string, h http.Handler) (port string) {
	s.Helper()
	l, err := net.Listen("tcp", at)
	s.must(err)
	server := &http.Server{Handler: h}
	go server.Serve(l)
	s.Cleanup(func() { server.Close() })
	return fmt.Sprintf(":%d", l.Addr().(*net.TCPAddr).Port)
}

// site is a server at the public address that hands out pages; a request for /to/N is
// redirected to where its query says, with status 30N.
func site(s *scene) (address string) {
	s.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("/page", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		w.Write([]byte("an honest page; " + yes))
	})
	mux.HandleFunc("/to/", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", r.URL.Query().Get("to"))
		w.WriteHeader(300 + int(r.URL.Path[len("/to/")]-'0'))
	})
	return "http://" + publicAddress + serveWeb(s, publicAddress+":0", mux)
}

// webSetup starts the site and what must not be reached.
func webSetup(s *scene) { s.Extra["site"], s.Extra["port"] = site(s), forbidden(s) }

// webPolicy allows two hosts by rules: one that is public, and a name that is not.
const webPolicy = patient + "[rules]\nallow = [\"web_fetch(domain:" + publicAddress + ")\", \"web_fetch(domain:localhost)\"]\n"

// Addresses that nobody allowed are not contacted, whoever names them and however:
// the servers there listen, and nobody comes.
func TestAdversariesOfTheWeb(t *testing.T) {
	t.Parallel()
	fd := enterWeb(t)
	enter := func(s *scene) {
		runtime.LockOSThread()
		s.must(unix.Setns(fd, unix.CLONE_NEWNET))
	}
	playOn(t, startDaemon(t, users()[len(users())-1]), []adversary{
		{name: "hosts that are not allowed", enter: enter, policy: patient, setup: webSetup, replies: func(s *scene) []modelReply {
			port := s.Extra["port"]
			var list []modelCall
			for _, host := range []string{publicAddress, metadataAddress, "127.0.0.1", "[::1]", "[::ffff:127.0.0.1]", "[::ffff:169.254.169.254]", "0x7f000001", "2130706433", "127.1", "0", "localhost", "0xa9fea9fe"} {
				list = append(list, fetch("http://"+host+port+"/"))
			}
			return oneByOne(append(list, fetch("file:///etc/passwd"), fetch("gopher://localhost"+port+"/"), bash("curl -m 3 -s http://"+publicAddress+port), bash("exec 3<>/dev/tcp/127.0.0.1/"+port[1:]+" && printf 'GET / HTTP/1.0\\r\\n\\r\\n' >&3"), bash("touch free"))...)
		}, left: map[string]string{"free": ""}, after: func(s *scene, o adversaryEnd) {
			for i := range len(o.calls) - 3 {
				o.want(s, "deny", i)
			}
			if strings.Contains(o.texts(), "root:x:0") {
				s.Error("a file was fetched")
			}
		}},
		{name: "redirects out of the allowed host", enter: enter, policy: webPolicy, setup: webSetup, replies: func(s *scene) []modelReply {
			here, port := s.Extra["site"], s.Extra["port"]
			calls := []modelCall{fetch(here + "/page")}
			for i, to := range []string{"http://" + publicAddress + port + "/", "http://127.0.0.1" + port + "/", "//127.0.0.1" + port + "/", "http://localhost" + port + "/", "http://[::1]" + port + "/", "http://[::ffff:127.0.0.1]" + port + "/",
				"http://user:word@127.0.0.1" + port + "/", "http://" + metadataAddress + port + "/latest/meta-data/", "https://" + publicAddress + port + "/", "file:///etc/passwd", here + "@127.0.0.1" + port + "/", here + "/to/2?to=http://127.0.0.1" + port + "/"} {
				calls = append(calls, fetch(fmt.Sprintf("%s/to/%d?to=%s", here, []int{1, 2, 3, 7, 8}[i%5], to)))
			}
			return oneByOne(append(calls, fetch(here+"/to/2?to=/to/2%3Fto=/to/2"), fetch(here+"/to/2?to=/page"))...)
		}, after: func(s *scene, o adversaryEnd) {
			last := len(o.calls) - 1
			for i := 1; i < last; i++ {
				o.want(s, "allow fail", i)
			}
			for _, i := range []int{0, last} {
				o.want(s, "allow ok", i)
				if text := o.results[o.calls[i].ID].Text; !strings.Contains(text, "an honest page") {
					s.Errorf("honest use does not go on: %s", text)
				}
			}
			dataOnly(s, o.requests, "SAY-SO")
		}},
		// A rule allows the name; that of this machine would have to be named as an address.
		{name: "a name of this machine", enter: enter, policy: webPolicy, setup: webSetup, replies: func(s *scene) []modelReply {
			return oneByOne(fetch("http://localhost"+s.Extra["port"]+"/"), fetch("http://LOCALHOST."+s.Extra["port"]+"/"), fetch(s.Extra["site"]+"/page"))
		}, told: []string{"an honest page"}, after: func(s *scene, o adversaryEnd) {
			o.want(s, "allow fail", 0, 1)
		}},
		{name: "a secret in an address", enter: enter, policy: webPolicy, setup: webSetup, replies: func(s *scene) []modelReply {
			return oneByOne(fetch(s.Extra["site"]+"/page?x=ghp_"+strings.Repeat("a1B2", 9)), fetch(s.Extra["site"]+"/page"))
		}, after: func(s *scene, o adversaryEnd) {
			o.want(s, "allow fail", 0)
			o.want(s, "allow ok", 1)
		}},
	}, func(i int) []int { return []int{i % 2} })
}
