package exec

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"sandboxd/exec/child"
	"sandboxd/landlock"
)

// ruleset is the Landlock half of the view. In a mount view everything that can
// be seen is granted, and this is the second layer; without one it is the only.
func (l *launch) ruleset() landlock.Ruleset {
	rs := landlock.Ruleset{
		RestrictTCP:       l.spec.Network == NetNone && l.namespaces&nsNet == 0,
		ScopeSignal:       true,
		ScopeAbstractUnix: !l.spec.AbstractSockets,
		LogExec:           true,
	}
	kind := landlock.Look
	if l.view {
		kind = landlock.Dir // the child looks, in the view
	}
	add := func(path string, a landlock.Access, optional bool) {
		rs.Paths = append(rs.Paths, landlock.PathRule{Path: path, Access: a, Optional: optional, Kind: kind})
	}
	for _, e := range l.spec.View.Entries {
		switch e.Access {
		case ReadOnly:
			add(e.Path, landlock.ReadExec, e.Optional)
		case ReadWrite:
			a := landlock.Read | landlock.Write | landlock.ConnectFS
			if !l.spec.NoExecWrite {
				a |= landlock.Execute
			}
			add(e.Path, a, e.Optional)
		}
	}
	add("/proc", landlock.Read, true)
	for _, d := range devices {
		if d != "/dev/tty" || l.spec.TTY != nil || l.view {
			add(d, landlock.Device, true)
		}
	}
	if l.view {
		add("/", landlock.ReadDir, false)
		add("/dev/pts", landlock.Read|landlock.WriteFile|landlock.IoctlDev, false)
		shm := landlock.Read | landlock.Write
		if !l.spec.NoExecWrite {
			shm |= landlock.Execute
		}
		add("/dev/shm", shm, false)
	} else if l.stdio.slaveName != "" {
		add(l.stdio.slaveName, landlock.Device, true)
	}
	return rs
}

func (l *launch) planLandlock() error {
	rs, support := l.ruleset(), l.runner.host.landlock
	if !l.view {
		return l.openRuleset(rs, support)
	}
	plan, enforced, err := rs.Plan(support)
	if err != nil {
		return &SetupError{Stage: "landlock", Err: err}
	}
	l.restrictFlags = plan.Flags
	l.plan.Ruleset(uint64(plan.HandledFS), plan.HandledNet, plan.Scoped)
	optional := map[string]bool{}
	for _, r := range rs.Paths {
		if r.Optional {
			optional[r.Path] = true
		}
	}
	for _, r := range plan.Rules {
		l.plan.Rule(r.Path, uint64(r.Access), flagIf(optional[r.Path], child.Optional))
	}
	return l.noteLandlock(enforced)
}

// openRuleset builds the ruleset here: the view does not change any more.
func (l *launch) openRuleset(rs landlock.Ruleset, support landlock.Support) error {
	fd, flags, enforced, err := rs.Open(support)
	if err != nil {
		return &SetupError{Stage: "landlock", Err: err}
	}
	l.onRelease(func() { unix.Close(fd) })
	l.restrictFlags = flags
	l.plan.RulesetFD(fd)
	return l.noteLandlock(enforced)
}

// noteLandlock reports what the ABI lacks, less what another mechanism holds.
func (l *launch) noteLandlock(e landlock.Enforced) error {
	l.enforced.LandlockABI, l.enforced.LandlockErrata = e.ABI, e.Errata
	for _, g := range e.Gaps {
		if g.Stricter || l.heldOtherwise(g) {
			continue
		}
		gap := Gap{Part: g.Part, Why: fmt.Sprintf("%s (Landlock ABI %d brings it)", g.Why, g.ABI), Instead: g.Instead}
		if g.Refuse {
			return &SetupError{Stage: "landlock", Err: errors.New(g.Part + ": " + gap.Why), Hint: "a newer kernel; nothing else holds it here"}
		}
		l.enforced.Weakened = append(l.enforced.Weakened, gap)
	}
	return nil
}

// heldOtherwise says whether namespaces or the filter hold what a lower ABI does
// not, see landlock.Levels.
func (l *launch) heldOtherwise(g landlock.Gap) bool {
	switch g.Part {
	case "filesystem":
		return l.view && g.ABI == 3 // truncate(2): nothing else is in view, grants to read are read-only
	case "network":
		return true // no net namespace means no IP sockets
	case "signals and abstract sockets":
		return l.pidNS && l.namespaces&nsNet != 0
	case "devices":
		return l.view
	}
	return false
}
