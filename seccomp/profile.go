package seccomp

import (
	"errors"
	"fmt"
	"slices"
)

// ErrUnknownProfile reports a profile name that is not in [Names].
var ErrUnknownProfile = errors.New("no such seccomp profile")

// Profile is a set of system calls and conditions. The zero Profile allows
// nothing. It is a value that nobody changes after it was made and is safe for
// concurrent use.
type Profile struct {
	Name string
	// Allow lists what may be called; the rules of one call are alternatives.
	// Calls that come first are tested first.
	Allow []Rule
	// Refuse lists exceptions from Allow. It is tested before Allow and answers
	// EPERM.
	Refuse []Rule
	// Missing lists calls that are answered with ENOSYS, so that callers use an
	// older call whose arguments a filter can see.
	Missing []string
	// Newest is the highest system call number that was reviewed for this
	// profile. Higher numbers are answered with ENOSYS.
	Newest uint32
}

// Rule names calls and the conditions on their arguments.
type Rule struct {
	Calls []string
	// When lists conditions that must all hold, at most one for each argument
	// (a restriction of libseccomp). Empty means always.
	When []Condition
	// If says under which options the rule is part of the filter.
	If Need
}

// Condition holds when argument Arg (0 to 5) masked with Mask equals Value.
// The kernel ignores the upper half of arguments of type int, so a Mask for
// such an argument has no bit above 31; otherwise a caller could step around
// the comparison with a set upper bit.
type Condition struct {
	Arg         uint8
	Mask, Value uint64
}

// Need says which option a rule depends on. The zero value is none.
type Need uint8

const (
	// Always puts the rule into every filter.
	Always Need = iota
	// IfInet: [Options.Inet].
	IfInet
	// IfUnix: [Options.Unix].
	IfUnix
	// IfOwnPID: [Options.OwnPID].
	IfOwnPID
	// IfOwnIPC: [Options.OwnIPC].
	IfOwnIPC
	// UnlessNoExecWrite: not [Options.NoExecWrite].
	UnlessNoExecWrite
)

// Options adapts a profile to the other mechanisms of one run. The zero value
// is the tightest filter except for NoExecWrite, which only ever removes.
type Options struct {
	// Inet allows TCP and UDP sockets over IPv4 and IPv6 and route netlink. Set
	// it where a network namespace or a Landlock ruleset holds the network, or
	// where the network is granted.
	Inet bool
	// Unix allows UNIX sockets that can be named. Pairs of stream and seqpacket
	// sockets are always allowed.
	Unix bool
	// OwnPID says that the command has its own pid namespace: calls that change
	// limits, priority or affinity of another process then stay inside the run.
	// Without it they are allowed on the caller itself only, as no other
	// mechanism holds them for processes of the same user.
	OwnPID bool
	// OwnIPC says that the command has its own IPC namespace. Without it System V
	// IPC and POSIX message queues are refused, since Landlock does not hold
	// them and other programs' segments would be in reach.
	OwnIPC bool
	// NoExecWrite refuses memory files that could be executed: memfd_create(2)
	// needs MFD_NOEXEC_SEAL (kernel 6.3). Memory protections are left alone.
	NoExecWrite bool
}

// has reports whether rules with need n are part of the filter.
func (o Options) has(n Need) bool {
	switch n {
	case Always:
		return true
	case IfInet:
		return o.Inet
	case IfUnix:
		return o.Unix
	case IfOwnPID:
		return o.OwnPID
	case IfOwnIPC:
		return o.OwnIPC
	case UnlessNoExecWrite:
		return !o.NoExecWrite
	}
	return false
}

// Names lists the profiles, the default one first.
func Names() []string { return []string{"default", "debug"} }

// ByName returns a profile. "default" suits ordinary programs. "debug" also
// allows ptrace(2) and what else a debugger needs: a debugged program then has
// no secrets before any other program of the same run.
//
// The error wraps [ErrUnknownProfile].
func ByName(name string) (Profile, error) {
	p := Profile{
		Name: name, Allow: slices.Concat(defaultAllow, prctlAllow), Refuse: defaultRefuse,
		Missing: missing, Newest: newestReviewed,
	}
	switch name {
	case "default":
	case "debug":
		p.Allow = append(p.Allow, debugAllow...)
	default:
		return Profile{}, fmt.Errorf("%w: %q", ErrUnknownProfile, name)
	}
	return p, nil
}

// alternatives collects, for each call, the condition lists of the rules that
// apply under o, in order of first mention. A call with a rule without
// conditions gets that one alone: libseccomp gives no promise about narrower
// rules beside it.
func alternatives(rules []Rule, o Options) (order []string, when map[string][][]Condition) {
	when = make(map[string][][]Condition)
	for _, r := range rules {
		if !o.has(r.If) {
			continue
		}
		for _, call := range r.Calls {
			have, seen := when[call]
			if !seen {
				order = append(order, call)
			}
			switch {
			case seen && len(have) == 1 && len(have[0]) == 0:
			case len(r.When) == 0:
				when[call] = [][]Condition{nil}
			default:
				when[call] = append(have, r.When)
			}
		}
	}
	return order, when
}
