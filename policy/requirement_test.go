package policy

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
)

// The tests here belong to single rows of docs/requirements.md that no other
// test states as a whole.

// TestEachLayerStopsItsAttackAlone is row 1: with every other layer open, one
// layer stops the attack that is its own, and lets the neighbour pass.
func TestEachLayerStopsItsAttackAlone(t *testing.T) {
	_, cfg := place(t)
	cfg.Default, cfg.Mode, cfg.Bypass.EnabledAtStart = Allow, ModeBypass, true
	cfg.Confinement, cfg.AllowConfined = FullyConfined, true
	person := &asker{answer: Answer{Verdict: Deny}}
	cfg.Askers = []Asker{person}
	for _, tt := range []struct {
		layer           string
		change          func(*Config)
		attack, through Call
		reason          string
	}{
		{"the tool's own rule", func(c *Config) {
			c.ToolRules = map[string]ToolRule{"save_memory": func(a Args) (Verdict, string) {
				if a["key"] == "identity" {
					return Ask, "memory of who one is"
				}
				return Allow, ""
			}}
		}, Call{Tool: "save_memory", Args: Args{"key": "identity"}}, Call{Tool: "save_memory", Args: Args{"key": "lunch"}}, "user"},
		{"rules", func(c *Config) { c.Rules = []Rule{deny("run_bash(npm publish*)")} }, BashCall("npm publish", ""), BashCall("npm test", ""), "rule"},
		{"hooks", func(c *Config) {
			c.Hooks = []Hook{hookFunc(func(c Call) HookResult {
				if strings.Contains(c.Args["command"].(string), "deploy") {
					return HookResult{Action: HookBlock, Reason: "not today"}
				}
				return HookResult{Action: HookContinue}
			})}
		}, BashCall("make deploy", ""), BashCall("make test", ""), "hook"},
		{"paths", nil, write("../out"), write("src/in"), "user"},
		{"Bash", nil, BashCall(`$(cat plan) x`, ""), BashCall("make x", ""), "user"},
	} {
		c := cfg
		if tt.change != nil {
			tt.change(&c)
		}
		e := engine(t, c)
		if d := e.Decide(t.Context(), tt.attack); d.Verdict != Deny || d.Reason.Type() != tt.reason {
			t.Errorf("%s: the attack is %v by %v, want deny by %s", tt.layer, d.Verdict, d.Reason, tt.reason)
		}
		if d := e.Decide(t.Context(), tt.through); d.Verdict != Allow {
			t.Errorf("%s: the neighbour is %v by %v", tt.layer, d.Verdict, d.Reason)
		}
	}
	// The layer of limits: a loop that runs against a wall.
	var tracker DenialTracker
	tracker.Record(Deny)
	tracker.Record(Deny)
	if tracker.Record(Deny) == "" {
		t.Error("limits: three denials in a row did not end the loop")
	}
}

type hookFunc func(Call) HookResult

func (hookFunc) Name() string            { return "f" }
func (hookFunc) ContinueOnFailure() bool { return false }
func (f hookFunc) PreToolUse(_ context.Context, c Call) (HookResult, error) {
	return f(c), nil
}

