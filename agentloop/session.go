package agentloop

import (
	"context"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"sandboxd/exec"
	"sandboxd/policy"
)

// Session is the state of one client: its policy, its own rules and mode, its
// live calls and its events. Nothing of it is shared with another session. It is
// safe for concurrent use.
type Session struct {
	id        string
	peer      Peer
	created   time.Time
	workspace string // links resolved; empty in sbx run, where each call detects it
	request   SessionRequest
	parts     sessionParts
	events    *Events
	secrets   *Redactor
	kept      *keptMask
	keys      providerKeys
	files     FileState
	steps     atomic.Int64
	// sandboxWorks: the last command was confined as it should be.
	sandboxWorks atomic.Bool
	// revision changes with everything that may change a decision.
	revision atomic.Int64

	keeping    sync.Mutex // held while the Store is told of the session
	written    int64      // the change that the Store has; guarded by keeping
	looking    sync.Mutex // held while its policy is read
	look       policyLook
	installing sync.Mutex // held while a policy is put in force

	mu     sync.Mutex
	force  PolicyInForce
	engine *policy.Engine
	own    []SessionRule
	// hookVotes: hooks look at calls before they are decided, and may ask.
	hookVotes atomic.Bool
	told      map[string]bool // warnings of runs that its agents were told
	mode      string          // set by SetMode; empty: the policy's
	calls     map[string]*liveCall
	turns     map[string]*liveTurn
	tools     map[string]Tool // of the session alone, by canonical name
	greeting  []string        // what SessionStart hooks say to the model
	cancelled bool
	// loopBroken: a turn told that it stops. toolsOwed: that tools returned is told
	// after it.
	loopBroken, toolsOwed bool
	closed                string // the reason, once it is
	idle                  chan struct{}

	waking           waking
	models           sessionModels
	unsaved          int64 // counts the changes of what the Store keeps
	partial          bool  // restored, without what of the request is not kept; see Resume
	held, heldPolicy int64 // bytes, of what its user may hold

	tasks   taskTable // in the background
	servers serverTable
	atEnd   []func()

	child    *childOf // nil for a lead
	spawned  atomic.Int64
	children map[*Session]struct{} // under mu
}

// sessionParts are what a session needs of its surroundings.
type sessionParts struct {
	confinement policy.Confinement
	asks        *AskQueue
	hooks       *HookRegistry
	runner      *exec.Runner // for hooks
	host        exec.Host
	ownDirs     []string // of the daemon
	tools       []Tool   // of the Dispatcher
	now         func() time.Time
	// reload reads the policy again. Nil: it stays as it is.
	reload func(context.Context, *Session) error
	// memory counts what the user's sessions hold; nil counts nothing.
	memory *userMemory
	// changed keeps the state of the session. Nil: it is not kept.
	changed func(*Session) error
}

// LocalSession is the session of one command in this process, as in sbx run: no
// daemon, nothing kept but what [PolicyInForce.Recorded] says, and only what the
// configuration says.
func LocalSession(c Caller, p PolicyInForce) (*Session, error) {
	s := newSession("local", Peer{Caller: c}, SessionRequest{Cwd: c.Cwd, Environ: c.Environ}, sessionParts{now: time.Now})
	s.workspace, s.events = p.Config.Workspace, nil
	if p.Recorded {
		s.id = NewID("run")
	} else {
		s.secrets, s.kept = nil, nil
	}
	return s, s.install(p)
}

func newSession(id string, peer Peer, r SessionRequest, parts sessionParts) *Session {
	secrets := NewRedactor(r.Environ)
	return &Session{id: id, peer: peer, request: r, parts: parts, created: parts.now().UTC(), events: newEvents(parts.now, parts.memory),
		secrets: secrets, kept: &keptMask{base: secrets}, calls: map[string]*liveCall{}, turns: map[string]*liveTurn{}}
}

// ID names the session.
func (s *Session) ID() string { return s.id }

// Peer is who made the session; its calls run as that user.
func (s *Session) Peer() Peer {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.peer
}

// Key is that of the request, see [SessionRequest]; it changes never.
func (s *Session) Key() string { return s.request.Key }

// caller is who its calls run as. Its environment and directories change once, by
// [Sessions.Resume]; the other fields never do.
func (s *Session) caller() Caller { return s.Peer().Caller }

// asked is the request that the session was made with.
func (s *Session) asked() SessionRequest {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.request
}

// Events are what happens in the session. Nil for a [LocalSession].
func (s *Session) Events() *Events { return s.events }

// Workspace is the root of the work, links resolved.
func (s *Session) Workspace() string { return s.workspace }

// Redactor masks the session's secrets.
func (s *Session) Redactor() *Redactor { return s.secrets }

// masked is a text with the session's secrets masked.
func (s *Session) masked(text string) string {
	if s.local() {
		return text
	}
	return s.secrets.Mask(text)
}

// local says that nothing of the session is kept or told to anybody else: the
// start of sbx run has no time for masks and events that nobody sees.
func (s *Session) local() bool { return s.events == nil }

