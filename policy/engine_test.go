package policy

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// place is a workspace with a few files, and a configuration for it.
func place(t testing.TB) (dir string, cfg Config) {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	dir = filepath.Join(root, "w")
	for _, d := range []string{".git/hooks", "src"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(filepath.Join(root, "home"), 0o755); err != nil {
		t.Fatal(err)
	}
	return dir, Config{Workspace: dir, Home: filepath.Join(root, "home"), Default: Ask}
}

func engine(t testing.TB, cfg Config, rules ...Rule) *Engine {
	t.Helper()
	cfg.Rules = append(cfg.Rules, rules...)
	e, err := NewEngine(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func deny(p string) Rule  { return Rule{Kind: DenyRule, Pattern: p} }
func ask(p string) Rule   { return Rule{Kind: AskRule, Pattern: p} }
func allow(p string) Rule { return Rule{Kind: AllowRule, Pattern: p} }

func write(p string) Call { return Call{Tool: "Write", Args: Args{"file_path": p, "content": "x"}} }
func read(p string) Call  { return Call{Tool: "Read", Args: Args{"file_path": p}} }

// asker is a person with a fixed answer.
type asker struct {
	answer Answer
	err    error
	wait   time.Duration
	asked  int
	told   bool
	saw    Question
}

func (a *asker) Ask(ctx context.Context, q Question) (Answer, error) {
	a.asked++
	a.saw = q
	select {
	case <-time.After(a.wait):
		return a.answer, a.err
	case <-ctx.Done():
		a.told = true
		return Answer{}, ctx.Err()
	}
}

// hook is a PreToolUse hook with a fixed answer.
type hook struct {
	name     string
	result   HookResult
	err      error
	goOn     bool
	ran      int
	lastArgs Args
}

func (h *hook) Name() string            { return h.name }
func (h *hook) ContinueOnFailure() bool { return h.goOn }
func (h *hook) PreToolUse(_ context.Context, c Call) (HookResult, error) {
	h.ran++
	h.lastArgs = c.Args
	return h.result, h.err
}

// scores is a classifier that returns one score after the other.
type scores struct {
	list  []float64
	err   error
	wait  time.Duration
	asked int
	saw   ClassifierInput
}

func (s *scores) Classify(ctx context.Context, in ClassifierInput) (float64, error) {
	s.saw = in
	i := s.asked
	s.asked++
	select {
	case <-time.After(s.wait):
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	if s.err != nil {
		return 0, s.err
	}
	return s.list[min(i, len(s.list)-1)], nil
}

func TestFileToolsByMode(t *testing.T) {
	dir, cfg := place(t)
	out := filepath.Join(filepath.Dir(dir), "out")
	cfg.Bypass.EnabledAtStart = true
	const none = Verdict(9)
	for _, tt := range []struct {
		mode                                               Mode
		readIn, readOut, writeIn, writeOut, writeProtected Verdict
	}{
		{ModeDefault, Allow, Ask, Ask, Ask, Ask},
		{ModeAcceptEdits, Allow, Allow, Allow, Ask, Ask},
		{ModeBypass, Allow, Allow, Allow, Ask, Ask},
		{ModeDontAsk, Allow, Deny, Deny, Deny, Deny},
		{ModePlan, Allow, Allow, Ask, Ask, Ask},
		{ModeAuto, Allow, Ask, Allow, Ask, Ask},
		{ModeBubble, Allow, Ask, Ask, Ask, Ask},
	} {
		cfg.Mode = tt.mode
		e := engine(t, cfg)
		for _, c := range []struct {
			name string
			call Call
			want Verdict
		}{
			{"read inside", read("src/a"), tt.readIn},
			{"read outside", read(out), tt.readOut},
			{"write inside", write("src/a"), tt.writeIn},
			{"write outside", write(out), tt.writeOut},
			{"write a git hook", write(".git/hooks/pre-commit"), tt.writeProtected},
		} {
			if c.want == none {
				continue
			}
			if d := e.Check(t.Context(), c.call); d.Verdict != c.want {
				t.Errorf("mode %v, %s: %v (%v), want %v", tt.mode, c.name, d.Verdict, d.Reason, c.want)
			}
		}
	}
}

func TestNoModeLiftsDenyRuleOrFloor(t *testing.T) {
	dir, cfg := place(t)
	cfg.Bypass.EnabledAtStart = true
	cfg.Default, cfg.AllowConfined, cfg.Confinement = Allow, true, FullyConfined
	for _, mode := range Modes() {
		cfg.Mode = mode
		e := engine(t, cfg, deny("file_write(secret)"), ask("file_write(careful)"), allow("file_write"), allow("file_write(/**)"))
		for _, tt := range []struct {
			path  string
			limit Verdict
		}{
			{"secret", Deny}, {"careful", Ask}, {".git/hooks/x", Ask}, {dir + "/../x", Ask}, {"/etc/passwd", Ask},
		} {
			if d := e.Check(t.Context(), write(tt.path)); d.Verdict > tt.limit {
				t.Errorf("mode %v: write %s is %v (%v), at most %v", mode, tt.path, d.Verdict, d.Reason, tt.limit)
			}
		}
		if mode == ModePlan || mode == ModeDontAsk {
			continue
		}
		if d := e.Check(t.Context(), write("src/ok")); d.Verdict != Allow {
			t.Errorf("mode %v: write src/ok is %v (%v), want allow", mode, d.Verdict, d.Reason)
		}
	}
}

func TestBypassMustBeEnabledPermittedAndConfinedForRoot(t *testing.T) {
	_, cfg := place(t)
	cfg.Mode = ModeBypass
	for _, tt := range []struct {
		name   string
		change func(*Config)
		ok     bool
	}{
		{"not enabled", func(*Config) {}, false},
		{"enabled", func(c *Config) { c.Bypass.EnabledAtStart = true }, true},
		{"forbidden", func(c *Config) { c.Bypass = Bypass{EnabledAtStart: true, Forbidden: true} }, false},
		{"root", func(c *Config) { c.Bypass.EnabledAtStart, c.AsRoot = true, true }, false},
		{"root, partly confined", func(c *Config) {
			c.Bypass.EnabledAtStart, c.AsRoot, c.Confinement = true, true, PartlyConfined
		}, false},
		{"root, confined", func(c *Config) { c.Bypass.EnabledAtStart, c.AsRoot, c.Confinement = true, true, FullyConfined }, true},
	} {
		c := cfg
		tt.change(&c)
		_, err := NewEngine(c)
		if (err == nil) != tt.ok || err != nil && !errors.Is(err, ErrModeRefused) {
			t.Errorf("%s: NewEngine: %v", tt.name, err)
		}
		c.Mode = ModeDefault
		e := engine(t, c)
		if err := e.SetMode(ModeBypass); (err == nil) != tt.ok {
			t.Errorf("%s: SetMode: %v", tt.name, err)
		}
	}
}

func TestDeniedCallStartsNoHook(t *testing.T) {
	_, cfg := place(t)
	h := &hook{name: "h", result: HookResult{Action: HookContinue}}
	cfg.Hooks = []Hook{h}
	e := engine(t, cfg, deny("file_write(secret)"))
	if d := e.Decide(t.Context(), write("secret")); d.Verdict != Deny || h.ran != 0 {
		t.Errorf("verdict %v, hook ran %d times", d.Verdict, h.ran)
	}
	e.Decide(t.Context(), write("other"))
	if h.ran != 1 {
		t.Errorf("hook ran %d times on a call that is not denied", h.ran)
	}
}

func TestHooks(t *testing.T) {
	_, cfg := place(t)
	yes := &asker{answer: Answer{Verdict: Allow, By: "me"}}
	cfg.Askers = []Asker{yes}
	for _, tt := range []struct {
		name    string
		hooks   []*hook
		rules   []Rule
		want    Verdict
		reason  string
		asked   int
		context int
	}{
		{"continue leaves the decision", []*hook{{result: HookResult{Action: HookContinue, Context: "a"}}}, []Rule{allow("file_write")}, Allow, "rule", 0, 1},
		{"block", []*hook{{result: HookResult{Action: HookBlock, Reason: "no"}}}, []Rule{allow("file_write")}, Deny, "hook", 0, 0},
		{"the zero answer blocks", []*hook{{}}, []Rule{allow("file_write")}, Deny, "hook", 0, 0},
		{"an unknown action blocks", []*hook{{result: HookResult{Action: 77}}}, []Rule{allow("file_write")}, Deny, "hook", 0, 0},
		{"failure blocks", []*hook{{err: errors.New("crash")}}, []Rule{allow("file_write")}, Deny, "hook", 0, 0},
		{"failure may continue", []*hook{{err: errors.New("crash"), goOn: true}}, []Rule{allow("file_write")}, Allow, "rule", 0, 0},
		{"ask raises an allow", []*hook{{result: HookResult{Action: HookAsk}}}, []Rule{allow("file_write")}, Allow, "user", 1, 0},
		{"continue after ask does not lift it", []*hook{{result: HookResult{Action: HookAsk}}, {result: HookResult{Action: HookContinue}}}, []Rule{allow("file_write")}, Allow, "user", 1, 0},
		{"contexts add up", []*hook{{result: HookResult{Action: HookContinue, Context: "a"}}, {result: HookResult{Action: HookContinue, Context: "b"}}}, []Rule{allow("file_write")}, Allow, "rule", 0, 2},
		{"changed arguments meet the deny rules", []*hook{{result: HookResult{Action: HookContinue, Args: Args{"file_path": "secret"}}}}, []Rule{deny("file_write(secret)"), allow("file_write")}, Deny, "rule", 0, 0},
		{"changed arguments meet the checks", []*hook{{result: HookResult{Action: HookContinue, Args: Args{"file_path": ".git/config"}}}}, []Rule{allow("file_write")}, Allow, "user", 1, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := cfg
			c.Hooks = nil
			for _, h := range tt.hooks {
				h.name = "h"
				c.Hooks = append(c.Hooks, h)
			}
			yes.asked = 0
			d := engine(t, c, tt.rules...).Decide(t.Context(), write("a"))
			if d.Verdict != tt.want || d.Reason.Type() != tt.reason || yes.asked != tt.asked || len(d.Context) != tt.context {
				t.Errorf("%v by %v, asked %d, context %q; want %v by %s, asked %d", d.Verdict, d.Reason, yes.asked, d.Context, tt.want, tt.reason, tt.asked)
			}
		})
	}
}

func TestFirstBlockEndsTheChain(t *testing.T) {
	_, cfg := place(t)
	first, second := &hook{name: "first"}, &hook{name: "second"}
	cfg.Hooks = []Hook{first, second}
	d := engine(t, cfg).Decide(t.Context(), write("a"))
	if r, ok := d.Reason.(HookReason); !ok || r.Name != "first" || second.ran != 0 {
		t.Errorf("reason %v, second hook ran %d times", d.Reason, second.ran)
	}
}

func TestLastChangeOfArgumentsWins(t *testing.T) {
	_, cfg := place(t)
	cfg.Hooks = []Hook{
		&hook{name: "a", result: HookResult{Action: HookContinue, Args: Args{"file_path": "one"}}},
		&hook{name: "b", result: HookResult{Action: HookContinue, Args: Args{"file_path": "two"}}},
	}
	d := engine(t, cfg, allow("file_write")).Decide(t.Context(), write("a"))
	if d.Args["file_path"] != "two" || !strings.HasSuffix(d.Writes[0], "/two") {
		t.Errorf("final arguments %v, writes %v", d.Args, d.Writes)
	}
}

func TestPerson(t *testing.T) {
	_, cfg := place(t)
	for _, tt := range []struct {
		name   string
		askers []*asker
		want   Verdict
		reason string
		took   time.Duration
	}{
		{"nobody there denies at once", nil, Deny, "headless", 0},
		{"allow", []*asker{{answer: Answer{Verdict: Allow}}}, Allow, "user", 0},
		{"deny", []*asker{{answer: Answer{Verdict: Deny}}}, Deny, "user", 0},
		{"an answer that is none denies", []*asker{{answer: Answer{Verdict: Ask}}}, Deny, "user", 0},
		{"the zero answer denies", []*asker{{}}, Deny, "user", 0},
		{"silence denies after 120 s", []*asker{{wait: time.Hour}}, Deny, "timeout", 120 * time.Second},
		{"119 s are in time", []*asker{{wait: 119 * time.Second, answer: Answer{Verdict: Allow}}}, Allow, "user", 119 * time.Second},
		{"the first answer counts", []*asker{{wait: time.Second, answer: Answer{Verdict: Deny}}, {wait: 2 * time.Second, answer: Answer{Verdict: Allow}}}, Deny, "user", time.Second},
		{"who fails drops out", []*asker{{err: errors.New("gone")}, {wait: time.Second, answer: Answer{Verdict: Allow}}}, Allow, "user", time.Second},
		{"all failed is nobody there", []*asker{{err: errors.New("gone")}, {err: errors.New("gone")}}, Deny, "headless", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := cfg
				for _, a := range tt.askers {
					c.Askers = append(c.Askers, a)
				}
				start := time.Now()
				d := engine(t, c).Decide(t.Context(), write("a"))
				if d.Verdict != tt.want || d.Reason.Type() != tt.reason || time.Since(start) != tt.took {
					t.Errorf("%v by %v after %v, want %v by %s after %v", d.Verdict, d.Reason, time.Since(start), tt.want, tt.reason, tt.took)
				}
			})
		})
	}
}

