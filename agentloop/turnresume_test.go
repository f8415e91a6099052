package agentloop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"sandboxd/policy"
)

// counted is a tool that counts its calls by their argument.
func counted(ran map[string]int) testTool {
	return testTool{name: "count", call: func(_ context.Context, r *ToolRun) (string, error) {
		name := r.Call.Args["n"].(string)
		ran[name]++
		return "counted " + name, nil
	}}
}

// resumed continues the conversation of l as a new process would, after only the
// first n entries were kept.
func (l *loopWorld) resumed(n int, steps ...modelStep) *loopWorld {
	l.t.Helper()
	next := *l
	next.store = newMemoryConversations()
	id := l.a.ID()
	head := l.store.heads[id]
	head.Ended = ""
	next.store.heads[id] = head
	next.store.entries[id] = append([]Entry(nil), l.store.entries[id][:n]...)
	next.model = &playedModel{steps: steps}
	next.o.Store, next.o.Provider, next.o.Conversation = next.store, next.model, id
	next.a = next.agent()
	return &next
}

// TestResumeAtEachPoint: wherever the daemon was killed, what is left is consistent,
// nothing runs twice, and the model is told what was cut off.
func TestResumeAtEachPoint(t *testing.T) {
	ran := map[string]int{}
	l := newLoop(t, []Tool{counted(ran)}, nil,
		asks("count", n("a"), "count", n("b"), "bad", `{`), asks("count", n("c")), words("done"))
	if end, _ := l.run("go"); end.Reason != EndCompleted || len(ran) != 3 {
		t.Fatalf("%+v %v", end, ran)
	}
	entries := l.store.entries[l.a.ID()]
	var said []string
	for _, e := range entries {
		said = append(said, string(e.Kind))
	}
	if got := strings.Join(said, " "); got != "message message started result started result result message started result message end" {
		t.Fatalf("entries: %s", got)
	}
	for cut := 1; cut <= len(entries); cut++ {
		r := l.resumed(cut, words("went on"))
		r.paired()
		started, ended := map[string]bool{}, map[string]bool{}
		for _, e := range entries[:cut] {
			switch e.Kind {
			case EntryStarted:
				started[e.Block.CallID] = true
			case EntryResult:
				ended[e.Block.CallID] = true
			}
		}
		for _, m := range r.a.Messages() {
			for _, b := range m.Blocks {
				if b.Kind != BlockToolResult {
					continue
				}
				text, status := "counted", StatusOK
				switch {
				case ended[b.CallID] && b.Tool == "bad":
					text, status = "one JSON object", StatusFail
				case ended[b.CallID]:
				case started[b.CallID]:
					text, status = "interrupted", StatusInterrupted
				default:
					text, status = "before this call was started", StatusInterrupted
				}
				if b.Status != status || !strings.Contains(b.Text, text) {
					t.Errorf("cut after %d: %s is %s %q, want %s", cut, b.CallID, b.Status, b.Text, status)
				}
			}
		}
		before := fmt.Sprint(ran)
		end, _ := r.run("more")
		if end.Reason != EndCompleted || fmt.Sprint(ran) != before {
			t.Errorf("cut after %d: %+v, calls %v", cut, end, ran)
		}
		asked := r.model.asked()[0].Messages
		told := ""
		for _, m := range asked {
			told += m.Text()
		}
		if cutOff := cut < len(entries); strings.Contains(told, "was cut off") != cutOff {
			t.Errorf("cut after %d: the model is told %q", cut, told)
		}
		// Once settled it stays so: the next start changes nothing.
		kept := len(r.store.entries[r.a.ID()])
		if again := r.resumed(kept); len(again.store.entries[r.a.ID()]) != kept {
			t.Errorf("cut after %d: settled twice", cut)
		}
	}
}

// readingLog is a memoryLog that can be searched, as the real one.
type readingLog struct {
	*memoryLog
	AuditReader
}

func (l readingLog) Search(_ context.Context, q AuditQuery) (AuditPage, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var page AuditPage
	for _, r := range l.rows {
		if r.Call == q.Call {
			page.Rows = append(page.Rows, r)
		}
	}
	return page, nil
}

