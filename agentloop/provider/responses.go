package provider

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/responses"
	"github.com/openai/openai-go/v3/shared"

	"sandboxd/agentloop"
)

// responsesAPI speaks the responses API of OpenAI. Nothing is kept at the server:
// the whole conversation goes with each request, thoughts encrypted.
type responsesAPI struct {
	responses responses.ResponseService
	own       bool
}

func newResponses(e endpoint) api {
	return &responsesAPI{responses: responses.NewResponseService(openAIOptions(e)...), own: e.own}
}

func (a *responsesAPI) name() string { return OpenAIResponses }

func (a *responsesAPI) optional() []part {
	return append(named("reasoning", "tool_choice", "max_output_tokens", "prompt_cache_key", "text.format"), part{"include", "encrypted_content"}, part{"include", "include"}, part{thoughts, "reasoning"}, part{thoughts, "encrypted"})
}

// params maps a request, whose messages are repaired.
func (a *responsesAPI) params(r agentloop.ModelRequest, without map[string]bool) responses.ResponseNewParams {
	p := responses.ResponseNewParams{Model: r.Model, Store: param.NewOpt(false)}
	if system := joined(r.System); system != "" {
		p.Instructions = param.NewOpt(system)
	}
	if r.MaxTokens > 0 && !without["max_output_tokens"] {
		p.MaxOutputTokens = param.NewOpt(int64(r.MaxTokens))
	}
	for _, m := range r.Messages {
		p.Input.OfInputItemList = append(p.Input.OfInputItemList, responseItems(m)...)
	}
	for _, t := range r.Tools {
		tool := responses.ToolParamOfFunction(t.Name, parameters(t.Parameters), false)
		tool.OfFunction.Description = param.NewOpt(t.Description)
		p.Tools = append(p.Tools, tool)
	}
	if len(p.Tools) > 0 && r.NoTools {
		if without["tool_choice"] {
			p.Tools = nil
		} else {
			p.ToolChoice.OfToolChoiceMode = param.NewOpt(responses.ToolChoiceOptionsNone)
		}
	}
	if !without["include"] {
		p.Include = []responses.ResponseIncludable{responses.ResponseIncludableReasoningEncryptedContent}
	}
	if a.own && r.NoThinking && !without["reasoning"] {
		p.Reasoning.Effort = shared.ReasoningEffortNone
	}
	if a.own && !without["prompt_cache_key"] {
		p.PromptCacheKey = param.NewOpt(cacheKey(r))
	}
	var schema map[string]any
	if json.Unmarshal(r.Schema, &schema) == nil && schema != nil && !without["text.format"] {
		p.Text.Format.OfJSONSchema = &responses.ResponseFormatTextJSONSchemaConfigParam{Name: schemaName, Schema: schema, Strict: param.NewOpt(true)}
	}
	return p
}

// reasoning is a thought as it is kept: the item that the server gave, and the
// model that was asked.
type reasoning struct {
	Model string          `json:"model"`
	Item  json.RawMessage `json:"item"`
}

func readReasoning(opaque json.RawMessage) (r reasoning) {
	if json.Unmarshal(opaque, &r) != nil {
		return reasoning{}
	}
	return r
}

func (a *responsesAPI) thought(b agentloop.Block, model string) bool {
	r := readReasoning(b.Opaque)
	var item struct {
		Type    string `json:"type"`
		Content string `json:"encrypted_content"`
	}
	return b.Provider == OpenAIResponses && r.Model == model && json.Unmarshal(r.Item, &item) == nil && item.Type == "reasoning" && item.Content != ""
}

func responseItems(m agentloop.Message) (out []responses.ResponseInputItemUnionParam) {
	role := responses.EasyInputMessageRoleUser
	if m.Role == agentloop.RoleAssistant {
		role = responses.EasyInputMessageRoleAssistant
	}
	for _, b := range m.Blocks {
		switch b.Kind {
		case agentloop.BlockText:
			out = append(out, responses.ResponseInputItemParamOfMessage(b.Text, role))
		case agentloop.BlockToolUse:
			out = append(out, responses.ResponseInputItemParamOfFunctionCall(b.Args, b.CallID, b.Tool))
		case agentloop.BlockToolResult:
			item := responses.ResponseInputItemParamOfFunctionCallOutput(b.Text)
			item.OfFunctionCallOutput.CallID = param.NewOpt(b.CallID)
			out = append(out, item)
		case agentloop.BlockThinking:
			// The server's own item, as it came.
			reasoning := param.Override[responses.ResponseReasoningItemParam](readReasoning(b.Opaque).Item)
			out = append(out, responses.ResponseInputItemUnionParam{OfReasoning: &reasoning})
		}
	}
	return out
}

