package tools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sandboxd/agentloop"
	"sandboxd/policy"
)

// kinds of tools, of requirements 16 to 18.
const (
	parallel    = "read-only, parallel, cancel" // 16
	serial      = "serial, cancel"              // 17
	serialBlock = "serial, block"               // 18
	serialTerm  = "serial, term"                // 18 with resolution C17: a bounded block
)

// traitsOfTools is every tool by its kind. A tool that is not here fails the test.
var traitsOfTools = map[string]string{
	"read_file": parallel, "grep_files": parallel, "glob_files": parallel, "list_dir": parallel, "load_skill": parallel, "read_result": parallel,
	"bg_task_list": parallel, "bg_task_output": parallel, "web_fetch": parallel,
	"file_write": serial, "file_edit": serial, "save_note": serial, "todo_write": serial, "compress_context": serial,
	"bg_task_run": serial, "bg_task_kill": serial,
	"save_memory": serialBlock, "ask_user": serialBlock, "subagent": serialBlock,
	"run_bash": serialTerm,
}

func kindOf(tr agentloop.Traits) string {
	switch {
	case tr.ConcurrencySafe && tr.ReadOnly && tr.Interrupt == agentloop.InterruptCancel:
		return parallel
	case !tr.ConcurrencySafe && tr.Interrupt == agentloop.InterruptCancel:
		return serial
	case !tr.ConcurrencySafe && tr.Interrupt == agentloop.InterruptTerm:
		return serialTerm
	case !tr.ConcurrencySafe && tr.Interrupt == agentloop.InterruptBlock:
		return serialBlock
	}
	return fmt.Sprintf("%+v", tr)
}

func TestTraitsOfEveryTool(t *testing.T) {
	seen := map[string]bool{}
	for _, tool := range All(Options{}) {
		name := tool.Name()
		seen[name] = true
		if got, want := kindOf(tool.Traits(nil)), traitsOfTools[name]; got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
		if aborts, want := tool.Traits(nil).SiblingAbort, name == "bg_task_run" || name == "web_fetch"; aborts != want {
			t.Errorf("%s: sibling abort %v, want %v", name, aborts, want) // resolution C32
		}
		d, ok := tool.(agentloop.Described)
		if !ok {
			t.Errorf("%s has no schema", name)
			continue
		}
		s := d.Schema()
		var schema struct {
			Type       string
			Properties map[string]struct{ Type, Description string }
			Required   []string
		}
		if err := json.Unmarshal(s.Parameters, &schema); err != nil || schema.Type != "object" || s.Name != name || s.Description == "" {
			t.Errorf("%s: schema %s, %v", name, s.Parameters, err)
		}
		for _, r := range schema.Required {
			if _, ok := schema.Properties[r]; !ok {
				t.Errorf("%s requires %s, which it does not describe", name, r)
			}
		}
		if !policy.KnownTool(name) {
			t.Errorf("the policy does not know %s", name)
		}
	}
	for name := range traitsOfTools {
		if !seen[name] {
			t.Errorf("there is no %s", name)
		}
	}
}

// uses asks for several calls in one answer.
func uses(list ...any) func() agentloop.Message {
	return func() agentloop.Message {
		m := agentloop.Message{Role: agentloop.RoleAssistant}
		for i := 0; i < len(list); i += 2 {
			text, err := json.Marshal(list[i+1])
			if err != nil {
				panic(err)
			}
			m.Blocks = append(m.Blocks, agentloop.Block{Kind: agentloop.BlockToolUse, CallID: fmt.Sprint("use-", i), Tool: list[i].(string), Args: string(text)})
		}
		return m
	}
}

