package policy

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestMatchingDenyAlwaysDenies(t *testing.T) {
	dir, cfg := place(t)
	cfg.Bypass.EnabledAtStart = true
	cfg.Confinement, cfg.AllowConfined, cfg.Default = FullyConfined, true, Allow
	rng := rand.New(rand.NewPCG(1, 2))
	paths := []string{"secret", "src/a", dir + "/src/b", "~/x", "/etc/y"}
	contents := []string{"secret", "*", "src/**", "./src/a", "/**", "*.go", "~/**"}
	tools := []string{"file_write", "Write", "file_edit", "*", "file_*", "read_file"}
	n := 10000
	if testing.Short() {
		n = 1000
	}
	denied := 0
	for i := range n {
		var rules []Rule
		for range rng.IntN(12) {
			r := Rule{Kind: Kind(rng.IntN(3)), Source: Source{Kind: SourceKind(rng.IntN(8))}}
			tool := tools[rng.IntN(len(tools))]
			if r.Kind == AllowRule && strings.Contains(tool, "*") {
				tool = "file_write"
			}
			r.Pattern = tool
			if rng.IntN(4) > 0 {
				r.Pattern = tool + "(" + contents[rng.IntN(len(contents))] + ")"
			}
			rules = append(rules, r)
		}
		p := paths[rng.IntN(len(paths))]
		call := write(p)
		// The judge: each deny rule alone.
		want := false
		for _, r := range rules {
			if r.Kind == DenyRule {
				s, err := NewRuleSet([]Rule{r}, Base{Workspace: dir, Home: cfg.Home})
				if err != nil {
					t.Fatal(err)
				}
				if v, _, found := s.Check(Call{Tool: call.Tool, Args: call.Args, Cwd: dir}); found && v == Deny {
					want = true
				}
			}
		}
		if !want {
			continue
		}
		denied++
		c := cfg
		c.Mode = Modes()[rng.IntN(len(Modes()))]
		c.Rules = rules
		if d := engine(t, c).Check(t.Context(), call); d.Verdict != Deny || d.Reason.Type() != "rule" {
			t.Fatalf("set %d %v: write %s is %v (%v)", i, rules, p, d.Verdict, d.Reason)
		}
	}
	if denied < n/10 {
		t.Errorf("only %d of %d sets held a matching deny rule", denied, n)
	}
}

func TestOrderOfRulesChangesOnlyTheReport(t *testing.T) {
	dir, cfg := place(t)
	a, b := deny("file_write(a)"), deny("file_write")
	a.Reason, b.Reason = "first", "second"
	for _, tt := range []struct {
		rules []Rule
		want  string
	}{{[]Rule{a, b}, "first"}, {[]Rule{b, a}, "second"}} {
		d := engine(t, cfg, tt.rules...).Check(t.Context(), write(dir+"/a"))
		if r, ok := d.Reason.(RuleReason); d.Verdict != Deny || !ok || r.Text != tt.want {
			t.Errorf("%v by %v, want the %s rule", d.Verdict, d.Reason, tt.want)
		}
	}
}

func TestSourcesInAllPairs(t *testing.T) {
	dir, cfg := place(t)
	for strong := SourceManaged; strong <= SourceDefault; strong++ {
		for weak := SourceManaged; weak <= SourceDefault; weak++ {
			// Deny from any source wins over allow from any other.
			d1, a1 := deny("file_write(a)"), allow("file_write(a)")
			d1.Source.Kind, a1.Source.Kind = weak, strong
			if d := engine(t, cfg, a1, d1).Check(t.Context(), write(dir+"/a")); d.Verdict != Deny {
				t.Errorf("allow from %v, deny from %v: %v", strong, weak, d.Verdict)
			}
			if strong >= weak {
				continue
			}
			// Within a kind the stronger source is reported, wherever it stands.
			r1, r2 := deny("file_write(a)"), deny("file_write(*)")
			r1.Source.Kind, r2.Source.Kind = strong, weak
			for _, rules := range [][]Rule{{r1, r2}, {r2, r1}} {
				d := engine(t, cfg, rules...).Check(t.Context(), write(dir+"/a"))
				if r := d.Reason.(RuleReason); r.Source.Kind != strong {
					t.Errorf("%v and %v: reported %v", strong, weak, r.Source.Kind)
				}
			}
		}
	}
}

