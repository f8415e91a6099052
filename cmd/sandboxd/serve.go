package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/coreos/go-systemd/v22/activation"
	"github.com/coreos/go-systemd/v22/daemon"

	"sandboxd/agentloop"
	"sandboxd/agentloop/sqlite"
	"sandboxd/agentloop/tools"
	"sandboxd/cmd/sandboxd/api"
	"sandboxd/exec"
	"sandboxd/policy"
)

// parts is everything of one daemon.
type parts struct {
	o          options
	log        *slog.Logger
	runner     *exec.Runner
	store      *sqlite.Store
	reader     *sqlite.Reader
	talks      *sqlite.Conversations
	dispatcher *agentloop.Dispatcher
	tools      []agentloop.Tool
	sessions   *agentloop.Sessions
	asks       *agentloop.AskQueue
	server     *api.Server
	stop       context.CancelFunc
	loads      loads
	sockets    []string // that it listens at
	connected  sync.Map // ids of sessions that have the tools of their MCP servers
}

// serve runs the daemon until ctx ends.
func serve(ctx context.Context, o options) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	d := &parts{o: o, log: logger(o), stop: stop}
	listeners, closeListeners, err := d.listeners()
	if err != nil {
		return err
	}
	defer closeListeners()
	if err := d.build(ctx); err != nil {
		return err
	}
	failed := make(chan error, len(listeners))
	var serving sync.WaitGroup
	for _, l := range listeners {
		serving.Go(func() { failed <- d.server.Serve(l) })
	}
	d.log.Info("serving", "socket", o.socket, "pid", os.Getpid(), "version", buildVersion(), "state", o.state)
	_, _ = daemon.SdNotify(false, daemon.SdNotifyReady) // no systemd is no error
	if o.idle > 0 {
		serving.Go(func() {
			if d.server.AwaitIdle(ctx, o.idle, firstClient) {
				d.log.Info("nobody is connected any more", "idle", o.idle)
				stop()
			}
		})
	}
	err = d.wait(ctx, failed)
	stop()
	_, _ = daemon.SdNotify(false, daemon.SdNotifyStopping)
	d.log.Info("stopping", "wait", o.stop)
	closeListeners()
	last, done := context.WithTimeout(context.Background(), o.stop)
	defer done()
	err = errors.Join(err, endsWithin(o.stop+endTime, func() error {
		err := d.server.Shutdown(last)
		serving.Wait()
		d.close()
		return err
	}))
	d.log.Info("stopped")
	return err
}

// endTime bounds the end of a daemon after its calls had their time: those that are
// stuck have 15 s, sessions 10 s, clients 2 s for their answers.
const endTime = 30 * time.Second

// errStuck reports that a daemon ended although a part of it did not.
var errStuck = errors.New("a part of the daemon does not end; the process ends without it")

// endsWithin returns what f does, or after the time. What f waits for then is left to
// the end of the process.
func endsWithin(limit time.Duration, f func() error) error {
	ended := make(chan error, 1)
	go func() { ended <- f() }()
	select {
	case err := <-ended:
		return err
	case <-time.After(limit):
		return errStuck
	}
}

// firstClient is how long a daemon that ends when it is idle waits for its first one.
const firstClient = 20 * time.Second

func logger(o options) *slog.Logger {
	opts := &slog.HandlerOptions{Level: o.logLevel}
	if o.logJSON {
		return slog.New(slog.NewJSONHandler(o.stderr, opts))
	}
	return slog.New(slog.NewTextHandler(o.stderr, opts))
}

// wait returns when the daemon is to end. Meanwhile it obeys SIGHUP.
func (d *parts) wait(ctx context.Context, failed <-chan error) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-failed:
			return err
		case <-d.o.hangups:
			_, _ = daemon.SdNotify(false, daemon.SdNotifyReloading)
			_ = d.reload(ctx) // logged there
			_, _ = daemon.SdNotify(false, daemon.SdNotifyReady)
		}
	}
}

// reload reads all policies again. One that is broken leaves the old one in force.
func (d *parts) reload(ctx context.Context) error {
	err := d.sessions.Reload(ctx)
	if err != nil {
		d.log.Error("policy refused, the old one stays in force", "error", err)
		return err
	}
	d.log.Info("policies read again")
	return nil
}

