package seccomp

import "golang.org/x/sys/unix"

// prctlAllow lists the operations of prctl(2) that are allowed. Out are those
// that change what the kernel shows of the memory map (PR_SET_MM), share pages
// between programs (PR_SET_MEMORY_MERGE, a timing channel), schedule with other
// tasks (PR_SCHED_CORE), need capabilities, or let others trace
// (PR_SET_PTRACER, in "debug" only).
var prctlAllow = []Rule{
	{Calls: prctl, When: []Condition{{0, word, unix.PR_SET_NAME}}},
	{Calls: prctl, When: []Condition{{0, word, unix.PR_GET_NAME}}},
	{Calls: prctl, When: []Condition{{0, word, unix.PR_SET_VMA}}},
	{Calls: prctl, When: []Condition{{0, word, unix.PR_SET_PDEATHSIG}}},
	{Calls: prctl, When: []Condition{{0, word, unix.PR_GET_PDEATHSIG}}},
	{Calls: prctl, When: []Condition{{0, word, unix.PR_SET_DUMPABLE}}},
	{Calls: prctl, When: []Condition{{0, word, unix.PR_GET_DUMPABLE}}},
	{Calls: prctl, When: []Condition{{0, word, unix.PR_SET_KEEPCAPS}}},
	{Calls: prctl, When: []Condition{{0, word, unix.PR_GET_KEEPCAPS}}},
	{Calls: prctl, When: []Condition{{0, word, unix.PR_SET_SECCOMP}}},
	{Calls: prctl, When: []Condition{{0, word, unix.PR_GET_SECCOMP}}},
	{Calls: prctl, When: []Condition{{0, word, unix.PR_SET_NO_NEW_PRIVS}}},
	{Calls: prctl, When: []Condition{{0, word, unix.PR_GET_NO_NEW_PRIVS}}},
	{Calls: prctl, When: []Condition{{0, word, unix.PR_SET_TIMERSLACK}}},
	{Calls: prctl, When: []Condition{{0, word, unix.PR_GET_TIMERSLACK}}},
	{Calls: prctl, When: []Condition{{0, word, unix.PR_SET_TIMING}}},
	{Calls: prctl, When: []Condition{{0, word, unix.PR_GET_TIMING}}},
	{Calls: prctl, When: []Condition{{0, word, unix.PR_SET_CHILD_SUBREAPER}}},
	{Calls: prctl, When: []Condition{{0, word, unix.PR_GET_CHILD_SUBREAPER}}},
	{Calls: prctl, When: []Condition{{0, word, unix.PR_CAPBSET_READ}}},
	{Calls: prctl, When: []Condition{{0, word, unix.PR_CAPBSET_DROP}}},
	{Calls: prctl, When: []Condition{{0, word, unix.PR_CAP_AMBIENT}}},
	{Calls: prctl, When: []Condition{{0, word, unix.PR_SET_SECUREBITS}}},
	{Calls: prctl, When: []Condition{{0, word, unix.PR_GET_SECUREBITS}}},
	{Calls: prctl, When: []Condition{{0, word, unix.PR_SET_THP_DISABLE}}},
	{Calls: prctl, When: []Condition{{0, word, unix.PR_GET_THP_DISABLE}}},
	{Calls: prctl, When: []Condition{{0, word, unix.PR_SET_MDWE}}},
	{Calls: prctl, When: []Condition{{0, word, unix.PR_GET_MDWE}}},
	{Calls: prctl, When: []Condition{{0, word, unix.PR_GET_AUXV}}},
	{Calls: prctl, When: []Condition{{0, word, unix.PR_GET_TID_ADDRESS}}},
	{Calls: prctl, When: []Condition{{0, word, unix.PR_SET_SPECULATION_CTRL}}},
	{Calls: prctl, When: []Condition{{0, word, unix.PR_GET_SPECULATION_CTRL}}},
	{Calls: prctl, When: []Condition{{0, word, unix.PR_SET_TSC}}},
	{Calls: prctl, When: []Condition{{0, word, unix.PR_GET_TSC}}},
	{Calls: prctl, When: []Condition{{0, word, unix.PR_SET_SYSCALL_USER_DISPATCH}}},
	{Calls: prctl, When: []Condition{{0, word, unix.PR_MCE_KILL}}},
	{Calls: prctl, When: []Condition{{0, word, unix.PR_MCE_KILL_GET}}},
	{Calls: prctl, When: []Condition{{0, word, unix.PR_TASK_PERF_EVENTS_DISABLE}}},
	{Calls: prctl, When: []Condition{{0, word, unix.PR_TASK_PERF_EVENTS_ENABLE}}},
	{Calls: prctl, When: []Condition{{0, word, unix.PR_GET_MEMORY_MERGE}}},
	{Calls: prctl, When: []Condition{{0, word, unix.PR_SVE_SET_VL}}},
	{Calls: prctl, When: []Condition{{0, word, unix.PR_SVE_GET_VL}}},
	{Calls: prctl, When: []Condition{{0, word, unix.PR_SME_SET_VL}}},
	{Calls: prctl, When: []Condition{{0, word, unix.PR_SME_GET_VL}}},
	{Calls: prctl, When: []Condition{{0, word, unix.PR_SET_TAGGED_ADDR_CTRL}}},
	{Calls: prctl, When: []Condition{{0, word, unix.PR_GET_TAGGED_ADDR_CTRL}}},
	{Calls: prctl, When: []Condition{{0, word, unix.PR_PAC_RESET_KEYS}}},
	{Calls: prctl, When: []Condition{{0, word, unix.PR_PAC_SET_ENABLED_KEYS}}},
	{Calls: prctl, When: []Condition{{0, word, unix.PR_PAC_GET_ENABLED_KEYS}}},
	{Calls: prctl, When: []Condition{{0, word, unix.PR_SET_SHADOW_STACK_STATUS}}},
	{Calls: prctl, When: []Condition{{0, word, unix.PR_GET_SHADOW_STACK_STATUS}}},
	{Calls: prctl, When: []Condition{{0, word, unix.PR_LOCK_SHADOW_STACK_STATUS}}},
	{Calls: prctl, When: []Condition{{0, word, unix.PR_TIMER_CREATE_RESTORE_IDS}}},
	{Calls: prctl, When: []Condition{{0, word, unix.PR_FUTEX_HASH}}},
}

var prctl = []string{"prctl"}
