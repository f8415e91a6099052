package test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// elsewhere is a server that nobody may be led to; it tells what comes.
func elsewhere(s *scene) string {
	s.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	s.must(err)
	server := &http.Server{Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		s.Errorf("%s %s was sent elsewhere, with %v", r.Method, r.URL, r.Header)
	})}
	go server.Serve(l)
	s.Cleanup(func() { server.Close() })
	return "http://" + l.Addr().String()
}

// answers writes an answer of a kind with a body.
func answers(kind, body string) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		io.WriteString(w, body)
	}
}

// streams writes an answer piece by piece until the client has gone, or n times.
func streams(begin map[string]string, piece map[string]string, n int, pause time.Duration) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, begin[r.URL.Path])
		for i := 0; i != n && r.Context().Err() == nil; i++ {
			if _, err := io.WriteString(w, piece[r.URL.Path]); err != nil {
				return
			}
			w.(http.Flusher).Flush()
			time.Sleep(pause)
		}
	}
}

// anEvent is an event of either protocol.
func anEvent(anthropic, openAI string) map[string]string {
	return map[string]string{"/v1/messages": anthropic, "/v1/chat/completions": openAI}
}

const (
	messageStart = `event: message_start
data: {"type":"message_start","message":{"id":"m","type":"message","role":"assistant","model":"x","content":[],"usage":{"input_tokens":1,"output_tokens":1}}}

`
	callStart = `event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"a","name":"run_bash","input":{}}}

`
	chunkStart = `data: {"id":"c","object":"chat.completion.chunk","model":"x","choices":[{"index":0,"delta":{"role":"assistant","tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"run_bash","arguments":""}}]}}]}

`
)

// argument is a piece of the arguments of a call.
func argument(text string) map[string]string {
	return anEvent(fmt.Sprintf("event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":%q}}\n\n", text),
		fmt.Sprintf("data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"model\":\"x\",\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":%q}}]}}]}\n\n", text))
}

// sized announces a length that is not that of the body.
func sized(announced int) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, r *http.Request) {
		c, buffer, err := w.(http.Hijacker).Hijack()
		if err != nil {
			return
		}
		defer c.Close()
		fmt.Fprintf(buffer, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: %d\r\n\r\n", announced)
		fmt.Fprint(buffer, anEvent(messageStart+callStart, chunkStart)[r.URL.Path]+argument(`{"command": "touch u"}`)[r.URL.Path])
		buffer.Flush()
	}
}

