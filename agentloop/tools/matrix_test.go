package tools

import (
	"os"
	"strings"
	"testing"

	"sandboxd/agentloop"
	"sandboxd/policy"
)

// TestFileToolsBashAndCheckAgree: what one way to a file is denied, every other way
// is, whoever denies it; and what is open is open to all.
func TestFileToolsBashAndCheckAgree(t *testing.T) {
	outside := t.TempDir() + "/outside.txt"
	if err := os.WriteFile(outside, []byte("hush outside\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, func(p *agentloop.PolicyInForce) {
		denying("read_file(./secret.txt)", "read_file(vault/**)", "file_write(./frozen.txt)", "file_edit(./frozen.txt)")(p)
		for _, allowed := range []string{"run_bash", "file_write(./**)", "file_edit(./**)"} {
			p.Config.Rules = append(p.Config.Rules, policy.Rule{Kind: policy.AllowRule, Pattern: allowed, Source: policy.Source{Kind: policy.SourceUser}})
		}
		p.Config.Default = policy.Ask
		p.Grant.Paths = append(p.Grant.Paths, policy.PathGrant{Path: "masked", Access: policy.GrantDeny, Source: policy.Source{Kind: policy.SourceUser}},
			policy.PathGrant{Path: "held.txt", Access: policy.GrantProtect, Source: policy.Source{Kind: policy.SourceUser}})
	})
	for _, f := range []string{"secret.txt", "vault/key", "frozen.txt", "masked/x", "held.txt", "open.txt", ".git/config", ".git/hooks/pre-commit", ".mcp.json", ".bashrc"} {
		w.file(f, "hush "+f+"\n")
	}
	if err := os.Symlink(outside, w.path("to-outside")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("secret.txt", w.path("to-secret")); err != nil {
		t.Fatal(err)
	}
	m := &matrix{world: w, s: w.session()}
	for _, tt := range []struct {
		path        string
		read, write bool
		// The sandbox is stricter than the decision: by an entry of the grant, or
		// since what may not be read cannot be written either.
		sandbox bool
	}{
		{"open.txt", true, true, false},
		{"secret.txt", false, false, true},
		{"to-secret", false, false, true},
		{"vault/key", false, false, true},
		{"masked/x", false, false, true},
		{"frozen.txt", true, false, false},
		{"held.txt", true, false, true},
		{".git/config", true, false, false},
		{".git/hooks/pre-commit", true, false, false},
		{".mcp.json", true, false, false},
		{outside, false, false, false},
		{"to-outside", false, false, false},
		{"/etc/shadow", false, false, false},
		{"/proc/1/environ", false, false, false},
	} {
		t.Run(tt.path, func(t *testing.T) {
			m.world = w.as(t)
			m.reads(tt.path, tt.read, tt.sandbox)
			m.writes(tt.path, tt.write, tt.sandbox)
		})
	}
}

// matrix tries one path in all ways.
type matrix struct {
	*world
	s *agentloop.Session
}

func (m *matrix) reads(path string, want, sandbox bool) {
	for way, res := range map[string]agentloop.ToolResult{
		"read_file":  m.in(m.s, "read_file", policy.Args{"file_path": path}),
		"grep_files": m.in(m.s, "grep_files", policy.Args{"pattern": ".", "path": path, "output_mode": "content"}),
		"cat":        m.in(m.s, "run_bash", policy.Args{"command": "cat -- " + path}),
		"unread cat": m.in(m.s, "run_bash", policy.Args{"command": `p=$(echo ` + path + `); eval "c""at \"\$p\""`}),
	} {
		got := strings.Contains(res.Output, "hush") || strings.Contains(res.Output, "root:") || strings.Contains(res.Output, "PATH=")
		if got != want {
			m.t.Errorf("read by %s: %v, want %v: %s %s", way, got, want, res.Status, res.Error)
		}
	}
	d, _ := m.s.Check(m.t.Context(), policy.Call{Tool: "read_file", Args: policy.Args{"file_path": path}})
	if got := d.Verdict == policy.Allow; got != want && !(sandbox && got) {
		m.t.Errorf("check of a read: %v (%v), want allowed %v", d.Verdict, d.Reason, want)
	}
}

func (m *matrix) writes(path string, want, sandbox bool) {
	full := path
	if !strings.HasPrefix(full, "/") {
		full = m.path(path)
	}
	before, _ := os.ReadFile(full)
	for way, args := range map[string]policy.Args{
		"file_write":      {"file_path": path, "content": "changed\n"},
		"file_edit":       {"file_path": path, "old_string": "hush", "new_string": "loud"},
		"redirect":        {"command": "echo changed >" + path},
		"unread redirect": {"command": `p=$(echo ` + path + `); eval "ec""ho changed >\"\$p\""`},
	} {
		tool := way
		if args["command"] != nil {
			tool = "run_bash"
		}
		m.in(m.s, "read_file", policy.Args{"file_path": path}) // so that this is no reason
		res := m.in(m.s, tool, args)
		after, _ := os.ReadFile(full)
		if got := string(after) != string(before); got != want {
			m.t.Errorf("write by %s: %v, want %v: %s %s", way, got, want, res.Status, res.Error)
		}
		if want {
			m.file(path, string(before))
		}
	}
	d, _ := m.s.Check(m.t.Context(), policy.Call{Tool: "file_write", Args: policy.Args{"file_path": path, "content": "x"}})
	if got := d.Verdict == policy.Allow; got != want && !(sandbox && got) {
		m.t.Errorf("check of a write: %v (%v), want allowed %v", d.Verdict, d.Reason, want)
	}
}
