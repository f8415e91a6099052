package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"sandboxd/agentloop"
	"sandboxd/cmd/sandboxd/api"
)

// agentAsker puts the questions of a session to the person at the terminal, one
// after the other. Somebody else may answer first.
type agentAsker struct {
	cl   *api.Client
	view *turnView

	mu      sync.Mutex
	waiting []agentloop.PendingQuestion // the first may be being shown
	tty     *os.File                    // while one is shown
	how     string                      // became of the one that is shown, when it was settled elsewhere
	changed chan struct{}
}

// settledText says how a question ended that was not answered here.
func settledText(a agentloop.StoredAnswer) string {
	switch a.By {
	case "cancelled":
		return "cancelled"
	case "timeout":
		return "expired: nobody answered in time"
	case "":
		return "answered elsewhere"
	}
	return oneLine("answered elsewhere: " + a.Verdict + ", by " + a.By)
}

func newAgentAsker(cl *api.Client, v *turnView) *agentAsker {
	return &agentAsker{cl: cl, view: v, changed: make(chan struct{}, 1)}
}

// event takes an event of the session: a question comes, or is settled.
func (a *agentAsker) event(e agentloop.Event) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch e.Type {
	case agentloop.EventQuestionAsked:
		q, err := api.TurnData[agentloop.PendingQuestion](e)
		if err != nil {
			return
		}
		a.waiting = append(a.waiting, q)
	case agentloop.EventQuestionSettled:
		var settled struct {
			ID     string                 `json:"id"`
			Answer agentloop.StoredAnswer `json:"answer"`
		}
		if json.Unmarshal(e.Data, &settled) != nil {
			return
		}
		for i, q := range a.waiting {
			if q.ID != settled.ID {
				continue
			}
			if i == 0 && a.tty != nil {
				a.how = settledText(settled.Answer)
				_ = a.tty.SetReadDeadline(time.Unix(1, 0))
			}
			a.waiting = append(a.waiting[:i:i], a.waiting[i+1:]...)
			break
		}
	case agentloop.EventQuestionExplained:
		a.explained(e)
		return
	default:
		return
	}
	select {
	case a.changed <- struct{}{}:
	default:
	}
}

// explained shows what a model says about the question on the terminal, or keeps it for
// when it is shown. a.mu is held.
func (a *agentAsker) explained(e agentloop.Event) {
	var d struct{ ID, Text string }
	if json.Unmarshal(e.Data, &d) != nil {
		return
	}
	for i := range a.waiting {
		if a.waiting[i].ID != d.ID {
			continue
		}
		a.waiting[i].ModelRisk = d.Text
		if i == 0 && a.tty != nil {
			fmt.Fprintf(a.tty, "\nsbx: %-10s says, and may be wrong: %s\n%s", "model", oneLine(d.Text), askPrompt(a.waiting[i]))
		}
	}
}

// run asks until ctx ends.
func (a *agentAsker) run(ctx context.Context) {
	stop := context.AfterFunc(ctx, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.tty != nil {
			_ = a.tty.SetReadDeadline(time.Unix(1, 0))
		}
	})
	defer stop()
	for ctx.Err() == nil {
		if q, ok := a.first(); ok {
			a.ask(ctx, q)
			continue
		}
		select {
		case <-a.changed:
		case <-ctx.Done():
		}
	}
}

func (a *agentAsker) first() (agentloop.PendingQuestion, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.waiting) == 0 {
		return agentloop.PendingQuestion{}, false
	}
	return a.waiting[0], true
}

// drop forgets a question that is settled as far as this terminal goes.
func (a *agentAsker) drop(id string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i, q := range a.waiting {
		if q.ID == id {
			a.waiting = append(a.waiting[:i:i], a.waiting[i+1:]...)
			return
		}
	}
}

// open takes the terminal for a question that still waits. What was typed before it
// was shown is no answer to it and is thrown away.
func (a *agentAsker) open(id string) *os.File {
	tty, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.waiting) == 0 || a.waiting[0].ID != id {
		tty.Close()
		return nil
	}
	if raw, err := tty.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { _ = unix.IoctlSetInt(int(fd), unix.TCFLSH, unix.TCIFLUSH) })
	}
	a.tty = tty
	return tty
}

func (a *agentAsker) release(tty *os.File) {
	a.mu.Lock()
	a.tty = nil
	a.mu.Unlock()
	tty.Close()
}

// settledHow says what became of the question on the terminal.
func (a *agentAsker) settledHow() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return cmp.Or(a.how, "answered elsewhere, cancelled or expired")
}

