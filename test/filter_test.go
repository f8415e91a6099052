package test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// refusal of a call by an outer filter, as a container has one.
type refusal struct {
	call     int
	argument int
	// any bit of mask in the argument is refused; 0 refuses the call as a whole.
	mask  uint32
	exact uint32 // compares the whole argument instead
	errno unix.Errno
}

// outerFilters are hosts that refuse a part of what sbx does.
var outerFilters = map[string][]refusal{
	"user namespaces": {
		{call: unix.SYS_CLONE, mask: unix.CLONE_NEWUSER, errno: unix.EPERM},
		{call: unix.SYS_UNSHARE, mask: unix.CLONE_NEWUSER, errno: unix.EPERM},
		{call: unix.SYS_CLONE3, errno: unix.ENOSYS},
	},
	"loopback": {{call: unix.SYS_IOCTL, argument: 1, exact: unix.SIOCSIFFLAGS, errno: unix.EPERM}},
}

// behind is the command line that starts argv behind an outer filter.
func (s *scene) behind(filter string, argv ...string) []string {
	s.Helper()
	text, err := json.Marshal(argv)
	s.must(err)
	p := places{Extra: map[string]string{"filter": filter, "argv": string(text)}}
	args, err := p.playerArgs("", "filter")
	s.must(err)
	return append([]string{s.program("player")}, args...)
}

// startBehind is the player's part: it installs the filter and becomes argv.
func startBehind(p places) error {
	var argv []string
	if err := json.Unmarshal([]byte(p.Extra["argv"]), &argv); err != nil {
		return err
	}
	refusals, ok := outerFilters[p.Extra["filter"]]
	if !ok || len(argv) == 0 {
		return errors.New("no such filter, or no command")
	}
	runtime.LockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	code := outerFilter(refusals)
	program := unix.SockFprog{Len: uint16(len(code)), Filter: &code[0]}
	const set, allThreads = 1, 1 // SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC
	if _, _, errno := unix.Syscall(unix.SYS_SECCOMP, set, allThreads, uintptr(unsafe.Pointer(&program))); errno != 0 {
		return fmt.Errorf("filter: %w", errno)
	}
	return syscall.Exec(argv[0], argv, os.Environ())
}

// outerFilter compiles refusals. It looks at the lower half of arguments only.
func outerFilter(refusals []refusal) []unix.SockFilter {
	load := func(offset uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset}
	}
	code := []unix.SockFilter{load(0)}
	for _, r := range refusals {
		test := unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K, K: r.mask, Jf: 1}
		switch {
		case r.exact != 0:
			test = unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: r.exact, Jf: 1}
		case r.mask == 0:
			test = unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K, Jf: 1} // always
		}
		code = append(code,
			unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: uint32(r.call), Jf: 3},
			load(uint32(16+8*r.argument)), test,
			unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(r.errno)}, load(0))
	}
	return append(code, unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW})
}