func TestLosersOfTheRaceAreTold(t *testing.T) {
	_, cfg := place(t)
	synctest.Test(t, func(t *testing.T) {
		slow := []*asker{{wait: time.Hour}, {wait: time.Hour}}
		c := cfg
		c.Askers = []Asker{slow[0], &asker{wait: time.Second, answer: Answer{Verdict: Allow, By: "dialog"}}, slow[1]}
		d := engine(t, c).Decide(t.Context(), write("a"))
		if r, ok := d.Reason.(UserReason); !ok || r.By != "dialog" || !slow[0].told || !slow[1].told {
			t.Errorf("reason %v, losers told: %v %v", d.Reason, slow[0].told, slow[1].told)
		}
	})
}

func TestCancelledCallIsDenied(t *testing.T) {
	_, cfg := place(t)
	synctest.Test(t, func(t *testing.T) {
		c := cfg
		c.Askers = []Asker{&asker{wait: time.Hour}}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		d := engine(t, c).Decide(ctx, write("a"))
		if r, ok := d.Reason.(SafetyReason); d.Verdict != Deny || !ok || r.Check != "cancelled" {
			t.Errorf("%v by %v", d.Verdict, d.Reason)
		}
		d = engine(t, c, allow("file_write")).Decide(ctx, write("a"))
		if d.Verdict != Deny {
			t.Errorf("a call after the end of its context: %v by %v", d.Verdict, d.Reason)
		}
	})
}

