package tools

import (
	"encoding/json"
	"testing"

	"sandboxd/agentloop"
	"sandboxd/policy"
)

// undecided are the tools about whose calls nobody decides by their arguments: a wrong
// one comes back as the failure of the call itself.
var undecided = map[string]bool{
	"read_result": true, "bg_task_list": true, "bg_task_output": true, "bg_task_kill": true, "todo_write": true,
	"save_note": true, "load_skill": true, "ask_user": true, "compress_context": true,
}

// TestArgumentsAreCheckedBeforeTheyAreDecided gives every argument of every tool a
// value of a wrong type, and leaves each out that is needed (requirement 148).
func TestArgumentsAreCheckedBeforeTheyAreDecided(t *testing.T) {
	for _, tool := range All(Options{}) {
		c, ok := tool.(agentloop.Checked)
		if undecided[tool.Name()] {
			continue
		}
		if !ok {
			t.Errorf("%s has no Check", tool.Name())
			continue
		}
		var schema struct {
			Properties map[string]struct {
				Type string
				Enum []string
			}
			Required []string
		}
		if err := json.Unmarshal(tool.(agentloop.Described).Schema().Parameters, &schema); err != nil {
			t.Fatal(err)
		}
		good := func() policy.Args {
			args := policy.Args{}
			for _, name := range schema.Required {
				args[name] = "x"
			}
			switch tool.Name() {
			case "file_edit":
				args["old_string"], args["new_string"] = "x", "y"
			case "save_memory":
				args["content"] = "x"
			}
			return args
		}
		if err := c.Check(good()); err != nil {
			t.Errorf("%s %v: %v", tool.Name(), good(), err)
		}
		for name, p := range schema.Properties {
			wrong := []any{map[string]any{"x": 1.0}, 5.0, true}
			switch p.Type {
			case "integer":
				wrong = []any{"x", true, []any{1.0}, -1.0}
			case "boolean":
				wrong = []any{"x", 1.0, []any{true}}
			case "array":
				wrong = []any{5.0, map[string]any{}, []any{5.0}, true}
			}
			if p.Enum != nil {
				wrong = append(wrong, "none of them")
			}
			for _, v := range wrong {
				args := good()
				args[name] = v
				if err := c.Check(args); err == nil {
					t.Errorf("%s %v: no error", tool.Name(), args)
				}
			}
		}
		for _, name := range schema.Required {
			args := good()
			delete(args, name)
			if err := c.Check(args); err == nil {
				t.Errorf("%s without %s: no error", tool.Name(), name)
			}
		}
	}
	for _, args := range []policy.Args{{"file_path": ""}, {"file_path": "a\x00b"}, {"path": []any{"x"}}, {"file_path": "a", "path": "b"}} {
		if err := (readTool{}).Check(args); err == nil {
			t.Errorf("read_file %v: no error", args)
		}
	}
	if err := (editTool{}).Check(policy.Args{"path": "a"}); err == nil {
		t.Error("file_edit without a text: no error")
	}
}

// TestWrongArgumentsAreNoDenials: what cannot be understood is told to the model as its
// mistake, asks nobody, and counts for no limit of denials.
func TestWrongArgumentsAreNoDenials(t *testing.T) {
	w := newWorld(t, nil)
	wrong := []struct {
		tool string
		args policy.Args
		want string
	}{
		{"read_file", policy.Args{"path": 5}, "[not run: argument path: want a text]"},
		{"read_file", policy.Args{"path": []string{"x"}}, "[not run: argument path: want a text]"},
		{"file_edit", policy.Args{"file_path": "/etc/hosts"}, "[not run: argument old_string is missing]"},
		{"run_bash", policy.Args{"script": "rm -rf /srv", "command": "true"}, "[not run: arguments command and script exclude each other]"},
		{"web_fetch", policy.Args{}, "[not run: argument url is missing]"},
	}
	var results []string
	seen := func(a **agentloop.Agent) func() {
		return func() { results = append(results, string(result(*a).Status)+" "+result(*a).Text) }
	}
	var a *agentloop.Agent
	var steps []func() agentloop.Message
	for i, c := range wrong {
		if i == 0 {
			steps = append(steps, calls(c.tool, c.args))
		} else {
			steps = append(steps, calls(c.tool, c.args, seen(&a)))
		}
	}
	a, _ = w.agent(append(steps, calls("list_dir", policy.Args{"path": "."}, seen(&a)), says("done"))...)
	if end := a.Run(t.Context(), "go", nil); end.Reason != agentloop.EndCompleted {
		t.Fatalf("%+v", end)
	}
	for i, c := range wrong {
		if want := "fail " + c.want; results[i] != want {
			t.Errorf("%s %v: %q, want %q", c.tool, c.args, results[i], want)
		}
	}
	if last := result(a); last.Status != agentloop.StatusOK {
		t.Errorf("an honest call after them: %+v", last)
	}
}
