// Mount work, walked from data. Sources are taken as detached trees before the
// new root covers anything, so nothing depends on what a path means afterwards.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/mount.h>
#include <linux/openat2.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
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

// open_cover opens what OP_REBIND or OP_MASK covers. Another run may have the same
// tree to write in: a name that it moves away while this one starts must not stay
// uncovered, nor a decoy be covered in its place. The mount goes onto the file
// that was looked at here, whatever the name means later.
static int open_cover(struct keeper *k, const struct op *o)
{
	int fd = open_in_root(k, plan_string(k, o->s1));
	if (!(o->c & FLAG_SAME))
		return fd;
	if (fd < 0) {
		if (errno == ENOENT || errno == ENOTDIR || errno == ELOOP)
			errno = ESTALE;
		return -1;
	}
	const struct same *want = (const struct same *)plan_string(k, o->s2);
	struct stat st;
	if (fstat(fd, &st) == 0 && st.st_dev == want->dev && st.st_ino == want->ino)
		return fd;
	close(fd);
	errno = ESTALE;
	return -1;
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

// make_parents opens the directory above path's last component and makes what is
// missing on the way. It never follows a link: a private home was written to by
// earlier commands.
static int make_parents(struct keeper *k, const char *path, const char **last)
{
	const uint64_t resolve = RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
	const char *p = relative(path), *slash = strrchr(p, '/');
	char part[PATH_MAX];
	*last = slash ? slash + 1 : p;
	if (!slash) {
		int root = dup(k->root);
		return root < 0 ? -errno : root;
	}
	if ((size_t)(slash - p) >= sizeof part)
		return -ENAMETOOLONG;
	memcpy(part, p, (size_t)(slash - p));
	part[slash - p] = 0;
	int dir = open_path(k->root, part, RESOLVE_IN_ROOT | resolve);
	if (dir >= 0 || errno != ENOENT)
		return dir < 0 ? -errno : dir;
	dir = dup(k->root);
	for (char *save, *name = strtok_r(part, "/", &save); name && dir >= 0; name = strtok_r(NULL, "/", &save)) {
		mkdirat(dir, name, 0755);
		int next = open_path(dir, name, RESOLVE_BENEATH | resolve);
		close(dir);
		dir = next;
	}
	return dir < 0 ? -errno : dir;
}

// make_in makes one entry in an open directory. What is there already is fine.
static int make_in(int dir, const char *name, mode_t mode, const char *link, int file)
{
	int r = link ? symlinkat(link, dir, name) : file ? mknodat(dir, name, S_IFREG | mode, 0) : mkdirat(dir, name, mode);
	return r < 0 && errno != EEXIST ? -errno : 0;
}

static int make_entry(struct keeper *k, const char *path, mode_t mode, const char *link, int file)
{
	const char *last;
	int dir = make_parents(k, path, &last);
	if (dir < 0)
		return dir;
	int r = make_in(dir, last, mode, link, file);
	close(dir);
	return r;
}

static int attach(int tree, int target)
{
	return (int)syscall(__NR_move_mount, tree, "", target, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH);
}

// mount_point opens what a mount goes onto, and makes it where that is allowed.
// It returns -1 with errno.
static int mount_point(struct keeper *k, const char *path, uint64_t flags)
{
	if (!(flags & (FLAG_MKDIR | FLAG_MKFILE)))
		return open_in_root(k, path);
	const char *last;
	int dir = make_parents(k, path, &last);
	if (dir < 0) {
		errno = -dir;
		return -1;
	}
	int r = make_in(dir, last, flags & FLAG_MKDIR ? 0755 : 0444, NULL, !(flags & FLAG_MKDIR));
	int target = -1;
	if (r == 0)
		target = open_path(dir, last, RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS);
	int e = r < 0 ? -r : errno;
	close(dir);
	errno = e;
	return target;
}

static int op_attach(struct keeper *k, const struct op *o)
{
	int tree = k->slots[o->a];
	if (tree < 0)
		return o->c & FLAG_OPTIONAL ? 0 : -EBADF; // its source was missing
	int target = mount_point(k, plan_string(k, o->s1), o->c);
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
	int target = open_cover(k, o);
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

// mask_source makes the entry that denied paths are covered with, once for each
// kind: of mode 0 on the root's own tmpfs, and bound onto itself read-only, so
// that a clone of it needs no more attributes.
static int mask_source(struct keeper *k, int directory)
{
	int *source = &k->masks[directory];
	if (*source >= 0)
		return *source;
	const char *name = directory ? ".denied-directory" : ".denied-file";
	int r = make_entry(k, name, 0, NULL, !directory);
	if (r < 0)
		return r;
	int plain = open_in_root(k, name);
	int tree = plain < 0 ? -1 : clone_tree(plain);
	r = tree;
	if (tree >= 0 && (r = set_attributes(tree, MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC, 1)) == 0 &&
	    (r = attach(tree, plain)) == 0)
		*source = tree;
	int e = errno;
	if (plain >= 0)
		close(plain);
	if (r < 0 && tree >= 0)
		close(tree);
	return r < 0 ? -e : *source;
}

// op_mask covers a path: reading is refused, and a write is refused instead of
// vanishing.
static int op_mask(struct keeper *k, const struct op *o)
{
	int target = open_cover(k, o);
	if (target < 0)
		return -errno;
	struct stat st;
	int r = fstat(target, &st), e = errno;
	if (r == 0) {
		int source = mask_source(k, S_ISDIR(st.st_mode));
		int tree = source < 0 ? -1 : clone_tree(source);
		e = source < 0 ? -source : errno;
		r = tree;
		if (tree >= 0) {
			r = attach(tree, target);
			e = errno;
			close(tree);
		}
	}
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
		if (o->a && unshare(CLONE_NEWNS) < 0)
			return -errno;
		return mount(NULL, "/", NULL, (1 << 14) | (1 << 18), NULL) < 0 ? -errno : 0; // MS_REC | MS_PRIVATE
	case OP_TREE:
		return op_tree(k, o);
	case OP_TMPFS:
	case OP_PROC:
	case OP_DEVPTS:
	case OP_LOOPBACK:
		return op_filesystem(k, o);
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
	case OP_PIDMAX:
		return op_pidmax(o);
	}
	return -ENOSYS;
}
