package test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
)

// givenAway makes each call that names the file "taken" one that names "given".
const givenAway = `default = "allow"
[[hooks.PreToolUse]]
matcher = "Bash|bg_task_run"
command = '''if grep -q 'touch taken'; then echo '{"updatedInput":{"command":"touch given"}}'; fi'''
[[hooks.PreToolUse]]
matcher = "Write"
command = '''if grep -q '"taken"'; then echo '{"updatedInput":{"file_path":"given","content":"x"}}'; fi'''
`

// Whatever way a call comes, what the hooks made of it is what runs, what the rows
// say and what the result names; and where they change nothing, it is what was asked
// for.
func TestWhatWasDecidedIsWhatRuns(t *testing.T) {
	d := startDaemon(t, os.Getuid())
	d.policy(givenAway)
	post := func(body map[string]any) func(string) string {
		return func(name string) string {
			text := strings.ReplaceAll(d.execBody(body), "NAME", name)
			answer, code := d.request("POST", "/api/exec", strings.Replace(text, `"argv":null,`, "", 1))
			if code != 200 {
				t.Errorf("%d %s", code, answer)
			}
			return answer
		}
	}
	tool := func(name string, args map[string]any) func(string) string {
		return post(map[string]any{"tool": name, "args": args, "mode": "default"})
	}
	cli := func(flags ...string) func(string) string {
		return func(name string) string {
			r := d.sbxTo(d, append(append([]string{"exec"}, flags...), "--", "touch", name)...)
			if r.Code != 0 {
				t.Errorf("%v: %+v", flags, r)
			}
			return r.Stdout + r.Stderr
		}
	}
	agent := func(calls, more string) func(string) string {
		return func(name string) string {
			yaml := "steps:\n  - calls: [" + calls + "]\n  - {say: done}\n" + more
			r := d.finish(d.agent(d, strings.ReplaceAll(yaml, "NAME", name), "go"))
			if r.Code != 0 {
				t.Errorf("%+v", r)
			}
			return r.Stdout + r.Stderr
		}
	}
	for _, route := range []struct {
		name string
		run  func(name string) string
		job  bool // its end is waited for
		told bool // the answer says what the call became
	}{
		{"sbx exec", cli(), false, true},
		{"sbx exec --json", cli("--json"), false, true},
		{"sbx exec --timeout", cli("--timeout", "20s"), false, true},
		{"a job", cli("--detach"), true, false},
		{"argv", func(name string) string {
			answer, _ := d.request("POST", "/api/exec", d.execBody(map[string]any{"mode": "default"}, "touch", name))
			return answer
		}, false, true},
		{"script", post(map[string]any{"script": "touch NAME", "mode": "default"}), false, true},
		{"run_bash", tool("run_bash", map[string]any{"command": "touch NAME"}), false, true},
		{"Bash", tool("Bash", map[string]any{"command": "touch NAME"}), false, true},
		{"file_write", tool("file_write", map[string]any{"file_path": "NAME", "content": "x"}), false, true},
		{"bg_task_run", tool("bg_task_run", map[string]any{"command": "touch NAME", "description": "x"}), true, true},
		{"an agent's run_bash", agent(`{tool: run_bash, args: {command: touch NAME}}`, ""), false, true},
		{"an agent's task", agent(`{tool: bg_task_run, args: {command: touch NAME}}, {tool: bg_task_output, args: {task: task-1, wait: 20}}`, ""), true, true},
		{"an agent's background", agent(`{tool: run_bash, args: {command: touch NAME, run_in_background: true}}, {tool: bg_task_output, args: {task: task-1, wait: 20}}`, ""), true, true},
		{"an agent's file_write", agent(`{tool: file_write, args: {file_path: NAME, content: x}}`, ""), false, true},
		{"a sub-agent", agent(`{tool: subagent, args: {prompt: make the file}}`,
			"others:\n  - match: make the file\n    steps:\n      - calls: [{tool: run_bash, args: {command: touch NAME}}]\n      - {say: made}\n"), false, false},
	} {
		t.Run(route.name, func(t *testing.T) {
			for _, asked := range []string{"taken", "other"} {
				want := map[string]string{"taken": "given", "other": "other"}[asked]
				before := len(d.rows())
				answer := route.run(asked)
				made := func() bool { return exists(d.Work + "/" + want) }
				if route.job {
					d.until(want+" is made", made)
				}
				if !made() || exists(d.Work+"/taken") {
					t.Errorf("%s: made %v, the call as it was asked for ran: %v; %s", asked, made(), exists(d.Work+"/taken"), answer)
				}
				if changed := strings.Contains(answer, "a hook changed the call, which is now: ") || strings.Contains(answer, ", changed by a hook: "); route.told && changed != (want != asked) {
					t.Errorf("%s: the answer does not say what the call became, or says it in vain: %s", asked, answer)
				}
				rows := d.rows()[before:]
				if text := strings.Join(rows, "\n"); !strings.Contains(text, want) || strings.Contains(text, "taken") {
					t.Errorf("%s: rows %s", asked, text)
				}
				d.must(os.RemoveAll(d.Work + "/" + want))
				os.RemoveAll(d.Work + "/taken")
			}
		})
	}

	// The object of a result names what ran.
	if r := d.sbxTo(d, "exec", "--json", "--", "touch", "taken"); !strings.Contains(r.Stdout, `"argv":["touch given"]`) {
		t.Errorf("%+v", r)
	}
}

// rows are the audit rows of the calls, without those of sessions and questions.
func (d *daemonRun) rows() (out []string) {
	d.Helper()
	r := d.sbxTo(d, "audit", "--json", "--limit", "10000")
	for line := range strings.Lines(r.Stdout) {
		var row struct {
			Args json.RawMessage `json:"args"`
		}
		d.must(json.Unmarshal([]byte(line), &row))
		out = append(out, string(row.Args))
	}
	return out
}