// TestEveryDecisionLayerCanStopACall is row 2: rules, mode, hooks, classifier
// and user can each stop a call, and the trace marks the one that did.
func TestEveryDecisionLayerCanStopACall(t *testing.T) {
	_, cfg := place(t)
	search := Call{Tool: "web_search", Args: Args{"query": "x"}}
	for _, tt := range []struct {
		name   string
		change func(*Config)
		stage  StageName
	}{
		{"rules", func(c *Config) { c.Rules = []Rule{deny("web_search")} }, StageDeny},
		{"mode", func(c *Config) { c.Mode = ModeDontAsk }, StageTransform},
		{"hooks", func(c *Config) { c.Hooks = []Hook{&hook{name: "h"}} }, StageHooks},
		{"classifier", func(c *Config) { c.Mode, c.Classifier = ModeAuto, &scores{list: []float64{0}} }, StageClassifier},
		{"user", func(c *Config) { c.Askers = []Asker{&asker{answer: Answer{Verdict: Deny}}} }, StagePerson},
	} {
		c := cfg
		tt.change(&c)
		d := engine(t, c).Decide(t.Context(), search)
		var decided []StageName
		for _, s := range d.Trace {
			if s.Result == StageDecided {
				decided = append(decided, s.Name)
			}
		}
		if d.Verdict != Deny || !slices.Equal(decided, []StageName{tt.stage}) {
			t.Errorf("%s: %v by %v, decided by stages %v, want %s alone", tt.name, d.Verdict, d.Reason, decided, tt.stage)
		}
	}
	// Their order: deny rules and hooks, the floor, the mode, the classifier, the person.
	order := Stages()
	last := -1
	for _, name := range []StageName{StageDeny, StageHooks, StageSafety, StageAskRules, StageAllowRules, StageMode, StageClassifier, StageTransform, StagePerson} {
		at := slices.Index(order, name)
		if at <= last {
			t.Errorf("stage %s stands at %d, behind %d is wanted", name, at, last)
		}
		last = at
	}
}

// TestReferencePipelineIsInTheTrace is row 7: each step of the reference is a
// stage that can be seen in the trace with what it said.
func TestReferencePipelineIsInTheTrace(t *testing.T) {
	_, cfg := place(t)
	cfg.Mode, cfg.Bypass.EnabledAtStart = ModeBypass, true
	objects := map[string]ToolRule{"run_bash": func(Args) (Verdict, string) { return Ask, "needs a person" }}
	for _, tt := range []struct {
		step   string
		change func(*Config)
		call   Call
		stage  StageName
		said   Verdict
		end    Verdict
	}{
		{"1a deny rule on the tool", func(c *Config) { c.Rules = []Rule{deny("Bash")} }, BashCall("make", ""), StageDeny, Deny, Deny},
		{"1b ask rule on the tool", func(c *Config) { c.Rules = []Rule{ask("Bash")} }, BashCall("make", ""), StageAskRules, Ask, Ask},
		{"1c the tool's own check", func(c *Config) { c.ToolRules = objects }, BashCall("make", ""), StageTool, Ask, Ask},
		{"1d what no tool can do", nil, BashCall("  ", ""), StageSafety, Deny, Deny},
		{"1e a tool that needs a person, whatever is allowed", func(c *Config) { c.ToolRules, c.Rules = objects, []Rule{allow("Bash")} }, BashCall("make", ""), StageTool, Ask, Ask},
		{"1f ask rule on the content", func(c *Config) { c.Rules = []Rule{ask("Bash(make *)"), allow("Bash")} }, BashCall("make x", ""), StageAskRules, Ask, Ask},
		{"1g safety check", nil, write(".git/hooks/x"), StageSafety, Ask, Ask},
		{"2a the mode", nil, write("src/a"), StageMode, Allow, Allow},
		{"2b allow rule", func(c *Config) { c.Mode, c.Rules = ModeDefault, []Rule{allow("Write")} }, write("src/a"), StageAllowRules, Allow, Allow},
		{"3 what is left asks", func(c *Config) { c.Mode = ModeDefault }, write("src/a"), StageDefault, Ask, Ask},
	} {
		c := cfg
		if tt.change != nil {
			tt.change(&c)
		}
		d := engine(t, c).Check(t.Context(), tt.call)
		s := stage(d, tt.stage)
		if s.Reason == nil || s.Verdict != tt.said || d.Verdict != tt.end {
			t.Errorf("%s: stage %s said %v (%v), the end is %v by %v; want %v and %v", tt.step, tt.stage, s.Verdict, s.Reason, d.Verdict, d.Reason, tt.said, tt.end)
		}
	}
}

