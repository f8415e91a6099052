package settings

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/pelletier/go-toml/v2"

	"sandboxd/policy"
)

// codexModel: prefixes of words; the strictest matching rule counts. The files'
// expressions are few, so they are listed here a second time by hand.
func codexModel(t *testing.T, name string, _ []byte) func([]string, string) said {
	rules, ok := codexByHand[name[strings.LastIndexByte(name, '/')+1:]]
	if !ok {
		t.Fatalf("%s is not in codexByHand", name)
	}
	return func(words []string, _ string) said {
		verdict := said("")
		for _, line := range rules {
			decision, rest, _ := strings.Cut(line, " ")
			prefix := strings.Split(rest, "|")
			if len(words) < len(prefix) {
				continue
			}
			match := true
			for i, alternatives := range prefix {
				one := false
				for a := range strings.SplitSeq(alternatives, "/,/") {
					one = one || a == words[i]
				}
				match = match && one
			}
			if match && (verdict == "" || said(decision).strictness() > verdict.strictness()) {
				verdict = said(decision)
			}
		}
		return verdict
	}
}

// codexByHand: decision, then words joined by |, alternatives by /,/.
var codexByHand = map[string][]string{
	"01-empty.rules":             {},
	"02-git.rules":               {"allow git|status", "ask git|push/,/fetch", "deny git|reset|--hard"},
	"03-defaults-to-allow.rules": {"allow ls", "allow cat", "deny rm"},
	"04-examples.rules":          {"ask git|push"},
	"05-names.rules":             {"allow cat/,/head/,/tail/,/less", "deny rm/,/shred"},
	"06-paths.rules":             {"allow /usr/bin/git|log", "allow ./scripts/build.sh", "deny /bin/rm"},
	"07-odd-words.rules":         {"allow git|commit|-m|two words", "allow sh|-c|a; b", "allow echo|a*b", "ask grep|it's", "deny curl|http://x/?a=1&b=2"},
	"08-hosts.rules":             {},
	"09-strings.rules":           {"ask npm|run|test|a\tb", "allow make|test"},
	"10-strictest.rules":         {"allow make", "ask make|deploy", "deny make|deploy|prod"},
	"11-alternatives.rules":      {"allow npm/,/pnpm/,/yarn|test/,/lint", "deny npm/,/pnpm|publish"},
	"12-comments.rules":          {"allow go|test", "allow go|vet"},
	"13-interpreters.rules":      {"ask python3", "ask node", "deny bash", "deny sh"},
	"14-launchers.rules":         {"allow timeout", "ask env", "deny sudo", "allow npm|test"},
	"15-empty-word.rules":        {"allow touch|", "ask cp|-r"},
	"16-options.rules":           {"deny rm|-rf", "ask rm", "deny git|push|--force"},
	"17-star-deny.rules":         {"deny rm|*", "allow ls|*"},
	"18-justifications.rules":    {"ask curl", "deny wget"},
	"19-many.rules":              {"allow cargo/,/go/,/npm|build/,/test", "deny cargo|publish"},
	"20-joined.rules":            {"allow git|log|--oneline/,/-1", "deny gitk"},
}

// geminiModel: the rule of the highest priority that matches decides; equal ones
// in the order of the file. Mode default, interactive.
func geminiModel(t *testing.T, _ string, data []byte) func([]string, string) said {
	var file struct {
		Rule []struct {
			ToolName, CommandPrefix, Modes any
			McpName, ArgsPattern           string
			CommandRegex, Decision         string
			Subagent                       string
			Priority                       int
			Interactive                    *bool
			ToolAnnotations                map[string]any
		} `toml:"rule"`
	}
	if err := toml.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	list := func(v any) []string {
		switch v := v.(type) {
		case string:
			return []string{v}
		case []any:
			var out []string
			for _, x := range v {
				out = append(out, x.(string))
			}
			return out
		}
		return nil
	}
	return func(_ []string, text string) said {
		arguments, _ := json.Marshal(map[string]string{"command": text})
		verdict, best := said(""), -1
		for _, r := range file.Rule {
			tools := list(r.ToolName)
			shell := len(tools) == 0
			for _, tool := range tools {
				shell = shell || tool == "*" || tool == "run_shell_command"
			}
			if !shell || r.McpName != "" || r.Subagent != "" || r.ToolAnnotations != nil || r.Interactive != nil && !*r.Interactive {
				continue
			}
			if modes := list(r.Modes); len(modes) > 0 && !strings.Contains(strings.Join(modes, " "), "default") {
				continue
			}
			if r.ArgsPattern != "" && !regexp.MustCompile(r.ArgsPattern).Match(arguments) {
				continue
			}
			if r.CommandRegex != "" && !regexp.MustCompile(`"command":"(?:`+r.CommandRegex+`)`).Match(arguments) {
				continue
			}
			if prefixes := list(r.CommandPrefix); len(prefixes) > 0 {
				match := false
				for _, p := range prefixes {
					match = match || text == p || strings.HasPrefix(text, p+" ")
				}
				if !match {
					continue
				}
			}
			if r.Priority > best {
				best = r.Priority
				verdict = map[string]said{"allow": "allow", "deny": "deny", "ask_user": "ask"}[r.Decision]
			}
		}
		return verdict
	}
}

