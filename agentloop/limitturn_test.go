package agentloop

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"sandboxd/policy"
)

// countTool counts its calls.
type countTool struct {
	testTool
	calls *int
}

func counting(name string, result func(n int) string) countTool {
	n := new(int)
	return countTool{testTool{name: name, call: func(context.Context, *ToolRun) (string, error) {
		*n++
		return result(*n), nil
	}}, n}
}

// always repeats a step.
func always(n int, step modelStep) []modelStep {
	out := make([]modelStep, n)
	for i := range out {
		out[i] = step
	}
	return out
}

// filling is an answer whose request and answer fill a number of tokens.
func filling(tokens int64, step modelStep) modelStep {
	return func(ctx context.Context, r ModelRequest, emit func(ModelDelta)) (ModelAnswer, error) {
		a, err := step(ctx, r, emit)
		a.Usage = Usage{Input: tokens - 10, Output: 10}
		return a, err
	}
}

func news(n int) string { return fmt.Sprintf("fact number%d is new\n", n) }

// TestNoToolRunsAfterTheLastStep is row 132: the last step is asked without tools,
// with a reminder, and what the model calls nevertheless is not run.
func TestNoToolRunsAfterTheLastStep(t *testing.T) {
	tool := counting("look", news)
	var steps []modelStep
	for i := range 12 {
		steps = append(steps, asks("look", map[string]any{"at": i}))
	}
	l := newLoop(t, []Tool{tool}, nil, steps...)
	end, _ := l.run("go")
	requests := l.model.asked()
	if end.Reason != EndMaxSteps || end.Steps != 8 || *tool.calls != 7 || len(requests) != 8 {
		t.Fatalf("%+v, %d calls, %d requests", end, *tool.calls, len(requests))
	}
	for i, r := range requests {
		last := i == len(requests)-1
		text := ""
		for _, m := range r.Messages {
			text += m.Text()
		}
		if r.NoTools != last || strings.Contains(text, "<reminder") != last || strings.Contains(text, "This is the last step") != last {
			t.Errorf("request %d: no tools %v, %q", i, r.NoTools, text)
		}
	}
	if res := l.results(); res[0].Status != StatusFail || !strings.Contains(res[0].Text, "last step") {
		t.Errorf("%+v", res)
	}
}

// TestRepeatedCallsOfATurn is row 133: the third one is not run, has an error for
// its result, and who goes on so has to answer.
func TestRepeatedCallsOfATurn(t *testing.T) {
	tool := counting("look", news)
	steps := []modelStep{
		asks("look", `{"a":1,"b":2}`), asks("look", `{"b":2.0, "a":1}`), asks("look", `{"a":1e0,"b":2}`), asks("look", `{"a":1,"b":2}`), asks("look", `{"a":1,"b":2}`), words("enough"),
	}
	l := newLoop(t, []Tool{tool}, nil, steps...)
	end, _ := l.run("go")
	if end.Reason != EndRepeated || *tool.calls != 2 || end.Text != "enough" || end.Calls != 2 {
		t.Errorf("%+v, %d calls", end, *tool.calls)
	}
	if res := l.results(); !strings.Contains(res[0].Text, "not run: This call, with the same arguments, came 3 times in a row") || res[0].Status != StatusFail {
		t.Errorf("%+v", res)
	}
	if rows := l.log.statuses(); len(rows) != 2*2+3+1 { // two that ran, three that did not, the turn
		t.Errorf("rows %v", rows)
	}
}

// TestATurnWithoutNewsHasToAnswer is row 134.
func TestATurnWithoutNewsHasToAnswer(t *testing.T) {
	tool := counting("look", func(int) string { return "nothing found\n" })
	tool.traits = Traits{ReadOnly: true}
	var steps []modelStep
	for i := range 5 {
		steps = append(steps, asks("look", map[string]any{"at": i}))
	}
	l := newLoop(t, []Tool{tool}, nil, append(steps, words("there is nothing"))...)
	end, _ := l.run("go")
	if end.Reason != EndDiminishing || *tool.calls != 5 || end.Text != "there is nothing" || !strings.Contains(end.Error, "4 steps") {
		t.Errorf("%+v, %d calls", end, *tool.calls)
	}
}

// TestDenialsEndTheLoop is row 142.
func TestDenialsEndTheLoop(t *testing.T) {
	var steps []modelStep
	for i := range 10 {
		steps = append(steps, asks("run_bash", map[string]any{"command": fmt.Sprintf("touch made%d", i)}))
	}
	l := newLoop(t, nil, func(l *loopWorld) {
		if err := l.s.AddRule(policy.DenyRule, "run_bash(touch *)", "test"); err != nil {
			t.Fatal(err)
		}
	}, steps...)
	end, _ := l.run("go")
	if end.Reason != EndDenials || end.Steps != 4 || !strings.Contains(end.Error, "3 calls in a row were denied") {
		t.Errorf("%+v", end)
	}
	if last := l.log.rows[len(l.log.rows)-1]; last.Tool != "turn" || !strings.Contains(string(last.Reason), `"end":"denials"`) {
		t.Errorf("row %+v", last)
	}
	if n := len(l.model.asked()); n != 3 {
		t.Errorf("%d requests", n)
	}
}

