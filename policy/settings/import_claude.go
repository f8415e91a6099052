package settings

import (
	"slices"
	"strings"

	"sandboxd/policy"
)

// ImportClaude reads the settings.json of Claude Code: permissions, sandbox and
// hooks. Source.Kind is SourceUser for a file of ~/.claude and SourceProject or
// SourceLocalProject for one of a project: there "/x" is taken from the project,
// here from ~/.claude (code.claude.com, "Configure permissions").
func ImportClaude(source policy.Source, data []byte) (*Policy, []Imported, error) {
	i := newImporter(source)
	root, err := i.settingsObject(data)
	if err != nil {
		return nil, nil, err
	}
	for _, m := range root.members {
		var err error
		switch m.key {
		case "permissions":
			err = i.claudePermissions(m.value)
		case "sandbox":
			err = i.claudeSandbox(m.value)
		case "hooks":
			if root.get("disableAllHooks").isTrue() {
				i.note(m.line, "hooks", Skipped, "disableAllHooks is set")
				continue
			}
			err = i.claudeHooks(m.value)
		case "env":
			i.note(m.line, "env", Refused, "variables are not taken over; name them in [env]")
		case "enableAllProjectMcpServers", "enabledMcpjsonServers":
			i.note(m.line, m.key, Refused, "MCP servers are trusted by sbx trust alone")
		default:
			i.note(m.line, m.key, Skipped, "not part of a policy")
		}
		if err != nil {
			return nil, nil, err
		}
	}
	return i.result()
}

func (i *importer) claudePermissions(n *node) error {
	if !n.isTable() {
		return i.errorf(n, "permissions must be an object, not %s", n.kind)
	}
	kinds := map[string]policy.Kind{"deny": policy.DenyRule, "ask": policy.AskRule, "allow": policy.AllowRule}
	for _, m := range n.members {
		if kind, ok := kinds[m.key]; ok {
			items, err := i.textsOf(m.value, "permissions."+m.key)
			if err != nil {
				return err
			}
			for _, item := range items {
				i.claudeRule(statement{line: item.line, text: m.key + " " + shorten(item.text), kind: kind}, item.text)
			}
			continue
		}
		if err := i.claudeSetting(m); err != nil {
			return err
		}
	}
	return nil
}

func (i *importer) claudeSetting(m member) error {
	switch m.key {
	case "defaultMode":
		mode, err := i.textOf(m.value, "defaultMode")
		if err != nil {
			return err
		}
		switch {
		case mode == "bypassPermissions":
			i.note(m.line, "defaultMode "+mode, Refused, "a policy file never starts in this mode; use --mode")
		case slices.Contains(Modes, mode) && mode != "bubble":
			i.p.Mode = set(mode, i.p.source(m.value.line))
			i.note(m.line, "defaultMode "+mode, Kept, "", "mode "+mode)
		default:
			i.note(m.line, "defaultMode "+quote(mode), Refused, "no such mode here")
		}
	case "additionalDirectories":
		items, err := i.textsOf(m.value, m.key)
		if err != nil {
			return err
		}
		for _, item := range items {
			i.path(item.line, m.key+" "+shorten(item.text), item.text, policy.GrantRead, Narrowed,
				"readable; add it to filesystem.write to let commands write there")
		}
	case "disableBypassPermissionsMode", "disableAutoMode":
		mode := map[string]string{"disableBypassPermissionsMode": "bypassPermissions", "disableAutoMode": "auto"}[m.key]
		if m.value.isText() && m.value.text == "disable" || m.value.isTrue() {
			i.p.ForbidModes = append(i.p.ForbidModes, Entry{mode, i.p.source(m.line)})
			i.note(m.line, m.key, Kept, "", "modes.forbid "+mode)
			return nil
		}
		i.note(m.line, m.key, Skipped, "only \"disable\" means something")
	default:
		i.note(m.line, "permissions."+m.key, Skipped, "unknown to this importer; it permits nothing here")
	}
	return nil
}

// claudeRule turns Tool or Tool(content) into our rules.
func (i *importer) claudeRule(s statement, rule string) {
	tool, content, _ := strings.Cut(strings.TrimSpace(rule), "(")
	content, closed := strings.CutSuffix(content, ")")
	bare := !strings.Contains(rule, "(")
	if !bare && !closed || tool == "" {
		i.rules(s, "not of the form Tool(content)", rule)
		return
	}
	if bare || content == "" || content == "*" {
		i.claudeTool(s, tool)
		return
	}
	switch tool {
	case "Bash":
		i.shellRule(s, content, claudeBash(content, s.kind))
	case "Read", "Edit", "Write", "NotebookEdit", "MultiEdit":
		i.claudePath(s, tool, content)
	default:
		i.rules(s, "", rule)
	}
}