// ask shows one question until it is settled.
func (a *agentAsker) ask(ctx context.Context, q agentloop.PendingQuestion) {
	a.view.hold()
	defer a.view.release()
	tty := a.open(q.ID)
	if tty == nil {
		a.drop(q.ID)
		return
	}
	defer a.release(tty)
	fmt.Fprintln(tty)
	writeQuestion(tty, q)
	for {
		fmt.Fprint(tty, askPrompt(q))
		word, err := readAnswer(tty)
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			if ctx.Err() == nil {
				fmt.Fprintln(tty, "\nsbx: "+a.settledHow())
			}
			a.drop(q.ID)
			return
		case err != nil: // the end of the input: nobody is there any more
			a.answer(ctx, tty, q, api.AnswerRequest{Answer: "deny"})
			return
		case word == "w":
			writeWhy(tty, q)
			continue
		case q.Kind == agentloop.QuestionText && word == "":
			continue
		}
		answer, known := agentAnswer(q, word)
		if !known {
			fmt.Fprintln(tty, "sbx: y allows, n denies, w shows more")
			continue
		}
		a.answer(ctx, tty, q, answer)
		return
	}
}

// maxAnswerLine is what a terminal gives of one line at most (N_TTY_BUF_SIZE).
const maxAnswerLine = 4096

func readAnswer(tty *os.File) (string, error) {
	line := make([]byte, maxAnswerLine)
	n, err := tty.Read(line)
	return strings.TrimSpace(string(line[:n])), err
}

func askPrompt(q agentloop.PendingQuestion) string {
	switch {
	case q.Kind == agentloop.QuestionText:
		return "sbx: your answer (or a number; ! declines): "
	case q.AlwaysRule != "":
		return "sbx: allow it? [y/n, w: why, a: always in this session, p: in this project, u: for this user] "
	}
	return "sbx: allow it? [y/n, w: why] "
}

// agentAnswer reads what a person typed. An empty line denies; what is not known is
// asked again.
func agentAnswer(q agentloop.PendingQuestion, word string) (answer api.AnswerRequest, known bool) {
	if q.Kind == agentloop.QuestionText {
		if word == "!" {
			return api.AnswerRequest{Answer: "deny"}, true
		}
		return api.AnswerRequest{Answer: "text", Text: word}, true
	}
	switch word {
	case "", "n", "no", "d":
		return api.AnswerRequest{Answer: "deny"}, true
	case "y", "yes":
		return api.AnswerRequest{Answer: "allow"}, true
	case "a", "A", "p", "u":
		return answerWord(strings.ToLower(word), q.AlwaysRule != ""), q.AlwaysRule != ""
	}
	return answer, false
}

func (a *agentAsker) answer(ctx context.Context, tty *os.File, q agentloop.PendingQuestion, answer api.AnswerRequest) {
	text, err := settle(ctx, a.cl, q.ID, answer)
	if err != nil {
		text = "sbx: " + oneLine(err.Error()) + "\n"
	}
	fmt.Fprint(tty, text)
	a.drop(q.ID)
}

// writeWhy shows all that is known about a question.
func writeWhy(tty *os.File, q agentloop.PendingQuestion) {
	line := func(label, text string) {
		if text != "" && text != "null" {
			fmt.Fprintf(tty, "sbx: %-10s %s\n", label, oneLine(text))
		}
	}
	line("tool", q.Tool)
	for _, l := range strings.Split(strings.TrimRight(q.Script, "\n"), "\n") {
		line("script", l)
	}
	if q.Script == "" {
		writeArgs(tty, q.Args)
	}
	if q.Diff != "" {
		line("change", "all of it:")
		fmt.Fprint(tty, paint(false).diff(q.Diff, maxWhyLines))
	}
	line("agent", q.Agent)
	line("reason", string(q.Reason))
	var risk struct{ Reasoning, Risk string }
	if json.Unmarshal(q.Risk, &risk) == nil {
		line("risk", risk.Reasoning)
		line("", risk.Risk)
	}
	line("reads", strings.Join(q.Reads, ", "))
	line("writes", strings.Join(q.Writes, ", "))
	for _, opens := range q.Opens {
		line("allowing", opens)
	}
	for _, rule := range q.AlwaysRules {
		line("always", "would keep "+rule)
	}
}

// maxWhyLines bounds one text of a call that is shown whole, in lines.
const maxWhyLines = 2000

// writeArgs shows each argument of a call, a text in lines as it is.
func writeArgs(w io.Writer, args json.RawMessage) {
	var fields map[string]json.RawMessage
	if json.Unmarshal(args, &fields) != nil {
		fmt.Fprintf(w, "sbx: %-10s %s\n", "arguments", oneLine(string(args)))
		return
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		text := string(fields[name])
		_ = json.Unmarshal(fields[name], &text) // else it stays JSON
		lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
		for i, l := range lines[:min(len(lines), maxWhyLines)] {
			label := oneLine(name)
			if i > 0 {
				label = ""
			}
			fmt.Fprintf(w, "sbx: %-10s %s\n", label, manyLines(l))
		}
		if more := len(lines) - maxWhyLines; more > 0 {
			fmt.Fprintf(w, "sbx: %-10s ... more lines: %d\n", "", more)
		}
	}
}
