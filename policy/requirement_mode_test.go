package policy

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestSevenModes is rows 49 and 50: the names that settings, flags and the API
// use.
func TestSevenModes(t *testing.T) {
	want := []string{"default", "acceptEdits", "plan", "auto", "dontAsk", "bypassPermissions", "bubble"}
	var got []string
	for _, m := range Modes() {
		got = append(got, m.String())
	}
	if !slices.Equal(got, want) {
		t.Errorf("modes %q, want %q", got, want)
	}
	_, cfg := place(t)
	cfg.Bypass.EnabledAtStart = true
	for _, name := range want {
		m, err := ParseMode(name)
		if err != nil {
			t.Error(err)
			continue
		}
		c := cfg
		c.Mode = m
		if e := engine(t, c); e.Mode().String() != name {
			t.Errorf("an engine of mode %s is in mode %v", name, e.Mode())
		}
	}
	for _, name := range []string{"", "Plan", "bypass", "acceptedits", "unknown"} {
		if m, err := ParseMode(name); err == nil || m != ModeDefault {
			t.Errorf("%q: mode %v, %v; want an error and the default", name, m, err)
		}
	}
}

// TestModeTable is rows 51 to 57: read, write and dangerous in each mode, for
// tools and commands, inside the workspace and in a further writable root.
func TestModeTable(t *testing.T) {
	dir, cfg := place(t)
	more := filepath.Join(filepath.Dir(dir), "more")
	if err := os.Mkdir(more, 0o755); err != nil {
		t.Fatal(err)
	}
	cfg.Roots = []Root{{Path: more, Write: true}}
	cfg.Bypass.EnabledAtStart = true
	read, ask := []Call{read("src/a"), BashCall("cat src/a", "")}, Ask
	inside := []Call{write("src/a"), BashCall("touch src/a", "")}
	elsewhere := []Call{write(more + "/a"), BashCall("touch "+more+"/a", "")}
	command := []Call{BashCall("make", ""), BashCall("npm install", "")}
	dangerous := []Call{write(".git/hooks/x"), BashCall("sudo ls", ""), BashCall("vim x", ""), BashCall("$(cat x) y", ""), BashCall("touch /etc/x", "")}
	for _, tt := range []struct {
		mode                                        Mode
		read, inside, elsewhere, command, dangerous Verdict
		// default = "allow" and full confinement loosen no more than this.
		openInside, openCommand, openDangerous Verdict
	}{
		{ModeDefault, Allow, ask, ask, ask, ask, Allow, Allow, ask},
		{ModeAcceptEdits, Allow, Allow, ask, ask, ask, Allow, Allow, ask},
		{ModeBypass, Allow, Allow, Allow, Allow, ask, Allow, Allow, ask},
		{ModeDontAsk, Allow, Deny, Deny, Deny, Deny, Deny, Deny, Deny},
		{ModePlan, Allow, ask, ask, ask, ask, ask, ask, ask},
		{ModeBubble, Allow, ask, ask, ask, ask, Allow, Allow, ask},
	} {
		cfg.Mode = tt.mode
		open := cfg
		open.Default = Allow
		e, o := engine(t, cfg), engine(t, open)
		check := func(what string, e *Engine, calls []Call, want Verdict) {
			t.Helper()
			for _, c := range calls {
				if d := e.Check(t.Context(), c); d.Verdict != want {
					t.Errorf("mode %v, %s: %s %v is %v (%v), want %v", tt.mode, what, c.Tool, c.Args, d.Verdict, d.Reason, want)
				}
			}
		}
		check("read", e, read, tt.read)
		check("write inside", e, inside, tt.inside)
		check("write in another root", e, elsewhere, tt.elsewhere)
		check("command", e, command, tt.command)
		check("dangerous", e, dangerous, tt.dangerous)
		check("read, default allow", o, read, Allow)
		check("write inside, default allow", o, inside, tt.openInside)
		check("command, default allow", o, command, tt.openCommand)
		check("dangerous, default allow", o, dangerous, tt.openDangerous)
	}
}

// TestDangerousNeverReachesTheClassifier is row 56.
func TestDangerousNeverReachesTheClassifier(t *testing.T) {
	_, cfg := place(t)
	for _, tt := range []struct {
		call  Call
		want  Verdict
		asked int
	}{
		{Call{Tool: "web_search", Args: Args{"query": "x"}}, Allow, 1},
		{BashCall("make", ""), Allow, 1},
		{write(".git/hooks/x"), Deny, 0},
		{BashCall("sudo ls", ""), Deny, 0},
		{BashCall("touch /etc/x", ""), Deny, 0},
		{BashCall("$(cat x) y", ""), Deny, 0},
		{BashCall("make; vim x", ""), Deny, 0},
	} {
		c := cfg
		s := &scores{list: []float64{1}}
		c.Mode, c.Classifier = ModeAuto, s
		if d := engine(t, c).Decide(t.Context(), tt.call); d.Verdict != tt.want || s.asked != tt.asked {
			t.Errorf("%v: %v by %v, classifier asked %d times; want %v, %d", tt.call.Args, d.Verdict, d.Reason, s.asked, tt.want, tt.asked)
		}
	}
}

