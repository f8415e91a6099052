// The keeper: one small process per run, from a fresh exec of this binary, or made
// by one (early.c). It leaves in a constructor, before the Go runtime starts, so it
// has one thread and none of the starter's memory. It builds the view, starts the command,
// reaps everything, and ends everything when the command has ended, when it is
// told to, or when the starter is gone.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <asm/termbits.h>
#include <time.h>
#include <unistd.h>

#include "child.h"

int keeper_send(const struct message *m, int fd)
{
	struct iovec iov = {(void *)m, sizeof *m};
	char space[CMSG_SPACE(sizeof(int))] = {0};
	struct msghdr h = {.msg_iov = &iov, .msg_iovlen = 1};
	if (fd >= 0) {
		h.msg_control = space;
		h.msg_controllen = sizeof space;
		struct cmsghdr *c = CMSG_FIRSTHDR(&h);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(c), &fd, sizeof fd);
	}
	return sendmsg(CONTROL_FD, &h, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

static void give_up(int stage, int error, int detail)
{
	struct message m = {.type = MSG_ERROR, .a = stage, .b = error, .c = detail};
	keeper_send(&m, -1);
	_exit(1);
}

// receive_plan waits for the plan and maps it. A warm keeper sits here, and copies
// itself when it is asked to.
static void receive_plan(struct keeper *k)
{
again:;
	struct message m;
	struct iovec iov = {&m, sizeof m};
	char space[CMSG_SPACE(sizeof(int) * (MAX_FDS + 3))];
	struct msghdr h = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof space};
	ssize_t n = recvmsg(CONTROL_FD, &h, MSG_CMSG_CLOEXEC);
	if (n == 0)
		_exit(0); // the starter went away
	struct cmsghdr *first = CMSG_FIRSTHDR(&h);
	if (n == sizeof m && m.type == MSG_COPY && first && first->cmsg_type == SCM_RIGHTS) {
		int control;
		memcpy(&control, CMSG_DATA(first), sizeof control);
		keeper_copy(&m, control);
		goto again;
	}
	if (n != sizeof m || m.type != MSG_PLAN || h.msg_flags & MSG_CTRUNC)
		give_up(STAGE_PLAN, EPROTO, 0);
	int plan = -1;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&h); c; c = CMSG_NXTHDR(&h, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		int count = (int)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
		int *fds = (int *)CMSG_DATA(c);
		for (int i = 0; i < count; i++) {
			if (plan < 0)
				plan = fds[i];
			else if (k->fd_count < MAX_FDS)
				k->fds[k->fd_count++] = fds[i];
		}
	}
	struct stat st;
	if (plan < 0 || fstat(plan, &st) < 0 || st.st_size < (off_t)sizeof(struct plan))
		give_up(STAGE_PLAN, EPROTO, 1);
	k->plan_size = (size_t)st.st_size;
	k->plan = mmap(NULL, k->plan_size, PROT_READ, MAP_PRIVATE, plan, 0);
	if (k->plan == MAP_FAILED)
		give_up(STAGE_PLAN, errno, 2);
	close(plan);
	const struct plan *p = (const struct plan *)k->plan;
	if (p->magic != PLAN_MAGIC || p->size != k->plan_size)
		give_up(STAGE_PLAN, EPROTO, 3);
}

// await_go waits until the starter has done what comes before the command.
static void await_go(void)
{
	struct message m;
	if (recv(CONTROL_FD, &m, sizeof m, 0) != sizeof m || m.type != MSG_GO)
		_exit(0); // it went away, or gave up
}

static void usage(struct message *m, int who)
{
	struct rusage u;
	if (getrusage(who, &u) < 0)
		return;
	m->v[0] = u.ru_utime.tv_sec * 1000000 + u.ru_utime.tv_usec;
	m->v[1] = u.ru_stime.tv_sec * 1000000 + u.ru_stime.tv_usec;
	m->v[2] = u.ru_maxrss * 1024;
}

// reap collects every ended child and returns how many children are left to
// wait for (0: none).
static int reap(struct keeper *k)
{
	for (;;) {
		siginfo_t si;
		memset(&si, 0, sizeof si);
		if (waitid(P_ALL, 0, &si, WEXITED | WNOHANG | __WALL) < 0)
			return errno == ECHILD ? 0 : 1;
		if (si.si_pid == 0)
			return 1;
		if (si.si_pid == k->command && !k->exited) {
			k->exited = 1;
			struct message m = {.type = MSG_EXIT, .a = si.si_code, .b = si.si_status};
			usage(&m, RUSAGE_CHILDREN);
			keeper_send(&m, -1);
		}
	}
}

// end kills until nothing is left. It has no deadline of its own: the starter
// has one, and a task that the kernel does not let go keeps only this process.
static void end(struct keeper *k)
{
	// Whatever still lives of the tree is a child of this process or below one:
	// orphans come to process 1 or to the subreaper. Mostly nothing is left, and
	// a signal to all walks every task of the machine.
	int left = 0;
	if (!reap(k))
		goto done;
	left = k->exited; // the command had gone, these had not
	if (count_over(k) && !k->scoped && !k->init)
		tree_kill(k, SIGSTOP); // one by one: what was signalled must not fork meanwhile
	for (int round = 0;; round++) {
		tree_kill(k, SIGKILL);
		if (count_over(k) && round == 0)
			count_end(k);
		for (int i = 0; i < 50; i++) {
			if (!reap(k))
				goto done;
			struct timespec t = {0, i < 5 ? 200000 : 2000000};
			nanosleep(&t, NULL);
		}
	}
done:;
	if (k->terminal >= 0) // a starter that was killed left it raw
		ioctl(k->terminal, TCSETS, k->settings); // the kernel's struct, as read by TCGETS
	struct message m = {.type = MSG_DONE, .a = k->exited, .b = count_over(k), .c = left};
	usage(&m, RUSAGE_CHILDREN);
	m.v[3] = k->peak;
	keeper_send(&m, -1);
	_exit(0);
}

