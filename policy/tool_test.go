package policy

import (
	"errors"
	"os"
	"strings"
	"testing"
)

func mustLink(t testing.TB, target, name string) {
	t.Helper()
	if err := os.Symlink(target, name); err != nil {
		t.Fatal(err)
	}
}

func TestDecodeArgs(t *testing.T) {
	for _, tt := range []struct {
		text string
		ok   bool
	}{
		{"", true}, {"{}", true}, {"null", true}, {`{"a":1,"b":{"a":2}}`, true}, {`{"a":["x",{"b":1},{"b":2}]}`, true},
		{`{"a":1,"a":2}`, false}, {`{"a":{"b":1,"b":2}}`, false}, {`{"a":[{"b":1,"b":2}]}`, false}, {`{"command":"ls","\u0063ommand":"rm"}`, false},
		{`{"a":1} x`, false}, {`[1]`, false}, {`"x"`, false}, {`{`, false},
		{strings.Repeat(`{"a":`, 100) + "1" + strings.Repeat("}", 100), false},
	} {
		args, err := DecodeArgs([]byte(tt.text))
		if (err == nil) != tt.ok {
			t.Errorf("%.40s: %v, %v", tt.text, args, err)
		}
	}
	if _, err := DecodeArgs([]byte(`{"a":1,"a":2}`)); !errors.Is(err, ErrDuplicateArgument) {
		t.Errorf("%v", err)
	}
}

func TestRuleForAWholeToolStaysInTheRoots(t *testing.T) {
	dir, cfg := place(t)
	e := engine(t, cfg, allow("read_file"), allow("grep_files(/var/data/**)"))
	for p, want := range map[string]Verdict{"src/a": Allow, dir: Allow, "../x": Ask, "~/x": Ask, "/usr/include/x.h": Allow} {
		if d := e.Check(t.Context(), read(p)); d.Verdict != want {
			t.Errorf("read %s: %v by %v, want %v", p, d.Verdict, d.Reason, want)
		}
	}
	if d := e.Check(t.Context(), Call{Tool: "Grep", Args: Args{"pattern": "x", "path": "/var/data/a"}}); d.Verdict != Allow {
		t.Errorf("a rule that names the place: %v by %v", d.Verdict, d.Reason)
	}
}

func TestEveryPathArgumentIsChecked(t *testing.T) {
	_, cfg := place(t)
	e := engine(t, cfg, deny("Read(secret)"), deny("Write(secret)"))
	for i := range builtinTools {
		tool := &builtinTools[i]
		for _, arg := range tool.Paths {
			args := Args{arg.Field: "src/../secret"}
			// The other names of the argument hold something harmless.
			for _, other := range tool.Paths {
				if other.Field != arg.Field {
					args[other.Field] = "src/ok"
				}
			}
			if d := e.Check(t.Context(), Call{Tool: tool.Name, Args: args}); d.Verdict != Deny {
				t.Errorf("%s, argument %s: %v by %v", tool.Name, arg.Field, d.Verdict, d.Reason)
			}
		}
	}
}

func TestArgumentsThatMakeNoSenseAsk(t *testing.T) {
	_, cfg := place(t)
	cfg.Default, cfg.Mode = Allow, ModeAcceptEdits
	e := engine(t, cfg, allow("file_write"), allow("web_fetch"))
	for _, c := range []Call{
		{Tool: "Write", Args: Args{"file_path": []any{"a"}}},
		{Tool: "Write", Args: Args{"file_path": 7.0}},
		{Tool: "Write", Args: Args{}},
		{Tool: "WebFetch", Args: Args{"url": map[string]any{}}},
		{Tool: "WebFetch", Args: Args{"url": "https://good.test\x00.evil.test/"}},
	} {
		if d := e.Check(t.Context(), c); d.Verdict == Allow {
			t.Errorf("%v: allowed by %v", c, d.Reason)
		}
	}
	for _, p := range []string{"", "a\x00b", strings.Repeat("x/", 20000)} {
		if d := e.Check(t.Context(), write(p)); d.Verdict != Deny {
			t.Errorf("write %.20q: %v by %v", p, d.Verdict, d.Reason)
		}
	}
}

func TestMaxFileSize(t *testing.T) {
	_, cfg := place(t)
	cfg.MaxFileSize = 10
	e := engine(t, cfg, allow("file_write"))
	for n, want := range map[int]Verdict{10: Allow, 11: Deny} {
		d := e.Check(t.Context(), Call{Tool: "Write", Args: Args{"file_path": "a", "content": strings.Repeat("x", n)}})
		if d.Verdict != want {
			t.Errorf("%d bytes: %v by %v, want %v", n, d.Verdict, d.Reason, want)
		}
	}
}