func TestBubbleAsksTheParentsPersonOnly(t *testing.T) {
	_, cfg := place(t)
	own, parent := &asker{answer: Answer{Verdict: Allow}}, &asker{answer: Answer{Verdict: Allow, By: "parent"}}
	cfg.Mode, cfg.Askers, cfg.Parent = ModeBubble, []Asker{own}, parent
	d := engine(t, cfg).Decide(t.Context(), write("a"))
	if d.Verdict != Allow || own.asked != 0 || parent.asked != 1 {
		t.Errorf("%v by %v; own asked %d, parent asked %d", d.Verdict, d.Reason, own.asked, parent.asked)
	}
	cfg.Parent = nil
	if d := engine(t, cfg).Decide(t.Context(), write("a")); d.Verdict != Deny || d.Reason.Type() != "headless" {
		t.Errorf("without a parent: %v by %v", d.Verdict, d.Reason)
	}
}

func TestAlwaysHandsBackTheRule(t *testing.T) {
	_, cfg := place(t)
	a := &asker{answer: Answer{Verdict: Allow, Always: true, Rule: "file_write(a)"}}
	cfg.Askers = []Asker{a}
	d := engine(t, cfg).Decide(t.Context(), write("a"))
	if r, ok := d.Reason.(UserReason); !ok || r.Temporary || d.RuleToSave != "file_write(a)" {
		t.Errorf("reason %v, rule %q", d.Reason, d.RuleToSave)
	}
	if a.saw.Suggest == nil || len(a.saw.Suggest.Rules) != 1 || a.saw.Explain.RiskLevel == "" {
		t.Errorf("the question showed no rule or no explanation: %+v", a.saw)
	}
}

