package test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	osexec "os/exec"
	"path/filepath"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// tableVectors enter the kernel by other tables of calls, and stack own
// restrictions that permit everything on top of the run's.
func tableVectors() []vector {
	list := []vector{
		{name: "kernel filter and domain that allow all", reached: leaks, honest: ownSandbox,
			setup: func(s *scene) {
				s.file(s.Out+"/secret", s.Token)
				s.file(s.Work+"/closed/f", "x")
				s.file(s.Work+"/open/f", "x")
			},
			attack: func(p places) error { return afterAllowingAll(func() error { return show(p.Out + "/secret") }) }},
		{name: "kernel filter that allows all before a refused call", reached: printed("through"), honest: ordinaryCalls,
			attack: func(places) error {
				return afterAllowingAll(func() error { return through(call(unix.SYS_KEYCTL, unix.KEYCTL_GET_KEYRING_ID, 0xfffffffd, 0)()) })
			}},
	}
	if runtime.GOARCH != "amd64" {
		return list // other machines have no second table that can be entered so
	}
	secret := func(s *scene) { s.file(s.Out+"/secret", s.Token) }
	return append(list,
		vector{name: "kernel 32-bit open", reached: leaks, setup: secret, honest: ordinaryCalls, attack: func(p places) error {
			const open = 5
			fd, err := call32(open, append([]byte(p.Out+"/secret"), 0), 0, 0, 0)
			if err != nil {
				return err
			}
			return show(fmt.Sprintf("/proc/self/fd/%d", fd))
		}},
		vector{name: "kernel 32-bit connect", reached: heard, setup: withTier(ear("tcp4", "127.0.0.1:0")), honest: loopbackWorks,
			attack: func(p places) error {
				const socket, connect = 359, 362
				fd, err := call32(socket, nil, unix.AF_INET, unix.SOCK_STREAM, 0)
				if err != nil {
					return err
				}
				at := []byte{unix.AF_INET, 0, 0, 0, 127, 0, 0, 1, 15: 0}
				binary.BigEndian.PutUint16(at[2:], uint16(p.port()))
				_, err = call32(connect, at, uint32(fd), 0, uint32(len(at)))
				return err
			}},
		vector{name: "kernel 32-bit refused call", reached: printed("through"), honest: ordinaryCalls, attack: func(places) error {
			const addKey = 286
			_, err := call32(addKey, nil, 0, 0, 0)
			return through(err)
		}},
		vector{name: "kernel x32 open", honest: ordinaryCalls, setup: secret,
			// A kernel without that table says so; under confinement even that is not
			// heard, since the program has ended.
			reached: func(s *scene, r result) bool { return leaks(s, r) || printed("no such table")(s, r) },
			attack: func(p places) error {
				const table, open = 1 << 30, 2
				path, err := unix.BytePtrFromString(p.Out + "/secret")
				if err != nil {
					return err
				}
				fd, _, errno := unix.Syscall(table|open, uintptr(unsafe.Pointer(path)), 0, 0)
				if errno == unix.ENOSYS {
					fmt.Println("no such table")
				}
				if errno != 0 {
					return errno
				}
				return show(fmt.Sprintf("/proc/self/fd/%d", fd))
			}},
		vector{name: "kernel x32 connect", honest: loopbackWorks, setup: withTier(ear("tcp4", "127.0.0.1:0")),
			reached: func(s *scene, r result) bool { return printed("no such table")(s, r) || heard(s, r) },
			attack: func(p places) error {
				const table, connect = 1 << 30, 42
				fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
				if err != nil {
					return err
				}
				at := []byte{unix.AF_INET, 0, 0, 0, 127, 0, 0, 1, 15: 0}
				binary.BigEndian.PutUint16(at[2:], uint16(p.port()))
				_, _, errno := unix.Syscall(table|connect, uintptr(fd), uintptr(unsafe.Pointer(&at[0])), uintptr(len(at)))
				if errno == unix.ENOSYS {
					fmt.Println("no such table")
				}
				return errnoOrNil(errno)
			}},
		vector{name: "kernel x32 refused call", honest: ordinaryCalls,
			reached: func(s *scene, r result) bool { return printed("no such table")(s, r) || printed("through")(s, r) },
			attack: func(places) error {
				const table, setns = 1 << 30, 308
				err := call(table|setns, ^uintptr(0), 0)()
				if errors.Is(err, unix.ENOSYS) {
					fmt.Println("no such table")
				}
				return through(err)
			}},
	)
}

