package tools

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"sandboxd/agentloop"
)

// Limits of the tools of MCP servers.
const (
	connectTime     = 30 * time.Second // of one server: some are downloaded first
	maxServerTools  = 100
	maxListedTools  = 1000 // of a server, those that are not offered among them
	maxToolPages    = 20
	maxMCPName      = 64       // characters of mcp__SERVER__TOOL, as model APIs take them
	maxMCPText      = 4 << 10  // bytes of a description
	maxMCPSchema    = 32 << 10 // bytes of a schema
	maxMCPMessage   = 8 << 20  // bytes of one message of a server
	maxMCPResult    = 1 << 20  // bytes of a result that are handed on
	maxServerStarts = 3        // of one server in one session
	closeServerTime = 2 * time.Second
)

// MCP are the servers that one session is connected to.
type MCP struct {
	servers []*mcpServer
	// Problems say which servers, or tools of theirs, cannot be used.
	Problems []error
}

// ConnectMCP connects the session to the MCP servers of its policy and gives it
// their tools. A server that cannot be used is a problem of its own; others go on.
// Everything ends with the session.
func ConnectMCP(ctx context.Context, d *agentloop.Dispatcher, s *agentloop.Session) (*MCP, error) {
	// What is begun for one request is for all later ones of the session.
	return connectMCP(context.WithoutCancel(ctx), d, s, connectTime)
}

func connectMCP(ctx context.Context, d *agentloop.Dispatcher, s *agentloop.Session, limit time.Duration) (*MCP, error) {
	m := &MCP{}
	for _, spec := range s.MCPServers() {
		m.servers = append(m.servers, &mcpServer{spec: spec, d: d, s: s})
	}
	var connecting sync.WaitGroup
	for _, server := range m.servers {
		connecting.Go(func() { server.err = server.connect(ctx, limit) })
	}
	connecting.Wait()
	s.AtEnd(m.Close)
	var list []agentloop.Tool
	for _, server := range m.servers {
		if server.err != nil {
			m.Problems = append(m.Problems, fmt.Errorf("MCP server %s: %w", server.spec.Name, server.err))
			continue
		}
		tools, problems := server.offered()
		list = append(list, tools...)
		m.Problems = append(m.Problems, problems...)
	}
	if len(m.servers) == 0 {
		return m, nil
	}
	if err := s.SetTools(list); err != nil {
		m.Close()
		return nil, err
	}
	return m, nil
}

// Close ends all connections and servers.
func (m *MCP) Close() {
	var closing sync.WaitGroup
	for _, server := range m.servers {
		closing.Go(server.close)
	}
	closing.Wait()
}

// offered are the tools of a server as the session gets them. Two of one name are
// both refused: nobody could tell which one a rule is about.
func (m *mcpServer) offered() (list []agentloop.Tool, problems []error) {
	names := map[string]int{}
	for _, t := range m.tools {
		names[t.name]++
	}
	wanted := slices.Clone(m.spec.Tools)
	refuse := func(t mcpTool, format string, args ...any) {
		problems = append(problems, fmt.Errorf("MCP server %s: tool %q is left out: %s", m.spec.Name, clip(t.remote, maxMCPName), fmt.Sprintf(format, args...)))
	}
	for _, t := range m.tools {
		if len(m.spec.Tools) > 0 && !slices.Contains(m.spec.Tools, t.remote) {
			continue
		}
		wanted = slices.DeleteFunc(wanted, func(name string) bool { return name == t.remote })
		switch {
		case t.problem != "":
			refuse(t, "%s", t.problem)
		case names[t.name] > 1:
			refuse(t, "another one of this server is %s too", t.name)
		case len(list) == maxServerTools:
			refuse(t, "the server has more than %d", maxServerTools)
		default:
			list = append(list, t)
		}
	}
	for _, name := range wanted {
		problems = append(problems, fmt.Errorf("MCP server %s: it has no tool %q", m.spec.Name, clip(name, maxMCPName)))
	}
	return list, problems
}

// expandVariables replaces ${NAME} and ${NAME:-OTHER} by variables of the user.
func expandVariables(text string, environ []string) (string, error) {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(text, "${")
		b.WriteString(before)
		if !found {
			return b.String(), nil
		}
		inner, after, closed := strings.Cut(rest, "}")
		if !closed {
			return "", errors.New("${ without }")
		}
		name, other, hasOther := strings.Cut(inner, ":-")
		value, set := variableOf(environ, name)
		switch {
		case set && (value != "" || !hasOther):
			b.WriteString(value)
		case hasOther:
			b.WriteString(other)
		default:
			return "", fmt.Errorf("the variable %s is not set", clip(name, maxMCPName))
		}
		text = after
	}
}

func variableOf(environ []string, name string) (value string, set bool) {
	for _, entry := range slices.Backward(environ) {
		if v, ok := strings.CutPrefix(entry, name+"="); ok && name != "" {
			return v, true
		}
	}
	return "", false
}