// State is the session as it is shown and kept, without secrets.
func (s *Session) State() SessionState {
	mode := s.Mode().String()
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.peer.Caller
	return SessionState{
		ID: s.id, UID: c.UID, GID: c.GID, Groups: c.Groups, Created: s.created, Workspace: s.workspace, Mode: mode,
		ModeByPolicy: s.mode == "" && s.request.Mode == "", Key: s.request.Key,
		Policy: s.request.Policy, Profile: s.request.Profile, Environ: s.request.Environ, Rules: s.own,
		Cwd: s.request.Cwd, Grant: s.request.Grant, Attached: s.request.Attached,
	}.withoutSecrets(s.Kept())
}

// asUser calls f with the file access rights of the session's user.
func (s *Session) asUser(f func()) error {
	c := &s.peer.Caller
	return withUser(c.UID, c.GID, c.Groups, f)
}

// expand makes a path of a call absolute.
func (s *Session) expand(path, dir string) string {
	if rest, ok := cutHome(path); ok && s.peer.Caller.Home != "" {
		return filepath.Join(s.peer.Caller.Home, rest)
	}
	if filepath.IsAbs(path) {
		return path
	}
	if dir == "" {
		dir = s.workspace
	}
	return strings.TrimSuffix(dir, "/") + "/" + path
}

func (s *Session) inForce() PolicyInForce {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.force
}

// moment is what holds at one time, all of it of the same time. A call is decided
// and confined by one.
type moment struct {
	force PolicyInForce
	rules policy.Snapshot // zero without an engine
}

func (s *Session) moment() moment {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.momentLocked()
}

func (s *Session) momentLocked() moment {
	m := moment{force: s.force}
	if s.engine != nil {
		m.rules = s.engine.Snapshot()
	}
	return m
}

func (s *Session) engineNow() *policy.Engine {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.engine
}

func (s *Session) onlyRules() bool { return s.inForce().Config.OnlyRules }

// runsUnrecorded says whether calls go on although their rows cannot be written, where
// unsaid is what holds without a word of the policy.
func (s *Session) runsUnrecorded(unsaid bool) bool {
	switch s.inForce().Unrecorded {
	case UnrecordedUnsaid:
		return unsaid
	case UnrecordedRun:
		return true
	}
	return false
}

func (s *Session) nextStep() int { return int(s.steps.Add(1)) }

// decide asks the engine with the rights of the user; live also asks hooks and
// people. The generation is that of the policy which decided.
func (s *Session) decide(ctx context.Context, c ToolCall, live bool) (d policy.Decision, generation int64) {
	if why := s.child.refusal(s, c.Call); why != "" {
		return outsideTools(c, why), s.Generation()
	}
	defer func() {
		if d.Verdict == policy.Deny || d.Args == nil {
			return
		}
		c.Args = d.Args // hooks may have changed them
		if why := s.child.refusal(s, c.Call); why != "" {
			d = outsideTools(c, why)
		}
	}()
	s.mu.Lock()
	e, generation := s.engine, s.force.Generation
	s.mu.Unlock()
	if e == nil {
		return policy.Decision{CallID: c.ID, Verdict: policy.Allow, Args: c.Args, Reason: policy.DefaultReason{Text: "run by a person: no rule denies or asks"}}, generation
	}
	err := s.asUser(func() {
		if live {
			d = e.Decide(ctx, c.Call)
		} else {
			d = e.Check(ctx, c.Call)
		}
	})
	if err != nil {
		d = policy.Decision{CallID: c.ID, Verdict: policy.Deny, Args: c.Args, Reason: policy.SafetyReason{Check: "identity", Text: err.Error()}}
	}
	return d, generation
}

// outsideTools denies a call that is none of a sub-agent's tools.
func outsideTools(c ToolCall, why string) policy.Decision {
	return policy.Decision{CallID: c.ID, Verdict: policy.Deny, Args: c.Args, Reason: policy.SafetyReason{Check: "tools", Text: why}}
}

// Check decides without asking anybody, and says how the call could be allowed.
func (s *Session) Check(ctx context.Context, c policy.Call) (policy.Decision, int64) {
	s.refresh(ctx)
	return s.decide(ctx, ToolCall{Call: c}, false)
}

// keep writes the state to the store, with what others changed meanwhile: of many who
// change it at once most find their change written.
func (s *Session) keep() error {
	if s.parts.changed == nil {
		return nil
	}
	s.mu.Lock()
	mine := s.unsaved
	s.mu.Unlock()
	s.keeping.Lock()
	defer s.keeping.Unlock()
	s.mu.Lock()
	closed, now := s.closed, s.unsaved
	s.mu.Unlock()
	if closed != "" && closed != shutdown {
		return ErrSessionClosed
	}
	if mine > 0 && s.written >= mine {
		return nil
	}
	if err := s.parts.changed(s); err != nil {
		return err
	}
	s.written = now
	return nil
}

// Generation counts the policies of the session: it changes when one was read
// again. A rule or a mode of the session does not change it.
func (s *Session) Generation() int64 { return s.inForce().Generation }

// Warnings say what the policy in force says in vain.
func (s *Session) Warnings() []string { return s.inForce().Warnings }

// Hooks are the hooks that the policy in force declares.
func (s *Session) Hooks() []HookSpec { return s.inForce().Hooks }
