package landlock

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// Kind says what a path is, where that is known without looking.
type Kind uint8

const (
	// Look at the path when the ruleset is made. The zero value.
	Look Kind = iota
	// File is anything but a directory.
	File
	// Dir is a directory.
	Dir
)

// PathRule grants Access to Path and what is beneath it.
type PathRule struct {
	Path   string // absolute; links are followed
	Access Access
	// Optional rules are left out, and reported, if the path can not be reached.
	Optional bool
	// Kind, if not Look, is taken as it is and the path need not exist yet:
	// for rules that are built in a mount view of their own.
	Kind Kind
}

// Ruleset is what a process may reach. The zero value permits no file. It is
// data: making one touches nothing, and it may be used concurrently.
type Ruleset struct {
	Paths []PathRule
	// RestrictTCP refuses TCP but to and from the ports below. It must be set
	// where ports are granted.
	RestrictTCP         bool
	ConnectTCP, BindTCP []uint16
	// ScopeSignal and ScopeAbstractUnix hold signals and abstract UNIX sockets
	// to processes bound by this ruleset or below it.
	ScopeSignal, ScopeAbstractUnix bool
	// LogExec lets the audit log see denials after execve(2).
	LogExec bool
	// ScopesOnly leaves files and network alone: a layer that does nothing but
	// scope, for the keeper of a run.
	ScopesOnly bool
}

// Plan is a ruleset as data, for a child that builds it by itself:
// landlock_create_ruleset with the first three, landlock_add_rule for each rule
// and port, landlock_restrict_self with Flags.
type Plan struct {
	HandledFS  Access
	HandledNet uint64 // LANDLOCK_ACCESS_NET_*
	Scoped     uint64 // LANDLOCK_SCOPE_*
	Flags      uint32 // LANDLOCK_RESTRICT_SELF_*
	Rules      []RuleData
	Ports      []PortData
}

// RuleData is one path rule. Access has only what the ABI knows and the kernel
// takes on this kind of file, and is never zero.
type RuleData struct {
	Path   string
	Access Access
	Dir    bool
}

// PortData is one TCP port rule.
type PortData struct {
	Port   uint16
	Access uint64
}

// Gap is something that a ruleset wants and this kernel lacks.
type Gap struct {
	Part     string
	ABI      int // that brings it
	Why      string
	Instead  string
	Stricter bool // more is refused than asked for, not less
	Refuse   bool // nothing holds this in its place: do not run
}

// Link is a rule whose path went through a symbolic link.
type Link struct{ Path, Target string }

// Enforced says what the running kernel holds of a ruleset.
type Enforced struct {
	ABI                            int // that is used
	Errata                         int
	Files                          Access // handled
	TCP                            bool
	ScopeSignal, ScopeAbstractUnix bool
	Log                            bool
	Skipped                        []string // optional paths that could not be reached
	Gaps                           []Gap
}

// Plan turns r into data for a kernel that offers s. It reads the file system
// for paths of kind Look. It fails with [ErrNotSupported] if there is no
// Landlock, and if a path that is not optional can not be reached, naming it.
// Gaps do not make it fail, even those that say Refuse: that is up to the
// caller, who knows what holds them in its place.
func (r Ruleset) Plan(s Support) (Plan, Enforced, error) {
	abi := s.effective()
	if err := r.check(s, abi); err != nil {
		return Plan{}, Enforced{}, err
	}
	p := r.frame(abi)
	e := Enforced{
		ABI: abi, Errata: s.Errata, Files: p.HandledFS, TCP: p.HandledNet != 0,
		ScopeSignal:       p.Scoped&scopeSignal != 0,
		ScopeAbstractUnix: p.Scoped&scopeAbstract != 0,
		Log:               p.Flags != 0,
		Gaps:              r.gaps(abi),
	}
	for _, rule := range r.Paths {
		data, err := rule.resolve(p.HandledFS)
		if err != nil && rule.Optional && unreachable(err) {
			e.Skipped = append(e.Skipped, rule.Path)
			continue
		}
		if err != nil {
			return Plan{}, Enforced{}, fmt.Errorf("landlock: path %q: %w", rule.Path, err)
		}
		if data.Access != 0 { // the kernel takes no empty rule (ENOMSG)
			p.Rules = append(p.Rules, data)
		}
	}
	return p, e, nil
}

