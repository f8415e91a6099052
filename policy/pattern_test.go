package policy

import (
	"strings"
	"testing"

	"sandboxd/policy/bash"
)

// words makes a command view from plain words; "?" is an unknown word and "??"
// any number of them.
func words(line string) commandView {
	c := &bash.Command{InTable: true}
	for _, w := range strings.Fields(line) {
		switch w {
		case "?":
			c.Argv = append(c.Argv, bash.Word{Text: bash.Hole})
		case "??":
			c.Argv = append(c.Argv, bash.Word{Text: bash.Hole, Many: true})
		default:
			c.Argv = append(c.Argv, bash.Word{Text: strings.ReplaceAll(w, "_", " ")})
		}
	}
	c.Plain = c.Argv
	if len(c.Argv) > 3 && c.Argv[0].Text == "git" && c.Argv[1].Text == "-C" {
		c.Plain = append([]bash.Word{c.Argv[0]}, c.Argv[3:]...)
	}
	return newCommandView(c, 0)
}

func TestDenyRuleCatchesEverySpelling(t *testing.T) {
	for _, tt := range []struct {
		content, command string
		want             match3
	}{
		// text
		{"npm install", "npm install", fullMatch},
		{"npm install", "npm install x", noMatch},
		{"git *", "git status", fullMatch},
		{"git *", "gitevil x", noMatch},
		{"git *", "git", noMatch},
		{"git push *", "git push", noMatch},
		{"git push *", "git push origin", fullMatch},
		{"git push*", "git push", fullMatch},
		{"git push*", "git push origin main", fullMatch},
		{"git push*", "git pushx", fullMatch},
		{"*.env", "cat a/.env", fullMatch},
		{"*--force*", "git push --force", fullMatch},
		{`echo \*`, "echo *", fullMatch},
		{`echo \*`, "echo x", noMatch},
		{"rm:*", "rm", fullMatch},
		{"rm:*", "rm x", fullMatch},
		{"rm:*", "rmdir x", noMatch},
		// base name and path
		{"rm *", "/bin/rm x", fullMatch},
		{"/bin/rm *", "rm x", fullMatch},
		{"/bin/rm *", "/opt/rm x", noMatch},
		{"./deploy.sh *", "./deploy.sh now", fullMatch},
		// global options
		{"git push *", "git -C r push origin", fullMatch},
		{"git push", "git -C r push", fullMatch},
		{"git checkout -- *", "git -C r checkout -- f", fullMatch},
		// options split, in any order, long and short
		{"rm -rf *", "rm -fr x", fullMatch},
		{"rm -rf *", "rm -r -f x", fullMatch},
		{"rm -rf *", "rm -r x -f", fullMatch},
		{"rm -rf *", "rm x -rf", fullMatch},
		{"rm -rf *", "rm -Rf x", fullMatch},
		{"rm -rf *", "rm -vfir x", fullMatch},
		{"rm -rf *", "rm --recursive --force x", fullMatch},
		{"rm -rf *", "rm --recursive -f x", fullMatch},
		{"rm -rf *", "rm --recurs --fo x", fullMatch},
		{"rm -rf *", "rm -r x", noMatch},
		{"rm -rf *", "rm -rf", noMatch},
		{"rm -rf", "rm -fr", fullMatch},
		{"rm -rf", "rm -fr x", noMatch},
		{"rm -rf /", "rm / -rf", fullMatch},
		{"rm -rf /", "rm -rf /tmp", noMatch},
		{"git push --force*", "git push origin main --force", fullMatch},
		{"git push --force*", "git push --force-with-lease origin", fullMatch},
		{"git push --force*", "git push -f origin", fullMatch},
		{"git push --force*", "git push origin x", noMatch},
		{"git push -f *", "git push --force origin", fullMatch},
		{"git push * --force", "git push --force origin", fullMatch},
		{"git commit *", "git log --author commit x", noMatch},
		{"foo push *", "foo -x val push y", fullMatch},
		{"foo push origin *", "foo -x push push origin y", fullMatch},
		{"find * -delete", "find . -name x -delete", fullMatch},
		{"find * -exec *", "find . -newer f -xdev -ctime 1", noMatch},
		{"git checkout -- -f *", "git checkout -q -- -f x", fullMatch},
		{"rm -rf *", "rm -- -rf x", noMatch},
		{"npm run x", "npm run x -s", noMatch},
		// quotes in a rule group words
		{`git commit -m "a b"`, "git commit -m a_b", fullMatch},
		// what is known at run time only
		{"rm -rf *", "rm ??", possibleMatch},
		{"git push *", "git ? x", possibleMatch},
		{"git push *", "git log ?", noMatch},
		{"*--force*", "git push ?", possibleMatch},
		{"rm -rf *", "rm a -rf ?", fullMatch},
	} {
		p, err := parsePattern("run_bash("+tt.content+")", DenyRule, base{})
		if err != nil {
			t.Fatalf("parse %q: %v", tt.content, err)
		}
		v := words(tt.command)
		if got := p.command.catches(&v); got != tt.want {
			t.Errorf("deny %q on %q = %v, want %v", tt.content, tt.command, got, tt.want)
		}
	}
}

