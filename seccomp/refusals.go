package seccomp

// Refusal explains why calls are not in the profile "default".
type Refusal struct {
	Calls []string
	Why   string
}

// Refusals lists every call of Linux on amd64 and arm64 that no rule of
// "default" allows under any option, with the reason. docs/seccomp.md is made
// of it. The caller may keep and change the result.
func Refusals() []Refusal { return append([]Refusal(nil), refusals...) }

var refusals = []Refusal{
	{[]string{"io_uring_setup", "io_uring_enter", "io_uring_register"},
		"operations on the ring do not pass this filter; large and young kernel code"},
	{[]string{"bpf", "perf_event_open", "userfaultfd", "lookup_dcookie"},
		"kernel code that most privilege escalations of recent years went through; ordinary programs do without"},
	{[]string{"add_key", "request_key", "keyctl"},
		"keyrings belong to the user, not to the run: keys of other programs would be in reach"},
	{[]string{"ptrace", "process_vm_readv", "process_vm_writev", "kcmp", "pidfd_getfd"},
		"reads and changes other processes; in the profile debug"},
	{[]string{"process_madvise", "process_mrelease", "migrate_pages", "move_pages"},
		"acts on the memory of other processes"},
	{[]string{"mbind", "get_mempolicy", "set_mempolicy", "set_mempolicy_home_node"},
		"placement of memory on nodes: kernel code with a history of faults; programs only tune with it and go on without"},
	{[]string{"mount", "umount2", "pivot_root", "chroot", "fsopen", "fsconfig", "fsmount", "fspick",
		"move_mount", "open_tree", "open_tree_attr", "mount_setattr"},
		"changes the view of the file system"},
	{[]string{"setns", "listns"}, "enters or lists other namespaces"},
	{[]string{"statmount", "listmount"},
		"answered with ENOSYS: /proc/self/mountinfo tells the same of the command's own view"},
	{[]string{"clone3"}, "answered with ENOSYS: its flags are in memory; libc falls back to clone"},
	{[]string{"openat2"}, "answered with ENOSYS: its mode is in memory; callers fall back to openat"},
	{[]string{"name_to_handle_at", "open_by_handle_at"},
		"opens files by number, around paths and Landlock"},
	{[]string{"fanotify_init", "fanotify_mark"}, "watches files of other programs"},
	{[]string{"file_getattr", "file_setattr"},
		"changes inode flags by path, also of files granted for reading only"},
	{[]string{"memfd_secret"}, "memory that a supervisor cannot look at; needs a boot option on most kernels"},
	{[]string{"init_module", "finit_module", "delete_module", "kexec_load", "kexec_file_load", "reboot",
		"swapon", "swapoff", "acct", "quotactl", "quotactl_fd", "syslog", "vhangup"},
		"state of the host"},
	{[]string{"sethostname", "setdomainname"}, "name of the host"},
	{[]string{"settimeofday", "clock_settime", "adjtimex", "clock_adjtime"},
		"clock of the host; whether adjtimex only reads is in memory"},
	{[]string{"iopl", "ioperm", "modify_ldt"}, "hardware ports and segment tables of x86"},
	{[]string{"lsm_get_self_attr", "lsm_set_self_attr", "lsm_list_modules"},
		"settings of security modules"},
	{[]string{"uprobe", "uretprobe"},
		"entered by the kernel's own trampolines only; kernels that have them let those pass any filter"},
	{[]string{"_sysctl", "uselib", "sysfs", "ustat", "nfsservctl", "create_module", "query_module",
		"get_kernel_syms", "get_thread_area", "set_thread_area", "epoll_ctl_old", "epoll_wait_old",
		"afs_syscall", "getpmsg", "putpmsg", "security", "tuxcall", "vserver"},
		"obsolete or never implemented on 64-bit machines"},
}
