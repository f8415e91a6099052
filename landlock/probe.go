package landlock

import (
	"errors"
	"fmt"

	llsyscall "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"
)

// ErrNotSupported reports that the running kernel, or a filter around this
// process, does not offer what was asked for.
var ErrNotSupported = errors.New("not supported by this kernel")

// Support is what the running kernel offers. The zero value offers nothing.
type Support struct {
	ABI    int // 0: none; may be newer than [Levels]
	Errata int // bits of fixed [Errata]
	// Err says why there is nothing: ENOSYS (not built in, or refused by a
	// filter), EOPNOTSUPP (not enabled at boot), EPERM (refused by a filter).
	Err error
}

// Probe asks the kernel, then makes a ruleset with every file right of its ABI
// and throws it away, so that a filter that lets only the question pass is
// found. It binds nothing.
func Probe() Support {
	abi, err := llsyscall.LandlockGetABIVersion()
	if err != nil {
		return Support{Err: fmt.Errorf("landlock_create_ruleset: %w", err)}
	}
	s := Support{ABI: abi}
	if errata, err := llsyscall.LandlockGetErrata(); err == nil && errata > 0 {
		s.Errata = errata
	}
	if err := tryCalls(fileRights(s.effective())); err != nil {
		return Support{Err: err}
	}
	return s
}

// tryCalls uses each of the three calls with arguments that bind nothing. An
// ordinary user without no_new_privs gets EPERM from the third before the
// kernel looks at its descriptor.
func tryCalls(fs Access) error {
	fd, err := llsyscall.LandlockCreateRuleset(&llsyscall.RulesetAttr{HandledAccessFS: uint64(fs)}, 0)
	if err != nil {
		return fmt.Errorf("landlock_create_ruleset: %w", err)
	}
	unix.Close(fd)
	err = llsyscall.LandlockAddPathBeneathRule(-1, &llsyscall.PathBeneathAttr{AllowedAccess: 1, ParentFd: -1}, 0)
	if err != unix.EBADF {
		return fmt.Errorf("landlock_add_rule: %w", err)
	}
	err = llsyscall.LandlockRestrictSelf(-1, 0)
	if err != unix.EBADF && err != unix.EPERM {
		return fmt.Errorf("landlock_restrict_self: %w", err)
	}
	return nil
}

// Limit returns s as a kernel of a lower ABI would have it.
func (s Support) Limit(abi int) Support {
	s.ABI = min(s.ABI, abi)
	return s
}

// effective is the ABI that is used: no newer than Levels, and without scopes
// where they are faulty, as go-landlock counts (erratum 2).
func (s Support) effective() int {
	if s.Err != nil {
		return 0
	}
	abi := min(s.ABI, Levels[len(Levels)-1].ABI)
	if abi >= 6 && s.Errata&erratumSignals == 0 {
		return 5
	}
	return abi
}