// TestKindsOfRules is row 21: what each kind does and tells.
func TestKindsOfRules(t *testing.T) {
	_, cfg := place(t)
	e := engine(t, cfg,
		Rule{Kind: DenyRule, Pattern: "Write(no)", Reason: "keys live there"},
		Rule{Kind: AskRule, Pattern: "Write(maybe)", Reason: "r", Message: "is this the right place?"},
		Rule{Kind: AllowRule, Pattern: "Write(yes)", Reason: "scratch"})
	for _, tt := range []struct {
		path string
		want Verdict
		text string
	}{{"no", Deny, "keys live there"}, {"maybe", Ask, "is this the right place?"}, {"yes", Allow, "scratch"}} {
		d := e.Check(t.Context(), write(tt.path))
		r, ok := d.Reason.(RuleReason)
		if d.Verdict != tt.want || !ok || r.Text != tt.text || Verdict(r.Kind) != tt.want {
			t.Errorf("%s: %v by %v, want %v with %q", tt.path, d.Verdict, d.Reason, tt.want, tt.text)
		}
	}
}

// TestDenyEverythingReachesEveryTool is row 25.
func TestDenyEverythingReachesEveryTool(t *testing.T) {
	_, cfg := place(t)
	cfg.Default = Allow
	open, closed := engine(t, cfg), engine(t, cfg, deny("*"), allow("Read"), allow("mcp__s"))
	calls := []Call{BashCall("ls", ""), read("src/a"), write("src/a"), {Tool: "mcp__s__t", Args: Args{}}, {Tool: "Task", Args: Args{"subagent_type": "Explore"}}, {Tool: "heard_of_never", Args: Args{}}}
	for i := range builtinTools {
		calls = append(calls, Call{Tool: builtinTools[i].Name, Args: Args{}})
	}
	for _, c := range calls {
		if d := closed.Check(t.Context(), c); d.Verdict != Deny || d.Reason.Type() != "rule" {
			t.Errorf("%s: %v by %v", c.Tool, d.Verdict, d.Reason)
		}
	}
	if d := open.Check(t.Context(), calls[0]); d.Verdict != Allow {
		t.Errorf("without the rule: %v by %v", d.Verdict, d.Reason)
	}
}

