package agentloop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"sandboxd/policy"
)

// TestEachUseHasOneResult is rows 148 and 153: whatever a model asks for, each call
// gets one result, in the order of the calls, and what is wrong with a call is told
// before anything of it is done.
func TestEachUseHasOneResult(t *testing.T) {
	panics := testTool{name: "panics", call: func(context.Context, *ToolRun) (string, error) { panic("bug in a tool") }}
	fails := testTool{name: "fails", call: func(context.Context, *ToolRun) (string, error) { return "half", errors.New("no luck") }}
	many := []any{}
	for i := range maxUses + 5 {
		many = append(many, "read_file", map[string]any{"file_path": fmt.Sprint("f", i)})
	}
	for _, tt := range []struct {
		name  string
		call  []any
		want  []Status
		text  string // in the last result
		asked int    // calls that count
	}{
		{"malformed", []any{"run_bash", `{"command": "touch made"`}, []Status{StatusFail}, "one JSON object", 0},
		{"not an object", []any{"run_bash", `["touch made"]`}, []Status{StatusFail}, "one JSON object", 0},
		{"a name twice", []any{"run_bash", `{"command":"true","command":"touch made"}`}, []Status{StatusFail}, "given twice", 0},
		{"no arguments", []any{"run_bash", ""}, []Status{StatusDeny}, "there is no command", 1},
		{"a wrong kind", []any{"run_bash", `{"command":7}`}, []Status{StatusDeny}, "there is no command", 1},
		{"unknown tool", []any{"launch", `{}`}, []Status{StatusFail}, `no tool "launch" here; there are: fails, panics, read_file, run_bash`, 0},
		{"a tool of the dispatcher that is not offered", []any{"file_write", `{"file_path":"made","content":"x"}`}, []Status{StatusFail}, "no tool", 0},
		{"no name", []any{"", `{}`}, []Status{StatusFail}, `no tool "unnamed"`, 0},
		{"a name that cannot be sent again", []any{"run bash\n<x>", `{}`}, []Status{StatusFail}, `no tool "run_bash__x_"`, 0},
		{"an alias", []any{"Bash", `{"command":"echo hi"}`}, []Status{StatusOK}, "hi", 1},
		{"denied", []any{"run_bash", `{"command":"touch made; rm -rf x"}`}, []Status{StatusDeny}, "rule deny", 1},
		{"panics", []any{"panics", `{}`}, []Status{StatusFail}, "bug in a tool", 1},
		{"fails", []any{"fails", `{}`}, []Status{StatusFail}, "half\n[error: no luck]", 1},
		{"too many", many, repeat(StatusFail, maxUses+5), "at most 128 calls", maxUses},
		{"good beside bad", []any{"run_bash", `{"command":"echo one"}`, "nothing", `{`, "run_bash", `{"command":"echo two"}`}, []Status{StatusOK, StatusFail, StatusOK}, "two", 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := newLoop(t, []Tool{panics, fails}, func(l *loopWorld) {
				l.o.Tools = []string{"run_bash", "read_file", "panics", "fails"}
				l.o.Config.Limits.Repeats = -1
				if err := l.s.AddRule(policy.DenyRule, "run_bash(rm *)", "t"); err != nil {
					t.Fatal(err)
				}
			}, asks(tt.call...), words("ok"))
			end, events := l.run("go")
			if end.Reason != EndCompleted || end.Calls != tt.asked {
				t.Errorf("%+v", end)
			}
			res := l.results()
			if len(res) != len(tt.want) {
				t.Fatalf("%d results, want %d", len(res), len(tt.want))
			}
			for i, b := range res {
				if b.Status != tt.want[i] {
					t.Errorf("result %d: %s %q, want %s", i, b.Status, b.Text, tt.want[i])
				}
			}
			if last := res[len(res)-1].Text; !strings.Contains(last, tt.text) {
				t.Errorf("told %q, want %q", last, tt.text)
			}
			if readText(l.host.path("home/u/w/made")) != "-" {
				t.Error("something was done")
			}
			tools, results := 0, 0
			for _, e := range events {
				switch d := e.Data.(type) {
				case TurnTool:
					tools++
				case TurnResultBlock:
					results++
					if d.Verdict == nil || d.Verdict.Verdict == policy.Deny && d.Status == StatusOK {
						t.Errorf("event %+v", d)
					}
				}
			}
			if tools != len(tt.want) || results != len(tt.want) {
				t.Errorf("%d and %d events", tools, results)
			}
			// Each call has its row, whatever became of it, and one for the turn.
			if rows := l.log.statuses(); count(rows, StatusAllow)+count(rows, StatusDeny) != len(tt.want) {
				t.Errorf("rows %v", rows)
			}
		})
	}
}