static void obey(struct keeper *k, const struct message *m)
{
	switch (m->type) {
	case MSG_SIGNAL:
		if (!k->exited && k->command > 1)
			kill(-k->command, m->a);
		break;
	case MSG_SIGNAL_ALL:
		tree_kill(k, m->a);
		if (m->a == SIGTERM) // a stopped process cannot act on it otherwise
			tree_kill(k, SIGCONT);
		break;
	case MSG_END:
		end(k);
		break;
	case MSG_MEASURE: {
		struct message s = {.type = MSG_SAMPLE};
		tree_measure(k, &s.v[0], &s.v[1], &s.v[2]);
		keeper_send(&s, -1);
		if (k->task_limit > 0)
			count_note(k, s.v[0]);
		if (count_over(k))
			end(k);
		break;
	}
	}
}

static void watch(struct keeper *k, int signals)
{
	struct pollfd p[2] = {{CONTROL_FD, POLLIN, 0}, {signals, POLLIN, 0}};
	for (;;) {
		if (poll(p, 2, count_wait(k)) < 0 && errno != EINTR)
			end(k);
		if (count_wait(k) == 0)
			count_look(k);
		if (count_over(k))
			end(k);
		if (p[1].revents & POLLIN) {
			struct signalfd_siginfo si;
			while (read(signals, &si, sizeof si) > 0)
				;
			reap(k);
			if (k->exited) {
				count_look(k); // it may have been at its limit when it left
				end(k); // what the command left behind ends with it
			}
		}
		if (p[0].revents & POLLIN) {
			struct message m;
			ssize_t n = recv(CONTROL_FD, &m, sizeof m, MSG_DONTWAIT);
			if (n == sizeof m)
				obey(k, &m);
			else if (n == 0)
				end(k); // the starter went away
		} else if (p[0].revents & (POLLHUP | POLLERR)) {
			end(k);
		}
	}
}

static void start_command(struct keeper *k, const struct op *o)
{
	// Shared: the command may be a copy of this process, see clone_into.
	struct report *rep = mmap(NULL, sizeof *rep, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (rep == MAP_FAILED)
		give_up(STAGE_PLAN, errno, 4);
	int score = oom_raise(k->oom);
	k->command = command_start(k, (const struct run *)plan_string(k, o->s1), rep);
	oom_restore(k->oom, score);
	k->oom = -1;
	if (rep->stage) {
		if (k->command > 0)
			waitpid(k->command, NULL, 0);
		give_up(rep->stage, rep->error, rep->detail);
	}
	struct message m = {.type = MSG_STARTED, .a = k->command, .b = k->scoped || k->init};
	keeper_send(&m, -1);
}

void keeper_main(int early, uint64_t namespaces)
{
	static struct keeper k = {.masks = {-1, -1}, .root = -1, .ruleset = -1, .pty = -1, .terminal = -1,
				  .ahead = {.proc = -1, .devpts = -1}};
	for (int i = 0; i < MAX_SLOTS; i++)
		k.slots[i] = -1;
	// Nothing of the starter's signal state: handlers that were "ignore" survive
	// an exec. All stay blocked here; the command gets an empty mask.
	for (int s = 1; s < 65; s++)
		signal(s, SIG_DFL);
	sigset_t all, child;
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	int signals = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
	fcntl(CONTROL_FD, F_SETFD, FD_CLOEXEC);
	k.init = getpid() == 1;
	k.oom = k.init ? -1 : oom_open();
	prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	setsid();
	if (early) {
		mount_ahead(&k, namespaces);
		bind_ahead(&k);
	}
	receive_plan(&k);
	if (signals < 0)
		give_up(STAGE_START, errno, 3);
	const struct plan *p = (const struct plan *)k.plan;
	const struct op *ops = (const struct op *)(p + 1);
	for (uint32_t i = 0; i < p->ops; i++) {
		const struct op *o = &ops[i];
		if (o->code == OP_RUN) {
			start_command(&k, o);
			continue;
		}
		if (o->code == OP_READY) {
			struct message m = {.type = MSG_STARTED, .b = k.scoped || k.init};
			keeper_send(&m, -1);
			continue;
		}
		if (o->code == OP_TASKS) {
			count_start(&k, (int64_t)o->b, (int)o->a);
			continue;
		}
		if (o->code == OP_WAIT) {
			await_go();
			continue;
		}
		if (o->code == OP_TERMINAL) {
			k.terminal = fcntl(k.fds[o->a], F_DUPFD_CLOEXEC, CONTROL_FD + 1);
			k.settings = plan_string(&k, o->s1);
			continue;
		}
		int r = o->code < OP_BOUNDING || o->code == OP_SEAL ? op_mount(&k, o) : op_bind(&k, o);
		if ((r == -ENOENT || r == -EACCES || r == -ENOTDIR) && o->c & FLAG_OPTIONAL)
			r = 0;
		if (r < 0)
			give_up(STAGE_OP, -r, (int)i);
	}
	// Only the control socket is needed from here: a held pipe end would keep
	// the starter from seeing the end of the output.
	for (int i = 0; i < k.fd_count; i++)
		close(k.fds[i]);
	if (k.pty >= 0)
		close(k.pty);
	if (k.ruleset >= 0)
		close(k.ruleset);
	watch(&k, signals);
}

__attribute__((constructor)) static void keeper_entry(int argc, char **argv)
{
	if (argc == 1 && argv && argv[0] && strcmp(argv[0], KEEPER_NAME) == 0)
		keeper_main(0, 0);
}
