package provider

import (
	"context"
	"encoding/json"

	"github.com/anthropics/anthropic-sdk-go/v2"
	"github.com/anthropics/anthropic-sdk-go/v2/option"
	"github.com/anthropics/anthropic-sdk-go/v2/packages/param"

	"sandboxd/agentloop"
)

// defaultAnthropicModel is used where no model is named.
const defaultAnthropicModel = string(anthropic.ModelClaudeSonnet5_5)

// defaultMaxTokens bounds an answer where nothing else does: the API demands a bound.
const defaultMaxTokens = 8192

// anthropicAPI speaks Anthropic's Messages API.
type anthropicAPI struct {
	messages anthropic.MessageService
}

func newAnthropic(e endpoint) api {
	// The service alone, without a client of the SDK: that one reads the
	// environment of this process and the user's profiles.
	options := []option.RequestOption{
		option.WithoutEnvironmentDefaults(),
		option.WithoutOpenTelemetry(), option.WithOpenTelemetryPropagation(false),
		option.WithBaseURL(e.base.String()),
		option.WithHTTPClient(e.http),
		option.WithMaxRetries(0), // [client.Stream] does it, and tells
	}
	switch {
	case e.key == "":
	case e.bearer:
		options = append(options, option.WithAuthToken(e.key))
	default:
		// The header that the API documents (docs.anthropic.com, "Getting started,
		// authentication"). WithAPIKey of the SDK sends the key as a bearer token.
		options = append(options, option.WithHeader("X-Api-Key", e.key))
	}
	return &anthropicAPI{messages: anthropic.NewMessageService(options...)}
}

func (a *anthropicAPI) name() string { return Anthropic }

// optional: models differ in which kinds of thinking they take, and refuse
// thoughts of a conversation that was changed since.
func (a *anthropicAPI) optional() []part {
	return []part{{"thinking", "thinking"}, {thoughts, "thinking"}, {"output_config", "output_config"}, {"tool_choice", "tool_choice"}}
}

// params maps a request, whose messages are repaired.
func (a *anthropicAPI) params(r agentloop.ModelRequest, without map[string]bool) anthropic.MessageNewParams {
	p := anthropic.MessageNewParams{Model: r.Model, MaxTokens: int64(r.MaxTokens)}
	if p.MaxTokens <= 0 {
		p.MaxTokens = defaultMaxTokens
	}
	for _, text := range r.System {
		if text != "" {
			p.System = append(p.System, anthropic.TextBlockParam{Text: text})
		}
	}
	for _, t := range r.Tools {
		p.Tools = append(p.Tools, anthropic.ToolUnionParam{OfTool: &anthropic.ToolParam{
			Name: t.Name, Description: param.NewOpt(t.Description), InputSchema: param.Override[anthropic.ToolInputSchemaParam](parameters(t.Parameters)),
		}})
	}
	for _, m := range r.Messages {
		p.Messages = append(p.Messages, anthropicMessage(m))
	}
	if len(p.Tools) > 0 && r.NoTools {
		if without["tool_choice"] {
			p.Tools = nil
		} else {
			p.ToolChoice = anthropic.ToolChoiceUnionParam{OfNone: &anthropic.ToolChoiceNoneParam{}}
		}
	}
	switch {
	case without["thinking"]: // the model's default
	case r.NoThinking:
		p.Thinking.OfDisabled = &anthropic.ThinkingConfigDisabledParam{}
	default:
		// Newer models say what they are doing between calls in their thoughts, which
		// are empty unless they are asked for.
		p.Thinking.OfAdaptive = &anthropic.ThinkingConfigAdaptiveParam{Display: anthropic.ThinkingConfigAdaptiveDisplaySummarized}
	}
	var schema map[string]any
	if json.Unmarshal(r.Schema, &schema) == nil && schema != nil && !without["output_config"] {
		p.OutputConfig.Format = anthropic.JSONOutputFormatParam{Schema: schema}
	}
	markCaches(&p)
	return p
}

