package agentloop

import (
	"context"

	"sandboxd/policy"
)

// SessionRequest is what a client asks for. Paths are opened with its rights.
type SessionRequest struct {
	// Workspace overrides the detected one; Cwd is the client's directory.
	Workspace string
	Cwd       string
	// Mode is the mode to start with; empty leaves it to the policy.
	Mode string
	// Policy and Profile are those of the flags.
	Policy  []string
	Profile string
	// Environ is the client's environment.
	Environ []string
	// Grant is what the client's flags add, each path with its source.
	Grant policy.Grant
	// Agent says that a model will work in the session: keys of model APIs are
	// taken out of Environ and kept apart, see [Session.ProviderEnv]. Keys are more
	// of them, by name.
	Agent bool
	Keys  map[string]string
	// Resumes says that a conversation goes on in the session: its SessionStart hooks
	// are told so.
	Resumes bool
	// Attached says that the session ends with its client; it is kept, and shown.
	Attached bool
	// Key marks the session of calls that name none: after a restart it is found by
	// it again. It is kept, and must tell nothing of what is not.
	Key string
}

// PolicyInForce is a policy as it was read.
type PolicyInForce struct {
	// Config is complete but for hooks, askers and what the host confines.
	Config policy.Config
	Grant  policy.Grant
	// ManagedLimits are the limits of the managed policy, which no call exceeds.
	ManagedLimits policy.GrantLimits
	// ManagedGrant is what the managed policy alone says, for its own hooks.
	ManagedGrant policy.Grant
	Hooks        []HookSpec
	// Skills are directories of skills outside of the workspace, which runs may
	// read; see [PolicyInForce.UseSkills].
	Skills []string
	// MCP are the servers that an agent may use.
	MCP []MCPServer
	// Agent is the table [agent]. ManagedAgent is what the managed policy alone says
	// there: what the user asks for does not replace it ([AgentConfig.WithFlags]).
	Agent, ManagedAgent AgentConfig
	// TrustsHook reports whether a person trusted exactly this content of a file
	// that a hook of a checkout starts. Nil trusts nothing.
	TrustsHook func(path string, content []byte) bool
	// FileBytes is the size of the files that it was read from.
	FileBytes int64
	// Changed reports whether what the policy was read from is not what it was. It
	// is called with the rights of the peer. Nil: it never changes.
	Changed func() bool
	// Generation is set by the session.
	Generation int64
	// Warnings say what a file says in vain.
	Warnings []string
	// Unrecorded is what becomes of calls whose row cannot be written.
	Unrecorded Unrecorded
	// Recorded: the Dispatcher of a [LocalSession] has a log, so that secrets are masked
	// there too.
	Recorded bool
}

// Unrecorded says what becomes of a call whose row in the audit log cannot be written.
type Unrecorded uint8

const (
	// UnrecordedUnsaid leaves it to the Dispatcher, which refuses unless it is set to
	// run them.
	UnrecordedUnsaid Unrecorded = iota
	// UnrecordedRefused refuses, also where the Dispatcher would not.
	UnrecordedRefused
	// UnrecordedRun lets it run, and the result says so.
	UnrecordedRun
)

// PolicyLoader reads the policy for a session, with the rights of the peer. The
// caller puts it in: this package does not read policy files.
type PolicyLoader func(ctx context.Context, peer Peer, r SessionRequest) (PolicyInForce, error)