// Paths of the file tools, for Claude Code and opencode.
var paths = []string{
	"/w/.env", "/w/a/.env", "/w/.env.local", "/w/src/a.go", "/w/src/deep/b.go", "/w/a/src/c.go", "/w/secrets/k", "/w/a/secrets/k", "/w/secrets/public/x",
	"/w/docs/x.md", "/w/deploy/y", "/w/cert.pem", "/w/a/cert.pem", "/w/package.lock", "/etc/shadow", "/etc/passwd", "/opt/data/z", "/home/dev/.ssh/id",
	"/home/dev/notes/n.md", "/home/dev/notes/d/n.md", "/home/dev/x/q", "/home/dev/y/q", "/srv/a", "/w/axb/c", "/w/axb/d", "/w/x[1].txt",
	"/w/packages/web/src/content/docs/i.mdx", "/w/packages/web/src/content/docs/d/i.mdx", "/src/a.go", "/deploy/y", "/docs/x.md", "/home/dev/projects/personal/p",
	"/srv/a.md", "/w/a.md", "/w/d/a.md", "/srv/notes.txt", "/w/notes.txt", "/w/README", "/w/d/README", "/w/id_rsa", "/srv/id_rsa",
}

func TestImportIsNeverWiderForPaths(t *testing.T) {
	models := map[string]func(*testing.T, []byte) func(tool, path string) said{"claude": claudePathModel, "opencode": opencodePathModel}
	for clientName, model := range models {
		allowed, denied := 0, 0
		for name, data := range settingsFiles(t, clientName) {
			p, _, err := Import(clientName, source(name), data)
			if err != nil {
				t.Fatal(err)
			}
			theirs := model(t, data)
			for _, path := range paths {
				for _, tool := range []string{"read_file", "file_edit"} {
					want := theirs(tool, path)
					got := ours(t, p, policy.Call{Tool: tool, Args: policy.Args{"file_path": path}, Cwd: "/w"})
					if got == "allow" {
						allowed++
					}
					if want == "deny" {
						denied++
					}
					if got.strictness() < want.strictness() || got == "allow" && want != "allow" {
						t.Errorf("%s: %s %s: ours %q, the client's %q", name, tool, path, got, want)
					}
				}
			}
		}
		t.Logf("%s: %d allowed by ours, %d denied by the client's", clientName, allowed, denied)
		if allowed < 5 || denied < 5 {
			t.Errorf("%s: %d allowed, %d denied: the comparison says little", clientName, allowed, denied)
		}
	}
}

// gitignoreMatch is gitignore(5) for an anchor: a pattern with a slash but at its
// end is anchored, ** crosses directories, and a match of a directory covers it.
func gitignoreMatch(pattern, anchor, path string) bool {
	rel, ok := strings.CutPrefix(path, strings.TrimSuffix(anchor, "/")+"/")
	if !ok {
		return false
	}
	pattern = strings.TrimSuffix(pattern, "/")
	anchored := strings.Contains(pattern, "/")
	pattern = strings.TrimPrefix(pattern, "/")
	expr := regexp.QuoteMeta(pattern)
	expr = strings.ReplaceAll(expr, `\*\*/`, `(?:.*/)?`)
	expr = strings.ReplaceAll(expr, `/\*\*`, `/.*`)
	expr = strings.ReplaceAll(expr, `\*\*`, `.*`)
	expr = strings.ReplaceAll(expr, `\*`, `[^/]*`)
	if !anchored {
		expr = `(?:.*/)?` + expr
	}
	return regexp.MustCompile(`^` + expr + `(?:/.*)?$`).MatchString(rel)
}

// claudePathModel: Read rules for reading, Edit rules for writing, anchors as
// documented, the project at /w.
func claudePathModel(t *testing.T, data []byte) func(tool, path string) said {
	permissions, _ := jsonOf(t, data)["permissions"].(map[string]any)
	matches := func(rule, tool, path string) bool {
		name := map[string]string{"read_file": "Read", "file_edit": "Edit"}[tool]
		if rule == name {
			return true
		}
		content, ok := strings.CutPrefix(rule, name+"(")
		if !ok {
			return false
		}
		content = strings.TrimSuffix(content, ")")
		switch {
		case strings.HasPrefix(content, "//"):
			return gitignoreMatch(content[1:], "/", path)
		case strings.HasPrefix(content, "~/"):
			return gitignoreMatch(content[1:], "/home/dev", path)
		case strings.HasPrefix(content, "/"):
			return gitignoreMatch(content, "/w", path)
		}
		return gitignoreMatch(strings.TrimPrefix(content, "./"), "/w", path)
	}
	return func(tool, path string) said {
		for _, kind := range []string{"deny", "ask", "allow"} {
			list, _ := permissions[kind].([]any)
			for _, rule := range list {
				if matches(rule.(string), tool, path) {
					return said(kind)
				}
			}
		}
		return ""
	}
}

// opencodePathModel: the path below the project is compared, * also crosses
// slashes, the last match wins; .env files start as denied.
func opencodePathModel(t *testing.T, data []byte) func(tool, path string) said {
	list := append([]orderedPermission{{"read", "*.env", "deny"}, {"read", "*.env.*", "deny"}}, orderedOf(t, data)...)
	return func(tool, path string) said {
		key := map[string]string{"read_file": "read", "file_edit": "edit"}[tool]
		verdict, outside := said(""), said("ask")
		rel, inside := strings.CutPrefix(path, "/w/")
		if !inside {
			rel = path
		}
		for _, p := range list {
			pattern := p.pattern
			for _, home := range []string{"$HOME", "~"} {
				if rest, ok := strings.CutPrefix(pattern, home); ok {
					pattern = "/home/dev" + rest
				}
			}
			if (p.key == "external_directory" || p.key == "*") && starMatch(pattern, path, true) {
				outside = said(p.action)
			}
			if (p.key == key || p.key == "*") && starMatch(pattern, rel, true) {
				verdict = said(p.action)
			}
		}
		if !inside && (outside == "deny" || outside == "ask" && verdict != "deny") {
			return outside
		}
		return verdict
	}
}