func TestClassifier(t *testing.T) {
	_, cfg := place(t)
	cfg.Mode = ModeAuto
	call := Call{Tool: "web_fetch", Args: Args{"url": "https://a.test/"}}
	for _, tt := range []struct {
		name   string
		c      *scores
		call   Call
		rules  []Rule
		want   Verdict
		reason string
		asked  int
	}{
		{"above 0.8 allows", &scores{list: []float64{0.81}}, call, nil, Allow, "classifier", 1},
		{"0.8 asks", &scores{list: []float64{0.8}}, call, nil, Deny, "headless", 1},
		{"0.2 asks", &scores{list: []float64{0.2}}, call, nil, Deny, "headless", 1},
		{"below 0.2 denies", &scores{list: []float64{0.19}}, call, nil, Deny, "classifier", 1},
		{"a failure is repeated once, then nobody is there", &scores{err: errors.New("down")}, call, nil, Deny, "headless", 2},
		{"a score above 1 is a failure", &scores{list: []float64{7}}, call, nil, Deny, "headless", 2},
		{"a deny rule goes first", &scores{list: []float64{1}}, call, []Rule{deny("web_fetch(a.test)")}, Deny, "rule", 0},
		{"an allow rule goes first", &scores{list: []float64{0}}, call, []Rule{allow("web_fetch(a.test)")}, Allow, "rule", 0},
		{"an ask rule is a floor", &scores{list: []float64{1}}, call, []Rule{ask("web_fetch(a.test)")}, Deny, "headless", 0},
		{"dangerous calls never reach it", &scores{list: []float64{1}}, write(".git/config"), nil, Deny, "headless", 0},
		{"reads inside the roots skip it", &scores{list: []float64{0}}, read("src/a"), nil, Allow, "mode", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := cfg
			c.Classifier = tt.c
			d := engine(t, c, tt.rules...).Decide(t.Context(), tt.call)
			if d.Verdict != tt.want || d.Reason.Type() != tt.reason || tt.c.asked != tt.asked {
				t.Errorf("%v by %v, asked %d times; want %v by %s, asked %d", d.Verdict, d.Reason, tt.c.asked, tt.want, tt.reason, tt.asked)
			}
		})
	}
}

