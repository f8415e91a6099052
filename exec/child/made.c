// The keepers that this process made, so that it can reap them before it ends. What
// it leaves unreaped becomes a child of the nearest reaper, and process 1 of a
// plain container is often a program that reaps nothing: each run left a zombie.
#define _GNU_SOURCE
#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "child.h"

#ifndef __NR_pidfd_open
#define __NR_pidfd_open 434
#endif

// A process that ends soon made one keeper, and few more to try out what the host
// offers. One that made many reaps them while it runs.
enum { MADE = 64 };

static pid_t made[MADE];
static unsigned count;

void made_note(pid_t pid) { made[__atomic_fetch_add(&count, 1, __ATOMIC_SEQ_CST) % MADE] = pid; }

static int64_t now_ms(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000ll + t.tv_nsec / 1000000;
}

// settle waits until a keeper was reaped, here or by another thread.
static void settle(pid_t pid, int64_t deadline)
{
	if (waitpid(pid, NULL, WNOHANG | __WALL) != 0)
		return;
	int fd = (int)syscall(__NR_pidfd_open, pid, 0);
	if (fd < 0)
		return; // it was reaped meanwhile
	struct pollfd p = {fd, POLLIN, 0};
	int64_t left = deadline - now_ms();
	poll(&p, 1, left < 0 ? 0 : (int)left);
	close(fd);
	waitpid(pid, NULL, WNOHANG | __WALL);
}

void made_settle(int ms)
{
	struct early e = child_early();
	if (e.pidfd >= 0) {
		close(e.control); // nobody took it: it ends
		close(e.pidfd);
	}
	int64_t deadline = now_ms() + ms;
	for (int i = 0; i < MADE; i++)
		if (made[i] > 0)
			settle(made[i], deadline);
}