func TestAllowRuleMatchesAsWrittenOnly(t *testing.T) {
	for _, tt := range []struct {
		content, command string
		want             bool
	}{
		{"git log *", "git log -1", true},
		{"git log:*", "git log", true},
		{"git log *", "git log", false},
		{"git log *", "git -C r log x", false},
		{"git log *", "/usr/bin/git log x", false},
		{"git log *", "./git log x", false},
		{"rm -rf *", "rm -fr x", false},
		{"rm -rf x", "rm x -rf", false},
		{"git *", "gitevil x", false},
		{"git log *", "git log_x y", false}, // one word "log x"
		{"git log x", "git_log x", false},   // a program called "git log"
		{"git * main", "git push main", true},
		{`git commit -m "a b"`, "git commit -m a_b", true},
		{`git commit -m "a b"`, "git commit -m a b", false},
		{"git log *", "? log x", false},
		{"git log *", "git log ??", true},
		{"git log x", "git log ?", false},
	} {
		p, err := parsePattern("run_bash("+tt.content+")", AllowRule, base{})
		if err != nil {
			t.Fatalf("parse %q: %v", tt.content, err)
		}
		v := words(tt.command)
		if got := p.command.allows(&v); got != tt.want {
			t.Errorf("allow %q on %q = %v, want %v", tt.content, tt.command, got, tt.want)
		}
	}
}

func TestPatternsThatAreRefused(t *testing.T) {
	for _, tt := range []struct {
		kind    Kind
		pattern string
	}{
		{DenyRule, ""},
		{DenyRule, "run_bash("},
		{DenyRule, "run_bash()"},
		{DenyRule, "run_bash( )"},
		{DenyRule, "(rm *)"},
		{DenyRule, "run bash(rm)"},
		{DenyRule, "run_bash(re:()"},
		{DenyRule, "run_bash(re:" + strings.Repeat("a", maxRegexpBytes+1) + ")"},
		{DenyRule, "run_bash(re:((a{100}){100}){100})"},
		{DenyRule, "run_bash(" + strings.Repeat("a ", maxOperands+1) + ")"},
		{DenyRule, strings.Repeat("a", maxPatternBytes+1)},
		{DenyRule, "run_bash(a\x00b)"},
		{DenyRule, "effect"},
		{DenyRule, "effect(write)"},
		{DenyRule, "effect(paint /etc)"},
		{DenyRule, "effect(exec rm -rf)"},
		{DenyRule, "read_file(!x)"},
		{DenyRule, "read_file([)"},
		{DenyRule, "read_file(*.{pem,key})"},
		{DenyRule, "web_fetch(a..b)"},
		{DenyRule, "web_fetch(a.test:99999)"},
		{DenyRule, "web_fetch(a%00.test)"},
		{AllowRule, "*"},
		{AllowRule, "*(ls)"},
		{AllowRule, "File*"},
		{AllowRule, "mcp__*"},
		{AllowRule, "mcp__s*__t"},
	} {
		if _, err := parsePattern(tt.pattern, tt.kind, base{workspace: "/w"}); err == nil {
			t.Errorf("%v %.60q was accepted", tt.kind, tt.pattern)
		}
	}
	for _, ok := range []string{"mcp__s__*", "mcp__s", "mcp__s__t", "mcp__s__t*", "Bash(npm run test:*)", "Agent(Explore)"} {
		if _, err := parsePattern(ok, AllowRule, base{}); err != nil {
			t.Errorf("allow %q: %v", ok, err)
		}
	}
}

