package exec

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"sandboxd/exec/child"
	"sandboxd/landlock"
	"sandboxd/seccomp"
)

// Mechanism is one thing that can hold a command, as tried on this host.
type Mechanism struct {
	Name      string `json:"name"`
	Works     bool   `json:"works"`
	RefusedBy string `json:"refused_by,omitempty"` // kernel, sysctl, LSM, outer seccomp filter, missing capability
	Evidence  string `json:"evidence,omitempty"`   // the failing step and its errno
	Lost      string `json:"lost,omitempty"`       // what runs lose without it
	Fix       string `json:"fix,omitempty"`
}

// Host is what this host can enforce for this caller. It is probed by doing.
// The zero Host can enforce nothing and runs nothing.
type Host struct {
	LandlockABI    int `json:"landlock_abi"`
	LandlockErrata int `json:"landlock_errata"`
	// UserNS: namespaces need an own user namespace first.
	UserNS bool `json:"user_namespace"`
	// MountView: mount and pid namespace, tmpfs, binds, fresh proc and devpts,
	// pivot_root all worked in one sequence, the one that a run uses.
	MountView bool `json:"mount_view"`
	PIDNS     bool `json:"pid_namespace"`
	IPCNS     bool `json:"ipc_namespace"`
	NetNS     bool `json:"net_namespace"` // with loopback up
	// PIDMax: kernel.pid_max is per namespace (6.14).
	PIDMax bool `json:"pid_max_per_namespace"`
	// Scoped: the keeper's signals can be held to its run without a pid namespace.
	Scoped     bool        `json:"scoped_signals"`
	Mechanisms []Mechanism `json:"mechanisms"`

	// Cgroups is where control groups for runs can be made.
	Cgroups cgroupHost `json:"cgroups"`

	landlock landlock.Support
	// short: something failed for want of descriptors, tasks or memory, so the
	// answer is about this moment.
	short bool
}

// probe tries one plan in a keeper and tells how it went.
func probe(ns uint64, build func(*child.Plan)) (*child.Process, error) {
	var p child.Plan
	build(&p)
	p.Ready()
	proc, err := child.Start(&p, child.Options{Namespaces: ns})
	if err != nil {
		return nil, err
	}
	proc.Send(child.Message{Type: child.End})
	for {
		if m, err := proc.Receive(); err != nil || m.Type == child.Done {
			break
		}
	}
	return proc, proc.Close()
}

const (
	nsUser  = unix.CLONE_NEWUSER
	nsMount = unix.CLONE_NEWNS
	nsPID   = unix.CLONE_NEWPID
	nsIPC   = unix.CLONE_NEWIPC
	nsNet   = unix.CLONE_NEWNET
)

// viewProbe is the mount part of a run with the smallest possible view.
func viewProbe(p *child.Plan) {
	p.Private(false)
	null := p.Tree("/dev/null", child.NoSUID|child.NoExec, child.Follow)
	root := p.Tmpfs(1<<20, 0o755, child.NoSUID|child.NoDev)
	p.Root(root)
	p.Attach(null, "/dev/null", child.MakeFile)
	p.Mkdir("/a", 0o755)
	p.Rebind("/a", child.ReadOnly, child.Same{}, 0)
	p.Mask("/a", child.Same{}, 0)
	p.Attach(p.Proc(child.ReadOnly|child.NoSUID|child.NoDev|child.NoExec), "/proc", child.MakeDir)
	p.Attach(p.Devpts(child.NoSUID|child.NoExec), "/dev/pts", child.MakeDir)
	p.RootReadOnly()
	p.Pivot()
}

// ProbeHost tries every mechanism once, in children that end before it returns.
// It takes some milliseconds; [LoadHost] keeps the answer for the boot.
func ProbeHost() Host {
	var h Host
	h.probeLandlock()
	h.probeSeccomp()
	_, err := probe(0, func(p *child.Plan) { p.Drop() })
	h.add(Mechanism{Name: "keeper", Lost: "nothing can be run"}, err)
	if err != nil {
		return h
	}
	proc, err := probe(0, func(p *child.Plan) { p.Scope(); p.Subreaper(); p.Drop() })
	h.Scoped = err == nil && proc.Scoped
	if err == nil && !proc.Scoped {
		err = errors.New("a signal to the starter was not refused")
	}
	h.add(Mechanism{Name: "signal scope", Lost: "without a pid namespace, a chain that re-forks fast can outlive its run",
		Fix: "a kernel with Landlock ABI 6 (6.12)"}, err)
	h.probeNamespaces()
	h.probeCgroups()
	return h
}

