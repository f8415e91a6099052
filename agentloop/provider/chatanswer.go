package provider

import (
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/packages/ssestream"

	"sandboxd/agentloop"
)

// chatAnswer puts an answer together from its chunks.
type chatAnswer struct {
	emit     func(agentloop.ModelDelta)
	id       string
	model    string
	finish   string
	usage    agentloop.Usage
	text     strings.Builder
	thinking strings.Builder
	refusal  strings.Builder
	calls    []*chatCall
}

type chatCall struct {
	index int64
	id    string
	name  string
	args  strings.Builder
}

func (g *chatAnswer) chunk(c openai.ChatCompletionChunk) error {
	if c.ID != "" {
		g.id = c.ID
	}
	if c.Model != "" {
		g.model = c.Model
	}
	if u := c.Usage; u.PromptTokens > 0 || u.CompletionTokens > 0 {
		d := u.PromptTokensDetails
		g.usage = agentloop.Usage{Input: u.PromptTokens - d.CachedTokens - d.CacheWriteTokens, CacheRead: d.CachedTokens, CacheWrite: d.CacheWriteTokens, Output: u.CompletionTokens}
	}
	for _, choice := range c.Choices {
		if choice.Index != 0 {
			continue // one answer was asked for
		}
		if err := g.delta(choice.Delta); err != nil {
			return err
		}
		if choice.FinishReason != "" {
			g.finish = choice.FinishReason
		}
	}
	return nil
}

func (g *chatAnswer) delta(d openai.ChatCompletionChunkChoiceDelta) error {
	// Servers with thinking models send it beside the text; it is not part of the
	// protocol and does not go back.
	for _, name := range []string{"reasoning_content", "reasoning"} {
		var text string
		if f, there := d.JSON.ExtraFields[name]; there && json.Unmarshal([]byte(f.Raw()), &text) == nil && text != "" {
			g.thinking.WriteString(text)
			g.emit(agentloop.ModelDelta{Thinking: text})
			break
		}
	}
	if d.Content != "" {
		g.text.WriteString(d.Content)
		g.emit(agentloop.ModelDelta{Text: d.Content})
	}
	if d.Refusal != "" {
		g.refusal.WriteString(d.Refusal)
		g.emit(agentloop.ModelDelta{Text: d.Refusal})
	}
	for _, t := range d.ToolCalls {
		call := g.call(t)
		if call == nil {
			return badAnswer("the answer has more than %d calls", maxBlocks)
		}
		if call.name == "" && t.Function.Name != "" {
			call.name = t.Function.Name
			g.emit(agentloop.ModelDelta{Tool: call.name})
		}
		call.args.WriteString(t.Function.Arguments)
	}
	return nil
}

// call is the call that a piece belongs to: that of its index, unless the piece
// begins another (some servers number all calls zero).
func (g *chatAnswer) call(t openai.ChatCompletionChunkChoiceDeltaToolCall) *chatCall {
	for i := len(g.calls) - 1; i >= 0; i-- {
		if c := g.calls[i]; c.index == t.Index {
			if t.ID == "" || c.id == "" || t.ID == c.id || t.Function.Name == "" {
				if c.id == "" {
					c.id = t.ID
				}
				return c
			}
			break
		}
	}
	if len(g.calls) >= maxBlocks {
		return nil
	}
	c := &chatCall{index: t.Index, id: t.ID}
	g.calls = append(g.calls, c)
	return c
}

func (g *chatAnswer) answer() agentloop.ModelAnswer {
	m := agentloop.Message{Role: agentloop.RoleAssistant, Time: time.Now().UTC(), Model: g.model}
	add := func(kind agentloop.BlockKind, text string) {
		if text != "" {
			m.Blocks = append(m.Blocks, agentloop.Block{Kind: kind, Origin: agentloop.OriginModel, Text: text})
		}
	}
	add(agentloop.BlockThinking, g.thinking.String())
	add(agentloop.BlockText, g.text.String())
	add(agentloop.BlockText, g.refusal.String())
	for _, c := range g.calls {
		m.Blocks = append(m.Blocks, agentloop.Block{Kind: agentloop.BlockToolUse, Origin: agentloop.OriginModel, CallID: c.id, Tool: c.name, Args: orText(c.args.String(), "{}")})
	}
	a := agentloop.ModelAnswer{Message: m, Usage: g.usage, Detail: clipLine(g.finish), ID: g.id}
	switch g.finish {
	case "stop":
		a.Stop = agentloop.StopEnd
	case "tool_calls", "function_call":
		a.Stop = agentloop.StopTools
	case "length":
		a.Stop = agentloop.StopLength
	case "content_filter":
		a.Stop = agentloop.StopRefusal
	default:
		a.Stop = agentloop.StopOther
	}
	if a.Stop == agentloop.StopEnd && g.refusal.Len() > 0 {
		a.Stop = agentloop.StopRefusal
	}
	if a.Stop == agentloop.StopEnd && len(g.calls) > 0 {
		a.Stop = agentloop.StopTools
	}
	return a
}

// streamError is an error of a stream; one that the server tells within it is
// read from its event.
func streamError(err error) error {
	if told, ok := errors.AsType[*ssestream.StreamError](err); ok {
		return ofBody(0, told.Event.Data)
	}
	return err
}
