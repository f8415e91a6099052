// What binds a process to less: identity, capabilities, Landlock.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/landlock.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "child.h"

#ifndef __NR_landlock_create_ruleset
#define __NR_landlock_create_ruleset 444
#define __NR_landlock_add_rule 445
#define __NR_landlock_restrict_self 446
#endif
#ifndef TIOCGPTPEER
#define TIOCGPTPEER _IO('T', 0x41)
#endif
#define SCOPE_SIGNAL 2ull    // LANDLOCK_SCOPE_SIGNAL, ABI 6
#define REFER (1ull << 13)   // LANDLOCK_ACCESS_FS_REFER, ABI 2
#define PATH_BENEATH 1       // LANDLOCK_RULE_PATH_BENEATH

// Headers older than the kernel lack fields, so the layout is written out here
// (linux/landlock.h of 6.12).
struct ruleset_attr {
	uint64_t handled_fs, handled_net, scoped;
};

int bind_drop_caps(void)
{
	struct __user_cap_header_struct h = {_LINUX_CAPABILITY_VERSION_3, 0};
	struct __user_cap_data_struct d[2];
	memset(d, 0, sizeof d);
	if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0 && errno != EINVAL)
		return -errno;
	return syscall(SYS_capset, &h, d) < 0 ? -errno : 0;
}

// op_bounding needs CAP_SETPCAP. An ordinary user outside a user namespace does
// not have it; no_new_privs keeps the set from mattering there. What is out
// already needs nothing: root inside another sandbox has neither set nor right.
static int op_bounding(const struct op *o)
{
	for (int c = 0; c < 64; c++) {
		int in = prctl(PR_CAPBSET_READ, c, 0, 0, 0);
		if (in < 0 && errno == EINVAL)
			return 0; // past the newest capability
		if (in != 0 && prctl(PR_CAPBSET_DROP, c, 0, 0, 0) < 0)
			return o->c & FLAG_OPTIONAL ? 0 : -errno;
	}
	return 0;
}

// bind_ahead empties the set before there is a plan. Where that is refused the
// plan says whether it must be.
void bind_ahead(struct keeper *k)
{
	struct op o = {.code = OP_BOUNDING};
	k->ahead.bounding = op_bounding(&o) == 0;
}

static int op_user(struct keeper *k, const struct op *o)
{
	const gid_t *groups = (const gid_t *)plan_string(k, o->s1);
	// Groups first: afterwards the right to set them is gone. Raw calls: the
	// libc wrappers are for many threads, this process has one.
	if (syscall(SYS_setgroups, (size_t)o->c, groups) < 0)
		return -errno;
	gid_t gid = (gid_t)o->b;
	uid_t uid = (uid_t)o->a;
	if (syscall(SYS_setresgid, gid, gid, gid) < 0 || syscall(SYS_setresuid, uid, uid, uid) < 0)
		return -errno;
	return 0;
}

// op_files sets what the kernel looks at when a file is opened, and with it the
// capabilities of file modes (capabilities(7)), but not those to mount. The groups
// stay: OP_USER sets them again.
static int op_files(uid_t uid, gid_t gid)
{
	syscall(SYS_setfsgid, gid);
	syscall(SYS_setfsuid, uid);
	// These report no error; an impossible id changes nothing and tells.
	if (syscall(SYS_setfsuid, -1) != (long)uid || syscall(SYS_setfsgid, -1) != (long)gid)
		return -EPERM;
	return 0;
}

static int op_files_of(struct keeper *k, const struct op *o)
{
	if (syscall(SYS_setgroups, (size_t)o->c, (const gid_t *)plan_string(k, o->s1)) < 0)
		return -errno;
	return op_files((uid_t)o->a, (gid_t)o->b);
}

static int op_drop(void)
{
	int r = bind_drop_caps();
	if (r < 0)
		return r;
	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ? -errno : 0;
}

static int create_ruleset(uint64_t fs, uint64_t net, uint64_t scoped)
{
	struct ruleset_attr a = {fs, net, scoped};
	// An older kernel refuses a longer struct only if the rest is not zero.
	return (int)syscall(__NR_landlock_create_ruleset, &a, sizeof a, 0);
}

