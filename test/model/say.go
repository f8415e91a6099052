package model

import (
	"encoding/json"
	"fmt"
	"strings"

	"sandboxd/agentloop"
)

// Spoken is an answer in the words of all protocols.
type Spoken struct {
	Thinking, Signature string
	Text                string
	Calls               []Call
	Usage               agentloop.Usage
	Stop                agentloop.StopReason // end, tools, length or refusal
}

// Call is a call of a tool in an answer.
type Call struct{ ID, Name, Args string }

// Protocol is how one of the APIs says things.
type Protocol struct {
	// Name is that of the provider, Path where its requests go, below the address.
	Name, Path string
	// Say gives the events of an answer, cut into small pieces.
	Say func(a Spoken) []string
	// Failing is an error within a stream.
	Failing func(kind, text string) string
	// Refusal is the body of an error.
	Refusal func(code, text string) string

	read func(body []byte) (agentloop.ModelRequest, error)
}

// Protocols are those that agentloop/provider speaks.
func Protocols() []Protocol {
	return []Protocol{
		{"anthropic", "/v1/messages", sayAnthropic,
			func(kind, text string) string {
				return event("error", `{"type":"error","error":{"type":%q,"message":%s}}`, kind, quoted(text))
			},
			func(code, text string) string {
				return fmt.Sprintf(`{"type":"error","error":{"type":%q,"message":%s},"request_id":"req_1"}`, code, quoted(text))
			}, readAnthropic},
		{"openai", "/chat/completions", sayChat,
			func(kind, text string) string {
				return event("", `{"error":{"type":%q,"message":%s}}`, kind, quoted(text))
			}, refuseOpenAI, readChat},
		{"openai-responses", "/responses", sayResponses,
			func(kind, text string) string {
				return event("error", `{"type":"error","code":%q,"message":%s,"param":null,"sequence_number":1}`, kind, quoted(text))
			}, refuseOpenAI, readResponses},
	}
}

func refuseOpenAI(code, text string) string {
	return fmt.Sprintf(`{"error":{"message":%s,"type":"invalid_request_error","param":null,"code":%q}}`, quoted(text), code)
}

func event(name, format string, args ...any) string {
	data := fmt.Sprintf(format, args...)
	if name == "" {
		return "data: " + data + "\n\n"
	}
	return "event: " + name + "\ndata: " + data + "\n\n"
}

func quoted(text string) string {
	b, _ := json.Marshal(text)
	return string(b)
}

// pieces cuts a text into small parts.
func pieces(text string) (out []string) {
	const size = 7
	for len(text) > size {
		n := size
		for text[n]&0xC0 == 0x80 {
			n++
		}
		out, text = append(out, text[:n]), text[n:]
	}
	return append(out, text)
}

func sayAnthropic(a Spoken) []string {
	out := []string{event("message_start", `{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"served","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":%d,"cache_creation_input_tokens":%d,"cache_read_input_tokens":%d,"output_tokens":1}}}`,
		a.Usage.Input, a.Usage.CacheWrite, a.Usage.CacheRead), event("ping", `{"type":"ping"}`)}
	n := 0
	block := func(start string, deltas ...string) {
		out = append(out, event("content_block_start", `{"type":"content_block_start","index":%d,"content_block":%s}`, n, start))
		for _, d := range deltas {
			out = append(out, event("content_block_delta", `{"type":"content_block_delta","index":%d,"delta":%s}`, n, d))
		}
		out = append(out, event("content_block_stop", `{"type":"content_block_stop","index":%d}`, n))
		n++
	}
	each := func(text, kind, field string) (deltas []string) {
		for _, p := range pieces(text) {
			deltas = append(deltas, fmt.Sprintf(`{"type":%q,%q:%s}`, kind, field, quoted(p)))
		}
		return deltas
	}
	if a.Thinking != "" {
		block(`{"type":"thinking","thinking":"","signature":""}`, append(each(a.Thinking, "thinking_delta", "thinking"), fmt.Sprintf(`{"type":"signature_delta","signature":%q}`, a.Signature))...)
	}
	if a.Text != "" {
		block(`{"type":"text","text":""}`, each(a.Text, "text_delta", "text")...)
	}
	for _, c := range a.Calls {
		block(fmt.Sprintf(`{"type":"tool_use","id":%q,"name":%q,"input":{}}`, c.ID, c.Name), each(c.Args, "input_json_delta", "partial_json")...)
	}
	stop := map[agentloop.StopReason]string{agentloop.StopTools: "tool_use", agentloop.StopLength: "max_tokens", agentloop.StopRefusal: "refusal"}[a.Stop]
	if stop == "" {
		stop = "end_turn"
	}
	return append(out, event("message_delta", `{"type":"message_delta","delta":{"stop_reason":%q,"stop_sequence":null},"usage":{"output_tokens":%d}}`, stop, a.Usage.Output),
		event("message_stop", `{"type":"message_stop"}`))
}