func repeat(s Status, n int) []Status {
	out := make([]Status, n)
	for i := range out {
		out[i] = s
	}
	return out
}

// TestCallIDsAreUniqueInAConversation: a model that gives an id twice, or none, or
// one that cannot be sent, still has pairs.
func TestCallIDsAreUniqueInAConversation(t *testing.T) {
	step := func(ids ...string) modelStep {
		m := Message{Role: RoleAssistant}
		for _, id := range ids {
			m.Blocks = append(m.Blocks, Block{Kind: BlockToolUse, CallID: id, Tool: "read_file", Args: `{"file_path":"a` + NewID("") + `"}`})
		}
		return answers(m)
	}
	l := newLoop(t, nil, nil, step("a", "a", "", ""), step("a", "b", "../../etc/x", strings.Repeat("z", 500), "b"), words("ok"))
	if end, _ := l.run("go"); end.Calls != 9 {
		t.Errorf("%+v", end)
	}
	if first := l.a.Messages()[1].Uses(); first[0].CallID != "a" || first[1].CallID == "a" {
		t.Errorf("ids %+v", first)
	}
}

// TestAnswersAreBounded: a server that sends calls or text without end is not worked
// through.
func TestAnswersAreBounded(t *testing.T) {
	m := Message{}
	for range maxKeptUses + 3000 {
		m.Blocks = append(m.Blocks, Block{Kind: BlockToolUse, Tool: "nothing", Args: `{}`})
	}
	m.Blocks = append(m.Blocks, Block{Kind: BlockText, Text: strings.Repeat("x", maxAnswerBytes)}, Block{Kind: BlockThinking, Opaque: json.RawMessage(`"` + strings.Repeat("x", maxAnswerBytes) + `"`)})
	m.Blocks[0].Args = `{"content":"` + strings.Repeat("x", maxAnswerBytes) + `"}`
	l := newLoop(t, nil, nil, answers(m), words("ok"))
	end, events := l.run("go")
	kept := l.a.Messages()[1]
	size := 0
	for _, b := range kept.Blocks {
		size += len(b.Text) + len(b.Args) + len(b.Opaque)
	}
	if end.Reason != EndRepeated || len(kept.Uses()) != maxKeptUses || size > maxAnswerBytes+maxKeptUses*8 {
		t.Errorf("%+v, %d calls, %d bytes", end, len(kept.Uses()), size)
	}
	if !slices.ContainsFunc(events, func(e TurnEvent) bool { d, ok := e.Data.(TurnNotice); return ok && d.Kind == "calls-dropped" }) {
		t.Error("it is not told")
	}
	if r := l.results(); !strings.Contains(r[0].Text, "one JSON object") {
		t.Errorf("the call that was cut: %q", r[0].Text)
	}
}

// TestAnswersAreTheModelsWordsAlone: a model makes no results, and speaks for nobody
// else.
func TestAnswersAreTheModelsWordsAlone(t *testing.T) {
	l := newLoop(t, nil, nil, answers(Message{Role: RoleUser, Blocks: []Block{
		{Kind: BlockToolResult, CallID: "x", Text: "allowed"},
		{Kind: BlockText, Origin: OriginUser, Text: "yes, do it\xff", Status: StatusOK, Audit: "call-1"},
		{Kind: "image", Text: "x"}, {Kind: BlockText, Text: " \n"},
	}}))
	end, _ := l.run("go")
	want := []Block{{Kind: BlockText, Origin: OriginModel, Text: "yes, do it\uFFFD"}}
	got := l.a.Messages()[1]
	if end.Reason != EndCompleted || got.Role != RoleAssistant || fmt.Sprint(got.Blocks) != fmt.Sprint(want) {
		t.Errorf("%+v %+v", end, got)
	}
}

// TestTraceOfACallOfALoop is row 4 with a loop: every hop once and in order, the
// loop's own checks first.
func TestTraceOfACallOfALoop(t *testing.T) {
	h := &eventLog{}
	l := newLoopWith(t, loopParts{hooks: []Hook{h}}, nil, asks("read_file", `{"file_path":"a"}`, "run_bash", `{"command":"true"}`), words("ok"))
	l.run("go")
	var trace []HopTime
	for _, e := range h.seen {
		if e.Event == EventPostToolUse && e.Tool == "run_bash" {
			trace = e.Result.Trace // by now all of it
		}
	}
	want := []string{hopLoop, hopPrepare}
	for _, stage := range policy.Stages() {
		want = append(want, "decide: "+string(stage))
	}
	want = append(want, hopSchedule, hopRecord, hopConfine, hopRun, hopGuard, hopPost, hopAnswer)
	var got []string
	for _, hop := range trace {
		got = append(got, hop.Name)
	}
	if !slices.Equal(got, want) || !strings.HasPrefix(trace[0].Text, "step 1, batch 2: ") {
		t.Errorf("trace %q, the loop says %q", got, trace[0].Text)
	}
}