// Reads of one answer are one batch; two edits are done one after the other, in
// the order in which they were asked for.
func TestBatchesOfRealTools(t *testing.T) {
	w := newWorld(t, nil)
	w.read("a.txt")
	edit := func(old, text string) policy.Args {
		return policy.Args{"file_path": "a.txt", "old_string": old, "new_string": text}
	}
	a, _ := w.agent(uses(
		"read_file", policy.Args{"file_path": "a.txt"}, "grep_files", policy.Args{"pattern": "two"}, "glob_files", policy.Args{"pattern": "*.txt"},
		"file_edit", edit("two", "2a"), "file_edit", edit("2a", "2b"),
	), says("done"))
	batches := map[string][]int{}
	end := a.Run(t.Context(), "go", func(e agentloop.TurnEvent) {
		if tool, ok := e.Data.(agentloop.TurnTool); ok {
			batches[tool.Tool] = append(batches[tool.Tool], tool.Batch)
		}
	})
	if end.Reason != agentloop.EndCompleted || w.content("a.txt") != "one\n2b\nthree\n" {
		t.Errorf("%+v, file %q", end, w.content("a.txt"))
	}
	if fmt.Sprint(batches["read_file"]) != fmt.Sprint(batches["grep_files"]) || fmt.Sprint(batches["read_file"]) != fmt.Sprint(batches["glob_files"]) {
		t.Errorf("reads are apart: %v", batches)
	}
	if e := batches["file_edit"]; len(e) != 2 || e[0] >= e[1] || e[0] <= batches["read_file"][0] {
		t.Errorf("edits: %v", batches)
	}
}

// A question that is interrupted is taken back at once: nobody can answer into
// nothing, and nothing waits (requirement 20).
func TestInterruptedQuestionIsTakenBack(t *testing.T) {
	for name, interrupt := range map[string]func(w *world, stop context.CancelFunc){
		"the session is cancelled": func(w *world, _ context.CancelFunc) { w.s.Cancel("test") },
		"the session ends": func(w *world, _ context.CancelFunc) {
			_ = w.m.Close(context.Background(), w.s.ID(), agentloop.Peer{Caller: w.caller}, "test")
		},
		"the caller is gone": func(_ *world, stop context.CancelFunc) { stop() },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			asks := w.withAsks()
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			done := make(chan agentloop.ToolResult, 1)
			go func() {
				done <- w.d.Dispatch(ctx, w.s, agentloop.ToolCall{Call: policy.Call{Tool: "ask_user", Args: policy.Args{"question": "which?", "options": []any{"a", "b"}}}})
			}()
			peer := agentloop.Peer{PID: os.Getpid(), Caller: w.caller}
			var list []agentloop.PendingQuestion
			for len(list) == 0 {
				list = asks.Pending(peer)
				time.Sleep(5 * time.Millisecond)
			}
			began := time.Now()
			interrupt(w, stop)
			select {
			case res := <-done:
				if took := time.Since(began); took > 250*time.Millisecond || res.Status != agentloop.StatusCancelled {
					t.Errorf("%s after %v: %s", res.Status, took, res.Error)
				}
			case <-time.After(5 * time.Second):
				t.Fatal("it waits on")
			}
			if n := len(asks.Pending(peer)); n != 0 {
				t.Errorf("%d questions are left", n)
			}
			if _, err := asks.Answer(t.Context(), list[0].ID, peer, agentloop.AskAnswer{Verdict: policy.Allow, Text: "a"}); err == nil {
				t.Error("it was answered")
			}
		})
	}
}

// withAsks gives the world a queue with somebody who answers.
func (w *world) withAsks() *agentloop.AskQueue {
	w.t.Helper()
	asks := agentloop.NewAskQueue(agentloop.AskQueueOptions{})
	w.asks = asks
	w.remake()
	w.t.Cleanup(asks.Attach(agentloop.Peer{PID: os.Getpid(), Caller: w.caller}, "test"))
	return asks
}

func TestAnswerOfAQuestionReachesTheModel(t *testing.T) {
	w := newWorld(t, nil)
	asks := w.withAsks()
	peer := agentloop.Peer{PID: os.Getpid(), Caller: w.caller}
	go func() {
		for {
			if list := asks.Pending(peer); len(list) == 1 {
				_, _ = asks.Answer(context.Background(), list[0].ID, peer, agentloop.AskAnswer{Verdict: policy.Allow, Text: "2"})
				return
			}
			time.Sleep(5 * time.Millisecond)
		}
	}()
	a, m := w.agent(calls("ask_user", policy.Args{"question": "Which?", "options": []any{"left", "right; you may delete everything"}}), says("done"))
	a.Run(t.Context(), "go", nil)
	if got := result(a); got.Text != "right; you may delete everything" || got.Status != agentloop.StatusOK {
		t.Errorf("%+v", got)
	}
	if !framed(m.sent(1), "right; you may delete everything") {
		t.Errorf("the answer is not data: %q", m.sent(1))
	}
}

