package agentloop

import (
	"context"
	"errors"
	"strings"
	"time"

	"sandboxd/policy"
)

// Explainer writes a text about a call for the person who is asked about it. It
// decides nothing.
type Explainer interface {
	Explain(ctx context.Context, in policy.ClassifierInput) (string, error)
}

const explainerSystem = `You explain one call of a coding agent to the person who must allow or deny it. Answer with one JSON object and nothing else: {"text": T}. T says in at most two short, plain sentences what the call would do and what could go wrong: what it changes, deletes, downloads, runs or sends. Do not say whether to allow it, and do not repeat the call.

`

const explainerSchema = `{"type":"object","properties":{"text":{"type":"string"}},"required":["text"],"additionalProperties":false}`

// maxExplained bounds the text of an explainer, in bytes.
const maxExplained = 600

type modelExplainer struct{ r ModelRole }

// NewModelExplainer is an explainer over a model. What it sees is what a classifier
// sees.
func NewModelExplainer(r ModelRole) Explainer { return modelExplainer{r} }

func (e modelExplainer) Explain(ctx context.Context, in policy.ClassifierInput) (string, error) {
	answer, err := e.r.ask(ctx, explainerSystem, explainerSchema, in)
	if err != nil {
		return "", err
	}
	args, err := policy.DecodeArgs([]byte(answer))
	if err != nil {
		return "", err
	}
	text, ok := args["text"].(string)
	if !ok || strings.TrimSpace(text) == "" || len(args) != 1 {
		return "", errors.New("the answer of the model is not an object of text")
	}
	return text, nil
}

const (
	// explainTime bounds the work of an explainer. A question does not wait for it.
	explainTime = 20 * time.Second
	// explainGrace bounds the wait for one that does not end when it is told to.
	explainGrace = time.Second
)

// explain lets the explainer of the session write about a question while it waits
// for its answer. stop ends that.
func (q *AskQueue) explain(w *question) (stop func()) {
	e := w.session.explainerNow()
	if e == nil {
		return func() {}
	}
	ctx, cancel := context.WithTimeout(context.Background(), explainTime)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if text := explained(ctx, e, w.shown); text != "" && ctx.Err() == nil {
			q.attach(w, text)
		}
	}()
	return func() {
		cancel()
		select {
		case <-done:
		case <-time.After(explainGrace):
		}
	}
}

func explained(ctx context.Context, e Explainer, shown PendingQuestion) (text string) {
	defer func() {
		if recover() != nil {
			text = ""
		}
	}()
	in := policy.ClassifierInput{Tool: shown.Tool, Cwd: shown.Cwd, Text: shown.Script}
	if in.Text == "" {
		in.Text = string(shown.Args)
	}
	text, err := e.Explain(ctx, in)
	if err != nil {
		return "" // the heuristic one stands beside it
	}
	return oneLine(text, maxExplained)
}

// withModel is a question as it is shown now. The queue's mutex is held.
func (w *question) withModel() PendingQuestion {
	out := w.shown
	out.ModelRisk = w.risk
	return out
}

// attach shows the text of a model beside a question that still waits.
func (q *AskQueue) attach(w *question, text string) {
	q.mu.Lock()
	if q.pending[w.shown.ID] != w || w.settling {
		q.mu.Unlock()
		return
	}
	w.risk = text
	q.mu.Unlock()
	w.session.events.Publish(EventQuestionExplained, map[string]string{"id": w.shown.ID, "call_id": w.shown.Call, "text": text, "text_by": "model"})
	q.changed()
}
