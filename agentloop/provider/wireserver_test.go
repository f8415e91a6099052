package provider_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"sandboxd/agentloop"
	"sandboxd/agentloop/provider"
)

// wireServer speaks the protocols of models byte for byte: each request gets the
// next of its replies, the last one again and again.
type wireServer struct {
	*httptest.Server
	replies []reply

	mu       sync.Mutex
	requests []wireRequest
}

// reply answers one request.
type reply func(w http.ResponseWriter, r *http.Request)

type wireRequest struct {
	path   string
	header http.Header
	body   map[string]any
	raw    string
}

func newWireServer(t *testing.T, replies ...reply) *wireServer {
	t.Helper()
	s := &wireServer{replies: replies}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *wireServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	raw, _ := io.ReadAll(r.Body)
	got := wireRequest{path: r.URL.Path, header: r.Header.Clone(), raw: string(raw)}
	_ = json.Unmarshal(raw, &got.body)
	s.mu.Lock()
	s.requests = append(s.requests, got)
	n := min(len(s.requests), len(s.replies)) - 1
	s.mu.Unlock()
	s.replies[n](w, r)
}

func (s *wireServer) received() []wireRequest {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]wireRequest(nil), s.requests...)
}

// events is a stream of server-sent events, each flushed.
func events(lines ...string) reply {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		send(w, lines...)
	}
}

func send(w http.ResponseWriter, lines ...string) {
	for _, l := range lines {
		io.WriteString(w, l)
		w.(http.Flusher).Flush()
	}
}

// status is an answer that is an error.
func status(code int, body string, header ...string) reply {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(code)
		io.WriteString(w, body)
	}
}

// abort cuts the connection after what was sent.
func abort(first reply) reply {
	return func(w http.ResponseWriter, r *http.Request) {
		if first != nil {
			first(w, r)
		}
		panic(http.ErrAbortHandler)
	}
}

// hang sends nothing more until the client goes.
func hang(first reply) reply {
	return func(w http.ResponseWriter, r *http.Request) {
		if first != nil {
			first(w, r)
		}
		<-r.Context().Done()
	}
}

// spoken is an answer in the words of all protocols.
type spoken struct {
	thinking, signature string
	text                string
	calls               []spokenCall
	usage               agentloop.Usage
	stop                agentloop.StopReason // end, tools or length
}

type spokenCall struct{ id, name, args string }

// protocol is how one of the APIs says things.
type wireProtocol struct {
	name, path string
	// say gives the events of an answer, cut into small pieces.
	say func(a spoken) []string
	// failing is an error object within a stream.
	failing func(kind, text string) string
	// refusal is the body of an error.
	refusal func(code, text string) string
}

func protocols() []wireProtocol {
	return []wireProtocol{
		{provider.Anthropic, "/v1/messages", sayAnthropic,
			func(kind, text string) string {
				return event("error", `{"type":"error","error":{"type":"%s","message":"%s"}}`, kind, text)
			},
			func(code, text string) string {
				return fmt.Sprintf(`{"type":"error","error":{"type":%q,"message":%q},"request_id":"req_1"}`, code, text)
			}},
		{provider.OpenAI, "/chat/completions", sayChat,
			func(kind, text string) string {
				return event("", `{"error":{"type":"%s","message":"%s"}}`, kind, text)
			}, refuseOpenAI},
		{provider.OpenAIResponses, "/responses", sayResponses,
			func(kind, text string) string {
				return event("error", `{"type":"error","code":"%s","message":"%s","param":null,"sequence_number":1}`, kind, text)
			}, refuseOpenAI},
	}
}

