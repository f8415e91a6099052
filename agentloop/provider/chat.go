package provider

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/shared"

	"sandboxd/agentloop"
)

// defaultOpenAIModel is used where no model is named.
const defaultOpenAIModel = string(openai.ChatModelGPT6_1Sol)

// chatAPI speaks the chat completions API of OpenAI, which most servers of one's
// own speak too.
type chatAPI struct {
	completions openai.ChatCompletionService
	own         bool
}

// openAIOptions are those of both APIs. The services are made alone, without a
// client of the SDK: that one reads the environment of this process.
func openAIOptions(e endpoint) []option.RequestOption {
	options := []option.RequestOption{
		option.WithBaseURL(e.base.String()),
		option.WithHTTPClient(e.http),
		option.WithMaxRetries(0),
	}
	if e.key != "" {
		options = append(options, option.WithAPIKey(e.key))
	}
	return options
}

func newChat(e endpoint) api {
	return &chatAPI{completions: openai.NewChatCompletionService(openAIOptions(e)...), own: e.own}
}

func (c *chatAPI) name() string { return OpenAI }

// thought: the protocol has none.
func (c *chatAPI) thought(agentloop.Block, string) bool { return false }

// optional are parts that servers other than OpenAI's, and older ones, refuse.
func (c *chatAPI) optional() []part {
	return named("max_completion_tokens", "stream_options", "reasoning_effort", "response_format", "tool_choice", "prompt_cache_key")
}

// params maps a request, whose messages are repaired.
func (c *chatAPI) params(r agentloop.ModelRequest, without map[string]bool) openai.ChatCompletionNewParams {
	p := openai.ChatCompletionNewParams{Model: r.Model}
	if r.MaxTokens > 0 {
		// max_tokens is the older name; servers that do not know the new one refuse
		// or ignore it, OpenAI's newer models refuse the old one.
		if c.own && !without["max_completion_tokens"] {
			p.MaxCompletionTokens = param.NewOpt(int64(r.MaxTokens))
		} else {
			p.MaxTokens = param.NewOpt(int64(r.MaxTokens))
		}
	}
	if !without["stream_options"] {
		p.StreamOptions.IncludeUsage = param.NewOpt(true)
	}
	if system := joined(r.System); system != "" {
		p.Messages = append(p.Messages, openai.SystemMessage(system))
	}
	for _, m := range r.Messages {
		p.Messages = append(p.Messages, chatMessages(m)...)
	}
	for _, t := range r.Tools {
		p.Tools = append(p.Tools, openai.ChatCompletionFunctionTool(shared.FunctionDefinitionParam{
			Name: t.Name, Description: param.NewOpt(t.Description), Parameters: parameters(t.Parameters)}))
	}
	if len(p.Tools) > 0 && r.NoTools {
		if without["tool_choice"] {
			p.Tools = nil
		} else {
			p.ToolChoice.OfAuto = param.NewOpt("none")
		}
	}
	if c.own && r.NoThinking && !without["reasoning_effort"] {
		p.ReasoningEffort = shared.ReasoningEffortNone
	}
	if c.own && !without["prompt_cache_key"] {
		p.PromptCacheKey = param.NewOpt(cacheKey(r))
	}
	if json.Valid(r.Schema) && !without["response_format"] {
		p.ResponseFormat.OfJSONSchema = &shared.ResponseFormatJSONSchemaParam{JSONSchema: shared.ResponseFormatJSONSchemaJSONSchemaParam{
			Name: schemaName, Strict: param.NewOpt(true), Schema: r.Schema}}
	}
	return p
}

// schemaName is the name that the API wants for a schema.
const schemaName = "answer"

func joined(parts []string) string {
	var out []string
	for _, s := range parts {
		if strings.TrimSpace(s) != "" {
			out = append(out, s)
		}
	}
	return strings.Join(out, "\n\n")
}

// cacheKey sends requests with the same beginning to the same cache. It is no
// secret and names nobody.
func cacheKey(r agentloop.ModelRequest) string {
	h := uint64(hash(joined(r.System)))
	for _, t := range r.Tools {
		h = h*31 + uint64(hash(t.Name))
	}
	const digits = "0123456789abcdef"
	out := make([]byte, 16)
	for i := range out {
		out[i] = digits[h>>(4*uint(i))&15]
	}
	return "sandboxd-" + string(out)
}

func chatMessages(m agentloop.Message) (out []openai.ChatCompletionMessageParamUnion) {
	if m.Role == agentloop.RoleAssistant {
		var a openai.ChatCompletionAssistantMessageParam
		if text := m.Text(); text != "" {
			a.Content.OfString = param.NewOpt(text)
		}
		for _, u := range m.Uses() {
			a.ToolCalls = append(a.ToolCalls, openai.ChatCompletionMessageToolCallUnionParam{OfFunction: &openai.ChatCompletionMessageFunctionToolCallParam{
				ID: u.CallID, Function: openai.ChatCompletionMessageFunctionToolCallFunctionParam{Name: u.Tool, Arguments: u.Args}}})
		}
		return append(out, openai.ChatCompletionMessageParamUnion{OfAssistant: &a})
	}
	for _, b := range m.Blocks {
		if b.Kind == agentloop.BlockToolResult {
			out = append(out, openai.ToolMessage(b.Text, b.CallID))
		}
	}
	if text := m.Text(); text != "" {
		out = append(out, openai.UserMessage(text))
	}
	return out
}

func (c *chatAPI) stream(ctx context.Context, r agentloop.ModelRequest, without map[string]bool, emit func(agentloop.ModelDelta)) (agentloop.ModelAnswer, error) {
	stream := c.completions.NewStreaming(ctx, c.params(r, without))
	defer stream.Close()
	g := &chatAnswer{emit: emit}
	for stream.Next() {
		if err := g.chunk(stream.Current()); err != nil {
			return agentloop.ModelAnswer{}, err
		}
	}
	if err := stream.Err(); err != nil {
		return agentloop.ModelAnswer{}, streamError(err)
	}
	if g.finish == "" {
		return agentloop.ModelAnswer{}, cut()
	}
	return g.answer(), nil
}
