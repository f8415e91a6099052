package api

import (
	"path/filepath"
	"slices"
	"strings"

	"sandboxd/agentloop"
	"sandboxd/policy"
)

// inSession applies what a call in a session asks for besides, as far as it only
// tightens: limits, paths that are closed or read-only, no network, nothing
// executable that can be written. A session decides by the environment, the policy and
// the grants that it was made with; a request for others is refused, naming the field,
// since it would be dropped otherwise.
func (q *ExecRequest) inSession(t *agentloop.ToolCall) error {
	g := q.Grant
	for _, f := range []struct {
		name  string
		given bool
	}{
		{"env", len(q.Env) > 0}, {"policy", len(q.Policy) > 0}, {"profile", q.Profile != ""}, {"mode", q.Mode != ""},
		{"grant.workspace", g.Workspace != ""}, {"grant.user", g.User != ""}, {"grant.unix", len(g.Unix) > 0},
		{"grant.env_pass", len(g.EnvPass) > 0}, {"grant.env_set", len(g.EnvSet) > 0}, {"grant.syscalls", g.Syscalls != ""},
		{"grant.network", len(g.Network) > 0 && !slices.Equal(g.Network, []string{"none"})},
	} {
		if f.given {
			return fault(CodeBadRequest, notInSession, "%s cannot be applied in a session, which has its own", f.name)
		}
	}
	for i, p := range g.Paths {
		if p.Access != policy.GrantDeny && p.Access != policy.GrantProtect {
			return fault(CodeBadRequest, notInSession, "grant.paths[%d]: %s %q cannot be applied in a session, which has its own grants", i, p.Access, p.Path)
		}
		path := string(p.Path)
		if !filepath.IsAbs(path) && path != "~" && !strings.HasPrefix(path, "~/") {
			path = filepath.Join(string(q.Cwd), path)
		}
		t.Paths = append(t.Paths, policy.PathGrant{Path: path, Access: p.Access, Source: policy.Source{Kind: policy.SourceCLI}})
	}
	l := g.Limits
	t.Limits = policy.GrantLimits{Timeout: ownTime(l.TimeoutMS), CPU: ownTime(l.CPUMS), MemoryBytes: l.MemoryBytes,
		Tasks: l.Tasks, FileBytes: l.FileBytes, OutputBytes: l.OutputBytes}
	t.NoNetwork, t.NoExecWrite = len(g.Network) > 0, g.NoExecWrite
	return nil
}

const notInSession = "leave it out, make a session with it, or name no session; a call in a session can only be held tighter: limits, deny and protect paths, no network, no_exec_write"