// probeCgroups finds where control groups can be made. Without one, limits of the
// whole tree have the substitutes that limitGaps names.
func (h *Host) probeCgroups() {
	groups, err := probeCgroup()
	h.Cgroups = groups
	m := Mechanism{Name: "cgroup", Lost: "memory and task limits are approximate, see limits in docs/confinement.md",
		Fix: "root, or a delegated group: systemd-run --user --scope -p Delegate=yes"}
	if err == nil && len(groups.Parents) == 0 {
		err = errors.New(strings.Join(groups.Evidence, "; "))
		m.RefusedBy = "no writable group"
	}
	h.add(m, err)
	if err == nil {
		h.Mechanisms[len(h.Mechanisms)-1].Evidence = string(groups.Kind) + ": " + strings.Join(groups.Evidence, "; ")
	}
}

func (h *Host) add(m Mechanism, err error) {
	m.Works = err == nil
	h.short = h.short || short(err)
	if err == nil {
		m.Lost, m.Fix = "", ""
	} else {
		m.Evidence = err.Error()
		if m.RefusedBy == "" {
			m.RefusedBy, m.Fix = blame(err, m.Fix)
		}
	}
	h.Mechanisms = append(h.Mechanisms, m)
}

// short reports whether err says that the caller or the host ran out of something
// that may be there again in a moment.
func short(err error) bool {
	for _, errno := range []error{unix.EMFILE, unix.ENFILE, unix.EAGAIN, unix.ENOMEM, unix.ENOBUFS, unix.ENOSPC, unix.EDQUOT, unix.EUSERS, unix.EINTR} {
		if errors.Is(err, errno) {
			return true
		}
	}
	return false
}

func (h *Host) probeLandlock() {
	s := landlock.Probe()
	h.landlock, h.LandlockABI, h.LandlockErrata = s, s.ABI, s.Errata
	m := Mechanism{Name: "landlock", Lost: "nothing is run: there is no confinement by path",
		Fix: "a kernel from 5.13 with CONFIG_SECURITY_LANDLOCK and landlock in lsm="}
	err := s.Err
	if errors.Is(err, unix.EOPNOTSUPP) {
		m.RefusedBy = "kernel: built in, not enabled at boot"
	}
	h.add(m, err)
	if err == nil {
		h.Mechanisms[len(h.Mechanisms)-1].Evidence = fmt.Sprintf("ABI %d, errata %#x", s.ABI, s.Errata)
	}
}

func (h *Host) probeSeccomp() {
	m := Mechanism{Name: "seccomp", Lost: "nothing is run: there is no system call filter",
		Fix: "a kernel with CONFIG_SECCOMP_FILTER"}
	s := seccomp.Probe()
	var err error
	if !s.Available {
		err = errors.New("seccomp filters are not available")
	}
	h.add(m, err)
}

