package settings

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"sandboxd/policy"
)

// place is a made-up home, project and /etc for one test.
type place struct {
	t                   *testing.T
	home, work, managed string
}

func newPlace(t *testing.T) place {
	t.Helper()
	root := t.TempDir()
	p := place{t, filepath.Join(root, "home"), filepath.Join(root, "work"), filepath.Join(root, "etc")}
	for _, dir := range []string{p.home, p.work, p.managed} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

func (p place) write(path, text string) string {
	p.t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		p.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		p.t.Fatal(err)
	}
	return path
}

func (p place) user(text string) {
	p.write(filepath.Join(p.home, ".config/sandboxd/policy.toml"), text)
}
func (p place) project(text string) { p.write(filepath.Join(p.work, ProjectFile), text) }
func (p place) local(text string)   { p.write(filepath.Join(p.work, LocalFile), text) }
func (p place) etc(text string)     { p.write(filepath.Join(p.managed, "policy.toml"), text) }

func (p place) options(environ ...string) Options {
	return Options{Workspace: p.work, ManagedDir: p.managed, Environ: append([]string{"HOME=" + p.home}, environ...)}
}

func (p place) load(o Options) *Effective {
	p.t.Helper()
	e, err := Load(o)
	if err != nil {
		p.t.Fatal(err)
	}
	return e
}

func (p place) trust(files ...string) {
	p.t.Helper()
	store, err := OpenTrust(StateDir(p.options().Environ), []int{os.Geteuid(), 0})
	if err != nil {
		p.t.Fatal(err)
	}
	for _, f := range files {
		data, err := os.ReadFile(filepath.Join(p.work, f))
		if err != nil {
			p.t.Fatal(err)
		}
		if err := store.Add(filepath.Join(p.work, f), data, time.Now()); err != nil {
			p.t.Fatal(err)
		}
	}
}

// Row 39: for each pair of sources the stronger one sets the value.
func TestStrongerSourceWinsForEveryPair(t *testing.T) {
	kinds := []policy.SourceKind{policy.SourceManaged, policy.SourceCLI, policy.SourceCommand, policy.SourceSession,
		policy.SourceLocalProject, policy.SourceProject, policy.SourceUser}
	for _, a := range kinds {
		for _, b := range kinds {
			if a == b {
				continue
			}
			p := newPlace(t)
			layer := func(k policy.SourceKind, mode string) *Policy {
				from := policy.Source{Kind: k}
				return &Policy{Source: from, Mode: set(mode, from), Rules: []policy.Rule{{Kind: policy.AllowRule, Pattern: mode, Source: from}}}
			}
			// Both orders of the list, so that it is the kind that decides.
			e := p.load(Options{ManagedDir: p.managed, Layers: []*Policy{layer(a, "plan"), layer(b, "auto")}})
			want, first := "plan", a
			if b < a {
				want, first = "auto", b
			}
			if e.Mode.V != want || e.Mode.From.Kind != first {
				t.Errorf("%v over %v: mode %v from %v, want %v", a, b, e.Mode.V, e.Mode.From.Kind, want)
			}
			if e.Rules[0].Source.Kind != first || len(e.Rules) != 2 {
				t.Errorf("%v over %v: rules %+v, want that of %v first", a, b, e.Rules, first)
			}
		}
	}
}

func TestEveryValueKnowsItsFileAndLine(t *testing.T) {
	p := newPlace(t)
	p.etc("[limits]\ntimeout = \"30s\"\n")
	p.user("mode = \"plan\"\n\n[rules]\nallow = [\"run_bash(ls)\"]\n")
	p.project("\n\n[rules]\ndeny = [\"run_bash(rm *)\"]\n")
	e := p.load(p.options())
	user := filepath.Join(p.home, ".config/sandboxd/policy.toml")
	if want := set("plan", policy.Source{Kind: policy.SourceUser, File: user, Line: 1}); e.Mode != want {
		t.Errorf("mode %+v, want %+v", e.Mode, want)
	}
	if want := set(30*time.Second, policy.Source{Kind: policy.SourceManaged, File: filepath.Join(p.managed, "policy.toml"), Line: 2}); e.Limits.Timeout != want {
		t.Errorf("timeout %+v, want %+v", e.Limits.Timeout, want)
	}
	want := []policy.Rule{
		{Kind: policy.DenyRule, Pattern: "run_bash(rm *)", Source: policy.Source{Kind: policy.SourceProject, File: filepath.Join(p.work, ProjectFile), Line: 4}},
		{Kind: policy.AllowRule, Pattern: "run_bash(ls)", Source: policy.Source{Kind: policy.SourceUser, File: user, Line: 4}},
	}
	if !reflect.DeepEqual(e.Rules, want) {
		t.Errorf("rules\n got %+v\nwant %+v", e.Rules, want)
	}
}

