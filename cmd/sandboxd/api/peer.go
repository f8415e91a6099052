package api

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// credentials is who connected, as the kernel noted it at connect(2).
type credentials struct {
	PID, UID, GID int
	Groups        []int
	// pidfd names the process itself, so that another one that gets its number is
	// not taken for it. -1 where the kernel has no SO_PEERPIDFD (before 6.5).
	pidfd int
}

// readCredentials asks the kernel about a connection.
func readCredentials(c *net.UnixConn) (credentials, error) {
	cred := credentials{pidfd: -1}
	err := control(c, func(fd int) error {
		u, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
		if err != nil {
			return fmt.Errorf("SO_PEERCRED: %w", err)
		}
		cred.PID, cred.UID, cred.GID = int(u.Pid), int(u.Uid), int(u.Gid)
		if cred.Groups, err = peerGroups(fd); err != nil {
			return fmt.Errorf("SO_PEERGROUPS: %w", err)
		}
		cred.pidfd, err = peerPidfd(func() (int, error) { return unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PEERPIDFD) })
		return err
	})
	return cred, err
}

// peerPidfd is the answer of SO_PEERPIDFD, or -1 from a kernel that does not know
// the option. Any other failure refuses the connection: a peer that has ended, or a
// daemon without a free descriptor, must not turn into a peer that is known by its
// number alone.
func peerPidfd(ask func() (int, error)) (int, error) {
	pidfd, err := ask()
	switch {
	case errors.Is(err, unix.ENOPROTOOPT):
		return -1, nil
	case err != nil:
		return -1, fmt.Errorf("SO_PEERPIDFD: %w", err)
	}
	return pidfd, nil
}

// peerGroups reads the supplementary groups that the peer had. The option tells
// the size it needs when the buffer is too small.
func peerGroups(fd int) ([]int, error) {
	buf := make([]byte, 4*64)
	for {
		n := uint32(len(buf))
		_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(fd), unix.SOL_SOCKET, unix.SO_PEERGROUPS,
			uintptr(unsafe.Pointer(&buf[0])), uintptr(unsafe.Pointer(&n)), 0)
		switch {
		case errno == unix.ERANGE && int(n) > len(buf) && n <= 4<<16: // NGROUPS_MAX
			buf = make([]byte, n)
			continue
		case errno != 0:
			return nil, errno
		}
		var groups []int
		for i := uint32(0); i+4 <= n; i += 4 {
			groups = append(groups, int(binary.NativeEndian.Uint32(buf[i:])))
		}
		slices.Sort(groups)
		return groups, nil
	}
}

// close lets go of the process.
func (c *credentials) close() {
	if c.pidfd >= 0 {
		unix.Close(c.pidfd)
		c.pidfd = -1
	}
}

// alive reports whether the process that connected is still there, so that what
// /proc said under its number was about it.
func (c credentials) alive() bool {
	if c.pidfd < 0 {
		return unix.Kill(c.PID, 0) != unix.ESRCH
	}
	p := []unix.PollFd{{Fd: int32(c.pidfd), Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(p, 0)
		if err != unix.EINTR {
			return err == nil && n == 0
		}
	}
}

func (c credentials) inGroup(gid int) bool {
	return gid > 0 && (c.GID == gid || slices.Contains(c.Groups, gid))
}
