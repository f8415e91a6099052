// What a view is made of besides trees of the host: fresh file systems and the
// loopback device. They depend on nothing in the plan, so that a keeper with time
// on its hands makes them ahead.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <linux/mount.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "child.h"

#ifndef __NR_fsopen
#define __NR_fsopen 430
#define __NR_fsconfig 431
#define __NR_fsmount 432
#endif
#define DEVPTS "newinstance,ptmxmode=0666,mode=0620"

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

// ready takes a mount that was made ahead, or -1.
static int ready(int *mount, uint64_t attrs, uint64_t wanted)
{
	int fd = attrs == wanted ? *mount : -1;
	if (fd >= 0)
		*mount = -1;
	return fd;
}

static int attachable(struct keeper *k, const struct op *o, const char *type, const char *options, int made)
{
	int fd = made >= 0 ? made : new_filesystem(type, options, o->b);
	if (fd < 0)
		return -errno;
	k->slots[o->a] = fd;
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

// mount_ahead does what every plan for these namespaces asks for and what depends
// on nothing in it, while the starter still works the plan out. What fails here
// is tried again when the plan asks for it, and reported then.
void mount_ahead(struct keeper *k, uint64_t namespaces)
{
	if (namespaces & CLONE_NEWNET)
		k->ahead.loopback = op_loopback() == 0;
	if (namespaces & CLONE_NEWNS && namespaces & CLONE_NEWPID) {
		k->ahead.proc = new_filesystem("proc", "", AHEAD_PROC_ATTRS);
		k->ahead.devpts = new_filesystem("devpts", DEVPTS, AHEAD_DEVPTS_ATTRS);
	}
}

// op_filesystem makes what the plan asks for, or takes what was made ahead.
int op_filesystem(struct keeper *k, const struct op *o)
{
	switch (o->code) {
	case OP_TMPFS:
		return attachable(k, o, "tmpfs", plan_string(k, o->s1), -1);
	case OP_PROC:
		return attachable(k, o, "proc", "", ready(&k->ahead.proc, AHEAD_PROC_ATTRS, o->b));
	case OP_DEVPTS:
		return attachable(k, o, "devpts", DEVPTS, ready(&k->ahead.devpts, AHEAD_DEVPTS_ATTRS, o->b));
	case OP_LOOPBACK:
		return k->ahead.loopback ? 0 : op_loopback();
	}
	return -ENOSYS;
}