func TestDotsAndTildesAreCharacters(t *testing.T) {
	_, cfg := place(t)
	e := engine(t, cfg)
	for _, p := range []string{"a..b", "x~", "..a", "~a", "src/../src/x", "./~/y"} {
		if d := e.Check(t.Context(), read(p)); d.Verdict != Allow {
			t.Errorf("read %s: %v by %v", p, d.Verdict, d.Reason)
		}
	}
	for _, p := range []string{"..", "../x", "~/x", "~", "src/../../x"} {
		if d := e.Check(t.Context(), read(p)); d.Verdict != Ask {
			t.Errorf("read %s: %v by %v", p, d.Verdict, d.Reason)
		}
	}
}

func TestWindowsNamesInStrictMode(t *testing.T) {
	_, cfg := place(t)
	for _, strict := range []bool{false, true} {
		cfg.Strict = strict
		e := engine(t, cfg, allow("file_write"))
		for _, p := range []string{"a:b", "a::$DATA", "PROGRA~1", "a|b", `\\?\x`} {
			want := Allow
			if strict {
				want = Deny
			}
			if d := e.Check(t.Context(), write(p)); d.Verdict != want {
				t.Errorf("strict %v, write %s: %v by %v, want %v", strict, p, d.Verdict, d.Reason, want)
			}
		}
	}
}

func TestProtectedByPolicy(t *testing.T) {
	_, cfg := place(t)
	cfg.Mode, cfg.Protect = ModeAcceptEdits, []string{"deploy/"}
	e := engine(t, cfg)
	for p, want := range map[string]Verdict{"deploy/x": Ask, "src/x": Allow} {
		if d := e.Check(t.Context(), write(p)); d.Verdict != want {
			t.Errorf("write %s: %v by %v, want %v", p, d.Verdict, d.Reason, want)
		}
	}
	if d := e.Check(t.Context(), read("deploy/x")); d.Verdict != Allow {
		t.Errorf("read: %v by %v", d.Verdict, d.Reason)
	}
}

func TestHostsThatAreGrantedNeedNoQuestion(t *testing.T) { // S062
	_, cfg := place(t)
	fetch := func(u string) Call { return Call{Tool: "WebFetch", Args: Args{"url": u, "prompt": "x"}} }
	e := engine(t, cfg)
	if d := e.Check(t.Context(), fetch("https://api.test/x")); d.Verdict != Ask {
		t.Errorf("an empty list grants %v by %v", d.Verdict, d.Reason)
	}
	cfg.Hosts = []string{"api.test"}
	e = engine(t, cfg)
	for u, want := range map[string]Verdict{"https://api.test/x": Allow, "https://api.test.evil.test/": Ask, "https://xapi.test/": Ask, "https://user@api.test/": Ask} {
		if d := e.Check(t.Context(), fetch(u)); d.Verdict != want {
			t.Errorf("%s: %v by %v, want %v", u, d.Verdict, d.Reason, want)
		}
	}
}

func TestUndeclaredTools(t *testing.T) {
	dir, cfg := place(t)
	cfg.Default = Allow
	for _, tt := range []struct {
		name  string
		rules []Rule
		args  Args
		want  Verdict
	}{
		{"nothing known, default", nil, Args{"x": "y"}, Allow},
		{"any tool, content anywhere", []Rule{deny("*(*secret*)")}, Args{"deep": map[string]any{"list": []any{"a secret b"}}}, Deny},
		{"content that nobody could compare", []Rule{deny("*(sudo *)")}, Args{"unheard": "x"}, Ask},
		{"the whole tool allowed", []Rule{deny("*(sudo *)"), allow("mcp__s__t")}, Args{"unheard": "x"}, Allow},
		{"a path rule holds for a path argument", []Rule{deny("Read(secret)")}, Args{"path": dir + "/secret"}, Deny},
		{"an effect rule holds for a path argument", []Rule{deny("effect(write /etc/**)")}, Args{"file": "/etc/passwd"}, Deny},
		{"a host rule holds for an address", []Rule{deny("WebFetch(evil.test)")}, Args{"url": "https://evil.test/"}, Deny},
		{"one parameter", []Rule{deny("mcp__s__t(mode:force*)")}, Args{"mode": "forced"}, Deny},
		{"another value", []Rule{deny("mcp__s__t(mode:force*)")}, Args{"mode": "soft"}, Allow},
		{"a number", []Rule{deny("mcp__s__t(depth:7)")}, Args{"depth": 7.0}, Deny},
		{"allowed content does not cover other fields", []Rule{allow("mcp__s__t(select *)")}, Args{"query": "select 1", "more": "drop"}, Ask},
		{"allowed content does not cover a field behind it", []Rule{allow("mcp__s__t(select *)")}, Args{"query": "select 1", "zmore": "drop"}, Ask},
		{"allowed content", []Rule{allow("mcp__s__t(select *)")}, Args{"query": "select 1"}, Allow},
	} {
		c := cfg
		if strings.HasPrefix(tt.name, "allowed") {
			c.Default = Ask
		}
		d := engine(t, c, tt.rules...).Check(t.Context(), Call{Tool: "mcp__s__t", Args: tt.args})
		if d.Verdict != tt.want {
			t.Errorf("%s: %v by %v, want %v", tt.name, d.Verdict, d.Reason, tt.want)
		}
	}
	d := engine(t, cfg).Check(t.Context(), Call{Tool: "mcp__s__t", Args: Args{"unheard": "x", "path": "y"}})
	if len(d.Unmatched) != 1 || d.Unmatched[0] != "unheard" {
		t.Errorf("unmatched %v", d.Unmatched)
	}
}

