package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"sync"
	"time"

	"github.com/urfave/cli/v2"
	"golang.org/x/sys/unix"

	"sandboxd/agentloop"
	"sandboxd/cmd/sandboxd/api"
)

func approvalsCommand(p *program) *cli.Command {
	return &cli.Command{
		UsageText: examples("sbx approvals", "sbx approvals --watch", "sbx approve ID", "sbx approve --always --scope user ID", "sbx deny ID"),
		Description: "Lists the questions that wait for an answer. With --watch it stays, shows each new one\n" +
			"and reads answers from the terminal; while somebody watches, questions wait for them.",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "watch", Aliases: []string{"w"}, Usage: "stay, and answer questions as they come"},
			&cli.BoolFlag{Name: "json", Usage: "print one JSON object; with --watch one for each event"},
			socketFlag(),
		},
		Action: p.approvals,
	}
}

func approveCommand(p *program) *cli.Command {
	return &cli.Command{
		UsageText: examples("sbx approve ID", "sbx approve --always --scope project ID", "sbx approve --text 'the second one' ID"),
		ArgsUsage: "ID",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "always", Usage: "also keep the rule that the question shows"},
			&cli.StringFlag{Name: "scope", Usage: "keep it for this `SCOPE`: session, project or user (default: session)"},
			&cli.StringFlag{Name: "text", Usage: "answer a question of the agent in `WORDS`, or with the number of an option"},
			socketFlag(),
		},
		Action: func(c *cli.Context) error {
			a := api.AnswerRequest{Answer: "allow", Scope: c.String("scope")}
			if c.IsSet("text") {
				if c.Bool("always") || a.Scope != "" {
					return misuse("leave out --always and --scope", "words allow nothing, so no rule is kept")
				}
				a = api.AnswerRequest{Answer: "text", Text: c.String("text")}
			} else if c.Bool("always") {
				a.Answer = "always"
			} else if a.Scope != "" {
				return misuse("add --always", "--scope says where a rule is kept, and none is")
			}
			return p.answerQuestion(c, a)
		},
	}
}

func denyCommand(p *program) *cli.Command {
	return &cli.Command{
		UsageText: examples("sbx deny ID"),
		ArgsUsage: "ID",
		Flags:     []cli.Flag{socketFlag()},
		Action:    func(c *cli.Context) error { return p.answerQuestion(c, api.AnswerRequest{Answer: "deny"}) },
	}
}

func (p *program) answerQuestion(c *cli.Context, a api.AnswerRequest) error {
	id, err := oneArg(c, "question")
	if err != nil {
		return err
	}
	cl := p.client(c)
	defer cl.Close()
	text, err := settle(c.Context, cl, id, a)
	if err != nil {
		return daemonFailure(err)
	}
	return p.writeOut("%s", text)
}

