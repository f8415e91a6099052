package settings

import (
	"os"
	"path/filepath"
	"testing"

	"sandboxd/policy"
)

// decider makes the engine of an effective policy.
func decider(t *testing.T, e *Effective) *policy.Engine {
	t.Helper()
	c, err := e.Config()
	if err != nil {
		t.Fatal(err)
	}
	engine, err := policy.NewEngine(c)
	if err != nil {
		t.Fatal(err)
	}
	return engine
}

// Row 86: a further directory is readable, and writable only when it is marked;
// its place is told.
func TestAdditionalDirectories(t *testing.T) {
	p := newPlace(t)
	read, write, other := t.TempDir(), t.TempDir(), t.TempDir()
	e := p.load(p.options("AGENT_ADDITIONAL_DIRS="+read+":"+write+"=rw", "SANDBOXD_MODE=acceptEdits"))
	engine := decider(t, e)
	for _, tt := range []struct {
		tool, path string
		want       policy.Verdict
	}{
		{"Read", read + "/a", policy.Allow}, {"Read", write + "/a", policy.Allow}, {"Write", read + "/a", policy.Ask}, {"Write", write + "/a", policy.Ask},
		{"Write", p.work + "/a", policy.Allow}, {"Write", other + "/a", policy.Ask},
	} {
		d := engine.Check(t.Context(), policy.Call{Tool: tt.tool, Args: policy.Args{"file_path": tt.path, "content": "x"}})
		if d.Verdict != tt.want {
			t.Errorf("%s %s: %v by %v, want %v", tt.tool, tt.path, d.Verdict, d.Reason, tt.want)
		}
		// Outside the roots a write has a floor; in a marked one it is a question of the mode.
		if s, ok := d.Reason.(policy.SafetyReason); tt.tool == "Write" && (ok && s.Check == "outside-roots") != (tt.path == read+"/a" || tt.path == other+"/a") {
			t.Errorf("%s %s: %v by %v", tt.tool, tt.path, d.Verdict, d.Reason)
		}
	}
	for _, g := range e.Paths {
		if Label(g.Source) != "env AGENT_ADDITIONAL_DIRS" {
			t.Errorf("%s %s comes from %q", g.Access, g.Path, Label(g.Source))
		}
	}
	for _, bad := range []string{"relative", "~other/x"} {
		if _, err := Load(p.options("AGENT_ADDITIONAL_DIRS=" + bad)); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}

// Row 41: a rule saved at a level is there after a restart, at that level, and
// takes its place among eight levels.
func TestSavedRulesSurviveWithTheirSource(t *testing.T) {
	p := newPlace(t)
	owners := []int{os.Geteuid(), 0}
	files := map[policy.SourceKind]string{
		policy.SourceManaged:      filepath.Join(p.managed, "policy.toml"),
		policy.SourceLocalProject: filepath.Join(p.work, LocalFile),
		policy.SourceProject:      filepath.Join(p.work, ProjectFile),
		policy.SourceUser:         filepath.Join(p.home, ".config/sandboxd/policy.toml"),
	}
	for kind, file := range files {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := AddRule(file, policy.Rule{Kind: policy.DenyRule, Pattern: "run_bash(" + kind.String() + " *)"}, owners); err != nil {
			t.Fatal(err)
		}
	}
	o := p.options("AGENT_PERMISSIONS_DENY=run_bash(variable *)")
	for _, kind := range []policy.SourceKind{policy.SourceCommand, policy.SourceSession} {
		from := policy.Source{Kind: kind}
		o.Layers = append(o.Layers, &Policy{Source: from, Rules: []policy.Rule{{Kind: policy.DenyRule, Pattern: "run_bash(" + kind.String() + " *)", Source: from}}})
	}
	e := p.load(o) // all that is known comes from the files and the caller
	var kinds []policy.SourceKind
	for _, r := range e.Rules {
		kinds = append(kinds, r.Source.Kind)
		if file, ok := files[r.Source.Kind]; ok && (r.Source.File != file || r.Source.Line == 0 || r.Pattern != "run_bash("+r.Source.Kind.String()+" *)") {
			t.Errorf("rule %s comes from %s", r.Pattern, Label(r.Source))
		}
	}
	want := []policy.SourceKind{policy.SourceManaged, policy.SourceCLI, policy.SourceCommand, policy.SourceSession, policy.SourceLocalProject, policy.SourceProject, policy.SourceUser}
	if len(kinds) != len(want) {
		t.Fatalf("rules of %v, want %v", kinds, want)
	}
	for i := range want {
		if kinds[i] != want[i] {
			t.Errorf("rules of %v, want %v", kinds, want)
			break
		}
	}
	if e.Default.From.Kind != policy.SourceDefault {
		t.Errorf("what nobody said comes from %v", e.Default.From.Kind)
	}
	if ok, err := RemoveRule(files[policy.SourceUser], policy.DenyRule, "run_bash(user *)", owners); !ok || err != nil {
		t.Fatal(ok, err)
	}
	if again := p.load(o); len(again.Rules) != len(want)-1 {
		t.Errorf("%d rules after removal, want %d", len(again.Rules), len(want)-1)
	}
}

// Rows 36 and 37: the same rules from the environment and from a file.
func TestEnvironmentAndFileMeanTheSame(t *testing.T) {
	p := newPlace(t)
	fromEnv := p.load(p.options("AGENT_PERMISSIONS_DENY=run_bash(rm *)", "AGENT_PERMISSIONS_ASK=file_write", "AGENT_PERMISSIONS_ALLOW=run_bash(make *)", "AGENT_PERMISSION_MODE=acceptEdits"))
	p.user("permission_mode = \"acceptEdits\"\npermission_deny_rules = [\"run_bash(rm *)\"]\npermission_ask_rules = [\"file_write\"]\npermission_allow_rules = [\"run_bash(make *)\"]\n")
	fromFile := p.load(p.options())
	a, b := decider(t, fromEnv), decider(t, fromFile)
	for _, c := range []struct {
		call policy.Call
		want policy.Verdict
	}{
		{policy.BashCall("rm x", ""), policy.Deny}, {policy.BashCall("make x", ""), policy.Allow}, {policy.BashCall("make x && rm y", ""), policy.Deny},
		{policy.Call{Tool: "Write", Args: policy.Args{"file_path": "a"}}, policy.Ask}, {policy.BashCall("touch a", ""), policy.Allow}, {policy.BashCall("frob", ""), policy.Ask},
	} {
		x, y := a.Check(t.Context(), c.call), b.Check(t.Context(), c.call)
		if x.Verdict != c.want || y.Verdict != c.want {
			t.Errorf("%v: %v from the environment, %v from the file, want %v", c.call.Args, x.Verdict, y.Verdict, c.want)
		}
	}
}
