package settings

import (
	"regexp"
	"slices"
	"strings"

	"sandboxd/policy"
)

// geminiTools maps names of Gemini CLI's tools that policy does not know.
var geminiTools = map[string]string{
	"read_many_files": "read_file", "activate_skill": "load_skill",
}

// geminiFields are the keys of one rule (docs/reference/policy-engine.md of
// Gemini CLI).
var geminiFields = []string{"toolName", "mcpName", "argsPattern", "commandPrefix", "commandRegex", "decision", "priority",
	"modes", "denyMessage", "deny_message", "interactive", "allowRedirection", "allow_redirection", "subagent", "toolAnnotations"}

// importGemini reads a policy file of Gemini CLI. There the rule with the highest
// priority wins; here a deny always does. So the kinds are kept and priorities
// dropped, which can only forbid more. A rule for a whole tool that allow rules
// of higher priority have exceptions from keeps them as exceptions.
func importGemini(source policy.Source, data []byte) (*Policy, []Imported, error) {
	root, err := parseTOML(source.File, data)
	if err != nil {
		return nil, nil, err
	}
	i := newImporter(source)
	var rules []geminiRule
	for _, m := range root.members {
		switch m.key {
		case "rule":
			if !m.value.isArray() {
				return nil, nil, i.errorf(m.value, "rule must be an array of tables ([[rule]])")
			}
			for _, item := range m.value.items {
				r, err := i.geminiRead(item)
				if err != nil {
					return nil, nil, err
				}
				rules = append(rules, r)
			}
		case "safety_checker":
			for _, item := range m.value.items {
				i.geminiChecker(item)
			}
		default:
			i.note(m.line, m.key, Skipped, "not part of a policy")
		}
	}
	slices.SortStableFunc(rules, func(a, b geminiRule) int { return int(b.priority - a.priority) })
	for k, r := range rules {
		i.geminiRule(r, rules[:k])
	}
	return i.result()
}

// geminiRule is one rule as read.
type geminiRule struct {
	statement
	priority       int64
	tools          []string // our names
	prefixes       []string
	regex, args    string
	conditional    string // a condition that has no equal here
	hasRegex, bare bool
}

func (i *importer) geminiRead(n *node) (geminiRule, error) {
	r := geminiRule{statement: statement{line: n.line}}
	for _, m := range n.members {
		if !slices.Contains(geminiFields, m.key) {
			e := &Error{File: i.file, Line: m.line, Text: "unknown key " + m.key + " in a rule"}
			if near := nearest(m.key, geminiFields); near != "" {
				e.Hint = "did you mean " + near + "?"
			}
			return r, e
		}
	}
	decision := n.get("decision")
	kind, ok := map[string]policy.Kind{"allow": policy.AllowRule, "ask_user": policy.AskRule, "deny": policy.DenyRule}[textOr(decision)]
	if !ok {
		return r, i.errorf(n, "decision must be allow, ask_user or deny")
	}
	r.kind = kind
	r.reason = textOr(n.get("denyMessage")) + textOr(n.get("deny_message"))
	if p := n.get("priority"); p != nil && p.kind == integer {
		r.priority = min(max(p.integer, 0), 999)
	}
	for _, name := range []string{"interactive", "subagent", "toolAnnotations"} {
		if n.get(name) != nil {
			r.conditional = name
		}
	}
	if err := i.geminiContent(n, &r); err != nil {
		return r, err
	}
	return r, i.geminiModes(n.get("modes"), &r)
}

func textOr(n *node) string {
	if n.isText() {
		return n.text
	}
	return ""
}