// TestTokensAreBounded is row 138: at the soft limit the model is told, at the hard
// limit the conversation is made smaller.
func TestTokensAreBounded(t *testing.T) {
	tool := counting("look", func(n int) string { return linesOf(fmt.Sprint("page", n), 60) })
	var steps []modelStep
	for i, tokens := range []int64{10_000, 33_000, 36_000, 41_000} {
		steps = append(steps, filling(tokens, asks("look", map[string]any{"at": i})))
	}
	steps = append(steps, words("pages 1 to 3 hold lines"), filling(9000, asks("look", map[string]any{"at": 9})), words("done"))
	l := newLoop(t, []Tool{tool}, nil, steps...)
	if _, err := l.a.Todos().Write(policy.Args{"todos": []any{"look at all"}}); err != nil {
		t.Fatal(err)
	}
	end, events := l.run("look at everything")
	if end.Reason != EndCompleted || *tool.calls != 5 || end.Usage.Output != 10*5+10*2 {
		t.Errorf("%+v, %d calls", end, *tool.calls)
	}
	requests := l.model.asked()
	if text := fmt.Sprint(requests[2].Messages); !strings.Contains(text, "fills 33000 tokens") {
		t.Error("the model is not told of the soft limit")
	}
	if !requests[4].NoTools || len(requests[4].Messages) != 1 {
		t.Errorf("no summary was asked for: %+v", requests[4])
	}
	after := fmt.Sprint(requests[5].Messages)
	for _, want := range []string{"pages 1 to 3 hold lines", "look at everything", "[ ] look at all", "page4 line 59"} {
		if !strings.Contains(after, want) {
			t.Errorf("after the summary %q is lost", want)
		}
	}
	if strings.Contains(after, "page2 line 59") || len(requests[5].Messages) != 3 {
		t.Errorf("%d messages after the summary", len(requests[5].Messages))
	}
	var kinds []string
	for _, e := range events {
		if c, ok := e.Data.(TurnCompaction); ok {
			kinds = append(kinds, fmt.Sprintf("%s %d %v", c.Kind, c.Before, c.After < c.Before))
		}
	}
	if fmt.Sprint(kinds) != "[auto 41000 true]" {
		t.Errorf("compactions %q", kinds)
	}
	// What is kept is what is sent.
	again := l.o
	again.Conversation = l.a.ID()
	resumed, err := NewAgent(t.Context(), again)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprint(texts(resumed.Messages())), fmt.Sprint(texts(l.a.Messages())); got != want {
		t.Errorf("resumed\n%s, want\n%s", got, want)
	}
}

// texts are the texts of messages.
func texts(messages []Message) (out []string) {
	for _, m := range messages {
		for _, b := range m.Blocks {
			out = append(out, string(b.Kind)+" "+b.Text+b.Args)
		}
	}
	return out
}

// TestCompactionStopsAfterThreeFailures is row 137.
func TestCompactionStopsAfterThreeFailures(t *testing.T) {
	tool := counting("look", news)
	summaries := 0
	step := func(ctx context.Context, r ModelRequest, emit func(ModelDelta)) (ModelAnswer, error) {
		if r.NoTools {
			summaries++
			return ModelAnswer{}, &ModelError{Kind: ModelOverloaded, Provider: "played", Err: errors.New("busy")}
		}
		return filling(41_000, asks("look", map[string]any{"at": len(r.Messages)}))(ctx, r, emit)
	}
	l := newLoop(t, []Tool{tool}, func(l *loopWorld) { l.o.Config.Limits.MaxSteps = 30 }, always(30, step)...)
	end, events := l.run("go")
	if end.Reason != EndTokens || summaries != 3 || *tool.calls != 4 || !strings.Contains(end.Error, "compaction failed 3 times") {
		t.Errorf("%+v, %d summaries, %d calls", end, summaries, *tool.calls)
	}
	failed := 0
	for _, e := range events {
		if c, ok := e.Data.(TurnCompaction); ok && c.Error != "" {
			failed++
		}
	}
	if failed != 3 {
		t.Errorf("%d failures are told", failed)
	}
}

