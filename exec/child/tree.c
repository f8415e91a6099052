// What lives below the keeper, and how it ends.
#define _GNU_SOURCE
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "child.h"

static long read_small(const char *path, char *buf, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	ssize_t n = read(fd, buf, size - 1);
	close(fd);
	if (n < 0)
		return -1;
	buf[n] = 0;
	return n;
}

// parent_of returns the parent of pid, or -1.
static pid_t parent_of(pid_t pid)
{
	char path[64], buf[512];
	snprintf(path, sizeof path, "/proc/%d/stat", pid);
	if (read_small(path, buf, sizeof buf) < 0)
		return -1;
	// The name may hold blanks and parentheses: fields follow the last one.
	char *p = strrchr(buf, ')');
	int parent;
	char state;
	if (!p || sscanf(p + 1, " %c %d", &state, &parent) != 2)
		return -1;
	return parent;
}

struct process {
	pid_t pid, parent;
	int inside;
};

// list fills *out with the processes below the keeper. Without a scope or a pid
// namespace the parent chain tells; a chain that re-forks faster than this walk
// can be missed, which MSG_STARTED reports (b = 0).
static size_t list(struct keeper *k, struct process **out)
{
	DIR *d = opendir("/proc");
	size_t n = 0, cap = 256;
	struct process *ps = malloc(cap * sizeof *ps);
	if (!d || !ps) {
		if (d)
			closedir(d);
		free(ps);
		*out = NULL;
		return 0;
	}
	pid_t self = getpid();
	for (struct dirent *e; (e = readdir(d));) {
		if (!isdigit((unsigned char)e->d_name[0]))
			continue;
		pid_t pid = atoi(e->d_name);
		if (pid == self)
			continue;
		if (k->scoped && kill(pid, 0) < 0)
			continue;
		if (n == cap) {
			struct process *more = realloc(ps, 2 * cap * sizeof *ps);
			if (!more)
				break;
			ps = more;
			cap *= 2;
		}
		ps[n++] = (struct process){pid, k->scoped || k->init ? self : parent_of(pid), 0};
	}
	closedir(d);
	for (int changed = 1; changed;) {
		changed = 0;
		for (size_t i = 0; i < n; i++) {
			if (ps[i].inside)
				continue;
			int in = ps[i].parent == self;
			for (size_t j = 0; !in && j < n; j++)
				in = ps[j].inside && ps[j].pid == ps[i].parent;
			if (in)
				ps[i].inside = changed = 1;
		}
	}
	*out = ps;
	return n;
}

// tree_kill sends signal to every process below the keeper.
//
// kill(-1) reaches whatever this process may signal. It is used only where that
// is the run and nothing else: as process 1 of a pid namespace, or bound to a
// Landlock layer that scopes signals, which OP_SCOPE has tried on the starter.
void tree_kill(struct keeper *k, int signal)
{
	if ((k->init && getpid() == 1) || k->scoped) {
		kill(-1, signal);
		return;
	}
	struct process *ps;
	size_t n = list(k, &ps);
	for (size_t i = 0; i < n; i++)
		if (ps[i].inside)
			kill(ps[i].pid, signal);
	free(ps);
}

static int64_t tasks_of(pid_t pid)
{
	char path[64], buf[2048];
	snprintf(path, sizeof path, "/proc/%d/status", pid);
	if (read_small(path, buf, sizeof buf) < 0)
		return 0;
	char *p = strstr(buf, "\nThreads:");
	return p ? atoll(p + 9) : 1;
}

void tree_measure(struct keeper *k, int64_t *tasks, int64_t *private_bytes, int64_t *shared_bytes)
{
	struct process *ps;
	size_t n = list(k, &ps);
	long page = sysconf(_SC_PAGESIZE);
	*tasks = *private_bytes = *shared_bytes = 0;
	for (size_t i = 0; i < n; i++) {
		if (!ps[i].inside)
			continue;
		*tasks += tasks_of(ps[i].pid);
		char path[64], buf[256];
		long size, resident, shared;
		snprintf(path, sizeof path, "/proc/%d/statm", ps[i].pid);
		if (read_small(path, buf, sizeof buf) > 0 && sscanf(buf, "%ld %ld %ld", &size, &resident, &shared) == 3) {
			*private_bytes += (resident - shared) * page;
			*shared_bytes += shared * page;
		}
	}
	free(ps);
}
