// The command's last steps before exec. It shares the keeper's memory (vfork),
// so it only calls the kernel and reports what failed.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "child.h"

// sched.h and linux/sched.h of some libcs exclude each other.
extern int clone(int (*)(void *), void *, int, void *, ...);
#ifndef CLONE_INTO_CGROUP
#define CLONE_INTO_CGROUP 0x200000000ULL
#endif
#ifndef __NR_clone3
#define __NR_clone3 435
#endif

#ifndef __NR_close_range
#define __NR_close_range 436
#endif
#ifndef CLOSE_RANGE_CLOEXEC
#define CLOSE_RANGE_CLOEXEC (1u << 2)
#endif
#ifndef __NR_landlock_restrict_self
#define __NR_landlock_restrict_self 446
#endif

struct command {
	struct keeper *k;
	const struct run *r;
	struct report *rep;
	char **argv, **envp;
	char **shell_argv; // for a script without an interpreter line
	pid_t keeper;
	int born_inside; // the first control group was entered by the clone
};


static int run_command(void *arg);

// place_above is the lowest number that no descriptor of the command will have:
// a fixed one would ask for more open files than a caller may be allowed.
static int place_above(const struct run *r)
{
	int above = 3;
	for (uint32_t i = 0; i < r->pass_count; i++)
		if (r->pass[i].number >= above)
			above = r->pass[i].number + 1;
	return above;
}

static void fail(struct command *c, int stage, int detail)
{
	c->rep->error = errno;
	c->rep->detail = detail;
	c->rep->stage = stage;
	_exit(127);
}

static int fd_of(struct command *c, int index)
{
	return index == -1 ? c->k->pty : c->k->fds[index];
}

// place_fds puts the descriptors where the command expects them. Sources are
// first moved above every target, so that no target overwrites a source.
static void place_fds(struct command *c)
{
	int std[3], pass[MAX_PASS], above = place_above(c->r);
	for (int i = 0; i < 3; i++)
		if ((std[i] = fcntl(fd_of(c, c->r->stdio[i]), F_DUPFD_CLOEXEC, above)) < 0)
			fail(c, STAGE_STDIO, i);
	for (uint32_t i = 0; i < c->r->pass_count; i++)
		if ((pass[i] = fcntl(c->k->fds[c->r->pass[i].index], F_DUPFD_CLOEXEC, above)) < 0)
			fail(c, STAGE_STDIO, c->r->pass[i].number);
	for (int i = 0; i < 3; i++)
		if (dup2(std[i], i) < 0)
			fail(c, STAGE_STDIO, i);
	for (uint32_t i = 0; i < c->r->pass_count; i++)
		if (dup2(pass[i], c->r->pass[i].number) < 0)
			fail(c, STAGE_STDIO, c->r->pass[i].number);
}

