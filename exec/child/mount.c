// Mount work, walked from data. Sources are taken as detached trees before the
// new root covers anything, so nothing depends on what a path means afterwards.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <linux/openat2.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "child.h"

// linux/mount.h and sys/mount.h of older libcs exclude each other.
extern int mount(const char *, const char *, const char *, unsigned long, const void *);
extern int umount2(const char *, int);
#define MNT_DETACH 2

#ifndef AT_RECURSIVE
#define AT_RECURSIVE 0x8000
#endif
#ifndef __NR_open_tree
#define __NR_open_tree 428
#define __NR_move_mount 429
#define __NR_fsopen 430
#define __NR_fsconfig 431
#define __NR_fsmount 432
#endif
#ifndef __NR_openat2
#define __NR_openat2 437
#endif
#ifndef __NR_mount_setattr
#define __NR_mount_setattr 442
#endif

static int open_path(int dir, const char *path, uint64_t resolve)
{
	struct open_how how = {.flags = O_PATH | O_CLOEXEC | O_NOFOLLOW, .resolve = resolve};
	if (!(resolve & RESOLVE_NO_SYMLINKS))
		how.flags &= ~(uint64_t)O_NOFOLLOW;
	for (int tries = 0; tries < 100; tries++) {
		int fd = (int)syscall(__NR_openat2, dir, path, &how, sizeof how);
		if (fd >= 0 || errno != EAGAIN)
			return fd;
	}
	return -1;
}

static const char *relative(const char *path)
{
	while (*path == '/')
		path++;
	return *path ? path : ".";
}

// open_in_root never follows a link: the workspace is in the view by then, and
// whoever wrote to it last must not choose what is covered.
static int open_in_root(struct keeper *k, const char *path)
{
	return open_path(k->root, relative(path), RESOLVE_IN_ROOT | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS);
}

static int set_attributes(int fd, uint64_t attrs, int recursive)
{
	struct mount_attr a = {.attr_set = attrs};
	return (int)syscall(__NR_mount_setattr, fd, "", AT_EMPTY_PATH | (recursive ? AT_RECURSIVE : 0), &a, sizeof a);
}

static int clone_tree(int fd)
{
	return (int)syscall(__NR_open_tree, fd, "", AT_EMPTY_PATH | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE);
}

static int op_tree(struct keeper *k, const struct op *o)
{
	int fd = open_path(AT_FDCWD, plan_string(k, o->s1), o->c & FLAG_FOLLOW ? 0 : RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS);
	if (fd < 0)
		return -errno;
	int tree = clone_tree(fd), e = errno;
	close(fd);
	if (tree < 0)
		return -e;
	if (set_attributes(tree, o->b, 1) < 0) {
		e = errno;
		close(tree);
		return -e;
	}
	k->slots[o->a] = tree;
	return 0;
}

