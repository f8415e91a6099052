package seccomp

import "golang.org/x/sys/unix"

// word masks an argument that the kernel reads as int or unsigned int.
const word = 0xffffffff

// namespaceFlags are the flags of clone(2) and unshare(2) that make a
// namespace. CLONE_NEWTIME has its bit among clone's exit signals, where the
// kernel does not read it as a flag.
const namespaceFlags = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS |
	unix.CLONE_NEWIPC | unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET

const (
	// tmpfileFlag is the bit of O_TMPFILE that O_DIRECTORY lacks
	// (__O_TMPFILE, asm-generic/fcntl.h; the same on amd64 and arm64). O_TMPFILE
	// itself must not be the mask: its O_DIRECTORY bit alone reads no mode.
	tmpfileFlag = 0o20000000
	// makesFile are the flags with which open(2) reads its mode.
	makesFile = unix.O_CREAT | tmpfileFlag
	setuid    = unix.S_ISUID
	// socketType is SOCK_TYPE_MASK of linux/net.h: the rest of the argument is
	// SOCK_CLOEXEC and SOCK_NONBLOCK, or refused by the kernel.
	socketType = 0xf
)

// defaultAllow is the allow list of the profile "default".
var defaultAllow = []Rule{
	{Calls: hotCalls},

	// A file must not be born with the set-user-id bit: executed by someone
	// outside it would run as the owner. The bit is looked at only where the
	// kernel reads a mode; other calls carry garbage there.
	{Calls: []string{"openat"}, When: []Condition{{2, makesFile, 0}}},
	{Calls: []string{"openat"}, When: []Condition{{3, setuid, 0}}},
	{Calls: []string{"open"}, When: []Condition{{1, makesFile, 0}}},
	{Calls: []string{"open"}, When: []Condition{{2, setuid, 0}}},
	{Calls: []string{"creat", "chmod", "fchmod"}, When: []Condition{{1, setuid, 0}}},
	{Calls: []string{"fchmodat", "fchmodat2"}, When: []Condition{{2, setuid, 0}}},

	// Regular files (type 0 means the same), FIFOs and sockets; no devices.
	{Calls: []string{"mknod"}, When: []Condition{{1, unix.S_IFMT | setuid, 0}}},
	{Calls: []string{"mknod"}, When: []Condition{{1, unix.S_IFMT | setuid, unix.S_IFREG}}},
	{Calls: []string{"mknod"}, When: []Condition{{1, unix.S_IFMT | setuid, unix.S_IFIFO}}},
	{Calls: []string{"mknod"}, When: []Condition{{1, unix.S_IFMT | setuid, unix.S_IFSOCK}}},
	{Calls: []string{"mknodat"}, When: []Condition{{2, unix.S_IFMT | setuid, 0}}},
	{Calls: []string{"mknodat"}, When: []Condition{{2, unix.S_IFMT | setuid, unix.S_IFREG}}},
	{Calls: []string{"mknodat"}, When: []Condition{{2, unix.S_IFMT | setuid, unix.S_IFIFO}}},
	{Calls: []string{"mknodat"}, When: []Condition{{2, unix.S_IFMT | setuid, unix.S_IFSOCK}}},

	// New tasks, but no new namespaces: inside a user namespace a task has all
	// capabilities over it, and with them the kernel code behind those.
	{Calls: []string{"clone"}, When: []Condition{{0, namespaceFlags, 0}}},
	{Calls: []string{"unshare"}, When: []Condition{{0, namespaceFlags | unix.CLONE_NEWTIME, 0}}},

	// The exceptions are in defaultRefuse.
	{Calls: []string{"ioctl"}},

	// Fast open connects without connect(2): neither Landlock's connect_tcp nor
	// a supervisor of connect sees it.
	{Calls: []string{"sendto", "sendmmsg"}, When: []Condition{{3, unix.MSG_FASTOPEN, 0}}},
	{Calls: []string{"sendmsg"}, When: []Condition{{2, unix.MSG_FASTOPEN, 0}}},

	{Calls: fileCalls}, {Calls: waitCalls}, {Calls: memoryCalls}, {Calls: processCalls},
	{Calls: identityCalls}, {Calls: timeCalls}, {Calls: socketCalls}, {Calls: xattrCalls},

	// A memory file runs through execveat(2) or /proc/self/fd whatever the
	// mounts and Landlock say, unless it was made without the execute bits for
	// good: MFD_NOEXEC_SEAL set and MFD_EXEC (an error together) not.
	{Calls: []string{"memfd_create"}, If: UnlessNoExecWrite},
	{Calls: []string{"memfd_create"}, When: []Condition{{1, unix.MFD_NOEXEC_SEAL | unix.MFD_EXEC, unix.MFD_NOEXEC_SEAL}}},

	// The default personality and the question for the current one.
	// READ_IMPLIES_EXEC, ADDR_NO_RANDOMIZE and foreign ones weaken a program.
	{Calls: []string{"personality"}, When: []Condition{{0, word, personalityDefault}}},
	{Calls: []string{"personality"}, When: []Condition{{0, word, word}}},

	// On the caller itself (0), or on anything in the run's own pid namespace.
	// prlimit64 with no new limit only reads.
	{Calls: ownTaskCalls, If: IfOwnPID},
	{Calls: []string{"prlimit64"}, When: []Condition{{0, word, 0}}},
	{Calls: []string{"prlimit64"}, When: []Condition{{2, ^uint64(0), 0}}},
	{Calls: []string{"sched_setaffinity", "sched_setattr", "sched_setparam", "sched_setscheduler"},
		When: []Condition{{0, word, 0}}},
	{Calls: []string{"setpriority"}, When: []Condition{{0, word, unix.PRIO_PROCESS}, {1, word, 0}}},
	{Calls: []string{"setpriority"}, When: []Condition{{0, word, unix.PRIO_PGRP}, {1, word, 0}}},
	{Calls: []string{"ioprio_set"}, When: []Condition{{0, word, ioprioWhoProcess}, {1, word, 0}}},
	{Calls: []string{"ioprio_set"}, When: []Condition{{0, word, ioprioWhoGroup}, {1, word, 0}}},

	{Calls: ipcCalls, If: IfOwnIPC},

	// Pairs cannot be named or connected elsewhere. A datagram pair can still
	// send to any datagram socket that has a path: not even with Unix, since an
	// honest program names neither end.
	{Calls: []string{"socketpair"}, When: []Condition{{0, word, unix.AF_UNIX}, {1, socketType, unix.SOCK_STREAM}}},
	{Calls: []string{"socketpair"}, When: []Condition{{0, word, unix.AF_UNIX}, {1, socketType, unix.SOCK_SEQPACKET}}},
	{Calls: []string{"socket"}, When: []Condition{{0, word, unix.AF_UNIX}, {1, socketType, unix.SOCK_STREAM}, {2, word, 0}}, If: IfUnix},
	{Calls: []string{"socket"}, When: []Condition{{0, word, unix.AF_UNIX}, {1, socketType, unix.SOCK_STREAM}, {2, word, unix.AF_UNIX}}, If: IfUnix},
	{Calls: []string{"socket"}, When: []Condition{{0, word, unix.AF_UNIX}, {1, socketType, unix.SOCK_DGRAM}, {2, word, 0}}, If: IfUnix},
	{Calls: []string{"socket"}, When: []Condition{{0, word, unix.AF_UNIX}, {1, socketType, unix.SOCK_DGRAM}, {2, word, unix.AF_UNIX}}, If: IfUnix},
	{Calls: []string{"socket"}, When: []Condition{{0, word, unix.AF_UNIX}, {1, socketType, unix.SOCK_SEQPACKET}, {2, word, 0}}, If: IfUnix},
	{Calls: []string{"socket"}, When: []Condition{{0, word, unix.AF_UNIX}, {1, socketType, unix.SOCK_SEQPACKET}, {2, word, unix.AF_UNIX}}, If: IfUnix},

	// All rules of one call look at the same arguments: libseccomp 2.5.4 tests a
	// shorter rule beside longer ones on an argument of the longer ones (AF_UNIX
	// alone here let ICMP, protocol 1, pass). verify.go finds that kind of fault.
	//
	// TCP and UDP by their default (0) or by name. No MPTCP and SCTP, which
	// Landlock's TCP rights do not cover, no raw and no ping sockets.
	{Calls: []string{"socket"}, When: []Condition{{0, word, unix.AF_INET}, {1, socketType, unix.SOCK_STREAM}, {2, word, 0}}, If: IfInet},
	{Calls: []string{"socket"}, When: []Condition{{0, word, unix.AF_INET}, {1, socketType, unix.SOCK_STREAM}, {2, word, unix.IPPROTO_TCP}}, If: IfInet},
	{Calls: []string{"socket"}, When: []Condition{{0, word, unix.AF_INET}, {1, socketType, unix.SOCK_DGRAM}, {2, word, 0}}, If: IfInet},
	{Calls: []string{"socket"}, When: []Condition{{0, word, unix.AF_INET}, {1, socketType, unix.SOCK_DGRAM}, {2, word, unix.IPPROTO_UDP}}, If: IfInet},
	{Calls: []string{"socket"}, When: []Condition{{0, word, unix.AF_INET6}, {1, socketType, unix.SOCK_STREAM}, {2, word, 0}}, If: IfInet},
	{Calls: []string{"socket"}, When: []Condition{{0, word, unix.AF_INET6}, {1, socketType, unix.SOCK_STREAM}, {2, word, unix.IPPROTO_TCP}}, If: IfInet},
	{Calls: []string{"socket"}, When: []Condition{{0, word, unix.AF_INET6}, {1, socketType, unix.SOCK_DGRAM}, {2, word, 0}}, If: IfInet},
	{Calls: []string{"socket"}, When: []Condition{{0, word, unix.AF_INET6}, {1, socketType, unix.SOCK_DGRAM}, {2, word, unix.IPPROTO_UDP}}, If: IfInet},
	// libc lists interfaces by route netlink for getaddrinfo and getifaddrs.
	{Calls: []string{"socket"}, When: []Condition{{0, word, unix.AF_NETLINK}, {1, socketType, unix.SOCK_RAW}, {2, word, unix.NETLINK_ROUTE}}, If: IfInet},
	{Calls: []string{"socket"}, When: []Condition{{0, word, unix.AF_NETLINK}, {1, socketType, unix.SOCK_DGRAM}, {2, word, unix.NETLINK_ROUTE}}, If: IfInet},
}

// ownTaskCalls change how a task, named by its id, is run.
var ownTaskCalls = []string{
	"prlimit64", "sched_setaffinity", "sched_setattr", "sched_setparam",
	"sched_setscheduler", "setpriority", "ioprio_set",
}

// From the kernel's uapi headers linux/ioprio.h and linux/personality.h.
const (
	ioprioWhoProcess   = 1
	ioprioWhoGroup     = 2
	personalityDefault = 0x0
	addrNoRandomize    = 0x0040000
)

// debugAllow is what the profile "debug" adds.
var debugAllow = []Rule{
	{Calls: []string{"ptrace", "process_vm_readv", "process_vm_writev", "kcmp", "pidfd_getfd"}},
	// gdb starts programs without address randomisation.
	{Calls: []string{"personality"}, When: []Condition{{0, word, addrNoRandomize}}},
	{Calls: []string{"prctl"}, When: []Condition{{0, word, unix.PR_SET_PTRACER}}},
}
