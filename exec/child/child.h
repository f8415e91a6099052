// The wire between the starter (Go) and the keeper (C): one message with a plan
// in a memory file and a list of descriptors, then small messages both ways.
// plan.go and message.go hold the same numbers; plan_test.go compares them.
#ifndef SANDBOXD_CHILD_H
#define SANDBOXD_CHILD_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define KEEPER_NAME "sbx-keeper"
#define PLAN_MAGIC 0x78627331u
#define MAX_SLOTS 256
#define MAX_FDS 250
#define CONTROL_FD 3
#define PLACE_ABOVE 200 // numbers of passed descriptors are below

enum op_code {
	OP_PRIVATE = 1, // make every mount private to this namespace; a 1: make it here
	OP_TREE,        // slot a = clone of mount tree s1, attributes b, flags c
	OP_TMPFS,       // slot a = fresh tmpfs, options s1, attributes b
	OP_PROC,        // slot a = fresh proc, attributes b
	OP_DEVPTS,      // slot a = fresh devpts
	OP_ROOT,        // slot a becomes the root that is being built
	OP_MKDIR,       // directory s1 in the new root, with parents, mode a
	OP_MKFILE,      // empty file s1 in the new root, mode a
	OP_SYMLINK,     // link s1 in the new root pointing to s2
	OP_ATTACH,      // slot a onto s1, flags c
	OP_REBIND,      // s1 onto itself with attributes b, flags c
	OP_MASK,        // hide s1 behind an empty, unreadable, read-only entry, flags c
	OP_ROOT_RDONLY, // the new root itself becomes read-only
	OP_PIVOT,       // enter the new root, drop the old one
	OP_LOOPBACK,    // bring the loopback device of this namespace up
	OP_PIDMAX,      // kernel.pid_max of this pid namespace = b
	OP_BOUNDING,    // empty the capability bounding set, flags c
	OP_USER,        // become uid a, gid b, groups s1 (count c)
	OP_DROP,        // drop all capabilities, set no_new_privs
	OP_SCOPE,       // bind the keeper to a layer that scopes signals
	OP_SUBREAPER,   // adopt orphans of the tree
	OP_RULESET,     // new ruleset: handled_fs b, handled_net c, scoped a
	OP_RULE,        // rule on s1 with access b, flags c
	OP_RULESET_FD,  // the ruleset is descriptor a
	OP_PTY,         // open a terminal pair in this view, send the controlling end
	OP_RUN,         // start the command: struct run at s1
	OP_SEAL,        // the mount in slot a becomes read-only, what is mounted in it does not
	OP_READY,       // say MSG_STARTED without a command: a probe
	OP_TERMINAL,    // at the end give terminal a the settings s1 (struct termios) back
	OP_TASKS,       // count the tasks of the run: b at most, a = 1 ends the run above it
	OP_WAIT,        // go on when the starter says MSG_GO
	OP_FILES_OF,    // open files with the rights of uid a, gid b, groups s1 (count c)
	OP_FILES_OWN,   // open files with the keeper's own rights again
};

enum op_flag {
	FLAG_OPTIONAL = 1, // a missing path is not an error
	FLAG_MKDIR = 2,    // make the mount point, a directory
	FLAG_MKFILE = 4,   // make the mount point, a file
	FLAG_FOLLOW = 8,   // symbolic links in the path may be followed
	FLAG_KEEP = 16,    // keep the slot for OP_SEAL
	FLAG_SAME = 32,    // s1 must be the file that struct same at s2 names
};

struct plan {
	uint32_t magic, ops;
	uint64_t size;
};

struct op {
	uint32_t code, a;
	uint64_t b, c;
	uint32_t s1, s2; // offsets into the plan
};

// What a path named when the plan was made.
struct same {
	uint64_t dev, ino;
};

struct limit {
	uint32_t resource, pad;
	uint64_t soft, hard;
};

#define MAX_LIMITS 16
#define MAX_PASS 64
#define MAX_CGROUPS 8

struct run {
	uint32_t path, dir, argc, argv, envc, env; // argv, env: arrays of offsets
	uint32_t bpf, bpf_count;                   // struct sock_filter[]
	uint32_t restrict_flags, umask;
	uint32_t limit_count, pass_count, cgroup_count, flags;
	int32_t stdio[3];   // descriptor indexes; -1: the terminal of OP_PTY
	int32_t cgroup_dir; // index of a v2 group's directory, for RUN_CGROUP_V2
	int32_t cgroup[MAX_CGROUPS];
	struct {
		int32_t index, number;
	} pass[MAX_PASS];
	struct limit limit[MAX_LIMITS];
};

enum run_flag {
	RUN_TTY = 1,         // standard input is the controlling terminal
	RUN_NO_RULESET = 2,  // asked for by name: no Landlock
	RUN_NO_FILTER = 4,   // asked for by name: no seccomp
	RUN_CGROUP_V2 = 8,   // cgroup[0] belongs to cgroup_dir: clone into it
};

// Stages name where a set-up failed.
enum stage {
	STAGE_START = 1,
	STAGE_USERNS,
	STAGE_PLAN,
	STAGE_OP, // detail is the index of the op
	STAGE_CGROUP,
	STAGE_SESSION,
	STAGE_TTY,
	STAGE_STDIO,
	STAGE_LIMITS,
	STAGE_DIR,
	STAGE_PARENT,
	STAGE_CAPS,
	STAGE_NNP,
	STAGE_LANDLOCK,
	STAGE_SECCOMP,
	STAGE_EXEC,
};

