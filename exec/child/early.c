// Keepers made by copying a process in which nothing has happened yet but the start
// of libc: another keeper that waits, or a process that is going to run one
// command, before the Go runtime starts. Namespaces take as long to make as the runtime takes to
// start, so both are done at once. A copy needs no exec of its own.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <malloc.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "child.h"

#ifndef __NR_clone3
#define __NR_clone3 435
#endif
// sched.h and linux/sched.h of some libcs exclude each other.
extern int unshare(int);
#define NEWNS 0x00020000ull
#define NEWUSER 0x10000000ull
#define NEWPID 0x20000000ull
#define NEWNET 0x40000000ull
#define NEWIPC 0x08000000ull
#define LATER (NEWNS | NEWIPC | NEWNET)

static struct early early = {.pidfd = -1, .control = -1};

// starts_with returns what follows in s, or NULL.
static const char *starts_with(const char *s, const char *start)
{
	size_t n = strlen(start);
	return strncmp(s, start, n) == 0 ? s + n : NULL;
}

// foresee guesses the namespaces of the run from its flags. Policy files are not
// read here: a guess that is wrong costs a process that ends at once. It returns
// -1 for a run that will need none or another kind.
static int foresee(int argc, char **argv, uint64_t *flags)
{
	static const char *const other[] = {"user", "net", "dry-run", "help", "h"};
	*flags = NEWNS | NEWPID | NEWIPC | NEWNET | (geteuid() ? NEWUSER : 0);
	for (int i = 2; i < argc && argv[i][0] == '-'; i++) {
		const char *name = argv[i] + 1 + (argv[i][1] == '-');
		if (!*name)
			break; // "--": the command follows
		for (size_t j = 0; j < sizeof other / sizeof *other; j++) {
			const char *rest = starts_with(name, other[j]);
			if (rest && (!*rest || *rest == '='))
				return -1;
		}
		const char *tier = starts_with(name, "tier");
		if (tier && strcmp(*tier == '=' ? tier + 1 : i + 1 < argc ? argv[i + 1] : "", "base") == 0)
			*flags = 0;
	}
	return 0;
}

// forget wipes what the caller passed, which is all that is in this memory: its
// environment may hold secrets. The name of the process goes in its place.
static void forget(int argc, char **argv, char **envp)
{
	char *end = argv[0];
	for (int i = 0; i < argc; i++)
		if (argv[i] == end)
			end += strlen(end) + 1;
	for (int i = 0; envp[i]; i++)
		if (envp[i] == end)
			end += strlen(end) + 1;
	memset(argv[0], 0, (size_t)(end - argv[0]));
	if ((size_t)(end - argv[0]) > sizeof KEEPER_NAME)
		memcpy(argv[0], KEEPER_NAME, sizeof KEEPER_NAME);
	prctl(PR_SET_NAME, KEEPER_NAME, 0, 0, 0);
}

// clone_keeper copies this process. It returns the pid, 0 in the copy, or -1. As a
// sibling the copy is a child of whoever started this process.
static pid_t clone_keeper(uint64_t flags, uint64_t sibling, int *pidfd)
{
	struct clone_args a;
	memset(&a, 0, sizeof a);
	a.flags = (flags & ~LATER) | CLONE_PIDFD | sibling;
	a.pidfd = (uint64_t)(uintptr_t)pidfd;
	a.exit_signal = sibling ? 0 : SIGCHLD; // a sibling has that of this process
	return (pid_t)syscall(__NR_clone3, &a, sizeof a);
}

