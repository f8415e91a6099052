package agentloop

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// ask sends one request to the model and keeps its answer before anything of it
// is done. A context that is too long is made smaller once.
func (t *turn) ask(ctx context.Context, noTools bool) (ModelAnswer, *TurnEnd) {
	answer, err := t.request(ctx, noTools)
	if model, ok := errors.AsType[*ModelError](err); ok && model.Kind == ModelTooLong && ctx.Err() == nil {
		t.compact(ctx, compactAuto, "")
		answer, err = t.request(ctx, noTools)
	}
	if err != nil {
		if end := t.broken(ctx); end != nil {
			return answer, end
		}
		return answer, &TurnEnd{Reason: EndModel, Error: err.Error(), Err: err}
	}
	message, dropped := t.a.normal(answer)
	if dropped > 0 {
		t.events.send(EventTurnNotice, TurnNotice{Kind: "calls-dropped", Text: fmt.Sprintf("%d calls of one answer are left out: at most %d are looked at", dropped, maxKeptUses)})
	}
	answer.Message = message
	answer.Message.Step = t.step
	t.usage = t.usage.Add(answer.Usage)
	t.context = answer.Usage.Context()
	t.limits.answer(answer.Message, answer.Usage)
	if text := answer.Message.Text(); text != "" {
		t.text = text
	}
	if len(answer.Message.Blocks) > 0 {
		if end := t.say(ctx, answer.Message); end != nil {
			return answer, end
		}
		t.events.send(EventTurnMessage, answer.Message)
	}
	t.events.send(EventTurnUsage, TurnUsage{Step: t.step, Usage: answer.Usage, Total: t.usage, Cost: t.cost(t.usage)})
	return answer, nil
}

func (t *turn) cost(u Usage) float64 {
	if t.a.price == nil {
		return 0
	}
	return t.a.price.Of(u)
}

func (t *turn) request(ctx context.Context, noTools bool) (ModelAnswer, error) {
	return t.a.o.Provider.Stream(ctx, ModelRequest{
		Model: t.a.o.Config.Model, System: t.a.system(ctx, t.parts), Messages: t.a.sent(), Tools: t.a.schemas(), NoTools: noTools,
		MaxTokens: t.a.limits.MaxAnswer, NoThinking: t.a.o.Path != "",
	}, t.delta)
}

// delta tells a piece of an answer.
func (t *turn) delta(d ModelDelta) {
	switch {
	case d.Retry != nil:
		text := ""
		if d.Retry.Err != nil {
			text = d.Retry.Err.Error()
		}
		t.events.send(EventTurnRetry, TurnRetry{Attempt: d.Retry.Attempt, Wait: d.Retry.Wait, Error: text})
	case d.Thinking != "":
		t.events.send(EventTurnThinking, TurnText{Step: t.step, Text: d.Thinking})
	case d.Text != "":
		t.events.send(EventTurnText, TurnText{Step: t.step, Text: d.Text})
	}
}

// sent are the messages as a model gets them: what no person and no model wrote
// is framed as data.
func (a *Agent) sent() []Message {
	messages := a.Messages()
	for i := range messages {
		blocks := make([]Block, len(messages[i].Blocks))
		for j, b := range messages[i].Blocks {
			switch {
			case b.Kind == BlockToolResult:
				b.Text = FrameData(OriginTool, b.Tool, b.Text)
			case b.Kind == BlockText && b.Origin != OriginUser && b.Origin != OriginModel:
				b.Text = FrameData(b.Origin, b.Name, b.Text)
			}
			blocks[j] = b
		}
		messages[i].Blocks = blocks
	}
	return messages
}

// Bounds of an answer, whatever a server sends: calls that are kept (each has its row
// and its entries), and bytes of all texts and arguments. More than a model writes in
// one answer, less than a store takes as one entry (8 MiB).
const (
	maxKeptUses    = 512
	maxAnswerBytes = 4 << 20
)

// maxToolName is the longest name of a tool that the model APIs take.
const maxToolName = 64

// normal is an answer as the conversation keeps it: by the model alone, each call
// with a name that can be sent again and an id that no other has. dropped counts the
// calls that were too many.
func (a *Agent) normal(answer ModelAnswer) (m Message, dropped int) {
	m = Message{Role: RoleAssistant, Time: a.now().UTC(), Model: answer.Message.Model, Usage: &answer.Usage}
	if m.Model == "" {
		m.Model = a.o.Config.Model
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	uses, left := 0, maxAnswerBytes
	cut := func(text string) string {
		text = strings.ToValidUTF8(clip(text, left), "\uFFFD")
		left = max(left-len(text), 0)
		return text
	}
	for _, b := range answer.Message.Blocks {
		b.Origin, b.Status, b.Audit, b.Name = OriginModel, "", "", ""
		b.Text, b.Args = cut(b.Text), cut(b.Args)
		if left -= len(b.Opaque); left < 0 {
			b.Opaque, left = nil, 0
		}
		switch b.Kind {
		case BlockText:
			if strings.TrimSpace(b.Text) == "" {
				continue
			}
		case BlockThinking:
		case BlockToolUse:
			if uses++; uses > maxKeptUses {
				dropped++
				continue
			}
			b.Text = ""
			b.Tool = plainName(b.Tool)
			if !plainID(b.CallID) || a.conv.ids[b.CallID] {
				b.CallID = NewID("use")
			}
			a.conv.ids[b.CallID] = true
		default:
			continue // a model makes no results
		}
		m.Blocks = append(m.Blocks, b)
	}
	return m, dropped
}

// plainName is a name of a tool that every API takes back.
func plainName(name string) string {
	name = strings.Map(func(r rune) rune {
		if plainRune(r) {
			return r
		}
		return '_'
	}, name)
	if name == "" {
		return "unnamed"
	}
	return name[:min(len(name), maxToolName)]
}

func plainRune(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-'
}

// maxCallID is more than any provider's ids have.
const maxCallID = 128

func plainID(id string) bool {
	return id != "" && len(id) <= maxCallID && strings.IndexFunc(id, func(r rune) bool { return !plainRune(r) }) < 0
}