func TestSpecificityNeverLiftsADeny(t *testing.T) {
	_, cfg := place(t)
	e := engine(t, cfg, deny("Read(.env*)"), allow("Read(.env.template)"), allow("Read(./.env.template)")) // S065
	if d := e.Check(t.Context(), read(".env.template")); d.Verdict != Deny {
		t.Errorf("%v by %v", d.Verdict, d.Reason)
	}
	r := deny("Read(.env*)")
	r.Except = []string{".env.template"}
	e = engine(t, cfg, r)
	if d := e.Check(t.Context(), read(".env.template")); d.Verdict != Allow {
		t.Errorf("excluded: %v by %v", d.Verdict, d.Reason)
	}
	for _, p := range []string{".env", ".env.local", "a/.env"} {
		if d := e.Check(t.Context(), read(p)); d.Verdict != Deny {
			t.Errorf("%s: %v by %v", p, d.Verdict, d.Reason)
		}
	}
}

func TestAbsoluteDenyIsAbsolute(t *testing.T) { // S012
	_, cfg := place(t)
	data := t.TempDir()
	r := deny("Read(" + data + "/secret/**)")
	r.Source = Source{Kind: SourceProject, File: "/p/.sbx/rules", Line: 1}
	cfg.Mode, cfg.Default = ModePlan, Allow
	e := engine(t, cfg, r)
	if d := e.Check(t.Context(), read(data+"/secret/a")); d.Verdict != Deny {
		t.Errorf("%v by %v", d.Verdict, d.Reason)
	}
	if d := e.Check(t.Context(), read(data+"/other/a")); d.Verdict != Allow {
		t.Errorf("neighbour: %v by %v", d.Verdict, d.Reason)
	}
	findings := Lint([]Rule{deny("Read(//data/secret/**)"), deny("Read(/data/secret/**)")}, LintOptions{Base: Base{Workspace: "/w"}})
	if n := countCheck(findings, CheckDead); n != 1 {
		t.Errorf("%d dead rules reported, want 1: %+v", n, findings)
	}
}

func TestModesAndExpiryOfARule(t *testing.T) {
	_, cfg := place(t)
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	cfg.Now = func() time.Time { return now }
	r := allow("file_write(a)")
	r.Expires = now.Add(time.Hour)
	e := engine(t, cfg, r)
	if d := e.Check(t.Context(), write("a")); d.Verdict != Allow {
		t.Errorf("before the end: %v", d.Verdict)
	}
	now = now.Add(time.Hour)
	if d := e.Check(t.Context(), write("a")); d.Verdict != Ask {
		t.Errorf("at the end: %v", d.Verdict)
	}
	only := deny("file_write(b)")
	only.Modes = []Mode{ModePlan, ModeAcceptEdits}
	e = engine(t, cfg, only)
	for mode, want := range map[Mode]Verdict{ModeDefault: Ask, ModePlan: Deny, ModeAcceptEdits: Deny} {
		if err := e.SetMode(mode); err != nil {
			t.Fatal(err)
		}
		if d := e.Check(t.Context(), write("b")); d.Verdict != want {
			t.Errorf("mode %v: %v, want %v", mode, d.Verdict, want)
		}
	}
}

func TestErrorsNameRuleAndLine(t *testing.T) {
	_, err := NewRuleSet([]Rule{
		{Kind: AllowRule, Pattern: "*", Source: Source{Kind: SourceUser, File: "p.toml", Line: 3}},
		{Kind: DenyRule, Pattern: "run_bash(", Source: Source{Kind: SourceUser, File: "p.toml", Line: 4}},
	}, Base{})
	if err == nil {
		t.Fatal("both rules were accepted")
	}
	for _, want := range []string{"p.toml:3", "p.toml:4"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not name %s", err, want)
		}
	}
	if _, ok := errors.AsType[*RuleError](err); !ok {
		t.Errorf("%T is no *RuleError", err)
	}
}

func TestRuleSetAPI(t *testing.T) {
	var zero RuleSet
	if v, _, found := zero.Check(write("/w/a")); found || v != Ask {
		t.Errorf("zero set: %v, %v", v, found)
	}
	if zero.Denied("run_bash") {
		t.Error("the zero set denies")
	}
	s, err := zero.With(deny("Write"))
	if err != nil {
		t.Fatal(err)
	}
	if v, by, found := s.Check(write("/w/a")); !found || v != Deny || by.Pattern != "Write" {
		t.Errorf("%v %v %v", v, by, found)
	}
	if !s.Denied("file_write") || zero.Denied("file_write") {
		t.Error("With changed the old set, or not the new one")
	}
	s, n, err := s.Without(DenyRule, "Write", SourceManaged)
	if err != nil || n != 1 || s.Denied("Write") {
		t.Errorf("removed %d, %v", n, err)
	}
}

