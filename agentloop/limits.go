package agentloop

import (
	"time"

	"sandboxd/policy"
)

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