// TestOldResultsBecomeStubs: a micro compaction asks no model.
func TestOldResultsBecomeStubs(t *testing.T) {
	tool := counting("look", func(n int) string { return linesOf(fmt.Sprint("page", n), 250) })
	var steps []modelStep
	for i := range 7 {
		steps = append(steps, filling(int64(5000*(i+1)), asks("look", map[string]any{"at": i})))
	}
	l := newLoop(t, []Tool{tool}, nil, append(steps, words("done"))...)
	end, events := l.run("go")
	if end.Text != "done" || len(l.model.asked()) != 8 {
		t.Fatalf("%+v, %d requests", end, len(l.model.asked()))
	}
	last := fmt.Sprint(l.model.asked()[7].Messages)
	if !strings.Contains(eventKinds(events), "compact") || !strings.Contains(last, stubMark) || strings.Contains(last, "page2 line 3\n") || !strings.Contains(last, "page7 line 3\n") {
		t.Errorf("events %s", eventKinds(events))
	}
}

// TestCompactionByHand is the third entry point of row 147: between turns at once,
// within a turn before the next request.
func TestCompactionByHand(t *testing.T) {
	tool := counting("look", func(n int) string { return linesOf(fmt.Sprint("page", n), 60) })
	ask := testTool{name: "compress_context", call: func(ctx context.Context, r *ToolRun) (string, error) {
		_, err := r.Agent().Compact(ctx, "the pages")
		return "later", err
	}}
	l := newLoop(t, []Tool{tool, ask}, nil,
		asks("look", `{"at":1}`), asks("compress_context", `{}`), words("page 1 has lines"), words("first"), // a turn
		words("all is done")) // the summary between turns
	if end, _ := l.run("go"); end.Text != "first" {
		t.Fatalf("%+v", end)
	}
	requests := l.model.asked()
	if text := requests[2].Messages[0].Text(); !requests[2].NoTools || !strings.Contains(text, "the pages") || !strings.Contains(fmt.Sprint(requests[3].Messages), "page 1 has lines") {
		t.Errorf("%q", text)
	}
	done, err := l.a.Compact(t.Context(), "")
	if err != nil || done.Kind != compactManual || done.After >= done.Before || len(l.a.Messages()) != 1 {
		t.Errorf("%+v %v, %d messages", done, err, len(l.a.Messages()))
	}
	if u := l.store.heads[l.a.ID()].Usage; u.Output != 20+20+10+10+10 {
		t.Errorf("usage %+v", u)
	}
	if _, err := l.a.Compact(t.Context(), ""); err == nil {
		t.Error("a summary of nothing but a summary")
	}
}

// TestCostEndsATurn: nothing is asked for that the budget does not hold, over the
// turns of a conversation.
func TestCostEndsATurn(t *testing.T) {
	tool := counting("look", news)
	step := func(ctx context.Context, r ModelRequest, emit func(ModelDelta)) (ModelAnswer, error) {
		if r.NoTools {
			return filling(10_000, words("out of money"))(ctx, r, emit)
		}
		return filling(10_000, asks("look", map[string]any{"at": len(r.Messages)}))(ctx, r, emit)
	}
	l := newLoop(t, []Tool{tool}, func(l *loopWorld) {
		l.o.Config.Limits.Cost = 0.045
		l.o.Config.Prices = map[string]Price{"m": {Input: 1, Output: 1}} // a cent each
	}, always(20, step)...)
	end, _ := l.run("go")
	if end.Reason != EndCost || end.Text != "out of money" || len(l.model.asked()) != 4 || end.Cost == nil || *end.Cost > 0.045 {
		t.Errorf("%+v, %d requests", end, len(l.model.asked()))
	}
	if end, _ := l.run("more"); end.Reason != EndCost || *end.Cost != 0 && *end.Cost > 0.01 {
		t.Errorf("the next turn: %+v", end)
	}
	if n := len(l.model.asked()); n > 5 {
		t.Errorf("%d requests", n)
	}
	l = newLoop(t, nil, func(l *loopWorld) { l.o.Config.Limits.Cost = 1 }, words("x"))
	if end, _ := l.run("go"); !errors.Is(end.Err, ErrNoPrice) || len(l.model.asked()) != 0 {
		t.Errorf("without a price: %+v", end)
	}
}

// TestTimeEndsATurn: also one whose model does not answer.
func TestTimeEndsATurn(t *testing.T) {
	wait := func(ctx context.Context, _ ModelRequest, _ func(ModelDelta)) (ModelAnswer, error) {
		<-ctx.Done()
		return ModelAnswer{}, ctx.Err()
	}
	l := newLoop(t, nil, func(l *loopWorld) { l.o.Config.Limits.Time = 100 * time.Millisecond }, wait)
	begun := time.Now()
	end, _ := l.run("go")
	if took := time.Since(begun); end.Reason != EndTime || took < 100*time.Millisecond || took > 5*time.Second {
		t.Errorf("%+v after %v", end, took)
	}
}
