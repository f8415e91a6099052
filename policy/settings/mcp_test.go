package settings

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"sandboxd/policy"
)

const checkoutServers = `{"mcpServers": {
 "files": {"type": "stdio", "command": "npx", "args": ["-y", "files"], "env": {"KEY": "${KEY:-none}"}},
 "docs": {"type": "http", "url": "https://docs.example.org/mcp", "headers": {"Authorization": "Bearer ${TOKEN}"}}
}}`

// Servers that arrive with a checkout start once a person trusted exactly the
// content of their file.
func TestServersOfACheckoutNeedTrust(t *testing.T) {
	p := newPlace(t)
	path := filepath.Join(p.work, MCPFile)
	check := func(name string, want int) *Effective {
		t.Helper()
		e := p.load(p.options())
		notes := 0
		for _, n := range e.Ignored {
			if n.Untrusted() && n.ForAgents() {
				notes++
			}
		}
		if len(e.MCPServers) != want || notes != 2-want {
			t.Errorf("%s: %d servers, %d notes; want %d, %d: %v", name, len(e.MCPServers), notes, want, 2-want, e.Ignored)
		}
		return e
	}
	p.write(path, checkoutServers)
	e := check("untrusted", 0)
	if content, ok := e.ProjectContent(path); !ok || string(content) != checkoutServers {
		t.Errorf("what would be trusted: %v %q", ok, content)
	}
	p.trust(MCPFile)
	e = check("trusted", 2)
	want := []MCPServer{
		{Name: "files", Command: "npx", Args: []string{"-y", "files"}, Env: []string{"KEY=${KEY:-none}"}},
		{Name: "docs", URL: "https://docs.example.org/mcp", Headers: []string{"Authorization: Bearer ${TOKEN}"}},
	}
	for i := range e.MCPServers {
		if s := e.MCPServers[i].Source; s.Kind != policy.SourceProject || s.File != path || s.Line != i+2 {
			t.Errorf("source %+v", s)
		}
		e.MCPServers[i].Source = policy.Source{}
	}
	if !reflect.DeepEqual(e.MCPServers, want) {
		t.Errorf("servers\n got %+v\nwant %+v", e.MCPServers, want)
	}
	p.write(path, strings.Replace(checkoutServers, "-y", "-z", 1))
	check("changed after trust", 0)
}

// A checkout's server never takes the place of the user's of the same name.
func TestNamesOfServers(t *testing.T) {
	p := newPlace(t)
	p.write(filepath.Join(p.work, MCPFile), checkoutServers)
	p.trust(MCPFile)
	p.user("[mcp.servers.files]\ncommand = \"mine\"\nwrite = true\nnetwork = [\"full\"]\ntimeout = \"9s\"\ntools = [\"a\"]\n")
	find := func(e *Effective, name string) MCPServer {
		for _, s := range e.MCPServers {
			if s.Name == name {
				return s
			}
		}
		return MCPServer{}
	}
	e := p.load(p.options())
	if s := find(e, "files"); s.Command != "mine" || !s.Write || s.Timeout != 9*time.Second || s.Source.Kind != policy.SourceUser || len(e.MCPServers) != 2 {
		t.Errorf("servers %+v", e.MCPServers)
	}
	p.etc("[mcp.servers.files]\ncommand = \"managed\"\n")
	if s := find(p.load(p.options()), "files"); s.Command != "managed" || s.Write {
		t.Errorf("server %+v", s)
	}
}

// What cannot be read of a checkout's servers starts nothing and stops nothing.
func TestBrokenServersOfACheckout(t *testing.T) {
	for name, content := range map[string]string{
		"no JSON": "{", "a list": "[]", "unknown key": `{"mcpServers":{"a":{"command":"x","cwd":"/"}}}`,
		"grants itself a network": `{"mcpServers":{"a":{"command":"x","network":["full"]}}}`, "writes": `{"mcpServers":{"a":{"command":"x","write":true}}}`,
		"name with a separator": `{"mcpServers":{"a__b":{"command":"x"}}}`, "empty name": `{"mcpServers":{"":{"command":"x"}}}`,
		"neither": `{"mcpServers":{"a":{}}}`, "both": `{"mcpServers":{"a":{"command":"x","url":"http://h"}}}`,
		"file URL": `{"mcpServers":{"a":{"url":"file:///etc/passwd"}}}`, "user in URL": `{"mcpServers":{"a":{"url":"https://u:p@h/"}}}`,
		"a header of two lines": `{"mcpServers":{"a":{"url":"https://h/","headers":{"A":"b\r\nC: d"}}}}`,
		"NUL":                   `{"mcpServers":{"a":{"command":"x\u0000y"}}}`,
		"too large":             `{"mcpServers":{}}` + strings.Repeat(" ", maxFileBytes),
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			p.write(filepath.Join(p.work, MCPFile), content)
			p.trust(MCPFile)
			p.write(filepath.Join(p.work, ProjectFile), "[rules]\ndeny = [\"run_bash(x)\"]\n")
			e := p.load(p.options())
			if len(e.MCPServers) != 0 || len(e.Rules) != 1 || len(e.Ignored) != 1 || !e.Ignored[0].ForAgents() {
				t.Errorf("servers %v, %d rules, notes %v", e.MCPServers, len(e.Rules), e.Ignored)
			}
		})
	}
	t.Run("link", func(t *testing.T) {
		p := newPlace(t)
		p.write(filepath.Join(p.home, "other.json"), checkoutServers)
		if err := os.Symlink(filepath.Join(p.home, "other.json"), filepath.Join(p.work, MCPFile)); err != nil {
			t.Fatal(err)
		}
		if e := p.load(p.options()); len(e.MCPServers) != 0 || len(e.Ignored) != 1 {
			t.Errorf("servers %v, notes %v", e.MCPServers, e.Ignored)
		}
	})
}

// In a policy, on the other hand, a mistake is an error with its place.
func TestServersOfAPolicy(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"[mcp.servers.a]\ncommand = \"x\"\nargs = \"y\"\n", ""},
		{"[mcp]\nserver = 1\n", "policy.toml:2: unknown key mcp.server (did you mean mcp.servers?)"},
		{"[mcp.servers.a]\ncomand = \"x\"\n", "policy.toml:2: unknown key mcp.servers.a.comand (did you mean mcp.servers.a.command?)"},
		{"[mcp.servers.a]\ncommand = \"x\"\nnetwork = [\"h:443\"]\n", "gets the whole network or none"},
		{"[mcp.servers.a]\ncommand = \"x\"\ntimeout = \"unlimited\"\n", "timeout"},
		{"[mcp.servers.\"a b\"]\ncommand = \"x\"\n", "not a name of a server"},
		{"[mcp.servers.a]\nurl = \"https://h\"\nargs = [\"x\"]\n", "belong to a command"},
		{"[skills]\ndir = \"x\"\n", "unknown key skills.dir (did you mean skills.dirs?)"},
	} {
		_, err := Parse(policy.Source{Kind: policy.SourceUser, File: "policy.toml"}, []byte(tt.text))
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.text, err, tt.want)
		}
	}
}