func TestEngineRulesChangeForTheNextCall(t *testing.T) {
	_, cfg := place(t)
	e, other := engine(t, cfg), engine(t, cfg)
	if err := e.AddRule(Rule{Kind: AllowRule, Pattern: "file_write(a)", Source: Source{Kind: SourceSession}}); err != nil {
		t.Fatal(err)
	}
	if d := e.Check(t.Context(), write("a")); d.Verdict != Allow {
		t.Errorf("%v", d.Verdict)
	}
	if d := other.Check(t.Context(), write("a")); d.Verdict != Ask {
		t.Errorf("another session: %v", d.Verdict)
	}
	if err := e.AddRule(Rule{Kind: AllowRule, Pattern: "*"}); err == nil {
		t.Error("a rule that is refused was added")
	}
	if n, err := e.RemoveRule(AllowRule, "file_write(a)", SourceSession); n != 1 || err != nil {
		t.Errorf("%d %v", n, err)
	}
	if d := e.Check(t.Context(), write("a")); d.Verdict != Ask {
		t.Errorf("after removal: %v", d.Verdict)
	}
}

func TestLinksDoNotPassADeny(t *testing.T) {
	dir, cfg := place(t)
	secret := filepath.Join(filepath.Dir(dir), "secret")
	mustLink(t, secret, filepath.Join(dir, "alias"))
	mustLink(t, filepath.Join(filepath.Dir(dir), "real"), filepath.Join(filepath.Dir(dir), "linked"))
	cfg.Mode = ModePlan
	e := engine(t, cfg, deny("Read("+secret+")"), deny("Read("+filepath.Dir(dir)+"/linked/**)"))
	for _, p := range []string{"alias", "./alias", "src/../alias", filepath.Dir(dir) + "/real/x", filepath.Dir(dir) + "/linked/x"} {
		if d := e.Check(t.Context(), read(p)); d.Verdict != Deny {
			t.Errorf("read %s: %v by %v", p, d.Verdict, d.Reason)
		}
	}
	if d := e.Check(t.Context(), read("src/x")); d.Verdict != Allow {
		t.Errorf("neighbour: %v by %v", d.Verdict, d.Reason)
	}
	// An allow rule about the link does not reach what it leads to.
	e = engine(t, cfg, allow("Write(./alias)"))
	if d := e.Check(t.Context(), write("alias")); d.Verdict != Ask {
		t.Errorf("write through a link: %v by %v", d.Verdict, d.Reason)
	}
}

func countCheck(findings []Finding, check Check) int {
	n := 0
	for _, f := range findings {
		if f.Check == check {
			n++
		}
	}
	return n
}