func TestClassifierSeesTheCallAlone(t *testing.T) {
	dir, cfg := place(t)
	cfg.Mode = ModeAuto
	c := &scores{list: []float64{1}}
	cfg.Classifier = c
	e := engine(t, cfg)
	e.Decide(t.Context(), BashCall("make test", ""))
	if want := (ClassifierInput{Tool: "run_bash", Text: "make test", Cwd: dir}); c.saw != want {
		t.Errorf("for a command: %+v", c.saw)
	}
	e.Decide(t.Context(), Call{Tool: "WebSearch", Args: Args{"query": "x"}})
	if want := (ClassifierInput{Tool: "web_search", Text: `{"query":"x"}`, Cwd: dir}); c.saw != want {
		t.Errorf("for another tool: %+v", c.saw)
	}
}

func TestClassifierDownAllowsNothing(t *testing.T) {
	_, cfg := place(t)
	cfg.Mode, cfg.Default = ModeAuto, Allow
	for _, c := range []Classifier{nil, &scores{err: errors.New("down")}} {
		cfg.Classifier = c
		if d := engine(t, cfg).Decide(t.Context(), Call{Tool: "web_fetch", Args: Args{"url": "https://a.test/"}}); d.Verdict != Deny {
			t.Errorf("classifier %v: %v by %v", c, d.Verdict, d.Reason)
		}
	}
}

