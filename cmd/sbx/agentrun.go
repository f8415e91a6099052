package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/signal"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"sandboxd/agentloop"
	"sandboxd/cmd/sandboxd/api"
)

// agentRun is the use of one session by one command.
type agentRun struct {
	p       *program
	cl      *api.Client
	session api.Session
	o       agentOptions
	view    *turnView
	said    string      // the conversation, once something was said
	asker   *agentAsker // nil: nobody is asked here
	cancel  context.CancelFunc

	ends      chan agentloop.TurnEnd
	cut       chan error // the events ended
	following sync.WaitGroup

	mu      sync.Mutex
	running bool
	sig     int // that ended the command
	stop    func()
}

func (p *program) newAgentRun(cl *api.Client, s api.Session, o agentOptions, cancel context.CancelFunc) *agentRun {
	a := &agentRun{p: p, cl: cl, session: s, o: o, cancel: cancel, ends: make(chan agentloop.TurnEnd, 1), cut: make(chan error, 1)}
	if o.json { // the view keeps count alone
		a.view = newTurnView(io.Discard, io.Discard, false, false)
	} else {
		colours := isWriterTerminal(p.stderr) && p.variable("NO_COLOR") == "" && p.variable("TERM") != "dumb"
		a.view = newTurnView(p.stdout, p.stderr, isWriterTerminal(p.stdout), paint(colours))
	}
	a.view.quiet = o.quiet
	if !o.json && !o.noAsk && p.stdin != nil && hasTerminal() {
		a.asker = newAgentAsker(cl, a.view)
	}
	a.stop = a.catchSignals()
	return a
}

// isWriterTerminal reports whether a person sees what is written.
func isWriterTerminal(w any) bool {
	f, ok := w.(*os.File)
	return ok && isTerminal(int(f.Fd()))
}

// catchSignals lets the first Ctrl-C cancel a turn, and the second end the command. A
// signal that asks for the end does it at once.
func (a *agentRun) catchSignals() (stop func()) {
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, unix.SIGINT, unix.SIGTERM, unix.SIGHUP)
	done := make(chan struct{})
	go func() {
		for {
			select {
			case s := <-signals:
				n, _ := s.(unix.Signal)
				a.signal(n)
			case <-done:
				return
			}
		}
	}()
	return func() {
		signal.Stop(signals)
		close(done)
	}
}

func (a *agentRun) signal(n unix.Signal) {
	a.mu.Lock()
	first := a.running
	a.running = false
	if n != unix.SIGINT || !first {
		a.sig = int(n)
	}
	a.mu.Unlock()
	if n == unix.SIGINT && first {
		a.p.note("note", "cancelling the turn; once more ends")
		ctx, done := context.WithTimeout(context.Background(), callWait)
		defer done()
		if err := a.cl.CancelSession(ctx, a.session.ID); err != nil {
			a.p.note("warning", err.Error())
		}
		return
	}
	a.cancel()
}

// callWait bounds short requests at the end.
const callWait = 5 * time.Second

// ended is the signal that ended the command, or 0.
func (a *agentRun) ended() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.sig
}

// close ends the session, and with it what still runs there.
func (a *agentRun) close() {
	a.stop()
	ctx, done := context.WithTimeout(context.Background(), callWait)
	defer done()
	_ = a.cl.CloseSession(ctx, a.session.ID) // one that is gone is closed
	a.cancel()
	a.following.Wait()
}

// follow begins to follow the events of the session, and returns when it does.
func (a *agentRun) follow(ctx context.Context) error {
	opened := make(chan struct{})
	var once sync.Once
	a.following.Go(func() {
		err := a.cl.SessionEvents(ctx, a.session.ID, 0, api.Following{Answers: a.asker != nil, Attached: true}, func() { once.Do(func() { close(opened) }) }, a.event)
		if err == nil {
			err = api.ErrCut
		}
		a.cut <- err
	})
	if a.asker != nil {
		a.following.Go(func() { a.asker.run(ctx) })
	}
	select {
	case <-opened:
		return nil
	case err := <-a.cut:
		return err
	}
}

// event takes one event of the session.
func (a *agentRun) event(e agentloop.Event) error {
	if a.o.json {
		if err := a.print(e); err != nil {
			return err
		}
	}
	if e.Type == "missed" {
		a.p.note("warning", "some events were missed; the conversation has all that was said")
	}
	a.view.show(e)
	if a.asker != nil {
		a.asker.event(e)
	}
	if e.Type == agentloop.EventTurnEnded {
		end, err := api.TurnData[agentloop.TurnEnd](e)
		if err != nil {
			return err
		}
		a.ends <- end
	}
	return nil
}

// print writes an event for a program.
func (a *agentRun) print(e agentloop.Event) error {
	text, err := json.Marshal(e)
	if err != nil {
		return err
	}
	return a.p.writeOut("%s\n", escapeControls(text))
}

// turn says something and returns when the turn has ended.
func (a *agentRun) turn(ctx context.Context, m api.MessageRequest) error {
	a.view.begin()
	a.mu.Lock()
	a.running = true
	a.mu.Unlock()
	defer func() {
		a.mu.Lock()
		a.running = false
		a.mu.Unlock()
	}()
	select {
	case <-a.ends: // of a turn whose message was not answered
	default:
	}
	accepted, err := a.cl.Say(ctx, a.session.ID, m)
	if err != nil {
		return err
	}
	a.said = accepted.Conversation
	select {
	case end := <-a.ends:
		return a.told(end, accepted)
	case err := <-a.cut:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// told says what is to be said about a turn that ended, and gives its status.
func (a *agentRun) told(end agentloop.TurnEnd, accepted api.TurnAccepted) error {
	if !a.o.json {
		a.view.ended(end)
		if !a.o.talk && !a.o.quiet {
			a.p.note("note", conversationNote(accepted.Conversation))
		}
		if a.o.quiet && end.Error != "" {
			a.p.note("error", string(end.Reason)+": "+end.Error)
		}
	}
	if a.view.failed != nil {
		return &failure{code: exitSandbox, stage: "output", hint: "see that standard output can be written", err: a.view.failed}
	}
	if code := agentExit(end.Reason, a.view.leftUnanswered()); code != 0 {
		return exitStatus(code)
	}
	return nil
}

// errUserEnds ends a conversation at the terminal.
var errUserEnds = errors.New("the user ends")