// new_filesystem makes a detached mount. options is "key=value,key=value".
static int new_filesystem(const char *type, const char *options, uint64_t attrs)
{
	int fs = (int)syscall(__NR_fsopen, type, FSOPEN_CLOEXEC);
	if (fs < 0)
		return -1;
	char text[256];
	snprintf(text, sizeof text, "%s", options);
	for (char *save, *p = strtok_r(text, ",", &save); p; p = strtok_r(NULL, ",", &save)) {
		char *value = strchr(p, '=');
		if (value)
			*value++ = 0;
		if (syscall(__NR_fsconfig, fs, value ? FSCONFIG_SET_STRING : FSCONFIG_SET_FLAG, p, value, 0) < 0)
			goto out;
	}
	if (syscall(__NR_fsconfig, fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
		goto out;
	int mnt = (int)syscall(__NR_fsmount, fs, FSMOUNT_CLOEXEC, attrs);
	int e = errno;
	close(fs);
	errno = e;
	return mnt;
out:
	e = errno;
	close(fs);
	errno = e;
	return -1;
}

static int op_filesystem(struct keeper *k, const struct op *o, const char *type, const char *options)
{
	int fd = new_filesystem(type, options, o->b);
	if (fd < 0)
		return -errno;
	k->slots[o->a] = fd;
	return 0;
}

// make_parents makes every missing directory above the last component.
static int make_parents(struct keeper *k, const char *path, char *last, size_t size)
{
	int dir = dup(k->root);
	const char *p = relative(path);
	for (;;) {
		size_t n = strcspn(p, "/");
		if (n >= size) {
			close(dir);
			return -ENAMETOOLONG;
		}
		memcpy(last, p, n);
		last[n] = 0;
		const char *next = p + n;
		while (*next == '/')
			next++;
		if (!*next)
			return dir;
		mkdirat(dir, last, 0755);
		int fd = open_path(dir, last, RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS);
		int e = errno;
		close(dir);
		if (fd < 0)
			return -e;
		dir = fd;
		p = next;
	}
}

static int make_entry(struct keeper *k, const char *path, mode_t mode, const char *link, int file)
{
	char last[256];
	int dir = make_parents(k, path, last, sizeof last);
	if (dir < 0)
		return dir;
	int r = 0;
	if (link) {
		r = symlinkat(link, dir, last);
	} else if (file) {
		r = openat(dir, last, O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW | O_RDONLY, mode);
		if (r >= 0)
			close(r), r = 0;
	} else {
		r = mkdirat(dir, last, mode);
	}
	int e = errno;
	close(dir);
	return r < 0 && e != EEXIST ? -e : 0;
}

static int attach(int tree, int target)
{
	return (int)syscall(__NR_move_mount, tree, "", target, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH);
}

static int op_attach(struct keeper *k, const struct op *o)
{
	int tree = k->slots[o->a];
	if (tree < 0)
		return o->c & FLAG_OPTIONAL ? 0 : -EBADF; // its source was missing
	const char *path = plan_string(k, o->s1);
	int target = open_in_root(k, path);
	if (target < 0 && errno == ENOENT && o->c & (FLAG_MKDIR | FLAG_MKFILE)) {
		int r = make_entry(k, path, o->c & FLAG_MKDIR ? 0755 : 0444, NULL, !(o->c & FLAG_MKDIR));
		if (r < 0)
			return r;
		target = open_in_root(k, path);
	}
	if (target < 0)
		return -errno;
	int r = attach(tree, target), e = errno;
	close(target);
	if (o->c & FLAG_KEEP)
		return r < 0 ? -e : 0;
	close(tree);
	k->slots[o->a] = -1;
	return r < 0 ? -e : 0;
}

static int op_rebind(struct keeper *k, const struct op *o)
{
	int target = open_in_root(k, plan_string(k, o->s1));
	if (target < 0)
		return -errno;
	int r = -1, tree = clone_tree(target);
	if (tree >= 0 && (r = set_attributes(tree, o->b, 1)) == 0)
		r = attach(tree, target);
	int e = errno;
	if (tree >= 0)
		close(tree);
	close(target);
	return r < 0 ? -e : 0;
}

// op_mask covers a path with a read-only entry of mode 0 on the root's own
// tmpfs: reading is refused, and a write is refused instead of vanishing.
static int op_mask(struct keeper *k, const struct op *o)
{
	int target = open_in_root(k, plan_string(k, o->s1));
	if (target < 0)
		return -errno;
	struct stat st;
	int r = fstat(target, &st), tree = -1;
	const char *name = S_ISDIR(st.st_mode) ? ".denied-directory" : ".denied-file";
	if (r == 0) {
		r = make_entry(k, name, 0, NULL, !S_ISDIR(st.st_mode));
		if (r == 0) {
			int source = open_in_root(k, name);
			r = source;
			if (source >= 0) {
				r = tree = clone_tree(source);
				close(source);
			}
		} else {
			errno = -r;
		}
	}
	if (tree >= 0 && (r = set_attributes(tree, MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC, 1)) == 0)
		r = attach(tree, target);
	int e = errno;
	if (tree >= 0)
		close(tree);
	close(target);
	return r < 0 ? -e : 0;
}

// op_root mounts the tree somewhere in the old view, so that other mounts can be
// attached below it. What it covers there was already taken by OP_TREE.
static int op_root(struct keeper *k, const struct op *o)
{
	static const char *const places[] = {"/proc", "/tmp", "/usr", "/dev", "/etc"};
	int tree = k->slots[o->a], e = ENOENT;
	for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
		int target = open_path(AT_FDCWD, places[i], RESOLVE_NO_SYMLINKS);
		if (target < 0)
			continue;
		int r = attach(tree, target);
		e = errno;
		close(target);
		if (r == 0) {
			k->root = tree; // the descriptor of a mount is its root directory
			k->slots[o->a] = -1;
			return 0;
		}
	}
	return -e;
}

static int op_pivot(struct keeper *k)
{
	// pivot_root(".", ".") stacks the old root on the new one, see the notes
	// of pivot_root(2); detaching "." then takes the old one away.
	if (fchdir(k->root) < 0 || syscall(SYS_pivot_root, ".", ".") < 0 || umount2(".", MNT_DETACH) < 0 || chdir("/") < 0)
		return -errno;
	close(k->root);
	k->root = -1;
	return 0;
}

static int op_loopback(void)
{
	int s = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (s < 0)
		return -errno;
	struct ifreq r = {.ifr_name = "lo"};
	int bad = ioctl(s, SIOCGIFFLAGS, &r);
	if (bad == 0) {
		r.ifr_flags |= IFF_UP | IFF_RUNNING;
		bad = ioctl(s, SIOCSIFFLAGS, &r);
	}
	int e = errno;
	close(s);
	return bad < 0 ? -e : 0;
}

static int op_pidmax(const struct op *o)
{
	char text[32];
	int n = snprintf(text, sizeof text, "%llu", (unsigned long long)o->b);
	int fd = open("/proc/sys/kernel/pid_max", O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	ssize_t w = write(fd, text, (size_t)n);
	int e = errno;
	close(fd);
	return w < 0 ? -e : 0;
}

int op_mount(struct keeper *k, const struct op *o)
{
	const char *s1 = plan_string(k, o->s1);
	switch (o->code) {
	case OP_PRIVATE:
		return mount(NULL, "/", NULL, (1 << 14) | (1 << 18), NULL) < 0 ? -errno : 0; // MS_REC | MS_PRIVATE
	case OP_TREE:
		return op_tree(k, o);
	case OP_TMPFS:
		return op_filesystem(k, o, "tmpfs", s1);
	case OP_PROC:
		return op_filesystem(k, o, "proc", "");
	case OP_DEVPTS:
		return op_filesystem(k, o, "devpts", "newinstance,ptmxmode=0666,mode=0620");
	case OP_ROOT:
		return op_root(k, o);
	case OP_MKDIR:
		return make_entry(k, s1, o->a, NULL, 0);
	case OP_MKFILE:
		return make_entry(k, s1, o->a, NULL, 1);
	case OP_SYMLINK:
		return make_entry(k, s1, 0, plan_string(k, o->s2), 0);
	case OP_ATTACH:
		return op_attach(k, o);
	case OP_REBIND:
		return op_rebind(k, o);
	case OP_MASK:
		return op_mask(k, o);
	case OP_ROOT_RDONLY:
		return set_attributes(k->root, MOUNT_ATTR_RDONLY, 0) < 0 ? -errno : 0;
	case OP_SEAL:
		return set_attributes(k->slots[o->a], MOUNT_ATTR_RDONLY, 0) < 0 ? -errno : 0;
	case OP_PIVOT:
		return op_pivot(k);
	case OP_LOOPBACK:
		return op_loopback();
	case OP_PIDMAX:
		return op_pidmax(o);
	}
	return -ENOSYS;
}