func TestClassifierThatPanicsOrHangsIsDown(t *testing.T) {
	_, cfg := place(t)
	cfg.Mode = ModeAuto
	synctest.Test(t, func(t *testing.T) {
		c := cfg
		c.Classifier = &scores{wait: time.Hour}
		start := time.Now()
		d := engine(t, c).Decide(t.Context(), Call{Tool: "web_search", Args: Args{"query": "x"}})
		if d.Verdict != Deny || time.Since(start) != 20*time.Second {
			t.Errorf("%v by %v after %v, want two tries of 10 s", d.Verdict, d.Reason, time.Since(start))
		}
	})
	cfg.Classifier = panics{}
	if d := engine(t, cfg).Decide(t.Context(), Call{Tool: "web_search", Args: Args{"query": "x"}}); d.Verdict != Deny {
		t.Errorf("%v by %v", d.Verdict, d.Reason)
	}
}

type panics struct{}

func (panics) Classify(context.Context, ClassifierInput) (float64, error) { panic("boom") }
func (panics) Ask(context.Context, Question) (Answer, error)              { panic("boom") }

func TestThreeClassifierDenialsGoToThePerson(t *testing.T) {
	_, cfg := place(t)
	person := &asker{answer: Answer{Verdict: Allow}}
	c := &scores{list: []float64{0}}
	cfg.Mode, cfg.Classifier, cfg.Askers = ModeAuto, c, []Asker{person}
	e := engine(t, cfg)
	call := Call{Tool: "web_search", Args: Args{"query": "x"}}
	for i := range 3 {
		if d := e.Decide(t.Context(), call); d.Verdict != Deny || person.asked != 0 {
			t.Fatalf("call %d: %v by %v, person asked %d times", i+1, d.Verdict, d.Reason, person.asked)
		}
	}
	if d := e.Decide(t.Context(), call); d.Verdict != Allow || person.asked != 1 || c.asked != 3 {
		t.Errorf("fourth call: %v by %v, person asked %d, classifier asked %d", d.Verdict, d.Reason, person.asked, c.asked)
	}
	if e.Decide(t.Context(), call); c.asked != 4 {
		t.Errorf("the person's answer did not start the count anew: classifier asked %d times", c.asked)
	}
}

// An engine that takes the place of another one goes on with its count; any other
// begins anew.
func TestClassifierDenialsAreCountedOverAReload(t *testing.T) {
	_, cfg := place(t)
	person := &asker{answer: Answer{Verdict: Deny}}
	c := &scores{list: []float64{0}}
	cfg.Mode, cfg.Classifier, cfg.Askers = ModeAuto, c, []Asker{person}
	call := Call{Tool: "web_search", Args: Args{"query": "x"}}
	e := engine(t, cfg)
	for range 3 {
		e.Decide(t.Context(), call)
		next := cfg
		next.Follows = e
		e = engine(t, next)
	}
	if e.Decide(t.Context(), call); person.asked != 1 || c.asked != 3 {
		t.Errorf("after three denials of three engines the person is asked %d times, the classifier %d", person.asked, c.asked)
	}
	engine(t, cfg).Decide(t.Context(), call)
	if c.asked != 4 {
		t.Error("an engine of its own has the denials of another")
	}
}

func TestSlowClassifierRacesThePerson(t *testing.T) {
	_, cfg := place(t)
	cfg.Mode = ModeAuto
	call := Call{Tool: "web_search", Args: Args{"query": "x"}}
	for _, tt := range []struct {
		name   string
		c      *scores
		person *asker
		reason string
		want   Verdict
	}{
		{"the person is faster", &scores{list: []float64{0}, wait: 8 * time.Second}, &asker{wait: time.Second, answer: Answer{Verdict: Allow}}, "user", Allow},
		{"the classifier is faster", &scores{list: []float64{1}, wait: 5 * time.Second}, &asker{wait: time.Minute}, "classifier", Allow},
		{"a classifier that is unsure leaves it to the person", &scores{list: []float64{.5}, wait: 5 * time.Second}, &asker{wait: time.Minute, answer: Answer{Verdict: Allow}}, "user", Allow},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := cfg
				c.Classifier, c.Askers = tt.c, []Asker{tt.person}
				d := engine(t, c).Decide(t.Context(), call)
				if d.Verdict != tt.want || d.Reason.Type() != tt.reason {
					t.Errorf("%v by %v, want %v by %s", d.Verdict, d.Reason, tt.want, tt.reason)
				}
			})
		})
	}
}

