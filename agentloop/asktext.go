package agentloop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"sandboxd/policy"
)

// QuestionText is the kind of a question that is answered with words. What is
// said there allows nothing: it is data for the model.
const QuestionText = "text"

const (
	// maxQuestion bounds a question, maxOptions and maxOption the answers that it
	// offers, maxTextAnswer an answer; in bytes but for maxOptions.
	maxQuestion   = 4 << 10
	maxOptions    = 8
	maxOption     = 500
	maxTextAnswer = 16 << 10
)

var (
	// ErrDeclined reports that the person does not want to answer.
	ErrDeclined = errors.New("the person declined to answer")
	// ErrSilentAgent reports that a sub-agent has nobody to ask.
	ErrSilentAgent = errors.New("a sub-agent works silently and asks nobody: decide, or return the question to who started you")
	// ErrWantsText and ErrWantsVerdict report an answer of the other kind. The
	// question is still pending.
	ErrWantsText    = errors.New("the question wants an answer in words")
	ErrWantsVerdict = errors.New("the question wants allow or deny, not words")
)

// TextQuestion is a question to a person that is answered with words.
type TextQuestion struct {
	Text    string
	Options []string // answers to choose from, shortest form; may be empty
}

// AskText puts a question to the person of the session and waits for the answer.
// Errors: [ErrSilentAgent] and [ErrNoAnswerer] at once, [ErrExpired],
// [ErrDeclined], and those of ctx.
func (r *ToolRun) AskText(ctx context.Context, t TextQuestion) (string, error) {
	if r.Call.Agent != "" {
		return "", ErrSilentAgent
	}
	q := r.Session.parts.asks
	if r.Call.Headless || q == nil {
		return "", ErrNoAnswerer
	}
	return q.askText(ctx, r.Session, r.Call, t)
}

func (t TextQuestion) check() error {
	switch {
	case strings.TrimSpace(t.Text) == "":
		return errors.New("a question without a text")
	case len(t.Text) > maxQuestion:
		return fmt.Errorf("a question of %d bytes: at most %d are put to a person", len(t.Text), maxQuestion)
	case len(t.Options) > maxOptions:
		return fmt.Errorf("%d options: at most %d are offered", len(t.Options), maxOptions)
	}
	for _, o := range t.Options {
		if strings.TrimSpace(o) == "" || len(o) > maxOption {
			return fmt.Errorf("an option is empty, or longer than %d bytes", maxOption)
		}
	}
	return nil
}

func (q *AskQueue) askText(ctx context.Context, s *Session, c ToolCall, t TextQuestion) (string, error) {
	if err := t.check(); err != nil {
		return "", err
	}
	if !q.someoneFor(s) {
		return "", ErrNoAnswerer
	}
	ctx, stop := context.WithTimeoutCause(ctx, q.o.Timeout, ErrExpired)
	defer stop()
	w := &question{session: s, done: make(chan struct{})}
	w.shown = q.describeText(s, c, t)
	if err := q.enter(ctx, w); err != nil {
		return "", err
	}
	select {
	case <-w.done:
	case <-ctx.Done():
		by := "cancelled"
		if errors.Is(context.Cause(ctx), ErrExpired) {
			by = "timeout"
		}
		if _, err := q.giveUp(w, by, context.Cause(ctx)); err != nil {
			return "", err
		}
	}
	switch {
	case w.won.Verdict == policy.Allow:
		return pickOption(w.text, t.Options), nil
	case w.won.By == "cancelled":
		return "", ErrCancelled
	case w.won.By == "timeout":
		return "", ErrExpired
	}
	return "", ErrDeclined
}

// pickOption lets people answer with the number of an option.
func pickOption(text string, options []string) string {
	if n, err := strconv.Atoi(strings.TrimSpace(text)); err == nil && n >= 1 && n <= len(options) {
		return options[n-1]
	}
	return text
}

func (q *AskQueue) describeText(s *Session, c ToolCall, t TextQuestion) PendingQuestion {
	now := q.o.Now().UTC()
	shown := ShowText(t.Text)
	for i, o := range t.Options {
		shown += fmt.Sprintf(" [%d] %s", i+1, ShowText(o))
	}
	p := PendingQuestion{
		ID: NewID("question"), UID: s.peer.UID(), Session: s.id, Call: c.ID, Agent: agentName(c.Agent), Kind: QuestionText,
		Asked: now, Expires: now.Add(q.o.Timeout), Tool: policy.CanonicalTool(c.Tool), Cwd: s.workspace, Mode: s.Mode().String(),
		Text: t.Text, Options: t.Options, Shown: shown, Why: "the agent asks; the answer allows nothing",
		Placement: "nothing runs",
	}
	p.Args, _ = json.Marshal(map[string]any{"question": t.Text, "options": t.Options})
	p.Reason = json.RawMessage(`{"type":"text"}`)
	return p
}

// checkKind says whether an answer is of the kind that its question wants.
func (a AskAnswer) checkKind(q PendingQuestion) error {
	switch {
	case q.Kind != QuestionText && a.Text != "":
		return ErrWantsVerdict
	case q.Kind != QuestionText || a.Verdict != policy.Allow:
		return nil
	case strings.TrimSpace(a.Text) == "" || a.Always:
		return ErrWantsText
	case len(a.Text) > maxTextAnswer:
		return fmt.Errorf("an answer of %d bytes: at most %d are taken", len(a.Text), maxTextAnswer)
	}
	return nil
}