static int run_command(void *arg)
{
	struct command *c = arg;
	const struct run *r = c->r;

	// Into the control groups first: everything after this counts there.
	for (uint32_t i = 0; i < r->cgroup_count; i++)
		if (!(c->born_inside && i == 0) && write(c->k->fds[r->cgroup[i]], "0", 1) != 1)
			fail(c, STAGE_CGROUP, (int)i);
	// An own session: no controlling terminal of the caller, no shared group.
	if (setsid() < 0)
		fail(c, STAGE_SESSION, 0);
	// Die with the keeper. The signal is cleared by a change of identity, so it
	// comes after it; the check closes the gap before the request.
	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0 || getppid() != c->keeper)
		fail(c, STAGE_PARENT, 0);
	umask((mode_t)r->umask);
	if (chdir(plan_string(c->k, r->dir)) < 0)
		fail(c, STAGE_DIR, 0);

	int ruleset = -1;
	if (c->k->ruleset >= 0 && (ruleset = fcntl(c->k->ruleset, F_DUPFD_CLOEXEC, place_above(r))) < 0)
		fail(c, STAGE_LANDLOCK, 1);
	// Everything the keeper holds closes at exec; what is placed below does not.
	if (syscall(__NR_close_range, 0, ~0u, CLOSE_RANGE_CLOEXEC) < 0)
		for (int fd = 0; fd < 4096; fd++)
			fcntl(fd, F_SETFD, FD_CLOEXEC);
	place_fds(c);
	if (r->flags & RUN_TTY && ioctl(0, TIOCSCTTY, 0) < 0)
		fail(c, STAGE_TTY, 0);

	for (uint32_t i = 0; i < r->limit_count; i++) {
		struct rlimit now, l = {r->limit[i].soft, r->limit[i].hard};
		int res = (int)r->limit[i].resource;
		// A limit only ever goes down: raising the hard one needs a right.
		if (getrlimit(res, &now) == 0) {
			if (l.rlim_max > now.rlim_max)
				l.rlim_max = now.rlim_max;
			if (l.rlim_cur > l.rlim_max)
				l.rlim_cur = l.rlim_max;
		}
		if (setrlimit(res, &l) < 0)
			fail(c, STAGE_LIMITS, res);
	}
	int bad = bind_drop_caps();
	if (bad < 0) {
		errno = -bad;
		fail(c, STAGE_CAPS, 0);
	}
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		fail(c, STAGE_NNP, 0);
	// Landlock after every path was opened, the filter after every call that it
	// refuses; exec is all that is left.
	if (!(r->flags & RUN_NO_RULESET)) {
		errno = EBADF;
		if (ruleset < 0 || syscall(__NR_landlock_restrict_self, ruleset, r->restrict_flags) < 0)
			fail(c, STAGE_LANDLOCK, 0);
	}
	sigset_t none;
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	if (!(r->flags & RUN_NO_FILTER)) {
		struct sock_fprog prog = {(unsigned short)r->bpf_count, (struct sock_filter *)plan_string(c->k, r->bpf)};
		errno = EINVAL;
		if (!r->bpf_count || syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &prog) < 0)
			fail(c, STAGE_SECCOMP, 0);
	}
	execve(plan_string(c->k, r->path), c->argv, c->envp);
	if (errno == ENOEXEC) // as execvp(3) and every shell do
		execve("/bin/sh", c->shell_argv, c->envp);
	fail(c, STAGE_EXEC, 0);
	return 0;
}

// clone_into makes the command in a v2 control group at once. Writing to
// cgroup.procs instead waits for a grace period of the kernel, several
// milliseconds. clone3 cannot share memory from C without a libc's help, so this
// one copies the keeper, which is small. Returns -1 where clone3 is refused.
static pid_t clone_into(struct command *c, int directory)
{
	struct clone_args a;
	memset(&a, 0, sizeof a);
	a.flags = CLONE_VFORK | CLONE_INTO_CGROUP;
	a.exit_signal = SIGCHLD;
	a.cgroup = (uint64_t)directory;
	c->born_inside = 1;
	pid_t pid = (pid_t)syscall(__NR_clone3, &a, sizeof a);
	if (pid == 0)
		_exit(run_command(c));
	if (pid < 0)
		c->born_inside = 0;
	return pid;
}

static char **strings(struct keeper *k, uint32_t offset, uint32_t count, uint32_t spare)
{
	const uint32_t *at = (const uint32_t *)plan_string(k, offset);
	char **v = calloc((size_t)count + spare + 1, sizeof *v);
	for (uint32_t i = 0; v && i < count; i++)
		v[spare + i] = (char *)plan_string(k, at[i]);
	return v;
}

pid_t command_start(struct keeper *k, const struct run *r, struct report *rep)
{
	enum { STACK = 64 * 1024 };
	struct command c = {k, r, rep, strings(k, r->argv, r->argc, 0), strings(k, r->env, r->envc, 0),
			    strings(k, r->argv, r->argc, 1), getpid(), 0};
	char *stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
	if (!c.argv || !c.envp || !c.shell_argv || stack == MAP_FAILED) {
		rep->stage = STAGE_PLAN;
		rep->error = ENOMEM;
		return -1;
	}
	c.shell_argv[0] = "sh";
	c.shell_argv[1] = (char *)plan_string(k, r->path);
	pid_t pid = -1;
	if (r->flags & RUN_CGROUP_V2)
		pid = clone_into(&c, k->fds[r->cgroup_dir]);
	if (pid < 0)
		pid = clone(run_command, stack + STACK, CLONE_VM | CLONE_VFORK | SIGCHLD, &c);
	if (pid < 0) {
		rep->error = errno;
		rep->stage = STAGE_START;
	}
	free(c.argv);
	free(c.envp);
	free(c.shell_argv);
	munmap(stack, STACK);
	return pid;
}
