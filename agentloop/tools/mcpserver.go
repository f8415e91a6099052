package tools

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"sandboxd/agentloop"
)

// mcpServer is the connection of one session to one server. A server that went
// away is started again when one of its tools is called, a few times.
type mcpServer struct {
	spec  agentloop.MCPServer
	d     *agentloop.Dispatcher
	s     *agentloop.Session
	err   error     // of the first connection
	tools []mcpTool // as first listed; what is offered does not change

	mu      sync.Mutex
	starts  int
	session *mcp.ClientSession
	process *agentloop.ServerProcess // nil for an address
	closed  bool
	changed *atomic.Bool // the server said that its tools changed
}

// connect makes the first connection and lists the tools.
func (m *mcpServer) connect(ctx context.Context, limit time.Duration) error {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("no answer within %s", limit))
	defer cancel()
	session, err := m.live(ctx)
	if err != nil {
		return err
	}
	tools, err := m.list(ctx, session)
	if err != nil {
		return m.explain(ctx, err)
	}
	m.tools = tools
	return nil
}

// live returns the connection, and makes it if there is none any more.
func (m *mcpServer) live(ctx context.Context) (*mcp.ClientSession, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, agentloop.ErrSessionClosed
	}
	if m.session != nil && !m.gone() {
		return m.session, nil
	}
	m.drop()
	if m.starts >= maxServerStarts {
		return nil, fmt.Errorf("the server went away %d times and is not started again in this session", m.starts)
	}
	m.starts++
	transport, err := m.transport(ctx)
	if err != nil {
		return nil, err
	}
	changed := &atomic.Bool{}
	client := mcp.NewClient(&mcp.Implementation{Name: "sandboxd", Version: "1"}, &mcp.ClientOptions{
		// Nothing that a server could ask of us: no roots, no sampling, no questions.
		Capabilities:   &mcp.ClientCapabilities{},
		MultiRoundTrip: &mcp.MultiRoundTripOptions{Disabled: true},
		Logger:         slog.New(slog.DiscardHandler),
		ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) {
			changed.Store(true)
		},
	})
	session, err := client.Connect(ctx, transport, nil)
	if err != nil {
		err = m.explainLocked(ctx, err)
		m.drop()
		return nil, err
	}
	m.session, m.changed = session, changed
	return session, nil
}

// gone reports whether the connection is of no more use. m.mu is held.
func (m *mcpServer) gone() bool {
	if m.process == nil {
		return false
	}
	select {
	case <-m.process.Done():
		return true
	default:
		return false
	}
}

// transport starts the server, or prepares to contact it. m.mu is held.
func (m *mcpServer) transport(ctx context.Context) (mcp.Transport, error) {
	spec, err := m.expanded()
	if err != nil {
		return nil, err
	}
	if spec.URL != "" {
		return httpTransport(spec, m.s)
	}
	p, err := m.d.StartServer(ctx, m.s, agentloop.ServerCommand{
		Name: spec.Name, Argv: append([]string{spec.Command}, spec.Args...), Env: spec.Env, Network: spec.Network, Write: spec.Write, From: placeOf(spec),
	})
	if err != nil {
		return nil, err
	}
	m.process = p
	return &mcp.IOTransport{Reader: paced(p.Stdout, p.Done()), Writer: p.Stdin, MaxLineLength: maxMCPMessage}, nil
}

// expanded is the spec with the user's variables.
func (m *mcpServer) expanded() (agentloop.MCPServer, error) {
	spec := m.spec
	environ := m.s.Peer().Caller.Environ
	var errs []error
	all := func(list []string) []string {
		var out []string
		for _, text := range list {
			text, err := expandVariables(text, environ)
			errs = append(errs, err)
			out = append(out, text)
		}
		return out
	}
	spec.Args, spec.Env, spec.Headers = all(spec.Args), all(spec.Env), all(spec.Headers)
	spec.URL = all([]string{spec.URL})[0]
	return spec, errors.Join(errs...)
}

// placeOf says who named a server.
func placeOf(spec agentloop.MCPServer) string {
	out := spec.Source.Kind.String()
	if spec.Source.File != "" {
		out += fmt.Sprintf(" %s:%d", spec.Source.File, spec.Source.Line)
	}
	return out
}