func TestAskerThatPanicsIsNobody(t *testing.T) {
	_, cfg := place(t)
	cfg.Askers = []Asker{panics{}}
	if d := engine(t, cfg).Decide(t.Context(), write("a")); d.Verdict != Deny || d.Reason.Type() != "headless" {
		t.Errorf("%v by %v", d.Verdict, d.Reason)
	}
}

func TestPanicInADecisionDenies(t *testing.T) {
	_, cfg := place(t)
	cfg.ToolRules = map[string]ToolRule{"file_write": func(Args) (Verdict, string) { panic("boom") }}
	d := engine(t, cfg, allow("file_write")).Decide(t.Context(), write("a"))
	if r, ok := d.Reason.(SafetyReason); d.Verdict != Deny || !ok || r.Check != "internal" {
		t.Errorf("%v by %v", d.Verdict, d.Reason)
	}
}

// TestCombination is requirement 5: what the rules say, the mode, a hook and
// the tool's own rule, against a function that says the same in one place.
func TestCombination(t *testing.T) {
	dir, cfg := place(t)
	cfg.Bypass.EnabledAtStart = true
	reference := func(rule Verdict, mode Mode, h HookAction, tool Verdict) Verdict {
		switch {
		case rule == Deny, h == HookBlock:
			return Deny
		case rule == Allow && h == HookContinue && tool == Allow:
			return Allow
		case mode == ModeDontAsk:
			return Deny
		}
		return Ask
	}
	rules := map[Verdict]Rule{Deny: deny("file_write(a)"), Ask: ask("file_write(a)"), Allow: allow("file_write(a)")}
	for _, rule := range []Verdict{Deny, Ask, Allow} {
		for _, mode := range Modes() {
			for _, h := range []HookAction{HookBlock, HookContinue, HookAsk} {
				for _, tool := range []Verdict{Deny, Ask, Allow} {
					c := cfg
					c.Mode = mode
					c.Hooks = []Hook{&hook{name: "h", result: HookResult{Action: h}}}
					c.ToolRules = map[string]ToolRule{"file_write": func(Args) (Verdict, string) { return tool, "" }}
					// A person that cannot be mistaken for anything else.
					p := &asker{answer: Answer{Verdict: Deny}}
					c.Askers, c.Parent = []Asker{p}, p
					d := engine(t, c, rules[rule]).Decide(t.Context(), write(dir+"/a"))
					got := d.Verdict
					if p.asked > 0 {
						got = Ask
					}
					if want := reference(rule, mode, h, tool); got != want {
						t.Errorf("rule %v, mode %v, hook %v, tool %v: %v (%v), want %v", rule, mode, h, tool, got, d.Reason, want)
					}
				}
			}
		}
	}
}

func TestTraceListsEveryStageInOrder(t *testing.T) {
	_, cfg := place(t)
	cfg.Askers = []Asker{&asker{answer: Answer{Verdict: Allow}}}
	d := engine(t, cfg).Decide(t.Context(), write("a"))
	if len(d.Trace) != len(Stages()) {
		t.Fatalf("%d stages, want %d", len(d.Trace), len(Stages()))
	}
	count := map[StageName]int{}
	decided := 0
	for i, s := range d.Trace {
		if s.Name != Stages()[i] {
			t.Errorf("stage %d is %s, want %s", i, s.Name, Stages()[i])
		}
		count[s.Name]++
		if s.Result == StageDecided {
			decided++
			if s.Name != StagePerson {
				t.Errorf("decided by stage %s, want the person", s.Name)
			}
		}
		if s.Result != StageSkipped && s.Elapsed <= 0 {
			t.Errorf("stage %s has no duration", s.Name)
		}
	}
	for _, s := range d.Trace {
		reached := s.Name != StageHooks && s.Name != StageTool && s.Name != StageConfined && s.Name != StageClassifier && s.Name != StageTransform
		if reached && s.Result == StageSkipped {
			t.Errorf("stage %s was reached and says skipped", s.Name)
		}
	}
	for name, n := range count {
		want := 1
		if name == StageDeny {
			want = 2
		}
		if n != want {
			t.Errorf("stage %s stands %d times, want %d", name, n, want)
		}
	}
	if decided != 1 {
		t.Errorf("%d stages decided, want 1", decided)
	}
}

