package tools

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"sandboxd/agentloop"
	"sandboxd/policy"
)

// TestEveryPathArgumentOfEveryToolIsChecked is requirement 90, over the tools as
// they are: what a model is told to give as a path is declared to the decision, and
// a denied file is denied under each declared name.
func TestEveryPathArgumentOfEveryToolIsChecked(t *testing.T) {
	w := newWorld(t, denying("read_file(./secret.txt)", "file_write(./secret.txt)", "file_edit(./secret.txt)", "grep_files(./secret.txt)"))
	w.file("secret.txt", "hush\n")
	s := w.session()
	tried := 0
	for _, tool := range All(Options{}) {
		declared, known := policy.BuiltinTool(tool.Name())
		if !known && !policy.IsMCPTool(tool.Name()) {
			if _, itself := tool.(agentloop.Declared); !itself {
				t.Errorf("%s: the decision knows nothing about it", tool.Name())
			}
			continue
		}
		var paths []string
		for _, p := range declared.Paths {
			paths = append(paths, p.Field)
		}
		if described, ok := tool.(agentloop.Described); ok {
			for _, name := range properties(t, described) {
				if looksLikePath(name) && !slices.Contains(slices.Concat(paths, declared.Dir), name) {
					t.Errorf("%s: the argument %s is a path, and is not declared", tool.Name(), name)
				}
			}
		}
		for _, field := range paths {
			tried++
			args := policy.Args{field: "secret.txt", "pattern": "hush", "content": "x", "old_string": "hush", "new_string": "x", "output_mode": "content"}
			res := w.in(s, tool.Name(), args)
			if res.Status == agentloop.StatusOK || strings.Contains(res.Output, "hush") || w.content("secret.txt") != "hush\n" {
				t.Errorf("%s by %s: %s %q", tool.Name(), field, res.Status, res.Output)
			}
		}
	}
	if tried < 15 {
		t.Errorf("only %d arguments were tried", tried)
	}
	for _, args := range []policy.Args{{"pattern": "secret.txt"}, {"pattern": w.path("s*.txt")}, {"pattern": "~/w/secret.txt"}} {
		if res := w.in(s, "glob_files", args); strings.Contains(res.Output, "secret") {
			t.Errorf("glob_files(%v): %q", args, res.Output)
		}
	}
	for field := range map[string]bool{"working_dir": true, "cwd": true, "workdir": true} {
		if res := w.in(s, "run_bash", policy.Args{"command": "pwd", field: "/etc"}); res.Status == agentloop.StatusOK {
			t.Errorf("run_bash starts in %s=/etc: %q", field, res.Output)
		}
	}
}

func properties(t *testing.T, d agentloop.Described) (names []string) {
	t.Helper()
	var s struct{ Properties map[string]any }
	if err := json.Unmarshal(d.Schema().Parameters, &s); err != nil {
		t.Fatalf("%s: %v", d.Name(), err)
	}
	for name := range s.Properties {
		names = append(names, name)
	}
	return names
}

func looksLikePath(name string) bool {
	return strings.Contains(name, "path") || strings.Contains(name, "dir") || strings.HasPrefix(name, "file")
}

// TestSchemasAreComplete: every tool has a description and arguments that the
// decision knows.
func TestSchemasAreComplete(t *testing.T) {
	for _, tool := range All(Options{}) {
		d, ok := tool.(agentloop.Described)
		if !ok {
			t.Errorf("%s cannot be offered to a model", tool.Name())
			continue
		}
		s := d.Schema()
		if s.Name != tool.Name() || len(s.Description) < 20 {
			t.Errorf("%s: %q, %q", tool.Name(), s.Name, s.Description)
		}
		declared, known := policy.BuiltinTool(tool.Name())
		if !known {
			continue
		}
		for _, name := range properties(t, d) {
			if !declared.Declares(name) {
				t.Errorf("%s: argument %s is not declared to the decision", tool.Name(), name)
			}
		}
	}
}
