package agentloop

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"sandboxd/policy"
)

// replay makes messages of the entries of a conversation.
type replay struct {
	messages []Message
	ids      map[string]bool
	// uses are the calls of the last answer, with what is known of each by its id.
	uses    []Block
	started map[string]Block
	results map[string]Block
	step    int
	ended   bool // the last entry is the end of a turn
	todos   *TodoList
}

func newReplay(todos *TodoList) *replay { return &replay{ids: map[string]bool{}, todos: todos} }

func (r *replay) add(e Entry) {
	r.ended = e.Kind == EntryEnd
	switch {
	case e.Kind == EntryMessage && e.Message != nil:
		r.settle()
		r.messages = append(r.messages, *e.Message)
		if e.Message.Role == RoleAssistant {
			r.uses, r.step = e.Message.Uses(), e.Message.Step
			r.started, r.results = map[string]Block{}, map[string]Block{}
			for _, u := range r.uses {
				r.ids[u.CallID] = true
			}
		}
	case e.Kind == EntryStarted && e.Block != nil && r.started != nil:
		r.started[e.Block.CallID] = *e.Block
	case e.Kind == EntryResult && e.Block != nil && r.results != nil:
		r.results[e.Block.CallID] = *e.Block
		r.remember(*e.Block)
	case e.Kind == EntryCompact && e.Message != nil:
		r.uses = nil
		r.messages = append([]Message{*e.Message}, e.Rest...)
		for _, m := range e.Rest {
			for _, u := range m.Uses() {
				r.ids[u.CallID] = true
			}
		}
	case e.Kind == EntryEnd:
		r.settle()
	}
}

// remember takes over the list of todos that a call wrote.
func (r *replay) remember(result Block) {
	i := slices.IndexFunc(r.uses, func(u Block) bool { return u.CallID == result.CallID })
	if i < 0 || result.Status != StatusOK || policy.CanonicalTool(r.uses[i].Tool) != "todo_write" {
		return
	}
	if args, err := policy.DecodeArgs([]byte(r.uses[i].Args)); err == nil {
		_, _ = r.todos.Write(args) // it was written once: what is refused now was masked
	}
}

// open are the calls of the last answer that have no result, and whether each was
// started.
func (r *replay) open() (calls []Block, started []bool) {
	for _, u := range r.uses {
		if _, done := r.results[u.CallID]; done {
			continue
		}
		s, ok := r.started[u.CallID]
		if ok {
			u.Audit = s.Audit
		}
		calls, started = append(calls, u), append(started, ok)
	}
	return calls, started
}

// settle makes the results of the last answer one message. A call without one, in
// the middle of a conversation, gets one here: nothing that is sent is unpaired.
func (r *replay) settle() {
	if len(r.uses) == 0 {
		return
	}
	m := Message{Role: RoleUser, Step: r.step}
	for _, u := range r.uses {
		b, ok := r.results[u.CallID]
		if !ok {
			b = cutResult(u, "[what became of this call is not known; it is not repeated]")
		}
		b.CallID, b.Tool = u.CallID, u.Tool
		m.Blocks = append(m.Blocks, b)
	}
	r.messages = append(r.messages, m)
	r.uses = nil
}

func cutResult(u Block, text string) Block {
	return Block{Kind: BlockToolResult, Origin: OriginTool, CallID: u.CallID, Tool: u.Tool, Text: text, Status: StatusInterrupted, Audit: u.Audit}
}

// replayed reads the conversation, page by page where the store has pages: what a
// summary replaced is not held beside what it is replaced by.
func (a *Agent) replayed(ctx context.Context) (head Conversation, r *replay, last int64, err error) {
	if a.o.Store == nil {
		return head, nil, 0, ErrNoConversation
	}
	r = newReplay(&a.todos)
	pages, ok := a.o.Store.(ConversationArchive)
	if !ok {
		var entries []Entry
		head, entries, err = a.o.Store.Conversation(ctx, a.o.Conversation)
		for _, e := range entries {
			r.add(e)
			last = e.Seq
		}
		return head, r, last, err
	}
	if head, err = pages.Head(ctx, a.o.Conversation); err != nil {
		return head, nil, 0, err
	}
	for {
		page, err := pages.EntriesAfter(ctx, a.o.Conversation, last)
		if err != nil || len(page) == 0 {
			return head, r, last, err
		}
		for _, e := range page {
			r.add(e)
			last = e.Seq
		}
	}
}