func TestStrongerSourceIsNotOpenedByAWeakerOne(t *testing.T) {
	p := newPlace(t)
	p.etc("[filesystem]\ndeny = [\"~/.aws\"]\nprotect = [\"deploy\"]\n")
	p.user("[filesystem]\nread = [\"~/.aws/config\", \"deploy/x\"]\nwrite = [\"deploy/tmp\", \"/srv\"]\n")
	e := p.load(p.options())
	var got []string
	for _, g := range e.Paths {
		got = append(got, string(g.Access)+" "+g.Path)
	}
	want := []string{"deny ~/.aws", "protect deploy", "ro deploy/x", "rw /srv"}
	slices.Sort(got)
	slices.Sort(want)
	if !reflect.DeepEqual(got, want) {
		t.Errorf("paths %q, want %q", got, want)
	}
	if len(e.Ignored) != 2 {
		t.Errorf("notes %v, want 2", e.Ignored)
	}
}

func TestNetworkOfSources(t *testing.T) {
	for _, tt := range []struct {
		name, etc, user, project string
		want                     []string
	}{
		{"nothing", "", "", "", []string{"none"}},
		{"hosts add up", "", `["a.test:1"]`, `["b.test:2"]`, []string{"b.test:2", "a.test:1"}},
		{"none from the stronger", "", `["a.test:1"]`, `["none"]`, []string{"none"}},
		{"empty list is none", "", `["a.test:1"]`, `[]`, []string{"none"}},
		{"a managed list is the whole list", `["a.test:1"]`, `["b.test:2"]`, "", []string{"a.test:1"}},
		{"a managed list narrows full", `["a.test:1"]`, `["full"]`, "", []string{"a.test:1"}},
		{"hosts narrow full", "", `["full"]`, `["b.test:2"]`, []string{"b.test:2"}},
		{"none next to a host", "", `["a.test:1", "none"]`, "", []string{"none"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := newPlace(t)
			for text, write := range map[string]func(string){"e" + tt.etc: p.etc, "u" + tt.user: p.user, "p" + tt.project: p.project} {
				if len(text) > 1 {
					write("[network]\nallow = " + text[1:] + "\n")
				}
			}
			if tt.project != "" {
				p.trust(ProjectFile)
			}
			if got := p.load(p.options()).Grant().Network; !reflect.DeepEqual(got, tt.want) {
				t.Errorf("network %q, want %q", got, tt.want)
			}
		})
	}
}

func TestForbiddenMode(t *testing.T) {
	p := newPlace(t)
	p.etc("[modes]\nforbid = [\"bypassPermissions\"]\n")
	p.user("mode = \"bypassPermissions\"\n")
	e := p.load(p.options())
	if e.Mode.V != "default" || len(e.Ignored) != 1 {
		t.Errorf("mode %s, notes %v; want default and a note", e.Mode.V, e.Ignored)
	}
	if _, err := Load(p.options("SANDBOXD_MODE=bypassPermissions")); err == nil {
		t.Error("a forbidden mode from the caller gave no error")
	}
}

// Rows 36 to 38 and 86.
func TestEnvironmentOfTheDesignDocuments(t *testing.T) {
	p := newPlace(t)
	e := p.load(p.options(
		"AGENT_PERMISSIONS_DENY=run_bash(rm *),run_bash(dd if=a,b *)\nweb_fetch",
		"AGENT_PERMISSIONS_ASK=file_write", "AGENT_PERMISSIONS_ALLOW=read_file",
		"AGENT_PERMISSION_MODE=dontAsk", "AGENT_ADDITIONAL_DIRS=/srv/a:/srv/b=rw",
		"AGENT_TOOL_TIMEOUT_SECS=7", "AGENT_DENIAL_MAX_CONSECUTIVE=5", "AGENT_DENIAL_MAX_TOTAL=9"))
	var got []string
	for _, r := range e.Rules {
		got = append(got, r.Kind.String()+" "+r.Pattern+" "+Label(r.Source))
	}
	want := []string{
		"deny run_bash(rm *) env AGENT_PERMISSIONS_DENY", "deny run_bash(dd if=a,b *) env AGENT_PERMISSIONS_DENY",
		"deny web_fetch env AGENT_PERMISSIONS_DENY", "ask file_write env AGENT_PERMISSIONS_ASK", "allow read_file env AGENT_PERMISSIONS_ALLOW",
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("rules\n got %q\nwant %q", got, want)
	}
	g := e.Grant()
	if e.Mode.V != "dontAsk" || g.Limits.Timeout != 7*time.Second || e.Limits.DenialsInRow.V != 5 || e.Limits.DenialsTotal.V != 9 {
		t.Errorf("mode %s, limits %+v", e.Mode.V, e.Limits)
	}
	if len(g.Paths) != 2 || g.Paths[0].Access != policy.GrantRead || g.Paths[1].Access != policy.GrantWrite {
		t.Errorf("paths %+v", g.Paths)
	}
	for _, bad := range []string{"AGENT_PERMISSION_MODE=wild", "AGENT_TOOL_TIMEOUT_SECS=soon", "AGENT_TOOL_TIMEOUT_SECS=0", "AGENT_ADDITIONAL_DIRS=relative", "AGENT_DENIAL_MAX_TOTAL=-1"} {
		if _, err := Load(p.options(bad)); err == nil {
			t.Errorf("%s gave no error", bad)
		}
	}
}

