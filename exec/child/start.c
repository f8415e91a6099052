// The clone that makes a keeper. It runs in the starter's address space, so the
// child calls nothing but the kernel until it execs.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "child.h"

#ifndef CLONE_PIDFD
#define CLONE_PIDFD 0x00001000
#endif
#ifndef __NR_close_range
#define __NR_close_range 436
#endif

struct start {
	int exe, control;
	uint64_t flags;
	uid_t uid;
	gid_t gid;
	struct report *r;
};

static int fail(struct start *s, int stage, int detail)
{
	s->r->error = errno;
	s->r->detail = detail;
	s->r->stage = stage;
	_exit(127);
}

static size_t put_number(char *p, unsigned long n)
{
	char b[24];
	size_t i = 0, j = 0;
	do {
		b[i++] = (char)('0' + n % 10);
		n /= 10;
	} while (n);
	while (i)
		p[j++] = b[--i];
	return j;
}

static int write_file(const char *path, const char *text, size_t n)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	ssize_t w = write(fd, text, n);
	int e = errno;
	close(fd);
	errno = e;
	return w == (ssize_t)n ? 0 : -1;
}

// One id mapped onto itself: the command keeps the identity it has outside.
static int write_map(const char *path, unsigned long id)
{
	char line[64];
	size_t n = put_number(line, id);
	line[n++] = ' ';
	n += put_number(line + n, id);
	memcpy(line + n, " 1\n", 3);
	return write_file(path, line, n + 3);
}

// child_map maps the identity in a new user namespace. It returns 0 or the step
// that failed, with errno.
int child_map(uid_t uid, gid_t gid)
{
	// The order is the kernel's: groups are given up before a gid
	// map may be written without rights outside (user_namespaces(7)).
	if (write_file("/proc/self/setgroups", "deny", 4) < 0 && errno != ENOENT)
		return 1;
	if (write_map("/proc/self/gid_map", gid) < 0)
		return 2;
	return write_map("/proc/self/uid_map", uid) < 0 ? 3 : 0;
}

// Ambient capabilities carry the rights inside the new user namespace over the
// exec of the keeper: an id other than 0 would lose them there (capabilities(7)).
static int keep_caps(void)
{
	struct __user_cap_header_struct h = {_LINUX_CAPABILITY_VERSION_3, 0};
	struct __user_cap_data_struct d[2];
	if (syscall(SYS_capget, &h, d) < 0)
		return -1;
	d[0].inheritable = d[0].permitted;
	d[1].inheritable = d[1].permitted;
	if (syscall(SYS_capset, &h, d) < 0)
		return -1;
	static const int want[] = {CAP_SYS_ADMIN, CAP_NET_ADMIN, CAP_SETPCAP, CAP_KILL,
				   CAP_DAC_OVERRIDE, CAP_SYS_PTRACE, CAP_SETGID, CAP_SETUID};
	for (size_t i = 0; i < sizeof want / sizeof *want; i++)
		if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, want[i], 0, 0) < 0)
			return -1;
	return 0;
}

static int start_child(void *arg)
{
	struct start *s = arg;
	if (caller_slack)
		prctl(PR_SET_TIMERSLACK, caller_slack, 0, 0, 0);
	if (s->flags & CLONE_NEWUSER) {
		int bad = child_map(s->uid, s->gid);
		if (bad)
			fail(s, STAGE_USERNS, bad);
		if (keep_caps() < 0)
			fail(s, STAGE_USERNS, 4);
	}
	// Descriptors: 0-2 become unusable, 3 is the control socket, 4 the program.
	int control = fcntl(s->control, F_DUPFD_CLOEXEC, 10);
	int exe = fcntl(s->exe, F_DUPFD_CLOEXEC, 10);
	if (control < 0 || exe < 0 || dup2(control, CONTROL_FD) < 0 || dup3(exe, 4, O_CLOEXEC) < 0)
		fail(s, STAGE_START, 1);
	close(0);
	close(1);
	close(2);
	if (syscall(__NR_close_range, 5, ~0u, 0) < 0)
		for (int fd = 5; fd < 65536; fd++)
			close(fd);
	char *argv[] = {(char *)KEEPER_NAME, NULL};
	char *envp[] = {NULL};
	syscall(SYS_execveat, 4, "", argv, envp, AT_EMPTY_PATH);
	fail(s, STAGE_START, 2);
	return 0;
}

int child_start(int exe, int control, uint64_t flags, uid_t uid, gid_t gid, int *pidfd, struct report *r)
{
	enum { STACK = 64 * 1024 };
	char *stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
	if (stack == MAP_FAILED)
		return -errno;
	struct start s = {exe, control, flags, uid, gid, r};
	// No handler of the starter may run in the child, which shares its memory.
	sigset_t all, old;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	int pid = clone(start_child, stack + STACK, (int)(CLONE_VM | CLONE_VFORK | CLONE_PIDFD | SIGCHLD | flags), &s, pidfd);
	int e = errno;
	if (pid > 0)
		made_note(pid);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	munmap(stack, STACK);
	return pid < 0 ? -e : pid;
}
