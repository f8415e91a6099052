package tools

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sandboxd/agentloop"
	"sandboxd/policy"
)

// mcpWorld has servers that this test binary plays, by their kinds.
func mcpWorld(t *testing.T, edit func(*agentloop.PolicyInForce), kinds ...string) (*world, *MCP) {
	t.Helper()
	w := newWorld(t, nil)
	w.caller.Environ = append(w.caller.Environ, "SERVICE_TOKEN=sesame-open-12345", "CRASHES="+w.path("crashes"))
	program := w.path("server")
	if err := os.Link(os.Args[0], program); err != nil {
		copyFile(t, os.Args[0], program)
	}
	w.edit = func(p *agentloop.PolicyInForce) {
		for _, kind := range kinds {
			p.MCP = append(p.MCP, agentloop.MCPServer{Name: kind, Command: program, Args: []string{mcpArg + kind}, Write: true,
				Env: []string{"TOKEN=${SERVICE_TOKEN}", "CRASHES=${CRASHES}"}, Source: policy.Source{Kind: policy.SourceUser, File: "policy.toml", Line: 3}})
		}
		if edit != nil {
			edit(p)
		}
	}
	w.s = w.session()
	m, err := ConnectMCP(t.Context(), w.d, w.s)
	if err != nil {
		t.Fatal(err)
	}
	return w, m
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	in, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(out, in); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
}

