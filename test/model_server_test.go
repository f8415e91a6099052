package test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// player is a model: it answers from what it received, and from nothing else. It
// is called by one request at a time.
type player func(r modelRequest) modelReply

// modelRequest is what a model received, whatever the protocol.
type modelRequest struct {
	Model    string
	System   string
	Tools    []string
	Messages []modelMessage
	// Key is what the client authenticated with.
	Key string
}

type modelMessage struct {
	Role    string // user or assistant
	Text    string
	Calls   []modelCall
	Results []modelResult
}

type modelCall struct {
	ID, Tool string
	Args     map[string]any
	// Raw stands in place of Args, whatever it is.
	Raw string
}

type modelResult struct {
	ID, Text string
	Error    bool
}

type modelReply struct {
	Text  string
	Calls []modelCall
	// Input and Output are the usage; zero: a count of characters.
	Input, Output int64
	// Hold, if not nil, is called in the middle of the stream.
	Hold func()
	// Status, if not zero, is the HTTP status of an error.
	Status int
	// Cut ends the connection in the middle of the stream, CutCall in the middle of
	// the arguments of the first call.
	Cut, CutCall bool
	// Write, if not nil, writes the answer in place of all else.
	Write func(w http.ResponseWriter, r *http.Request)
}

// calls are all calls of the conversation so far, with their results.
func (r modelRequest) calls() (list []modelCall, results map[string]modelResult) {
	results = map[string]modelResult{}
	for _, m := range r.Messages {
		list = append(list, m.Calls...)
		for _, res := range m.Results {
			results[res.ID] = res
		}
	}
	return list, results
}

// last is the text of the last result; empty before the first.
func (r modelRequest) last() string {
	for i := len(r.Messages) - 1; i >= 0; i-- {
		if n := len(r.Messages[i].Results); n > 0 {
			return r.Messages[i].Results[n-1].Text
		}
	}
	return ""
}

// modelServer speaks the wire protocols of the model APIs over real sockets:
// Anthropic's Messages (platform.claude.com, "Streaming messages") and OpenAI's
// chat completions (platform.openai.com, "Chat completions, streaming").
type modelServer struct {
	*httptest.Server
	t    *testing.T
	play player

	mu       sync.Mutex
	seen     []modelRequest
	problems []string
	ids      int
}

func startModel(t *testing.T, play player) *modelServer {
	t.Helper()
	m := &modelServer{t: t, play: play}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/messages", m.anthropic)
	mux.HandleFunc("POST /v1/chat/completions", m.openAI)
	m.Server = httptest.NewServer(mux)
	t.Cleanup(func() {
		m.CloseClientConnections()
		m.Close()
		m.mu.Lock()
		defer m.mu.Unlock()
		for _, p := range m.problems {
			t.Errorf("wire protocol: %s", p)
		}
	})
	return m
}

// requests are those received so far.
func (m *modelServer) requests() []modelRequest {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]modelRequest(nil), m.seen...)
}

func (m *modelServer) problem(format string, args ...any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.problems = append(m.problems, fmt.Sprintf(format, args...))
}

// answer notes a request and asks the player. A conversation in which a call has
// no result, or a result no call, is refused as the real APIs do.
func (m *modelServer) answer(w http.ResponseWriter, from *http.Request, r modelRequest) (modelReply, bool) {
	if bad := unpaired(r); bad != "" {
		m.problem("%s", bad)
		http.Error(w, `{"type":"error","error":{"type":"invalid_request_error","message":"`+bad+`"}}`, http.StatusBadRequest)
		return modelReply{}, false
	}
	reply := m.reply(r)
	if reply.Write != nil {
		reply.Write(w, from)
		return reply, false
	}
	if reply.Status != 0 {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(reply.Status)
		fmt.Fprintf(w, `{"type":"error","error":{"type":"api_error","message":"status %d"}}`, reply.Status)
		return reply, false
	}
	return reply, true
}

// reply asks the player and fills in what it left out.
func (m *modelServer) reply(r modelRequest) modelReply {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.seen = append(m.seen, r)
	reply := m.play(r)
	for i := range reply.Calls {
		if reply.Calls[i].ID == "" {
			m.ids++
			reply.Calls[i].ID = fmt.Sprintf("call_%04d", m.ids)
		}
		if reply.Calls[i].Raw == "" {
			raw, _ := json.Marshal(reply.Calls[i].Args)
			reply.Calls[i].Raw = string(raw)
		}
	}
	if reply.Input == 0 {
		for _, msg := range r.Messages {
			reply.Input += int64(len(msg.Text)) / 4
			for _, res := range msg.Results {
				reply.Input += int64(len(res.Text)) / 4
			}
		}
		reply.Input++
	}
	if reply.Output == 0 {
		reply.Output = int64(len(reply.Text))/4 + 1
	}
	return reply
}

