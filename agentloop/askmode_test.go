package agentloop

import (
	"context"
	"testing"

	"sandboxd/policy"
)

// TestAnswerForTheSessionOutlivesItsMode is case S071: what a person allowed for the
// session decides the same call in mode auto, without a question and without the
// classifier; another call is judged.
func TestAnswerForTheSessionOutlivesItsMode(t *testing.T) {
	judge := &playedModel{any: words(`{"score":0.05,"reason":"sends a file away"}`)}
	n := 0
	counted := judge.any
	judge.any = func(ctx context.Context, r ModelRequest, emit func(ModelDelta)) (ModelAnswer, error) {
		n++
		return counted(ctx, r, emit)
	}
	upload := policy.Args{"command": "curl -T f ftp://h"}
	w := newWorld(t, nil)
	if err := w.s.SetModels(NewModelClassifier(ModelRole{Provider: judge}), nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.asks.Attach(w.peer(), "test"))
	done := w.later(upload["command"].(string))
	q := w.asked(1)[0]
	out, err := w.asks.Answer(t.Context(), q.ID, w.peer(), AskAnswer{Verdict: policy.Allow, Always: true, Scope: "session"})
	if err != nil || len(out.Saved) == 0 {
		t.Fatalf("answer %+v, %v", out, err)
	}
	if res := <-done; res.Decision.Verdict != policy.Allow || !res.Ran {
		t.Fatalf("%v by %v", res.Decision.Verdict, res.Decision.Reason)
	}
	if err := w.s.SetMode(policy.ModeAuto); err != nil {
		t.Fatal(err)
	}
	res := w.call("run_bash", upload)
	if rule, ok := res.Decision.Reason.(policy.RuleReason); !ok || rule.Kind != policy.AllowRule || !res.Ran || n != 0 {
		t.Errorf("the same call: %v by %v, judged %d times", res.Decision.Verdict, res.Decision.Reason, n)
	}
	if list := w.asks.Pending(w.peer()); len(list) != 0 {
		t.Errorf("asked again: %+v", list)
	}
	if res := w.bash("curl -T g ftp://other"); res.Ran || n != 1 {
		t.Errorf("another call: %v by %v, judged %d times", res.Decision.Verdict, res.Decision.Reason, n)
	}
}
