package settings

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"sandboxd/policy"
)

// MCPFile names the servers that a checkout brings, in the form that other agents
// read too. It starts nothing until a person has trusted its content.
const MCPFile = ".mcp.json"

// MCPServer is one server of the Model Context Protocol: a command, or an address.
// Its fields are those of agentloop.MCPServer, so that one converts to the other.
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

// maxMCPServers bounds the servers of one policy.
const maxMCPServers = 32

// mcp decodes the table [mcp].
func (d *decoder) mcp(m member) error {
	return d.mcpServers(m.value, "mcp.servers", nil)
}

// mcpServers decodes tables of servers by their names. Keys in ignored are those of
// other agents without meaning here.
func (d *decoder) mcpServers(n *node, where string, ignored []string) error {
	if !n.isTable() {
		return d.errorf(n, "%s must be a table of servers, not %s", where, n.kind)
	}
	for _, m := range n.members {
		s, err := d.mcpServer(m, where+"."+m.key, ignored)
		if err != nil {
			return err
		}
		if len(d.p.MCPServers) == maxMCPServers {
			return d.errorf(n, "%s: at most %d servers", where, maxMCPServers)
		}
		d.p.MCPServers = append(d.p.MCPServers, s)
	}
	return nil
}

func (d *decoder) mcpServer(m member, where string, ignored []string) (MCPServer, error) {
	s := MCPServer{Name: m.key, Source: d.p.source(m.line)}
	if problem := serverNameProblem(m.key); problem != "" {
		return s, &Error{File: d.file, Line: m.line, Text: where + ": " + problem, Hint: "letters, digits, - and single _; it becomes mcp__NAME__tool"}
	}
	if !m.value.isTable() {
		return s, d.errorf(m.value, "%s must be a table, not %s", where, m.value.kind)
	}
	for _, f := range m.value.members {
		if slices.Contains(ignored, f.key) {
			continue
		}
		if !slices.Contains(schema["mcp server"], f.key) {
			return s, &Error{File: d.file, Line: f.line, Text: "unknown key " + where + "." + f.key, Hint: suggest(f.key, "mcp server", where)}
		}
		if err := d.mcpField(&s, f, where+"."+f.key); err != nil {
			return s, err
		}
	}
	return s, d.checkServer(s, m.value, where)
}

func (d *decoder) mcpField(s *MCPServer, f member, what string) (err error) {
	switch f.key {
	case "command":
		s.Command, err = d.textOf(f.value, what)
	case "url":
		s.URL, err = d.textOf(f.value, what)
	case "args":
		s.Args, err = d.strings(f.value, what)
	case "network":
		s.Network, err = d.strings(f.value, what)
	case "tools":
		s.Tools, err = d.strings(f.value, what)
	case "write":
		s.Write, err = d.boolOf(f.value, what)
	case "env":
		s.Env, err = d.pairs(f.value, what, "=")
	case "headers":
		s.Headers, err = d.pairs(f.value, what, ": ")
	case "timeout":
		var t Value[time.Duration]
		t, err = d.duration(f.value, what)
		if s.Timeout = t.V; err == nil && s.Timeout <= 0 {
			err = d.errorf(f.value, "%s cannot be unlimited", what)
		}
	}
	return err
}

// pairs reads a table of texts.
func (d *decoder) pairs(n *node, what, between string) ([]string, error) {
	if !n.isTable() {
		return nil, d.errorf(n, "%s must be a table of strings, not %s", what, n.kind)
	}
	var out []string
	for _, m := range n.members {
		v, err := d.textOf(m.value, what+"."+m.key)
		if err != nil {
			return nil, err
		}
		if m.key == "" || strings.ContainsAny(m.key, "=: \t\r\n\x00") || strings.ContainsAny(v, "\r\n\x00") {
			return nil, d.errorf(m.value, "%s.%s: not a name, or a value of several lines", what, m.key)
		}
		out = append(out, m.key+between+v)
	}
	return out, nil
}

