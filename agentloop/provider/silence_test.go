package provider_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"sandboxd/agentloop"
)

// A server that takes connections and reads nothing of a long request is silent too;
// one that reads it slowly is not.
func TestServerThatReadsNothingIsSilent(t *testing.T) {
	eachProtocol(t, func(t *testing.T, p wireProtocol) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		long := ask()
		long.Messages = []agentloop.Message{agentloop.TextMessage(agentloop.RoleUser, agentloop.OriginUser, strings.Repeat("long ", 4<<20))}
		o := quick
		o.Silence = 1500 * time.Millisecond // fifteen pauses of the slow reader: other work takes the processors for long
		ctx, done := context.WithTimeout(t.Context(), 20*time.Second)
		defer done()
		_, err = dial(t, p, &wireServer{Server: &httptest.Server{URL: "http://" + l.Addr().String()}}, o).Stream(ctx, long, nil)
		if e, ok := errors.AsType[*agentloop.ModelError](err); !ok || e.Kind != agentloop.ModelSilent || e.Attempts != 1 {
			t.Errorf("a server that reads nothing: %v", err)
		}
		slowly := func(w http.ResponseWriter, r *http.Request) {
			for buf := make([]byte, 1<<20); ; time.Sleep(100 * time.Millisecond) { // 20 MiB in two seconds
				if _, err := io.ReadFull(r.Body, buf); err != nil {
					break
				}
			}
			events(p.Say(workingAnswer)...)(w, r)
		}
		slow := httptest.NewServer(http.HandlerFunc(slowly))
		defer slow.Close()
		start := time.Now()
		if _, err := dial(t, p, &wireServer{Server: slow}, o).Stream(ctx, long, nil); err != nil || time.Since(start) < o.Silence {
			t.Errorf("a slow reader, %v: %v", time.Since(start), err)
		}
	})
}
