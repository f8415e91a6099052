package tools

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sandboxd/agentloop"
	"sandboxd/policy"
)

// asking makes every change of a file a question.
func asking(p *agentloop.PolicyInForce) {
	for _, text := range []string{"file_edit", "file_write"} {
		p.Config.Rules = append(p.Config.Rules, policy.Rule{Kind: policy.AskRule, Pattern: text, Source: policy.Source{Kind: policy.SourceUser}})
	}
}

// asked makes a call and gives its question, which answer settles.
func (w *world) asked(tool string, args policy.Args) (q agentloop.PendingQuestion, answer func(policy.Verdict) agentloop.ToolResult) {
	w.t.Helper()
	done := make(chan agentloop.ToolResult, 1)
	go func() { done <- w.call(tool, args) }()
	peer := agentloop.Peer{PID: os.Getpid(), Caller: w.caller}
	for range 1000 {
		if list := w.asks.Pending(peer); len(list) == 1 {
			return list[0], func(v policy.Verdict) agentloop.ToolResult {
				if _, err := w.asks.Answer(w.t.Context(), list[0].ID, peer, agentloop.AskAnswer{Verdict: v}); err != nil {
					w.t.Error(err)
				}
				return <-done
			}
		}
		time.Sleep(5 * time.Millisecond)
	}
	w.t.Fatal("nothing was asked")
	return q, nil
}

// The question about a change shows the change that an answer makes, before anything
// of it is done.
func TestQuestionShowsTheChange(t *testing.T) {
	w := newWorld(t, asking)
	w.withAsks()
	edit := policy.Args{"file_path": "a.txt", "old_string": "two", "new_string": "2\x1b[31m"}
	for name, tt := range map[string]struct {
		tool   string
		args   policy.Args
		before func()
		diff   string // "" for none
		why    string // in NoDiff
		deny   bool
	}{
		"an edit":            {tool: "file_edit", args: edit, before: func() { w.read("a.txt") }, diff: "--- a/a.txt\n+++ b/a.txt\n@@ -1,3 +1,3 @@\n one\n-two\n+2\x1b[31m\n three\n"},
		"a new file":         {tool: "file_write", args: policy.Args{"file_path": "new", "content": "x\n"}, diff: "--- /dev/null\n+++ b/new\n@@ -0,0 +1 @@\n+x\n"},
		"in a new directory": {tool: "file_write", args: policy.Args{"file_path": "dir/new", "content": "x\n"}, diff: "--- /dev/null\n+++ b/new\n@@ -0,0 +1 @@\n+x\n", deny: true},
		"a new file whose name plays lines": {tool: "file_write", args: policy.Args{"file_path": "x\n@@ -0,0 +1 @@\n+ok\u202e", "content": "x\n"},
			diff: "--- /dev/null\n+++ \"b/x\\n@@ -0,0 +1 @@\\n+ok\\u202e\"\n@@ -0,0 +1 @@\n+x\n"},
		"a file whose name plays lines": {tool: "file_edit", args: policy.Args{"file_path": "x\n+ok", "old_string": "a", "new_string": "b"},
			before: func() { w.file("x\n+ok", "a\n"); w.ok("read_file", policy.Args{"file_path": "x\n+ok"}) },
			diff:   "--- \"a/x\\n+ok\"\n+++ \"b/x\\n+ok\"\n@@ -1 +1 @@\n-a\n+b\n"},
		"a name of another script":   {tool: "file_write", args: policy.Args{"file_path": "grüße 1", "content": "x\n"}, diff: "--- /dev/null\n+++ b/grüße 1\n@@ -0,0 +1 @@\n+x\n"},
		"a whole file":               {tool: "file_write", args: policy.Args{"file_path": "a.txt", "content": "x\n"}, before: func() { w.read("a.txt") }, diff: "--- a/a.txt\n+++ b/a.txt\n@@ -1,3 +1 @@\n-one\n-two\n-three\n+x\n"},
		"a file that was not read":   {tool: "file_edit", args: policy.Args{"file_path": "other", "old_string": "a", "new_string": "b"}, before: func() { w.file("other", "a\n") }, why: "has not been read"},
		"a file outside of the view": {tool: "file_write", args: policy.Args{"file_path": w.path("../.ssh/config"), "content": "x"}, before: func() { w.file("../.ssh/config", "hunter2\n") }, why: "outside of what this session shows"},
		"a named pipe": {tool: "file_write", args: policy.Args{"file_path": "pipe", "content": "x"}, before: func() {
			if err := unix.Mkfifo(w.path("pipe"), 0o600); err != nil {
				t.Fatal(err)
			}
		}, why: "pipe"},
	} {
		t.Run(name, func(t *testing.T) {
			w := w.as(t)
			w.file("a.txt", "one\ntwo\nthree\n")
			if tt.before != nil {
				tt.before()
			}
			q, answer := w.asked(tt.tool, tt.args)
			if q.Diff != tt.diff || (tt.diff == "") != (q.NoDiff != "") || !strings.Contains(q.NoDiff, tt.why) || strings.Contains(q.NoDiff+q.Diff, "hunter2") {
				t.Errorf("diff %q, none because %q; want %q, %q", q.Diff, q.NoDiff, tt.diff, tt.why)
			}
			if tt.diff != "" && q.Shown != agentloop.ShowText(tt.tool+" "+tt.args["file_path"].(string)) {
				t.Errorf("shown %q", q.Shown)
			}
			if got := w.content("a.txt"); got != "one\ntwo\nthree\n" {
				t.Errorf("a.txt was changed: %q", got)
			}
			if _, err := os.Lstat(w.path("dir")); err == nil {
				t.Error("a directory was made")
			}
			if tt.deny {
				answer(policy.Deny)
				return
			}
			res := answer(policy.Allow)
			if tt.diff != "" && (res.Status != agentloop.StatusOK || res.Diff != tt.diff) {
				t.Errorf("%s: %s: made %q", res.Status, res.Error, res.Diff)
			}
		})
	}
}

// A change of any size makes a question that a person can read, and a daemon can keep.
func TestChangeInAQuestionIsBounded(t *testing.T) {
	w := newWorld(t, asking)
	w.withAsks()
	for name, args := range map[string]policy.Args{
		"new":      {"file_path": "big", "content": strings.Repeat("a line of it\n", 1<<17)},
		"one line": {"file_path": "line", "content": strings.Repeat("x", 1<<20)},
		"not read": {"file_path": "a.txt", "content": strings.Repeat("x", 1<<20)},
	} {
		q, answer := w.asked("file_write", args)
		if len(q.Diff) > 17<<10 || len(q.Shown) > 5<<10 || len(q.NoDiff) > 1<<10 {
			t.Errorf("%s: diff of %d bytes, shown %d, no diff %d", name, len(q.Diff), len(q.Shown), len(q.NoDiff))
		}
		if q.Diff == "" && !strings.Contains(q.Shown, "bytes in all") {
			t.Errorf("%s: shown %.80q... does not say that it is cut", name, q.Shown)
		}
		var whole struct{ Content string }
		if err := json.Unmarshal(q.Args, &whole); err != nil || whole.Content != args["content"] {
			t.Errorf("%s: the arguments are not whole: %v", name, err)
		}
		answer(policy.Deny)
	}
}
