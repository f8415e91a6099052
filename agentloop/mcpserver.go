package agentloop

import (
	"time"

	"sandboxd/policy"
)

// MCPServer is a server of the Model Context Protocol as a policy, or a checkout
// that a person trusted, names it. agentloop/tools connects to it.
type MCPServer struct {
	Name    string
	Command string
	Args    []string
	// Env are variables as NAME=VALUE, Headers are sent to an address, as
	// NAME: VALUE. ${NAME} and ${NAME:-OTHER} in both, and in Args and URL, are
	// variables of the user.
	Env     []string
	URL     string
	Headers []string
	// Network is what a command may reach, Write lets it write the workspace.
	Network []string
	Write   bool
	// Timeout bounds one call. Zero means the default.
	Timeout time.Duration
	// Tools names those that are offered, as the server calls them. Empty: all.
	Tools  []string
	Source policy.Source
}

// MCPServers are the servers that the policy in force names.
func (s *Session) MCPServers() []MCPServer { return s.inForce().MCP }

// GrantsHost says how the policy in force grants the host of an address.
func (s *Session) GrantsHost(address string) policy.HostGrant {
	if e := s.engineNow(); e != nil {
		return e.GrantsHost(address)
	}
	return policy.HostNotGranted
}

// AtEnd has f called once when the session ends, after its calls, tasks and
// servers, or at once if it has ended.
func (s *Session) AtEnd(f func()) {
	s.mu.Lock()
	ended := s.closed != ""
	if !ended {
		s.atEnd = append(s.atEnd, f)
	}
	s.mu.Unlock()
	if ended {
		f()
	}
}

// callAtEnd calls what waits for the end.
func (s *Session) callAtEnd() {
	s.mu.Lock()
	list := s.atEnd
	s.atEnd = nil
	s.mu.Unlock()
	for _, f := range list {
		f()
	}
}