func (a *responsesAPI) stream(ctx context.Context, r agentloop.ModelRequest, without map[string]bool, emit func(agentloop.ModelDelta)) (agentloop.ModelAnswer, error) {
	stream := a.responses.NewStreaming(ctx, a.params(r, without))
	defer stream.Close()
	g := &responseAnswer{emit: emit, asked: r.Model, items: map[int64]responses.ResponseOutputItemUnion{}}
	for stream.Next() {
		end, err := g.event(stream.Current())
		if err != nil {
			return agentloop.ModelAnswer{}, err
		}
		if end != nil {
			return g.answer(end)
		}
	}
	if err := stream.Err(); err != nil {
		return agentloop.ModelAnswer{}, streamError(err)
	}
	return agentloop.ModelAnswer{}, cut()
}

// responseAnswer puts an answer together from its events. Items count as they are
// when they are done.
type responseAnswer struct {
	emit  func(agentloop.ModelDelta)
	asked string // the model of the request
	items map[int64]responses.ResponseOutputItemUnion
}

// event takes one event; end is the whole at the end of it.
func (g *responseAnswer) event(e responses.ResponseStreamEventUnion) (end *responses.Response, err error) {
	switch e.Type {
	case "response.output_text.delta", "response.refusal.delta":
		if e.Delta != "" {
			g.emit(agentloop.ModelDelta{Text: e.Delta})
		}
	case "response.reasoning_summary_text.delta", "response.reasoning_text.delta":
		if e.Delta != "" {
			g.emit(agentloop.ModelDelta{Thinking: e.Delta})
		}
	case "response.output_item.added":
		if e.Item.Type == "function_call" {
			g.emit(agentloop.ModelDelta{Tool: e.Item.Name})
		}
	case "response.output_item.done":
		if len(g.items) >= maxBlocks {
			return nil, badAnswer("the answer has more than %d items", maxBlocks)
		}
		g.items[e.OutputIndex] = e.Item
	case "response.completed", "response.incomplete":
		return &e.Response, nil
	case "response.failed":
		f := ofBody(0, []byte(`{"error":`+orText(e.Response.Error.RawJSON(), "{}")+`}`))
		if e.Response.Error.RawJSON() == "" {
			f.err = errors.New("the answer failed without a reason")
		}
		return nil, f
	case "error":
		return nil, ofBody(0, []byte(`{"error":`+e.RawJSON()+`}`))
	}
	return nil, nil
}

func (g *responseAnswer) answer(r *responses.Response) (agentloop.ModelAnswer, error) {
	m := agentloop.Message{Role: agentloop.RoleAssistant, Time: time.Now().UTC(), Model: r.Model}
	items := r.Output
	if len(items) == 0 { // some servers leave them out at the end
		for _, i := range slices.Sorted(maps.Keys(g.items)) {
			items = append(items, g.items[i])
		}
	}
	refused := false
	for i := range items {
		b, refusal := responseBlock(&items[i], g.asked)
		refused = refused || refusal
		if b.Kind != "" {
			m.Blocks = append(m.Blocks, b)
		}
	}
	d := r.Usage.InputTokensDetails
	a := agentloop.ModelAnswer{Message: m, ID: r.ID, Detail: clipLine(string(r.Status)), Stop: agentloop.StopEnd, Usage: agentloop.Usage{
		Input: r.Usage.InputTokens - d.CachedTokens - d.CacheWriteTokens, CacheRead: d.CachedTokens, CacheWrite: d.CacheWriteTokens, Output: r.Usage.OutputTokens}}
	if len(m.Uses()) > 0 {
		a.Stop = agentloop.StopTools
	}
	switch reason := r.IncompleteDetails.Reason; {
	case reason == "max_output_tokens":
		a.Stop, a.Detail = agentloop.StopLength, reason
	case reason == "content_filter", refused:
		a.Stop, a.Detail = agentloop.StopRefusal, orText(reason, "refusal")
	case reason != "", r.Status == responses.ResponseStatusIncomplete:
		a.Stop, a.Detail = agentloop.StopOther, clipLine(reason)
	}
	return a, nil
}

func responseBlock(item *responses.ResponseOutputItemUnion, asked string) (b agentloop.Block, refused bool) {
	b.Origin = agentloop.OriginModel
	switch item.Type {
	case "message":
		var texts []string
		for _, c := range item.Content {
			switch c.Type {
			case "output_text":
				texts = append(texts, c.Text)
			case "refusal":
				texts, refused = append(texts, c.Refusal), true
			}
		}
		b.Kind, b.Text = agentloop.BlockText, strings.Join(texts, "")
		if b.Text == "" {
			b.Kind = ""
		}
	case "function_call":
		b.Kind, b.CallID, b.Tool, b.Args = agentloop.BlockToolUse, orText(item.CallID, item.ID), item.Name, orText(item.Arguments.OfString, "{}")
	case "reasoning":
		var texts []string
		for _, s := range item.Summary {
			texts = append(texts, s.Text)
		}
		b.Kind, b.Text, b.Provider = agentloop.BlockThinking, strings.Join(texts, "\n"), OpenAIResponses
		b.Opaque, _ = json.Marshal(reasoning{Model: asked, Item: json.RawMessage(item.RawJSON())})
	}
	return b, refused
}
