package settings

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sandboxd/policy"
)

// settingsFiles returns the settings files of our own composing for a client.
func settingsFiles(t *testing.T, client string) map[string][]byte {
	t.Helper()
	names, err := filepath.Glob(filepath.Join("testdata/import", client, "*"))
	if err != nil || len(names) < 20 {
		t.Fatalf("%d files for %s, %v; want at least 20", len(names), client, err)
	}
	out := map[string][]byte{}
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		out[name] = data
	}
	return out
}

func source(name string) policy.Source { return policy.Source{Kind: policy.SourceProject, File: name} }

// Every statement of every file is reported, and the policy that comes out is a
// policy: it can be written, read back and compiled.
func TestImportReportsEveryStatement(t *testing.T) {
	for _, client := range Clients {
		for name, data := range settingsFiles(t, client) {
			t.Run(name, func(t *testing.T) {
				p, report, err := Import(client, source(name), data)
				if err != nil {
					t.Fatal(err)
				}
				for _, r := range report {
					if r.Text == "" || r.Outcome != Kept && r.Reason == "" {
						t.Errorf("no text or no reason: %+v", r)
					}
					if (r.Outcome == Kept || r.Outcome == Narrowed) && r.Line < 0 {
						t.Errorf("no line: %+v", r)
					}
				}
				back, err := Parse(policy.Source{Kind: policy.SourceUser, File: "out.toml"}, p.TOML())
				if err != nil {
					t.Fatalf("reading back: %v\n%s", err, p.TOML())
				}
				if string(back.TOML()) != string(p.TOML()) {
					t.Errorf("written\n%s\nread back\n%s", p.TOML(), back.TOML())
				}
				for _, q := range append([]*Policy{p}, profilesOf(p)...) {
					if _, err := policy.NewRuleSet(q.Rules, policy.Base{Workspace: "/w", Home: "/home/dev"}); err != nil {
						t.Errorf("rules: %v", err)
					}
				}
			})
		}
	}
}

func profilesOf(p *Policy) []*Policy {
	var out []*Policy
	for _, q := range p.Profiles {
		out = append(out, q)
	}
	return out
}

// said is what rules say about a call, "" when none speaks.
type said string

// strictness orders said; no rule is an ask, since both sides would ask or fall
// back to their defaults.
func (s said) strictness() int { return map[said]int{"allow": 0, "": 1, "ask": 1, "deny": 2}[s] }

func ours(t *testing.T, p *Policy, c policy.Call) said {
	t.Helper()
	e := Effective{Policy: *p, Workspace: "/w", Home: "/home/dev"}
	e.Mode, e.Default = set("default", policy.Source{}), set("ask", policy.Source{})
	cfg, err := e.Config()
	if err != nil {
		t.Fatal(err)
	}
	rules, err := policy.NewRuleSet(cfg.Rules, policy.Base{Workspace: "/w", Home: "/home/dev"})
	if err != nil {
		t.Fatal(err)
	}
	v, _, found := rules.Check(c)
	if !found {
		return ""
	}
	return said(v.String())
}

// commands are simple commands that exercise the rules of the files; scripts
// join them.
var commands = []string{
	"npm", "npm test", "npm run lint", "npm run lint -- --fix", "npm run test", "npm run test unit", "npm run", "npm install", "npm install x", "npm publish", "npmx",
	"npm test a", "pnpm lint", "pnpm publish", "yarn test now",
	"git", "git status", "git status -s", "git push", "git push origin main", "git push --force", "git push --force origin", "git log", "git log --oneline -1",
	"git log --oneline", "git commit", "git commit -m wip", "git commit -m x --amend", "git commit -m 'two words'", "git commit -m 'two words' -a", "git commit -m secretx",
	"git reset --hard", "git reset --hard HEAD", "git reset --keep", "git fetch", "git fetch x", "git rebase main", "git checkout main", "git diff", "git diff a", "gitk", "git -C x push",
	"/usr/bin/git log", "/usr/bin/git log -1", "/tmp/evil/git log", "./git status",
	"go test", "go test ./...", "go test -run X ./a", "go build", "go build x", "go run x.go", "go vet ./...", "go vet", "gofmt -l .", "gofmt -w .",
	"ls", "ls -l", "ls -R", "ls -R x", "ls x", "lsof", "lsof -i", "ls '*'", "ls 'a b'", "cat x", "cat", "head x", "tail -f x", "less x", "shred x",
	"rm", "rm x", "rm -rf", "rm -rf x", "rm '*'", "rm '*' x", "rm -r x", "/bin/rm x", "sudo ls", "sudo rm x", "dd if=a of=b", "dd",
	"curl", "curl x", "curl http://x/", "wget x", "make", "make test", "make lint", "make lint x", "make deploy", "make deploy prod", "make deployx", "make x --force",
	"docker ps", "docker compose up", "docker compose", "docker", "python3 x.py", "node x", "bash x.sh", "sh x", "cargo build", "cargo test", "cargo publish x",
	"touch ''", "touch x", "cp -r a b", "cp a", "echo", "echo 'a*b'", "echo 'a*b' c", "echo a", "grep 'a b' x", "grep a x", "grep \"it's\" x", "find . -name '*.go'",
	"foo --version", "git --version", "timeout 5 npm test", "timeout 5 rm x", "env make", "mytool", "rg x",
}