// unpaired says which use has not exactly one result in the next message, or has an
// id that another one had.
func unpaired(r modelRequest) string {
	open, all := map[string]bool{}, map[string]bool{}
	for _, msg := range r.Messages {
		for _, res := range msg.Results {
			if !open[res.ID] {
				return "result " + res.ID + " without a call before it"
			}
			delete(open, res.ID)
		}
		if len(open) > 0 {
			return fmt.Sprintf("%d calls without a result", len(open))
		}
		for _, c := range msg.Calls {
			if all[c.ID] {
				return "two calls " + c.ID
			}
			open[c.ID], all[c.ID] = true, true
		}
	}
	if len(open) > 0 {
		return fmt.Sprintf("%d calls without a result at the end", len(open))
	}
	return ""
}

// eventStream writes server-sent events.
type eventStream struct {
	w http.ResponseWriter
}

func (s eventStream) send(event string, data any) {
	text, _ := json.Marshal(data)
	if event != "" {
		fmt.Fprintf(s.w, "event: %s\n", event)
	}
	fmt.Fprintf(s.w, "data: %s\n\n", text)
	s.w.(http.Flusher).Flush()
}

type object = map[string]any

func (m *modelServer) anthropic(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client was killed
	}
	var q struct {
		Model     string          `json:"model"`
		MaxTokens int             `json:"max_tokens"`
		Stream    bool            `json:"stream"`
		System    json.RawMessage `json:"system"`
		Tools     []struct {
			Name   string          `json:"name"`
			Schema json.RawMessage `json:"input_schema"`
		} `json:"tools"`
		Messages []struct {
			Role    string          `json:"role"`
			Content json.RawMessage `json:"content"`
		} `json:"messages"`
	}
	if err == nil {
		err = json.Unmarshal(body, &q)
	}
	if err != nil || q.MaxTokens <= 0 || q.Model == "" || !q.Stream || r.Header.Get("anthropic-version") == "" {
		m.problem("anthropic request: %v: %.300s", err, body)
		http.Error(w, `{"type":"error","error":{"type":"invalid_request_error","message":"bad"}}`, http.StatusBadRequest)
		return
	}
	in := modelRequest{Model: q.Model, System: joinTexts(q.System), Key: r.Header.Get("X-Api-Key")}
	for _, t := range q.Tools {
		in.Tools = append(in.Tools, t.Name)
	}
	for _, msg := range q.Messages {
		in.Messages = append(in.Messages, anthropicMessage(msg.Role, msg.Content))
	}
	a, ok := m.answer(w, r, in)
	if !ok {
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	s := eventStream{w}
	stop := "end_turn"
	s.send("message_start", object{"type": "message_start", "message": object{"id": "msg_1", "type": "message", "role": "assistant", "model": q.Model,
		"content": []any{}, "stop_reason": nil, "stop_sequence": nil, "usage": object{"input_tokens": a.Input, "output_tokens": 1}}})
	index := 0
	if a.Text != "" {
		s.send("content_block_start", object{"type": "content_block_start", "index": index, "content_block": object{"type": "text", "text": ""}})
		for _, piece := range pieces(a.Text) {
			s.send("content_block_delta", object{"type": "content_block_delta", "index": index, "delta": object{"type": "text_delta", "text": piece}})
		}
		s.send("content_block_stop", object{"type": "content_block_stop", "index": index})
		index++
	}
	s.send("ping", object{"type": "ping"})
	if a.Hold != nil {
		a.Hold()
	}
	if a.Cut {
		panic(http.ErrAbortHandler)
	}
	for _, c := range a.Calls {
		stop = "tool_use"
		s.send("content_block_start", object{"type": "content_block_start", "index": index, "content_block": object{"type": "tool_use", "id": c.ID, "name": c.Tool, "input": object{}}})
		for i, piece := range pieces(c.Raw) {
			if a.CutCall && i > 0 {
				panic(http.ErrAbortHandler)
			}
			s.send("content_block_delta", object{"type": "content_block_delta", "index": index, "delta": object{"type": "input_json_delta", "partial_json": piece}})
		}
		s.send("content_block_stop", object{"type": "content_block_stop", "index": index})
		index++
	}
	s.send("message_delta", object{"type": "message_delta", "delta": object{"stop_reason": stop, "stop_sequence": nil}, "usage": object{"output_tokens": a.Output}})
	s.send("message_stop", object{"type": "message_stop"})
}

