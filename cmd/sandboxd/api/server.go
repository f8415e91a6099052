package api

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"sandboxd/agentloop"
)

// Options are the parts of a [Server].
type Options struct {
	Dispatcher *agentloop.Dispatcher
	Sessions   *agentloop.Sessions
	Asks       *agentloop.AskQueue
	// Audit answers queries about the audit log. Nil: the routes say that none is
	// kept.
	Audit agentloop.AuditReader
	// Agents makes the agent of a session: conversation is the one it continues,
	// empty begins one. Nil: messages are refused.
	Agents func(ctx context.Context, s *agentloop.Session, q AgentRequest, conversation string) (Loop, error)
	// Conversations are those of agents. Nil: the routes say that none are kept.
	Conversations agentloop.ConversationArchive
	// Metrics serves GET /metrics. Nil: the route says that there are none.
	Metrics http.Handler
	// JobsDir keeps the logs of jobs. Empty: jobs are refused.
	JobsDir string
	// AdminGID is the group whose members see and answer for all users; 0: root
	// alone.
	AdminGID int
	// Build is the version of this program, for people.
	Build string
	// Token admits connections over TCP. Empty: none is admitted.
	Token string
	// Reload reads the policies again. Nil: the route refuses.
	Reload func(context.Context) error
	// Gone is how long a client of a stream may take nothing while output waits for it,
	// until it counts as gone and its call is ended. Zero: [DefaultGone].
	Gone time.Duration
	// Reattach is how long a session that ends with its client waits for it to come
	// back. Zero: [DefaultReattach].
	Reattach time.Duration
	// SessionIdle is how long the session of calls that name none is kept after the last
	// of them. Zero: [DefaultSessionIdle].
	SessionIdle time.Duration
	// SessionSecret lets these sessions be found again after a restart with the same
	// one. Empty: they are not.
	SessionSecret []byte
	// Stop ends the daemon gracefully. Nil: the route refuses.
	Stop func()
	Log  *slog.Logger // nil: nothing is logged
}

// Server answers requests. It is safe for concurrent use.
type Server struct {
	o      Options
	http   *http.Server
	mux    *http.ServeMux
	judge  *judge
	jobs   *jobs
	agents *agents
	wholes wholeReads
	execs  *execSessions
	// attached are the sessions that end with their client.
	attached *attached
	start    time.Time

	// base is cancelled when calls must end.
	base   context.Context
	cancel context.CancelFunc
	// calls counts what runs in upgraded connections and jobs, which the HTTP server
	// does not wait for.
	mu       sync.Mutex
	stopping bool
	calls    sync.WaitGroup
	running  atomic.Int64 // what calls counts
	// quit is closed when long answers (events, logs) are to end.
	quit  chan struct{}
	gates []*gate
}

// NewServer checks the options.
func NewServer(o Options) (*Server, error) {
	if o.Dispatcher == nil || o.Sessions == nil || o.Asks == nil {
		return nil, errors.New("api: a server needs a dispatcher, sessions and a queue of questions")
	}
	if o.Gone == 0 {
		o.Gone = DefaultGone
	}
	if o.Reattach == 0 {
		o.Reattach = DefaultReattach
	}
	if o.SessionIdle == 0 {
		o.SessionIdle = DefaultSessionIdle
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	j, err := newJudge()
	if err != nil {
		return nil, err
	}
	s := &Server{o: o, judge: j, start: time.Now(), quit: make(chan struct{})}
	s.base, s.cancel = context.WithCancel(context.Background())
	if s.jobs, err = openJobs(o.JobsDir, o.Log); err != nil {
		return nil, err
	}
	s.execs, s.agents = newExecSessions(o), newAgents(o)
	s.attached = newAttached(o.Reattach, s.endGone)
	s.awaitClients()
	s.mux = s.routes()
	s.http = &http.Server{
		Handler:           http.HandlerFunc(s.serve),
		ReadHeaderTimeout: headerTime, ReadTimeout: readTime, WriteTimeout: writeTime, IdleTimeout: idleTime,
		MaxHeaderBytes: maxHeaderBytes,
		ConnContext:    withConn,
		ErrorLog:       slog.NewLogLogger(o.Log.Handler(), slog.LevelDebug), // what clients do wrong
	}
	// HTTP/2 gives one connection many streams, which the bounds do not count.
	s.http.Protocols = new(http.Protocols)
	s.http.Protocols.SetHTTP1(true)
	return s, nil
}

// Serve answers on l until Shutdown. It returns nil then.
func (s *Server) Serve(l net.Listener) error {
	g := newGate(l)
	s.mu.Lock()
	s.gates = append(s.gates, g)
	s.mu.Unlock()
	err := s.http.Serve(g)
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// Shutdown takes no new calls, waits for those that run until ctx ends, and then
// ends them as their deadline would. It returns when nothing runs any more, or with an
// error when a call does not end 15 s after it was told to.
func (s *Server) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	if !s.stopping {
		s.stopping = true
		close(s.quit)
	}
	s.mu.Unlock()
	s.attached.close()
	var stuck error
	idle := make(chan struct{})
	go func() {
		s.calls.Wait()
		close(idle)
	}()
	select {
	case <-idle:
	case <-ctx.Done():
		s.cancel()
		select {
		case <-idle: // the dispatcher returned, and nothing of a call is left
		case <-time.After(stuckTime):
			// Nothing of this process ends it: a file whose server does not answer.
			// The end of the process does, and the keeper of a run ends its command then.
			stuck = fmt.Errorf("%d calls did not end within %v and are left", s.running.Load(), stuckTime)
		}
	}
	s.cancel()
	s.agents.close()
	last, done := context.WithTimeout(context.Background(), lastAnswers)
	defer done()
	// The caller closes the listeners first, and Serve may not have noticed yet.
	if err := s.http.Shutdown(last); err != nil && !errors.Is(err, net.ErrClosed) {
		return errors.Join(stuck, err, s.http.Close())
	}
	return stuck
}

// stuckTime is how long calls have to end that were told to: longer than the grace
// period of a run, what follows it and the hooks after it.
const stuckTime = 15 * time.Second

// lastAnswers is how long clients have to take the answers to calls that ended.
const lastAnswers = 2 * time.Second

// begin counts a call that outlives or is its request; end must be called. It
// refuses when the daemon stops.
func (s *Server) begin() (end func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopping {
		return nil, fault(CodeStopping, "try again when it runs again", "the daemon is stopping and takes no new calls")
	}
	return s.extend(), nil
}

// extend counts a call that outlives its request, which counts already.
func (s *Server) extend() (end func()) {
	s.calls.Add(1)
	s.running.Add(1)
	return func() {
		s.running.Add(-1)
		s.calls.Done()
	}
}

// idleLook is how often AwaitIdle looks.
const idleLook = 50 * time.Millisecond

// AwaitIdle returns true when nobody has been connected, and nothing has run, for
// the time of idle; the first client has the time of first to come. It returns false
// when ctx ends before.
func (s *Server) AwaitIdle(ctx context.Context, idle, first time.Duration) bool {
	look := time.NewTicker(idleLook)
	defer look.Stop()
	since, wait := time.Now(), max(idle, first)
	for {
		select {
		case now := <-look.C:
			if s.connections() > 0 || s.running.Load() > 0 {
				since, wait = now, idle
			} else if now.Sub(since) >= wait {
				return true
			}
		case <-ctx.Done():
			return false
		}
	}
}

// connections is how many clients are connected.
func (s *Server) connections() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, g := range s.gates {
		n += g.open()
	}
	return n
}