// scripts are the commands alone, in pairs, and behind each other.
func scripts() [][]string {
	var out [][]string
	for i, c := range commands {
		out = append(out, []string{c}, []string{c, commands[(i*7+3)%len(commands)]}, []string{commands[(i*5+1)%len(commands)], c})
	}
	return out
}

// strictest of the parts; a script is allowed when every part is.
func strictest(parts []said) said {
	worst := said("allow")
	for _, p := range parts {
		switch {
		case p == "deny" || worst == "deny":
			worst = "deny"
		case p == "ask" || worst == "ask":
			worst = "ask"
		case p == "":
			worst = ""
		}
	}
	return worst
}

// The models of the clients are written from their documentation and share no
// code with the importers. An import never permits more than the client did: what ours allow, the
// client's allow; what the client's deny, ours deny; what the client's ask
// about, ours do not allow.
func TestImportIsNeverWiderForCommands(t *testing.T) {
	models := map[string]func(t *testing.T, name string, data []byte) func(words []string, text string) said{
		"claude": claudeModel, "codex": codexModel, "gemini": geminiModel, "opencode": opencodeModel,
	}
	for clientName, model := range models {
		compared, allowed, denied := 0, 0, 0
		for name, data := range settingsFiles(t, clientName) {
			if strings.HasSuffix(name, ".toml") && clientName == "codex" {
				continue // says nothing about commands
			}
			p, _, err := Import(clientName, source(name), data)
			if err != nil {
				t.Fatal(err)
			}
			theirs := model(t, name, data)
			for k, script := range scripts() {
				var parts []said
				for _, c := range script {
					parts = append(parts, spelled(theirs, c))
				}
				want := strictest(parts)
				text := strings.Join(script, []string{"; ", " && ", " | ", "\n"}[k%4])
				got := ours(t, p, policy.BashCall(text, "/w"))
				compared++
				if got == "allow" {
					allowed++
				}
				if want == "deny" {
					denied++
				}
				if got.strictness() < want.strictness() || got == "allow" && want != "allow" {
					t.Errorf("%s: %q: ours %q, the client's %q", name, text, got, want)
				}
			}
		}
		t.Logf("%s: %d scripts compared, %d allowed by ours, %d denied by the client's", clientName, compared, allowed, denied)
		if allowed < 50 || denied < 50 {
			t.Errorf("%s: %d allowed, %d denied: the comparison says little", clientName, allowed, denied)
		}
	}
}

// spelled asks a client about a command as written. Here quotes are resolved and
// launchers removed before a rule is compared, so an allow of the same command,
// written plainly, counts as the client's too.
func spelled(theirs func([]string, string) said, command string) said {
	words := splitWords(command)
	verdict := theirs(words, command)
	if verdict != "" {
		return verdict
	}
	for _, launcher := range []string{"timeout 5 ", "env ", "nice ", "nohup "} {
		command = strings.TrimPrefix(command, launcher)
	}
	words = splitWords(command)
	if v := theirs(words, strings.Join(words, " ")); v == "allow" {
		return v
	}
	return ""
}

