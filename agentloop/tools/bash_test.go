package tools

import (
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"sandboxd/agentloop"
	"sandboxd/policy"
)

func TestBashTellsHowACommandEnded(t *testing.T) {
	w := newWorld(t, nil)
	for _, tt := range []struct {
		args   policy.Args
		status agentloop.Status
		want   string
	}{
		{policy.Args{"command": "echo out; echo err >&2"}, agentloop.StatusOK, "out\nerr\n"},
		{policy.Args{"command": "exit 3"}, agentloop.StatusFail, "\n[exit status 3]"},
		{policy.Args{"command": "pwd", "working_dir": ".git"}, agentloop.StatusOK, w.path(".git") + "\n"},
		{policy.Args{"command": "sleep 60.3", "timeout": 1.0}, agentloop.StatusTimeout, "\n[timed out after 1s]"},
		{policy.Args{"command": "sleep 60.4 & echo started"}, agentloop.StatusOK, "started\n\n[processes that outlived the command were ended]"},
		{policy.Args{"command": "sleep 0.01 & wait; echo done"}, agentloop.StatusOK, "done\n"},
		{policy.Args{"command": "exec true"}, agentloop.StatusOK, ""},
		{policy.Args{"command": "kill -9 $$"}, agentloop.StatusFail, "\n[ended: signaled]"},
	} {
		if res := w.call("run_bash", tt.args); res.Status != tt.status || res.Output != tt.want {
			t.Errorf("%v: %s %q (%s), want %s %q", tt.args, res.Status, res.Output, res.Error, tt.status, tt.want)
		}
	}
}

// TestBashOutputComesInPieces: who watches a call sees its output while it runs,
// and the result has all of it.
func TestBashOutputComesInPieces(t *testing.T) {
	w := newWorld(t, nil)
	if err := os.WriteFile(w.path("go"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	seen := map[string]string{}
	first := make(chan struct{})
	var once sync.Once
	watch := func(stream string, piece []byte) {
		mu.Lock()
		defer mu.Unlock()
		seen[stream] += string(piece)
		once.Do(func() { close(first) })
	}
	done := make(chan agentloop.ToolResult, 1)
	go func() {
		done <- w.d.Dispatch(t.Context(), w.s, agentloop.ToolCall{
			Call: policy.Call{Tool: "run_bash", Args: policy.Args{"command": "echo one; while [ -e go ]; do sleep 0.01; done; echo two; echo three >&2"}},
			IO:   agentloop.CallIO{Output: watch}})
	}()
	select {
	case <-first:
	case <-time.After(20 * time.Second):
		t.Fatal("nothing was seen while the command ran")
	}
	if err := os.Remove(w.path("go")); err != nil {
		t.Fatal(err)
	}
	res := <-done
	if res.Output != "one\ntwo\nthree\n" || seen["stdout"] != "one\ntwo\n" || seen["stderr"] != "three\n" {
		t.Errorf("result %q (%s), seen %q", res.Output, res.Error, seen)
	}
}

func TestBashGoesOnInTheBackground(t *testing.T) {
	w := newWorld(t, nil)
	out := w.ok("run_bash", policy.Args{"command": "echo begun; sleep 0.2; echo ended >mark", "run_in_background": true, "description": "a test"})
	if !strings.Contains(out, "runs in the background: echo begun") {
		t.Error(out)
	}
	tasks := w.s.Tasks()
	if len(tasks) != 1 {
		t.Fatalf("%d tasks", len(tasks))
	}
	select {
	case <-tasks[0].Done():
	case <-time.After(20 * time.Second):
		t.Fatal("the task does not end")
	}
	if got := w.content("mark"); got != "ended\n" {
		t.Errorf("%q", got)
	}
}
