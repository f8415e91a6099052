package settings

import (
	"path"
	"slices"
	"strings"
	"time"

	"sandboxd/policy"
)

// claudeSandbox reads the sandbox block. What it permits without a question
// (autoAllowBashIfSandboxed, on unless switched off) becomes confined = "allow",
// which holds only where confinement is complete.
func (i *importer) claudeSandbox(n *node) error {
	if !n.isTable() {
		return i.errorf(n, "sandbox must be an object, not %s", n.kind)
	}
	enabled := n.get("enabled").isTrue()
	for _, m := range n.members {
		var err error
		switch m.key {
		case "enabled":
			i.note(m.line, "sandbox.enabled", Kept, "every command is confined here, also when this is false")
		case "autoAllowBashIfSandboxed":
			// Together with enabled, below.
		case "network":
			err = i.sandboxNetwork(m.value)
		case "filesystem":
			err = i.sandboxFilesystem(m.value)
		case "excludedCommands", "allowUnsandboxedCommands", "enableWeakerNestedSandbox", "ignoreViolations":
			i.note(m.line, "sandbox."+m.key, Refused, "nothing runs outside the sandbox because a file says so")
		default:
			i.note(m.line, "sandbox."+m.key, Skipped, "unknown to this importer; it permits nothing here")
		}
		if err != nil {
			return err
		}
	}
	if auto := n.get("autoAllowBashIfSandboxed"); enabled && !auto.isFalse() {
		line := n.get("enabled").line
		i.p.Confined = set("allow", i.p.source(line))
		i.note(line, "sandbox.autoAllowBashIfSandboxed", Kept, "only where confinement is complete", "confined allow")
	} else if auto != nil {
		i.note(auto.line, "sandbox.autoAllowBashIfSandboxed", Kept, "off, or without the sandbox: commands are asked about")
	}
	return nil
}

// sandboxNetwork reads the network block that Claude Code and sandbox-runtime
// share.
func (i *importer) sandboxNetwork(n *node) error {
	if !n.isTable() {
		return i.errorf(n, "network must be an object, not %s", n.kind)
	}
	for _, m := range n.members {
		switch m.key {
		case "allowedDomains":
			items, err := i.textsOf(m.value, m.key)
			if err != nil {
				return err
			}
			if len(items) == 0 {
				i.p.Network = append(i.p.Network, Entry{"none", i.p.source(m.line)})
				i.note(m.line, m.key, Kept, "", "network none")
			}
			for _, item := range items {
				i.allowHost(item)
			}
		case "deniedDomains":
			items, err := i.textsOf(m.value, m.key)
			if err != nil {
				return err
			}
			for _, item := range items {
				i.denyHost(item)
			}
		case "allowUnixSockets":
			items, err := i.textsOf(m.value, m.key)
			if err != nil {
				return err
			}
			for _, item := range items {
				i.note(item.line, m.key+" "+shorten(item.text), Refused, "the client does not hold it on Linux; name the socket with --unix or network.unix")
			}
		case "allowAllUnixSockets", "enableWeakerNetworkIsolation", "allowAppleEvents":
			i.note(m.line, m.key, Refused, "has no equal here")
		case "allowLocalBinding":
			i.note(m.line, m.key, Kept, "a run has its own loopback, where it may listen")
		default:
			i.note(m.line, "network."+m.key, Skipped, "unknown to this importer; it permits nothing here")
		}
	}
	return nil
}

func (i *importer) allowHost(item *node) {
	text := "allowedDomains " + shorten(item.text)
	host := item.text
	if host == "*" {
		i.note(item.line, text, Refused, "name the hosts, or use --net full for one run")
		return
	}
	if problem := hostProblem(host); problem != "" {
		i.note(item.line, text, Refused, problem)
		return
	}
	outcome, why := Kept, ""
	if !strings.Contains(strings.TrimPrefix(host, "["), ":") {
		host, outcome, why = host+":443", Narrowed, "port 443 only"
	}
	i.p.Network = append(i.p.Network, Entry{host, i.p.source(item.line)})
	i.note(item.line, text, outcome, why, "network "+host)
}

