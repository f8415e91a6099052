package policy

import (
	"math/rand/v2"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// pieces are commands that the generators compose.
var pieces = []string{
	"ls", "cat a", "rm x", "rm -rf x", "git push origin", "git log", "make", "touch a", "echo x > out", "echo > /etc/x", "cat .env", "sudo ls",
	"$(cat x) y", "python3 -c x", "vim x", "cd src", "X=1", "git $(cat y)", "timeout 5 rm x", "find . -delete", "curl https://a.test/", "grep x a | head",
	"canary", "strange canary", "cp a .git/hooks/x", "f() { rm x; }", "f", "true", "if true; then ls; fi", "cat <<E\nx\nE", "sh -c 'git push x'", "./script.sh",
}

var rulePool = []string{
	"Bash(rm *)", "Bash(rm -rf *)", "Bash(git push *)", "Bash(git *)", "Bash(git log:*)", "Bash(make)", "Bash(touch *)", "Bash", "Read(.env)", "Read(a)",
	"Write(out)", "Write(/etc/**)", "effect(write ./**)", "effect(delete ./**)", "effect(network *)", "effect(exec rm)", "Bash(canary *)", "Bash(canary)",
	"Bash(python3 *)", "Bash(re:^git)", "Bash(*push*)", "Bash(cat *)", "Bash(find *)", "Bash(cd *)", "Bash(echo:*)",
}

func drawRules(t *rapid.T) []Rule {
	var rules []Rule
	for range rapid.IntRange(0, 6).Draw(t, "rules") {
		r := Rule{
			Kind:    Kind(rapid.IntRange(0, 2).Draw(t, "kind")),
			Pattern: rapid.SampledFrom(rulePool).Draw(t, "pattern"),
			Source:  Source{Kind: SourceKind(rapid.IntRange(0, 7).Draw(t, "source"))},
		}
		rules = append(rules, r)
	}
	return rules
}

func drawConfig(t *rapid.T, cfg Config) Config {
	cfg.Mode = rapid.SampledFrom(Modes()).Draw(t, "mode")
	cfg.Bypass.EnabledAtStart = true
	cfg.Default = Verdict(rapid.IntRange(0, 2).Draw(t, "default"))
	cfg.AllowConfined = rapid.Bool().Draw(t, "confined")
	cfg.Confinement = Confinement(rapid.IntRange(0, 2).Draw(t, "confinement"))
	cfg.Rules = drawRules(t)
	return cfg
}

func drawScript(t *rapid.T) string {
	parts := rapid.SliceOfN(rapid.SampledFrom(pieces), 1, 4).Draw(t, "script")
	sep := rapid.SampledFrom([]string{"\n", "; ", " && "}).Draw(t, "sep")
	if sep != "\n" && strings.Contains(strings.Join(parts, ""), "\n") {
		sep = "\n"
	}
	return strings.Join(parts, sep)
}

func rapidEngine(t *rapid.T, cfg Config) *Engine {
	e, err := NewEngine(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// TestAddingACommandNeverLoosens compares a script with the same script and one
// more command behind it.
func TestAddingACommandNeverLoosens(t *testing.T) {
	_, cfg := place(t)
	rapid.Check(t, func(t *rapid.T) {
		e := rapidEngine(t, drawConfig(t, cfg))
		script := drawScript(t)
		more := script + "\n" + rapid.SampledFrom(pieces).Draw(t, "more")
		before, after := e.Check(t.Context(), BashCall(script, "")), e.Check(t.Context(), BashCall(more, ""))
		if after.Verdict > before.Verdict {
			t.Fatalf("%q is %v (%v), %q is %v (%v)", script, before.Verdict, before.Reason, more, after.Verdict, after.Reason)
		}
	})
}

// TestAddingARuleMovesTheVerdictOneWay: a deny rule never loosens, an allow rule
// never tightens.
func TestAddingARuleMovesTheVerdictOneWay(t *testing.T) {
	_, cfg := place(t)
	rapid.Check(t, func(t *rapid.T) {
		c := drawConfig(t, cfg)
		script := drawScript(t)
		r := Rule{Kind: rapid.SampledFrom([]Kind{DenyRule, AllowRule}).Draw(t, "new kind"), Pattern: rapid.SampledFrom(rulePool).Draw(t, "new")}
		before := rapidEngine(t, c).Check(t.Context(), BashCall(script, ""))
		c.Rules = append(c.Rules, r)
		after := rapidEngine(t, c).Check(t.Context(), BashCall(script, ""))
		if r.Kind == DenyRule && after.Verdict > before.Verdict || r.Kind == AllowRule && after.Verdict < before.Verdict {
			t.Fatalf("%q: %v (%v), with %v %s: %v (%v)", script, before.Verdict, before.Reason, r.Kind, r.Pattern, after.Verdict, after.Reason)
		}
	})
}

// FuzzSeverity is requirement 6: the final verdict is at least as strict as what
// every earlier stage said. A person may allow what asks, never what denies.
func FuzzSeverity(f *testing.F) {
	for seed := range uint64(30) {
		f.Add(seed, byte(seed))
	}
	_, cfg := place(f)
	f.Fuzz(func(t *testing.T, seed uint64, hookAction byte) {
		rng := rand.New(rand.NewPCG(seed, 7))
		c := cfg
		c.Mode = Modes()[rng.IntN(7)]
		c.Bypass.EnabledAtStart = true
		c.Default = Verdict(rng.IntN(3))
		c.AllowConfined, c.Confinement = rng.IntN(2) == 0, Confinement(rng.IntN(3))
		for range rng.IntN(6) {
			c.Rules = append(c.Rules, Rule{Kind: Kind(rng.IntN(3)), Pattern: rulePool[rng.IntN(len(rulePool))]})
		}
		if hookAction%4 > 0 {
			c.Hooks = []Hook{&hook{name: "h", result: HookResult{Action: HookAction(hookAction % 4)}}}
		}
		tool := Verdict(rng.IntN(3))
		c.ToolRules = map[string]ToolRule{"run_bash": func(Args) (Verdict, string) { return tool, "" }}
		c.Classifier = &scores{list: []float64{rng.Float64()}}
		person := &asker{answer: Answer{Verdict: Allow}}
		c.Askers, c.Parent = []Asker{person}, person
		script := pieces[rng.IntN(len(pieces))] + "\n" + pieces[rng.IntN(len(pieces))]
		d := engine(t, c).Decide(t.Context(), BashCall(script, ""))
		final := d.Verdict
		if person.asked > 0 {
			final = Ask
		}
		for _, s := range d.Trace {
			switch s.Name {
			case StageDeny, StageHooks, StageSafety, StageAskRules, StageTool:
				if s.Reason != nil && final > s.Verdict {
					t.Errorf("%q in mode %v: stage %s said %v (%v), the end is %v (%v)", script, c.Mode, s.Name, s.Verdict, s.Reason, d.Verdict, d.Reason)
				}
			}
		}
		if d.Reason == nil || len(d.Trace) != len(Stages()) {
			t.Errorf("%q: reason %v, %d stages", script, d.Reason, len(d.Trace))
		}
	})
}

// TestSuggestionsForScripts: what is suggested allows the call, nothing like it,
// and never a program that runs what it is told.
func TestSuggestionsForScripts(t *testing.T) {
	_, cfg := place(t)
	e := engine(t, cfg, deny("Bash(rm -rf *)"))
	for _, tt := range []struct {
		script string
		rules  []string
	}{
		{"pytest -q", []string{"run_bash(pytest -q)"}},
		{"go test ./...", []string{"run_bash(go test ./...)"}},
		{"ls | pytest -q | tail -3", []string{"run_bash(pytest -q)"}},
		{"touch 'a b' && mkdir x", []string{`run_bash(touch "a b")`, "run_bash(mkdir x)"}},
		{"touch 'a*b'", []string{`run_bash(touch a\*b)`}},
		{`touch 'a"b\'`, []string{`run_bash(touch "a\"b\\")`}},
		{"timeout 5 pytest -q", []string{"run_bash(pytest -q)"}},
		// interpreters, shells, launchers
		{"python3 x.py", nil}, {"python3 -c x", nil}, {"bash x.sh", nil}, {"./x.sh", nil}, {"sudo ls", nil}, {"node x.js", nil}, {"make", nil},
		{"npx x", nil}, {"npm run x", nil}, {"find . -exec touch {} +", nil}, {"docker run x", nil}, {"ssh h x", nil}, {"awk '{system($1)}' f", nil}, {"git -c a.b=c status", nil},
		{"LD_PRELOAD=x pytest", nil}, {"FOO=x pytest", nil}, {"rm -rf x", nil}, {"touch $(cat x)", nil}, {"vim x", nil},
	} {
		d := e.Check(t.Context(), BashCall(tt.script, ""))
		if d.Suggest == nil {
			if len(tt.rules) > 0 || d.Verdict != Allow {
				t.Errorf("%q (%v by %v): nothing is said", tt.script, d.Verdict, d.Reason)
			}
			continue
		}
		if strings.Join(d.Suggest.Rules, "\n") != strings.Join(tt.rules, "\n") {
			t.Errorf("%q: suggests %q, want %q", tt.script, d.Suggest.Rules, tt.rules)
		}
		if len(tt.rules) == 0 {
			if d.Suggest.Instead == "" {
				t.Errorf("%q: nothing is said instead", tt.script)
			}
			continue
		}
		c := cfg
		for _, p := range d.Suggest.Rules {
			c.Rules = append(c.Rules, allow(p))
		}
		with := engine(t, c)
		if d := with.Check(t.Context(), BashCall(tt.script, "")); d.Verdict != Allow {
			t.Errorf("%q: with its suggestion %v (%v)", tt.script, d.Verdict, d.Reason)
		}
		for _, more := range []string{tt.script + " | touch more", tt.script + "; touch y", strings.Replace(tt.script, "pytest", "pytest --pdb", 1), strings.Replace(tt.script, "*", "x", 1)} {
			if more == tt.script {
				continue
			}
			if d := with.Check(t.Context(), BashCall(more, "")); d.Verdict == Allow {
				t.Errorf("%q: its suggestion also allows %q", tt.script, more)
			}
		}
	}
}

// TestEverySuggestionHolds tries it on every command of the corpus.
func TestEverySuggestionHolds(t *testing.T) {
	_, cfg := place(t)
	e := engine(t, cfg)
	n := 0
	for _, c := range corpus(t, "bash.jsonl") {
		d := e.Check(t.Context(), BashCall(c.Command, ""))
		if d.Suggest == nil || len(d.Suggest.Rules) == 0 {
			continue
		}
		n++
		with := cfg
		for _, p := range d.Suggest.Rules {
			with.Rules = append(with.Rules, allow(p))
		}
		if d2 := engine(t, with).Check(t.Context(), BashCall(c.Command, "")); d2.Verdict != Allow {
			t.Errorf("%.100q: with %q %v (%v)", c.Command, d.Suggest.Rules, d2.Verdict, d2.Reason)
		}
	}
	if n < 100 {
		t.Errorf("only %d suggestions", n)
	}
}

func TestExplain(t *testing.T) {
	_, cfg := place(t)
	e := engine(t, cfg)
	for level, scripts := range map[string][]string{
		"LOW":    {"ls -la", "cat src/a", "grep -rn x src | head", "git status", "git log -3", "git diff", "pwd", "echo hi", "wc -l a", "cd src && ls"},
		"MEDIUM": {"touch a", "mv a b", "npm install", "go test ./...", "make", "python3 x.py", "git commit -m x", "git push origin main", "curl https://a.test/", "strange x", "rm a", "echo x > a", "cat ../x"},
		"HIGH": {"sudo ls", "rm -rf build", "mkfs.ext4 /dev/sda", "dd if=a of=/dev/sda", "eval \"$(cat x)\"", "ssh host ls", "echo x > /etc/hosts", "cp a .git/hooks/x",
			"git clean -fdx", "npm publish", "cat ~/.ssh/id_rsa", ":(){ :|:& };:", "vim x", "shutdown now"},
	} {
		for _, s := range scripts {
			x := e.Explain(BashCall(s, ""))
			if x.RiskLevel != level {
				t.Errorf("%q: %s (%s), want %s", s, x.RiskLevel, x.Reasoning, level)
			}
			if x.Explanation == "" || x.Reasoning == "" || x.Risk == "" {
				t.Errorf("%q: %+v", s, x)
			}
		}
	}
	for _, tt := range []struct {
		call  Call
		level string
	}{
		{read("src/a"), "LOW"}, {read("/etc/shadow"), "HIGH"}, {read("../x"), "MEDIUM"}, {write("src/a"), "MEDIUM"}, {write("/etc/passwd"), "HIGH"}, {write(".git/config"), "HIGH"},
		{Call{Tool: "WebFetch", Args: Args{"url": "https://a.test/"}}, "MEDIUM"}, {Call{Tool: "mcp__a__b", Args: Args{}}, "MEDIUM"}, {Call{Tool: "Grep", Args: Args{"pattern": "x"}}, "LOW"},
	} {
		if x := e.Explain(tt.call); x.RiskLevel != tt.level || x.Explanation == "" || x.Risk == "" {
			t.Errorf("%s %v: %+v, want %s", tt.call.Tool, tt.call.Args, x, tt.level)
		}
	}
}
