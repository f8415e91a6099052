package provider_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"sandboxd/agentloop"
	"sandboxd/agentloop/provider"
	"sandboxd/test/model"
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

// The words of the protocols.
type (
	spoken       = model.Spoken
	spokenCall   = model.Call
	wireProtocol = model.Protocol
)

func protocols() []wireProtocol { return model.Protocols() }

func callOf(id, name, args string) spokenCall { return spokenCall{ID: id, Name: name, Args: args} }

// quick are options that do not keep a test waiting.
var quick = provider.Options{Attempts: 3, Backoff: time.Millisecond, MaxWait: 10 * time.Second, Silence: 5 * time.Second}

const testKey = "sk-test-0123456789-secret"

// environ is an environment of a user.
type environ map[string]string

func (e environ) lookup(name string) string { return e[name] }

// dial makes a provider that speaks p with s.
func dial(t *testing.T, p wireProtocol, s *wireServer, o provider.Options) agentloop.Provider {
	t.Helper()
	got, _, err := provider.New(agentloop.AgentConfig{Provider: p.Name, Model: "m", BaseURL: s.URL, KeyEnv: "KEY"}, environ{"KEY": testKey}.lookup, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { got.(io.Closer).Close() })
	return got
}

// eachProtocol runs a test for all of them.
func eachProtocol(t *testing.T, f func(t *testing.T, p wireProtocol)) {
	for _, p := range protocols() {
		t.Run(p.Name, func(t *testing.T) { f(t, p) })
	}
}

// ask is a small request.
func ask() agentloop.ModelRequest {
	return agentloop.ModelRequest{Model: "m", MaxTokens: 100, System: []string{"Be kind."},
		Messages: []agentloop.Message{agentloop.TextMessage(agentloop.RoleUser, agentloop.OriginUser, "hello")},
		Tools:    []agentloop.ToolSchema{{Name: "run_bash", Description: "runs", Parameters: json.RawMessage(`{"type":"object","properties":{"command":{"type":"string"}},"required":["command"]}`)}}}
}