func (i *importer) denyHost(item *node) {
	s := statement{line: item.line, text: "deniedDomains " + shorten(item.text), kind: policy.DenyRule}
	if host, _, found := strings.Cut(item.text, ":"); found && !strings.HasPrefix(item.text, "[") {
		i.rules(s, "every port of the host", "effect(network "+host+")")
		return
	}
	i.rules(s, "", "effect(network "+item.text+")")
}

// sandboxFilesystem reads the file-system block that Claude Code and
// sandbox-runtime share.
func (i *importer) sandboxFilesystem(n *node) error {
	if !n.isTable() {
		return i.errorf(n, "filesystem must be an object, not %s", n.kind)
	}
	for _, m := range n.members {
		access := map[string]policy.PathAccess{"denyRead": policy.GrantDeny, "allowRead": policy.GrantRead,
			"allowWrite": policy.GrantWrite, "denyWrite": policy.GrantProtect}[m.key]
		if access == "" {
			i.note(m.line, "filesystem."+m.key, Skipped, "unknown to this importer; it permits nothing here")
			continue
		}
		items, err := i.textsOf(m.value, m.key)
		if err != nil {
			return err
		}
		for _, item := range items {
			i.sandboxPath(m.key, item, access)
		}
	}
	i.sandboxOverlaps()
	return nil
}

// sandboxOverlaps drops entries that would open more here, where the longest
// path wins: there denyWrite wins over allowWrite, and what may be written need
// not be readable. It also drops a read entry that would close a write entry of
// the same path.
func (i *importer) sandboxOverlaps() {
	all := slices.Clone(i.p.Paths)
	covers := func(access policy.PathAccess, path string) bool {
		return slices.ContainsFunc(all, func(g policy.PathGrant) bool { return g.Access == access && within(path, lexical(g.Path)) })
	}
	i.p.Paths = slices.DeleteFunc(i.p.Paths, func(g policy.PathGrant) bool {
		path := lexical(g.Path)
		switch g.Access {
		case policy.GrantWrite:
			why := ""
			if covers(policy.GrantProtect, path) {
				why = "denyWrite covers it"
			} else if covers(policy.GrantDeny, path) && !covers(policy.GrantRead, path) {
				why = "denyRead covers it, and what is writable here is readable"
			}
			if why != "" {
				i.note(g.Source.Line, "allowWrite "+shorten(g.Path), Refused, why)
			}
			return why != ""
		case policy.GrantRead:
			return slices.ContainsFunc(all, func(w policy.PathGrant) bool {
				return w.Access == policy.GrantWrite && lexical(w.Path) == path
			})
		}
		return false
	})
}

// lexical makes paths comparable without knowing workspace and home: relative
// ones and those of the home get a root of their own.
func lexical(p string) string {
	switch {
	case p == "~" || strings.HasPrefix(p, "~/"):
		return path.Join("/\x00home", p[1:])
	case !strings.HasPrefix(p, "/"):
		return path.Join("/\x00work", p)
	}
	return path.Clean(p)
}

func (i *importer) sandboxPath(key string, item *node, access policy.PathAccess) {
	text := key + " " + shorten(item.text)
	path := item.text
	if strings.HasPrefix(path, "//") { // Claude Code's older way to say absolute
		path = path[1:]
	}
	_, problem := pathEntry(path)
	closes := access == policy.GrantDeny || access == policy.GrantProtect
	if problem != "" && closes {
		// A pattern is held by the decision, not by the kernel.
		s := statement{line: item.line, text: text, kind: policy.DenyRule}
		if !strings.HasPrefix(path, "/") && !strings.HasPrefix(path, "~") && !strings.HasPrefix(path, "**/") {
			path = "./" + strings.TrimPrefix(path, "./")
		}
		patterns := []string{"effect(write " + path + ")", "effect(delete " + path + ")", "file_edit(" + path + ")", "file_write(" + path + ")"}
		if access == policy.GrantDeny {
			patterns = []string{"effect(read " + path + ")", "read_file(" + path + ")", "grep_files(" + path + ")"}
		}
		i.rules(s, "a pattern is held by the decision, not by the kernel", patterns...)
		return
	}
	outcome, why := Kept, ""
	if closes && path != "" {
		// Said twice: the kernel goes by the longest path, a deny rule does not.
		i.closeEffects(item.line, path, access)
	}
	if access == policy.GrantWrite && (path == "/" || path == "~" || path == "~/") {
		i.note(item.line, text, Refused, "too wide: name the directories below it")
		return
	}
	i.path(item.line, text, path, access, outcome, why)
}