// anthropicMessage reads a message whose content is a text or a list of blocks.
func anthropicMessage(role string, content json.RawMessage) modelMessage {
	msg := modelMessage{Role: role}
	var blocks []struct {
		Type      string          `json:"type"`
		Text      string          `json:"text"`
		ID        string          `json:"id"`
		Name      string          `json:"name"`
		Input     map[string]any  `json:"input"`
		ToolUseID string          `json:"tool_use_id"`
		Content   json.RawMessage `json:"content"`
		IsError   bool            `json:"is_error"`
	}
	if json.Unmarshal(content, &blocks) != nil {
		_ = json.Unmarshal(content, &msg.Text)
		return msg
	}
	for _, b := range blocks {
		switch b.Type {
		case "text":
			msg.Text += b.Text + "\n"
		case "tool_use":
			msg.Calls = append(msg.Calls, modelCall{ID: b.ID, Tool: b.Name, Args: b.Input})
		case "tool_result":
			msg.Results = append(msg.Results, modelResult{ID: b.ToolUseID, Text: joinTexts(b.Content), Error: b.IsError})
		}
	}
	return msg
}

// joinTexts reads a text, or the texts of a list of blocks.
func joinTexts(content json.RawMessage) string {
	var text string
	if json.Unmarshal(content, &text) == nil {
		return text
	}
	var blocks []struct {
		Text string `json:"text"`
	}
	_ = json.Unmarshal(content, &blocks)
	var all []string
	for _, b := range blocks {
		all = append(all, b.Text)
	}
	return strings.Join(all, "\n")
}

// pieces cuts a text as a stream would, in the middle of anything.
func pieces(s string) []string {
	var out []string
	for len(s) > 0 {
		n := min(len(s), max(7, len(s)/1000)) // of a long text longer ones
		for n < len(s) && s[n]&0xc0 == 0x80 { // JSON needs whole characters
			n++
		}
		out = append(out, s[:n])
		s = s[n:]
	}
	return out
}

func (m *modelServer) openAI(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client was killed
	}
	var q struct {
		Model  string `json:"model"`
		Stream bool   `json:"stream"`
		Tools  []struct {
			Function struct {
				Name string `json:"name"`
			} `json:"function"`
		} `json:"tools"`
		Messages []struct {
			Role      string          `json:"role"`
			Content   json.RawMessage `json:"content"`
			ToolCalls []struct {
				ID       string `json:"id"`
				Function struct {
					Name      string `json:"name"`
					Arguments string `json:"arguments"`
				} `json:"function"`
			} `json:"tool_calls"`
			ToolCallID string `json:"tool_call_id"`
		} `json:"messages"`
	}
	if err == nil {
		err = json.Unmarshal(body, &q)
	}
	if err != nil || q.Model == "" || !q.Stream {
		m.problem("openai request: %v: %.300s", err, body)
		http.Error(w, `{"error":{"message":"bad","type":"invalid_request_error"}}`, http.StatusBadRequest)
		return
	}
	in := modelRequest{Model: q.Model, Key: strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")}
	for _, t := range q.Tools {
		in.Tools = append(in.Tools, t.Function.Name)
	}
	for _, msg := range q.Messages {
		text := joinTexts(msg.Content)
		switch msg.Role {
		case "system", "developer":
			in.System += text + "\n"
		case "tool": // those of one answer stand one after the other
			last := len(in.Messages) - 1
			if last < 0 || len(in.Messages[last].Results) == 0 {
				in.Messages = append(in.Messages, modelMessage{Role: "user"})
				last++
			}
			in.Messages[last].Results = append(in.Messages[last].Results, modelResult{ID: msg.ToolCallID, Text: text})
		default:
			one := modelMessage{Role: msg.Role, Text: text}
			for _, c := range msg.ToolCalls {
				var args map[string]any
				_ = json.Unmarshal([]byte(c.Function.Arguments), &args)
				one.Calls = append(one.Calls, modelCall{ID: c.ID, Tool: c.Function.Name, Args: args})
			}
			in.Messages = append(in.Messages, one)
		}
	}
	a, ok := m.answer(w, r, in)
	if !ok {
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	s := eventStream{w}
	chunk := func(delta object, finish any) {
		s.send("", object{"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": q.Model,
			"choices": []any{object{"index": 0, "delta": delta, "finish_reason": finish}}})
	}
	chunk(object{"role": "assistant", "content": ""}, nil)
	for _, piece := range pieces(a.Text) {
		chunk(object{"content": piece}, nil)
	}
	if a.Hold != nil {
		a.Hold()
	}
	if a.Cut {
		panic(http.ErrAbortHandler)
	}
	finish := "stop"
	for i, c := range a.Calls {
		finish = "tool_calls"
		chunk(object{"tool_calls": []any{object{"index": i, "id": c.ID, "type": "function", "function": object{"name": c.Tool, "arguments": ""}}}}, nil)
		for k, piece := range pieces(c.Raw) {
			if a.CutCall && k > 0 {
				panic(http.ErrAbortHandler)
			}
			chunk(object{"tool_calls": []any{object{"index": i, "function": object{"arguments": piece}}}}, nil)
		}
	}
	chunk(object{}, finish)
	s.send("", object{"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": q.Model, "choices": []any{},
		"usage": object{"prompt_tokens": a.Input, "completion_tokens": a.Output, "total_tokens": a.Input + a.Output}})
	fmt.Fprint(w, "data: [DONE]\n\n")
}
