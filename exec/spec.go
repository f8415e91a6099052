// Package exec runs one command under confinement and tells what was enforced.
//
//	res, err := exec.NewRunner(host).Run(ctx, exec.Spec{
//		Argv: []string{"/usr/bin/make", "test"}, Dir: work, Env: env, View: view,
//	})
//
// A [Spec] is complete: it holds every path, variable and limit, and nothing is
// taken from the calling process besides. [Result] says how the command ended
// and which mechanism held which part of the Spec.
//
// # Limits
//
// This package decides nothing: it does not know rules, and a Spec that grants
// "/" gives the command "/". It does not protect against a hostile kernel.
package exec

import (
	"io"
	"os"
	"time"
)

// Access says what a command may do beneath a path. The zero value denies.
// Where two entries name the same path the smaller value wins.
type Access uint8

const (
	// Deny hides the path: nothing beneath it can be opened.
	Deny Access = iota
	// Protect makes an existing path inside a writable one read-only.
	Protect
	// ReadOnly allows reading and executing.
	ReadOnly
	// ReadWrite allows everything but device nodes.
	ReadWrite
)

// EntryKind says where the content of an [Entry] comes from.
type EntryKind uint8

const (
	// Bind shows a path of the host. The zero value.
	Bind EntryKind = iota
	// Tmpfs is a fresh, empty, size-capped memory file system. It needs a
	// mount view.
	Tmpfs
)

// Entry is one path of a [View].
type Entry struct {
	// Path is absolute and clean, as the command sees it.
	Path string
	// Source is the same path on the host with all symbolic links resolved.
	// Empty means Path. Source differs from Path only in a mount view.
	Source string
	Access Access
	Kind   EntryKind
	// Bytes caps a Tmpfs. 0 means 64 MiB.
	Bytes int64
	// Optional entries may be missing at the start; others then refuse the run.
	Optional bool
	// Demanded entries were written by the user: if the host cannot enforce
	// them the run is refused, unless Spec.BestEffort.
	Demanded bool
	// Reason is one short phrase for people: "workspace", "system directory".
	Reason string
}

// Link is a symbolic link made in the root of a mount view ("/bin" -> "usr/bin").
type Link struct{ Path, Target string }

// View is what the command can reach in the file system. Only what is listed is
// reachable; the longest path wins, then the stricter access, in any order.
// Fresh /proc, /dev and /dev/shm are added by the Runner.
type View struct {
	Entries []Entry
	Links   []Link
	// ShmBytes caps the private /dev/shm of a mount view. 0 means 64 MiB.
	ShmBytes int64
}

// Network is what the command may reach. The zero value is none.
type Network uint8

const (
	// NetNone gives an empty network namespace with loopback up, or, where
	// there is none, no IP sockets at all.
	NetNone Network = iota
	// NetFull leaves the host's network.
	NetFull
)

// Tier chooses how much confinement is used.
type Tier uint8

const (
	// TierAuto takes everything that works on this host.
	TierAuto Tier = iota
	// TierBase uses no namespace and no cgroup, as in a plain container.
	TierBase
	// TierFull refuses to run where a mount view cannot be made.
	TierFull
)

// User is the identity a command runs as.
type User struct {
	UID, GID int
	Groups   []int
	// OwnPaths says that this user named the paths of the Spec: they are opened with
	// its rights, so that what it exchanges after they were looked at leads nowhere
	// that is closed to it.
	OwnPaths bool
}

// Limits bounds a run. Zero fields mean the default named beside them; Unlimited
// is always spelled out.
type Limits struct {
	Wall  time.Duration // default none for sbx run
	Grace time.Duration // between TERM and KILL; default 2 s
	// CancelGrace is Grace for a run that its context ends; default Grace.
	CancelGrace time.Duration
	CPU         time.Duration // default none
	Memory      int64         // bytes, whole tree; default none
	Tasks       int           // live tasks, whole tree; default 256
	FileSize    int64         // bytes, one file; default none
	// OutputBytes caps what is kept of each captured stream in the Result
	// (head and tail). Default 4000. Streams that are passed through are
	// not cut.
	OutputBytes int
	// OutputFileBytes caps the file of the whole output. Default 64 MiB.
	OutputFileBytes int64
}

// Unlimited spells out that a limit is not wanted.
const Unlimited = -1

// PassFD hands an open descriptor to the command under number Number.
type PassFD struct {
	File   *os.File
	Number int
}

// OutputFile takes a whole output. An *os.File is one.
type OutputFile interface {
	io.WriteCloser
	Name() string // the path for people
}

// Spec is everything about one run.
type Spec struct {
	// Argv is the command; Argv[0] is what it sees as its name.
	Argv []string
	// Path is the program's absolute path in the view.
	Path string
	// Dir is the start directory in the view.
	Dir string
	// Env is the complete environment.
	Env []string
	// User is the identity. Nil means the caller's.
	User  *User
	Umask int // 0 means 022

	View    View
	Network Network
	// UnixSockets allows AF_UNIX sockets in a run without a mount view. With a
	// mount view they are always allowed, since only granted ones are in view.
	UnixSockets bool
	// AbstractSockets leaves abstract UNIX sockets unscoped (--unix @NAME).
	AbstractSockets bool
	// NoExecWrite refuses execution of anything the command can write.
	NoExecWrite bool
	// Syscalls names the seccomp profile. Empty means "default".
	Syscalls string
	Limits   Limits

	// Stdin is passed as it is when it is a pipe, a regular file or the null
	// device, and copied through a pipe otherwise. Nil means the null device.
	Stdin *os.File
	// Stdout and Stderr receive the output as it comes. Nil captures it into
	// the Result instead.
	Stdout, Stderr io.Writer
	// Watch, if not nil, also gets the pieces of what is captured, as they come:
	// stream is "stdout" or "stderr"; with TTY those of what the command's terminal
	// prints: stream is "terminal". It is called by two goroutines at once, and
	// holds up the command while it runs. It must not keep the piece.
	Watch func(stream string, piece []byte)
	// TTY asks for an own pseudo-terminal, connected to this terminal.
	TTY *os.File
	// BeforeStart is called while the view is made: the command starts after it
	// returned nil. An error of it ends the start and is what Run returns. Nil
	// means that there is nothing to do.
	BeforeStart func() error
	// Signals are delivered to the command's process group.
	Signals <-chan os.Signal
	PassFDs []PassFD
	// OpenOutput makes the file of a whole captured output, once the output is
	// longer than what the Result keeps of it. Nil means that none is kept. It may
	// be called for both streams at once. Each file is closed before Run returns.
	OpenOutput func() (OutputFile, error)

	Tier       Tier
	BestEffort bool
}
