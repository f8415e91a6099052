package test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// crowdMemory bounds what a session with a conversation adds to the daemon, in bytes
// of resident memory: docs/agent.md states it.
const crowdMemory = 1 << 20

// A hundred sessions at once with models that play scripts all end as they should;
// what they take stays within its bound, and their goroutines end with them.
func TestHundredSessionsAtOnce(t *testing.T) {
	d := startDaemon(t, os.Getuid(), "--max-running-per-uid", "64")
	const all = 100
	yaml := `
steps:
  - calls: [{tool: read_file, args: {file_path: notes.txt}}, {tool: todo_write, args: {todos: [{content: a, status: pending}]}}]
  - calls: [{tool: run_bash, args: {command: "echo {{n}} >> $$.out"}}]
  - say: done
`
	d.file(d.Work+"/notes.txt", "one\n")
	d.chat(yaml, nil) // what a first one brings
	before, grown := d.memory(), int64(0)
	var sessions []string
	for range all {
		sessions = append(sessions, d.chat(yaml, nil))
	}
	start := time.Now()
	for _, s := range sessions {
		d.object("POST", s+"/messages", `{"text":"go"}`, 202)
	}
	for _, s := range sessions {
		for {
			grown = max(grown, d.memory()-before)
			o := d.object("GET", s+"/messages", "", 200)
			if o["running"] == false {
				if end, _ := o["end"].(map[string]any); end["reason"] != "completed" || end["text"] != "done" {
					t.Errorf("%s: %v", s, end)
				}
				break
			}
			if time.Since(start) > 3*time.Minute {
				t.Fatalf("%s does not end", s)
			}
			time.Sleep(50 * time.Millisecond)
		}
	}
	files, _ := filepath.Glob(d.Work + "/*.out")
	lines := 0
	for _, f := range files {
		lines += strings.Count(d.content(f), "\n")
	}
	if lines != all {
		t.Errorf("%d calls ran, want %d", lines, all)
	}
	t.Logf("%d turns of 3 steps in %v on %d cores; resident memory grew by %d KiB a session", all, time.Since(start).Round(time.Millisecond), runtime.NumCPU(), grown/all/1024)
	if grown > all*crowdMemory {
		t.Errorf("resident memory grew by %d MiB", grown>>20)
	}
	for _, s := range sessions {
		d.object("DELETE", s, "", 200)
	}
	if text, _ := json.Marshal(d.object("GET", "/api/chat/sessions", "", 200)); strings.Count(string(text), `"id"`) != 1 {
		t.Errorf("sessions are left: %s", clip(string(text)))
	}
	d.until("no process is left", func() bool { return len(d.descendants()) == 0 })
	d.must(unix.Kill(d.cmd.Process.Pid, unix.SIGQUIT)) // Go answers with all goroutines
	_ = d.cmd.Wait()
	if n := strings.Count(d.content(d.log), "\ngoroutine "); n == 0 || n > all/2 {
		t.Errorf("%d goroutines of %d ended sessions are left", n, all)
	} else {
		t.Logf("%d goroutines are left", n)
	}
}
