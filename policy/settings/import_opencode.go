package settings

import (
	"slices"
	"strings"

	"sandboxd/policy"
)

// opencodeTools maps opencode's permission keys to our tools. An empty list is a
// key that no tool here stands for.
var opencodeTools = map[string][]string{
	"read": {"read_file"}, "edit": {"file_edit", "file_write"}, "write": {"file_write"}, "patch": {"file_edit"},
	"glob": {"glob_files"}, "grep": {"grep_files"}, "list": {"list_dir"},
	"bash": {"run_bash"}, "shell": {"run_bash"}, "task": {"subagent"}, "skill": {"load_skill"},
	"webfetch": {"web_fetch"}, "websearch": {"web_search"}, "codesearch": {"web_search"},
	"todowrite": {"todo_write"}, "todoread": {}, "lsp": {}, "question": {"ask_user"},
	"doom_loop": {}, "plan_enter": {}, "plan_exit": {},
}

// opencodeEvery is what the key "*" stands for: each tool of its own, so that a
// later key can lift it, and all tools of MCP servers.
var opencodeEvery = []string{"read", "edit", "glob", "grep", "list", "bash", "task", "skill", "webfetch", "websearch", "todowrite", "external_directory", "mcp__*"}

// opencodeDefaults are the permissions that opencode starts from; all others
// start from allow, which is not taken over.
var opencodeDefaults = []permission{
	{key: "read", pattern: "*.env", kind: policy.DenyRule},
	{key: "read", pattern: "*.env.*", kind: policy.DenyRule},
	{key: "read", pattern: "*.env.example", kind: policy.AllowRule},
}

// permission is one entry of opencode's list, in which the last match wins.
type permission struct {
	line         int
	key, pattern string
	kind         policy.Kind
}

func (p permission) text() string {
	text := p.kind.String() + " " + p.key
	if p.pattern != "*" {
		text += " " + shorten(p.pattern)
	}
	if p.line == 0 {
		text += " (opencode's default)"
	}
	return text
}

// importOpencode reads opencode.json: the permission object, the older tools
// object, the newer permissions list, and those of agents, which become profiles
// named agent-NAME.
func importOpencode(source policy.Source, data []byte) (*Policy, []Imported, error) {
	i := newImporter(source)
	root, err := i.settingsObject(data)
	if err != nil {
		return nil, nil, err
	}
	list, err := i.opencodeList(root)
	if err != nil {
		return nil, nil, err
	}
	i.opencode(append(slices.Clone(opencodeDefaults), list...))
	for _, m := range root.members {
		switch m.key {
		case "permission", "tools", "permissions":
		case "agent", "mode":
			if err := i.opencodeAgents(m.value, list); err != nil {
				return nil, nil, err
			}
		case "mcp":
			i.note(m.line, m.key, Refused, "MCP servers belong into [mcp]")
		case "plugin":
			i.note(m.line, m.key, Refused, "programs that other agents start are not taken over")
		default:
			i.note(m.line, m.key, Skipped, "not part of a policy")
		}
	}
	return i.result()
}

func (i *importer) opencodeAgents(n *node, global []permission) error {
	for _, m := range n.members {
		own, err := i.opencodeList(m.value)
		if err != nil {
			return err
		}
		if len(own) == 0 {
			continue
		}
		sub := newImporter(i.p.Source)
		sub.opencode(slices.Concat(opencodeDefaults, global, own))
		if i.p.Profiles == nil {
			i.p.Profiles = map[string]*Policy{}
		}
		i.p.Profiles["agent-"+m.key] = sub.p
		for _, r := range sub.report {
			if r.Line >= m.line {
				r.Text = "agent " + m.key + ": " + r.Text
				i.report = append(i.report, r)
			}
		}
	}
	return nil
}

// opencodeList reads the permissions of the whole file or of one agent.
func (i *importer) opencodeList(n *node) ([]permission, error) {
	var out []permission
	if tools := n.get("tools"); tools.isTable() {
		for _, m := range tools.members {
			if m.value.isFalse() {
				key := m.key
				switch key {
				case "write", "patch", "multiedit":
					key = "edit" // opencode takes any of them for all tools that edit
				}
				out = append(out, permission{m.line, key, "*", policy.DenyRule})
			}
		}
	}
	if p := n.get("permission"); p != nil {
		more, err := i.opencodeObject(p)
		if err != nil {
			return nil, err
		}
		out = append(out, more...)
	}
	if list := n.get("permissions"); list != nil {
		if !list.isArray() {
			return nil, i.errorf(list, "permissions must be an array, not %s", list.kind)
		}
		for _, item := range list.items {
			kind, err := i.opencodeAction(item.get("effect"), item)
			if err != nil {
				return nil, err
			}
			key, pattern := item.get("action"), item.get("resource")
			if !key.isText() || !pattern.isText() {
				return nil, i.errorf(item, "a permission needs action and resource")
			}
			out = append(out, permission{item.line, key.text, pattern.text, kind})
		}
	}
	return out, nil
}

func (i *importer) opencodeObject(n *node) ([]permission, error) {
	if n.isText() {
		kind, err := i.opencodeAction(n, n)
		return []permission{{n.line, "*", "*", kind}}, err
	}
	if !n.isTable() {
		return nil, i.errorf(n, "permission must be an object or a word, not %s", n.kind)
	}
	var out []permission
	for _, m := range n.members {
		if !m.value.isTable() {
			kind, err := i.opencodeAction(m.value, m.value)
			if err != nil {
				return nil, err
			}
			out = append(out, permission{m.line, m.key, "*", kind})
			continue
		}
		for _, sub := range m.value.members {
			kind, err := i.opencodeAction(sub.value, sub.value)
			if err != nil {
				return nil, err
			}
			out = append(out, permission{sub.line, m.key, sub.key, kind})
		}
	}
	return out, nil
}

