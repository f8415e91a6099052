package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sandboxd/agentloop"
	"sandboxd/exec"
	"sandboxd/policy"
	"sandboxd/policy/settings"
)

// docBlock returns the first block of a language in a page.
func docBlock(t *testing.T, page, language string) string {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(text), "```"+language+"\n")
	block, _, closed := strings.Cut(rest, "\n```")
	if !ok || !closed {
		t.Fatalf("%s has no block of %s", page, language)
	}
	return block + "\n"
}

// TestHooksOfTheDocs runs the examples of docs/hooks.md: both forms of the
// configuration, with the script and the calls that stand there.
func TestHooksOfTheDocs(t *testing.T) {
	page := "../../docs/hooks.md"
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	w, home := filepath.Join(root, "w"), filepath.Join(root, "home")
	for _, dir := range []string{w + "/scripts", home} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	script := docBlock(t, page, "sh")
	for path, text := range map[string]string{w + "/scripts/guard.sh": script, w + "/sandboxd.toml": docBlock(t, page, "toml"), root + "/settings.json": docBlock(t, page, "json")} {
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	own, err := settings.Parse(policy.Source{Kind: policy.SourceProject, File: w + "/sandboxd.toml"}, []byte(docBlock(t, page, "toml")))
	if err != nil {
		t.Fatal(err)
	}
	claude, err := settings.Load(settings.Options{Workspace: w, Environ: []string{"HOME=" + home}, ClaudeSettings: []string{root + "/settings.json"}})
	if err != nil {
		t.Fatal(err)
	}
	if len(own.Hooks) != 2 || len(claude.Hooks) != 1 {
		t.Fatalf("%d hooks of ours, %d of Claude Code's: %+v", len(own.Hooks), len(claude.Hooks), claude.Hooks)
	}
	c, _ := agentloop.CurrentCaller([]string{"PATH=/usr/bin:/bin", "HOME=" + home})
	host := exec.ProbeHost()
	env := agentloop.HookEnvironment{Runner: exec.NewRunner(host), Caller: c, View: agentloop.HostView{MountView: host.MountView}, Workspace: w,
		Grant: policy.Grant{PrivateTmp: true},
		Trusts: func(path string, content []byte) bool {
			return path == w+"/scripts/guard.sh" && string(content) == script
		}}
	call := regexp.MustCompile(`^(\w+) (.*?) {2,}(block|continue)(?:: (.*))?$`)
	for name, hooks := range map[string][]settings.Hook{"toml": own.Hooks, "json": claude.Hooks} {
		var specs []agentloop.HookSpec
		for _, h := range hooks {
			specs = append(specs, agentloop.HookSpec(h))
		}
		r, err := agentloop.NewHookRegistry(agentloop.HookRegistryOptions{Specs: specs, Env: env})
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(docBlock(t, page, "calls")) {
			m := call.FindStringSubmatch(strings.TrimSpace(line))
			if m == nil {
				t.Fatalf("line %q cannot be read", line)
			}
			if m[1] == "Write" && name == "json" {
				continue // that form shows the first hook only
			}
			args := policy.Args{"command": m[2]}
			if m[1] == "Write" {
				args = policy.Args{"file_path": m[2], "content": "x"}
			}
			res := r.Fire(t.Context(), nil, agentloop.HookEvent{Event: "PreToolUse", Tool: m[1], Args: args})
			if res.Action.String() != m[3] || res.Reason != m[4] {
				t.Errorf("%s, %s: %v %q, want %s %q", name, strings.TrimSpace(line), res.Action, res.Reason, m[3], m[4])
			}
		}
	}
}