// refused logs a policy that changed and cannot be read; the session's user is told
// by its events.
func (d *parts) refused(session string, err error) {
	d.log.Error("policy refused, the old one stays in force", "session", session, "error", err)
}

// listeners takes the socket that systemd passes, or makes one.
func (d *parts) listeners() (list []net.Listener, end func(), err error) {
	passed, err := activation.Listeners()
	if err != nil {
		return nil, nil, fmt.Errorf("socket activation: %w", err)
	}
	for _, l := range passed {
		if l == nil {
			continue
		}
		if u, ok := l.(*net.UnixListener); ok {
			u.SetUnlinkOnClose(false) // it is systemd's
			d.sockets = append(d.sockets, u.Addr().String())
			list = append(list, l)
			continue
		}
		return nil, nil, misuse("pass a stream socket of AF_UNIX; --listen opens TCP", "systemd passed a socket of another kind")
	}
	if len(list) == 0 {
		l, err := api.Listen(api.ListenOptions{Path: d.o.socket, GID: d.o.gid})
		if errors.Is(err, api.ErrRunning) {
			return nil, nil, &problem{code: exitRunning, hint: "sbx daemon status tells of it", err: err}
		}
		if err != nil {
			return nil, nil, err
		}
		list, d.sockets = append(list, l), append(d.sockets, d.o.socket)
	}
	if d.o.listen != "" {
		l, err := net.Listen("tcp", d.o.listen)
		if err != nil {
			return nil, nil, errors.Join(err, closeAll(list))
		}
		d.log.Info("listening", "address", l.Addr().String(), "token", d.o.token)
		list = append(list, l)
	}
	return list, sync.OnceFunc(func() { _ = closeAll(list) }), nil
}

func closeAll(list []net.Listener) error {
	var errs []error
	for _, l := range list {
		errs = append(errs, l.Close())
	}
	return errors.Join(errs...)
}

// warmKeepers is how many keepers wait for a run, of each kind of run: as many as
// start at once on a usual machine. Each is a process of some 200 KiB.
const warmKeepers = 4

// build makes the parts, the lowest first.
func (d *parts) build(ctx context.Context) error {
	if err := exec.CheckOwnLimits(); err != nil {
		return err
	}
	if err := makeStateDir(d.o.state); err != nil {
		return err
	}
	metrics := agentloop.NewMetrics()
	if err := d.openStore(metrics); err != nil {
		return err
	}
	own, warnings := agentloop.CurrentCaller(d.o.environ)
	for _, w := range warnings {
		d.log.Warn("own directories", "warning", w)
	}
	host := exec.LoadHost(own.CacheDir)
	runner := exec.NewRunner(host)
	runner.CacheDir, runner.Warm = own.CacheDir, warmKeepers
	d.runner = runner
	d.asks = agentloop.NewAskQueue(agentloop.AskQueueOptions{Store: d.store, Timeout: d.o.ask, SaveRule: saveRule, Metrics: metrics,
		Session: func(id string) (*agentloop.Session, bool) { return d.sessions.Find(id) }})
	hooks, err := agentloop.NewHookRegistry(agentloop.HookRegistryOptions{
		Hooks: []agentloop.Hook{agentloop.RedactionHook{}},
		// Its text may hold what the hook saw: it goes to the session's events.
		Notify: func(n agentloop.HookNotice) {
			d.log.Warn("hook", "session", n.Session, "call", n.Call, "hook", n.Hook, "event", n.Event, "failed", n.Failed)
		},
	})
	if err != nil {
		return err
	}
	all := tools.All(tools.Options{Light: besideThis("sbx"), Build: version})
	d.tools = all
	places := append([]string{d.o.state}, d.sockets...)
	d.dispatcher, err = agentloop.NewDispatcher(agentloop.DispatcherOptions{
		Runner: runner, Host: host, Tools: all, Audit: d.store, Asks: d.asks, Hooks: hooks, Metrics: metrics, StateDir: filepath.Join(d.o.state, "runs"), OwnDirs: places,
		Results: agentloop.NewResultFiles(agentloop.ResultFilesOptions{}), RunUnrecorded: d.o.unrecorded,
		MaxRunning: d.o.running, MaxRunningPerUID: d.o.runningPerUID, MaxQueued: d.o.queued})
	if err != nil {
		return err
	}
	d.sessions, err = agentloop.NewSessions(agentloop.SessionsOptions{Load: loadPolicy, PolicyRefused: d.refused, Runner: runner, Host: host, OwnDirs: places,
		Confinement: confinement(host), Asks: d.asks, Hooks: hooks, Store: d.store, Metrics: metrics, RunUnrecorded: d.o.unrecorded, Tools: all, SelfTest: d.dispatcher.SelfTest})
	if err != nil {
		return err
	}
	if err := d.dispatcher.CompleteRuns(ctx); err != nil {
		d.log.Warn("runs that did not end", "error", err)
	}
	if err := d.restore(ctx); err != nil {
		return err
	}
	token := ""
	if d.o.listen != "" {
		if token, err = readToken(d.o.token); err != nil {
			return err
		}
	}
	secret, err := readToken(filepath.Join(d.o.state, "session-secret"))
	if err != nil {
		d.log.Warn("calls do not find their sessions again after a restart", "error", err)
	}
	d.server, err = api.NewServer(api.Options{
		Dispatcher: d.dispatcher, Sessions: d.sessions, Asks: d.asks, Audit: d.reader, Agents: d.makeAgent, Conversations: d.talks, Metrics: metricsHandler(metrics),
		JobsDir: filepath.Join(d.o.state, "jobs"), AdminGID: d.o.admin, Build: buildVersion(), Token: token, Gone: d.o.gone, SessionIdle: d.o.session, SessionSecret: []byte(secret),
		Reload: d.reload, Stop: d.stop, Log: d.log})
	return err
}