func (i *importer) opencodeAction(n, at *node) (policy.Kind, error) {
	if n.isText() {
		if kind, err := policy.ParseKind(n.text); err == nil {
			return kind, nil
		}
	}
	return policy.DenyRule, i.errorf(at, "a permission is allow, ask or deny")
}

// opencode adds a list in which the last match wins. An entry that a later one
// replaces altogether is left out; a deny or ask has the later allows of the
// same key as exceptions.
func (i *importer) opencode(list []permission) {
	var flat []permission
	for _, p := range list {
		if p.key != "*" {
			flat = append(flat, p)
			continue
		}
		for _, key := range opencodeEvery {
			flat = append(flat, permission{p.line, key, p.pattern, p.kind})
		}
	}
	for k, p := range flat {
		later := flat[k+1:]
		replaced := slices.IndexFunc(later, func(q permission) bool {
			return q.key == p.key && (q.pattern == "*" || q.pattern == p.pattern)
		})
		if replaced >= 0 {
			i.note(p.line, p.text(), Kept, "replaced later in the file")
			continue
		}
		i.permission(p, later)
	}
}

// permission adds one entry; later are the entries after it.
func (i *importer) permission(p permission, later []permission) {
	s := statement{line: p.line, text: p.text(), kind: p.kind}
	tools, known := opencodeTools[p.key]
	switch {
	case p.key == "external_directory":
		i.opencodeExternal(s, p)
		return
	case known && len(tools) == 0:
		i.note(p.line, s.text, Skipped, "no tool here does this")
		return
	case !known:
		tools = []string{policy.CanonicalTool(p.key)}
	}
	if p.kind != policy.AllowRule {
		s.except = i.opencodeExceptions(p, later)
	}
	if p.pattern == "*" {
		i.opencodeWhole(s, p.key, tools)
		return
	}
	switch p.key {
	case "bash", "shell":
		i.opencodeCommand(s, p.pattern)
	case "read", "edit", "write", "patch", "list":
		path, exact := opencodePath(p.pattern, p.kind)
		if path == "" && p.kind == policy.AllowRule {
			i.note(p.line, s.text, Refused, "the pattern cannot be written here without covering more")
			return
		}
		why := ""
		if !exact {
			why = "the pattern is not quite the same here"
		}
		var patterns []string
		for _, t := range tools {
			if path == "" {
				patterns = append(patterns, t)
				continue
			}
			patterns = append(patterns, t+"("+path+")")
		}
		i.rules(s, why, patterns...)
	case "task", "skill":
		i.rules(s, "", tools[0]+"("+p.pattern+")")
	default:
		i.opencodeOther(s, tools, p.pattern)
	}
}

// opencodeWhole is a rule for every call of a key. Allowing all reads or edits
// means those in the project, since others are an external_directory there.
func (i *importer) opencodeWhole(s statement, key string, tools []string) {
	if s.kind == policy.AllowRule {
		switch key {
		case "mcp__*":
			i.note(s.line, s.text, Refused, "no rule allows every MCP server")
			return
		case "read", "edit", "write", "patch", "list", "glob", "grep":
			var patterns []string
			for _, t := range tools {
				patterns = append(patterns, t+"(./**)")
			}
			i.rules(s, "", patterns...)
			return
		}
	}
	i.rules(s, "", tools...)
}

// opencodeCommand is a rule on commands. "git *" also means git alone there; an
// allow takes the narrower reading, and ? is one letter there and a literal here.
func (i *importer) opencodeCommand(s statement, pattern string) {
	if strings.Contains(pattern, "?") {
		if s.kind == policy.AllowRule {
			i.note(s.line, s.text, Refused, "? in a command pattern has no equal here")
			return
		}
		pattern = strings.ReplaceAll(pattern, "?", "*")
	}
	patterns := []string{pattern}
	if prefix, ok := strings.CutSuffix(pattern, " *"); ok && s.kind != policy.AllowRule {
		patterns = append(patterns, prefix)
	}
	i.shellRule(s, pattern, patterns)
}

// opencodeExceptions are the contents of the later allows of the same key.
func (i *importer) opencodeExceptions(p permission, later []permission) []string {
	var out []string
	for _, q := range later {
		if q.key != p.key || q.kind != policy.AllowRule {
			continue
		}
		switch p.key {
		case "bash", "shell":
			if shellProblem(q.pattern, policy.AllowRule) == "" && !strings.Contains(q.pattern, "?") {
				out = append(out, strings.Join(strings.Fields(q.pattern), " "))
			}
		case "read", "edit", "write", "patch", "list":
			if path, _ := opencodePath(q.pattern, policy.AllowRule); path != "" {
				out = append(out, path)
			}
		case "task", "skill":
			out = append(out, q.pattern)
		}
	}
	return out
}

// opencodeOther is a pattern over what has no equal here: a search expression,
// an address with its path.
func (i *importer) opencodeOther(s statement, tools []string, pattern string) {
	if s.kind == policy.AllowRule {
		i.note(s.line, s.text, Refused, "a pattern over this argument has no equal here")
		return
	}
	s.except = nil
	i.rules(s, "a pattern over this argument has no equal here; the whole tool is taken", tools...)
}
