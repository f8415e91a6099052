package settings

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"sandboxd/policy"
)

const fullPolicy = `mode = "acceptEdits"
default = "deny"
confined = "allow"
syscalls = "debug"
extends = ["base"]

[rules]
deny  = ["run_bash(rm -rf *)", { rule = "run_bash(git push --force*)", reason = "history is shared", match = ["git push --force origin x"], not_match = ["git push origin x"] }]
ask   = ["file_write"]
allow = [
  "run_bash(go test *)",
  # a comment between
  "read_file",
]

[filesystem]
read = ["~/.cargo", "/opt/tools/**"]
write = [".", "~/.cache/go-build"]
deny = ["~/.ssh"]
protect = ["deploy/"]
unprotect = [".git/config"]
tmp = "none"
no_exec_write = true

[network]
allow = ["proxy.example.org:443", "udp:[::1]:53"]
unix = ["@bus"]

[limits]
timeout = "90s"
memory = "2GiB"
tasks = 64
cpu = 10

[env]
pass = ["LANG"]
set = { STAGE = "test" }

[modes]
forbid = ["bypassPermissions"]

[[hooks.PreToolUse]]
matcher = "run_bash(rm *)"
command = "./scripts/guard"
timeout = "5s"
on_failure = "continue"

[profiles.ci]
mode = "dontAsk"

[mcp.servers.x]
command = "x-server"
args = ["-v"]
env = { A = "b" }
network = ["full"]

[skills]
dirs = ["~/skills"]
`

func at(line int) policy.Source {
	return policy.Source{Kind: policy.SourceUser, File: "p.toml", Line: line}
}

func TestParseKeepsEveryLine(t *testing.T) {
	p, err := Parse(policy.Source{Kind: policy.SourceUser, File: "p.toml"}, []byte(fullPolicy))
	if err != nil {
		t.Fatal(err)
	}
	wantRules := []policy.Rule{
		{Kind: policy.DenyRule, Pattern: "run_bash(rm -rf *)", Source: at(8)},
		{Kind: policy.DenyRule, Pattern: "run_bash(git push --force*)", Reason: "history is shared",
			Match: []string{"git push --force origin x"}, NotMatch: []string{"git push origin x"}, Source: at(8)},
		{Kind: policy.AskRule, Pattern: "file_write", Source: at(9)},
		{Kind: policy.AllowRule, Pattern: "run_bash(go test *)", Source: at(11)},
		{Kind: policy.AllowRule, Pattern: "read_file", Source: at(13)},
	}
	if !reflect.DeepEqual(p.Rules, wantRules) {
		t.Errorf("rules\n got %+v\nwant %+v", p.Rules, wantRules)
	}
	wantPaths := []policy.PathGrant{
		{Path: "~/.cargo", Access: policy.GrantRead, Source: at(17)},
		{Path: "/opt/tools", Access: policy.GrantRead, Source: at(17)},
		{Path: ".", Access: policy.GrantWrite, Source: at(18)},
		{Path: "~/.cache/go-build", Access: policy.GrantWrite, Source: at(18)},
		{Path: "~/.ssh", Access: policy.GrantDeny, Source: at(19)},
		{Path: "deploy/", Access: policy.GrantProtect, Source: at(20)},
		{Path: ".git/config", Access: policy.GrantUnprotect, Source: at(21)},
	}
	if !reflect.DeepEqual(p.Paths, wantPaths) {
		t.Errorf("paths\n got %+v\nwant %+v", p.Paths, wantPaths)
	}
	for _, v := range []struct {
		name      string
		got, want any
	}{
		{"mode", p.Mode, set("acceptEdits", at(1))},
		{"default", p.Default, set("deny", at(2))},
		{"confined", p.Confined, set("allow", at(3))},
		{"syscalls", p.Syscalls, set("debug", at(4))},
		{"extends", p.Extends, []Entry{{"base", at(5)}}},
		{"tmp", p.Tmp, set("none", at(22))},
		{"no_exec_write", p.NoExecWrite, set(true, at(23))},
		{"network", p.Network, []Entry{{"proxy.example.org:443", at(26)}, {"udp:[::1]:53", at(26)}}},
		{"unix", p.Unix, []Entry{{"@bus", at(27)}}},
		{"timeout", p.Limits.Timeout, set(90*time.Second, at(30))},
		{"memory", p.Limits.Memory, set(int64(2<<30), at(31))},
		{"tasks", p.Limits.Tasks, set(int64(64), at(32))},
		{"cpu", p.Limits.CPU, set(10*time.Second, at(33))},
		{"env.pass", p.EnvPass, []Entry{{"LANG", at(36)}}},
		{"env.set", p.EnvSet, []Entry{{"STAGE=test", at(37)}}},
		{"modes.forbid", p.ForbidModes, []Entry{{"bypassPermissions", at(40)}}},
		{"profile mode", p.Profiles["ci"].Mode, set("dontAsk", at(49))},
		{"mcp", p.MCPServers, []MCPServer{{Name: "x", Command: "x-server", Args: []string{"-v"}, Env: []string{"A=b"}, Network: []string{"full"}, Source: at(51)}}},
		{"skills.dirs", p.SkillDirs, []Entry{{"~/skills", at(58)}}},
	} {
		if !reflect.DeepEqual(v.got, v.want) {
			t.Errorf("%s: got %+v, want %+v", v.name, v.got, v.want)
		}
	}
	h := p.Hooks[0]
	if h.Event != "PreToolUse" || h.Matcher != "run_bash(rm *)" || h.Timeout != 5*time.Second || !h.ContinueOnFailure || h.Source.Line != 42 {
		t.Errorf("hook: got %+v", h)
	}
}

