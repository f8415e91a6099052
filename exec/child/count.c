// How many tasks the run has. Where no control group and no limit of its own
// counts them, the keeper does: it is there from the first instruction of the
// command on, needs no other process to be scheduled, and looks the more often
// the closer the run is to its limit.
#define _GNU_SOURCE
#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <time.h>
#include <unistd.h>

#include "child.h"

enum {
	// FORKS_PER_MS is how fast a bomb is taken to grow: two processors of a
	// desktop make 10 to 20 processes in a millisecond.
	FORKS_PER_MS = 20,
	LONGEST_WAIT = 50, // ms between two looks, far from the limit
	// WALK_SHARE bounds what walks of /proc take of a processor: one part in so
	// many, on hosts where somebody else starts programs all the time.
	WALK_SHARE = 8,
	SCAN = 1024, // numbers beyond the limit that are asked for
};

static int64_t now_us(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000ll + t.tv_nsec / 1000;
}

// host_tasks is the number of tasks of the whole machine, modulo 65536: one
// cheap call that tells whether there can be more in the run than before. While a
// thousand tasks want the processor, this process waits a thousand times as long as
// what it takes of it: with walks of /proc at each look a bomb came to ten times as
// many tasks.
static uint16_t host_tasks(void)
{
	struct sysinfo s;
	return sysinfo(&s) < 0 ? 0 : s.procs;
}

// threads_of counts the threads of a process without reading text: each is a
// directory in its task directory.
static int64_t threads_of(int proc, const char *name)
{
	char path[32];
	struct stat st;
	size_t n = strlen(name);
	if (n > 16)
		return 1;
	memcpy(path, name, n);
	memcpy(path + n, "/task", 6);
	return fstatat(proc, path, &st, 0) == 0 && st.st_nlink > 2 ? (int64_t)st.st_nlink - 2 : 1;
}

// more_than reports whether the run has more than limit tasks, as far as their
// numbers follow the command's, as those of a bomb do. It asks for each number, at
// a fifth of a microsecond. Who can be signalled is the run's, and the number of a
// thread is as good as that of a process.
static int more_than(struct keeper *k, int64_t limit)
{
	if (!k->scoped && !k->init)
		return 0;
	int64_t n = 0, last = k->command + 2 * limit + SCAN;
	for (int64_t pid = k->command; n <= limit && pid < last; pid++)
		n += kill((pid_t)pid, 0) == 0;
	if (n > k->peak)
		k->peak = n;
	return n > limit;
}

// count_tasks counts the tasks below the keeper.
static int64_t count_tasks(struct keeper *k)
{
	if (!k->scoped && !k->init) {
		int64_t tasks, private_bytes, shared_bytes;
		tree_measure(k, &tasks, &private_bytes, &shared_bytes);
		return tasks;
	}
	DIR *d = opendir("/proc");
	if (!d)
		return 0;
	pid_t self = getpid();
	int64_t n = 0;
	for (struct dirent *e; (e = readdir(d));) {
		if (!isdigit((unsigned char)e->d_name[0]))
			continue;
		pid_t pid = atoi(e->d_name);
		if (pid != self && (k->init || kill(pid, 0) == 0))
			n += threads_of(dirfd(d), e->d_name);
	}
	closedir(d);
	return n;
}

// count_note takes an exact count.
void count_note(struct keeper *k, int64_t tasks)
{
	k->tasks = tasks;
	k->host_tasks = host_tasks();
	if (tasks > k->peak)
		k->peak = tasks;
}

int count_over(const struct keeper *k) { return k->task_limit > 0 && k->task_end && k->peak > k->task_limit; }

// count_look finds out whether the run is above its limit, by a walk only if the
// machine has so many new tasks that it may be. What others ended meanwhile can
// hide new ones; the walks that the starter asks for catch that. Neither a nice value
// of -20 nor the shortest slice of the scheduler made it come earlier on a busy host.
void count_look(struct keeper *k)
{
	if (k->task_limit <= 0)
		return;
	int64_t grown = (int16_t)(host_tasks() - k->host_tasks), start = now_us(), walked = 0;
	int64_t most = k->tasks + (grown > 0 ? grown : 0);
	if (grown > 0 && most >= k->task_limit && !more_than(k, k->task_limit)) {
		count_note(k, count_tasks(k));
		most = k->tasks;
		walked = (now_us() - start) * WALK_SHARE / 1000;
	}
	int64_t wait = (k->task_limit - most) / FORKS_PER_MS;
	if (wait < walked)
		wait = walked;
	if (!k->task_end && k->peak >= k->task_limit)
		k->task_limit = 0; // the limit was reached, and something else holds it
	k->next_look = start + 1000 * (wait < 1 ? 1 : wait > LONGEST_WAIT ? LONGEST_WAIT : wait);
}

// count_wait is how long poll(2) may wait until the next look, in ms; -1: for ever.
int count_wait(const struct keeper *k)
{
	if (k->task_limit <= 0)
		return -1;
	int64_t left = k->next_look - now_us();
	return left <= 0 ? 0 : (int)((left + 999) / 1000);
}

// count_end counts what a bomb came to, after it was killed and before anything
// of it was reaped.
void count_end(struct keeper *k)
{
	int64_t n = count_tasks(k);
	if (n > k->peak)
		k->peak = n;
}

// count_start begins to count.
void count_start(struct keeper *k, int64_t limit, int end)
{
	k->task_limit = limit;
	k->task_end = end;
	count_note(k, 0);
	k->next_look = now_us() + 1000;
}
