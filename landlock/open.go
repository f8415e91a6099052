package landlock

import (
	"errors"
	"fmt"

	golandlock "github.com/landlock-lsm/go-landlock/landlock"
	llsyscall "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"
)

// MaxLayers is how many rulesets can bind one process, its ancestors' included
// (LANDLOCK_MAX_NUM_LAYERS).
const MaxLayers = 16

// ErrTooManyLayers reports that a process is bound by [MaxLayers] rulesets
// already: too many sandboxes inside each other.
var ErrTooManyLayers = fmt.Errorf("%d Landlock rulesets are stacked already, the kernel takes no more", MaxLayers)

// Open makes the ruleset in the kernel without binding anything. The caller
// closes fd, which is close-on-exec and valid if err is nil; flags go to
// landlock_restrict_self. Errors are those of [Ruleset.Plan].
//
// The descriptor holds the inodes of the rules: after a granted path was
// replaced, open again. Whoever holds it can add rules to it.
func (r Ruleset) Open(s Support) (fd int, flags uint32, e Enforced, err error) {
	p, e, err := r.Plan(s)
	if err != nil {
		return -1, 0, Enforced{}, err
	}
	fd, err = p.open()
	if err != nil {
		return -1, 0, Enforced{}, err
	}
	return fd, p.Flags, e, nil
}

func (p Plan) open() (fd int, err error) {
	fd, flags, err := p.config().NewRulesetFD(p.rules()...)
	if errors.Is(err, unix.EBADFD) {
		return -1, fmt.Errorf("landlock: a pipe, socket or namespace takes no rule: %w", err)
	}
	if err != nil {
		return -1, fmt.Errorf("landlock: %w", err)
	}
	if fd < 0 { // go-landlock's way to say that there is nothing to enforce
		return -1, fmt.Errorf("landlock: nothing would be enforced: %w", ErrNotSupported)
	}
	if flags != p.Flags {
		unix.Close(fd)
		return -1, fmt.Errorf("landlock: bug: flags %#x, want %#x", flags, p.Flags)
	}
	return fd, nil
}

func (p Plan) config() golandlock.Config {
	c := golandlock.Config{
		HandledAccessFS:  golandlock.AccessFSSet(p.HandledFS),
		HandledAccessNet: golandlock.AccessNetSet(p.HandledNet),
		Scoped:           golandlock.ScopedSet(p.Scoped),
	}
	if p.Flags&unix.LANDLOCK_RESTRICT_SELF_LOG_NEW_EXEC_ON != 0 {
		c = c.EnableLoggingForSubprocesses()
	}
	return c
}

func (p Plan) rules() []golandlock.Rule {
	rules := make([]golandlock.Rule, 0, len(p.Rules)+2*len(p.Ports))
	for _, r := range p.Rules {
		rules = append(rules, golandlock.PathAccess(golandlock.AccessFSSet(r.Access), r.Path))
	}
	for _, port := range p.Ports {
		if port.Access&netConnect != 0 {
			rules = append(rules, golandlock.ConnectTCP(port.Port))
		}
		if port.Access&netBind != 0 {
			rules = append(rules, golandlock.BindTCP(port.Port))
		}
	}
	return rules
}

// Restrict binds the calling thread, and what it starts from now on, to the
// ruleset fd. This cannot be undone, so the caller holds
// [runtime.LockOSThread] and never unlocks it; it is for children about to
// exec, and for tests. It sets no_new_privs. It fails with [ErrTooManyLayers].
func Restrict(fd int, flags uint32) error {
	if fd < 0 {
		return errors.New("landlock: no ruleset")
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("landlock: no_new_privs: %w", err)
	}
	err := llsyscall.LandlockRestrictSelf(fd, flags)
	if errors.Is(err, unix.E2BIG) {
		return fmt.Errorf("landlock: %w", ErrTooManyLayers)
	}
	if err != nil {
		return fmt.Errorf("landlock_restrict_self: %w", err)
	}
	return nil
}
