package agentloop

import (
	"context"
	"errors"

	"sandboxd/policy"
)

var (
	// ErrNoSession reports that there is no such session for this peer; another
	// user's session looks the same.
	ErrNoSession = errors.New("no such session")
	// ErrTooManySessions reports that a user has as many as a user may have.
	ErrTooManySessions = errors.New("too many sessions")
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
}

// PolicyInForce is a policy as it was read.
type PolicyInForce struct {
	// Config is complete but for hooks, askers and what the host confines.
	Config policy.Config
	Grant  policy.Grant
	Hooks  []HookSpec
	// Generation is set by the session.
	Generation int64
	// Warnings say what a file says in vain.
	Warnings []string
	// RunUnrecorded is the setting of that name.
	RunUnrecorded bool
}

// PolicyLoader reads the policy for a session, with the rights of the peer. The
// caller puts it in: this package does not read policy files.
type PolicyLoader func(ctx context.Context, peer Peer, r SessionRequest) (PolicyInForce, error)

// SessionsOptions are the parts of [Sessions].
type SessionsOptions struct {
	Load  PolicyLoader
	Host  HostConfinement
	Asks  *AskQueue
	Hooks *HookRegistry
	// Store keeps sessions over a restart. Nil keeps none.
	Store Store
	// Audit gets the SESSION_STOP rows. Nil: the Store.
	Audit   AuditLog
	Metrics *Metrics
	// SelfTest tries a denied read under the policy of a new session, and is to
	// fail when the read succeeds. Nil: none. See [Dispatcher.SelfTest].
	SelfTest func(ctx context.Context, s *Session) error
	// MaxPerUID bounds the sessions of one user; zero: 1000.
	MaxPerUID int
}

// HostConfinement is what the host enforces, for the decision.
type HostConfinement = policy.Confinement

// Sessions holds every live session. It is safe for concurrent use.
type Sessions struct {
	o SessionsOptions
}

// NewSessions returns an empty manager; [Sessions.Restore] fills it.
func NewSessions(o SessionsOptions) (*Sessions, error) {
	if o.Load == nil {
		return nil, errors.New("sessions without a policy loader")
	}
	return &Sessions{o: o}, nil
}

// Create reads the policy, tests it and starts a session.
func (m *Sessions) Create(ctx context.Context, peer Peer, r SessionRequest) (*Session, error) {
	return nil, errors.New("sessions cannot be created yet")
}

// Get returns a session that peer may see, else [ErrNoSession].
func (m *Sessions) Get(id string, peer Peer) (*Session, error) { return nil, ErrNoSession }

// List returns the sessions that peer may see, oldest first.
func (m *Sessions) List(peer Peer) []SessionState { return nil }

// Close ends a session: its calls are cancelled, its questions denied, and one
// SESSION_STOP row is written with the reason.
func (m *Sessions) Close(ctx context.Context, id string, peer Peer, reason string) error {
	return ErrNoSession
}

// Reload reads the policy of every session again. A session whose policy cannot
// be read or used keeps the old one; the errors say which and why.
func (m *Sessions) Reload(ctx context.Context) error { return nil }

// Restore makes the sessions of the Store live again after a restart. One whose
// policy cannot be read any more is ended; the errors say which and why.
func (m *Sessions) Restore(ctx context.Context) error { return nil }

// Shutdown leaves the sessions in the Store and ends their calls.
func (m *Sessions) Shutdown(ctx context.Context) {}
