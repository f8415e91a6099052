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

// testLimits are limits with a clock that the test moves.
func testLimits(l AgentLimits, price *Price) (*limits, *time.Time) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	return newLimits(l, price, func() time.Time { return now }), &now
}

func kinds(list []TurnNotice) string {
	var out []string
	for _, n := range list {
		out = append(out, n.Kind)
	}
	return strings.Join(out, " ")
}

func TestLastStepIsAnsweredWithoutTools(t *testing.T) {
	for _, tt := range []struct{ set, want int }{{0, 8}, {1, 1}, {3, 3}} {
		l, _ := testLimits(AgentLimits{MaxSteps: tt.set}, nil)
		for step := 1; step <= tt.want; step++ {
			got := l.before(step, 0)
			last := step == tt.want
			if got.Last != last || last && (got.End != EndMaxSteps || kinds(got.Notices) != noticeLastStep) || !last && (got.End != "" || got.Notices != nil) {
				t.Errorf("MaxSteps %d, step %d: %+v", tt.set, step, got)
			}
		}
	}
	l, _ := testLimits(AgentLimits{MaxSteps: -1}, nil)
	if got := l.before(1000, 0); got.Last || got.End != "" {
		t.Errorf("no limit: %+v", got)
	}
}

func TestTokenLimits(t *testing.T) {
	l, _ := testLimits(AgentLimits{MaxSteps: -1}, nil)
	for _, tt := range []struct {
		context int64
		compact string
		notices string
	}{
		{0, "", ""}, {31_999, "", ""},
		{32_000, "micro", noticeTokens}, {35_000, "micro", ""}, // told once
		{12_000, "", ""}, {33_000, "micro", noticeTokens}, // and again when it is crossed again
		{39_999, "micro", ""}, {40_000, "auto", ""},
	} {
		got := l.before(1, tt.context)
		if got.Compact != tt.compact || kinds(got.Notices) != tt.notices || got.End != "" {
			t.Errorf("%d tokens: %+v", tt.context, got)
		}
	}
}

func TestCompactionBreaker(t *testing.T) {
	failed := errors.New("model is down")
	over := Usage{Input: 41_000}
	for _, tt := range []struct {
		name string
		try  func(*limits)
	}{
		{"it fails", func(l *limits) { l.compacted(failed) }},
		{"it saves nothing", func(l *limits) { l.compacted(nil); l.answer(Message{}, over) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l, _ := testLimits(AgentLimits{MaxSteps: -1}, nil)
			for i := range maxCompactionFailures {
				if got := l.before(i, over.Context()); got.Compact != "auto" || got.End != "" {
					t.Fatalf("try %d: %+v", i, got)
				}
				tt.try(l)
			}
			if got := l.before(9, over.Context()); got.Compact != "" || got.End != EndTokens || got.Last || !strings.Contains(got.Why, "3 times") {
				t.Errorf("after %d failures: %+v", maxCompactionFailures, got)
			}
			if got := l.before(9, 30_000); got.End != "" {
				t.Errorf("below the limit the turn goes on: %+v", got)
			}
		})
	}
	l, _ := testLimits(AgentLimits{MaxSteps: -1}, nil)
	for range 10 { // a success between failures closes it
		l.compacted(failed)
		l.compacted(failed)
		l.compacted(nil)
		l.answer(Message{}, Usage{Input: 9000})
		if got := l.before(1, over.Context()); got.Compact != "auto" {
			t.Fatalf("%+v", got)
		}
	}
}

func denied() ToolResult {
	return ToolResult{Status: StatusDeny, Decision: policy.Decision{Verdict: policy.Deny, Reason: policy.RuleReason{Kind: policy.DenyRule}}}
}

func allowed(output string) ToolResult {
	return ToolResult{Status: StatusOK, Output: output, Decision: policy.Decision{Verdict: policy.Allow, Reason: policy.RuleReason{Kind: policy.AllowRule}}}
}

