package exec

import (
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"sandboxd/exec/child"
)

const (
	defaultGrace       = 2 * time.Second
	defaultOutputBytes = 4000
	defaultOutputFile  = 64 << 20
	// reservedPIDs are not given out again once the numbers have wrapped
	// (RESERVED_PIDS, kernel/pid.c): a pid_max below it plus the tasks wanted
	// would starve a run after its first few hundred forks.
	reservedPIDs = 300
	// bombRoom is how many tasks a user may have besides a run that only
	// sampling limits.
	bombRoom = 2048
	// openFiles caps descriptors for the command; the hard limit of the caller
	// is often a million, which old programs walk.
	openFiles = 65536
)

// withDefaults replaces zero fields by the defaults of Limits.
func (l Limits) withDefaults() Limits {
	if l.Grace == 0 {
		l.Grace = defaultGrace
	}
	if l.CancelGrace == 0 {
		l.CancelGrace = l.Grace
	}
	if l.Tasks == 0 {
		l.Tasks = defaultTasks
	}
	if l.OutputBytes == 0 {
		l.OutputBytes = defaultOutputBytes
	}
	if l.OutputFileBytes == 0 {
		l.OutputFileBytes = defaultOutputFile
	}
	return l
}

// rlimits are the limits of each process of the run.
func (l *launch) rlimits() []child.Limit {
	fixed := func(resource int, n uint64) child.Limit { return child.Limit{Resource: resource, Soft: n, Hard: n} }
	out := []child.Limit{
		fixed(unix.RLIMIT_CORE, 0),
		fixed(unix.RLIMIT_RTPRIO, 0),
		fixed(unix.RLIMIT_NICE, 0),
		fixed(unix.RLIMIT_MEMLOCK, 8<<20),
		{Resource: unix.RLIMIT_NOFILE, Soft: 1024, Hard: openFiles},
	}
	if l.limits.FileSize > 0 {
		out = append(out, fixed(unix.RLIMIT_FSIZE, uint64(l.limits.FileSize)))
	}
	if s := l.limits.CPU; s > 0 {
		seconds := uint64((s + time.Second - 1) / time.Second)
		// SIGXCPU at the limit, SIGKILL a second later for who ignores it.
		out = append(out, child.Limit{Resource: unix.RLIMIT_CPU, Soft: seconds, Hard: seconds + 1})
	}
	if l.limitByNPROC() {
		// The keeper counts as one.
		out = append(out, fixed(unix.RLIMIT_NPROC, uint64(l.limits.Tasks)+1))
	}
	if l.boundByNPROC() {
		out = append(out, fixed(unix.RLIMIT_NPROC, uint64(l.limits.Tasks)+bombRoom))
	}
	if l.limits.Memory > 0 && !l.cgroupHolds("memory") {
		out = append(out, fixed(unix.RLIMIT_DATA, uint64(l.limits.Memory)))
	}
	return out
}

// planTasks has the keeper count tasks where no control group does: to end the run,
// or to tell that RLIMIT_NPROC was reached, which the kernel does not.
func (l *launch) planTasks() {
	if l.limits.Tasks > 0 && !l.cgroupHolds("tasks") {
		l.plan.Tasks(l.limits.Tasks, !l.limitByNPROC())
	}
}

// boundByNPROC: only sampling holds the limit, and a bomb could outrun it on a
// host where even the keeper gets no processor. RLIMIT_NPROC counts all tasks of
// the user, so it leaves room for them. The kernel exempts uid 0.
func (l *launch) boundByNPROC() bool {
	return l.limits.Tasks > 0 && !l.cgroupHolds("tasks") && !l.limitByNPROC() && !l.limitByPIDMax() && l.uid() != 0
}

func (l *launch) sampledTasks() string {
	if l.boundByNPROC() {
		return fmt.Sprintf("sampling by the keeper, and RLIMIT_NPROC of %d for all of the user", l.limits.Tasks+bombRoom)
	}
	return "sampling by the keeper"
}

func (l *launch) cgroupHolds(part string) bool {
	if l.cgroup == nil {
		return false
	}
	for _, p := range l.enforced.Parts {
		if p.Part == part {
			return true
		}
	}
	return false
}

// limitByNPROC: inside an own user namespace RLIMIT_NPROC counts this run only.
// Elsewhere it counts all processes of the user, which would refuse honest work.
func (l *launch) limitByNPROC() bool {
	return l.limits.Tasks > 0 && !l.cgroupHolds("tasks") && l.namespaces&nsUser != 0 && os.Geteuid() != 0
}

// limitByPIDMax: a pid namespace with a pid_max of its own cannot hold more tasks
// than that, for root too.
func (l *launch) limitByPIDMax() bool {
	return l.limits.Tasks > 0 && !l.cgroupHolds("tasks") && !l.limitByNPROC() && l.pidNS && l.view && l.runner.host.PIDMax
}

// substitutes says what stands in where no control group holds a limit.
func (l *launch) substitutes() {
	part := func(name, mechanism string, exact, asked bool) {
		l.enforced.Parts = append(l.enforced.Parts, Part{Part: name, Mechanism: mechanism, Exact: exact})
		if !exact && asked {
			l.enforced.Weakened = append(l.enforced.Weakened, Gap{Part: name, Why: "no control group could be made", Instead: mechanism})
		}
	}
	if l.limits.Tasks > 0 && !l.cgroupHolds("tasks") {
		asked := l.spec.Limits.Tasks > 0
		switch {
		case l.limitByNPROC():
			part("tasks", "RLIMIT_NPROC in an own user namespace", true, asked)
		case l.limitByPIDMax():
			part("tasks", fmt.Sprintf("kernel.pid_max of the pid namespace, %d at most, and sampling", reservedPIDs+l.limits.Tasks), false, asked)
		default:
			part("tasks", l.sampledTasks(), false, true)
		}
	}
	if l.limits.Memory > 0 && !l.cgroupHolds("memory") {
		part("memory", "RLIMIT_DATA of each process, and sampling by the keeper, which does not see memory files and System V segments", false, true)
	}
}
