package agentloop

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"unsafe"

	"golang.org/x/sys/unix"
)

// withUser calls f on a thread of its own whose file accesses have the rights of
// the given user: fsuid, fsgid, groups and capabilities are per thread in Linux. The
// thread has no capability, ends with f, and no other code ever runs on it: f starts
// no program and no goroutine. Without root, or for root itself, f runs as it is.
func withUser(uid, gid int, groups []int, f func()) error {
	if unix.Geteuid() != 0 || uid == 0 {
		f()
		return nil
	}
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread dies here
		err := becomeUser(uid, gid, groups)
		// Whoever called has its own way to end a panic, on its own goroutine: here
		// it would end the whole process, with the calls of everybody.
		defer func() {
			if p := recover(); p != nil {
				err = fmt.Errorf("internal error: %v\n%s", p, debug.Stack())
			}
			done <- err
		}()
		if err == nil {
			f()
		}
	}()
	return <-done
}

// becomeUser uses raw calls: those of package unix change every thread.
func becomeUser(uid, gid int, groups []int) error {
	ids := make([]uint32, len(groups)+1) // never empty, for its address
	for i, g := range groups {
		ids[i] = uint32(g)
	}
	if _, _, errno := unix.RawSyscall(unix.SYS_SETGROUPS, uintptr(len(groups)), uintptr(unsafe.Pointer(&ids[0])), 0); errno != 0 {
		return fmt.Errorf("setgroups: %w", errno)
	}
	unix.RawSyscall(unix.SYS_SETFSGID, uintptr(gid), 0, 0)
	unix.RawSyscall(unix.SYS_SETFSUID, uintptr(uid), 0, 0)
	// These two report no error; asking for an impossible id tells who we are.
	none := ^uintptr(0)
	nowGID, _, _ := unix.RawSyscall(unix.SYS_SETFSGID, none, 0, 0)
	nowUID, _, _ := unix.RawSyscall(unix.SYS_SETFSUID, none, 0, 0)
	if int(nowUID) != uid || int(nowGID) != gid {
		return fmt.Errorf("setfsuid to %d:%d left %d:%d", uid, gid, nowUID, nowGID)
	}
	// An fsuid other than 0 takes the capabilities that override file modes with it,
	// not CAP_SYS_PTRACE, which opens the links of others' processes in /proc (proc(5)).
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3} // pid 0: this thread
	var empty [2]unix.CapUserData
	if _, _, errno := unix.RawSyscall(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&head)), uintptr(unsafe.Pointer(&empty[0])), 0); errno != 0 {
		return fmt.Errorf("capset: %w", errno)
	}
	return nil
}
