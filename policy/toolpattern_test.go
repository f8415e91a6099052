package policy

import (
	"os"
	"path/filepath"
	"testing"
)

// A pattern is a path argument too: what its fixed part reaches is compared with
// rules and roots, in every tool that takes one.
func TestPatternsOfToolsAreChecked(t *testing.T) {
	_, cfg := place(t)
	for _, d := range []string{"secret/keys", "src"} {
		if err := os.MkdirAll(filepath.Join(cfg.Workspace, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	e := engine(t, cfg, deny("Read(/etc/shadow)"), deny("Read(secret/**)"), deny("Read(.env)"))
	for pattern, want := range map[string]Verdict{
		"/etc/shadow": Deny, "../../../../../../../../etc/shadow": Deny, "{/etc/shadow,x}": Deny, "/etc/{shadow,x}": Ask,
		"secret/keys/*": Deny, "./secret/**": Deny, "src/../secret/*": Deny, "**/.env": Deny, ".env": Deny, "src/.env": Deny, "!secret/keys/x": Deny,
		"/root/**": Ask, "~/.ssh/*": Ask, "../../**/*.key": Ask, "*/../../x": Ask, "/**": Ask,
		"**/*.go": Allow, "*.go": Allow, "src/*.go": Allow, "src/**": Allow, "**/main.go": Allow, "*.{ts,tsx}": Allow, "src/{a,b}/*.c": Allow,
	} {
		for _, call := range []Call{
			{Tool: "Glob", Args: Args{"pattern": pattern}},
			{Tool: "Grep", Args: Args{"pattern": "x", "glob": pattern}},
			{Tool: "grep_files", Args: Args{"pattern": "x", "include": pattern}},
		} {
			d := e.Check(t.Context(), call)
			if d.Verdict != want && !(want == Ask && d.Verdict == Deny) {
				t.Errorf("%s %v: %v by %v, want %v", call.Tool, call.Args, d.Verdict, d.Reason, want)
			}
		}
	}
	// What Grep searches for is text, wherever it looks like a path.
	if d := e.Check(t.Context(), Call{Tool: "Grep", Args: Args{"pattern": "/etc/shadow"}}); d.Verdict != Allow {
		t.Errorf("a searched text: %v by %v", d.Verdict, d.Reason)
	}
}
