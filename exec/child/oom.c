// Where the keeper is not process 1 of a pid namespace, the run outlives it if the
// kernel ends it for want of memory. So the command and all it starts are to go
// first: they inherit a higher oom_score_adj (proc(5)), and cannot lower it, since
// they never have /proc for writing.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "child.h"

// OOM_COMMAND adds half of the machine's memory to what the command is seen to use.
enum { OOM_COMMAND = 500 };

// oom_open opens the keeper's own score, while it still owns the file: one that is
// not dumpable does not. Returns -1 where there is no /proc.
int oom_open(void)
{
	return open("/proc/self/oom_score_adj", O_RDWR | O_CLOEXEC);
}

// oom_raise raises the score for what is started next and returns the one before,
// or OOM_COMMAND if nothing was changed.
int oom_raise(int fd)
{
	char text[16] = {0};
	if (fd < 0 || pread(fd, text, sizeof text - 1, 0) <= 0)
		return OOM_COMMAND;
	int before = atoi(text);
	if (before < OOM_COMMAND && dprintf(fd, "%d", OOM_COMMAND) < 0)
		return OOM_COMMAND;
	return before;
}

// oom_restore gives the keeper its score back and closes fd.
void oom_restore(int fd, int before)
{
	if (before < OOM_COMMAND)
		dprintf(fd, "%d", before);
	if (fd >= 0)
		close(fd);
}