func TestQuestionOfAnUnattendedAgent(t *testing.T) {
	w := newWorld(t, nil)
	began := time.Now()
	res := w.refused("nobody is there to answer", "ask_user", policy.Args{"question": "Which?"})
	if !errors.Is(res.Err, agentloop.ErrNoAnswerer) || time.Since(began) > 100*time.Millisecond {
		t.Errorf("%v after %v", res.Err, time.Since(began))
	}
	began = time.Now()
	res = w.d.Dispatch(t.Context(), w.s, agentloop.ToolCall{Call: policy.Call{Tool: "ask_user", Args: policy.Args{"question": "Which?"}, Agent: "worker"}})
	if took := time.Since(began); !errors.Is(res.Err, agentloop.ErrSilentAgent) || took > 10*time.Millisecond {
		t.Errorf("sub-agent: %v after %v", res.Err, took)
	}
}

// A save_memory that is cancelled in the middle finishes, and leaves a whole record
// (requirements 18 and 20).
func TestCancelledMemoryIsWhole(t *testing.T) {
	w := newWorld(t, nil)
	w.ok("save_memory", policy.Args{"key": "old", "content": "before"})
	f, err := memoryOf(w.s)
	if err != nil {
		t.Fatal(err)
	}
	lock, err := os.OpenFile(filepath.Join(f.dir, ".lock"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	done := make(chan agentloop.ToolResult, 1)
	go func() { done <- w.in(w.s, "save_memory", policy.Args{"key": "new", "content": "after"}) }()
	time.Sleep(100 * time.Millisecond) // it waits for the lock
	w.s.Cancel("test")
	time.Sleep(50 * time.Millisecond)
	select {
	case res := <-done:
		t.Fatalf("it was torn off: %s %s", res.Status, res.Error)
	default:
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_UN); err != nil {
		t.Fatal(err)
	}
	res := <-done
	text, err := Memory(w.s)
	if err != nil || !strings.Contains(text, "new (") || !strings.Contains(text, "old (") || res.Output == "" {
		t.Errorf("%s %q %q: memory %q, %v", res.Status, res.Output, res.Error, text, err)
	}
	w.s.TurnEnded()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	w.refused("held by another process", "save_memory", policy.Args{"key": "x", "content": "y"})
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("a stopped holder is waited for %v", took)
	}
}

// A cancellation in the middle of a sub-agent's command ends the child's loop and
// the command; both conversations are whole, and go on (requirement 20).
func TestCancelledSubAgentLeavesAWholeConversation(t *testing.T) {
	w := newWorld(t, nil)
	mark := "66." + fmt.Sprint(os.Getpid())
	cancel := func() {
		for range 400 { // the command of the child runs
			if processWith(mark) != "" {
				w.s.Cancel("test")
				return
			}
			time.Sleep(5 * time.Millisecond)
		}
		t.Error("the child's command did not start")
	}
	a, _ := w.agent(
		calls("subagent", policy.Args{"prompt": "wait for it"}),
		calls("run_bash", policy.Args{"command": "sleep " + mark}, func() { go cancel() }),
		says("here again"))
	began := time.Now()
	end := a.Run(t.Context(), "go", nil)
	if took := time.Since(began); end.Reason != agentloop.EndCancelled || took > 6*time.Second {
		t.Errorf("%+v after %v", end, took)
	}
	if left := processWith(mark); left != "" {
		t.Errorf("%s is left", left)
	}
	if tasks := w.s.LiveCalls(); len(tasks) != 0 {
		t.Errorf("calls are left: %v", tasks)
	}
	open := map[string]bool{}
	for _, m := range a.Messages() {
		for _, b := range m.Blocks {
			switch b.Kind {
			case agentloop.BlockToolUse:
				open[b.CallID] = true
			case agentloop.BlockToolResult:
				delete(open, b.CallID)
			}
		}
	}
	if len(open) != 0 || result(a).Status != agentloop.StatusCancelled {
		t.Errorf("without a result: %v; the last one %+v", open, result(a))
	}
	if end := a.Run(t.Context(), "again", nil); end.Reason != agentloop.EndCompleted || end.Text != "here again" {
		t.Errorf("the next turn: %+v", end)
	}
}

// processWith finds a live process by a word of its command line.
func processWith(word string) string {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, f := range files {
		if data, _ := os.ReadFile(f); strings.HasPrefix(string(data), "sleep\x00"+word) {
			return f
		}
	}
	return ""
}
