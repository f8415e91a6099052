package landlock

import "golang.org/x/sys/unix"

// Level is what one ABI brought, and what a kernel without it does. A kernel
// lacks the levels above its ABI and has all below it.
type Level struct {
	ABI    int
	Kernel string // the first release; distributions port back, so ask the ABI
	Adds   string
	// Without says what happens on a kernel below this ABI, Instead what holds
	// the same there, and Refuse when a run must not start there.
	Without, Instead, Refuse string

	fs Access // file rights that this ABI added
	// part names the part of a policy in a Gap. Empty: nothing of ours depends
	// on this level.
	part string
	// stricter: without it more is refused, not less.
	stricter bool
	// wanted says whether a ruleset depends on this level; refuse whether it
	// can not do without.
	wanted, refuse func(Ruleset) bool
}

// Levels is one row per ABI, 1 to the newest that go-landlock knows. The same
// table is in docs/landlock.md.
// Source: Documentation/userspace-api/landlock.rst, and the trials in
// level_test.go for what lower ABIs let pass.
var Levels = []Level{
	{
		ABI: 1, Kernel: "5.13", Adds: "13 file rights",
		Without: "nothing is held by path",
		Instead: "nothing; a mount view alone is no substitute",
		Refuse:  "always, unless a run without Landlock is asked for by name",
		fs:      1<<13 - 1, part: "filesystem", wanted: holdsFiles, refuse: holdsFiles,
	},
	{
		ABI: 2, Kernel: "5.19", Adds: "refer",
		Without: "link and rename between directories are always refused (EXDEV), in a granted tree too",
		Instead: "programs that copy on EXDEV, as mv does",
		Refuse:  "never: stricter, not weaker",
		fs:      Refer, part: "filesystem", stricter: true, wanted: grants(Refer),
	},
	{
		ABI: 3, Kernel: "6.2", Adds: "truncate",
		Without: "any file that its mode lets the command write can be cut to a length, anywhere in view",
		Instead: "read-only mounts and a view without other files",
		Refuse:  "never: reported as weakened where there is no mount view",
		fs:      Truncate, part: "filesystem", wanted: holdsFiles,
	},
	{
		ABI: 4, Kernel: "6.7", Adds: "TCP bind and connect by port",
		Without: "TCP is not held by Landlock",
		Instead: "an own network namespace, or no IP sockets (seccomp)",
		Refuse:  "when single ports are granted: nothing else here knows ports",
		part:    "network", wanted: restrictsTCP, refuse: namesPorts,
	},
	{
		ABI: 5, Kernel: "6.10", Adds: "ioctl_dev",
		Without: "a device that can be opened takes every ioctl",
		Instead: "a minimal /dev, and seccomp refusing terminal injection",
		Refuse:  "never: reported as weakened",
		fs:      IoctlDev, part: "devices", wanted: holdsFiles,
	},
	{
		ABI: 6, Kernel: "6.12", Adds: "scopes for signals and abstract UNIX sockets",
		Without: "processes of the same user can be signalled, abstract sockets reached",
		Instead: "own pid and network namespaces",
		Refuse:  "when the scopes are all there is to a ruleset (the keeper's layer)",
		part:    "signals and abstract sockets", wanted: scopes, refuse: scopesOnly,
	},
	{
		ABI: 7, Kernel: "6.15", Adds: "flags for the audit log",
		Without: "what the command was refused is not in the audit log",
		Instead: "nothing; confinement is the same",
		Refuse:  "never",
		part:    "denial log", wanted: func(r Ruleset) bool { return r.LogExec },
	},
	{
		ABI: 8, Kernel: "7.0", Adds: "binding all threads at once",
		Without: "only the calling thread is bound",
		Instead: "not needed: the child that binds itself has one thread",
		Refuse:  "never",
	},
	{
		ABI: 9, Kernel: "after 7.0", Adds: "resolve_unix",
		Without: "UNIX sockets in the file system can be connected to, granted or not",
		Instead: "a mount view without them, or no AF_UNIX sockets (seccomp); both are used with ABI 9 as well",
		Refuse:  "never",
		fs:      ConnectFS,
	},
	{
		ABI: 10, Kernel: "after 7.0", Adds: "UDP by port, and keeping chosen denials out of the log",
		Without: "UDP is not held by Landlock",
		Instead: "an own network namespace, or no IP sockets (seccomp); both are used with ABI 10 as well",
		Refuse:  "never",
	},
	{
		ABI: 11, Kernel: "after 7.0", Adds: "setting no_new_privs while binding",
		Without: "no_new_privs is set by a call of its own",
		Instead: "not needed",
		Refuse:  "never",
	},
}

func holdsFiles(r Ruleset) bool   { return !r.ScopesOnly }
func restrictsTCP(r Ruleset) bool { return r.RestrictTCP }
func namesPorts(r Ruleset) bool   { return len(r.ConnectTCP)+len(r.BindTCP) > 0 }
func scopes(r Ruleset) bool       { return r.ScopeSignal || r.ScopeAbstractUnix }
func scopesOnly(r Ruleset) bool   { return r.ScopesOnly }

func grants(a Access) func(Ruleset) bool {
	return func(r Ruleset) bool {
		for _, p := range r.Paths {
			if p.Access&a != 0 {
				return true
			}
		}
		return false
	}
}

// fileRights are all file rights of an ABI.
func fileRights(abi int) Access {
	var a Access
	for _, l := range Levels {
		if l.ABI <= abi {
			a |= l.fs
		}
	}
	return a
}

// gaps are the levels above abi that r depends on.
func (r Ruleset) gaps(abi int) []Gap {
	var gaps []Gap
	for _, l := range Levels {
		if l.ABI <= abi || l.wanted == nil || !l.wanted(r) {
			continue
		}
		gaps = append(gaps, Gap{
			Part: l.part, ABI: l.ABI, Why: l.Without, Instead: l.Instead,
			Stricter: l.stricter, Refuse: l.refuse != nil && l.refuse(r),
		})
	}
	return gaps
}

// Erratum is a fault that some kernels of an ABI have.
type Erratum struct {
	Bit  int // in Support.Errata; set: fixed
	ABI  int // the first with the fault
	Text string
}

// Errata are the kernel's known ones (security/landlock/errata).
var Errata = []Erratum{
	{1 << 0, 4, "TCP rules also held sockets that are not TCP, such as SMC and multipath TCP"},
	{erratumSignals, 6, "the signal scope refused signals between threads of one process; counted as ABI 5, without scopes"},
	{1 << 2, 1, "rules were not found from a directory moved out of its bind mount"},
}

const (
	erratumSignals = 1 << 1

	netBind, netConnect = unix.LANDLOCK_ACCESS_NET_BIND_TCP, unix.LANDLOCK_ACCESS_NET_CONNECT_TCP

	scopeAbstract, scopeSignal = unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET, unix.LANDLOCK_SCOPE_SIGNAL
)