func TestDenialsEndATurn(t *testing.T) {
	type call = ToolResult
	uncounted := func(check string) call {
		return call{Status: StatusCancelled, Decision: policy.Decision{Verdict: policy.Deny, Reason: policy.SafetyReason{Check: check}}}
	}
	repeat := func(n int, c ...call) (out []call) {
		for range n {
			out = append(out, c...)
		}
		return out
	}
	for _, tt := range []struct {
		name  string
		set   AgentLimits
		calls []call
		want  string
	}{
		{"two in a row", AgentLimits{}, repeat(2, denied()), ""},
		{"three in a row", AgentLimits{}, repeat(3, denied()), "3 calls in a row"},
		{"an allowed call starts the row anew", AgentLimits{}, repeat(6, denied(), denied(), allowed("")), ""},
		{"the total does not start anew", AgentLimits{}, repeat(10, denied(), denied(), allowed("")), "20 calls"},
		{"settable", AgentLimits{DenialsInARow: 5}, repeat(4, denied()), ""},
		{"settable total", AgentLimits{DenialsInARow: -1, DenialsTotal: 4}, repeat(4, denied()), "4 calls"},
		{"a person who does not answer denies", AgentLimits{}, repeat(3, call{Status: StatusDeny, Decision: policy.Decision{Verdict: policy.Deny, Reason: policy.TimeoutReason{}}}), "3 calls in a row"},
		{"a hook denies", AgentLimits{}, repeat(3, call{Status: StatusBlocked, Decision: policy.Decision{Verdict: policy.Deny, Reason: policy.HookReason{}}}), "3 calls in a row"},
		{"cancelled is not denied", AgentLimits{}, repeat(9, uncounted("cancelled")), ""},
		{"malformed is not denied", AgentLimits{}, repeat(9, uncounted("arguments")), ""},
		{"no limits", AgentLimits{DenialsInARow: -1, DenialsTotal: -1}, repeat(99, denied()), ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.set.MaxSteps = -1
			l, _ := testLimits(tt.set, nil)
			for _, c := range tt.calls {
				l.result("read_file", Traits{ReadOnly: true}, c)
			}
			got := l.before(1, 0)
			if tt.want == "" && got.End != "" || tt.want != "" && (got.End != EndDenials || got.Last || !strings.Contains(got.Why, tt.want)) {
				t.Errorf("%+v, want %q", got, tt.want)
			}
		})
	}
}

// TestDenialsOfSubAgentsCountTogether: a fleet of sub-agents that each stay below
// the limits does not try more than one agent may.
func TestDenialsOfSubAgentsCountTogether(t *testing.T) {
	lead, _ := testLimits(AgentLimits{MaxSteps: -1}, nil)
	for i := range 10 {
		c := lead.child(AgentLimits{}, nil)
		c.result("run_bash", Traits{}, denied())
		c.result("run_bash", Traits{}, denied())
		if got := c.before(1, 0); (got.End == EndDenials) != (i == 9) {
			t.Fatalf("child %d: %+v", i, got)
		}
		if i < 9 {
			if got := lead.before(1, 0); got.End != "" {
				t.Fatalf("the lead after %d: %+v", i, got)
			}
		}
	}
	lead.result("run_bash", Traits{}, denied())
	if got := lead.before(1, 0); got.End != EndDenials {
		t.Errorf("lead: %+v", got)
	}
}