// peerKey finds the peer of a request.
type peerKey struct{}

func peerOf(r *http.Request) agentloop.Peer {
	p, ok := r.Context().Value(peerKey{}).(agentloop.Peer)
	if !ok {
		panic("bug: a route without a peer")
	}
	return p
}

// serve is the way of every request: who asks, from where, with what, and only
// then which route.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	w.Header().Set(Header, Version)
	w.Header().Set(BuildHeader, s.o.Build)
	c := connOf(r)
	if c == nil {
		writeFault(w, fault(CodeInternal, "", "bug: a request without a connection"))
		return
	}
	for _, check := range []func(*conn, *http.Request) error{s.checkPeer, checkBrowser, s.checkToken, checkVersion} {
		if err := check(c, r); err != nil {
			s.o.Log.Info("refused", "uid", c.cred.UID, "pid", c.cred.PID, "reason", asFault(err).Code)
			w.Header().Set("Connection", "close")
			writeFault(w, err)
			return
		}
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxBodyBytes)
	r = r.WithContext(context.WithValue(r.Context(), peerKey{}, s.peer(c)))
	s.route(w, r)
}

// peer is who is on the other end, by the kernel's word.
func (s *Server) peer(c *conn) agentloop.Peer {
	if c.tcp { // whoever has the token is the daemon's own user
		return agentloop.Peer{Caller: agentloop.Caller{UID: os.Geteuid(), GID: os.Getegid()}, Admin: true}
	}
	admin := c.cred.UID == os.Geteuid() || c.cred.UID == 0 || c.cred.inGroup(s.o.AdminGID)
	return agentloop.Peer{PID: c.cred.PID, Admin: admin,
		Caller: agentloop.Caller{UID: c.cred.UID, GID: c.cred.GID, Groups: c.cred.Groups}}
}

func (s *Server) checkPeer(c *conn, _ *http.Request) error {
	if own := os.Geteuid(); !c.tcp && own != 0 && c.cred.UID != own {
		return fault(CodeForbidden, "start a daemon of your own: sbx daemon start", "this daemon serves uid %d, not uid %d", own, c.cred.UID)
	}
	if why := c.confined(s.judge); why != "" {
		return fault(CodeInsideRun, "ask from outside; a confined command cannot loosen what holds it", "the caller is refused: %s", why)
	}
	return nil
}

// checkToken admits a connection over TCP. Hashes of one length are compared, so
// that neither content nor length shows in the time.
func (s *Server) checkToken(c *conn, r *http.Request) error {
	if !c.tcp {
		return nil
	}
	given, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	a, b := sha256.Sum256([]byte(given)), sha256.Sum256([]byte(s.o.Token))
	if s.o.Token == "" || !ok || subtle.ConstantTimeCompare(a[:], b[:]) != 1 {
		return fault(CodeToken, "send Authorization: Bearer TOKEN with the content of the token file", "no valid token")
	}
	return nil
}

// checkVersion refuses a client that says that it speaks another version.
func checkVersion(_ *conn, r *http.Request) error {
	if v := r.Header.Get(Header); v != "" && v != Version {
		return fault(CodeVersion, "install sbx and sandboxd of one version, and restart the daemon",
			"the client speaks version %s of the API, this daemon version %s", v, Version)
	}
	return nil
}
