package test

import (
	"net"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// listenInOwnNetNS opens an ear in a new network namespace and returns a
// descriptor of the namespace. The calling goroutine's thread is lost to it.
func listenInOwnNetNS(s *scene) (int, error) {
	runtime.LockOSThread()
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return -1, err
	}
	if err := loopbackUp(); err != nil {
		return -1, err
	}
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return -1, err
	}
	s.Cleanup(func() { l.Close() })
	go s.hearStreams(l)
	_, s.Extra["port"], _ = net.SplitHostPort(l.Addr().String())
	return unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
}

func loopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	lo.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, lo)
}

// inNetNS calls f on a thread in the namespace, which is not used again.
func inNetNS(fd int, f func() error) error {
	failed := make(chan error)
	go func() {
		runtime.LockOSThread()
		if err := unix.Setns(fd, unix.CLONE_NEWNET); err != nil {
			failed <- err
			return
		}
		failed <- f()
	}()
	return <-failed
}

// wrote reports whether the ear wrote something down, for one that the judge
// cannot call.
func wrote(s *scene, _ result) bool {
	for end := time.Now().Add(300 * time.Millisecond); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if s.content(s.heardFile()) != "" {
			return true
		}
	}
	return false
}
