package settings

import (
	"path/filepath"
	"testing"
	"time"

	"sandboxd/policy"
)

func config(t *testing.T, text string) (*Effective, *policy.Engine) {
	t.Helper()
	p := newPlace(t)
	p.user(text)
	e := p.load(p.options())
	cfg, err := e.Config()
	if err != nil {
		t.Fatal(err)
	}
	cfg.Confinement = policy.FullyConfined
	eng, err := policy.NewEngine(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return e, eng
}

// One policy, two targets: what [filesystem] closes for the kernel is closed for
// the tools and foreseen for commands, and what it opens is open.
func TestFilesystemEntriesDecide(t *testing.T) {
	e, eng := config(t, `default = "allow"
[filesystem]
deny = ["~/.aws", "secret"]
read = ["~/.aws/config", "/srv/data"]
write = ["/srv/out"]
protect = ["deploy"]
tmp = "none"
`)
	read := func(path string) policy.Call {
		return policy.Call{Tool: "read_file", Args: policy.Args{"file_path": path}, Cwd: e.Workspace}
	}
	for _, tt := range []struct {
		name string
		call policy.Call
		want policy.Verdict
	}{
		{"hidden from a tool", read("secret/k"), policy.Deny},
		{"hidden from a command", policy.BashCall("cat secret/k", e.Workspace), policy.Deny},
		{"hidden from a redirect", policy.BashCall("echo x > secret/k", e.Workspace), policy.Deny},
		{"hidden in the home", read(e.Home + "/.aws/credentials"), policy.Deny},
		{"a part of it opened", read(e.Home + "/.aws/config"), policy.Allow},
		{"opened for reading is not for writing", policy.BashCall("echo x > ~/.aws/config", e.Workspace), policy.Deny},
		{"granted for reading", read("/srv/data/x"), policy.Allow},
		{"granted for writing", policy.BashCall("touch /srv/out/x", e.Workspace), policy.Allow},
		{"not granted", policy.BashCall("touch /srv/data/x", e.Workspace), policy.Ask},
		{"protected", policy.BashCall("touch deploy/x", e.Workspace), policy.Ask},
		{"no temporary directory", policy.BashCall("touch /tmp/x", e.Workspace), policy.Ask},
		{"everything else", policy.BashCall("touch x", e.Workspace), policy.Allow},
	} {
		if d := eng.Check(t.Context(), tt.call); d.Verdict != tt.want {
			t.Errorf("%s: %v (%v), want %v", tt.name, d.Verdict, d.Reason, tt.want)
		}
	}
}

// A path with the signs of a pattern means itself.
func TestFilesystemEntryIsNoPattern(t *testing.T) {
	e, eng := config(t, "default = \"allow\"\n[filesystem]\ndeny = [\"a{b,c}\"]\n")
	for path, want := range map[string]policy.Verdict{"a{b,c}/x": policy.Deny, "ab/x": policy.Allow} {
		call := policy.Call{Tool: "read_file", Args: policy.Args{"file_path": path}, Cwd: e.Workspace}
		if d := eng.Check(t.Context(), call); d.Verdict != want {
			t.Errorf("%s: %v (%v), want %v", path, d.Verdict, d.Reason, want)
		}
	}
}

// A file does not start bypassPermissions; the caller does, unless it is
// forbidden.
func TestBypassIsEnabledByTheCallerAlone(t *testing.T) {
	p := newPlace(t)
	p.user("mode = \"bypassPermissions\"\n")
	if e := p.load(p.options()); e.Mode.V != "default" || len(e.Ignored) != 1 {
		t.Errorf("by a file: mode %s, notes %v", e.Mode.V, e.Ignored)
	}
	o := p.options()
	o.Layers = []*Policy{FlagMode("bypassPermissions")}
	cfg, err := p.load(o).Config()
	if err != nil || cfg.Mode != policy.ModeBypass || !cfg.Bypass.EnabledAtStart || cfg.Bypass.Forbidden {
		t.Errorf("by a flag: %v %+v, %v", cfg.Mode, cfg.Bypass, err)
	}
}

func TestLintNamesFileAndLine(t *testing.T) {
	p := newPlace(t)
	p.user("[rules]\ndeny = [\"run_bash(git push *)\"]\nallow = [\n  \"run_bash(git push origin *)\",\n]\n")
	for _, f := range p.load(p.options()).Lint(nil, time.Now()) {
		if f.Line == 4 && f.Severity == "warning" && f.Fix != "" {
			return
		}
	}
	t.Errorf("the shadowed allow rule of line 4 is not reported: %+v", p.load(p.options()).Lint(nil, time.Now()))
}

// The file tools refuse names that mean something else on Windows when a file
// says so, also one that came with the project.
func TestStrictNamesIsASetting(t *testing.T) {
	verdict := func(eng *policy.Engine, e *Effective, name string) policy.Verdict {
		t.Helper()
		call := policy.Call{Tool: "file_write", Args: policy.Args{"file_path": name, "content": "x"}, Cwd: e.Workspace}
		return eng.Check(t.Context(), call).Verdict
	}
	const loose = "[rules]\nallow = [\"file_write\"]\n"
	for _, tt := range []struct {
		name, user, project string
		want                policy.Verdict
	}{
		{"nobody says so", loose, "", policy.Allow},
		{"the user does", loose + "[filesystem]\nstrict_names = true\n", "", policy.Deny},
		{"the project does", loose, "[filesystem]\nstrict_names = true\n", policy.Deny},
		{"the project cannot lift it", loose + "[filesystem]\nstrict_names = true\n", "[filesystem]\nstrict_names = false\n", policy.Deny},
	} {
		p := newPlace(t)
		p.user(tt.user)
		if tt.project != "" {
			p.write(filepath.Join(p.work, ProjectFile), tt.project)
		}
		e := p.load(p.options())
		cfg, err := e.Config()
		if err != nil {
			t.Fatal(err)
		}
		eng, err := policy.NewEngine(cfg)
		if err != nil {
			t.Fatal(err)
		}
		if got := verdict(eng, e, "PROGRA~1"); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
		if got := verdict(eng, e, "program"); got != policy.Allow {
			t.Errorf("%s: an ordinary name: %v", tt.name, got)
		}
	}
}