func TestYAMLMeansTheSameAsTOML(t *testing.T) {
	y := `mode: plan
rules:
  deny:
    - run_bash(rm *)
    - rule: run_bash(dd *)
      reason: disks
filesystem:
  deny: [~/.ssh]
limits:
  timeout: 60s
`
	p, err := Parse(policy.Source{File: "p.yaml"}, []byte(y))
	if err != nil {
		t.Fatal(err)
	}
	src := func(line int) policy.Source { return policy.Source{File: "p.yaml", Line: line} }
	want := []policy.Rule{
		{Pattern: "run_bash(rm *)", Source: src(4)},
		{Pattern: "run_bash(dd *)", Reason: "disks", Source: src(5)},
	}
	if !reflect.DeepEqual(p.Rules, want) {
		t.Errorf("rules: got %+v, want %+v", p.Rules, want)
	}
	if p.Mode != set("plan", src(1)) || p.Limits.Timeout != set(time.Minute, src(10)) || p.Paths[0].Path != "~/.ssh" {
		t.Errorf("got mode %+v, timeout %+v, paths %+v", p.Mode, p.Limits.Timeout, p.Paths)
	}
}

// Cases S036 and S062: a key that is nearly right must not be ignored.
func TestUnknownKeyNamesFileLineAndNearestKey(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"S036 wrong table", "[sandbox]\nwritable_roots = [\"/data\"]\n", `p.toml:1: unknown key sandbox (did you mean filesystem?)`},
		{"S036 wrong key", "[filesystem]\nwritable_roots = [\"/data\"]\n", `p.toml:2: unknown key filesystem.writable_roots (did you mean filesystem.write?)`},
		{"S062 close to the right key", "[network]\nallowed_hosts = [\"api.test\"]\n", `p.toml:2: unknown key network.allowed_hosts (did you mean network.allow?)`},
		{"slip", "mod = \"plan\"\n", `p.toml:1: unknown key mod (did you mean mode?)`},
		{"key of another table", "memory = \"1GiB\"\n", `p.toml:1: unknown key memory (did you mean limits.memory?)`},
		{"plural", "\n[limit]\ntimeout = 3\n", `p.toml:2: unknown key limit (did you mean limits?)`},
		{"rule option", "[rules]\ndeny = [{ rule = \"x\", reasn = \"y\" }]\n", `p.toml:2: unknown key rules.deny.reasn (did you mean rules.deny.reason?)`},
		{"hook event", "[[hooks.PreTooluse]]\ncommand = \"x\"\n", `p.toml:1: unknown hook event PreTooluse (did you mean PreToolUse?)`},
		{"inside a profile", "[profiles.a.rules]\ndney = []\n", `p.toml:2: unknown key rules.dney (did you mean rules.deny?)`},
		{"nothing near", "[limits]\nzzz = 1\n", `p.toml:2: unknown key limits.zzz (known keys here: cpu, denials_in_row, denials_total, file_size, max_file_size, memory, output, tasks, timeout)`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Parse(policy.Source{File: "p.toml"}, []byte(tt.text))
			if err == nil || err.Error() != tt.want {
				t.Errorf("Parse(%q)\n got %v\nwant %s", tt.text, err, tt.want)
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"bad mode", `mode = "acceptedits"`, `1: mode cannot be "acceptedits" (did you mean acceptEdits?)`},
		{"bad default", `default = "no"`, `1: default cannot be "no"`},
		{"rule is a number", "[rules]\ndeny = [1]", "2: rules.deny holds rules as strings or tables, not integer"},
		{"empty rule", "[rules]\ndeny = [\" \"]", "2: rules.deny holds an empty rule"},
		{"pattern as a path", "[filesystem]\ndeny = [\"**/.env\"]", "patterns are not paths"},
		{"other home", "[filesystem]\nread = [\"~root/x\"]", "only one's own home"},
		{"NUL in a host", "[network]\nallow = [\"a\\u0000.test:1\"]", "NUL"},
		{"star inside a label", "[network]\nallow = [\"a*.test:1\"]", "not a host name"},
		{"port", "[network]\nallow = [\"a.test:0\"]", "the port must be"},
		{"size of zero", "[limits]\nmemory = \"0\"", "out of range"},
		{"negative size", "[limits]\nmemory = -5", "out of range"},
		{"huge size", "[limits]\nmemory = \"99999999999TiB\"", "out of range"},
		{"size in exponents", "[limits]\nmemory = \"1e3\"", "want a number"},
		{"negative duration", "[limits]\ntimeout = \"-1s\"", "out of range"},
		{"duration without a unit that is no number", "[limits]\ntimeout = \"soon\"", "want a form"},
		{"tasks of zero", "[limits]\ntasks = 0", "must be a number from 1"},
		{"key twice", "mode = \"plan\"\nmode = \"default\"", "2: "},
		{"table twice", "[rules]\n[rules]", "2: "},
		{"not TOML", "= 3", "1: "},
		{"hook without command", "[[hooks.PreToolUse]]\nmatcher = \"x\"", "has no command"},
		{"profile in a profile", "[profiles.a.profiles.b]\nmode = \"plan\"", "a profile cannot hold profiles"},
		{"variable name", "[env]\npass = [\"A B\"]", "is not the name of a variable"},
		{"value in pass", "[env]\npass = [\"A=1\"]", "pass holds names"},
		{"expiry", "[rules]\nallow = [{ rule = \"x\", expires = \"soon\" }]", "expires must be a date"},
		{"more keys than the decoder can compare in time", strings.Repeat("a=1\n", 20_000), "more than 10000 keys"},
		{"larger than any policy", strings.Repeat("#", maxFileBytes+1), "larger than"},
		{"deep nesting", "x = " + strings.Repeat("[", 5000), "nested deeper"},
		{"mode of a rule", "[rules]\nallow = [{ rule = \"x\", modes = [\"wild\"] }]", "unknown mode"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Parse(policy.Source{File: "p.toml"}, []byte(tt.text))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Parse(%.80q) = %v, want an error with %q", tt.text, err, tt.want)
			}
			if _, ok := errors.AsType[*Error](err); err != nil && !ok {
				t.Errorf("Parse(%.80q) gave a %T, want *Error", tt.text, err)
			}
		})
	}
}