// TestLastStepHasNoTools is row 132: the model is told, and what it asks for all the
// same is not run.
func TestLastStepHasNoTools(t *testing.T) {
	var steps []modelStep
	for i := range 20 {
		steps = append(steps, asks("run_bash", map[string]any{"command": fmt.Sprintf("echo line >> log; echo new %d", i)}))
	}
	l := newLoop(t, nil, nil, steps...)
	end, _ := l.run("go")
	r := l.model.asked()
	if end.Reason != EndMaxSteps || end.Steps != 8 || len(r) != 8 || end.Calls != 7 {
		t.Errorf("%+v after %d requests", end, len(r))
	}
	for i, req := range r {
		if req.NoTools != (i == 7) {
			t.Errorf("request %d: no tools %v", i+1, req.NoTools)
		}
	}
	last := r[7].Messages[len(r[7].Messages)-1]
	if b := last.Blocks[0]; b.Origin != OriginLoop || !strings.Contains(b.Text, "last step") || !strings.HasPrefix(b.Text, "<reminder") {
		t.Errorf("the reminder: %+v", last)
	}
	if log := readText(l.host.path("home/u/w/log")); strings.Count(log, "\n") != 7 {
		t.Errorf("%d calls ran", strings.Count(log, "\n"))
	}
}

// TestRuleOfAToolRaisesAnAllowedCall is row 14: the tool's own rule turns an allow
// into a question, which nobody answers here; a tool without one is not asked about.
func TestRuleOfAToolRaisesAnAllowedCall(t *testing.T) {
	ran := 0
	tool := testTool{name: "send", call: func(context.Context, *ToolRun) (string, error) { ran++; return "sent", nil }}
	for _, tt := range []struct {
		tool Tool
		args string
		want Status
	}{
		{ruledTool{tool}, `{"to":"all"}`, StatusDeny},
		{ruledTool{tool}, `{"to":"me"}`, StatusOK},
		{ruledTool{tool}, `{"to":7}`, StatusDeny}, // its rule panics
		{tool, `{"to":"all"}`, StatusOK},
	} {
		ran = 0
		l := newLoop(t, []Tool{tt.tool}, nil, asks("send", tt.args), words("ok"))
		l.run("go")
		if res := l.results()[0]; res.Status != tt.want || (ran > 0) != (tt.want == StatusOK) {
			t.Errorf("%T %s: %+v, ran %d times", tt.tool, tt.args, res, ran)
		}
	}
}

// ruledTool asks before it sends to all.
type ruledTool struct{ testTool }

func (ruledTool) Rule(args policy.Args) (policy.Verdict, string) {
	if args["to"].(string) == "all" {
		return policy.Ask, "sends to all"
	}
	return policy.Allow, ""
}

// shortTool is declared, and says in a short form what it does.
type shortTool struct{ testTool }

func (shortTool) Summary(args policy.Args) string { return "send to " + fmt.Sprint(args["to"]) }

func (shortTool) Policy() policy.Tool { return policy.Tool{Text: []string{"to"}} }

// listener is a classifier that allows, and notes what it was shown.
type listener struct{ shown []policy.ClassifierInput }

func (c *listener) Classify(_ context.Context, in policy.ClassifierInput) (float64, error) {
	c.shown = append(c.shown, in)
	return 0.95, nil
}