// resume reads the conversation and settles what the end of the process cut off.
func (a *Agent) resume(ctx context.Context) error {
	head, r, last, err := a.replayed(ctx)
	if err != nil {
		return err
	}
	s := a.o.Session
	if head.UID != s.peer.UID() {
		return ErrNoConversation
	}
	a.conv.head, a.conv.saved, a.conv.seq = head, true, last
	a.conv.head.Session, a.conv.head.Provider, a.conv.head.Model = s.id, a.o.Provider.Name(), a.o.Config.Model
	if err := a.settleCut(ctx, r); err != nil {
		return err
	}
	cut := !r.ended && last > 0
	r.settle()
	a.conv.messages, a.conv.ids = r.messages, r.ids
	if !cut {
		return nil
	}
	why, text := "the program ended in the middle of the turn", "The turn before was cut off: the program ended in the middle of it. Look at what is there before you go on."
	if head.Parent != "" && head.Agent == "" && last == head.ParentLast {
		why, text = "the conversation was forked in the middle of the turn", "This conversation was forked in the middle of the turn before: what came after it was left out. Files may hold more than what is said here; look at what is there before you go on."
	}
	a.Inject(OriginLoop, "interrupted", text)
	return a.endTurn(ctx, TurnEnd{Reason: EndClosed, Error: why, Steps: r.step})
}

// settleCut keeps a result for each call that has none, before anything new is
// said: none of them is run again.
func (a *Agent) settleCut(ctx context.Context, r *replay) error {
	calls, started := r.open()
	for i, u := range calls {
		text := "[not run: the program ended before this call was started; it is not repeated]"
		if started[i] {
			text = "[interrupted: the program ended while this call ran, or just after it; it is not repeated." + a.recorded(ctx, u.Audit) + "]"
			a.withdraw(ctx, u.Audit)
		}
		b := cutResult(u, text)
		if err := a.keep(ctx, Entry{Kind: EntryResult, Block: &b}); err != nil {
			return err
		}
		r.results[u.CallID] = b
	}
	return nil
}

// recorded says what the audit log knows about a call.
func (a *Agent) recorded(ctx context.Context, id string) string {
	log, ok := a.o.Dispatcher.o.Audit.(AuditReader)
	if !ok || id == "" {
		return ""
	}
	page, err := log.Search(ctx, AuditQuery{Viewer: ViewOwn(a.o.Session.peer.UID()), Call: id})
	if err != nil {
		return ""
	}
	var said []string
	for _, row := range page.Rows {
		switch row.Status {
		case StatusAsk:
			said = append(said, "a question was put")
		case StatusAllow:
			said = append(said, "it was allowed to start")
		case StatusDeny, StatusBlocked:
			said = append(said, "it was denied and did not run")
		default:
			line := fmt.Sprintf("it ended with status %s after %d ms", row.Status, row.ElapsedMS)
			if row.OutputPreview != "" {
				line += fmt.Sprintf(", and its output began: %q", row.OutputPreview)
			}
			said = append(said, line)
		}
	}
	switch {
	case len(said) == 0:
		return " The audit log has nothing of it: it was not decided, and did not run."
	case !slices.ContainsFunc(page.Rows, func(r AuditRecord) bool { return r.Status == StatusAllow }):
		said = append(said, "it did not run")
	}
	return " The audit log says: " + strings.Join(said, "; ") + "."
}

// withdraw settles the question that a call which was cut off had put.
func (a *Agent) withdraw(ctx context.Context, call string) {
	if q := a.o.Dispatcher.o.Asks; q != nil && call != "" {
		q.dropCall(context.WithoutCancel(ctx), a.o.Session.id, call)
	}
}