// closeEffects adds deny rules for a path that may not be written (or read).
func (i *importer) closeEffects(line int, path string, access policy.PathAccess) {
	if !strings.HasPrefix(path, "/") && !strings.HasPrefix(path, "~") {
		path = "./" + strings.TrimPrefix(path, "./")
	}
	if access == policy.GrantDeny {
		return // Config makes the rules of filesystem.deny itself
	}
	for _, verb := range []string{"write", "delete"} {
		rule := policy.Rule{Kind: policy.DenyRule, Pattern: "effect(" + verb + " " + escapePattern(path) + ")", Source: i.p.source(line)}
		if checkRule(rule) == nil {
			i.p.Rules = append(i.p.Rules, rule)
		}
	}
}

// claudeHooks reads the hooks block. Only hooks that can block a call matter to
// a policy; one that cannot be taken over becomes a question.
func (i *importer) claudeHooks(n *node) error {
	if !n.isTable() {
		return i.errorf(n, "hooks must be an object, not %s", n.kind)
	}
	for _, m := range n.members {
		if !m.value.isArray() {
			return i.errorf(m.value, "hooks.%s must be an array, not %s", m.key, m.value.kind)
		}
		for _, group := range m.value.items {
			matcher := group.get("matcher")
			pattern := ""
			if matcher.isText() {
				pattern = matcher.text
			}
			list := group.get("hooks")
			if !list.isArray() {
				return i.errorf(group, "hooks.%s holds objects with a list of hooks", m.key)
			}
			for _, h := range list.items {
				i.claudeHook(m.key, pattern, h)
			}
		}
	}
	return nil
}

func (i *importer) claudeHook(event, matcher string, n *node) {
	text := "hook " + event + " " + shorten(matcher)
	event = canonicalEvent(event)
	known := slices.Contains(events, event)
	command, condition := n.get("command"), n.get("if")
	if n.get("type").isText() && n.get("type").text == "command" && command.isText() && command.text != "" && known {
		h := Hook{Event: event, Matcher: matcher, Command: command.text, ContinueOnFailure: true, ClaudeShape: true, Source: i.p.source(n.line)}
		if condition.isText() {
			h.If = condition.text
		}
		if t := n.get("timeout"); t != nil && t.kind == integer && t.integer > 0 && t.integer < 3600 {
			h.Timeout = time.Duration(t.integer) * time.Second
		}
		i.p.Hooks = append(i.p.Hooks, h)
		i.note(n.line, text, Kept, "a hook that fails lets the call pass, as in Claude Code; remove on_failure to block instead", "hooks."+event)
		return
	}
	if event != "PreToolUse" && event != "PermissionRequest" {
		i.note(n.line, text, Skipped, "this kind of hook blocks nothing, and is not taken over")
		return
	}
	s := statement{line: n.line, text: text, kind: policy.AskRule, reason: "a hook of Claude Code decided this; it was not taken over"}
	i.rules(s, "this kind of hook is not taken over; the calls it judged are asked about", hookTools(matcher)...)
}

// hookTools lists the tools that a matcher names; every tool when it is a
// pattern.
func hookTools(matcher string) []string {
	var out []string
	for name := range strings.SplitSeq(matcher, "|") {
		if name == "" || strings.ContainsAny(name, ".*+?^$()[]{}\\ ") {
			return []string{"*"}
		}
		out = append(out, policy.CanonicalTool(name))
	}
	return out
}
