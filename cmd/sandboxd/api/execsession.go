package api

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"sandboxd/agentloop"
	"sandboxd/policy"
)

// DefaultSessionIdle is how long a session that serves calls without one is kept after
// its last call.
const DefaultSessionIdle = 5 * time.Minute

// maxIdleSessions bounds those of all users that nobody uses right now.
const maxIdleSessions = 256

// execSessions gives calls that name no session one of their own: calls of one
// user from one directory with one environment and the same flags share it, so
// that the policy is not read for each. After a restart they share that of the
// daemon before: its rules, and the answers that wait for their calls, are theirs. It
// is safe for concurrent use.
type execSessions struct {
	sessions *agentloop.Sessions
	asks     *agentloop.AskQueue
	idle     time.Duration

	// secret makes keys tell nothing of the requests: they are kept on disk, and the
	// environments are not as a whole.
	secret []byte

	mu    sync.Mutex
	byKey map[requestKey]*execSession
}

type execSession struct {
	key     requestKey
	ready   chan struct{} // closed when session or err is set
	session *agentloop.Session
	err     error
	peer    agentloop.Peer
	users   int
	timer   *time.Timer
}

// requestKey is equal for equal requests of equal peers.
type requestKey [sha256.Size]byte

// newExecSessions takes over what was restored; each has its idle time from now on.
func newExecSessions(o Options) *execSessions {
	e := &execSessions{sessions: o.Sessions, asks: o.Asks, idle: o.SessionIdle, secret: o.SessionSecret, byKey: map[requestKey]*execSession{}}
	if len(e.secret) == 0 {
		e.secret = []byte(rand.Text())
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, s := range o.Sessions.Keyed() {
		own := &execSession{ready: make(chan struct{}), session: s, peer: s.Peer()}
		close(own.ready)
		if _, err := hex.Decode(own.key[:], []byte(s.Key())); err == nil {
			e.byKey[own.key] = own
		}
		e.rest(own, e.idle)
	}
	return e
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
	key, err := e.keyOf(peer, r)
	if err != nil {
		return nil, nil, err
	}
	r.Key = hex.EncodeToString(key[:])
	own, made := e.enter(key, peer)
	if made {
		own.session, own.err = e.sessions.Create(ctx, peer, r)
		close(own.ready)
	} else {
		select {
		case <-own.ready:
		case <-ctx.Done():
			e.leave(own)
			return nil, nil, ctx.Err()
		}
	}
	if own.err == nil && !made {
		// Somebody may have closed it by its id.
		if _, err := e.sessions.Get(own.session.ID(), peer); err != nil {
			e.forget(own)
			return e.take(ctx, peer, q)
		}
		if err := e.sessions.Resume(ctx, own.session, peer, r); err != nil {
			e.leave(own)
			return nil, nil, err
		}
	}
	if own.err != nil {
		e.forget(own)
		return nil, nil, own.err
	}
	return own.session, sync.OnceFunc(func() { e.leave(own) }), nil
}

// enter finds or adds an entry and counts its user; made says that the caller has
// to fill it.
func (e *execSessions) enter(key requestKey, peer agentloop.Peer) (own *execSession, made bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	own, ok := e.byKey[key]
	if !ok {
		own = &execSession{key: key, ready: make(chan struct{}), peer: peer}
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
func (e *execSessions) leave(own *execSession) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if own.users--; own.users > 0 || e.byKey[own.key] != own {
		return
	}
	idle := e.idle
	if len(e.byKey) > maxIdleSessions {
		idle = 0
	}
	e.rest(own, idle)
}

// rest starts the idle time of an entry; e.mu is held.
func (e *execSessions) rest(own *execSession, idle time.Duration) {
	own.timer = time.AfterFunc(idle, func() { e.expire(own) })
}

// expire ends a session that nobody uses. One with a question of a call that died with
// the daemon before, or with its answer, waits on: the repetition may come.
func (e *execSessions) expire(own *execSession) {
	waits := own.session != nil && e.asks.Awaits(own.session.ID())
	e.mu.Lock()
	gone := own.users == 0 && !waits
	switch {
	case gone:
		e.drop(own)
	case own.users == 0:
		e.rest(own, e.idle)
	}
	e.mu.Unlock()
	if gone && own.session != nil {
		_ = e.sessions.Close(context.Background(), own.session.ID(), own.peer, "idle")
	}
}

// drop makes an entry not found any more; e.mu is held.
func (e *execSessions) drop(own *execSession) {
	if e.byKey[own.key] == own {
		delete(e.byKey, own.key)
	}
}

func (e *execSessions) forget(own *execSession) {
	e.mu.Lock()
	defer e.mu.Unlock()
	own.users--
	e.drop(own)
}

// keyOf is equal for equal requests of equal peers. Environments are equal that a shell
// gives to the same command twice.
func (e *execSessions) keyOf(peer agentloop.Peer, r agentloop.SessionRequest) (key requestKey, err error) {
	r.Environ = ownVariables(r.Environ, r.Grant.EnvPass)
	text, err := json.Marshal(struct {
		UID, GID int
		Groups   []int
		Request  agentloop.SessionRequest
	}{peer.Caller.UID, peer.Caller.GID, peer.Caller.Groups, rawRequest(r)})
	sum := hmac.New(sha256.New, e.secret)
	sum.Write(text)
	return requestKey(sum.Sum(nil)), err
}

// ownVariables are those of environ that tell one environment from another, by name; of
// two with one name the order stays. A shell sets _ anew for each command, bash at another
// place after the first one, and OLDPWD with each cd; no command gets them unless asked.
func ownVariables(environ, asked []string) []string {
	name := func(v string) string { n, _, _ := strings.Cut(v, "="); return n }
	own := slices.DeleteFunc(slices.Clone(environ), func(v string) bool {
		n := name(v)
		return (n == "_" || n == "OLDPWD") && !slices.Contains(asked, n)
	})
	slices.SortStableFunc(own, func(a, b string) int { return strings.Compare(name(a), name(b)) })
	return own
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
		return unknownMode(mode)
	}
	return nil
}

func unknownMode(mode string) error {
	var known []string
	for _, m := range policy.Modes() {
		if m != policy.ModeBubble { // of sub-agents
			known = append(known, m.String())
		}
	}
	return fault(CodeBadRequest, "one of "+strings.Join(known, ", "), "unknown mode %q", mode)
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
