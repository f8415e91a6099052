package agentloop

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"sandboxd/policy"
)

// conversation is what an agent knows of what was said.
type conversation struct {
	head     Conversation
	messages []Message
	ids      map[string]bool // of calls
	seq      int64           // the last entry that is kept
	saved    bool            // the head is kept
}

// begin makes a new conversation; it is kept with its first turn.
func (c *conversation) begin(a *Agent) {
	now := a.now().UTC()
	c.ids = map[string]bool{}
	c.head = Conversation{ID: NewID("conversation"), UID: a.o.Session.peer.UID(), Session: a.o.Session.id, Agent: a.o.Path, Workspace: a.o.Session.workspace,
		Provider: a.o.Provider.Name(), Model: a.o.Config.Model, Created: now, Changed: now}
	if a.o.above != nil {
		c.head.Parent = a.o.above.a.ID()
	}
}

// maxTitle bounds the title of a conversation, in characters.
const maxTitle = 80

// beginTurn keeps the head of the conversation with a new turn.
func (a *Agent) beginTurn(ctx context.Context, prompt string) error {
	a.mu.Lock()
	h := &a.conv.head
	if h.Title == "" {
		line, _, _ := strings.Cut(strings.TrimSpace(prompt), "\n")
		h.Title = firstCharacters(a.o.Session.Kept().Mask(line), maxTitle)
	}
	h.Turns++
	h.Ended = ""
	a.mu.Unlock()
	return a.saveHead(ctx)
}

// endTurn keeps the end of a turn.
func (a *Agent) endTurn(ctx context.Context, end TurnEnd) error {
	a.mu.Lock()
	a.conv.head.spent(end.Usage, end.Cost)
	a.conv.head.Ended = end.Reason
	begun := a.conv.saved
	a.mu.Unlock()
	if !begun {
		return nil // the prompt was refused: there is nothing to end
	}
	if err := a.keep(ctx, Entry{Kind: EntryEnd, End: &end}); err != nil {
		return err
	}
	return a.saveHead(ctx)
}

// spent adds what a turn or a compaction took.
func (c *Conversation) spent(u Usage, cost *float64) {
	c.Usage = c.Usage.Add(u)
	if cost == nil {
		return
	}
	all := *cost
	if c.Cost != nil {
		all += *c.Cost
	}
	c.Cost = &all
}

// addSpent keeps what was spent outside of a turn.
func (a *Agent) addSpent(ctx context.Context, u Usage, cost *float64) error {
	if u == (Usage{}) {
		return nil
	}
	a.mu.Lock()
	a.conv.head.spent(u, cost)
	saved := a.conv.saved
	a.mu.Unlock()
	if !saved {
		return nil
	}
	return a.saveHead(ctx)
}

func (a *Agent) saveHead(ctx context.Context) error {
	a.mu.Lock()
	a.conv.head.Changed = a.now().UTC()
	head := a.conv.head
	a.mu.Unlock()
	if a.o.Store == nil {
		return nil
	}
	if err := a.o.Store.SaveConversation(context.WithoutCancel(ctx), head); err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.conv.saved = true
	return nil
}

// append keeps a message and adds it to what is sent.
func (a *Agent) append(ctx context.Context, m Message) error {
	if err := a.keep(ctx, Entry{Kind: EntryMessage, Message: &m}); err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.conv.messages = append(a.conv.messages, m)
	return nil
}

// replaceMessages puts a summary, and the messages that stay, in the place of all
// messages.
func (a *Agent) replaceMessages(ctx context.Context, summary Message, rest []Message) error {
	if err := a.keep(ctx, Entry{Kind: EntryCompact, Message: &summary, Rest: rest}); err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.conv.messages = append([]Message{summary}, rest...)
	return nil
}

// keep appends an entry, masked. It is written although ctx has ended: what
// happened is not lost.
func (a *Agent) keep(ctx context.Context, e Entry) error {
	if a.o.Store == nil {
		return nil
	}
	a.storing.Lock()
	defer a.storing.Unlock()
	e = maskEntry(a.o.Session.keptFor(e), e)
	e.Seq, e.Time = a.conv.seq+1, a.now().UTC()
	if err := a.o.Store.AppendEntry(context.WithoutCancel(ctx), a.conv.head.ID, e); err != nil {
		return err
	}
	a.conv.seq++
	return nil
}

// keptFor is the mask of what is kept, which knows the secrets in the arguments of an
// entry: the model may name one before the call that tells of it.
func (s *Session) keptFor(e Entry) *Redactor {
	var blocks []Block
	if e.Message != nil {
		blocks = e.Message.Blocks
	}
	if e.Block != nil {
		blocks = append(blocks[:len(blocks):len(blocks)], *e.Block)
	}
	for _, b := range blocks {
		if args, err := policy.DecodeArgs([]byte(b.Args)); err == nil {
			s.keptWith(args)
		}
	}
	return s.Kept()
}

// maskEntry is an entry without the secrets that are known.
func maskEntry(red *Redactor, e Entry) Entry {
	if e.Message != nil {
		m := maskMessage(red, *e.Message)
		e.Message = &m
	}
	if e.Block != nil {
		b := maskBlock(red, *e.Block)
		e.Block = &b
	}
	if e.End != nil {
		end := *e.End
		end.Text, end.Error = red.Mask(end.Text), red.Mask(end.Error)
		e.End = &end
	}
	if e.Rest != nil {
		e.Rest = slices.Clone(e.Rest)
		for i := range e.Rest {
			e.Rest[i] = maskMessage(red, e.Rest[i])
		}
	}
	return e
}

// takeWaiting returns what waits to be told to the model.
func (a *Agent) takeWaiting() []Block {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := a.waiting
	a.waiting = nil
	return out
}

// compactAsked returns the focus of a compaction that a tool asked for.
func (a *Agent) compactAsked() (focus string, asked bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.compacts == nil {
		return "", false
	}
	focus = *a.compacts
	a.compacts = nil
	return focus, true
}

func encodeArgs(args policy.Args) (string, error) {
	text, err := json.Marshal(args)
	return string(text), err
}