// probeNamespaces tries the sequence of a run, first with the rights the caller
// has, then in a user namespace. Only if both fail are the parts tried alone.
func (h *Host) probeNamespaces() {
	view := uint64(nsMount | nsPID | nsIPC | nsNet)
	full := func(p *child.Plan) { viewProbe(p); p.Loopback() }
	_, direct := probe(view, full)
	err := direct
	if direct != nil {
		_, err = probe(view|nsUser, full)
		h.UserNS = err == nil
	}
	if err == nil {
		h.MountView, h.PIDNS, h.IPCNS, h.NetNS = true, true, true, true
		for _, name := range []string{"mount view", "pid namespace", "ipc namespace", "net namespace"} {
			h.add(Mechanism{Name: name}, nil)
		}
		h.addUserNS(nil)
		h.probePIDMax()
		return
	}
	user := uint64(0)
	var userErr error
	if direct != nil {
		if _, userErr = probe(nsUser, func(*child.Plan) {}); userErr == nil {
			user, h.UserNS = nsUser, true
		}
	}
	h.addUserNS(userErr)
	try := func(name string, ns uint64, lost string, build func(*child.Plan)) bool {
		_, err := probe(ns|user, build)
		h.add(Mechanism{Name: name, Lost: lost}, err)
		return err == nil
	}
	none := func(*child.Plan) {}
	h.PIDNS = try("pid namespace", nsPID, "other processes are visible in /proc", none)
	h.IPCNS = try("ipc namespace", nsIPC, "System V and POSIX queues of the same user can be reached", none)
	h.NetNS = try("net namespace", nsNet, "IP sockets are refused unless the network is granted", (*child.Plan).Loopback)
	h.MountView = try("mount view", nsMount|nsPID,
		"protected names are judged after the run, --deny inside a grant is refused, /tmp and /dev/shm are not there", viewProbe) && h.PIDNS
	h.probePIDMax()
}

func (h *Host) addUserNS(err error) {
	m := Mechanism{Name: "user namespace", Lost: "no namespaces for an ordinary user"}
	if err == nil && !h.UserNS {
		m.Evidence = "not needed: the caller may make namespaces"
		h.Mechanisms = append(h.Mechanisms, Mechanism{Name: m.Name, Works: true, Evidence: m.Evidence})
		return
	}
	h.add(m, err)
}

// probePIDMax looks for a pid_max of its own in a new pid namespace: lowering it
// there must leave the host's alone.
func (h *Host) probePIDMax() {
	if !h.PIDNS || !h.MountView || h.UserNS {
		return
	}
	before, err := os.ReadFile("/proc/sys/kernel/pid_max")
	if err != nil || !kernelAtLeast(6, 14) {
		return
	}
	_, err = probe(nsMount|nsPID, func(p *child.Plan) { p.PIDMax(4096) })
	after, rerr := os.ReadFile("/proc/sys/kernel/pid_max")
	h.PIDMax = err == nil && rerr == nil && string(before) == string(after)
}

// kernelAtLeast guards the one probe that would change the host where the
// feature is missing: pid_max was global before 6.14.
func kernelAtLeast(major, minor int) bool {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return false
	}
	var a, b int
	if _, err := fmt.Sscanf(unix.ByteSliceToString(u.Release[:]), "%d.%d", &a, &b); err != nil {
		return false
	}
	return a > major || a == major && b >= minor
}

// blame says who refused, from what can be seen.
func blame(err error, fix string) (by, how string) {
	sysctl := func(path string) string {
		b, err := os.ReadFile(path)
		if err != nil {
			return ""
		}
		return strings.TrimSpace(string(b))
	}
	switch {
	case errors.Is(err, unix.ENOSYS):
		if filtered() {
			return "an outer seccomp filter (ENOSYS)", "loosen the container's seccomp profile"
		}
		return "kernel: not built in", fix
	case errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EUSERS):
		return "sysctl: user.max_*_namespaces", "raise user.max_user_namespaces"
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		if sysctl("/proc/sys/kernel/unprivileged_userns_clone") == "0" && os.Geteuid() != 0 {
			return "sysctl: kernel.unprivileged_userns_clone=0", "sysctl kernel.unprivileged_userns_clone=1"
		}
		if sysctl("/proc/sys/user/max_user_namespaces") == "0" {
			return "sysctl: user.max_user_namespaces=0", "sysctl user.max_user_namespaces=10000"
		}
		if filtered() {
			return "an outer seccomp filter (EPERM)", "loosen the container's seccomp profile, or keep to the base tier"
		}
		if sysctl("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") == "1" && os.Geteuid() != 0 {
			return "LSM: AppArmor restricts user namespaces", "an AppArmor profile for sbx that has userns"
		}
		return "missing capability or LSM", fix
	}
	return "kernel", fix
}

// filtered reports whether this process already runs under a seccomp filter.
func filtered() bool {
	b, err := os.ReadFile("/proc/self/status")
	return err == nil && strings.Contains(string(b), "\nSeccomp:\t2\n")
}