func (i *importer) geminiContent(n *node, r *geminiRule) error {
	var names []*node
	var err error
	if t := n.get("toolName"); t != nil {
		if names, err = i.textsOf(t, "toolName"); err != nil {
			return err
		}
	}
	if p := n.get("commandPrefix"); p != nil {
		items, err := i.textsOf(p, "commandPrefix")
		if err != nil {
			return err
		}
		for _, item := range items {
			r.prefixes = append(r.prefixes, item.text)
		}
	}
	r.regex, r.args = textOr(n.get("commandRegex")), textOr(n.get("argsPattern"))
	r.hasRegex = n.get("commandRegex") != nil
	server := textOr(n.get("mcpName"))
	if len(names) == 0 && server == "" && (len(r.prefixes) > 0 || r.hasRegex) {
		names = []*node{{kind: text, text: "run_shell_command"}}
	}
	if len(names) == 0 {
		names = []*node{{kind: text, text: "*"}}
	}
	label := make([]string, 0, len(names))
	for _, name := range names {
		r.tools = append(r.tools, geminiTool(name.text, server))
		label = append(label, name.text)
	}
	r.bare = len(r.prefixes) == 0 && !r.hasRegex && n.get("argsPattern") == nil
	r.text = shorten(r.kind.String() + " " + server + " " + strings.Join(label, ",") + " " + strings.Join(r.prefixes, ",") + r.regex + r.args)
	return nil
}

// geminiTool gives our name: mcp_SERVER_TOOL and SERVER__TOOL are MCP tools.
func geminiTool(name, server string) string {
	if server != "" {
		if name == "*" {
			name = ""
		}
		if server == "*" {
			if name == "" {
				return "mcp__*"
			}
			return "mcp__*__" + name
		}
		return strings.TrimSuffix("mcp__"+server+"__"+name, "__")
	}
	if rest, ok := strings.CutPrefix(name, "mcp_"); ok && !strings.HasPrefix(rest, "_") {
		server, tool, found := strings.Cut(rest, "_")
		if rest == "*" {
			return "mcp__*"
		}
		if found {
			return "mcp__" + server + "__" + tool
		}
	}
	if server, tool, ok := strings.Cut(name, "__"); ok && server != "mcp" {
		return "mcp__" + server + "__" + tool
	}
	if ours, ok := geminiTools[name]; ok {
		return ours
	}
	return policy.CanonicalTool(name)
}

func (i *importer) geminiModes(n *node, r *geminiRule) error {
	if n == nil {
		return nil
	}
	items, err := i.textsOf(n, "modes")
	if err != nil {
		return err
	}
	names := map[string]policy.Mode{"default": policy.ModeDefault, "autoEdit": policy.ModeAcceptEdits,
		"yolo": policy.ModeBypass, "plan": policy.ModePlan}
	for _, item := range items {
		mode, ok := names[item.text]
		if !ok {
			return i.errorf(item, "unknown mode %q", item.text)
		}
		r.modes = append(r.modes, mode)
	}
	// The modes here are more than those there. What forbids holds in all of
	// them unless it was for some modes only that all exist here.
	if len(r.modes) > 0 && r.kind != policy.AllowRule && slices.Contains(r.modes, policy.ModeDefault) {
		r.modes = append(r.modes, policy.ModeDontAsk, policy.ModeAuto, policy.ModeBubble)
	}
	return nil
}

// geminiRule adds one rule; above are those of higher priority.
func (i *importer) geminiRule(r geminiRule, above []geminiRule) {
	allow := r.kind == policy.AllowRule
	if r.conditional != "" && allow {
		i.note(r.line, r.text, Refused, "the condition "+r.conditional+" has no equal here")
		return
	}
	why := ""
	if r.conditional != "" {
		why = "without its condition " + r.conditional
	}
	for _, tool := range r.tools {
		switch {
		case r.bare:
			i.geminiBare(r, tool, above, why)
		case len(r.prefixes) > 0 && tool == "run_bash":
			for _, p := range r.prefixes {
				s := r.statement
				s.text = shorten(r.kind.String() + " commandPrefix " + p)
				i.geminiPrefix(s, p)
			}
		case r.hasRegex && tool == "run_bash":
			i.geminiRegex(r)
		case allow:
			i.note(r.line, r.text, Refused, "a pattern over the JSON of all arguments has no equal here")
		default:
			i.rules(r.statement, "a pattern over the JSON of all arguments has no equal here; the whole tool is taken", tool)
		}
	}
}

