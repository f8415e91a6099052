package agentloop

import (
	"testing"

	"sandboxd/policy"
)

func TestToolsets(t *testing.T) {
	base := policy.Base{Workspace: "/w", Home: "/h"}
	bash := func(s string) policy.Call { return policy.BashCall(s, "/w") }
	read := policy.Call{Tool: "Read", Args: policy.Args{"file_path": "a"}}
	mcp := policy.Call{Tool: "mcp__a__b"}
	for _, tt := range []struct {
		name string
		sets toolsets
		call policy.Call
		want bool
	}{
		{"all", toolsets{newToolset(nil)}, read, true},
		{"none", toolsets{newToolset([]string{})}, read, false},
		{"zero", toolsets{{}}, read, false},
		{"alias", toolsets{newToolset([]string{"read_file"})}, read, true},
		{"other", toolsets{newToolset([]string{"Grep"})}, read, false},
		{"content", toolsets{newToolset([]string{"Bash(make *)"})}, bash("make test"), true},
		{"other content", toolsets{newToolset([]string{"Bash(make *)"})}, bash("rm x"), false},
		{"one command of two", toolsets{newToolset([]string{"Bash(make *)"})}, bash("make test; rm x"), false},
		{"hidden in a substitution", toolsets{newToolset([]string{"Bash(make *)"})}, bash("make $(rm x)"), false},
		{"two contents", toolsets{newToolset([]string{"Bash(make *)", "run_bash(ls *)"})}, bash("make test && ls x"), true},
		{"whole beside content", toolsets{newToolset([]string{"Bash(make *)", "Bash"})}, bash("rm x"), true},
		{"star", toolsets{newToolset([]string{"Bash(*)"})}, bash("rm x"), true},
		{"both sets", toolsets{newToolset(nil), newToolset([]string{"Bash"})}, read, false},
		{"server", toolsets{newToolset([]string{"mcp__a"})}, mcp, true},
		{"other server", toolsets{newToolset([]string{"mcp__aa"})}, mcp, false},
		{"one tool of a server", toolsets{newToolset([]string{"mcp__a__b"})}, mcp, true},
		{"taken away", toolsets{newToolset(nil).without("Read")}, read, false},
		{"server taken away", toolsets{newToolset(nil).without("mcp__a")}, mcp, false},
		{"taken from a list", toolsets{newToolset([]string{"Read", "Bash"}).without("read_file")}, read, false},
		{"delegated", toolsets{newToolset([]string{"Task"}).union(newToolset([]string{"Read"}))}, read, true},
		{"delegated to all but one", toolsets{newToolset(nil).without("Read").union(newToolset([]string{"Bash"}))}, read, false},
		{"delegated what was taken", toolsets{newToolset(nil).without("Read").union(newToolset([]string{"Read"}))}, read, true},
		{"list and all", toolsets{newToolset([]string{"Bash"}).union(newToolset(nil))}, read, true},
	} {
		if got := tt.sets.refusal(tt.call, base); (got == "") != tt.want {
			t.Errorf("%s: %q", tt.name, got)
		}
		if tt.want && !tt.sets.has(tt.call.Tool) {
			t.Errorf("%s: not offered", tt.name)
		}
	}
}