func TestAgentsByType(t *testing.T) {
	_, cfg := place(t)
	// One that no rule is about starts without a question: each of its calls is decided.
	e := engine(t, cfg, deny("Agent(Explore)"), allow("Task(Plan)"), ask("subagent(Dear)"))
	for typ, want := range map[string]Verdict{"Explore": Deny, "Plan": Allow, "Dear": Ask, "Other": Allow} {
		if d := e.Check(t.Context(), Call{Tool: "Task", Args: Args{"subagent_type": typ, "prompt": "x"}}); d.Verdict != want {
			t.Errorf("%s: %v by %v, want %v", typ, d.Verdict, d.Reason, want)
		}
	}
}

func TestSuggestionForFilesAllowsAndIsNarrow(t *testing.T) {
	dir, cfg := place(t)
	e := engine(t, cfg)
	for _, tt := range []struct {
		call, neighbour Call
	}{
		{write("src/a*b"), write("src/axb")},
		{write("src/a"), write("src/b")},
		{write("src/{a}"), write("src/a")},
		{read(dir + "/../x"), read(dir + "/../y")},
		{Call{Tool: "WebFetch", Args: Args{"url": "https://a.test/x"}}, Call{Tool: "WebFetch", Args: Args{"url": "https://b.test/x"}}},
	} {
		d := e.Check(t.Context(), tt.call)
		if d.Suggest == nil || len(d.Suggest.Rules) == 0 || d.Suggest.AlsoAllows == "" {
			t.Errorf("%v: suggests %+v", tt.call.Args, d.Suggest)
			continue
		}
		c := cfg
		for _, p := range d.Suggest.Rules {
			c.Rules = append(c.Rules, allow(p))
		}
		with := engine(t, c)
		if d := with.Check(t.Context(), tt.call); d.Verdict != Allow {
			t.Errorf("%v: with %v it is %v by %v", tt.call.Args, c.Rules, d.Verdict, d.Reason)
		}
		if d := with.Check(t.Context(), tt.neighbour); d.Verdict != Ask {
			t.Errorf("%v: %v also allows %v", tt.call.Args, c.Rules, tt.neighbour.Args)
		}
	}
	for _, c := range []Call{write(".git/config"), write("/etc/passwd")} {
		if d := e.Check(t.Context(), c); d.Suggest == nil || len(d.Suggest.Rules) != 0 || d.Suggest.Instead == "" {
			t.Errorf("%v: suggests %+v", c.Args, d.Suggest)
		}
	}
}

func TestParseWords(t *testing.T) {
	for _, m := range Modes() {
		if got, err := ParseMode(m.String()); got != m || err != nil {
			t.Errorf("%v: %v, %v", m, got, err)
		}
	}
	if m, err := ParseMode("Default"); err == nil || m != ModeDefault {
		t.Errorf("%v, %v", m, err)
	}
	for _, v := range []Verdict{Deny, Ask, Allow} {
		if got, err := ParseVerdict(v.String()); got != v || err != nil {
			t.Errorf("%v: %v, %v", v, got, err)
		}
		if got, err := ParseKind(v.String()); got != Kind(v) || err != nil {
			t.Errorf("kind %v: %v, %v", v, got, err)
		}
	}
	if v, err := ParseVerdict("yes"); err == nil || v != Deny {
		t.Errorf("%v, %v", v, err)
	}
}

func TestDeniesPath(t *testing.T) {
	dir, cfg := place(t)
	e := engine(t, cfg, deny("Read(.env)"), deny("Write(keep)"))
	for _, tt := range []struct {
		access Access
		path   string
		want   bool
	}{
		{AccessRead, dir + "/src/.env", true}, {AccessRead, dir + "/src/env", false}, {AccessWrite, dir + "/keep", true}, {AccessRead, dir + "/keep", false},
		{AccessRead, "\x00", true}, // not a path: nothing is known, so every rule may match
	} {
		if why, got := e.DeniesPath(tt.access, tt.path); got != tt.want {
			t.Errorf("%v %q: %v (%v)", tt.access, tt.path, got, why)
		}
	}
}
