// Handlers that put the numbers of caught signals into a pipe. The Go runtime's
// own way starts two threads, which wait for each other once for each signal that
// is asked for and once more for each that is given back.
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "child.h"

static int caught_pipe = -1; // -1: nothing is caught
static int handlers;         // that run now
static struct sigaction before[MAX_CAUGHT];

static void note_signal(int number)
{
	int e = errno;
	unsigned char byte = (unsigned char)number;
	__atomic_add_fetch(&handlers, 1, __ATOMIC_SEQ_CST);
	int pipe = __atomic_load_n(&caught_pipe, __ATOMIC_SEQ_CST);
	// A full pipe loses it, as the kernel merges what nobody has taken yet.
	if (pipe >= 0)
		(void)!write(pipe, &byte, 1);
	__atomic_sub_fetch(&handlers, 1, __ATOMIC_SEQ_CST);
	errno = e;
}

int signals_catch(int pipe, const int *list, int count)
{
	int none = -1;
	if (count > MAX_CAUGHT)
		return -E2BIG;
	if (!__atomic_compare_exchange_n(&caught_pipe, &none, pipe, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
		return -EBUSY;
	struct sigaction a;
	memset(&a, 0, sizeof a);
	a.sa_handler = note_signal;
	// The stacks of goroutines are too small for a handler; a call that it
	// interrupts goes on.
	a.sa_flags = SA_ONSTACK | SA_RESTART;
	sigfillset(&a.sa_mask);
	for (int i = 0; i < count; i++)
		sigaction(list[i], &a, &before[i]);
	return 0;
}

void signals_release(const int *list, int count)
{
	for (int i = 0; i < count; i++)
		sigaction(list[i], &before[i], NULL);
	__atomic_store_n(&caught_pipe, -1, __ATOMIC_SEQ_CST);
	// Another thread may be about to write: its number of the pipe must not
	// become that of another file.
	while (__atomic_load_n(&handlers, __ATOMIC_SEQ_CST) > 0)
		sched_yield();
}