func problemsOf(m *MCP) string {
	var lines []string
	for _, p := range m.Problems {
		lines = append(lines, p.Error())
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

func toolNames(s *agentloop.Session) (names []string) {
	for _, t := range s.Tools() {
		names = append(names, t.Name())
	}
	return names
}

func TestToolsOfAServer(t *testing.T) {
	w, m := mcpWorld(t, nil, "honest")
	if p := problemsOf(m); p != "" {
		t.Errorf("problems: %s", p)
	}
	want := []string{"mcp__honest__add", "mcp__honest__echo", "mcp__honest__environment", "mcp__honest__fail", "mcp__honest__look", "mcp__honest__wipe"}
	if got := toolNames(w.s); !slices.Equal(got, want) {
		t.Errorf("tools %v, want %v", got, want)
	}
	if got := w.ok("mcp__honest__echo", policy.Args{"text": "hello"}); got != "echo: hello" {
		t.Errorf("echo: %q", got)
	}
	if got := w.ok("mcp__honest__add", policy.Args{"a": 2.0, "b": 3.0}); got != `{"sum":5}` {
		t.Errorf("add: %q", got)
	}
	w.refused("the tool failed: no such table", "mcp__honest__fail", policy.Args{})
	w.refused("", "mcp__honest__add", policy.Args{"a": "two"})
	for _, tool := range w.s.Tools() {
		if tool.Name() != "mcp__honest__add" {
			continue
		}
		if s := tool.(agentloop.Described).Schema(); !strings.Contains(string(s.Parameters), `"a"`) || !strings.Contains(s.Description, "Adds two numbers.") {
			t.Errorf("schema %s %s", s.Description, s.Parameters)
		}
	}
}

// What a server says of its tools makes them stricter, never looser.
func TestAnnotationsOnlyTighten(t *testing.T) {
	w, _ := mcpWorld(t, func(p *agentloop.PolicyInForce) {
		p.Config.Default = policy.Ask
		for _, pattern := range []string{"mcp__honest__echo", "mcp__honest__wipe"} {
			p.Config.Rules = append(p.Config.Rules, policy.Rule{Kind: policy.AllowRule, Pattern: pattern, Source: policy.Source{Kind: policy.SourceUser}})
		}
	}, "honest")
	w.ok("mcp__honest__echo", policy.Args{"text": "x"})
	for tool, why := range map[string]string{"mcp__honest__wipe": "may destroy", "mcp__honest__look": ""} {
		res := w.call(tool, policy.Args{"text": "x"})
		if res.Status != agentloop.StatusDeny || !strings.Contains(res.Error, why) {
			t.Errorf("%s: %s %q", tool, res.Status, res.Error)
		}
	}
	for _, tool := range w.s.Tools() {
		if tr := tool.Traits(nil); tr.ReadOnly || tr.ConcurrencySafe || tr.Harmless {
			t.Errorf("%s has traits %+v", tool.Name(), tr)
		}
	}
	if err := w.s.AddRule(policy.DenyRule, "mcp__honest", "test"); err != nil {
		t.Fatal(err)
	}
	w.refused("denied", "mcp__honest__echo", policy.Args{"text": "x"})
}

func TestServerProcessIsConfined(t *testing.T) {
	w, _ := mcpWorld(t, func(p *agentloop.PolicyInForce) { p.MCP[0].Write = false }, "honest")
	secret := filepath.Join(w.caller.Home, ".ssh", "id_rsa")
	if err := os.MkdirAll(filepath.Dir(secret), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(secret, []byte("PRIVATE"), 0o600); err != nil {
		t.Fatal(err)
	}
	// The paths are the server's to try: they are granted by nobody.
	got := w.ok("mcp__honest__environment", policy.Args{"secret": secret, "write": w.path("made")})
	if strings.Contains(got, "PRIVATE") {
		t.Errorf("read a secret: %s", got)
	}
	if _, err := os.Stat(w.path("made")); err == nil {
		t.Error("wrote the workspace, which nobody granted")
	}
	if !strings.Contains(got, "TOKEN=sesame-open-12345") || strings.Contains(got, "SERVICE_TOKEN") {
		t.Errorf("environment %s", got)
	}
}

func TestServersThatDoNotKeepToTheProtocol(t *testing.T) {
	began := time.Now()
	w, m := mcpWorld(t, func(p *agentloop.PolicyInForce) {
		p.MCP = append(p.MCP, agentloop.MCPServer{Name: "absent", Command: "no-such-server"}, agentloop.MCPServer{Name: "unset", Command: "true", Env: []string{"A=${NOT_SET}"}})
	}, "honest", "rubbish", "flood", "dies", "pages", "nulls")
	if took := time.Since(began); took > 25*time.Second {
		t.Errorf("took %v", took)
	}
	got := problemsOf(m)
	for _, want := range []string{
		"MCP server rubbish: it printed something that is not the protocol", "its last words: token=[secret] loaded",
		"MCP server flood: it printed something that is not the protocol", "MCP server dies: the server ended with status 7; its last words: cannot open the database",
		"MCP server pages: its list of tools has no end", "MCP server absent: ", "MCP server unset: the variable NOT_SET is not set",
		`tool "bad" is left out: its schema is no object`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if strings.ContainsAny(got, "\x1b") {
		t.Errorf("control characters: %q", got)
	}
	if names := toolNames(w.s); !slices.Contains(names, "mcp__honest__echo") || !slices.Contains(names, "mcp__nulls__ok") {
		t.Errorf("tools %v", names)
	}
	if got := w.ok("mcp__nulls__ok", policy.Args{}); got != "[the tool returned nothing]" {
		t.Errorf("no result: %q", got)
	}
	w.ok("mcp__honest__echo", policy.Args{"text": "still here"})
}

func TestSilentServerIsGivenUp(t *testing.T) {
	w, _ := mcpWorld(t, nil, "honest")
	w.edit = func(p *agentloop.PolicyInForce) {
		for _, kind := range []string{"silent", "stays", "honest"} {
			p.MCP = append(p.MCP, agentloop.MCPServer{Name: kind, Command: w.path("server"), Args: []string{mcpArg + kind}})
		}
	}
	w.s = w.session()
	began := time.Now()
	m, err := connectMCP(t.Context(), w.d, w.s, 2*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if got := problemsOf(m); !strings.Contains(got, "MCP server silent: no answer within 2s") || !strings.Contains(got, "MCP server stays: no answer within 2s") {
		t.Errorf("problems %s", got)
	}
	if took := time.Since(began); took > 8*time.Second {
		t.Errorf("took %v", took)
	}
	w.ok("mcp__honest__echo", policy.Args{"text": "x"})
}

func TestHostileServer(t *testing.T) {
	w, m := mcpWorld(t, nil, "hostile")
	problems := problemsOf(m)
	for _, want := range []string{`tool "a.b" is left out: another one`, `tool "a/b" is left out: another one`, `tool "x__y" is left out: no name`,
		`is longer than 64 characters`, `tool "schema" is left out: its schema has`} {
		if !strings.Contains(problems, want) {
			t.Errorf("no %q in\n%s", want, problems)
		}
	}
	for _, tool := range w.s.Tools() {
		s := tool.(agentloop.Described).Schema()
		if len(s.Description) > maxMCPText+100 || strings.ContainsAny(s.Description, "\x00\x1b\u202e\u200b") {
			t.Errorf("%s: description of %d bytes: %.60q", s.Name, len(s.Description), s.Description)
		}
	}
	if got := w.ok("mcp__hostile__draw", policy.Args{}); got != "a[31mbcd\ne" {
		t.Errorf("drawn: %q", got)
	}
	if got := w.ok("mcp__hostile__mixed", policy.Args{}); got != "words\n[an image, image/png, 3 bytes: not shown]\ninner" {
		t.Errorf("mixed: %q", got)
	}
	if got := w.ok("mcp__hostile__big", policy.Args{}); len(got) > maxMCPResult+200 || !strings.Contains(got, "at most 1048576 are handed on") {
		t.Errorf("big: %d bytes", len(got))
	}
	// It gets nothing from us: no roots, no model, no person.
	if got := w.ok("mcp__hostile__ask", policy.Args{}); strings.Contains(got, "<nil>") {
		t.Errorf("asked: %s", got)
	}
}

func TestCallThatIsNeverAnswered(t *testing.T) {
	w, _ := mcpWorld(t, func(p *agentloop.PolicyInForce) { p.MCP[0].Timeout = time.Second }, "hostile")
	began := time.Now()
	w.refused("gave no answer within 1s", "mcp__hostile__hang", policy.Args{})
	if took := time.Since(began); took > 3*time.Second {
		t.Errorf("hangs for %v", took)
	}
	w.ok("mcp__hostile__echo", policy.Args{"text": "after it"})
	done := make(chan agentloop.ToolResult, 1)
	w.edit = nil
	go func() { done <- w.in(w.s, "mcp__hostile__hang", policy.Args{}) }()
	time.Sleep(100 * time.Millisecond)
	began = time.Now()
	w.s.Cancel("test")
	if res := <-done; res.Status != agentloop.StatusCancelled || time.Since(began) > 250*time.Millisecond {
		t.Errorf("cancelled: %s after %v", res.Status, time.Since(began))
	}
}

// A server that changes a tool after a person, or a rule, allowed it, is not obeyed.
func TestChangedToolIsNotCalled(t *testing.T) {
	w, _ := mcpWorld(t, nil, "hostile")
	w.ok("mcp__hostile__echo", policy.Args{"text": "x"})
	w.ok("mcp__hostile__change", policy.Args{})
	deadline := time.Now().Add(3 * time.Second)
	for { // the notice travels by itself
		res := w.call("mcp__hostile__echo", policy.Args{"text": "x"})
		if strings.Contains(res.Error, "changed its tool echo") {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("still called: %q %q", res.Output, res.Error)
		}
		time.Sleep(20 * time.Millisecond)
	}
	w.ok("mcp__hostile__mixed", policy.Args{}) // which is what it was
}

// A server that dies is started again for a later call, not for the one that killed
// it, and not for ever.
func TestServerThatDiesIsStartedAgain(t *testing.T) {
	w, _ := mcpWorld(t, nil, "hostile")
	for i := range maxServerStarts {
		w.refused("out of cheese", "mcp__hostile__crash", policy.Args{})
		if got := strings.Count(w.content("crashes"), "called"); got != i+1 {
			t.Fatalf("called %d times, want %d", got, i+1)
		}
		if i < maxServerStarts-1 {
			w.ok("mcp__hostile__echo", policy.Args{"text": "again"})
		}
	}
	w.refused("not started again in this session", "mcp__hostile__echo", policy.Args{"text": "x"})
}

func TestServerThatIsAnotherOneAfterItsDeath(t *testing.T) {
	w, _ := mcpWorld(t, nil, "unstable")
	w.ok("mcp__unstable__moving", policy.Args{"text": "x"})
	w.refused("", "mcp__unstable__crash", policy.Args{})
	w.refused("changed its tool moving", "mcp__unstable__moving", policy.Args{"text": "x"})
	w.ok("mcp__unstable__echo", policy.Args{"text": "same as before"})
}

func TestNumberOfToolsIsBounded(t *testing.T) {
	w, m := mcpWorld(t, nil, "many")
	if n := len(w.s.Tools()); n != maxServerTools {
		t.Errorf("%d tools, want %d", n, maxServerTools)
	}
	if !strings.Contains(problemsOf(m), "more than 100") {
		t.Error("not told")
	}
	w2, m2 := mcpWorld(t, func(p *agentloop.PolicyInForce) { p.MCP[0].Tools = []string{"t7", "absent"} }, "many")
	if got := toolNames(w2.s); !slices.Equal(got, []string{"mcp__many__t7"}) || !strings.Contains(problemsOf(m2), `it has no tool "absent"`) {
		t.Errorf("tools %v, problems %s", got, problemsOf(m2))
	}
}

func TestServersEndWithTheSession(t *testing.T) {
	w, _ := mcpWorld(t, nil, "honest", "hostile")
	done := make(chan agentloop.ToolResult, 1)
	go func() { done <- w.in(w.s, "mcp__hostile__hang", policy.Args{}) }()
	time.Sleep(100 * time.Millisecond)
	began := time.Now()
	if err := w.m.Close(t.Context(), w.s.ID(), agentloop.Peer{Caller: w.caller}, "test"); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("took %v", took)
	}
	select {
	case <-done:
	case <-time.After(2 * time.Second):
		t.Error("a call of the ended session still waits")
	}
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, f := range files {
		if data, _ := os.ReadFile(f); strings.Contains(string(data), w.path("server")) {
			t.Errorf("%s is left: %q", f, data)
		}
	}
}

func TestModePlanStopsServersThatWrite(t *testing.T) {
	w, _ := mcpWorld(t, nil, "honest")
	w.ok("mcp__honest__echo", policy.Args{"text": "x"})
	if err := w.s.SetMode(policy.ModePlan); err != nil {
		t.Fatal(err)
	}
	if err := w.s.AddRule(policy.AllowRule, "mcp__honest__echo", "test"); err != nil {
		t.Fatal(err)
	}
	w.refused("mode plan", "mcp__honest__echo", policy.Args{"text": "x"})
}

func TestExpandVariables(t *testing.T) {
	environ := []string{"A=one", "EMPTY=", "A=two"}
	for _, tt := range []struct{ text, want, fail string }{
		{"plain $A", "plain $A", ""},
		{"${A}-${A}", "two-two", ""},
		{"${B:-other}${EMPTY:-x}${EMPTY}", "otherx", ""},
		{"${B}", "", "B is not set"},
		{"${", "", "without"},
		{"${}", "", "not set"},
	} {
		got, err := expandVariables(tt.text, environ)
		if got != tt.want || (err == nil) != (tt.fail == "") || err != nil && !strings.Contains(err.Error(), tt.fail) {
			t.Errorf("%s: %q, %v; want %q, %q", tt.text, got, err, tt.want, tt.fail)
		}
	}
}

func TestToolNames(t *testing.T) {
	for in, want := range map[string]string{"search": "search", "a.b": "a_b", "näme": "nme", "": "", "__": "", "a__b": "", "日本": "", "x y": "x_y", strings.Repeat("a", 200): ""} {
		got, ok := toolName(in)
		if !ok {
			got = ""
		}
		if got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
	if errors.Is(cleanError(errors.New("a\nb\x1b[0m")), nil) || cleanError(errors.New("a\nb\x1b[0m")).Error() != "a b[0m" {
		t.Error("words of a server keep control characters")
	}
}
