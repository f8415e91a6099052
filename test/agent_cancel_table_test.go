package test

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// slowServer is an MCP server, in Bash, whose one tool does not answer.
const slowServer = `#!/bin/bash
while read -r line; do
	id=${line#*\"id\":}; id=${id%%[,\}]*}
	answer() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$1"; }
	case "$line" in
	*'"method":"initialize"'*) answer '{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"slow","version":"1"}}' ;;
	*'"method":"tools/list"'*) answer '{"tools":[{"name":"wait","description":"waits","inputSchema":{"type":"object"}}]}' ;;
	*'"method":"tools/call"'*) sleep 4243.06 ;;
	*'"id":'*) printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no such method"}}\n' "$id" ;;
	esac
done
`

// holdingHooks run after tools that are over at once, and hold their calls.
const holdingHooks = `
[[hooks.PostToolUse]]
matcher = "todo_write|bg_task_list|read_result"
command = "exec sleep 4243.01"
timeout = "100s"

[[hooks.PostToolUse]]
matcher = "bg_task_run(sleep 4243.0*)"
command = "exec sleep 4243.01"
timeout = "100s"
`

// cancelCases has a case for each tool, and writes what they need.
func cancelCases(d *daemonRun) map[string]cancelCase {
	d.Helper()
	d.policy(agentPolicy + "[rules]\nallow = [\"save_memory\", \"mcp__slow__wait\", \"web_fetch(domain:127.0.0.1)\"]\n" +
		"[mcp.servers.slow]\ncommand = \"" + d.Home + "/slow-server\"\n[filesystem]\nread = [\"" + d.Home + "/slow-server\"]\n" + holdingHooks)
	d.must(os.Chmod(d.file(d.Home+"/slow-server", slowServer), 0o755))
	runs := func(word string) func(*cancelWorld) bool {
		return func(w *cancelWorld) bool {
			w.until(word+" runs", func() bool { return len(processesWith("sleep\x00"+word)) > 0 })
			return true
		}
	}
	hook := runs("4243.01")
	isOpen := func(path string) func(*cancelWorld) bool {
		return func(w *cancelWorld) bool {
			w.until(path+" is open", func() bool { return opened(path) })
			return true
		}
	}
	asksModel := func(w *cancelWorld) bool { return w.comes(w.model.held) }
	started := func(w *cancelWorld) bool {
		w.next("call.started")
		time.Sleep(100 * time.Millisecond)
		return true
	}
	task := func(script string) modelCall {
		return modelCall{Tool: "bg_task_run", Args: map[string]any{"command": script}}
	}
	memory := lockedRecords(d, "memory")
	return map[string]cancelCase{
		"run_bash":  {args: map[string]any{"command": "sleep 4243.02; touch late"}, middle: runs("4243.02")},
		"read_file": {args: map[string]any{"file_path": hugeFile(d), "offset": 1 << 30}, middle: isOpen("/read_file/huge")},
		"file_write": {before: []modelCall{{Tool: "read_file", Args: map[string]any{"file_path": lockedFile(d, "file_write")}}},
			args: map[string]any{"file_path": d.Work + "/file_write/f", "content": strings.Repeat("new\n", 10_000)}, middle: isOpen("/file_write"), writes: true},
		"file_edit": {before: []modelCall{{Tool: "read_file", Args: map[string]any{"file_path": lockedFile(d, "file_edit")}}},
			args: map[string]any{"file_path": d.Work + "/file_edit/f", "old_string": "old", "new_string": "new"}, middle: isOpen("/file_edit"), writes: true},
		"glob_files": {args: map[string]any{"pattern": "**/*.none"}, middle: stopHelper},
		"grep_files": {args: map[string]any{"pattern": "(a|ab)*(b|ba)*c$", "path": slowText(d)}, middle: isOpen("/grep_files/text")},
		"list_dir":   {args: map[string]any{"path": "."}, middle: stopHelper},
		"load_skill": {args: map[string]any{"name": skillHere(d)}, middle: stopHelper},
		"read_result": {before: []modelCall{bash("seq 1 20000")}, middle: hook, status: "ok", argsOf: func(last string) map[string]any {
			return map[string]any{"id": regexp.MustCompile(`result-[a-z2-7]{26}`).FindString(last)}
		}},
		"bg_task_run": {args: map[string]any{"command": "sleep 4243.03"}, middle: hook, status: "ok", after: func(w *cancelWorld) {
			if len(processesWith("sleep\x004243.03")) == 0 {
				w.Error("the task ended with the turn")
			}
		}},
		"bg_task_list":   {args: map[string]any{}, middle: hook, status: "ok"},
		"bg_task_output": {before: []modelCall{task("sleep 4244.04")}, args: map[string]any{"task": "task-1", "wait": 60}, middle: started},
		"bg_task_kill": {before: []modelCall{task("trap 'touch bg_task_kill.term' TERM; touch bg_task_kill.ready; while :; do sleep 0.05; done"), bash("until [ -e bg_task_kill.ready ]; do sleep 0.02; done")},
			args: map[string]any{"task": "task-1"}, middle: isThere(d.Work + "/bg_task_kill.term"), after: func(w *cancelWorld) {
				w.until("the task is killed", func() bool { return len(processesWith("bg_task_kill.term")) == 0 })
				for _, name := range []string{"ready", "term"} {
					w.must(os.Remove(w.Work + "/bg_task_kill." + name))
				}
			}},
		"todo_write": {args: map[string]any{"todos": []any{map[string]any{"content": "x", "status": "pending"}}}, middle: hook, status: "ok"},
		"save_note":  {args: map[string]any{"title": "t", "content": "c"}, middle: isOpen(lockedRecords(d, "notes").f.Name())},
		"save_memory": {args: map[string]any{"key": "k", "content": "kept in the end"}, middle: isOpen(memory.f.Name()), within: 2 * time.Second, status: "ok",
			release: func(w *cancelWorld) {
				time.Sleep(300 * time.Millisecond) // it is not torn off
				memory.change(unix.LOCK_UN)
			},
			after: func(w *cancelWorld) {
				memory.change(unix.LOCK_EX) // for another try
				if r := w.plain("/bin/sh", "-c", "cat "+stateDir(d)+"/memory/*.json"); !strings.Contains(r.Stdout, "kept in the end") {
					w.Errorf("the memory: %s", r.Stdout+r.Stderr)
				}
			}},
		"ask_user": {args: map[string]any{"question": "which?"}, middle: func(w *cancelWorld) bool { w.next("question.asked"); return true }, after: func(w *cancelWorld) {
			if text, _ := w.get("/api/approvals"); strings.Contains(text, "which?") {
				w.Errorf("the question is left: %s", text)
			}
		}},
		"compress_context": {args: map[string]any{"focus": "all"}, before: []modelCall{bash("seq 1 3000")}, middle: asksModel, status: "ok"},
		"subagent":         {args: map[string]any{"prompt": "think", "description": "thinks"}, middle: asksModel},
		// A server that does not answer is in agentloop/tools: the policy of a session cannot
		// name an address of this machine yet.
		"web_fetch":       {args: map[string]any{"url": "http://127.0.0.1:9/"}, middle: stopHelper},
		"mcp__slow__wait": {args: map[string]any{}, middle: runs("4243.06")},
	}
}