func (d *decoder) checkServer(s MCPServer, n *node, where string) error {
	switch {
	case (s.Command == "") == (s.URL == ""):
		return d.errorf(n, "%s needs either a command or a url", where)
	case s.URL != "" && (len(s.Args) > 0 || len(s.Env) > 0 || len(s.Network) > 0 || s.Write):
		return d.errorf(n, "%s: args, env, network and write belong to a command, not to a url", where)
	case s.Command != "" && len(s.Headers) > 0:
		return d.errorf(n, "%s: headers belong to a url", where)
	case strings.ContainsRune(s.Command+strings.Join(s.Args, ""), 0):
		return d.errorf(n, "%s holds a NUL byte", where)
	}
	for _, host := range s.Network {
		if host != "full" && host != "none" {
			return &Error{File: d.file, Line: n.line, Text: where + ".network: " + quote(host) + ": a server gets the whole network or none",
				Hint: `network = ["full"] grants it`}
		}
	}
	if s.URL == "" {
		return nil
	}
	u, err := url.Parse(s.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil {
		return d.errorf(n, "%s.url must be http://HOST or https://HOST, without a user", where)
	}
	return nil
}

// serverNameProblem says why a name cannot stand in mcp__NAME__tool.
func serverNameProblem(name string) string {
	const most = 32
	switch {
	case name == "" || len(name) > most:
		return fmt.Sprintf("the name of a server has 1 to %d characters", most)
	case strings.Contains(name, "__") || name[0] == '_' || name[len(name)-1] == '_':
		return "the name of a server holds no __, nor _ at its ends"
	}
	for _, c := range name {
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_') {
			return "not a name of a server"
		}
	}
	return ""
}

// parseMCP reads the servers of a checkout's [MCPFile].
func parseMCP(source policy.Source, data []byte) (*Policy, error) {
	root, err := parseJSON(source.File, data)
	if err != nil {
		return nil, err
	}
	d := decoder{reader: reader{source.File}, p: &Policy{Source: source}}
	if !root.isTable() {
		return nil, d.errorf(root, "want an object with mcpServers")
	}
	servers := root.get("mcpServers")
	if servers == nil {
		return d.p, nil
	}
	if err := d.mcpServers(servers, "mcpServers", []string{"type", "description"}); err != nil {
		return nil, err
	}
	for _, s := range d.p.MCPServers {
		if s.Write || len(s.Network) > 0 {
			return nil, &Error{File: source.File, Line: s.Source.Line, Text: "mcpServers." + s.Name + ": a checkout cannot grant a network, nor write",
				Hint: "name the server in your own policy, in [mcp.servers]"}
		}
	}
	return d.p, nil
}

// mcpFile reads the servers of the checkout. They are no policy: a file that cannot
// be read or believed starts nothing, and is told.
func (l *loader) mcpFile(owners []int) {
	path := filepath.Join(l.o.Workspace, MCPFile)
	source := policy.Source{Kind: policy.SourceProject, File: path}
	data, err := readChecked(path, owners, false)
	if errors.Is(err, fs.ErrNotExist) {
		l.files = append(l.files, FileInfo{Kind: source.Kind, Path: path})
		return
	}
	var p *Policy
	if err == nil {
		p, err = parseMCP(source, data)
	}
	if err != nil {
		l.notes = append(l.notes, Note{source, serverNote + "s of the checkout", err.Error()})
		l.files = append(l.files, FileInfo{Kind: source.Kind, Path: path, Found: true})
		return
	}
	top := layer{p, l.trust.Trusts(path, data)}
	l.files = append(l.files, FileInfo{Kind: source.Kind, Path: path, Found: true, Trusted: top.trusted, content: data, bound: true})
	l.layers = append(l.layers, top)
}

// serverNote begins the notes about servers.
const serverNote = "mcp server"

// ForAgents says that a note is about what only agents use.
func (n Note) ForAgents() bool { return strings.HasPrefix(n.What, serverNote) }

// mcpServers merges the servers of a layer over what is there: a stronger source
// replaces a server of the same name, but one that came with the project never
// takes the place of the user's own.
func (m *merger) mcpServers(l layer) {
	for _, s := range l.MCPServers {
		what := serverNote + " " + s.Name + ": " + s.Command + s.URL
		if len(s.Args) > 0 {
			what += " " + strings.Join(s.Args, " ")
		}
		i := slices.IndexFunc(m.out.MCPServers, func(have MCPServer) bool { return have.Name == s.Name })
		switch {
		case !l.trusted:
			m.ignore(s.Source, what, untrusted)
		case i < 0:
			m.out.MCPServers = append(m.out.MCPServers, s)
		case fromProject(s.Source.Kind) && !fromProject(m.out.MCPServers[i].Source.Kind):
			m.ignore(s.Source, what, "the name is taken by "+Label(m.out.MCPServers[i].Source))
		default:
			m.out.MCPServers[i] = s
		}
	}
}

// skills decodes the table [skills].
func (d *decoder) skills(m member) error {
	dirs, err := d.entries(m.value, "skills.dirs")
	d.p.SkillDirs = append(d.p.SkillDirs, dirs...)
	return err
}

// skillDirs merges the directories of skills: they are readable for every run.
func (m *merger) skillDirs(l layer) {
	for _, e := range l.SkillDirs {
		if !l.trusted {
			m.ignore(e.Source, "skills.dirs "+e.Text, untrusted)
			continue
		}
		m.out.SkillDirs = append(m.out.SkillDirs, Entry{m.out.expand(e.Text), e.Source})
	}
}