// check finds rulesets that can not be meant.
func (r Ruleset) check(s Support, abi int) error {
	if s.Err != nil {
		return fmt.Errorf("landlock: %w: %w", ErrNotSupported, s.Err)
	}
	if abi < 1 {
		return fmt.Errorf("landlock: %w", ErrNotSupported)
	}
	if namesPorts(r) && !r.RestrictTCP {
		return errors.New("landlock: ports are granted and TCP is not restricted")
	}
	if !r.ScopesOnly {
		return nil
	}
	if len(r.Paths) > 0 || r.RestrictTCP {
		return errors.New("landlock: a ruleset of scopes only has no rules")
	}
	if !scopes(r) {
		return errors.New("landlock: a ruleset of scopes only names no scope")
	}
	if abi < 6 {
		return fmt.Errorf("landlock: scopes need ABI 6 and there is %d: %w", abi, ErrNotSupported)
	}
	return nil
}

// frame is the plan without path rules.
func (r Ruleset) frame(abi int) Plan {
	var p Plan
	if !r.ScopesOnly {
		p.HandledFS = fileRights(abi)
	}
	if r.RestrictTCP && abi >= 4 {
		p.HandledNet = netBind | netConnect
		p.Ports = r.ports()
	}
	if abi >= 6 && r.ScopeSignal {
		p.Scoped |= scopeSignal
	}
	if abi >= 6 && r.ScopeAbstractUnix {
		p.Scoped |= scopeAbstract
	}
	if abi >= 7 && r.LogExec {
		p.Flags = unix.LANDLOCK_RESTRICT_SELF_LOG_NEW_EXEC_ON
	}
	return p
}

func (r Ruleset) ports() []PortData {
	var ports []PortData
	add := func(port uint16, access uint64) {
		i := slices.IndexFunc(ports, func(d PortData) bool { return d.Port == port })
		if i < 0 {
			ports = append(ports, PortData{Port: port, Access: access})
			return
		}
		ports[i].Access |= access
	}
	for _, port := range r.ConnectTCP {
		add(port, netConnect)
	}
	for _, port := range r.BindTCP {
		add(port, netBind)
	}
	return ports
}

// resolve finds out what rule's path is and cuts its rights to what the kernel
// takes.
func (rule PathRule) resolve(handled Access) (RuleData, error) {
	data := RuleData{Path: rule.Path, Access: rule.Access & handled, Dir: rule.Kind == Dir}
	if !filepath.IsAbs(rule.Path) {
		return data, errors.New("not absolute")
	}
	if node := rule.Access & deviceNodes; node != 0 {
		return data, fmt.Errorf("right %v is never granted", node)
	}
	if over := rule.Access &^ fileRights(Levels[len(Levels)-1].ABI); over != 0 {
		return data, fmt.Errorf("bug: unknown rights %#x", uint64(over))
	}
	if rule.Kind == Look {
		var st unix.Stat_t
		if err := unix.Stat(rule.Path, &st); err != nil {
			return data, err
		}
		data.Dir = st.Mode&unix.S_IFMT == unix.S_IFDIR
	}
	if !data.Dir {
		data.Access &= FileRights
	}
	return data, nil
}

// Links are the rules of kind Look whose path leads through a symbolic link,
// with what they really grant, for reports. It needs /proc, and leaves out what
// can not be reached. A launch has no use for it.
func (r Ruleset) Links() []Link {
	var links []Link
	for _, rule := range r.Paths {
		if rule.Kind != Look {
			continue
		}
		if target, err := finalPath(rule.Path); err == nil && target != filepath.Clean(rule.Path) {
			links = append(links, Link{rule.Path, target})
		}
	}
	return links
}

// finalPath is the kernel's name for what path leads to.
func finalPath(path string) (string, error) {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	var buf [unix.PathMax]byte
	n, err := unix.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd), buf[:])
	return string(buf[:max(n, 0)]), err
}

// unreachable errors mean that the command could not reach the path either.
func unreachable(err error) bool {
	for _, e := range []unix.Errno{unix.ENOENT, unix.ENOTDIR, unix.EACCES, unix.ELOOP} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