func jsonOf(t *testing.T, data []byte) map[string]any {
	t.Helper()
	var out map[string]any
	if json.Unmarshal(data, &out) == nil {
		return out
	}
	if err := json.Unmarshal(stripForTest(string(data)), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// stripForTest removes comments and trailing commas of the few files that have
// them.
func stripForTest(s string) []byte {
	for {
		a := strings.Index(s, "/*")
		if a < 0 {
			break
		}
		b := strings.Index(s[a:], "*/")
		s = s[:a] + s[a+b+2:]
	}
	var lines []string
	for line := range strings.Lines(s) {
		if strings.HasPrefix(strings.TrimSpace(line), "//") {
			continue
		}
		lines = append(lines, strings.TrimSpace(line))
	}
	s = strings.Join(lines, "")
	for _, r := range []string{"}", "]"} {
		for _, gap := range []string{",", ", "} {
			s = strings.ReplaceAll(s, gap+r, r)
		}
	}
	return []byte(s)
}

// starMatch matches text with a pattern of * (any text) and, when one, of ? (one
// letter).
func starMatch(pattern, text string, one bool) bool {
	if pattern == "" {
		return text == ""
	}
	switch {
	case pattern[0] == '*':
		for i := 0; i <= len(text); i++ {
			if starMatch(pattern[1:], text[i:], one) {
				return true
			}
		}
		return false
	case strings.HasPrefix(pattern, `\*`):
		return strings.HasPrefix(text, "*") && starMatch(pattern[2:], text[1:], one)
	case text == "":
		return false
	case one && pattern[0] == '?':
		return starMatch(pattern[1:], text[1:], one)
	}
	return pattern[0] == text[0] && starMatch(pattern[1:], text[1:], one)
}

// claudeModel: deny, then ask, then allow; the text of each simple command; "x *"
// at the end and "x:*" also mean x alone.
func claudeModel(t *testing.T, _ string, data []byte) func([]string, string) said {
	permissions, _ := jsonOf(t, data)["permissions"].(map[string]any)
	matches := func(rule, text string) bool {
		if rule == "Bash" || rule == "*" {
			return true
		}
		content, ok := strings.CutPrefix(rule, "Bash(")
		if !ok || !strings.HasSuffix(content, ")") {
			return false
		}
		content = strings.TrimSuffix(content, ")")
		if content == "" {
			return false // not a rule; Claude Code drops it
		}
		if prefix, ok := strings.CutSuffix(content, ":*"); ok {
			return text == prefix || strings.HasPrefix(text, prefix+" ")
		}
		if prefix, ok := strings.CutSuffix(content, " *"); ok && !strings.Contains(prefix, "*") && text == prefix {
			return true
		}
		return starMatch(content, text, false)
	}
	return func(_ []string, text string) said {
		for _, kind := range []string{"deny", "ask", "allow"} {
			list, _ := permissions[kind].([]any)
			for _, rule := range list {
				if matches(rule.(string), text) {
					return said(kind)
				}
			}
		}
		return ""
	}
}

// opencodeModel: the last match wins; permission keys and patterns are wildcards;
// " *" at the end is optional.
func opencodeModel(t *testing.T, _ string, data []byte) func([]string, string) said {
	root := orderedOf(t, data)
	return func(_ []string, text string) said {
		verdict := said("")
		for _, p := range root {
			if p.key != "*" && p.key != "bash" && p.key != "shell" {
				continue
			}
			if starMatch(p.pattern, text, true) || strings.HasSuffix(p.pattern, " *") && starMatch(strings.TrimSuffix(p.pattern, " *"), text, true) {
				verdict = said(p.action)
			}
		}
		return verdict
	}
}

type orderedPermission struct{ key, pattern, action string }

// orderedOf reads permissions in the order of the file.
func orderedOf(t *testing.T, data []byte) []orderedPermission {
	t.Helper()
	var out []orderedPermission
	root := jsonOf(t, data)
	if tools, ok := root["tools"].(map[string]any); ok {
		for k, v := range tools {
			if k == "write" || k == "patch" || k == "multiedit" {
				k = "edit"
			}
			if v == false {
				out = append(out, orderedPermission{k, "*", "deny"})
			}
		}
	}
	if list, ok := root["permissions"].([]any); ok {
		for _, item := range list {
			m := item.(map[string]any)
			out = append(out, orderedPermission{m["action"].(string), m["resource"].(string), m["effect"].(string)})
		}
	}
	if word, ok := root["permission"].(string); ok {
		out = append(out, orderedPermission{"*", "*", word})
	}
	if object, ok := root["permission"].(map[string]any); ok {
		text := string(data)
		if !json.Valid(data) {
			text = string(stripForTest(text))
		}
		for _, key := range keysInOrder(text[strings.Index(text, `"permission"`)+12:], object) {
			if word, ok := object[key].(string); ok {
				out = append(out, orderedPermission{key, "*", word})
				continue
			}
			inner := object[key].(map[string]any)
			part := text[strings.Index(text, `"permission"`)+12:]
			part = part[strings.Index(part, fmt.Sprintf("%q", key))+len(key)+2:]
			for _, pattern := range keysInOrder(part, inner) {
				out = append(out, orderedPermission{key, pattern, inner[pattern].(string)})
			}
		}
	}
	return out
}

func keysInOrder(text string, object map[string]any) []string {
	at := map[string]int{}
	var keys []string
	for k := range object {
		quoted, _ := json.Marshal(k)
		at[k] = strings.Index(text, string(quoted)+":")
		keys = append(keys, k)
	}
	for i := range keys {
		for j := i + 1; j < len(keys); j++ {
			if at[keys[j]] < at[keys[i]] {
				keys[i], keys[j] = keys[j], keys[i]
			}
		}
	}
	return keys
}
