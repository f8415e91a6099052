package agentloop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"sandboxd/exec"
	"sandboxd/policy"
)

var (
	// ErrNoSession reports that there is no such session for this peer; another
	// user's session looks the same.
	ErrNoSession = errors.New("no such session")
	// ErrTooManySessions reports that a user has as many as a user may have.
	ErrTooManySessions = errors.New("too many sessions")
)

// SessionsOptions are the parts of [Sessions].
type SessionsOptions struct {
	Load PolicyLoader
	// Runner and Host are for the command hooks of a policy.
	Runner *exec.Runner
	Host   exec.Host
	// OwnDirs are directories of the daemon, and its sockets, that no hook sees.
	OwnDirs []string
	// Tools are those of the Dispatcher: decisions hear of their rules.
	Tools []Tool
	// Confinement is how much of a run's confinement this host enforces.
	Confinement policy.Confinement
	// PolicyRefused is told when a changed policy of a session cannot be read. Nil:
	// the session's events alone tell.
	PolicyRefused func(session string, err error)
	Asks          *AskQueue
	Hooks         *HookRegistry
	// Store keeps sessions over a restart. Nil keeps none.
	Store Store
	// Audit gets the SESSION_STOP rows. Nil: the Store, in one write with the end.
	Audit AuditLog
	// RunUnrecorded is that of the Dispatcher: where it holds, a session that cannot be
	// kept is made, and ends with its daemon.
	RunUnrecorded bool
	Metrics       *Metrics
	// SelfTest tries a denied read under the policy of a new session, and is to
	// fail when the read succeeds. Nil: none. See [Dispatcher.SelfTest].
	SelfTest func(ctx context.Context, s *Session) error
	// MaxPerUID bounds the sessions of one user; zero: 1000.
	MaxPerUID int
	Now       func() time.Time // nil: time.Now
}

// Sessions holds every live session. It is safe for concurrent use.
type Sessions struct {
	o SessionsOptions

	mu    sync.Mutex
	live  map[string]*Session
	users map[int]*userMemory // also of sessions that are being made
}

// maxSessionsPerUID bounds what one user can make the daemon remember.
const maxSessionsPerUID = 1000

// NewSessions returns an empty manager; [Sessions.Restore] fills it.
func NewSessions(o SessionsOptions) (*Sessions, error) {
	if o.Load == nil {
		return nil, errors.New("sessions without a policy loader")
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.MaxPerUID == 0 {
		o.MaxPerUID = maxSessionsPerUID
	}
	return &Sessions{o: o, live: map[string]*Session{}, users: map[int]*userMemory{}}, nil
}

func (m *Sessions) parts() sessionParts {
	parts := sessionParts{confinement: m.o.Confinement, asks: m.o.Asks, hooks: m.o.Hooks, runner: m.o.Runner, host: m.o.Host, ownDirs: m.o.OwnDirs, tools: m.o.Tools, now: m.o.Now}
	parts.reload = m.reload
	if m.o.Store != nil {
		parts.changed = func(s *Session) error { return m.o.Store.SaveSession(context.Background(), s.State()) }
	}
	return parts
}

// Create reads the policy, tests it and starts a session. A session whose policy
// cannot be read, or is not held by this host, is not made.
func (m *Sessions) Create(ctx context.Context, peer Peer, r SessionRequest) (*Session, error) {
	if err := m.reserve(peer.UID()); err != nil {
		return nil, err
	}
	s, err := m.start(ctx, NewID("session"), peer, r, nil)
	if err != nil {
		m.forget(peer.UID(), "")
		return nil, err
	}
	source := startNew
	if r.Resumes {
		source = startResume
	}
	s.start(ctx, source)
	if err := s.keep(); err != nil && !s.runsUnrecorded(m.o.RunUnrecorded) {
		m.o.Hooks.DropSession(s)
		s.release()
		m.forget(peer.UID(), "")
		return nil, err
	}
	m.add(s)
	return s, nil
}

// reserve counts one session more of uid.
func (m *Sessions) reserve(uid int) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	u := m.users[uid]
	if u == nil {
		u = &userMemory{}
		m.users[uid] = u
	}
	if u.sessions >= m.o.MaxPerUID {
		return fmt.Errorf("%w: uid %d has %d; close one", ErrTooManySessions, uid, u.sessions)
	}
	u.sessions++
	return nil
}

// memoryOf counts what a user's sessions hold; the user has one at least.
func (m *Sessions) memoryOf(uid int) *userMemory {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.users[uid]
}

func (m *Sessions) add(s *Session) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.live[s.id] = s
	m.o.Metrics.add(1, "sandboxd_sessions")
}

// forget takes a session, or a reservation, out of the count.
func (m *Sessions) forget(uid int, id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if u := m.users[uid]; u != nil {
		if u.sessions--; u.sessions <= 0 {
			delete(m.users, uid)
		}
	}
	if s, ok := m.live[id]; ok {
		s.release()
		delete(m.live, id)
		m.o.Metrics.add(-1, "sandboxd_sessions")
	}
}