func refuseOpenAI(code, text string) string {
	return fmt.Sprintf(`{"error":{"message":%q,"type":"invalid_request_error","param":null,"code":%q}}`, text, code)
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

func sayAnthropic(a spoken) []string {
	out := []string{event("message_start", `{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"served","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":%d,"cache_creation_input_tokens":%d,"cache_read_input_tokens":%d,"output_tokens":1}}}`,
		a.usage.Input, a.usage.CacheWrite, a.usage.CacheRead), event("ping", `{"type":"ping"}`)}
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
	if a.thinking != "" {
		block(`{"type":"thinking","thinking":"","signature":""}`, append(each(a.thinking, "thinking_delta", "thinking"), fmt.Sprintf(`{"type":"signature_delta","signature":%q}`, a.signature))...)
	}
	if a.text != "" {
		block(`{"type":"text","text":""}`, each(a.text, "text_delta", "text")...)
	}
	for _, c := range a.calls {
		block(fmt.Sprintf(`{"type":"tool_use","id":%q,"name":%q,"input":{}}`, c.id, c.name), each(c.args, "input_json_delta", "partial_json")...)
	}
	stop := map[agentloop.StopReason]string{agentloop.StopTools: "tool_use", agentloop.StopLength: "max_tokens"}[a.stop]
	if stop == "" {
		stop = "end_turn"
	}
	return append(out, event("message_delta", `{"type":"message_delta","delta":{"stop_reason":%q,"stop_sequence":null},"usage":{"output_tokens":%d}}`, stop, a.usage.Output),
		event("message_stop", `{"type":"message_stop"}`))
}

func sayChat(a spoken) []string {
	chunk := func(delta, finish string) string {
		return event("", `{"id":"chat_1","object":"chat.completion.chunk","created":1,"model":"served","choices":[{"index":0,"delta":%s,"finish_reason":%s}],"usage":null}`, delta, finish)
	}
	out := []string{": a comment\n\n", chunk(`{"role":"assistant","content":""}`, "null")}
	for _, p := range pieces(a.thinking) {
		out = append(out, chunk(`{"reasoning_content":`+quoted(p)+`}`, "null"))
	}
	for _, p := range pieces(a.text) {
		out = append(out, chunk(`{"content":`+quoted(p)+`}`, "null"))
	}
	for i, c := range a.calls {
		out = append(out, chunk(fmt.Sprintf(`{"tool_calls":[{"index":%d,"id":%q,"type":"function","function":{"name":%q,"arguments":""}}]}`, i, c.id, c.name), "null"))
		for _, p := range pieces(c.args) {
			out = append(out, chunk(fmt.Sprintf(`{"tool_calls":[{"index":%d,"function":{"arguments":%s}}]}`, i, quoted(p)), "null"))
		}
	}
	stop := map[agentloop.StopReason]string{agentloop.StopTools: "tool_calls", agentloop.StopLength: "length"}[a.stop]
	if stop == "" {
		stop = "stop"
	}
	u := a.usage
	return append(out, chunk("{}", quoted(stop)),
		event("", `{"id":"chat_1","object":"chat.completion.chunk","created":1,"model":"served","choices":[],"usage":{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d,"prompt_tokens_details":{"cached_tokens":%d,"cache_write_tokens":%d}}}`,
			u.Input+u.CacheRead+u.CacheWrite, u.Output, u.Context(), u.CacheRead, u.CacheWrite),
		"data: [DONE]\n\n")
}

func sayResponses(a spoken) []string {
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
	if a.thinking != "" {
		add(fmt.Sprintf(`{"id":"rs_1","type":"reasoning","summary":[{"type":"summary_text","text":%s}],"encrypted_content":%q}`, quoted(a.thinking), a.signature), each("response.reasoning_summary_text.delta", a.thinking)...)
	}
	if a.text != "" {
		add(fmt.Sprintf(`{"id":"m_1","type":"message","role":"assistant","status":"completed","content":[{"type":"output_text","text":%s,"annotations":[]}]}`, quoted(a.text)), each("response.output_text.delta", a.text)...)
	}
	for _, c := range a.calls {
		add(fmt.Sprintf(`{"id":"f_%s","type":"function_call","call_id":%q,"name":%q,"arguments":%s,"status":"completed"}`, c.id, c.id, c.name, quoted(c.args)), each("response.function_call_arguments.delta", c.args)...)
	}
	kind, incomplete := "completed", "null"
	if a.stop == agentloop.StopLength {
		kind, incomplete = "incomplete", `{"reason":"max_output_tokens"}`
	}
	u := a.usage
	return append(out, event("response."+kind, `{"type":"response.%s","sequence_number":9,"response":{"id":"resp_1","object":"response","status":%q,"model":"served","incomplete_details":%s,"output":[%s],"usage":{"input_tokens":%d,"input_tokens_details":{"cached_tokens":%d,"cache_write_tokens":%d},"output_tokens":%d,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":%d}}}`,
		kind, kind, incomplete, strings.Join(items, ","), u.Input+u.CacheRead+u.CacheWrite, u.CacheRead, u.CacheWrite, u.Output, u.Context()))
}

// quick are options that do not keep a test waiting.
var quick = provider.Options{Attempts: 3, Backoff: time.Millisecond, MaxWait: 10 * time.Second, Silence: 5 * time.Second}

const testKey = "sk-test-0123456789-secret"

// environ is an environment of a user.
type environ map[string]string

func (e environ) lookup(name string) string { return e[name] }

// dial makes a provider that speaks p with s.
func dial(t *testing.T, p wireProtocol, s *wireServer, o provider.Options) agentloop.Provider {
	t.Helper()
	got, _, err := provider.New(agentloop.AgentConfig{Provider: p.name, Model: "m", BaseURL: s.URL, KeyEnv: "KEY"}, environ{"KEY": testKey}.lookup, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { got.(io.Closer).Close() })
	return got
}

// eachProtocol runs a test for all of them.
func eachProtocol(t *testing.T, f func(t *testing.T, p wireProtocol)) {
	for _, p := range protocols() {
		t.Run(p.name, func(t *testing.T) { f(t, p) })
	}
}

// ask is a small request.
func ask() agentloop.ModelRequest {
	return agentloop.ModelRequest{Model: "m", MaxTokens: 100, System: []string{"Be kind."},
		Messages: []agentloop.Message{agentloop.TextMessage(agentloop.RoleUser, agentloop.OriginUser, "hello")},
		Tools:    []agentloop.ToolSchema{{Name: "run_bash", Description: "runs", Parameters: json.RawMessage(`{"type":"object","properties":{"command":{"type":"string"}},"required":["command"]}`)}}}
}
