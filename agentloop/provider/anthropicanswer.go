package provider

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/anthropics/anthropic-sdk-go/v2"

	"sandboxd/agentloop"
)

// maxBlocks bounds the blocks of one answer, and the calls in it.
const maxBlocks = 4096

// anthropicAnswer puts an answer together from its events.
type anthropicAnswer struct {
	emit    func(agentloop.ModelDelta)
	asked   string // the model of the request
	started bool
	id      string
	model   string
	stop    anthropic.StopReason
	usage   agentloop.Usage
	blocks  map[int64]*anthropicBlock
}

type anthropicBlock struct {
	kind      string
	text      strings.Builder // of a text, a thought, or the arguments of a use
	signature strings.Builder
	data      string
	id, tool  string
	input     json.RawMessage
	closed    bool
}

// event takes one event; done is the end of the answer.
func (g *anthropicAnswer) event(e anthropic.MessageStreamEventUnion) (done bool, err error) {
	if !g.started && e.Type != "message_start" {
		return false, badAnswer("the stream begins with %q", clipLine(e.Type))
	}
	switch e.Type {
	case "message_start":
		if g.started {
			return false, badAnswer("the answer begins twice")
		}
		g.started, g.id, g.model = true, e.Message.ID, e.Message.Model
		u := e.Message.Usage
		g.usage = agentloop.Usage{Input: u.InputTokens, CacheRead: u.CacheReadInputTokens, CacheWrite: u.CacheCreationInputTokens, Output: u.OutputTokens}
	case "content_block_start":
		return false, g.begin(e)
	case "content_block_delta":
		return false, g.delta(e)
	case "content_block_stop":
		if b := g.blocks[e.Index]; b != nil {
			b.closed = true
		}
	case "message_delta":
		g.stop = e.Delta.StopReason
		// The counts are those of the whole answer; zeros mean that a server does
		// not repeat them.
		last := agentloop.Usage{Input: e.Usage.InputTokens, CacheRead: e.Usage.CacheReadInputTokens, CacheWrite: e.Usage.CacheCreationInputTokens, Output: e.Usage.OutputTokens}
		for to, v := range map[*int64]int64{&g.usage.Input: last.Input, &g.usage.CacheRead: last.CacheRead, &g.usage.CacheWrite: last.CacheWrite, &g.usage.Output: last.Output} {
			if v > 0 {
				*to = v
			}
		}
	case "message_stop":
		return true, nil
	}
	return false, nil
}

func (g *anthropicAnswer) begin(e anthropic.MessageStreamEventUnion) error {
	if len(g.blocks) >= maxBlocks {
		return badAnswer("the answer has more than %d blocks", maxBlocks)
	}
	if g.blocks[e.Index] != nil {
		return badAnswer("block %d of the answer begins twice", e.Index)
	}
	c := e.ContentBlock
	b := &anthropicBlock{kind: c.Type, id: c.ID, tool: c.Name, data: c.Data}
	g.blocks[e.Index] = b
	switch c.Type {
	case "text":
		g.text(b, c.Text)
	case "thinking":
		g.thinking(b, c.Thinking)
		b.signature.WriteString(c.Signature)
	case "tool_use":
		// Some servers send the whole input here.
		if raw := c.JSON.Input.Raw(); raw != "{}" && raw != "null" {
			b.input = json.RawMessage(raw)
		}
		g.emit(agentloop.ModelDelta{Tool: c.Name})
	}
	return nil
}

func (g *anthropicAnswer) delta(e anthropic.MessageStreamEventUnion) error {
	b := g.blocks[e.Index]
	if b == nil || b.closed {
		return badAnswer("a piece for block %d of the answer, which is not open", e.Index)
	}
	switch e.Delta.Type {
	case "text_delta":
		g.text(b, e.Delta.Text)
	case "thinking_delta":
		g.thinking(b, e.Delta.Thinking)
	case "signature_delta":
		b.signature.WriteString(e.Delta.Signature)
	case "input_json_delta":
		b.text.WriteString(e.Delta.PartialJSON)
	}
	return nil
}

func (g *anthropicAnswer) text(b *anthropicBlock, text string) {
	if text != "" {
		b.text.WriteString(text)
		g.emit(agentloop.ModelDelta{Text: text})
	}
}

func (g *anthropicAnswer) thinking(b *anthropicBlock, text string) {
	if text != "" {
		b.text.WriteString(text)
		g.emit(agentloop.ModelDelta{Thinking: text})
	}
}

func (g *anthropicAnswer) answer() agentloop.ModelAnswer {
	m := agentloop.Message{Role: agentloop.RoleAssistant, Time: time.Now().UTC(), Model: g.model}
	uses := 0
	for _, i := range slices.Sorted(maps.Keys(g.blocks)) {
		b := g.blocks[i]
		out := agentloop.Block{Origin: agentloop.OriginModel, Text: b.text.String()}
		switch b.kind {
		case "text":
			out.Kind = agentloop.BlockText
		case "thinking", "redacted_thinking":
			out.Kind, out.Provider = agentloop.BlockThinking, Anthropic
			out.Opaque, _ = json.Marshal(thought{Model: g.asked, Type: b.kind, Thinking: b.text.String(), Signature: b.signature.String(), Data: b.data})
		case "tool_use":
			uses++
			out.Kind, out.Text, out.CallID, out.Tool, out.Args = agentloop.BlockToolUse, "", b.id, b.tool, b.text.String()
			if out.Args == "" && b.input != nil {
				out.Args = string(b.input)
			}
			if out.Args == "" {
				out.Args = "{}"
			}
		default:
			continue // a kind that was not asked for
		}
		m.Blocks = append(m.Blocks, out)
	}
	a := agentloop.ModelAnswer{Message: m, Usage: g.usage, Detail: string(g.stop), ID: g.id}

	switch g.stop {
	case anthropic.StopReasonEndTurn, anthropic.StopReasonStopSequence:
		a.Stop = agentloop.StopEnd
	case anthropic.StopReasonToolUse:
		a.Stop = agentloop.StopTools
	case anthropic.StopReasonMaxTokens, anthropic.StopReasonModelContextWindowExceeded:
		a.Stop = agentloop.StopLength
	case anthropic.StopReasonRefusal:
		a.Stop = agentloop.StopRefusal
	default:
		a.Stop = agentloop.StopOther
	}
	if uses > 0 && a.Stop == agentloop.StopEnd {
		a.Stop = agentloop.StopTools
	}
	return a
}

// asAPIError is an error event within a stream. The SDK's error holds the request
// and its key: nothing of it but the event is kept.
func asAPIError(err error) (*failure, bool) {
	e, ok := errors.AsType[*anthropic.Error](err)
	if !ok {
		return nil, false
	}
	return ofBody(0, []byte(e.RawJSON())), true
}