func sayChat(a Spoken) []string {
	chunk := func(delta, finish string) string {
		return event("", `{"id":"chat_1","object":"chat.completion.chunk","created":1,"model":"served","choices":[{"index":0,"delta":%s,"finish_reason":%s}],"usage":null}`, delta, finish)
	}
	out := []string{": a comment\n\n", chunk(`{"role":"assistant","content":""}`, "null")}
	for _, p := range pieces(a.Thinking) {
		out = append(out, chunk(`{"reasoning_content":`+quoted(p)+`}`, "null"))
	}
	for _, p := range pieces(a.Text) {
		out = append(out, chunk(`{"content":`+quoted(p)+`}`, "null"))
	}
	for i, c := range a.Calls {
		out = append(out, chunk(fmt.Sprintf(`{"tool_calls":[{"index":%d,"id":%q,"type":"function","function":{"name":%q,"arguments":""}}]}`, i, c.ID, c.Name), "null"))
		for _, p := range pieces(c.Args) {
			out = append(out, chunk(fmt.Sprintf(`{"tool_calls":[{"index":%d,"function":{"arguments":%s}}]}`, i, quoted(p)), "null"))
		}
	}
	stop := map[agentloop.StopReason]string{agentloop.StopTools: "tool_calls", agentloop.StopLength: "length", agentloop.StopRefusal: "content_filter"}[a.Stop]
	if stop == "" {
		stop = "stop"
	}
	u := a.Usage
	return append(out, chunk("{}", quoted(stop)),
		event("", `{"id":"chat_1","object":"chat.completion.chunk","created":1,"model":"served","choices":[],"usage":{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d,"prompt_tokens_details":{"cached_tokens":%d,"cache_write_tokens":%d}}}`,
			u.Input+u.CacheRead+u.CacheWrite, u.Output, u.Context(), u.CacheRead, u.CacheWrite),
		"data: [DONE]\n\n")
}

func sayResponses(a Spoken) []string {
	out := []string{event("response.created", `{"type":"response.created","sequence_number":0,"response":{"id":"resp_1","object":"response","status":"in_progress","model":"served","output":[]}}`)}
	var items []string
	add := func(item string, deltas ...string) {
		n := len(items)
		out = append(out, event("response.output_item.added", `{"type":"response.output_item.added","output_index":%d,"item":%s}`, n, item))
		out = append(out, deltas...)
		out = append(out, event("response.output_item.done", `{"type":"response.output_item.done","output_index":%d,"item":%s}`, n, item))
		items = append(items, item)
	}
	each := func(kind, text string) (deltas []string) {
		for _, p := range pieces(text) {
			deltas = append(deltas, event(kind, `{"type":%q,"item_id":"i","output_index":%d,"content_index":0,"delta":%s}`, kind, len(items), quoted(p)))
		}
		return deltas
	}
	if a.Thinking != "" {
		add(fmt.Sprintf(`{"id":"rs_1","type":"reasoning","summary":[{"type":"summary_text","text":%s}],"encrypted_content":%q}`, quoted(a.Thinking), a.Signature), each("response.reasoning_summary_text.delta", a.Thinking)...)
	}
	if a.Text != "" {
		add(fmt.Sprintf(`{"id":"m_1","type":"message","role":"assistant","status":"completed","content":[{"type":"output_text","text":%s,"annotations":[]}]}`, quoted(a.Text)), each("response.output_text.delta", a.Text)...)
	}
	for _, c := range a.Calls {
		add(fmt.Sprintf(`{"id":"f_%s","type":"function_call","call_id":%q,"name":%q,"arguments":%s,"status":"completed"}`, c.ID, c.ID, c.Name, quoted(c.Args)), each("response.function_call_arguments.delta", c.Args)...)
	}
	kind, incomplete := "completed", "null"
	if a.Stop == agentloop.StopLength {
		kind, incomplete = "incomplete", `{"reason":"max_output_tokens"}`
	}
	if a.Stop == agentloop.StopRefusal {
		kind, incomplete = "incomplete", `{"reason":"content_filter"}`
	}
	u := a.Usage
	return append(out, event("response."+kind, `{"type":"response.%s","sequence_number":9,"response":{"id":"resp_1","object":"response","status":%q,"model":"served","incomplete_details":%s,"output":[%s],"usage":{"input_tokens":%d,"input_tokens_details":{"cached_tokens":%d,"cache_write_tokens":%d},"output_tokens":%d,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":%d}}}`,
		kind, kind, incomplete, strings.Join(items, ","), u.Input+u.CacheRead+u.CacheWrite, u.CacheRead, u.CacheWrite, u.Output, u.Context()))
}