func TestToolPatterns(t *testing.T) {
	for _, tt := range []struct {
		pattern, tool string
		want          bool
	}{
		{"Bash", "run_bash", true},
		{"run_bash", "Bash", true},
		{"Bash", "Read", false},
		{"File*", "FileThing", true},
		{"file_*", "Write", true}, // canonical name file_write
		{"*", "mcp__s__t", true},
		{"mcp__s", "mcp__s__t", true},
		{"mcp__s", "mcp__st__t", false},
		{"mcp__s__*", "mcp__s__t", true},
		{"mcp__s__t", "mcp__s__t2", false},
		{"Task", "Agent", true},
	} {
		s := mustRules(t, Rule{Kind: DenyRule, Pattern: tt.pattern})
		if got := s.Denied(tt.tool); got != tt.want {
			t.Errorf("deny %s on tool %s = %v, want %v", tt.pattern, tt.tool, got, tt.want)
		}
	}
}

func mustRules(t testing.TB, rules ...Rule) *RuleSet {
	t.Helper()
	s, err := NewRuleSet(rules, Base{Workspace: "/w", Home: "/home/dev"})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestPathPatterns(t *testing.T) {
	for _, tt := range []struct {
		pattern, path string
		deny, allow   bool
	}{
		{"/data/secret/**", "/data/secret/a", true, true},
		{"/data/secret/**", "/data/secret/a/b", true, true},
		{"/data/secret", "/data/secret/a", true, true},
		{"/data/secret", "/data/secrets", false, false},
		{"/data/*.key", "/data/x.key", true, true},
		{"/data/*.key", "/data/a/x.key", false, false},
		{"./x", "/w/x", true, true},
		{"./x", "/w/a/x", false, false},
		{"./src/**", "/w/src/a.go", true, true},
		{".env", "/w/.env", true, true},
		{".env", "/w/a/b/.env", true, true},
		{".env", "/etc/.env", true, true},
		{".env", "/w/x.env", false, false},
		{"*.env", "/w/.env", true, true},
		{"*.env", "/w/a/b.env", true, true},
		{"~/.ssh", "/home/dev/.ssh/id", true, true},
		{"~/.ssh/**", "/home/dev/.ssh/id", true, true},
		{"a/b", "/w/a/b", true, true},
		{"a/b", "/w/x/a/b", true, false}, // a deny takes both readings
		{"**/a/b", "/w/x/a/b", true, true},
		{`\*`, "/w/*", true, true},
		{`\*`, "/w/x", false, false},
		{"w", "/w/x", false, false}, // the workspace itself is no name below it
		{"/", "/anything", true, true},
		{"a..b", "/w/a..b", true, true},
		{`\{a\}`, "/w/{a}", true, true},
	} {
		for _, kind := range []Kind{DenyRule, AllowRule} {
			p, err := newPathPattern(tt.pattern, kind, base{workspace: "/w", home: "/home/dev"})
			if err != nil {
				t.Fatalf("%q: %v", tt.pattern, err)
			}
			want := tt.deny
			if kind == AllowRule {
				want = tt.allow
			}
			if got := p.match(tt.path); got != want {
				t.Errorf("%v %q on %q = %v, want %v", kind, tt.pattern, tt.path, got, want)
			}
		}
	}
}

func TestHostPatterns(t *testing.T) {
	for _, tt := range []struct {
		pattern, target string
		deny, allow     bool
	}{
		{"example.org", "https://example.org/x", true, true},
		{"example.org", "https://EXAMPLE.org./x", true, true},
		{"example.org", "https://evil-example.org/", false, false},
		{"example.org", "https://example.org.evil.test/", false, false},
		{"domain:example.org", "example.org", true, true},
		{"*.example.org", "https://a.example.org/", true, true},
		{"*.example.org", "https://example.org/", false, false},
		{"*.example.org", "https://aexample.org/", false, false},
		{"example.org:443", "https://example.org/", true, true},
		{"example.org:443", "http://example.org/", false, false},
		{"example.org:443", "example.org", true, false}, // port not known
		{"127.0.0.1", "http://2130706433/", true, true},
		{"127.0.0.1", "http://0x7f.1/", true, true},
		{"127.0.0.1", "http://0177.0.0.1/", true, true},
		{"127.0.0.1", "http://[::ffff:127.0.0.1]/", true, true},
		{"10.0.0.0/8", "http://10.2.3.4/", true, true},
		{"10.0.0.0/8", "http://11.2.3.4/", false, false},
		{"https://example.org/docs/*", "https://example.org/docs/a", true, true},
		{"https://example.org/docs/*", "https://example.org/other", false, false},
		{"https://example.org/docs/*", "https://example.org/docs/../other", true, false},
		{"https://example.org/docs/*", "https://example.org/docs/%2e%2e/other", true, false},
		{"*", "https://anything.test/", true, true},
	} {
		p, err := newHostPattern(tt.pattern)
		if err != nil {
			t.Fatalf("%q: %v", tt.pattern, err)
		}
		target := parseHostTarget(tt.target)
		if got := p.match(&target, true); got != tt.deny {
			t.Errorf("deny %q on %q = %v, want %v (%+v)", tt.pattern, tt.target, got, tt.deny, target)
		}
		if got := p.match(&target, false); got != tt.allow {
			t.Errorf("allow %q on %q = %v, want %v", tt.pattern, tt.target, got, tt.allow)
		}
	}
	for _, broken := range []string{"https://good.test\x00.evil.test/", "https://good.test%00.evil.test", `https://good.test\@evil.test/`,
		"https://good.test@evil.test/", "https://a..b/", "https://exämple.org/", "https:///x", "http://1.2.3.999/", ""} {
		if target := parseHostTarget(broken); target.broken == "" {
			t.Errorf("%q was taken for a host: %+v", broken, target)
		}
	}
}

func TestGlob(t *testing.T) {
	for _, tt := range []struct {
		pattern, text string
		want          bool
	}{
		{"", "", true}, {"", "a", false}, {"*", "", true}, {"a*", "a", true}, {"*a", "ba", true},
		{"a*a", "a", false}, {"a*a", "aa", true}, {"a*b*c", "axbxc", true}, {"a*b*c", "acb", false},
		{`\*`, "*", true}, {`\*`, "x", false}, {`a\b`, `a\b`, true}, {`\\*`, `\x`, true}, {"*ab*ab*", "ab", false},
	} {
		if got := newGlob(tt.pattern).match(tt.text); got != tt.want {
			t.Errorf("glob %q on %q = %v, want %v", tt.pattern, tt.text, got, tt.want)
		}
	}
}

func FuzzParsePattern(f *testing.F) {
	for _, s := range []string{"run_bash(rm -rf *)", "Bash(git push:*)", "read_file(.env)", "*(sudo *)", "mcp__a__b(x:y)", "effect(write /etc/**)",
		"effect(network *.a.test:443)", `run_bash(re:^rm\b)`, `run_bash(git commit -m "a \* b")`, "web_fetch(https://a.test/*)", "a(((", "run_bash('x)", "read_file({a,b}/[!x]*)"} {
		f.Add(s, "rm -rf x")
	}
	f.Fuzz(func(t *testing.T, pattern, command string) {
		for _, kind := range []Kind{DenyRule, AskRule, AllowRule} {
			s, err := NewRuleSet([]Rule{{Kind: kind, Pattern: pattern}}, Base{Workspace: "/w", Home: "/h"})
			if err != nil {
				continue
			}
			// A rule that allows a command denies it when it is a deny rule.
			v := words(command)
			if len(v.argv) == 0 {
				continue
			}
			find := finder{when: when{}, command: -1}
			if kind != AllowRule {
				find.commandRules(&s.table[kind].commands, &v)
				continue
			}
			find.allowCommand(&s.table[kind].commands, &v)
			if find.best == nil {
				continue
			}
			deny, err := NewRuleSet([]Rule{{Kind: DenyRule, Pattern: pattern}}, Base{Workspace: "/w", Home: "/h"})
			if err != nil {
				t.Fatalf("%q is an allow rule but no deny rule: %v", pattern, err)
			}
			again := finder{when: when{}, command: -1}
			again.commandRules(&deny.table[DenyRule].commands, &v)
			if again.best == nil {
				t.Errorf("%q as allow rule matches %q, as deny rule it does not", pattern, command)
			}
		}
	})
}
