package agentloop

import (
	"context"
	"fmt"
	"testing"
)

// BenchmarkStep is what a step costs beside the model: a call that does nothing, and
// one that runs /bin/true through Bash. Nothing is
// kept on disk: a real store adds the writes of three entries and two rows for each.
func BenchmarkStep(b *testing.B) {
	noop := testTool{name: "noop", traits: safeTraits, call: func(context.Context, *ToolRun) (string, error) { return "done", nil }}
	for _, bb := range []struct {
		name string
		tool string
		args string
	}{
		{"noop", "noop", `{"n":%d}`},
		{"bash", "run_bash", `{"command":"true %d"}`},
	} {
		b.Run(bb.name, func(b *testing.B) {
			steps := 0
			l := newLoop(b, []Tool{noop}, func(l *loopWorld) { l.o.Store, l.o.Config.Limits = nil, AgentLimits{Stale: -1, Repeats: -1} })
			l.model.any = func(ctx context.Context, r ModelRequest, emit func(ModelDelta)) (ModelAnswer, error) {
				if steps++; steps%7 == 0 { // six calls and an answer: within the limits of a turn
					return words("done")(ctx, r, emit)
				}
				return asks(bb.tool, fmt.Sprintf(bb.args, steps))(ctx, r, emit)
			}
			b.ReportAllocs()
			for b.Loop() {
				a := l.agent()
				if end := a.Run(b.Context(), "go", nil); end.Reason != EndCompleted {
					b.Fatalf("%+v", end)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(steps), "µs/step")
		})
	}
	b.Run("bash without a loop", func(b *testing.B) {
		l := newLoop(b, nil, nil)
		for b.Loop() {
			if res := l.bash("true"); res.Status != StatusOK {
				b.Fatal(res.Error)
			}
		}
	})
}