// list asks for the tools of the server.
func (m *mcpServer) list(ctx context.Context, session *mcp.ClientSession) ([]mcpTool, error) {
	var out []mcpTool
	params := &mcp.ListToolsParams{}
	for range maxToolPages {
		page, err := session.ListTools(ctx, params)
		if err != nil {
			return nil, err
		}
		for _, t := range page.Tools {
			if len(out) == maxListedTools {
				return nil, fmt.Errorf("it lists more than %d tools", maxListedTools)
			}
			if t != nil {
				out = append(out, newMCPTool(m, t))
			}
		}
		if page.NextCursor == "" {
			return out, nil
		}
		params.Cursor = page.NextCursor
	}
	return nil, fmt.Errorf("its list of tools has no end: more than %d pages", maxToolPages)
}

// call calls a tool. It is never called twice, whatever becomes of the connection.
func (m *mcpServer) call(ctx context.Context, t mcpTool, args map[string]any) (*mcp.CallToolResult, error) {
	session, err := m.live(ctx)
	if err != nil {
		return nil, err
	}
	if err := m.unchanged(ctx, session, t); err != nil {
		return nil, err
	}
	res, err := session.CallTool(ctx, &mcp.CallToolParams{Name: t.remote, Arguments: args})
	if err != nil {
		return nil, m.explain(ctx, err)
	}
	return res, nil
}

// unchanged compares a tool with what was offered, when the server was started
// again or says that its tools changed: a person, or a rule, allowed the old one.
func (m *mcpServer) unchanged(ctx context.Context, session *mcp.ClientSession, t mcpTool) error {
	m.mu.Lock()
	look := m.changed.Load() || m.starts > 1
	m.mu.Unlock()
	if !look {
		return nil
	}
	now, err := m.list(ctx, session)
	if err != nil {
		return m.explain(ctx, err)
	}
	for _, have := range now {
		if have.remote == t.remote && have.digest == t.digest {
			return nil
		}
	}
	return fmt.Errorf("the server changed its tool %s since it was offered: it is not called any more in this session", t.remote)
}

// explain says what became of a request, with what the server said last.
func (m *mcpServer) explain(ctx context.Context, err error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.explainLocked(ctx, err)
}

func (m *mcpServer) explainLocked(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if _, answered := errors.AsType[*jsonrpc.Error](err); answered || m.process == nil {
		return cleanError(err)
	}
	// A connection that breaks is often the server's end: who is told wants to
	// know how it ended.
	select {
	case <-m.process.Done():
	case <-time.After(100 * time.Millisecond):
	}
	switch gone := m.process.Err(); {
	case gone != nil && strings.HasSuffix(err.Error(), "EOF"):
		err = gone
	case errors.Is(err, mcp.ErrConnectionClosed): // and it may have ended because of that
		err = fmt.Errorf("it printed something that is not the protocol: %w", err)
	case gone != nil:
		err = fmt.Errorf("%w: %w", gone, err)
	}
	if last := lastLine(m.process.Errors()); last != "" {
		err = fmt.Errorf("%w; its last words: %s", err, m.s.Redactor().Mask(clip(last, maxSkillLine)))
	}
	return cleanError(err)
}

// cleanError keeps the words of a server in one bounded line.
func cleanError(err error) error {
	return errors.New(clip(strings.Map(printable, oneLine(err.Error())), 4*maxSkillLine))
}

// drop ends the connection and its process. m.mu is held.
func (m *mcpServer) drop() {
	session, process := m.session, m.process
	m.session, m.process = nil, nil
	if process != nil {
		_ = process.Stdin.Close() // an honest server ends by itself
		ctx, cancel := context.WithTimeout(context.Background(), closeServerTime)
		defer cancel()
		select {
		case <-process.Done():
		case <-time.After(50 * time.Millisecond):
		}
		process.Stop(ctx)
	}
	if session != nil {
		closeSession(session)
	}
}

// closeSession closes a connection, and waits for that only so long: it waits for
// requests that a server never answers.
func closeSession(session *mcp.ClientSession) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = session.Close()
	}()
	select {
	case <-done:
	case <-time.After(closeServerTime):
	}
}

func (m *mcpServer) close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	m.drop()
}