func TestDecisionObject(t *testing.T) {
	dir, cfg := place(t)
	e := engine(t, cfg, Rule{Kind: DenyRule, Pattern: "file_write(secret)", Reason: "keys live there", Source: Source{Kind: SourceProject, File: "sandboxd.toml", Line: 7}})
	d := e.Check(t.Context(), Call{ID: "7", Tool: "Write", Args: Args{"file_path": "secret"}})
	text, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	for _, field := range []string{"verdict", "reason", "commands", "writes", "reads", "unknown", "trace", "suggest"} {
		if got[field] == nil {
			t.Errorf("field %s is missing or null in %s", field, text)
		}
	}
	reason := got["reason"].(map[string]any)
	want := map[string]any{"type": "rule", "kind": "deny", "source": "project", "pattern": "file_write(secret)", "file": "sandboxd.toml", "line": 7.0, "text": "keys live there"}
	for k, v := range want {
		if reason[k] != v {
			t.Errorf("reason.%s = %v, want %v", k, reason[k], v)
		}
	}
	if got["id"] != "7" || got["verdict"] != "deny" || got["writes"].([]any)[0] != dir+"/secret" {
		t.Errorf("object %s", text)
	}
}

func TestReasonsInJSON(t *testing.T) {
	for _, tt := range []struct {
		r    Reason
		want string
	}{
		{ModeReason{Mode: ModePlan}, `{"type":"mode","mode":"plan"}`},
		{HookReason{Name: "guard"}, `{"type":"hook","name":"guard"}`},
		{ClassifierReason{Score: 0}, `{"type":"classifier","score":0}`},
		{UserReason{Temporary: false}, `{"type":"user","temporary":false}`},
		{UserReason{Temporary: true, By: "x"}, `{"type":"user","temporary":true,"by":"x"}`},
		{SafetyReason{Check: "unreadable"}, `{"type":"safety","check":"unreadable"}`},
		{ConfinedReason{}, `{"type":"confined"}`},
		{TimeoutReason{}, `{"type":"timeout"}`},
		{HeadlessReason{}, `{"type":"headless"}`},
		{DefaultReason{}, `{"type":"default"}`},
		{RuleReason{Kind: AllowRule, Pattern: "Bash", Source: Source{Kind: SourceManaged}}, `{"type":"rule","kind":"allow","source":"managed","pattern":"Bash"}`},
	} {
		got, err := ReasonJSON(tt.r)
		if err != nil || string(got) != tt.want {
			t.Errorf("%#v: %s, %v; want %s", tt.r, got, err, tt.want)
		}
		if tt.r.String() == "" {
			t.Errorf("%#v has no text", tt.r)
		}
	}
}

func TestDenialTracker(t *testing.T) {
	var tr DenialTracker
	for i, v := range []Verdict{Deny, Deny, Allow, Deny, Deny} {
		if stop := tr.Record(v); stop != "" {
			t.Fatalf("call %d: %s", i, stop)
		}
	}
	if stop := tr.Record(Deny); !strings.Contains(stop, "3 calls in a row") {
		t.Errorf("third denial in a row: %q", stop)
	}
	tr = DenialTracker{}
	for i := range 19 {
		if stop := tr.Record(Deny); stop != "" {
			t.Fatalf("denial %d: %s", i+1, stop)
		}
		tr.Record(Allow)
	}
	if stop := tr.Record(Deny); !strings.Contains(stop, "20 calls") {
		t.Errorf("twentieth denial: %q", stop)
	}
	tr = DenialTracker{MaxConsecutive: -1, MaxTotal: -1}
	for range 100 {
		if stop := tr.Record(Deny); stop != "" {
			t.Fatalf("no limit: %s", stop)
		}
	}
}