// start makes a session with everything that can fail. kept is nil for a new one.
func (m *Sessions) start(ctx context.Context, id string, peer Peer, r SessionRequest, kept *SessionState) (made *Session, err error) {
	if r.Cwd != "" {
		peer.Caller.Cwd = r.Cwd
	}
	if r.Environ != nil {
		peer.Caller.Environ = r.Environ
	}
	r.Cwd, r.Environ = peer.Caller.Cwd, peer.Caller.Environ
	parts := m.parts()
	parts.memory = m.memoryOf(peer.UID())
	s := newSession(id, peer, r, parts)
	s.SetProviderKeys(r.Keys)
	defer func() {
		if err != nil {
			m.o.Hooks.DropSession(s)
			s.release()
		}
	}()
	if kept != nil {
		s.created, s.own = kept.Created, slices.Clone(kept.Rules)
	}
	if err := s.hold(requestBytes(r) + rulesBytes(s.own)); err != nil {
		return nil, err
	}
	var ws Workspace
	var wsErr error
	if err := s.asUser(func() { ws, _, wsErr = DetectWorkspace(peer.Caller.Cwd, r.Workspace, peer.Caller) }); err != nil || wsErr != nil {
		return nil, errors.Join(err, wsErr)
	}
	s.workspace = ws.Root
	if kept != nil && kept.Workspace != ws.Root {
		return nil, fmt.Errorf("the workspace was %s and is %s now", kept.Workspace, ws.Root)
	}
	if err := m.loadWithoutKeys(ctx, s); err != nil {
		return nil, err
	}
	if m.o.SelfTest != nil {
		if err := m.o.SelfTest(ctx, s); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// load reads the policy and puts it in force.
func (m *Sessions) load(ctx context.Context, s *Session) error {
	r, peer := s.asked(), s.Peer()
	r.Workspace = s.workspace
	var p PolicyInForce
	var loadErr, installErr error
	err := s.asUser(func() {
		if p, loadErr = m.o.Load(ctx, peer, r); loadErr == nil {
			loadErr = s.holdPolicy(p)
		}
		if loadErr == nil {
			installErr = s.install(p)
		}
	})
	return errors.Join(err, loadErr, installErr)
}

// Get returns a session that peer may see, else [ErrNoSession].
func (m *Sessions) Get(id string, peer Peer) (*Session, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.live[id]
	if s == nil || !peer.owns(s.peer.UID()) {
		return nil, ErrNoSession
	}
	return s, nil
}

// Find returns a live session whoever asks; it is for the daemon's own parts.
func (m *Sessions) Find(id string) (*Session, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s, ok := m.live[id]
	return s, ok
}

// all returns the live sessions, oldest first.
func (m *Sessions) all() []*Session {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := make([]*Session, 0, len(m.live))
	for _, s := range m.live {
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b *Session) int {
		if c := a.created.Compare(b.created); c != 0 {
			return c
		}
		return strings.Compare(a.id, b.id)
	})
	return out
}

// List returns the sessions that peer may see, oldest first.
func (m *Sessions) List(peer Peer) []SessionState {
	var out []SessionState
	for _, s := range m.all() {
		if peer.owns(s.peer.UID()) {
			out = append(out, s.State())
		}
	}
	return out
}

// Keyed returns the sessions whose request had a key, oldest first.
func (m *Sessions) Keyed() []*Session {
	return slices.DeleteFunc(m.all(), func(s *Session) bool { return s.Key() == "" })
}

// Close ends a session: its calls are ended, its questions denied, and one
// SESSION_STOP row is written with the reason.
func (m *Sessions) Close(ctx context.Context, id string, peer Peer, reason string) error {
	s, err := m.Get(id, peer)
	if err != nil {
		return err
	}
	return m.stop(ctx, s, reason)
}

// stop ends s once; whoever comes second finds no session.
func (m *Sessions) stop(ctx context.Context, s *Session, reason string) error {
	if !s.end(ctx, reason) {
		return ErrNoSession
	}
	m.o.Hooks.Fire(context.WithoutCancel(ctx), s, HookEvent{Event: EventSessionStop, Session: s.id, Cwd: s.workspace, Reason: reason})
	s.keeping.Lock() // who keeps it meanwhile must not bring it back
	err := m.stopRow(ctx, s.State(), s.Generation(), s.Kept().Mask(reason))
	s.keeping.Unlock()
	if m.o.Asks != nil {
		m.o.Asks.dropSession(context.WithoutCancel(ctx), s.id)
	}
	m.o.Hooks.DropSession(s)
	s.events.Publish(EventSessionStopped, map[string]string{"reason": reason})
	s.events.close()
	m.forget(s.peer.UID(), s.id)
	return err
}

// stopRow writes the last row of a session and forgets it. Without its row it stays
// in the Store, and is ended after the next start.
func (m *Sessions) stopRow(ctx context.Context, st SessionState, generation int64, reason string) error {
	why, err := json.Marshal(map[string]string{"type": "session", "text": reason})
	if err != nil {
		return err
	}
	row := AuditRecord{
		Time: m.o.Now().UTC(), UID: st.UID, Session: st.ID, Tool: "session", Status: StatusSessionStop, Agent: "lead",
		ElapsedMS: m.o.Now().Sub(st.Created).Milliseconds(), Reason: why, Generation: generation,
	}
	ctx = context.WithoutCancel(ctx)
	if m.o.Store != nil && m.o.Audit == nil {
		return m.o.Store.EndSession(ctx, st.ID, row)
	}
	if m.o.Audit != nil {
		_, err = m.o.Audit.Append(ctx, row)
	}
	if err == nil && m.o.Store != nil {
		err = m.o.Store.DeleteSession(ctx, st.ID)
	}
	return err
}
