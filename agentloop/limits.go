package agentloop

import (
	"slices"
	"time"

	"sandboxd/policy"
)

// GrantWithFlags puts what a client's flags ask for over what the policy files say.
// Paths of both count, each with its source; managed are the limits of the managed
// policy, which can only be tightened.
func GrantWithFlags(g, flags policy.Grant, managed policy.GrantLimits) policy.Grant {
	g.User = flags.User
	g.Paths = slices.Concat(g.Paths, flags.Paths)
	g.Unix = slices.Concat(g.Unix, flags.Unix)
	g.EnvPass = slices.Concat(g.EnvPass, flags.EnvPass)
	g.EnvSet = slices.Concat(g.EnvSet, flags.EnvSet)
	g.NoExecWrite = g.NoExecWrite || flags.NoExecWrite
	if flags.Syscalls != "" {
		g.Syscalls = flags.Syscalls
	}
	if len(flags.Network) > 0 {
		g.Network = flags.Network
	}
	overrideLimits(&g.Limits, flags.Limits, managed)
	return g
}

// overrideLimits puts the limits of a call over those of the policy: zero fields
// are not given, negative ones are unlimited. A limit of the managed policy can
// only be tightened.
func overrideLimits(l *policy.GrantLimits, call, managed policy.GrantLimits) {
	overrideLimit(&l.Timeout, call.Timeout, managed.Timeout)
	overrideLimit(&l.CPU, call.CPU, managed.CPU)
	overrideLimit(&l.MemoryBytes, call.MemoryBytes, managed.MemoryBytes)
	overrideLimit(&l.Tasks, call.Tasks, managed.Tasks)
	overrideLimit(&l.FileBytes, call.FileBytes, managed.FileBytes)
	overrideLimit(&l.OutputBytes, call.OutputBytes, managed.OutputBytes)
}

func overrideLimit[T int | int64 | time.Duration](limit *T, call, most T) {
	switch {
	case call == 0:
	case most > 0 && (call < 0 || call > most):
		*limit = most
	default:
		*limit = call
	}
}
