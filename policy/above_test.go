package policy

import (
	"context"
	"os"
	"testing"
)

// above makes a config a sub-agent's.
func above(cfg Config, modes ...Mode) Config {
	cfg.Above = func() []Mode { return modes }
	return cfg
}

func TestNarrowerMode(t *testing.T) {
	for _, tt := range []struct{ parent, want, mode Mode }{
		{ModeDefault, ModeBypass, ModeDefault}, {ModeDefault, ModeAuto, ModeDefault}, {ModeDefault, ModeAcceptEdits, ModeDefault},
		{ModeDefault, ModeBubble, ModeBubble}, {ModeDefault, ModePlan, ModePlan}, {ModeDefault, ModeDontAsk, ModeDontAsk},
		{ModePlan, ModeDefault, ModePlan}, {ModePlan, ModeBypass, ModePlan}, {ModePlan, ModeBubble, ModePlan}, {ModeDontAsk, ModeBubble, ModeDontAsk},
		{ModeBypass, ModeBypass, ModeBypass}, {ModeBypass, ModeAuto, ModeAuto}, {ModeAuto, ModeAcceptEdits, ModeAcceptEdits},
		{ModeBubble, ModeDefault, ModeDefault}, {ModeDefault, Mode(99), ModeDefault}, {ModePlan, Mode(99), ModePlan},
	} {
		if got := NarrowerMode(tt.parent, tt.want); got != tt.mode {
			t.Errorf("parent %v, wanted %v: %v, want %v", tt.parent, tt.want, got, tt.mode)
		}
	}
}

// TestNoSubAgentDoesMoreThanTheAgentsAbove takes every mode of a child under every
// mode of a parent: what the child may, its parent may, with the same policy.
func TestNoSubAgentDoesMoreThanTheAgentsAbove(t *testing.T) {
	dir, cfg := place(t)
	cfg.Bypass.EnabledAtStart = true
	cfg.Confinement = FullyConfined
	calls := []Call{
		read("src/a"), read("/var/log/syslog"), write("src/a"), write(dir + "/../elsewhere"), write(".git/hooks/x"),
		BashCall("cat src/a", ""), BashCall("cat /var/log/syslog", ""), BashCall("touch src/a", ""), BashCall("make", ""), BashCall("touch /etc/x", ""),
		BashCall("unknown-program x", ""), BashCall("sudo ls", ""), BashCall("rm src/a", ""), {Tool: "mcp__a__b", Args: Args{}},
	}
	loose, tight := 0, 0
	for _, confined := range []bool{false, true} {
		for _, def := range []Verdict{Deny, Ask, Allow} {
			for _, parent := range Modes() {
				for _, child := range Modes() {
					p := cfg
					p.AllowConfined, p.Default, p.Mode = confined, def, parent
					c := p
					c.Mode = child
					lead, sub, own := engine(t, p), engine(t, above(c, parent)), engine(t, c)
					for _, call := range calls {
						want, got, alone := lead.Check(t.Context(), call), sub.Check(t.Context(), call), own.Check(t.Context(), call)
						if got.Verdict > want.Verdict || got.Verdict > alone.Verdict {
							t.Errorf("%v under %v (default %v, confined %v): %v %v, parent %v, without it %v (%v)", child, parent, def, confined, call, got.Verdict, want.Verdict, alone.Verdict, got.Reason)
						}
						if alone.Verdict > want.Verdict {
							loose++
						}
						if got.Verdict == want.Verdict && got.Verdict == alone.Verdict {
							tight++
						}
					}
				}
			}
		}
	}
	if loose < 100 || tight < 100 {
		t.Errorf("the test has no teeth: %d and %d", loose, tight)
	}
}

func TestRulesOfTheModesAboveHold(t *testing.T) {
	dir, cfg := place(t)
	if err := os.WriteFile(dir+"/src/a", nil, 0o644); err != nil {
		t.Fatal(err)
	}
	cfg.Rules = []Rule{
		{Kind: DenyRule, Pattern: "run_bash(make *)", Modes: []Mode{ModeDefault}},
		{Kind: DenyRule, Pattern: "read_file(src/a)", Modes: []Mode{ModeDefault}},
		{Kind: AskRule, Pattern: "run_bash(ls *)", Modes: []Mode{ModeDefault}},
		{Kind: AllowRule, Pattern: "run_bash(npm *)", Modes: []Mode{ModeAcceptEdits}},
		{Kind: AllowRule, Pattern: "run_bash(cargo *)", Modes: []Mode{ModeAcceptEdits, ModeDefault}},
	}
	cfg.Mode = ModeAcceptEdits
	alone, below := engine(t, cfg), engine(t, above(cfg, ModeDefault))
	for _, tt := range []struct {
		script       string
		alone, below Verdict
	}{
		{"make all", Ask, Deny}, {"ls src", Allow, Ask}, {"npm test", Allow, Ask}, {"cargo test", Allow, Allow}, {"touch src/b", Allow, Ask},
	} {
		a, b := alone.Check(t.Context(), BashCall(tt.script, "")), below.Check(t.Context(), BashCall(tt.script, ""))
		if a.Verdict != tt.alone || b.Verdict != tt.below {
			t.Errorf("%s: %v (%v), below %v (%v)", tt.script, a.Verdict, a.Reason, b.Verdict, b.Reason)
		}
	}
	if a, b := alone.KernelDenials(nil), below.KernelDenials(nil); len(a) != 0 || len(b) != 1 {
		t.Errorf("denials for the kernel: %+v and %+v", a, b)
	}
}

func TestDontAskAboveDenies(t *testing.T) {
	_, cfg := place(t)
	asked := false
	cfg.Mode, cfg.Default = ModeBubble, Ask
	cfg.Parent = yesAsker{&asked}
	modes := []Mode{ModeDontAsk}
	cfg.Above = func() []Mode { return modes }
	e := engine(t, cfg)
	if d := e.Decide(t.Context(), BashCall("make", "")); d.Verdict != Deny || asked || d.Reason.Type() != "mode" {
		t.Errorf("%v (%v), asked %v", d.Verdict, d.Reason, asked)
	}
	modes = []Mode{ModeDefault} // the parent's mode was changed
	if d := e.Decide(t.Context(), BashCall("make", "")); d.Verdict != Allow || !asked {
		t.Errorf("%v (%v), asked %v", d.Verdict, d.Reason, asked)
	}
}

// yesAsker allows, and notes that it was asked.
type yesAsker struct{ asked *bool }

func (a yesAsker) Ask(context.Context, Question) (Answer, error) {
	*a.asked = true
	return Answer{Verdict: Allow}, nil
}
