package policy

import "time"

// Grant is what a decided call may use: the file-system, network and limit part
// of a policy after all sources were merged. agentloop turns it into an
// exec.Spec; nothing else does. The zero Grant grants nothing beyond the
// built-in default view.
type Grant struct {
	// Workspace is the root of the work, absolute. Empty means detect it from
	// the start directory.
	Workspace string
	// Dir is the start directory, absolute or relative to the workspace. It must
	// be in view. Empty means the caller's, or the workspace where that is not
	// in view.
	Dir string
	// User is who the command runs as: "caller", "UID" or "UID:GID". Empty means
	// the caller, but for root in a workspace of another user, which runs as
	// that user.
	User string
	// ReadOnlyWorkspace is mode plan: the sandbox writes nothing.
	ReadOnlyWorkspace bool
	Paths             []PathGrant
	// Network is "none", "full" or a host list.
	Network []string
	// Unix lists socket paths, names or @abstract names that may be connected.
	Unix []string
	// PrivateTmp is false for `[filesystem] tmp = "none"`.
	PrivateTmp bool
	EnvPass    []string // names
	EnvSet     []string // NAME=VALUE
	// Syscalls names the seccomp profile; empty means "default".
	Syscalls    string
	NoExecWrite bool
	Limits      GrantLimits
}

// PathAccess is the access of a [PathGrant].
type PathAccess string

const (
	GrantDeny      PathAccess = "deny"
	GrantProtect   PathAccess = "protect"
	GrantUnprotect PathAccess = "unprotect"
	GrantRead      PathAccess = "ro"
	GrantWrite     PathAccess = "rw"
)

// PathGrant is one file-system entry of a policy.
type PathGrant struct {
	Path   string // as written: may start with "~/" or be relative to the workspace
	Access PathAccess
	Source Source // who wrote it
	// OneCall: a person or a rule approved this path for this call. It adds what
	// is not granted otherwise, also to a read-only workspace, and is reported.
	// Path has no links; one that leads elsewhere by now is refused.
	OneCall bool
	// Optional: what cannot be granted is left out, and said.
	Optional bool
	// Part says what of a rule the entry stands for; such entries are of one call.
	Part RulePart `json:"-"`
}

// RulePart is what of a deny rule a [PathGrant] stands for.
type RulePart uint8

const (
	// NoRule: it is an entry of its own.
	NoRule RulePart = iota
	// RuleDenial is what a rule denies.
	RuleDenial
	// RuleException is what a rule leaves out. It gives back what the rule took, and
	// nothing besides: a rule of a file that nobody trusts has exceptions too.
	RuleException
)

// GrantLimits are the limits of a policy. Zero means the default, negative
// means unlimited.
type GrantLimits struct {
	Timeout     time.Duration
	CPU         time.Duration
	MemoryBytes int64
	Tasks       int
	FileBytes   int64
	OutputBytes int
}

// Source says where a rule or a value comes from.
type Source struct {
	Kind SourceKind
	File string // empty for flags, environment and session
	Line int    // 1-based; 0 unknown
}

// SourceKind is the level of a source. Smaller is stronger.
type SourceKind uint8

const (
	SourceManaged SourceKind = iota
	SourceCLI
	SourceCommand
	SourceSession
	SourceLocalProject
	SourceProject
	SourceUser
	SourceDefault
)

func (k SourceKind) String() string {
	names := [...]string{"managed", "cli", "command", "session", "local", "project", "user", "default"}
	if int(k) < len(names) {
		return names[k]
	}
	return "unknown"
}