// TestResultOfACutCallSaysWhatTheLogKnows: between the end of a call and its result
// in the conversation, the audit log tells what became of it.
func TestResultOfACutCallSaysWhatTheLogKnows(t *testing.T) {
	log := &memoryLog{}
	l := newLoopWith(t, loopParts{world: func(w *world) { w.opts.Audit = readingLog{memoryLog: log} }}, nil,
		asks("run_bash", map[string]any{"command": "echo it did; exit 4"}, "run_bash", map[string]any{"command": "rm -rf x"}), words("done"))
	if err := l.s.AddRule(policy.DenyRule, "run_bash(rm *)", "t"); err != nil {
		t.Fatal(err)
	}
	l.run("go")
	entries := l.store.entries[l.a.ID()]
	for _, tt := range []struct {
		name string
		cut  int // after the start of a call
		rows int // that the log has of it
		want []string
	}{
		{"nothing was decided", 3, 0, []string{"it was not decided, and did not run"}},
		{"it was allowed", 3, 1, []string{"allowed to start", "not repeated"}},
		{"it ended", 3, 2, []string{"allowed to start", "ended with status fail", "it did\\n"}},
		{"it was denied", 5, 3, []string{"denied and did not run"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if entries[tt.cut-1].Kind != EntryStarted {
				t.Fatalf("entry %d is %s", tt.cut, entries[tt.cut-1].Kind)
			}
			all := log.rows
			log.rows = all[:tt.rows]
			r := l.resumed(tt.cut)
			log.rows = all
			text := ""
			for _, b := range r.results() {
				if b.CallID == entries[tt.cut-1].Block.CallID {
					text = b.Text
				}
			}
			for _, want := range tt.want {
				if !strings.Contains(text, want) {
					t.Errorf("told %q, want %q", text, want)
				}
			}
		})
	}
}

// TestQuestionOfACutCallIsSettled: a question that was pending when the daemon ended
// is restored by the queue, and withdrawn with the call that asked.
func TestQuestionOfACutCallIsSettled(t *testing.T) {
	store := newMemoryStore()
	l := newLoopWith(t, loopParts{world: func(w *world) {
		w.asks = NewAskQueue(AskQueueOptions{Store: store, Session: func(id string) (*Session, bool) { return w.m.Find(id) }})
	}}, nil, asks("run_bash", map[string]any{"command": "echo never"}))
	if err := l.s.AddRule(policy.AskRule, "run_bash", "t"); err != nil {
		t.Fatal(err)
	}
	detach := l.asks.Attach(l.peer(), "t")
	defer detach()
	ctx, cancel := context.WithCancel(context.Background())
	end := make(chan TurnEnd, 1)
	go func() { end <- l.a.Run(ctx, "go", nil) }()
	l.asked(1)
	cancel()
	<-end
	store.answers = map[string]StoredAnswer{} // as it was on disk while it waited
	// The next process.
	l.asks = NewAskQueue(AskQueueOptions{Store: store, Session: func(id string) (*Session, bool) { return l.m.Find(id) }})
	if err := l.asks.Restore(t.Context()); err != nil {
		t.Fatal(err)
	}
	if q := l.asks.Pending(l.peer()); len(q) != 1 {
		t.Fatalf("restored %+v", q)
	}
	l.o.Dispatcher.o.Asks = l.asks
	r := l.resumed(3, words("on"))
	if q := l.asks.Pending(l.peer()); len(q) != 0 {
		t.Errorf("still asked: %+v", q)
	}
	if b := r.results()[0]; b.Status != StatusInterrupted {
		t.Errorf("%+v", b)
	}
}

// TestNothingRunsThatCannotBeKept: when the store fails, the turn ends with that
// reason, a call that could not be noted does not run, and each has its result.
func TestNothingRunsThatCannotBeKept(t *testing.T) {
	for _, tt := range []struct {
		name string
		fail func(Entry) bool
		runs int
	}{
		{"prompt", func(e Entry) bool { return e.Kind == EntryMessage && e.Message.Role == RoleUser }, 0},
		{"answer", func(e Entry) bool { return e.Kind == EntryMessage && e.Message.Role == RoleAssistant }, 0},
		{"start", func(e Entry) bool { return e.Kind == EntryStarted }, 0},
		{"result", func(e Entry) bool { return e.Kind == EntryResult }, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ran := map[string]int{}
			l := newLoop(t, []Tool{counted(ran)}, nil, asks("count", n("a"), "count", n("b")), words("done"))
			full := errors.New("disk full")
			l.store.refuse = func(e Entry) error {
				if tt.fail(e) {
					return full
				}
				return nil
			}
			end, _ := l.run("go")
			if end.Reason != EndStore || !errors.Is(end.Err, full) || !strings.Contains(end.Error, "disk full") {
				t.Errorf("%+v", end)
			}
			if len(ran) != tt.runs {
				t.Errorf("ran %v", ran)
			}
		})
	}
}