func isThere(path string) func(*cancelWorld) bool {
	return func(w *cancelWorld) bool {
		w.until(path+" is there", func() bool { return exists(path) })
		return true
	}
}

// hugeFile has lines, and then a hole that takes a minute to read.
func hugeFile(d *daemonRun) string {
	path := d.file(d.mkdir(d.Work+"/read_file")+"/huge", strings.Repeat("a line of text\n", 20_000))
	d.must(os.Truncate(path, 1<<38))
	return path
}

// slowText takes a regular expression long.
func slowText(d *daemonRun) string {
	dir := d.mkdir(d.Work + "/grep_files")
	for i := range 20 {
		d.file(fmt.Sprintf("%s/text%02d", dir, i), strings.Repeat(strings.Repeat("ab", 500)+"\n", 9000))
	}
	d.must(os.Rename(dir+"/text00", dir+"/text"))
	return dir
}

// lockedFile is in a directory whose lock the test holds: who changes the file waits.
func lockedFile(d *daemonRun, name string) string {
	dir := d.mkdir(d.Work + "/" + name)
	path := d.file(dir+"/f", "old\n")
	holdLock(d, dir)
	return path
}

func holdLock(d *daemonRun, path string) *os.File {
	d.Helper()
	f, err := os.Open(path)
	d.must(err)
	d.Cleanup(func() { f.Close() })
	d.must(unix.Flock(int(f.Fd()), unix.LOCK_EX))
	return f
}

func skillHere(d *daemonRun) string {
	d.file(d.mkdir(d.Home+"/.config/sandboxd/skills/slow")+"/SKILL.md", "---\nname: slow\ndescription: is read slowly\n---\nRead on.\n")
	return "slow"
}

func stateDir(d *daemonRun) string { return d.Home + "/.local/state/sandboxd" }

// recordLock is the lock of a user's notes or memories.
type recordLock struct {
	d *daemonRun
	f *os.File
}

// lockedRecords locks the files of a kind.
func lockedRecords(d *daemonRun, kind string) recordLock {
	dir := d.mkdir(stateDir(d) + "/" + kind)
	d.must(os.Chmod(dir, 0o700))
	path := d.file(dir+"/.lock", "")
	d.must(os.Chmod(path, 0o600))
	return recordLock{d, holdLock(d, path)}
}

func (l recordLock) change(how int) { l.d.must(unix.Flock(int(l.f.Fd()), how)) }