// become is the rest of a copy's life. The identity is mapped as start_child does
// it; without an exec no capability needs to be carried over. What fails is said
// in place of the readiness.
static void become(int control, uint64_t flags, uid_t uid, gid_t gid)
{
	int stage = STAGE_START;
	struct message m = {.type = MSG_EARLY};
	if (control != CONTROL_FD && dup2(control, CONTROL_FD) < 0)
		_exit(1);
	for (int fd = 0; fd < CONTROL_FD; fd++)
		close(fd);
	if (syscall(__NR_close_range, CONTROL_FD + 1, ~0u, 0) < 0)
		goto failed;
	if (flags & NEWUSER) {
		stage = STAGE_USERNS;
		prctl(PR_SET_DUMPABLE, 1, 0, 0, 0); // else the map belongs to root (proc(5))
		if ((m.c = child_map(uid, gid)) != 0)
			goto failed;
		stage = STAGE_START;
	}
	// What a clone with these flags would do while the starter waits for it.
	if (flags & LATER && unshare((int)(flags & LATER)) < 0)
		goto failed;
	if (keeper_send(&m, -1) < 0)
		_exit(1);
	keeper_main(1, flags);
failed:
	m.type = MSG_ERROR;
	m.a = stage;
	m.b = errno;
	keeper_send(&m, -1);
	_exit(1);
}

// keeper_copy answers MSG_COPY: a keeper that has no plan yet makes another one,
// with control as its socket, and hands out its pidfd.
void keeper_copy(const struct message *m, int control)
{
	int pidfd = -1;
	pid_t pid = clone_keeper((uint64_t)m->v[0], CLONE_PARENT, &pidfd);
	if (pid == 0)
		become(control, (uint64_t)m->v[0], (uid_t)m->v[1], (gid_t)m->v[2]);
	struct message answer = {.type = MSG_COPIED, .a = pid < 0 ? errno : 0};
	close(control);
	keeper_send(&answer, pidfd);
	if (pidfd >= 0)
		close(pidfd);
}

static void start_early(int argc, char **argv, char **envp)
{
	uint64_t flags;
	int pair[2];
	// The socket must not become a standard stream of a caller that closed one.
	for (int fd = 0; fd < CONTROL_FD; fd++)
		if (fcntl(fd, F_GETFD) < 0)
			return;
	if (foresee(argc, argv, &flags) < 0 || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return;
	uid_t uid = geteuid();
	gid_t gid = getegid();
	int pidfd = -1;
	pid_t pid = clone_keeper(flags, 0, &pidfd);
	if (pid == 0) {
		forget(argc, argv, envp);
		become(pair[1], flags, uid, gid);
	}
	close(pair[1]);
	if (pid < 0) {
		close(pair[0]); // the usual way will say why
		return;
	}
	made_note(pid);
	early = (struct early){.flags = flags, .pidfd = pidfd, .control = pair[0]};
}

struct early child_early(void)
{
	struct early e = early;
	early = (struct early){.pidfd = -1, .control = -1};
	return e;
}

// caller_slack is the timer slack that this process was started with, in
// nanoseconds; 0 means that it still has it.
unsigned long caller_slack;

// The Go runtime's monitor thread sleeps 20 us at a time while there is work. In
// one short run that is a quarter of the processor time and half of the context
// switches. Threads inherit the slack, so it is set before the runtime starts;
// the keeper and the command get the caller's back. For deadlines of a run 1 ms
// does not matter. A process that serves many runs keeps its timers: there the
// monitor also takes processors back from blocking calls.
enum { RUN_SLACK = 1000 * 1000 };

__attribute__((constructor)) static void starter_entry(int argc, char **argv, char **envp)
{
	if (argc < 2 || !argv || !argv[0] || !argv[1] || strcmp(argv[1], "run") != 0)
		return;
	start_early(argc, argv, envp);
	int slack = prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0);
	if (slack > 0 && slack < RUN_SLACK && prctl(PR_SET_TIMERSLACK, RUN_SLACK, 0, 0, 0) == 0)
		caller_slack = (unsigned long)slack;
#ifdef M_ARENA_MAX
	// One heap of C for all threads: it is hardly used, and each thread would
	// map one of its own.
	mallopt(M_ARENA_MAX, 1);
#endif
}
