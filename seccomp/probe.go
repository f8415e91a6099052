package seccomp

import (
	"fmt"
	"unsafe"

	libseccomp "github.com/seccomp/libseccomp-golang"
	"golang.org/x/sys/unix"
)

// Support says what this kernel, or an outer filter around us, offers.
type Support struct {
	// Available: filters can be installed and can end a process. Without it
	// nothing else here is true, and Err says why.
	Available bool
	Err       error
	// UserNotif: a supervisor can answer calls. WaitKillable: its answers are
	// not lost to signals that the caller handles (kernel 5.19).
	UserNotif, WaitKillable bool
	// Log: refused calls can be written to the audit log.
	Log bool
	// LibVersion is the libseccomp in use, "2.5.4"; API is the level it found.
	LibVersion string
	API        uint
}

// Probe asks the kernel without installing anything. It needs no privileges.
func Probe() Support {
	var s Support
	major, minor, micro := libseccomp.GetLibraryVersion()
	s.LibVersion = fmt.Sprintf("%d.%d.%d", major, minor, micro)
	s.API, _ = libseccomp.GetAPI()
	for _, action := range []uint32{unix.SECCOMP_RET_ERRNO, unix.SECCOMP_RET_KILL_PROCESS} {
		if err := actionAvailable(action); err != nil {
			s.Err = fmt.Errorf("seccomp action %#x: %w", action, err)
			return s
		}
	}
	if err := flagsKnown(0); err != nil {
		s.Err = fmt.Errorf("seccomp filter mode: %w", err)
		return s
	}
	s.Available = true
	s.Log = actionAvailable(unix.SECCOMP_RET_LOG) == nil && flagsKnown(unix.SECCOMP_FILTER_FLAG_LOG) == nil
	s.UserNotif = actionAvailable(unix.SECCOMP_RET_USER_NOTIF) == nil && flagsKnown(unix.SECCOMP_FILTER_FLAG_NEW_LISTENER) == nil
	s.WaitKillable = s.UserNotif &&
		flagsKnown(unix.SECCOMP_FILTER_FLAG_NEW_LISTENER|unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV) == nil
	return s
}

func actionAvailable(action uint32) error {
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_GET_ACTION_AVAIL, 0, uintptr(unsafe.Pointer(&action)))
	if errno != 0 {
		return errno
	}
	return nil
}

// flagsKnown offers a filter at address 0. The kernel looks at the flags first
// (EINVAL for one it does not know) and then cannot read the filter (EFAULT).
func flagsKnown(flags uintptr) error {
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, 0)
	if errno == unix.EFAULT {
		return nil
	}
	return errno
}
