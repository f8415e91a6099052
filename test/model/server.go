// Package model is a model server for tests. It speaks the protocols of the APIs
// over HTTP, byte for byte, and lets a [agentloop.Provider] answer: a script in
// most cases, so that one script can be played in the program and over the wire.
//
//	s := model.Start(provider.NewScripted(script))
//	defer s.Close()
//	cfg := agentloop.AgentConfig{Provider: "anthropic", BaseURL: s.Address("anthropic"), Model: "m"}
//
// What a script does not expect is answered with an error, and is in [Server.Errors].
package model

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"

	"sandboxd/agentloop"
)

// Server answers on loopback.
type Server struct {
	*httptest.Server
	p   agentloop.Provider
	key string

	mu     sync.Mutex
	count  int
	failed []error
}

// Start starts a server that lets p answer.
func Start(p agentloop.Provider) *Server { return StartWithKey(p, "") }

// StartWithKey starts a server that wants a key.
func StartWithKey(p agentloop.Provider, key string) *Server {
	s := &Server{p: p, key: key}
	s.Server = httptest.NewServer(s)
	return s
}

// Address is the base_url for a provider.
func (s *Server) Address(provider string) string {
	if provider == "anthropic" {
		return s.URL
	}
	return s.URL + "/v1"
}

// Requests is how many there were.
func (s *Server) Requests() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.count
}

// Errors are those of requests that could not be read, or that the script did not
// expect.
func (s *Server) Errors() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return errors.Join(s.failed...)
}

func (s *Server) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failed = append(s.failed, err)
}

// maxRequest bounds a request, in bytes.
const maxRequest = 64 << 20

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.count++
	s.mu.Unlock()
	path := r.URL.Path
	for _, p := range Protocols() {
		if path != p.Path && path != "/v1"+p.Path {
			continue
		}
		if s.key != "" && r.Header.Get("X-Api-Key") != s.key && r.Header.Get("Authorization") != "Bearer "+s.key {
			refuse(w, http.StatusUnauthorized, p.Refusal("authentication_error", "invalid key"))
			return
		}
		body, err := io.ReadAll(io.LimitReader(r.Body, maxRequest))
		if err != nil {
			return // the client has gone
		}
		request, err := p.read(body)
		if err != nil {
			s.fail(err)
			refuse(w, http.StatusBadRequest, p.Refusal("invalid_request_error", err.Error()))
			return
		}
		s.answer(w, r, p, request)
		return
	}
	http.NotFound(w, r)
}

func refuse(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	io.WriteString(w, body)
}

// answer plays one answer.
func (s *Server) answer(w http.ResponseWriter, r *http.Request, p Protocol, request agentloop.ModelRequest) {
	var said strings.Builder
	a, err := s.p.Stream(r.Context(), request, func(d agentloop.ModelDelta) { said.WriteString(d.Text) })
	if failed, ok := errors.AsType[*agentloop.ModelError](err); ok {
		s.failing(w, p, failed, said.String())
		return
	}
	if err != nil {
		return // the client has gone
	}
	out := Spoken{Text: a.Message.Text(), Usage: a.Usage, Stop: a.Stop}
	for _, b := range a.Message.Blocks {
		if b.Kind == agentloop.BlockThinking {
			out.Thinking, out.Signature = out.Thinking+b.Text, "c2lnbmVk"
		}
	}
	for _, u := range a.Message.Uses() {
		out.Calls = append(out.Calls, Call{u.CallID, u.Tool, u.Args})
	}
	stream(w, p.Say(out))
}

func stream(w http.ResponseWriter, events []string) {
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	for _, e := range events {
		io.WriteString(w, e)
		w.(http.Flusher).Flush()
	}
}

// failing plays an error of a script as the APIs tell it.
func (s *Server) failing(w http.ResponseWriter, p Protocol, e *agentloop.ModelError, said string) {
	text := "scripted"
	if e.Err != nil {
		text = e.Err.Error()
	}
	switch e.Kind {
	case agentloop.ModelBadKey:
		refuse(w, http.StatusUnauthorized, p.Refusal("authentication_error", text))
	case agentloop.ModelUnknown:
		refuse(w, http.StatusNotFound, p.Refusal("not_found_error", text))
	case agentloop.ModelTooLong:
		refuse(w, http.StatusBadRequest, p.Refusal("context_length_exceeded", text))
	case agentloop.ModelRateLimited:
		refuse(w, http.StatusTooManyRequests, p.Refusal("rate_limit_error", text))
	case agentloop.ModelOverloaded:
		refuse(w, 529, p.Refusal("overloaded_error", text))
	case agentloop.ModelBadRequest:
		refuse(w, http.StatusBadRequest, p.Refusal("invalid_request_error", text))
	case agentloop.ModelCut:
		events := p.Say(Spoken{Text: said, Calls: []Call{{"cut", "cut", `{"cut":`}}})
		stream(w, events[:len(events)*3/4])
		panic(http.ErrAbortHandler)
	case agentloop.ModelUnreachable:
		panic(http.ErrAbortHandler)
	default: // what the script did not expect
		s.fail(e)
		refuse(w, http.StatusBadRequest, p.Refusal("invalid_request_error", text))
	}
}