func TestYAMLRefusesWhatHidesMeaning(t *testing.T) {
	for _, text := range []string{
		"a: &x [1]\nb: *x\n", "mode: !!str plan\n", "mode: plan\n---\nmode: default\n",
		"mode: plan\nmode: default\n", strings.Repeat("&a ", 1<<17), "? [a]\n: b\n", "<<: {mode: plan}\n", "- a\n",
	} {
		if p, err := Parse(policy.Source{File: "p.yml"}, []byte(text)); err == nil {
			t.Errorf("Parse(%q) = %+v, want an error", text, p)
		}
	}
}

func TestEmptyHostListIsNoNetwork(t *testing.T) {
	p, err := Parse(policy.Source{File: "p.toml"}, []byte("[network]\nallow = []\n"))
	if err != nil {
		t.Fatal(err)
	}
	if got := texts(p.Network); !reflect.DeepEqual(got, []string{"none"}) {
		t.Errorf("network = %q, want none", got)
	}
}

func TestUnits(t *testing.T) {
	for s, want := range map[string]int64{"1": 1, "4096": 4096, "2GiB": 2 << 30, "1.5G": 3 << 29, "512MB": 512e6, "10 KiB": 10 << 10, "7B": 7, "unlimited": -1} {
		if got, err := ParseSize(s); err != nil || got != want {
			t.Errorf("ParseSize(%q) = %d, %v, want %d", s, got, err, want)
		}
	}
	for s, want := range map[string]time.Duration{"60": time.Minute, "60s": time.Minute, "1h2m": 62 * time.Minute, "250ms": 250 * time.Millisecond, "unlimited": -1} {
		if got, err := ParseDuration(s); err != nil || got != want {
			t.Errorf("ParseDuration(%q) = %v, %v, want %v", s, got, err, want)
		}
	}
}

func TestTOMLRoundTrip(t *testing.T) {
	source := policy.Source{Kind: policy.SourceUser, File: "p.toml"}
	p, err := Parse(source, []byte(fullPolicy))
	if err != nil {
		t.Fatal(err)
	}
	p.Rules = append(p.Rules, policy.Rule{Kind: policy.AskRule, Pattern: "run_bash(echo \"a\\\" *)", Message: "tab\there\n", Except: []string{"x"}, Modes: []policy.Mode{policy.ModePlan}})
	first := p.TOML()
	q, err := Parse(source, first)
	if err != nil {
		t.Fatalf("reading back: %v\n%s", err, first)
	}
	if second := q.TOML(); string(first) != string(second) {
		t.Errorf("first\n%s\nsecond\n%s", first, second)
	}
	if len(q.Rules) != len(p.Rules) || len(q.Paths) != len(p.Paths) || q.Limits.Memory.V != p.Limits.Memory.V || len(q.Hooks) != 1 || q.Profiles["ci"] == nil {
		t.Errorf("lost something:\n%s", first)
	}
}
