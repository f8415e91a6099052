package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"sandboxd/agentloop"
	"sandboxd/cmd/sandboxd/api"
)

// hasTerminal reports whether somebody can be asked.
func hasTerminal() bool {
	tty, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		return false
	}
	return tty.Close() == nil
}

// askHere shows a question on the controlling terminal and reads the answer. It
// reports false when somebody else was first.
func (p *program) askHere(ctx context.Context, text json.RawMessage) (api.AnswerRequest, bool) {
	deny := api.AnswerRequest{Answer: "deny"}
	var q agentloop.PendingQuestion
	if err := json.Unmarshal(text, &q); err != nil {
		return deny, true
	}
	tty, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		return deny, true
	}
	defer tty.Close()
	stop := context.AfterFunc(ctx, func() { _ = tty.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	writeQuestion(tty, q)
	keys := "[y/N]"
	if q.AlwaysRule != "" {
		keys = "[y/N, a: always in this session, p: in this project, u: for this user]"
	}
	fmt.Fprintf(tty, "sbx: allow it? %s ", keys)
	answer := make([]byte, 64) // a terminal gives one line at a time
	n, err := tty.Read(answer)
	if errors.Is(context.Cause(ctx), api.ErrSettled) {
		fmt.Fprintln(tty, "\nsbx: answered elsewhere, or expired")
		return deny, false
	}
	if ctx.Err() != nil {
		fmt.Fprintln(tty, "\nsbx: not answered: the call has ended")
		return deny, false
	}
	if err != nil {
		return deny, true
	}
	return answerWord(strings.TrimSpace(string(answer[:n])), q.AlwaysRule != ""), true
}

// answerWord reads what a person typed. Whatever is not known denies.
func answerWord(word string, always bool) api.AnswerRequest {
	scope := map[string]string{"a": "session", "p": "project", "u": "user"}[word]
	switch {
	case word == "y" || word == "yes":
		return api.AnswerRequest{Answer: "allow"}
	case scope != "" && always:
		return api.AnswerRequest{Answer: "always", Scope: scope}
	}
	return api.AnswerRequest{Answer: "deny"}
}

// writeQuestion shows a question as a person needs it. What comes from the call is
// escaped: it cannot draw on the terminal.
func writeQuestion(w io.Writer, q agentloop.PendingQuestion) {
	line := func(label, format string, args ...any) {
		fmt.Fprintf(w, "sbx: %-10s %s\n", label, oneLine(fmt.Sprintf(format, args...)))
	}
	what := q.Shown
	if what == "" {
		what = strings.Join(q.Argv, " ") + q.Script
	}
	line("asked", "%s", what)
	line("id", "%s", q.ID)
	line("in", "%s, mode %s", q.Cwd, q.Mode)
	line("why", "%s", q.Why)
	var risk struct {
		Level string `json:"risk_level"`
		Text  string `json:"explanation"`
	}
	if json.Unmarshal(q.Risk, &risk) == nil && risk.Level != "" {
		line("risk", "%s: %s", risk.Level, risk.Text)
	}
	if q.ModelRisk != "" {
		line("model", "says, and may be wrong: %s", q.ModelRisk)
	}
	for _, list := range []struct {
		label string
		items []string
	}{{"writes", q.Writes}, {"redirects", q.Redirects}} {
		if len(list.items) > 0 {
			line(list.label, "%s", shortLine(strings.Join(list.items, ", ")))
		}
	}
	for _, opens := range q.Opens {
		line("allowing", "%s", opens)
	}
	if q.Placement != "" {
		line("runs", "%s", q.Placement)
	}
	if q.AlwaysRule != "" {
		line("always", "would keep %s", q.AlwaysRule)
		for _, also := range q.AlwaysAllows {
			line("", "which also allows %s", also)
		}
	}
	if q.NoDiff != "" {
		line("change", "not shown: %s", q.NoDiff)
	}
	if q.Diff != "" {
		line("change", "")
		fmt.Fprint(w, paint(false).diff(q.Diff, shownDiffLines))
	}
	if !q.Expires.IsZero() {
		line("expires", "%s", q.Expires.Local().Format("15:04:05"))
	}
}
