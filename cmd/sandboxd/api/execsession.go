package api

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"sandboxd/agentloop"
	"sandboxd/policy"
)

// Bounds of the sessions that serve calls without one.
const (
	// idleSession is how long one is kept after its last call.
	idleSession = 5 * time.Minute
	// maxIdleSessions bounds those of all users that nobody uses right now.
	maxIdleSessions = 256
)

// execSessions gives calls that name no session one of their own: calls of one
// user from one directory with one environment and the same flags share it, so
// that the policy is not read for each. It is safe for concurrent use.
type execSessions struct {
	sessions *agentloop.Sessions

	mu    sync.Mutex
	byKey map[[32]byte]*execSession
}

type execSession struct {
	ready   chan struct{} // closed when session or err is set
	session *agentloop.Session
	err     error
	peer    agentloop.Peer
	users   int
	timer   *time.Timer
}

func newExecSessions(m *agentloop.Sessions) *execSessions {
	return &execSessions{sessions: m, byKey: map[[32]byte]*execSession{}}
}

// sessionRequest is what decides which session a call gets.
func sessionRequest(peer agentloop.Peer, q ExecRequest) (agentloop.SessionRequest, error) {
	grant, err := q.Grant.grant(peer.UID())
	if err != nil {
		return agentloop.SessionRequest{}, err
	}
	if err := knownMode(q.Mode); err != nil {
		return agentloop.SessionRequest{}, err
	}
	return agentloop.SessionRequest{
		Workspace: string(q.Grant.Workspace), Cwd: peer.Caller.Cwd, Mode: q.Mode, Policy: Strings(q.Policy),
		Profile: string(q.Profile), Environ: Strings(q.Env), Grant: grant,
	}, nil
}

// take returns the session for a call; release must be called when it has ended.
func (e *execSessions) take(ctx context.Context, peer agentloop.Peer, q ExecRequest) (_ *agentloop.Session, release func(), err error) {
	r, err := sessionRequest(peer, q)
	if err != nil {
		return nil, nil, err
	}
	key, err := sessionKey(peer, r)
	if err != nil {
		return nil, nil, err
	}
	own, made := e.enter(key, peer)
	if made {
		own.session, own.err = e.sessions.Create(ctx, peer, r)
		close(own.ready)
	} else {
		select {
		case <-own.ready:
		case <-ctx.Done():
			e.leave(key, own)
			return nil, nil, ctx.Err()
		}
	}
	if own.err == nil && !made {
		// Somebody may have closed it by its id.
		if _, err := e.sessions.Get(own.session.ID(), peer); err != nil {
			e.forget(key, own)
			return e.take(ctx, peer, q)
		}
	}
	if own.err != nil {
		e.forget(key, own)
		return nil, nil, own.err
	}
	return own.session, sync.OnceFunc(func() { e.leave(key, own) }), nil
}

// enter finds or adds an entry and counts its user; made says that the caller has
// to fill it.
func (e *execSessions) enter(key [32]byte, peer agentloop.Peer) (own *execSession, made bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	own, ok := e.byKey[key]
	if !ok {
		own = &execSession{ready: make(chan struct{}), peer: peer}
		e.byKey[key] = own
	}
	own.users++
	if own.timer != nil {
		own.timer.Stop()
		own.timer = nil
	}
	return own, !ok
}

// leave lets go of an entry. The last user starts its idle time.
func (e *execSessions) leave(key [32]byte, own *execSession) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if own.users--; own.users > 0 || e.byKey[key] != own {
		return
	}
	idle := idleSession
	if len(e.byKey) > maxIdleSessions {
		idle = 0
	}
	own.timer = time.AfterFunc(idle, func() { e.expire(key, own) })
}

func (e *execSessions) expire(key [32]byte, own *execSession) {
	e.mu.Lock()
	gone := own.users == 0 && e.byKey[key] == own
	if gone {
		delete(e.byKey, key)
	}
	e.mu.Unlock()
	if gone && own.session != nil {
		_ = e.sessions.Close(context.Background(), own.session.ID(), own.peer, "idle")
	}
}

func (e *execSessions) forget(key [32]byte, own *execSession) {
	e.mu.Lock()
	defer e.mu.Unlock()
	own.users--
	if e.byKey[key] == own {
		delete(e.byKey, key)
	}
}

// closeAll ends the sessions that nobody uses, at the end of the daemon.
func (e *execSessions) closeAll(ctx context.Context) {
	e.mu.Lock()
	all := e.byKey
	e.byKey = map[[32]byte]*execSession{}
	e.mu.Unlock()
	for _, own := range all {
		if own.timer != nil {
			own.timer.Stop()
		}
		select {
		case <-own.ready:
			if own.session != nil {
				_ = e.sessions.Close(ctx, own.session.ID(), own.peer, "the daemon stops")
			}
		default:
		}
	}
}

// sessionKey is equal for equal requests of equal peers.
func sessionKey(peer agentloop.Peer, r agentloop.SessionRequest) (key [32]byte, err error) {
	text, err := json.Marshal(struct {
		UID, GID int
		Groups   []int
		Request  agentloop.SessionRequest
	}{peer.Caller.UID, peer.Caller.GID, peer.Caller.Groups, rawRequest(r)})
	return sha256.Sum256(text), err
}

// rawRequest makes bytes that are no UTF-8 survive JSON, where two different ones
// would look alike: each becomes two characters.
func rawRequest(r agentloop.SessionRequest) agentloop.SessionRequest {
	wide := func(s string) string {
		runes := make([]rune, len(s))
		for i := range len(s) {
			runes[i] = rune(s[i])
		}
		return string(runes)
	}
	list := func(in []string) []string {
		out := make([]string, len(in))
		for i, s := range in {
			out[i] = wide(s)
		}
		return out
	}
	r.Workspace, r.Cwd, r.Profile = wide(r.Workspace), wide(r.Cwd), wide(r.Profile)
	r.Environ, r.Policy = list(r.Environ), list(r.Policy)
	g := &r.Grant
	g.Workspace, g.Unix, g.EnvPass, g.EnvSet = wide(g.Workspace), list(g.Unix), list(g.EnvPass), list(g.EnvSet)
	paths := make([]policy.PathGrant, len(g.Paths))
	for i, p := range g.Paths {
		p.Path = wide(p.Path)
		paths[i] = p
	}
	g.Paths = paths
	return r
}

func knownMode(mode string) error {
	if mode == "" {
		return nil
	}
	if _, err := policy.ParseMode(mode); err != nil {
		return fault(CodeBadRequest, "GET /api/openapi.json lists the modes", "unknown mode %q", mode)
	}
	return nil
}

// sessionFault gives the errors of sessions their codes.
func sessionFault(err error) error {
	switch {
	case errors.Is(err, agentloop.ErrNoSession):
		return fault(CodeNotFound, "sbx sessions list, or GET /api/chat/sessions, lists yours", "no such session")
	case errors.Is(err, agentloop.ErrTooManySessions):
		return fault(CodeBusy, "close some", "%v", err)
	case errors.Is(err, agentloop.ErrNotRecorded):
		return fault(CodeNotRecorded, "make room or repair it: nothing runs unrecorded", "%v", err)
	case errors.Is(err, policy.ErrModeRefused):
		return fault(CodePolicy, "", "%v", err)
	}
	if f, ok := errors.AsType[*Fault](err); ok {
		return f
	}
	if e, ok := errors.AsType[*agentloop.GrantError](err); ok {
		return fault(CodeSetup, e.Hint, "%v", err)
	}
	return fault(CodePolicy, "correct the policy; nothing is decided without it", "%v", err)
}
