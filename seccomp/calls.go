package seccomp

// newestReviewed is rseq_slice_yield, the last call of Linux 7.0's table that
// golang.org/x/sys v0.50.0 carries.
const newestReviewed = 471

// The calls that are allowed whatever their arguments. The lists come from
// traces of ordinary programs (testdata/traced.txt) completed with the calls of
// the same family; each difference to Docker's profile has its reason in
// docker_test.go.

// hotCalls come first: the filter is tested from the top. Kernels since 5.11
// remember constant answers and do not run the filter for them at all. Calls
// with conditions are in rules.go.
var hotCalls = []string{
	"read", "write", "close", "fstat", "newfstatat", "lseek", "mmap", "munmap",
	"mprotect", "brk", "futex", "rt_sigaction", "rt_sigprocmask", "rt_sigreturn",
	"statx", "stat", "lstat", "access", "faccessat", "faccessat2", "readlink",
	"readlinkat", "getdents64", "pread64", "pwrite64", "readv", "writev", "madvise",
	"epoll_pwait", "epoll_wait", "epoll_ctl", "poll", "ppoll", "fcntl", "nanosleep", "clock_nanosleep", "clock_gettime", "gettid", "getpid",
	"sched_yield", "recvmsg", "recvfrom", "tgkill", "wait4", "pipe2", "dup2", "dup3",
	"execve", "exit_group", "exit", "vfork", "rseq", "set_robust_list", "getrandom",
}

var fileCalls = []string{
	"chdir", "fchdir", "getcwd", "chown", "fchown", "fchownat", "lchown", "close_range",
	"copy_file_range", "dup", "fadvise64", "fallocate", "fdatasync", "flock", "fsync",
	"ftruncate", "truncate", "getdents", "link", "linkat", "mkdir", "mkdirat",
	"pipe", "preadv", "preadv2", "pwritev", "pwritev2", "readahead", "rename",
	"renameat", "renameat2", "rmdir", "sendfile", "splice", "statfs", "fstatfs",
	"symlink", "symlinkat", "sync", "syncfs", "sync_file_range", "tee", "umask",
	"unlink", "unlinkat", "utime", "utimes", "utimensat", "futimesat", "vmsplice",
	"cachestat",
}

var xattrCalls = []string{
	"getxattr", "lgetxattr", "fgetxattr", "listxattr", "llistxattr", "flistxattr",
	"setxattr", "lsetxattr", "fsetxattr", "removexattr", "lremovexattr",
	"fremovexattr", "getxattrat", "listxattrat", "setxattrat", "removexattrat",
}

var waitCalls = []string{
	"epoll_create", "epoll_create1", "epoll_pwait2", "eventfd", "eventfd2",
	"inotify_init", "inotify_init1", "inotify_add_watch", "inotify_rm_watch",
	"pselect6", "select", "signalfd", "signalfd4", "timerfd_create",
	"timerfd_gettime", "timerfd_settime", "io_setup", "io_submit", "io_cancel",
	"io_destroy", "io_getevents", "io_pgetevents",
}

var memoryCalls = []string{
	"map_shadow_stack", "membarrier", "mincore", "mlock", "mlock2", "mlockall",
	"mremap", "mseal", "msync", "munlock", "munlockall", "pkey_alloc", "pkey_free",
	"pkey_mprotect", "remap_file_pages",
}

var processCalls = []string{
	"alarm", "arch_prctl", "capget", "capset", "execveat", "fork", "futex_requeue",
	"futex_wait", "futex_waitv", "futex_wake", "get_robust_list", "getcpu",
	"getitimer", "getpgid", "getpgrp", "getppid", "getpriority", "getrlimit",
	"getrusage", "getsid", "ioprio_get", "kill", "landlock_add_rule",
	"landlock_create_ruleset", "landlock_restrict_self", "pause", "pidfd_open",
	"pidfd_send_signal", "restart_syscall", "rseq_slice_yield", "rt_sigpending",
	"rt_sigqueueinfo", "rt_sigsuspend", "rt_sigtimedwait", "rt_tgsigqueueinfo",
	"sched_get_priority_max", "sched_get_priority_min", "sched_getaffinity",
	"sched_getattr", "sched_getparam", "sched_getscheduler", "sched_rr_get_interval",
	"seccomp", "set_tid_address", "setitimer", "setpgid", "setrlimit", "setsid",
	"sigaltstack", "sysinfo", "tkill", "uname", "waitid",
}

var identityCalls = []string{
	"getegid", "geteuid", "getgid", "getgroups", "getresgid", "getresuid", "getuid",
	"setfsgid", "setfsuid", "setgid", "setgroups", "setregid", "setresgid",
	"setresuid", "setreuid", "setuid",
}

var timeCalls = []string{
	"clock_getres", "gettimeofday", "time", "timer_create", "timer_delete",
	"timer_getoverrun", "timer_gettime", "timer_settime", "times",
}

// socketCalls work on sockets that exist; making one is in rules.go.
var socketCalls = []string{
	"accept", "accept4", "bind", "connect", "getpeername", "getsockname",
	"getsockopt", "listen", "recvmmsg", "setsockopt", "shutdown",
}

// ipcCalls reach objects that live in the IPC namespace, outside of any path.
var ipcCalls = []string{
	"mq_getsetattr", "mq_notify", "mq_open", "mq_timedreceive", "mq_timedsend",
	"mq_unlink", "msgctl", "msgget", "msgrcv", "msgsnd", "semctl", "semget", "semop",
	"semtimedop", "shmat", "shmctl", "shmdt", "shmget",
}

// missing calls keep in memory what a filter has to see, or have an older
// sibling that tells the same: callers fall back on ENOSYS, but not on EPERM.
var missing = []string{
	"clone3",    // flags in memory
	"openat2",   // mode in memory
	"statmount", // /proc/self/mountinfo is there, of the command's own view
	"listmount",
}