// control_peer is who made the control socket, as seen from here, or -1. In an
// empty container that is process 1, which elsewhere only adopts.
static pid_t control_peer(void)
{
	struct ucred peer;
	socklen_t size = sizeof peer;
	return getsockopt(CONTROL_FD, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0 ? -1 : peer.pid;
}

// struct landlock_path_beneath_attr
struct path_rule {
	uint64_t access;
	int32_t fd;
} __attribute__((packed));

// scope_ruleset allows everything but signals to processes outside. Every layer
// refuses to move and link files between directories, handled or not, unless a
// rule of its own grants it (linux/landlock.h, LANDLOCK_ACCESS_FS_REFER).
static int scope_ruleset(void)
{
	int fd = create_ruleset(REFER, 0, SCOPE_SIGNAL);
	if (fd < 0)
		return -1;
	struct path_rule rule = {REFER, open("/", O_PATH | O_DIRECTORY | O_CLOEXEC)};
	long r = rule.fd < 0 ? -1 : syscall(__NR_landlock_add_rule, fd, PATH_BENEATH, &rule, 0);
	if (rule.fd >= 0)
		close(rule.fd);
	if (r == 0)
		return fd;
	close(fd);
	return -1;
}

// op_scope binds the keeper to a layer that allows everything but signals to
// processes outside the layer, and then tries it on the starter. Only a refusal
// of what worked just before proves that kill(-1) will stay inside; everything
// else leaves scoped at 0. It comes before OP_USER: after a change of identity
// the starter could be out of reach for that reason alone. A parent that is not
// who made the socket is whoever adopts orphans, not the starter.
static int op_scope(struct keeper *k)
{
	pid_t starter = getppid();
	if (starter < 1 || starter != control_peer() || kill(starter, 0) < 0)
		return 0; // nobody to try it on
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return -errno;
	int fd = scope_ruleset();
	if (fd < 0)
		return 0;
	long r = syscall(__NR_landlock_restrict_self, fd, 0);
	close(fd);
	if (r == 0 && getppid() == starter && kill(starter, 0) < 0 && errno == EPERM)
		k->scoped = 1;
	return 0;
}

static int op_ruleset(struct keeper *k, const struct op *o)
{
	if (k->ruleset >= 0)
		close(k->ruleset);
	k->ruleset = create_ruleset(o->b, o->c, o->a);
	return k->ruleset < 0 ? -errno : 0;
}

// execute, write, read, truncate, ioctl_dev, resolve_unix (linux/landlock.h)
#define FILE_RIGHTS (1ull | 2ull | 4ull | (1ull << 14) | (1ull << 15) | (1ull << 16))

static int op_rule(struct keeper *k, const struct op *o)
{
	int fd = open(plan_string(k, o->s1), O_PATH | O_CLOEXEC);
	if (fd < 0)
		return (o->c & FLAG_OPTIONAL) && (errno == ENOENT || errno == EACCES || errno == ENOTDIR) ? 0 : -errno;
	struct stat st;
	uint64_t access = o->b;
	if (fstat(fd, &st) == 0 && !S_ISDIR(st.st_mode))
		access &= FILE_RIGHTS; // EINVAL otherwise
	struct path_rule rule = {access, fd};
	long r = access ? syscall(__NR_landlock_add_rule, k->ruleset, PATH_BENEATH, &rule, 0) : 0;
	int e = errno;
	close(fd);
	return r < 0 ? -e : 0;
}

// op_pty opens a terminal pair in the view, so that its name exists there.
static int op_pty(struct keeper *k)
{
	int unlock = 0;
	int m = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (m < 0)
		return -errno;
	int s = -1;
	if (ioctl(m, TIOCSPTLCK, &unlock) == 0)
		s = ioctl(m, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (s < 0) {
		int e = errno;
		close(m);
		return -e;
	}
	struct message msg = {.type = MSG_PTY};
	int r = keeper_send(&msg, m);
	close(m);
	k->pty = s;
	return r;
}

int op_bind(struct keeper *k, const struct op *o)
{
	switch (o->code) {
	case OP_BOUNDING:
		return k->ahead.bounding ? 0 : op_bounding(o);
	case OP_USER:
		return op_user(k, o);
	case OP_FILES_OF:
		return op_files_of(k, o);
	case OP_FILES_OWN:
		return op_files(geteuid(), getegid());
	case OP_DROP:
		return op_drop();
	case OP_SCOPE:
		return op_scope(k);
	case OP_SUBREAPER:
		return prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0 ? -errno : 0;
	case OP_RULESET:
		return op_ruleset(k, o);
	case OP_RULE:
		return op_rule(k, o);
	case OP_RULESET_FD:
		k->ruleset = k->fds[o->a];
		return 0;
	case OP_PTY:
		return op_pty(k);
	}
	return -ENOSYS;
}