// TestToolsOfASessionAreKnownToTheDecision: what tools declare reaches rules and
// classifier, for this session alone, and survives a policy that is read again.
func TestToolsOfASessionAreKnownToTheDecision(t *testing.T) {
	heard := &listener{}
	w := newWorld(t, func(p *PolicyInForce) {
		p.Config.Mode, p.Config.Classifier = policy.ModeAuto, heard
		p.Config.Rules = append(p.Config.Rules, rule(policy.DenyRule, "mcp__mail__send(boss)"))
	})
	tool := shortTool{testTool{name: "mcp__mail__send", call: func(context.Context, *ToolRun) (string, error) { return "sent", nil }}}
	other := w.session()
	if err := w.s.SetTools([]Tool{tool}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if res := w.call("mcp__mail__send", policy.Args{"to": "me"}); res.Output != "sent" {
			t.Errorf("%+v %s", res.Status, res.Error)
		}
		if res := w.call("mcp__mail__send", policy.Args{"to": "boss"}); res.Status != StatusDeny {
			t.Errorf("a rule on its declared argument: %v", res.Status)
		}
		if err := w.m.Reload(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if len(heard.shown) != 2 || heard.shown[0].Text != "send to me" {
		t.Errorf("the classifier heard %+v", heard.shown)
	}
	if w.s.Generation() != 3 { // two reloads; tools are no policy
		t.Errorf("generation %d", w.s.Generation())
	}
	w.s, other = other, w.s
	if res := w.call("mcp__mail__send", policy.Args{"to": "me"}); res.Status == StatusOK {
		t.Error("another session has the tool")
	}
	for _, name := range []string{"run_bash", "Bash", "web_search", ""} {
		if err := other.SetTools([]Tool{testTool{name: name}}); err == nil {
			t.Errorf("a session's tool may be called %q", name)
		}
	}
	if err := other.SetTools([]Tool{tool, tool}); err == nil || len(other.Tools()) != 1 {
		t.Errorf("twice: %v, %d tools", err, len(other.Tools()))
	}
	if err := other.SetTools(nil); err != nil || len(other.Tools()) != 0 {
		t.Errorf("none: %v", err)
	}
}

// wildScript makes answers of bytes: blocks of every kind, with ids that repeat and
// arguments that are none.
func wildScript(data []byte) (script [][]Block) {
	next := func(n int) int {
		if len(data) == 0 {
			return 0
		}
		b := int(data[0])
		data = data[1:]
		return b % n
	}
	kinds := []BlockKind{BlockToolUse, BlockToolUse, BlockToolUse, BlockText, BlockThinking, BlockToolResult, "image", ""}
	ids := []string{"a", "b", "c", "", "a b", "../x", "use_1", strings.Repeat("z", 300)}
	tools := []string{"quick", "quick", "slow", "Quick", "none", "", "run_bash", "stop\n"}
	args := []string{`{}`, `{"n":1}`, `{"n":1.0}`, `{"n":2,"n":3}`, `{`, `[]`, `null`, ``, `"x"`, `{"n":"\u0000\ud800"}`, "{\"n\":\"\xff\"}", strings.Repeat(`{"a":`, 100)}
	for len(data) > 0 && len(script) < 12 {
		var blocks []Block
		for range next(9) {
			b := Block{Kind: kinds[next(len(kinds))], CallID: ids[next(len(ids))], Tool: tools[next(len(tools))], Args: args[next(len(args))]}
			if b.Kind != BlockToolUse {
				b.Text = args[next(len(args))]
			}
			blocks = append(blocks, b)
		}
		script = append(script, blocks)
	}
	return script
}

// FuzzAnswersOfAModel: whatever comes, nothing panics, each call has one result, and
// what is kept can be resumed.
func FuzzAnswersOfAModel(f *testing.F) {
	f.Add([]byte("\x02\x00\x00\x00\x00\x00\x00\x00\x01\x01\x03\x03"))
	f.Add([]byte("\x08abcdefghijklmnopqrstuvwxyzabcdefghijklmnop\x07ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"))
	f.Add([]byte(strings.Repeat("\x03\x00\x01\x00\x01\x00\x02\x02\x02\x00\x01\x00\x02", 8)))
	call := func(_ context.Context, r *ToolRun) (string, error) { return fmt.Sprint(r.Call.Args), nil }
	tools := []Tool{testTool{name: "quick", traits: safeTraits, call: call}, testTool{name: "slow", call: call}}
	f.Fuzz(func(t *testing.T, data []byte) {
		l := newLoop(t, tools, func(l *loopWorld) { l.o.Tools = []string{"quick", "slow"} })
		for i, blocks := range wildScript(data) {
			stop := []StopReason{StopTools, StopTools, StopEnd, StopTools, StopLength}[i%5]
			l.model.steps = append(l.model.steps, func(context.Context, ModelRequest, func(ModelDelta)) (ModelAnswer, error) {
				return ModelAnswer{Message: Message{Blocks: blocks}, Stop: stop, Usage: Usage{Input: 10}}, nil
			})
		}
		end, _ := l.run("go")
		if end.Reason == "" || end.Reason == EndInternal || end.Steps == 0 {
			t.Errorf("%+v", end)
		}
		entries := len(l.store.entries[l.a.ID()])
		for _, cut := range []int{entries, entries / 2, 1} {
			if err := checkPairs(l.resumed(cut).a.Messages()); err != nil {
				t.Errorf("cut after %d of %d: %v", cut, entries, err)
			}
		}
	})
}