enum message_type {
	// keeper to starter
	MSG_ERROR = 1, // a = stage, b = errno, c = detail
	MSG_STARTED,   // a = pid of the command as the keeper sees it, b = 1 if kill(-1) is scoped
	MSG_EXIT,      // a = si_code, b = si_status, v = usage of the command
	MSG_DONE,      // a = 1 if the command ended, b = 1 if the run had too many tasks, c = 1 if processes outlived the command, v = usage of everything reaped, v[3] = most tasks that were counted
	MSG_SAMPLE,    // v[0] = tasks, v[1] = private resident bytes, v[2] = shared resident bytes
	MSG_PTY,       // carries the controlling end of the terminal
	MSG_EARLY,     // a copied keeper has its namespaces
	MSG_COPIED,    // a = 0 or an errno, carries the pidfd of a copied keeper
	// starter to keeper
	MSG_PLAN = 32, // carries the plan and its descriptors
	MSG_SIGNAL,    // a = signal, to the command's process group
	MSG_SIGNAL_ALL, // a = signal, to the whole tree
	MSG_END,       // kill the whole tree, report, leave
	MSG_MEASURE,   // answer with MSG_SAMPLE
	MSG_GO,        // OP_WAIT is over
	MSG_COPY,      // carries a socket: copy yourself, v = namespaces, uid, gid
};

struct message {
	uint32_t type;
	int32_t a, b, c;
	int64_t v[6];
};

// Shared with vfork-style children: what failed there.
struct report {
	volatile int32_t stage, error, detail;
};

// What a keeper did before it had a plan, see early.c. Operations of the plan
// that ask for it find it done.
struct ahead {
	int loopback, bounding; // 1: done
	int proc, devpts;       // detached mounts, -1 none
};
#define AHEAD_PROC_ATTRS (MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC)
#define AHEAD_DEVPTS_ATTRS (MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC)

struct keeper {
	const char *plan;
	size_t plan_size;
	int fds[MAX_FDS];
	int fd_count;
	int slots[MAX_SLOTS];
	struct ahead ahead;
	int masks[2]; // entries that hide a file, a directory; -1 not made yet
	int root;     // the root under construction, -1 outside
	int ruleset;  // -1 none
	int pty;      // the command's end of an own terminal, -1 none
	int scoped;   // this process is bound to a layer that scopes signals
	int init;     // this process is process 1 of a pid namespace
	pid_t starter; // who started us, as seen from here; 0 if outside our namespace
	pid_t command;
	int exited;
	int oom;      // the own oom_score_adj, -1 none
	int terminal; // the caller's, -1 none
	const void *settings;
	// The count of tasks, see count.c.
	int64_t task_limit; // 0 none
	int task_end;       // the run is ended above the limit
	int64_t tasks, peak; // at the last walk; the most
	uint16_t host_tasks; // of the machine, at the last walk
	int64_t next_look;   // CLOCK_MONOTONIC, us
};

// oom.c
int oom_open(void);
int oom_raise(int fd);
void oom_restore(int fd, int before);

// start.c
int child_start(int exe, int control, uint64_t flags, uid_t uid, gid_t gid, int *pidfd, struct report *r);

int child_map(uid_t uid, gid_t gid);

// early.c: a keeper made before the Go runtime started, handed out once; pidfd is
// -1 if there is none.
struct early {
	uint64_t flags;
	int pidfd, control;
};
struct early child_early(void);
void keeper_copy(const struct message *m, int control);
extern unsigned long caller_slack;

// made.c: keepers are noted, and what is left of them is reaped, within ms
// milliseconds. The caller has closed those it had.
void made_note(pid_t pid);
void made_settle(int ms);

// signals.c: count signals of list, at most MAX_CAUGHT, go into pipe until they
// are released. -EBUSY while another list is caught.
#define MAX_CAUGHT 16
int signals_catch(int pipe, const int *list, int count);
void signals_release(const int *list, int count);

// keeper.c
void keeper_main(int early, uint64_t namespaces); // early: made ahead, in these
int keeper_send(const struct message *m, int fd);

// mount.c: each returns 0 or -errno
int op_mount(struct keeper *k, const struct op *o);

// filesystem.c
int op_filesystem(struct keeper *k, const struct op *o);
void mount_ahead(struct keeper *k, uint64_t namespaces);

// bind.c
int op_bind(struct keeper *k, const struct op *o);
int bind_drop_caps(void);
void bind_ahead(struct keeper *k);

// command.c
pid_t command_start(struct keeper *k, const struct run *r, struct report *rep);

// tree.c
void tree_kill(struct keeper *k, int signal);
void tree_measure(struct keeper *k, int64_t *tasks, int64_t *private_bytes, int64_t *shared_bytes);

// count.c
void count_start(struct keeper *k, int64_t limit, int end);
void count_note(struct keeper *k, int64_t tasks);
void count_look(struct keeper *k);
int count_wait(const struct keeper *k);
int count_over(const struct keeper *k);
void count_end(struct keeper *k);

static inline const char *plan_string(const struct keeper *k, uint32_t off) { return k->plan + off; }

#endif