func TestLint(t *testing.T) {
	source := Source{Kind: SourceProject, File: "sandboxd.toml", Line: 3}
	for _, tt := range []struct {
		name  string
		rules []Rule
		check Check
		want  bool
		fix   string
	}{
		{"deny over allow", []Rule{deny("Read(.env*)"), allow("Read(.env.template)")}, CheckShadowed, true, "except"},
		{"ask over allow", []Rule{ask("Bash(git *)"), allow("Bash(git log *)")}, CheckShadowed, true, "except"},
		{"whole tool over content", []Rule{deny("Bash"), allow("Bash(ls *)")}, CheckShadowed, true, ""},
		{"deny everything", []Rule{deny("*"), allow("Bash(ls *)")}, CheckShadowed, true, ""},
		{"allow under a narrower deny", []Rule{deny("Bash(git push *)"), allow("Bash(git *)")}, CheckShadowed, false, ""},
		{"other tool", []Rule{deny("Write(.env)"), allow("Read(.env)")}, CheckShadowed, false, ""},
		{"deny in one mode only", []Rule{{Kind: DenyRule, Pattern: "Bash", Modes: []Mode{ModePlan}}, allow("Bash(ls *)")}, CheckShadowed, false, ""},
		{"excluded already", []Rule{{Kind: DenyRule, Pattern: "Read(.env*)", Except: []string{".env.template"}}, allow("Read(.env.template)")}, CheckShadowed, false, ""},
		{"duplicate", []Rule{deny("Bash(rm *)"), deny("Bash(rm *)")}, CheckDuplicate, true, "remove"},
		{"fragile", []Rule{deny("Bash(curl *)")}, CheckFragile, true, "effect(network *)"},
		{"fragile", []Rule{deny("Bash(rm -rf *)")}, CheckFragile, true, "effect(delete"},
		{"not fragile", []Rule{deny("Bash(npm publish *)")}, CheckFragile, false, ""},
		{"prefix", []Rule{deny("Bash(git push*)")}, CheckPrefix, true, "git push *"},
		{"no prefix", []Rule{deny("Bash(git push *)")}, CheckPrefix, false, ""},
		{"pattern the kernel cannot hold", []Rule{deny("Read(**/.env)")}, CheckNotKernel, true, ""},
		{"path the kernel holds", []Rule{deny("Read(/data/secret)")}, CheckNotKernel, false, ""},
		{"unknown tool", []Rule{deny("Basch(ls)")}, CheckUnknown, true, "Bash"},
		{"server tool", []Rule{deny("mcp__s__t")}, CheckUnknown, false, ""},
		{"expired", []Rule{{Kind: AllowRule, Pattern: "Read", Expires: time.Unix(1, 0)}}, CheckDead, true, "remove"},
		{"allowed writing that is not granted", []Rule{allow("Write(/data/**)")}, CheckDead, true, "grant"},
		{"allowed writing in the workspace", []Rule{allow("Write(./src/**)")}, CheckDead, false, ""},
		{"variable", []Rule{deny("Read($HOME/.ssh)")}, CheckDead, true, ""},
	} {
		for i := range tt.rules {
			tt.rules[i].Source = source
			tt.rules[i].Source.Line += i
		}
		findings := Lint(tt.rules, LintOptions{Base: Base{Workspace: "/w", Home: "/h"}, Now: time.Unix(100, 0)})
		found := false
		for _, f := range findings {
			if f.Check == tt.check {
				found = true
				if !strings.Contains(f.Fix, tt.fix) || f.File != "sandboxd.toml" || f.Line < 3 {
					t.Errorf("%s: %+v, want a fix with %q", tt.name, f, tt.fix)
				}
			}
		}
		if found != tt.want {
			t.Errorf("%s: %s reported: %v, want %v (%+v)", tt.name, tt.check, found, tt.want, findings)
		}
	}
}

func TestLintNamesInstalledProgramsOnly(t *testing.T) {
	findings := Lint([]Rule{deny("Bash(curl *)")}, LintOptions{Installed: func(p string) bool { return p == "wget" }})
	for _, f := range findings {
		if f.Check == CheckFragile && (!strings.Contains(f.Text, "wget") || strings.Contains(f.Text, "socat")) {
			t.Errorf("%s", f.Text)
		}
	}
	if countCheck(findings, CheckFragile) != 1 {
		t.Errorf("%+v", findings)
	}
}

// TestCoveringPatternMatchesWhateverIsCovered: what lint calls shadowed must
// really be.
func TestCoveringPatternMatchesWhateverIsCovered(t *testing.T) {
	contents := []string{"git *", "git log *", "git log", "git*", "*", "*log*", "git log -1", "git * main", "g*t *", "git:*", "git log:*"}
	commands := []string{"git log", "git log -1", "git log -1 main", "git push main", "gitlog", "git", "gxt log", "git log main"}
	for _, a := range contents {
		for _, b := range contents {
			pa, errA := parsePattern("Bash("+a+")", AllowRule, base{})
			pb, errB := parsePattern("Bash("+b+")", AllowRule, base{})
			if errA != nil || errB != nil || pa.form == formBare || pb.form == formBare || !pa.covers(&pb) {
				continue
			}
			for _, line := range commands {
				v := words(line)
				if pb.command.allows(&v) && !pa.command.allows(&v) {
					t.Errorf("%q is said to cover %q, but only the latter matches %q", a, b, line)
				}
			}
		}
	}
}

func TestThousandRulesOfEachForm(t *testing.T) {
	var rules []Rule
	for i := range 250 {
		rules = append(rules, deny(fmt.Sprintf("Bash(tool%d sub *)", i)), ask(fmt.Sprintf("Read(/data/%d/**)", i)),
			allow(fmt.Sprintf("Bash(git sub%d *)", i)), deny(fmt.Sprintf("WebFetch(h%d.test)", i)))
	}
	s := mustRules(t, rules...)
	if v, by, found := s.Check(read("/data/200/x")); !found || v != Ask || by.Pattern != "Read(/data/200/**)" {
		t.Errorf("%v %v %v", v, by, found)
	}
	if v, by, found := s.Check(Call{Tool: "WebFetch", Args: Args{"url": "https://h77.test/"}}); !found || v != Deny || by.Pattern != "WebFetch(h77.test)" {
		t.Errorf("%v %v %v", v, by, found)
	}
}