// Row 37: the names of the design document's configuration.
func TestConfigFieldsOfTheDesignDocument(t *testing.T) {
	p := newPlace(t)
	p.user("permission_mode = \"plan\"\npermission_deny_rules = [\"a\"]\npermission_ask_rules = [\"b\"]\npermission_allow_rules = [\"c\"]\n")
	e := p.load(p.options())
	var got []string
	for _, r := range e.Rules {
		got = append(got, r.Kind.String()+" "+r.Pattern)
	}
	if want := []string{"deny a", "ask b", "allow c"}; !reflect.DeepEqual(got, want) || e.Mode.V != "plan" {
		t.Errorf("rules %q mode %s, want %q plan", got, e.Mode.V, want)
	}
}

// Row 47.
func TestProfilesAndExtends(t *testing.T) {
	p := newPlace(t)
	p.write(filepath.Join(p.home, ".config/sandboxd/profiles/ci.yaml"), "extends: strict\nmode: dontAsk\n")
	p.write(filepath.Join(p.managed, "profiles/strict.toml"), "mode = \"plan\"\n[rules]\ndeny = [\"web_fetch\"]\n")
	p.user("[profiles.quick]\nmode = \"acceptEdits\"\n")
	o := p.options()
	o.Profile = "ci"
	e := p.load(o)
	if e.Mode.V != "dontAsk" || len(e.Rules) != 1 || e.Rules[0].Pattern != "web_fetch" {
		t.Errorf("profile ci: mode %s, rules %+v", e.Mode.V, e.Rules)
	}
	o.Profile = "quick"
	if e := p.load(o); e.Mode.V != "acceptEdits" {
		t.Errorf("profile quick: mode %s", e.Mode.V)
	}
	o.Profile = p.write(filepath.Join(p.work, "ci.toml"), "mode = \"plan\"\n")
	if e := p.load(o); e.Mode.V != "plan" {
		t.Errorf("profile file: mode %s", e.Mode.V)
	}
	o.Profile = p.write(filepath.Join(p.work, "bad.toml"), "moode = \"plan\"\n")
	if _, err := Load(o); err == nil || !strings.Contains(err.Error(), "did you mean mode?") {
		t.Errorf("unknown key of a profile: %v", err)
	}
	o.Profile = "nobody"
	if _, err := Load(o); err == nil {
		t.Error("a profile that is not there gave no error")
	}
	p.user("extends = [\"a\"]\n[profiles.a]\nextends = [\"b\"]\n[profiles.b]\nextends = [\"a\"]\n")
	if _, err := Load(p.options()); err == nil || !strings.Contains(err.Error(), "circle") {
		t.Errorf("a circle of extends: %v", err)
	}
}

func TestGrantCarriesTheWholePolicy(t *testing.T) {
	p := newPlace(t)
	p.user(strings.Replace(fullPolicy, "extends = [\"base\"]\n", "", 1))
	g := p.load(p.options()).Grant()
	if g.Workspace != p.work || g.PrivateTmp || !g.NoExecWrite || g.Syscalls != "debug" || g.Limits.MemoryBytes != 2<<30 || g.Limits.Tasks != 64 ||
		!reflect.DeepEqual(g.EnvPass, []string{"LANG"}) || !reflect.DeepEqual(g.EnvSet, []string{"STAGE=test"}) || len(g.Paths) != 7 {
		t.Errorf("grant %+v", g)
	}
	p.user("mode = \"plan\"\n")
	if g := p.load(p.options()).Grant(); !g.ReadOnlyWorkspace || !g.PrivateTmp {
		t.Errorf("mode plan: grant %+v, want a read-only workspace", g)
	}
}