// geminiBare is a rule for a whole tool, with exceptions for what was allowed
// above it.
func (i *importer) geminiBare(r geminiRule, tool string, above []geminiRule, why string) {
	s := r.statement
	if s.kind == policy.AllowRule {
		if tool == "*" {
			i.note(s.line, s.text, Refused, "no rule allows every tool")
			return
		}
		i.rules(s, why, tool)
		return
	}
	if tool == "run_bash" {
		for _, a := range above {
			if a.kind == policy.AllowRule && a.conditional == "" && len(a.modes) == 0 && slices.Contains(a.tools, "run_bash") {
				s.except = append(s.except, exceptions(a.prefixes)...)
			}
		}
	}
	i.rules(s, why, tool)
}

// exceptions are the contents that prefixes stand for.
func exceptions(prefixes []string) []string {
	var out []string
	for _, p := range prefixes {
		if words := splitWords(p); len(words) > 0 && plainPrefix(p) && shellProblem(p, policy.AllowRule) == "" && !strings.ContainsAny(p, "*?") {
			patterns, ok := prefixPatterns(words)
			if !ok {
				continue
			}
			for _, pattern := range patterns {
				out = append(out, strings.TrimSuffix(strings.TrimPrefix(pattern, "run_bash("), ")"))
			}
		}
	}
	return out
}

// plainPrefix reports a prefix whose words stand one blank apart. There the text
// is compared: "npm " wants a blank, and then the end of a word.
func plainPrefix(prefix string) bool {
	return strings.Join(strings.Fields(prefix), " ") == prefix
}

// geminiPrefix: a prefix ends at a word. Stars in it are literal.
func (i *importer) geminiPrefix(s statement, prefix string) {
	if problem := shellProblem(strings.ReplaceAll(prefix, "*", ""), policy.AllowRule); problem != "" {
		if s.kind == policy.AllowRule {
			i.note(s.line, s.text, Refused, problem)
			return
		}
		i.shellRule(s, strings.ReplaceAll(prefix, "*", `\*`)+"*", []string{strings.ReplaceAll(prefix, "*", `\*`) + "*"})
		return
	}
	if s.kind == policy.AllowRule && !plainPrefix(prefix) {
		i.note(s.line, s.text, Refused, "blanks count there, so that it matches only a command with as many of them")
		return
	}
	i.prefixRule(s, strings.Fields(prefix))
}

// geminiRegex: the expression is compared with {"command":"..."} from the first
// letter of the command, and need not reach its end.
func (i *importer) geminiRegex(r geminiRule) {
	_, err := regexp.Compile(r.regex)
	odd := err != nil || strings.ContainsAny(r.regex, `"^$\`) || hasOperator(strings.NewReplacer("|", "", "&", "").Replace(r.regex))
	if r.kind == policy.AllowRule {
		// The end of the expression is not the end of the command there; here an
		// allow must match the whole, so that nothing can be added behind it.
		if odd {
			i.note(r.line, r.text, Refused, "an expression with anchors, escapes or quotes means something else here")
			return
		}
		i.rules(r.statement, "the expression must match the whole command", "run_bash(re:"+r.regex+")")
		return
	}
	if odd {
		i.rules(r.statement, "an expression with anchors, escapes or quotes means something else here; the whole tool is taken", "run_bash")
		return
	}
	i.rules(r.statement, "anywhere in the command", "run_bash(re:"+r.regex+")")
}

// geminiChecker: a checker that is not taken over becomes a question.
func (i *importer) geminiChecker(n *node) {
	tool := textOr(n.get("toolName"))
	if tool == "" {
		tool = "*"
	}
	s := statement{line: n.line, text: "safety_checker " + tool, kind: policy.AskRule, reason: "a safety checker of Gemini CLI judged this; it was not taken over"}
	i.rules(s, "a checker is not taken over; its calls are asked about", geminiTool(tool, textOr(n.get("mcpName"))))
}