// TestPatternForms is rows 27 to 31 and 33 to 35: the forms of a pattern, each
// with what it must and must not match.
func TestPatternForms(t *testing.T) {
	mcp := func(name string, args Args) Call { return Call{Tool: name, Args: args} }
	for _, tt := range []struct {
		pattern  string
		match    []Call
		notMatch []Call
	}{
		{"run_bash", []Call{BashCall("ls", ""), {Tool: "Bash", Args: Args{"command": "x"}}}, []Call{read("a"), mcp("run_bash_x", nil)}},
		{"run_bash(rm *)", []Call{BashCall("rm -rf x", ""), BashCall("cd a && rm x", ""), BashCall("ls; (rm x)", "")}, []Call{BashCall("rm", ""), BashCall("rmdir x", ""), BashCall("echo rm x", "")}},
		{"run_bash(git push*)", []Call{BashCall("git push", ""), BashCall("git push o", "")}, []Call{BashCall("git pull o", ""), BashCall("git", "")}},
		{"read_file(*.env)", []Call{read(".env"), read("a/b.env")}, []Call{read("a.envx"), read("env")}},
		{"run_bash(* --force)", []Call{BashCall("git push --force", "")}, []Call{BashCall("gut push --forcex", ""), BashCall("echo a --for", "")}},
		{"run_bash(npm install)", []Call{BashCall("npm install", "")}, []Call{BashCall("npm install x", ""), BashCall("xnpm install", ""), BashCall("npm installx", "")}},
		{"run_bash(*prod*)", []Call{BashCall("deploy --to=prod-1", "")}, []Call{BashCall("deploy --to=test", "")}},
		{"*(sudo *)", []Call{BashCall("sudo x", ""), mcp("mcp__sh__exec", Args{"command": "sudo x"})}, []Call{BashCall("echo sudo x", ""), mcp("mcp__sh__exec", Args{"command": "ls"})}},
		{"File*", []Call{mcp("FileThing", nil), mcp("File", nil)}, []Call{mcp("AFile", nil), read("a")}},
		{"Bash(npm install)", []Call{BashCall("npm install", "")}, []Call{BashCall("npm install x", "")}},
		{"Bash(npm *)", []Call{BashCall("npm run x", "")}, []Call{BashCall("npx run x", "")}},
		{"Bash(rm:*)", []Call{BashCall("rm", ""), BashCall("rm x", "")}, []Call{BashCall("rmdir x", "")}},
		{"Read(.env)", []Call{read(".env"), read("a/.env")}, []Call{read(".env.x"), write(".env")}},
		{"mcp__server__tool", []Call{mcp("mcp__server__tool", nil)}, []Call{mcp("mcp__server__tools", nil), mcp("mcp__server2__tool", nil)}},
		{"mcp__server", []Call{mcp("mcp__server__tool", nil), mcp("mcp__server__x", nil)}, []Call{mcp("mcp__server2__tool", nil)}},
		{"Agent(Explore)", []Call{mcp("Task", Args{"subagent_type": "Explore"})}, []Call{mcp("Task", Args{"subagent_type": "Plan"})}},
		{`run_bash(re:^git\s+push\b)`, []Call{BashCall("git push o", ""), BashCall("ls; git push", "")}, []Call{BashCall("git pushx", ""), BashCall("xgit push", "")}},
	} {
		s := mustRules(t, deny(tt.pattern))
		for want, calls := range map[bool][]Call{true: tt.match, false: tt.notMatch} {
			for _, c := range calls {
				if v, _, found := s.Check(c); (found && v == Deny) != want {
					t.Errorf("deny %s on %s %v: %v, want %v", tt.pattern, c.Tool, c.Args, !want, want)
				}
			}
		}
		if c := countCheck(Lint([]Rule{deny(tt.pattern)}, LintOptions{Base: Base{Workspace: "/w"}}), CheckDead); c > 0 {
			t.Errorf("lint calls %s dead", tt.pattern)
		}
	}
}

// TestRegexpRules is row 35: RE2 only, an allow rule matches the whole text, and
// the time of a match is bounded.
func TestRegexpRules(t *testing.T) {
	s := mustRules(t, allow("run_bash(re:ls|make [a-z]+)"))
	for script, want := range map[string]Verdict{"ls": Allow, "make all": Allow, "rm ls": Ask, "ls x": Ask, "make all x": Ask, "make all; rm x": Ask} {
		if v, _, _ := s.Check(BashCall(script, "")); v != want {
			t.Errorf("allow re: on %q: %v, want %v", script, v, want)
		}
	}
	for _, p := range []string{`run_bash(re:(a)\1)`, `run_bash(re:(?=x)y)`, `run_bash(re:()`} {
		_, err := NewRuleSet([]Rule{deny(p)}, Base{})
		if _, ok := errors.AsType[*RuleError](err); !ok {
			t.Errorf("%s: %v, want a *RuleError", p, err)
		}
	}
	// Without backtracking, and with a bound on the text, this takes no time.
	bad := mustRules(t, deny(`run_bash(re:(a+)+b$)`))
	start := cpuTime(t)
	bad.Check(BashCall("x "+strings.Repeat("a", 50_000), ""))
	if took := cpuTime(t) - start; took > 2*time.Second {
		t.Errorf("a nested repetition took %v", took)
	}
	long := "x " + strings.Repeat("a", maxRegexpText)
	for _, tt := range []struct {
		rule Rule
		want Verdict
	}{{deny("run_bash(re:z)"), Deny}, {allow("run_bash(re:.*)"), Ask}} {
		if v, _, _ := mustRules(t, tt.rule).Check(BashCall(long, "")); v != tt.want {
			t.Errorf("%v %s on a text beyond the bound: %v, want %v", tt.rule.Kind, tt.rule.Pattern, v, tt.want)
		}
	}
}