// settle answers a question and tells what became of it.
func settle(ctx context.Context, cl *api.Client, id string, a api.AnswerRequest) (string, error) {
	var out agentloop.AnswerOutcome
	if err := cl.Post(ctx, "/api/approvals/"+id, a, &out); err != nil {
		return "", err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n", out.Answer.Verdict, oneLine(out.Question.Shown))
	for _, r := range out.Saved {
		fmt.Fprintf(&b, "kept for the %s: allow %s\n", out.Answer.Scope, oneLine(r))
	}
	if out.SaveError != "" {
		fmt.Fprintf(&b, "not kept: %s\n", oneLine(out.SaveError))
	}
	if out.StillAsks {
		fmt.Fprintf(&b, "the same call would still be asked about: %s\n", oneLine(out.Why))
	}
	if out.CallGone {
		b.WriteString("the call that asked does not wait any more; its repetition passes once\n")
	}
	return b.String(), nil
}

func (p *program) approvals(c *cli.Context) error {
	cl := p.client(c)
	defer cl.Close()
	if c.Bool("watch") {
		cl.AnswersAs(api.WatchAnswerer)
		return p.watchApprovals(c, cl)
	}
	var list api.QuestionList
	if err := cl.Get(c.Context, "/api/approvals", &list); err != nil {
		return daemonFailure(err)
	}
	if c.Bool("json") {
		return p.writeJSON(list)
	}
	for i, q := range list.Questions {
		if i > 0 {
			fmt.Fprintln(p.stdout)
		}
		writeQuestion(p.stdout, q)
	}
	return nil
}

// watcher shows questions and reads answers, one at a time, oldest first.
type watcher struct {
	p   *program
	cl  *api.Client
	tty *os.File

	mu           sync.Mutex
	opened, here bool // the daemon was there once, is there
	waiting      []agentloop.PendingQuestion
	changed      chan struct{}
}

func (p *program) watchApprovals(c *cli.Context, cl *api.Client) error {
	if c.Bool("json") {
		err := cl.Events(c.Context, "/api/approvals/watch", 0, func(kind string, data []byte) error {
			if kind == api.EventOpen {
				data = []byte("null")
			}
			return p.writeOut(`{"event":%q,"data":%s}`+"\n", kind, data)
		})
		if err == nil { // nobody ends it but the daemon
			err = api.ErrGone
		}
		return daemonFailure(err)
	}
	tty, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		return misuse("sbx approvals --watch --json writes events for a program", "--watch needs a terminal: %v", err)
	}
	defer tty.Close()
	restore, err := endLinesAtShiftTab(tty)
	if err != nil {
		return err
	}
	defer restore()
	w := &watcher{p: p, cl: cl, tty: tty, changed: make(chan struct{}, 1)}
	// Caught, so that the terminal gets its settings back.
	ctx, cancel := signal.NotifyContext(c.Context, unix.SIGINT, unix.SIGTERM, unix.SIGHUP)
	defer cancel()
	var asking sync.WaitGroup
	asking.Go(func() { w.ask(ctx) })
	err = w.follow(ctx)
	if ctx.Err() != nil {
		err = exitStatus(128 + int(unix.SIGINT))
	}
	cancel()
	_ = tty.SetReadDeadline(time.Unix(1, 0))
	asking.Wait()
	if _, ok := errors.AsType[exitStatus](err); ok {
		return err
	}
	return daemonFailure(err)
}

// comeBack is how often a watcher looks whether the daemon is there again.
const comeBack = time.Second

// follow takes the questions of the daemon until ctx ends. One that was stopped or
// killed is waited for: its questions are there again when it is. A daemon that is not
// there at first, or that refuses, is an error.
func (w *watcher) follow(ctx context.Context) error {
	for {
		err := w.cl.Events(ctx, "/api/approvals/watch", 0, w.event)
		_, refused := errors.AsType[*api.Fault](err)
		if ctx.Err() != nil || refused || !w.begun() {
			return err
		}
		if w.leave() {
			fmt.Fprintln(w.tty, "\nsbx: the daemon is gone; waiting until it is there again, Ctrl-C ends")
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(comeBack):
		}
	}
}

// begun reports whether the daemon was there once.
func (w *watcher) begun() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.opened
}

func (w *watcher) connected() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.here
}

// leave forgets the questions of a daemon that is gone, and reports whether it was there
// until now.
func (w *watcher) leave() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	was := w.here
	w.here, w.waiting = false, nil
	if was {
		_ = w.tty.SetReadDeadline(time.Unix(1, 0)) // one may be being shown
	}
	return was
}

// event takes what the daemon tells.
func (w *watcher) event(kind string, data []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch kind {
	case api.EventOpen: // from here on questions wait for who is here
		if w.here = true; w.opened {
			fmt.Fprintln(w.tty, "sbx: the daemon is there again; waiting for questions")
			break
		}
		w.opened = true
		fmt.Fprintln(w.tty, "sbx: waiting for questions; y allows, n denies, a/p/u always (session, project, user), s skips, m MODE switches the session's mode, m or Shift+Tab to the next")
	case "question":
		var q agentloop.PendingQuestion
		if err := json.Unmarshal(data, &q); err != nil {
			return err
		}
		w.waiting = append(w.waiting, q)
	case "settled":
		var q api.StreamQuestion
		if err := json.Unmarshal(data, &q); err != nil {
			return err
		}
		for i := range w.waiting {
			if w.waiting[i].ID == q.ID {
				if i == 0 {
					_ = w.tty.SetReadDeadline(time.Unix(1, 0)) // it is being shown
				}
				w.waiting = append(w.waiting[:i], w.waiting[i+1:]...)
				break
			}
		}
	}
	select {
	case w.changed <- struct{}{}:
	default:
	}
	return nil
}