// call32 makes a call by the entry for 32-bit programs, int 0x80. Code and data
// lie below 4 GiB; with data its address is the first argument, or the second if
// the first is given.
func call32(number uint32, data []byte, args ...uint32) (int, error) {
	const page, dataAt, resultAt = 4096, 256, 128
	memory, err := unix.MmapPtr(-1, 0, nil, page, unix.PROT_READ|unix.PROT_WRITE|unix.PROT_EXEC, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_32BIT)
	if err != nil {
		return 0, err
	}
	base := uint32(uintptr(memory))
	b := unsafe.Slice((*byte)(memory), page)
	if data != nil {
		copy(b[dataAt:], data)
		at := 0
		if args[0] != 0 {
			at = 1
		}
		args[at] = base + dataAt
	}
	code := []byte{0x53}                                    // push rbx
	for i, opcode := range []byte{0xb8, 0xbb, 0xb9, 0xba} { // mov eax, ebx, ecx, edx
		value := number
		if i > 0 {
			value = args[i-1]
		}
		code = binary.LittleEndian.AppendUint32(append(code, opcode), value)
	}
	code = append(code, 0xcd, 0x80, 0x89, 0x04, 0x25) // int 0x80; mov [result], eax
	code = binary.LittleEndian.AppendUint32(code, base+resultAt)
	copy(b, append(code, 0x5b, 0xc3)) // pop rbx; ret
	entry := uintptr(memory)
	pointer := &entry
	(*(*func())(unsafe.Pointer(&pointer)))()
	answer := int32(binary.LittleEndian.Uint32(b[resultAt:]))
	if answer < 0 && answer > -4096 {
		return 0, unix.Errno(-answer)
	}
	return int(answer), nil
}

// afterAllowingAll binds a thread to a domain and a filter that allow everything
// and calls f on it.
func afterAllowingAll(f func() error) error {
	failed := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends
		err := errors.Join(ownDomain("/"), ownFilter(unix.SECCOMP_RET_ALLOW))
		if err == nil {
			err = f()
		}
		failed <- err
	}()
	return <-failed
}

// ownDomain binds the thread to a Landlock domain in which reading is granted
// below the given paths alone.
func ownDomain(paths ...string) error {
	const reads = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR
	attribute := unix.LandlockRulesetAttr{Handled_access_fs: reads}
	fd, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attribute)), 8, 0)
	if errno != 0 {
		return fmt.Errorf("ruleset: %w", errno)
	}
	for _, path := range paths {
		at, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		rule := unix.LandlockPathBeneathAttr{Allowed_access: reads, Parent_fd: int32(at)}
		if _, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, fd, unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&rule)), 0, 0, 0); errno != 0 {
			return fmt.Errorf("rule: %w", errno)
		}
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	_, _, errno = unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, fd, 0, 0)
	return errnoOrNil(errno)
}

// ownFilter gives the thread a filter that answers getppid with action and
// allows the rest.
func ownFilter(action uint32) error {
	code := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_GETPPID, Jt: 0, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: action},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	program := unix.SockFprog{Len: uint16(len(code)), Filter: &code[0]}
	const set = 1 // SECCOMP_SET_MODE_FILTER
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, set, 0, uintptr(unsafe.Pointer(&program)))
	return errnoOrNil(errno)
}

// ownSandbox: a domain and a filter of a tool in the workspace hold what they say.
func ownSandbox(p places) error {
	failed := make(chan error)
	go func() {
		runtime.LockOSThread()
		failed <- func() error {
			if err := errors.Join(ownDomain(filepath.Join(p.Work, "open")), ownFilter(unix.SECCOMP_RET_ERRNO|uint32(unix.EDOM))); err != nil {
				return err
			}
			if _, err := os.ReadFile(p.Work + "/open/f"); err != nil {
				return err
			}
			if _, err := os.ReadFile(p.Work + "/closed/f"); !errors.Is(err, unix.EACCES) {
				return fmt.Errorf("the own domain does not hold: %v", err)
			}
			if _, _, errno := unix.RawSyscall(unix.SYS_GETPPID, 0, 0, 0); errno != unix.EDOM {
				return fmt.Errorf("the own filter does not hold: %v", errno)
			}
			return nil
		}()
	}()
	return errors.Join(<-failed, osexec.Command("/bin/true").Run())
}
