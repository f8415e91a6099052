package tools

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"sandboxd/agentloop"
	"sandboxd/policy"
)

// httpServer is an MCP server at an address of this machine.
func httpServer(t *testing.T, handler func(http.Handler) http.Handler) *httptest.Server {
	s := sdkServer("honest")
	h := http.Handler(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, nil))
	if handler != nil {
		h = handler(h)
	}
	srv := httptest.NewServer(h)
	t.Cleanup(func() {
		for session := range s.Sessions() {
			_ = session.Close()
		}
		srv.CloseClientConnections()
		srv.Close()
	})
	return srv
}

func TestServerAtAnAddress(t *testing.T) {
	var seen []string
	srv := httpServer(t, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			seen = append(seen, r.Header.Get("Authorization")+r.Header.Get("Cookie"))
			next.ServeHTTP(rw, r)
		})
	})
	w, m := mcpWorld(t, func(p *agentloop.PolicyInForce) {
		p.MCP = []agentloop.MCPServer{{Name: "web", URL: srv.URL + "/mcp", Headers: []string{"Authorization: Bearer ${SERVICE_TOKEN}"}, Source: policy.Source{Kind: policy.SourceUser}}}
	})
	if p := problemsOf(m); p != "" {
		t.Fatal(p)
	}
	if got := w.ok("mcp__web__echo", policy.Args{"text": "far"}); got != "echo: far" {
		t.Errorf("echo %q", got)
	}
	if !slices.Contains(seen, "Bearer sesame-open-12345") {
		t.Errorf("headers %q", seen)
	}
	srv.CloseClientConnections()
	srv.Close()
	w.refused("MCP server web", "mcp__web__echo", policy.Args{"text": "x"})
}

// The address of a checkout is contacted when network.allow names it, and no
// redirect leads anywhere else.
func TestAddressesThatAreNotContacted(t *testing.T) {
	hits := 0
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { hits++ }))
	defer other.Close()
	away := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusTemporaryRedirect))
	defer away.Close()
	honest := httpServer(t, nil)
	checkout := policy.Source{Kind: policy.SourceProject}
	user := policy.Source{Kind: policy.SourceUser}
	port := strings.TrimPrefix(honest.URL, "http://127.0.0.1:")
	for _, tt := range []struct {
		name  string
		spec  agentloop.MCPServer
		hosts []string
		want  string
	}{
		{"a checkout's, not named", agentloop.MCPServer{URL: honest.URL, Source: checkout}, nil, "which [network] allow does not"},
		{"a checkout's, by a star", agentloop.MCPServer{URL: honest.URL, Source: checkout}, []string{"*"}, "an address of this machine"},
		{"a checkout's, by a name that leads here", agentloop.MCPServer{URL: "http://ip6-localhost:" + port, Source: checkout}, []string{"ip6-localhost"}, "MCP server x:"},
		{"a checkout's, named", agentloop.MCPServer{URL: honest.URL, Source: checkout}, []string{"127.0.0.1"}, ""},
		{"a redirect", agentloop.MCPServer{URL: away.URL, Source: user}, nil, "redirects"},
		{"no server", agentloop.MCPServer{URL: "http://127.0.0.1:1", Source: user}, nil, "refused"},
		{"no address", agentloop.MCPServer{URL: "ftp://127.0.0.1", Source: user}, nil, "its address must be"},
		{"headers over plain http from a checkout", agentloop.MCPServer{URL: "http://example.org", Headers: []string{"A: b"}, Source: checkout}, []string{"example.org"}, "not sent over plain http"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, m := mcpWorld(t, func(p *agentloop.PolicyInForce) {
				tt.spec.Name = "x"
				p.MCP, p.Config.Hosts = []agentloop.MCPServer{tt.spec}, tt.hosts
			})
			if got := problemsOf(m); (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
				t.Errorf("problems %q, want %q", got, tt.want)
			}
		})
	}
	if hits != 0 {
		t.Errorf("a redirect was followed %d times", hits)
	}
}

// A server that answers with more than may come is cut off.
func TestAnswersOfAnAddressAreBounded(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Content-Type", r.Header.Get("X-Kind"))
		fmt.Fprint(rw, `data: {"jsonrpc":"2.0","id":1,"result":"`)
		for {
			if _, err := io.WriteString(rw, strings.Repeat("a", 1<<16)); err != nil {
				return
			}
		}
	}))
	defer srv.Close()
	for _, kind := range []string{"application/json", "text/event-stream"} {
		began := time.Now()
		_, m := mcpWorld(t, func(p *agentloop.PolicyInForce) {
			p.MCP = []agentloop.MCPServer{{Name: "x", URL: srv.URL, Headers: []string{"X-Kind: " + kind}, Source: policy.Source{Kind: policy.SourceUser}}}
		})
		if got := problemsOf(m); got == "" {
			t.Errorf("%s: taken", kind)
		}
		if took := time.Since(began); took > 20*time.Second {
			t.Errorf("%s: took %v", kind, took)
		}
	}
}