// TestModeIsATransform is row 58: what a mode makes of a call that nothing else
// decided, and of one that a rule allows.
func TestModeIsATransform(t *testing.T) {
	_, cfg := place(t)
	cfg.Bypass.EnabledAtStart = true
	for _, tt := range []struct {
		mode           Mode
		asked, allowed Verdict
	}{
		{ModeDefault, Ask, Allow}, {ModeBypass, Allow, Allow}, {ModeDontAsk, Deny, Allow}, {ModeBubble, Ask, Allow},
	} {
		cfg.Mode = tt.mode
		call := Call{Tool: "web_search", Args: Args{"query": "x"}}
		if d := engine(t, cfg).Check(t.Context(), call); d.Verdict != tt.asked {
			t.Errorf("mode %v makes %v of a question (%v), want %v", tt.mode, d.Verdict, d.Reason, tt.asked)
		}
		if d := engine(t, cfg, allow("web_search")).Check(t.Context(), call); d.Verdict != tt.allowed {
			t.Errorf("mode %v makes %v of what a rule allows (%v)", tt.mode, d.Verdict, d.Reason)
		}
	}
}

// TestAcceptEditsFollowsLinks is row 59: a link does not carry an edit out of the
// workspace.
func TestAcceptEditsFollowsLinks(t *testing.T) {
	dir, cfg := place(t)
	out := filepath.Join(filepath.Dir(dir), "out")
	if err := os.Mkdir(out, 0o755); err != nil {
		t.Fatal(err)
	}
	mustLink(t, out, filepath.Join(dir, "away"))
	mustLink(t, filepath.Join(out, "new"), filepath.Join(dir, "leaf"))
	mustLink(t, "src", filepath.Join(dir, "near"))
	mustLink(t, ".git", filepath.Join(dir, "g"))
	cfg.Mode = ModeAcceptEdits
	e := engine(t, cfg)
	for p, want := range map[string]Verdict{"near/a": Allow, "src/a": Allow, "away/a": Ask, "leaf": Ask, "near/../../out/a": Ask, "away/../w/src/a": Allow, "g/hooks/x": Ask} {
		for _, c := range []Call{write(p), BashCall("touch "+p, ""), BashCall("echo x > "+p, "")} {
			if d := e.Check(t.Context(), c); d.Verdict != want {
				t.Errorf("%s %v: %v (%v), want %v", c.Tool, c.Args, d.Verdict, d.Reason, want)
			}
		}
	}
}

// TestProtectedNamesAskInEveryMode is rows 93 and 94: the names of the document,
// whether they exist or not, at any depth, for tools and commands.
func TestProtectedNamesAskInEveryMode(t *testing.T) {
	dir, cfg := place(t)
	cfg.Bypass.EnabledAtStart = true
	cfg.Default, cfg.AllowConfined, cfg.Confinement = Allow, true, FullyConfined
	if err := os.WriteFile(filepath.Join(dir, ".bashrc"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	names := []string{".gitconfig", ".gitmodules", ".bashrc", ".zshrc", ".claude.json", ".git/config", ".git/hooks/pre-commit", ".vscode/tasks.json", ".idea/workspace.xml", ".claude/settings.json"}
	for _, mode := range Modes() {
		cfg.Mode = mode
		e := engine(t, cfg, allow("file_write"), allow("file_write(/**)"), allow("Bash"))
		want := Ask
		if mode == ModeDontAsk {
			want = Deny
		}
		for _, name := range names {
			for _, p := range []string{name, "deep/er/" + name, "src/../" + name} {
				for _, c := range []Call{write(p), {Tool: "Edit", Args: Args{"file_path": p, "new_string": "x"}}, BashCall("echo x > "+p, ""), BashCall("cp src/a "+p, "")} {
					if d := e.Check(t.Context(), c); d.Verdict != want {
						t.Errorf("mode %v: %s %v is %v (%v), want %v", mode, c.Tool, c.Args, d.Verdict, d.Reason, want)
					}
				}
			}
		}
		if mode == ModeDontAsk || mode == ModePlan {
			continue
		}
		for _, p := range []string{".gitignore", "bashrc", "src/claude.json", ".github/x"} {
			if d := e.Check(t.Context(), write(p)); d.Verdict != Allow {
				t.Errorf("mode %v: write %s is %v (%v)", mode, p, d.Verdict, d.Reason)
			}
		}
	}
}

// TestClassifierSeesTheCallOnly is row 157: a script as it is, other calls as
// JSON, and nothing that a tool printed or a hook added.
func TestClassifierSeesTheCallOnly(t *testing.T) {
	dir, cfg := place(t)
	cfg.Mode = ModeAuto
	cfg.Hooks = []Hook{&hook{name: "h", result: HookResult{Action: HookContinue, Context: "output of a tool"}}}
	for _, tt := range []struct {
		call Call
		want ClassifierInput
	}{
		{BashCall("make  x # y", ""), ClassifierInput{Tool: "run_bash", Text: "make  x # y", Cwd: dir}},
		{Call{Tool: "WebFetch", Args: Args{"url": "https://a.test/", "prompt": "p"}}, ClassifierInput{Tool: "web_fetch", Text: `{"prompt":"p","url":"https://a.test/"}`, Cwd: dir}},
	} {
		s := &scores{list: []float64{1}}
		cfg.Classifier = s
		d := engine(t, cfg).Decide(t.Context(), tt.call)
		if s.asked != 1 || s.saw != tt.want {
			t.Errorf("the classifier saw %+v, want %+v", s.saw, tt.want)
		}
		if !strings.Contains(strings.Join(d.Context, ""), "output") {
			t.Errorf("the hook's context is lost: %q", d.Context)
		}
	}
}