// markCaches marks what later requests repeat: the tools, the first part of the
// system prompt, and the last two messages of the user. The API takes four marks.
func markCaches(p *anthropic.MessageNewParams) {
	if n := len(p.Tools); n > 0 {
		p.Tools[n-1].OfTool.CacheControl = anthropic.NewCacheControlEphemeralParam()
	}
	if len(p.System) > 0 {
		p.System[0].CacheControl = anthropic.NewCacheControlEphemeralParam()
	}
	marks := 2
	for i := len(p.Messages) - 1; i >= 0 && marks > 0; i-- {
		m := p.Messages[i].OfUser
		if m == nil || len(m.Content) == 0 {
			continue
		}
		if c := m.Content[len(m.Content)-1].GetCacheControl(); c != nil {
			*c = anthropic.NewCacheControlEphemeralParam()
			marks--
		}
	}
}

func anthropicMessage(m agentloop.Message) anthropic.MessageParam {
	var blocks []anthropic.ContentBlockParamUnion
	for _, b := range m.Blocks {
		switch b.Kind {
		case agentloop.BlockText:
			blocks = append(blocks, anthropic.NewTextBlock(b.Text))
		case agentloop.BlockToolUse:
			blocks = append(blocks, anthropic.NewToolUseBlock(b.CallID, json.RawMessage(b.Args), b.Tool))
		case agentloop.BlockToolResult:
			blocks = append(blocks, anthropic.NewToolResultBlock(b.CallID, b.Text, failedResult(b)))
		case agentloop.BlockThinking:
			if t := readThought(b.Opaque); t.Type == "thinking" {
				blocks = append(blocks, anthropic.NewThinkingBlock(t.Signature, t.Thinking))
			} else {
				blocks = append(blocks, anthropic.NewRedactedThinkingBlock(t.Data))
			}
		}
	}
	if m.Role == agentloop.RoleAssistant {
		return anthropic.NewAssistantMessage(blocks...)
	}
	return anthropic.NewUserMessage(blocks...)
}

// failedResult says whether the model is told that a call failed.
func failedResult(b agentloop.Block) bool {
	return b.Status != "" && b.Status != agentloop.StatusOK && b.Status != agentloop.StatusAllow
}

// thought is a signed thought as it is kept: opaque to all but this API.
type thought struct {
	Model     string `json:"model,omitempty"` // that was asked: no other takes it back
	Type      string `json:"type"`
	Thinking  string `json:"thinking,omitempty"`
	Signature string `json:"signature,omitempty"`
	Data      string `json:"data,omitempty"`
}

func readThought(opaque json.RawMessage) (t thought) {
	if json.Unmarshal(opaque, &t) != nil {
		return thought{}
	}
	return t
}

func (a *anthropicAPI) thought(b agentloop.Block, model string) bool {
	t := readThought(b.Opaque)
	return b.Provider == Anthropic && t.Model == model && (t.Type == "thinking" && t.Signature != "" || t.Type == "redacted_thinking" && t.Data != "")
}

func (a *anthropicAPI) stream(ctx context.Context, r agentloop.ModelRequest, without map[string]bool, emit func(agentloop.ModelDelta)) (agentloop.ModelAnswer, error) {
	stream := a.messages.NewStreaming(ctx, a.params(r, without))
	defer stream.Close()
	g := &anthropicAnswer{emit: emit, asked: r.Model, blocks: map[int64]*anthropicBlock{}}
	for stream.Next() {
		if done, err := g.event(stream.Current()); err != nil || done {
			if err != nil {
				return agentloop.ModelAnswer{}, err
			}
			return g.answer(), nil
		}
	}
	if err := stream.Err(); err != nil {
		if api, ok := asAPIError(err); ok {
			return agentloop.ModelAnswer{}, api
		}
		return agentloop.ModelAnswer{}, err
	}
	return agentloop.ModelAnswer{}, cut()
}