// claudeTool is a rule for a whole tool. Forbidding Edit forbids every way to
// write a file; permitting it permits that tool only.
func (i *importer) claudeTool(s statement, tool string) {
	switch {
	case tool == "Edit" && s.kind != policy.AllowRule:
		i.rules(s, "", "file_edit", "file_write")
	case tool == "*" && s.kind == policy.AllowRule:
		i.note(s.line, s.text, Refused, "no rule allows every tool")
	default:
		i.rules(s, "", policy.CanonicalTool(tool))
	}
}

// claudeBash gives the spellings of one Bash rule: "x:*" and "x *" both stand
// for x with any or no arguments.
func claudeBash(content string, kind policy.Kind) []string {
	content = strings.TrimSpace(content)
	if prefix, ok := strings.CutSuffix(content, ":*"); ok {
		return []string{prefix, prefix + " *"}
	}
	prefix, ok := strings.CutSuffix(content, " *")
	if ok && (kind != policy.AllowRule || !strings.Contains(prefix, "*")) {
		return []string{prefix, content}
	}
	return []string{content}
}

// claudePath turns a path rule into rules on every tool that it governs.
func (i *importer) claudePath(s statement, tool, content string) {
	if tool != "Read" && tool != "Edit" && s.kind == policy.AllowRule {
		i.note(s.line, s.text, Refused, "Claude Code reads paths of edits in Edit(...) only")
		return
	}
	if strings.HasPrefix(content, "!") {
		if s.kind == policy.AllowRule {
			i.note(s.line, s.text, Refused, "an exclusion is not read here")
			return
		}
		content = "**"
	}
	tools := []string{"file_edit", "file_write"}
	if tool == "Read" {
		tools = []string{"read_file", "grep_files", "glob_files"}
	}
	why := ""
	var patterns []string
	for _, path := range claudePaths(content, s.kind, i.p.Source.Kind) {
		for _, t := range tools {
			patterns = append(patterns, t+"("+path+")")
		}
		if s.kind == policy.AllowRule {
			continue
		}
		why = "also for commands, by what they do"
		if tool == "Read" {
			patterns = append(patterns, "effect(read "+path+")")
		} else {
			patterns = append(patterns, "effect(write "+path+")", "effect(delete "+path+")")
		}
		i.closePath(s, tool, path, content)
	}
	i.rules(s, why, patterns...)
}

// closePath lets the kernel hold a denied path too, when it is one path.
func (i *importer) closePath(s statement, tool, path, content string) {
	entry, problem := pathEntry(path)
	anchored := strings.HasPrefix(path, "/") || strings.HasPrefix(path, "~/") || strings.HasPrefix(path, "./") ||
		strings.HasPrefix(content, "./") || strings.Contains(entry, "/")
	if s.kind != policy.DenyRule || problem != "" || !anchored || entry == "/" || entry == "." || entry == "~" {
		return
	}
	access := policy.GrantDeny
	if tool != "Read" {
		access = policy.GrantProtect
	}
	i.p.Paths = append(i.p.Paths, policy.PathGrant{Path: entry, Access: access, Source: i.p.source(s.line)})
}

// claudePaths maps the anchors: //x is absolute, ~/x in the home, /x below the
// project (or ~/.claude), everything else below the working directory, a bare
// name at any depth. A deny takes both readings of /x.
func claudePaths(content string, kind policy.Kind, from policy.SourceKind) []string {
	if strings.HasSuffix(content, "/") {
		content += "**"
	}
	switch {
	case strings.HasPrefix(content, "//"):
		return []string{content[1:]}
	case strings.HasPrefix(content, "~/"):
		return []string{content}
	case strings.HasPrefix(content, "/"):
		anchored := "." + content
		if from == policy.SourceUser {
			anchored = "~/.claude" + content
		}
		if kind == policy.AllowRule {
			return []string{anchored}
		}
		if from == policy.SourceUser {
			return []string{anchored, "." + content, content}
		}
		return []string{anchored, content}
	}
	plain := strings.TrimPrefix(content, "./")
	if kind != policy.AllowRule {
		return []string{plain} // at any depth
	}
	if plain != content || strings.Contains(plain, "/") || plain == "**" {
		return []string{"./" + plain}
	}
	return []string{"./**/" + plain}
}