// TestContentOfArguments is row 32: where the content of a call is looked for,
// and that content in a field of unknown meaning is reported.
func TestContentOfArguments(t *testing.T) {
	_, cfg := place(t)
	cfg.Default = Allow
	e := engine(t, cfg, deny("*(*canary*)"))
	for _, field := range []string{"command", "file_path", "path", "pattern", "url"} {
		text := "canary"
		if field == "url" {
			text = "https://canary.test/"
		}
		for _, tool := range []string{"mcp__s__t", "unheard_of"} {
			d := e.Check(t.Context(), Call{Tool: tool, Args: Args{field: text}})
			if d.Verdict != Deny || len(d.Unmatched) > 0 {
				t.Errorf("%s, field %s: %v by %v, unmatched %v", tool, field, d.Verdict, d.Reason, d.Unmatched)
			}
		}
	}
	d := e.Check(t.Context(), Call{Tool: "mcp__s__t", Args: Args{"program": "rm x"}})
	if d.Verdict == Allow || !slices.Equal(d.Unmatched, []string{"program"}) {
		t.Errorf("a command in a field of unknown meaning: %v by %v, unmatched %v", d.Verdict, d.Reason, d.Unmatched)
	}
}

// TestModeChangesForTheNextCall is row 44: the next call, and a call that waited.
func TestModeChangesForTheNextCall(t *testing.T) {
	_, cfg := place(t)
	e := engine(t, cfg)
	queued := write("src/a")
	for _, tt := range []struct {
		mode Mode
		want Verdict
	}{{ModeDefault, Ask}, {ModeAcceptEdits, Allow}, {ModeDontAsk, Deny}, {ModeDefault, Ask}} {
		if err := e.SetMode(tt.mode); err != nil {
			t.Fatal(err)
		}
		if d := e.Check(t.Context(), queued); d.Verdict != tt.want || d.Mode != tt.mode || e.Mode() != tt.mode {
			t.Errorf("mode %v: %v in mode %v, want %v", tt.mode, d.Verdict, d.Mode, tt.want)
		}
	}
}

// TestReasonVariantsOfDecisions is row 46: the five variants of the document,
// each from a decision that has it.
func TestReasonVariantsOfDecisions(t *testing.T) {
	_, cfg := place(t)
	search := Call{Tool: "web_search", Args: Args{"query": "x"}}
	for _, tt := range []struct {
		change func(*Config)
		want   string
	}{
		{func(c *Config) {
			c.Rules = []Rule{{Kind: AllowRule, Pattern: "web_search", Source: Source{Kind: SourceUser, File: "p.toml", Line: 3}}}
		}, `{"type":"rule","kind":"allow","source":"user","pattern":"web_search","file":"p.toml","line":3}`},
		{func(c *Config) { c.Mode, c.Bypass.EnabledAtStart = ModeBypass, true }, `{"type":"mode","mode":"bypassPermissions"}`},
		{func(c *Config) { c.Hooks = []Hook{&hook{name: "guard", result: HookResult{Reason: "no"}}} }, `{"type":"hook","name":"guard","text":"no"}`},
		{func(c *Config) { c.Mode, c.Classifier = ModeAuto, &scores{list: []float64{0.9}} }, `{"type":"classifier","score":0.9}`},
		{func(c *Config) { c.Askers = []Asker{&asker{answer: Answer{Verdict: Allow, By: "me"}}} }, `{"type":"user","temporary":true,"by":"me","asked":{"type":"default"}}`},
	} {
		c := cfg
		tt.change(&c)
		d := engine(t, c).Decide(t.Context(), search)
		if got, err := ReasonJSON(d.Reason); err != nil || string(got) != tt.want {
			t.Errorf("%s, %v; want %s", got, err, tt.want)
		}
	}
}