// next returns the oldest question that waits.
func (w *watcher) next(ctx context.Context) (agentloop.PendingQuestion, bool) {
	for {
		w.mu.Lock()
		if len(w.waiting) > 0 {
			q := w.waiting[0]
			_ = w.tty.SetReadDeadline(time.Time{})
			w.mu.Unlock()
			return q, true
		}
		w.mu.Unlock()
		select {
		case <-w.changed:
		case <-ctx.Done():
			return agentloop.PendingQuestion{}, false
		}
	}
}

func (w *watcher) ask(ctx context.Context) {
	for {
		q, ok := w.next(ctx)
		if !ok {
			return
		}
		fmt.Fprintln(w.tty)
		writeQuestion(w.tty, q)
		if q.Kind == agentloop.QuestionText {
			fmt.Fprint(w.tty, "sbx: your answer, or the number of an option (empty: decline; s skips): ")
		} else {
			fmt.Fprint(w.tty, "sbx: allow it? [y/n/a/p/u/s/m MODE] ")
		}
		line := make([]byte, 4096) // a terminal gives one line at a time
		n, err := w.tty.Read(line)
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, os.ErrDeadlineExceeded):
			if w.connected() {
				fmt.Fprintln(w.tty, "\nsbx: answered elsewhere, or expired")
			}
			continue
		case err != nil:
			return
		}
		w.obey(ctx, q, strings.TrimSpace(string(line[:n])))
	}
}

// obey carries out what a person typed. Whatever is not known is asked again.
func (w *watcher) obey(ctx context.Context, q agentloop.PendingQuestion, word string) {
	verb, rest, _ := strings.Cut(word, " ")
	if q.Kind == agentloop.QuestionText && word != "s" && verb != shiftTab {
		a := api.AnswerRequest{Answer: "text", Text: word}
		if word == "" {
			a = api.AnswerRequest{Answer: "deny"}
		}
		w.settle(ctx, q, a)
		return
	}
	switch verb {
	case shiftTab, "m":
		if verb == shiftTab || rest == "" {
			mode, err := cycleMode(ctx, w.cl, q.Session)
			if err != nil {
				fmt.Fprintf(w.tty, "sbx: error: %s\n", oneLine(err.Error()))
				return
			}
			fmt.Fprintf(w.tty, "\nsbx: the session is in mode %s\n", mode)
			return
		}
		err := w.cl.Put(ctx, sessionPath(q.Session, "/permissions/mode"), api.ModeRequest{Mode: strings.TrimSpace(rest)}, nil)
		if err != nil {
			fmt.Fprintf(w.tty, "sbx: error: %s\n", oneLine(err.Error()))
		}
		return
	case "s":
		w.drop(q.ID)
		return
	case "y", "yes", "n", "no", "a", "p", "u":
	default:
		fmt.Fprintln(w.tty, "sbx: y, n, a, p, u, s, m or m MODE")
		return
	}
	w.settle(ctx, q, answerWord(verb, q.AlwaysRule != ""))
}

func (w *watcher) settle(ctx context.Context, q agentloop.PendingQuestion, a api.AnswerRequest) {
	text, err := settle(ctx, w.cl, q.ID, a)
	if err != nil {
		text = "sbx: error: " + oneLine(err.Error()) + "\n"
	}
	fmt.Fprint(w.tty, text)
	w.drop(q.ID)
}

func (w *watcher) drop(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range w.waiting {
		if w.waiting[i].ID == id {
			w.waiting = append(w.waiting[:i], w.waiting[i+1:]...)
			return
		}
	}
}