// TestConversationsOfOthersAreNotContinued.
func TestConversationsOfOthersAreNotContinued(t *testing.T) {
	l := newLoop(t, nil, nil, words("done"))
	l.run("go")
	head := l.store.heads[l.a.ID()]
	head.UID++
	l.store.heads[head.ID] = head
	l.o.Conversation = head.ID
	if _, err := NewAgent(t.Context(), l.o); !errors.Is(err, ErrNoConversation) {
		t.Errorf("error %v", err)
	}
	l.o.Conversation = "conversation-x"
	if _, err := NewAgent(t.Context(), l.o); !errors.Is(err, ErrNoConversation) {
		t.Errorf("error %v", err)
	}
	// Two loops never write one conversation.
	head.UID--
	l.store.heads[head.ID] = head
	l.o.Conversation = head.ID
	a, b := l.agent(), l.agent()
	l.model.steps = append(l.model.steps, words("a"), words("b"))
	if end := a.Run(t.Context(), "x", nil); end.Reason != EndCompleted {
		t.Errorf("%+v", end)
	}
	if end := b.Run(t.Context(), "x", nil); end.Reason != EndStore || !errors.Is(end.Err, ErrConversationMoved) {
		t.Errorf("%+v", end)
	}
}

// TestSecretsAreNotKept: neither in a conversation nor in events; the model and the
// tools work with what is there.
func TestSecretsAreNotKept(t *testing.T) {
	const secret = "hunter2hunter2"
	l := newLoopWith(t, loopParts{world: func(w *world) { w.host.Environ = append(w.host.Environ, "API_TOKEN="+secret) }}, nil,
		answers(Message{Blocks: []Block{
			{Kind: BlockThinking, Text: "the token " + secret, Opaque: json.RawMessage(`{"t":"` + secret + `"}`), Provider: "played"},
			{Kind: BlockThinking, Text: "fine", Opaque: json.RawMessage(`{"signature":"abc"}`), Provider: "played"},
			{Kind: BlockText, Text: "I use " + secret},
			{Kind: BlockToolUse, CallID: "a", Tool: "run_bash", Args: `{"command":"echo say ` + secret + ` > out; cat out"}`},
			{Kind: BlockToolUse, CallID: "b", Tool: "run_bash", Args: `{"command": "` + secret},
		}}), words("it was "+secret))
	end, events := l.run("take " + secret)
	if end.Reason != EndCompleted || readText(l.host.path("home/u/w/out")) != "say "+secret+"\n" {
		t.Fatalf("%+v", end)
	}
	if sent := l.model.asked()[1].Messages; !strings.Contains(sent[2].Blocks[0].Text, secret) {
		t.Error("the model does not see what the tool printed")
	}
	var kept []any
	kept = append(kept, l.store.heads[l.a.ID()])
	for _, e := range l.store.entries[l.a.ID()] {
		kept = append(kept, e)
	}
	for _, e := range events {
		kept = append(kept, e)
	}
	for _, e := range l.s.Events().ring {
		kept = append(kept, e)
	}
	for _, r := range l.log.rows {
		kept = append(kept, r)
	}
	for _, k := range kept {
		if text, _ := json.Marshal(k); strings.Contains(string(text), secret) {
			t.Errorf("kept: %s", text)
		}
	}
	// What was kept is still JSON, and an untouched signature is still there.
	answer := l.store.entries[l.a.ID()][1].Message
	if !json.Valid([]byte(answer.Blocks[3].Args)) || answer.Blocks[0].Opaque != nil || string(answer.Blocks[1].Opaque) != `{"signature":"abc"}` {
		t.Errorf("kept %+v", answer.Blocks)
	}
}

// TestTodosSurviveARestart: the list is that of the last call that wrote it.
func TestTodosSurviveARestart(t *testing.T) {
	todo := testTool{name: "todo_write", call: func(_ context.Context, r *ToolRun) (string, error) {
		_, err := r.Agent().Todos().Write(r.Call.Args)
		return "noted", err
	}}
	l := newLoop(t, []Tool{todo}, nil, asks("todo_write", map[string]any{"todos": []any{"one", "two"}}),
		asks("todo_write", map[string]any{"merge": true, "todos": []any{map[string]any{"content": "one", "status": "completed"}}}, "todo_write", map[string]any{"todos": 7}), words("ok"))
	l.run("go")
	want := "[x] one\n[ ] two\n"
	if got := l.a.Todos().Text(); got != want {
		t.Fatalf("list %q", got)
	}
	if r := l.resumed(len(l.store.entries[l.a.ID()])); r.a.Todos().Text() != want {
		t.Errorf("after a restart: %q", r.a.Todos().Text())
	}
}