// openStore opens the audit log and the conversations. Without the log nothing is
// served: nothing would run.
func (d *parts) openStore(metrics *agentloop.Metrics) (err error) {
	path := filepath.Join(d.o.state, "audit.db")
	d.store, err = sqlite.Open(path, sqlite.Options{
		Retention:  sqlite.Retention{Age: d.o.retention},
		AppendOnly: d.o.appendOnly,
		// The journal may be kept, or sent, where nobody of this machine rewrites it.
		OnAnchor: func(a agentloop.AuditAnchor) {
			d.log.Info("audit anchor", "store", a.Store, "anchor", fmt.Sprintf("%d:%s", a.Seq, a.Hash))
		},
		OnProblem: func(err error) { d.log.Error("audit log", "error", err) },
	})
	if err != nil {
		return err
	}
	if d.reader, err = sqlite.OpenReader(path); err != nil {
		return errors.Join(err, d.store.Close())
	}
	d.talks, err = sqlite.OpenConversations(filepath.Join(d.o.state, "conversations.db"), sqlite.ConversationOptions{
		OnProblem: func(err error) { d.log.Error("conversations", "error", err) },
	})
	if err != nil {
		return errors.Join(err, d.reader.Close(), d.store.Close())
	}
	return nil
}

// restore brings back sessions and questions. What cannot be is told, and lost
// alone.
func (d *parts) restore(ctx context.Context) error {
	if err := d.sessions.Restore(ctx); err != nil {
		d.log.Warn("sessions not restored", "error", err)
	}
	if err := d.asks.Restore(ctx); err != nil {
		d.log.Warn("questions not restored", "error", err)
	}
	return nil
}

// close ends what build made, the uppermost first.
func (d *parts) close() {
	ctx, done := context.WithTimeout(context.Background(), 10*time.Second)
	defer done()
	if d.sessions != nil {
		if err := d.sessions.Shutdown(ctx); err != nil {
			d.log.Error("sessions", "error", err)
		}
	}
	d.runner.Close()
	if err := errors.Join(d.talks.Close(), d.reader.Close(), d.store.Close()); err != nil {
		d.log.Error("stores", "error", err)
	}
}

// confinement is what the host enforces, in the words of a decision.
func confinement(h exec.Host) policy.Confinement {
	switch {
	case h.LandlockABI == 0:
		return policy.Unconfined
	case h.MountView && h.PIDNS && h.NetNS:
		return policy.FullyConfined
	}
	return policy.PartlyConfined
}