// Answers that are none, over the real protocols: nothing of them is done, the turn
// ends or goes on as it should, and in its time.
func TestAdversariesOfTheModelsServer(t *testing.T) {
	const mixed = 0 // one, or all four attempts: what is no event at all is a stream that was cut
	requests := func(n int) func(*scene, adversaryEnd) {
		return func(s *scene, o adversaryEnd) {
			if got := len(o.requests); got != n && (n != mixed || got < 1 || got > 4) {
				s.Errorf("%d requests, want %d", got, n)
			}
			if len(o.ran()) != 0 {
				s.Errorf("%q ran", o.ran())
			}
		}
	}
	// always is a model that answers so for ever.
	always := func(name string, reply modelReply, n int) adversary {
		return adversary{name: name, play: func(*scene, int, modelRequest) modelReply { return reply }, end: "model-error", code: 1, unkept: true, after: requests(n)}
	}
	writes := func(name string, n int, write func(http.ResponseWriter, *http.Request)) adversary {
		return always(name, modelReply{Write: write}, n)
	}
	list := []adversary{
		always("an answer that is cut", modelReply{Text: "I will", Calls: []modelCall{bash("touch u")}, Cut: true}, 1),
		always("arguments that are cut", modelReply{Calls: []modelCall{bash("touch u"), bash("touch v")}, CutCall: true}, 1),
		always("a server that refuses", modelReply{Status: 400}, 1),
		always("a server that fails for ever", modelReply{Status: 503}, 4),
		writes("a wrong key, which is repeated", 1, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(401)
			io.WriteString(w, `{"error":{"message":"no such key: `+modelKey+`","type":"authentication_error"}}`)
		}),
		{name: "a server that fails once", play: func(_ *scene, n int, _ modelRequest) modelReply {
			if n == 0 {
				return modelReply{Status: 500}
			}
			return modelReply{Text: "done"}
		}, after: requests(2)},
		{name: "too many requests", play: func(_ *scene, n int, _ modelRequest) modelReply {
			if n == 0 {
				return modelReply{Write: func(w http.ResponseWriter, _ *http.Request) {
					w.Header().Set("Retry-After", "2")
					w.WriteHeader(429)
				}}
			}
			return modelReply{Text: "done"}
		}, after: func(s *scene, o adversaryEnd) {
			requests(2)(s, o)
			if o.took < 2*time.Second {
				s.Errorf("it came again after %v, and was asked for 2 s", o.took)
			}
		}},
		writes("come again tomorrow", 1, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "86400")
			w.WriteHeader(429)
		}),
		writes("a page in place of an answer", 1, answers("text/html", "<html>sign in</html>")),
		writes("a stream of garbage", mixed, answers("text/event-stream", "data: \x00\xff\xfe{{{{\n\n\r\n:\n\ndata\ndata: [1,2\n\n")),
		writes("another protocol's stream", mixed, answers("text/event-stream", "event: endpoint\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"tools/call\",\"params\":{\"name\":\"run_bash\"}}\n\n")),
		writes("an empty stream", 4, answers("text/event-stream", "")),
		writes("nothing at all", 4, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }),
		writes("less than was announced", 1, sized(1<<20)),
		writes("more than was announced", 1, sized(700)),
		writes("a length of nothing", 4, sized(0)),
		writes("arguments without end", 1, streams(anEvent(messageStart+callStart, chunkStart), argument(`{"command": "touch u`+strings.Repeat("x", 64<<10)), -1, 0)),
		writes("an answer of 50 MB", 1, streams(anEvent(messageStart+callStart, chunkStart), argument(strings.Repeat("x", 1<<20)), 50, 0)),
		writes("an event of 50 MB", 1, streams(nil, anEvent("data: "+strings.Repeat("x", 50<<20)+"\n\n", "data: "+strings.Repeat("x", 50<<20)+"\n\n"), 1, 0)),
		{name: "signs of life without end", flags: []string{"--time", "2s"}, play: func(*scene, int, modelRequest) modelReply {
			return modelReply{Write: streams(anEvent(messageStart, chunkStart), anEvent("event: ping\ndata: {\"type\":\"ping\"}\n\n", ": ping\n\n"), -1, 10*time.Millisecond)}
		}, end: "time", code: 124, unkept: true, after: func(s *scene, o adversaryEnd) {
			if o.took > 10*time.Second {
				s.Errorf("it took %v", o.took)
			}
		}},
		{name: "a redirect to elsewhere", setup: func(s *scene) { s.Extra["elsewhere"] = elsewhere(s) }, play: func(s *scene, n int, _ modelRequest) modelReply {
			status := []int{301, 302, 303, 307, 308}[n%5]
			return modelReply{Write: func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, s.Extra["elsewhere"]+r.URL.Path, status)
			}}
		}, end: "model-error", code: 1, unkept: true, after: requests(1)},
		{name: "a redirect at the second request", setup: func(s *scene) { s.Extra["elsewhere"] = elsewhere(s) }, play: func(s *scene, n int, _ modelRequest) modelReply {
			if n == 0 {
				return modelReply{Calls: []modelCall{bash("touch made")}}
			}
			return modelReply{Write: func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, strings.Replace(s.Extra["elsewhere"], "127.0.0.1", "localhost", 1)+r.URL.Path, http.StatusTemporaryRedirect)
			}}
		}, end: "model-error", code: 1, unkept: true, left: map[string]string{"made": ""}},
	}
	playOver(t, list, func(int) []int { return []int{0, 1} })
}