func TestCostBudget(t *testing.T) {
	price := &Price{Input: 10} // dollars for a million tokens
	spend := func(l *limits, dollars float64) {
		l.answer(Message{}, Usage{Input: int64(dollars * 1e5)})
	}
	l, _ := testLimits(AgentLimits{MaxSteps: -1, Cost: 1}, price)
	if err := l.check(); err != nil {
		t.Fatal(err)
	}
	steps := []struct {
		spend float64
		want  stepLimit
		kinds string
	}{
		{0.30, stepLimit{}, ""},
		{0.20, stepLimit{}, ""},
		{0.20, stepLimit{End: EndCost, Last: true}, noticeLastStep}, // 0.7: one more like it fits, two do not
		{0.20, stepLimit{End: EndCost}, ""},                         // 0.9: none fits
	}
	for i, tt := range steps {
		spend(l, tt.spend)
		got := l.before(i, 0)
		if got.End != tt.want.End || got.Last != tt.want.Last || kinds(got.Notices) != tt.kinds {
			t.Errorf("step %d: %+v", i, got)
		}
	}
	l, _ = testLimits(AgentLimits{MaxSteps: -1, Cost: 1}, price)
	l.startWith(0.5) // of earlier turns of the conversation
	spend(l, 0.01)
	if got := l.before(1, 0); got.End != "" {
		t.Errorf("%+v", got)
	}
	l.child(AgentLimits{Cost: 50}, price).answer(Message{}, Usage{Input: 48_000}) // its share counts
	if got := l.before(1, 0); got.Notices == nil || got.Notices[0].Kind != noticeCost {
		t.Errorf("80 %% of the budget: %+v", got)
	}
	if u, cost := l.total(); u.Input != 49_000 || cost == nil || fmt.Sprintf("%.2f", *cost) != "0.49" {
		t.Errorf("total %+v %v", u, cost)
	}

	l, _ = testLimits(AgentLimits{Cost: 1}, nil)
	if err := l.check(); !errors.Is(err, ErrNoPrice) {
		t.Errorf("a budget without a price: %v", err)
	}
	l, _ = testLimits(AgentLimits{}, nil)
	spend(l, 1)
	if _, cost := l.total(); l.check() != nil || cost != nil {
		t.Errorf("without price or budget: %v %v", l.check(), cost)
	}
}

func TestTimeBudget(t *testing.T) {
	l, now := testLimits(AgentLimits{MaxSteps: -1, Time: 10 * time.Minute}, nil)
	ctx, cancel := l.withDeadline(t.Context())
	defer cancel()
	if d, ok := ctx.Deadline(); !ok || time.Until(d) > 10*time.Minute || time.Until(d) < 9*time.Minute {
		t.Errorf("deadline in %v", time.Until(d))
	}
	c := l.child(AgentLimits{Time: time.Hour}, nil)
	if got := l.before(1, 0); got.End != "" || got.Notices != nil {
		t.Errorf("at the start: %+v", got)
	}
	*now = now.Add(8*time.Minute + time.Second)
	if got := l.before(2, 0); got.End != "" || kinds(got.Notices) != noticeTime {
		t.Errorf("at 80 %%: %+v", got)
	}
	*now = now.Add(2 * time.Minute)
	for name, l := range map[string]*limits{"lead": l, "sub-agent": c} {
		if got := l.before(3, 0); got.End != EndTime || got.Last {
			t.Errorf("%s at the end: %+v", name, got)
		}
	}
	short := newLimits(AgentLimits{Time: time.Millisecond}, nil, time.Now)
	over, cancel := short.withDeadline(t.Context())
	defer cancel()
	<-over.Done()
	if err := context.Cause(over); !errors.Is(err, ErrTimeBudget) {
		t.Errorf("cause %v", err)
	}
}

func TestSpawnsAreBoundedForTheWholeTree(t *testing.T) {
	l, _ := testLimits(AgentLimits{Spawns: 2}, nil)
	c := l.child(AgentLimits{Spawns: 99}, nil)
	if err := errors.Join(l.budget.spawn(), c.budget.spawn()); err != nil {
		t.Fatal(err)
	}
	for _, b := range []*budget{l.budget, c.budget, c.child(AgentLimits{}, nil).budget} {
		if err := b.spawn(); !errors.Is(err, ErrTooManySpawns) {
			t.Errorf("third: %v", err)
		}
	}
}

func TestLimitsOfAChildAreNeverWider(t *testing.T) {
	outer := AgentLimits{MaxSteps: 5, HardLimit: 10_000, DenialsInARow: 2, Repeats: -1, Cost: 1}.OrDefault()
	got := AgentLimits{MaxSteps: 50, HardLimit: -1, DenialsInARow: -1, Repeats: 7, Cost: 9, Parallel: 2}.OrDefault().within(outer)
	if got.MaxSteps != 5 || got.HardLimit != 10_000 || got.DenialsInARow != 2 || got.Repeats != 7 || got.Cost != 1 || got.Parallel != 2 {
		t.Errorf("%+v", got)
	}
}
