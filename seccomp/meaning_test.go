package seccomp

import (
	"slices"

	"golang.org/x/sys/unix"
)

// meaning says what a profile is meant to do, written from its intent and not
// from its tables: the second judge of every test here. newest is the highest
// number that is not answered with ENOSYS.
type meaning struct {
	debug  bool
	o      Options
	newest uint32
}

func (m meaning) of(call string, number uint32, a [6]uint64) uint32 {
	switch {
	case number > m.newest || slices.Contains([]string{"clone3", "openat2", "statmount", "listmount"}, call):
		return absent
	case m.allows(call, a):
		return allowed
	}
	return refused
}

func (m meaning) allows(call string, a [6]uint64) bool {
	low := func(i int) uint32 { return uint32(a[i]) }
	makesSetuid := func(flags, mode int) bool {
		creates := low(flags)&unix.O_CREAT != 0 || low(flags)&unix.O_TMPFILE&^unix.O_DIRECTORY != 0
		return creates && low(mode)&unix.S_ISUID != 0
	}
	newNamespace := func(flags uint32) bool {
		for _, f := range []uint32{unix.CLONE_NEWNS, unix.CLONE_NEWUTS, unix.CLONE_NEWIPC, unix.CLONE_NEWUSER,
			unix.CLONE_NEWPID, unix.CLONE_NEWNET, unix.CLONE_NEWCGROUP} {
			if flags&f != 0 {
				return true
			}
		}
		return false
	}
	switch call {
	case "open":
		return !makesSetuid(1, 2)
	case "openat":
		return !makesSetuid(2, 3)
	case "creat", "chmod", "fchmod":
		return low(1)&unix.S_ISUID == 0
	case "fchmodat", "fchmodat2":
		return low(2)&unix.S_ISUID == 0
	case "mknod":
		return honestNode(low(1))
	case "mknodat":
		return honestNode(low(2))
	case "clone":
		return !newNamespace(low(0))
	case "unshare":
		return !newNamespace(low(0)) && low(0)&unix.CLONE_NEWTIME == 0
	case "ioctl":
		return !slices.Contains([]uint32{
			0x5412, 0x541c, 0x541d, 0x5423, // TIOCSTI TIOCLINUX TIOCCONS TIOCSETD
			0x40086602, 0x40046602, 0x401c5820, 0x40087602, 0x40086604, 0x40806685, 0x800c6613, 0x4008941a,
		}, low(1)) && !slices.Contains([]uint32{0x4b, 0x56, 0x500094}, low(1)>>8)
	case "sendto", "sendmmsg":
		return low(3)&0x20000000 == 0
	case "sendmsg":
		return low(2)&0x20000000 == 0
	case "memfd_create":
		return !m.o.NoExecWrite || low(1)&0x8 != 0 && low(1)&0x10 == 0
	case "personality":
		return low(0) == 0 || low(0) == 0xffffffff || m.debug && low(0) == 0x40000
	case "prlimit64":
		return m.o.OwnPID || low(0) == 0 || a[2] == 0
	case "sched_setaffinity", "sched_setattr", "sched_setparam", "sched_setscheduler":
		return m.o.OwnPID || low(0) == 0
	case "setpriority": // process 0, group 1, user 2
		return m.o.OwnPID || low(0) <= 1 && low(1) == 0
	case "ioprio_set": // process 1, group 2, user 3
		return m.o.OwnPID || (low(0) == 1 || low(0) == 2) && low(1) == 0
	case "socketpair":
		return low(0) == unix.AF_UNIX && (low(1)&0xf == unix.SOCK_STREAM || low(1)&0xf == unix.SOCK_SEQPACKET)
	case "socket":
		return m.socket(low(0), low(1)&0xf, low(2))
	case "prctl":
		return low(0) == unix.PR_SET_PTRACER && m.debug || honestPrctl(low(0))
	case "ptrace", "process_vm_readv", "process_vm_writev", "kcmp", "pidfd_getfd":
		return m.debug
	case "shmget", "shmat", "shmctl", "shmdt", "semget", "semop", "semctl", "semtimedop", "msgget", "msgsnd",
		"msgrcv", "msgctl", "mq_open", "mq_unlink", "mq_timedsend", "mq_timedreceive", "mq_notify", "mq_getsetattr":
		return m.o.OwnIPC
	}
	return !slices.ContainsFunc(refusals, func(r Refusal) bool { return slices.Contains(r.Calls, call) })
}

func (m meaning) socket(domain, kind, protocol uint32) bool {
	switch domain {
	case unix.AF_UNIX:
		return m.o.Unix && slices.Contains([]uint32{1, 2, 5}, kind) && protocol <= 1
	case unix.AF_INET, unix.AF_INET6:
		return m.o.Inet && (kind == unix.SOCK_STREAM && (protocol == 0 || protocol == 6) ||
			kind == unix.SOCK_DGRAM && (protocol == 0 || protocol == 17))
	case unix.AF_NETLINK:
		return m.o.Inet && protocol == unix.NETLINK_ROUTE && (kind == unix.SOCK_RAW || kind == unix.SOCK_DGRAM)
	}
	return false
}

func honestNode(mode uint32) bool {
	kind := mode & unix.S_IFMT
	return mode&unix.S_ISUID == 0 && (kind == 0 || kind == unix.S_IFREG || kind == unix.S_IFIFO || kind == unix.S_IFSOCK)
}

// honestPrctl says which operations up to PR_FUTEX_HASH (78), the newest that
// linux/prctl.h has in Linux 6.18, and which of the two with large numbers are
// allowed: all but those it names.
func honestPrctl(operation uint32) bool {
	if operation == unix.PR_SET_VMA || operation == unix.PR_GET_AUXV {
		return true
	}
	out := []uint32{
		0,                                        // none
		unix.PR_GET_UNALIGN, unix.PR_SET_UNALIGN, // other machines
		unix.PR_GET_FPEMU, unix.PR_SET_FPEMU, unix.PR_GET_FPEXC, unix.PR_SET_FPEXC,
		17, 18, // never given out
		unix.PR_GET_ENDIAN, unix.PR_SET_ENDIAN,
		unix.PR_SET_MM,
		unix.PR_MPX_ENABLE_MANAGEMENT, unix.PR_MPX_DISABLE_MANAGEMENT, // gone
		unix.PR_SET_FP_MODE, unix.PR_GET_FP_MODE, 48, 49,
		unix.PR_SET_IO_FLUSHER, unix.PR_GET_IO_FLUSHER,
		unix.PR_SCHED_CORE,
		unix.PR_SET_MEMORY_MERGE,
		unix.PR_RISCV_V_SET_CONTROL, unix.PR_RISCV_V_GET_CONTROL, unix.PR_RISCV_SET_ICACHE_FLUSH_CTX,
		unix.PR_PPC_GET_DEXCR, unix.PR_PPC_SET_DEXCR,
	}
	return operation <= 78 && !slices.Contains(out, operation)
}
