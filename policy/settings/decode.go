package settings

import (
	"slices"
	"strings"
	"time"

	"sandboxd/policy"
)

// Parse reads one policy file. The name decides the format: .yaml and .yml are
// YAML, everything else is TOML. Errors are *[Error] with the line.
func Parse(source policy.Source, data []byte) (*Policy, error) {
	parse := parseTOML
	if strings.HasSuffix(source.File, ".yaml") || strings.HasSuffix(source.File, ".yml") {
		parse = parseYAML
	}
	root, err := parse(source.File, data)
	if err != nil {
		return nil, err
	}
	if root.kind == null { // an empty YAML document
		root.kind = table
	}
	if !root.isTable() {
		return nil, &Error{File: source.File, Line: root.line, Text: "a policy is a table, not " + root.kind.String()}
	}
	d := decoder{reader: reader{source.File}, p: &Policy{Source: source}}
	if err := d.policy(root, ""); err != nil {
		return nil, err
	}
	return d.p, nil
}

// decoder fills one policy from a tree.
type decoder struct {
	reader
	p *Policy
}

func (d *decoder) from(n *node) policy.Source { return d.p.source(n.line) }

// policy decodes a whole policy; where is "" or "profiles.NAME".
func (d *decoder) policy(n *node, where string) error {
	if err := d.checkKeys(n, "", where); err != nil {
		return err
	}
	for _, m := range n.members {
		var err error
		switch v := m.value; m.key {
		case "extends":
			d.p.Extends, err = d.entries(v, "extends")
		case "mode", "permission_mode":
			d.p.Mode, err = d.word(v, m.key, Modes)
		case "default":
			d.p.Default, err = d.word(v, "default", []string{"ask", "allow", "deny"})
		case "confined":
			d.p.Confined, err = d.word(v, "confined", []string{"ask", "allow"})
		case "syscalls":
			err = d.syscalls(v)
		case "description":
			_, err = d.textOf(v, "description")
		case "profiles":
			err = d.profiles(v, where)
		case "permission_deny_rules":
			err = d.ruleList(v, m.key, policy.DenyRule)
		case "permission_ask_rules":
			err = d.ruleList(v, m.key, policy.AskRule)
		case "permission_allow_rules":
			err = d.ruleList(v, m.key, policy.AllowRule)
		default:
			err = d.section(m)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// section decodes one table of the policy.
func (d *decoder) section(m member) error {
	if m.key == "protect" && !m.value.isTable() {
		return d.paths(m.value, "protect", policy.GrantProtect)
	}
	if !m.value.isTable() {
		return d.errorf(m.value, "%s must be a table, not %s", m.key, m.value.kind)
	}
	if m.key != "hooks" {
		if err := d.checkKeys(m.value, m.key, m.key); err != nil {
			return err
		}
	}
	each := map[string]func(member) error{
		"rules": d.rules, "filesystem": d.filesystem, "network": d.network, "limits": d.limits,
		"env": d.env, "modes": d.modes, "protect": d.protect, "hooks": d.hooks,
		"mcp": d.mcp, "skills": d.skills, "agent": d.agent, "classifier": d.classifier, "audit": d.audit,
	}[m.key]
	for _, sub := range m.value.members {
		if err := each(sub); err != nil {
			return err
		}
	}
	if c := d.p.Classifier; m.key == "classifier" && c.AllowAbove.Set && c.DenyBelow.Set && c.AllowAbove.V < c.DenyBelow.V {
		return d.errorf(m.value, "classifier.allow_above is less than classifier.deny_below")
	}
	return nil
}

// word wants one of a few strings.
func (d *decoder) word(n *node, what string, known []string) (Value[string], error) {
	s, err := d.textOf(n, what)
	if err != nil {
		return Value[string]{}, err
	}
	if !slices.Contains(known, s) {
		e := &Error{File: d.file, Line: n.line, Text: what + " cannot be " + quote(s), Hint: "one of " + strings.Join(known, ", ")}
		if near := nearest(s, known); near != "" {
			e.Hint = "did you mean " + near + "?"
		}
		return Value[string]{}, e
	}
	return set(s, d.from(n)), nil
}

// entries wants strings and keeps their lines.
func (d *decoder) entries(n *node, what string) ([]Entry, error) {
	items, err := d.textsOf(n, what)
	if err != nil {
		return nil, err
	}
	var out []Entry
	for _, item := range items {
		if item.text == "" || strings.ContainsRune(item.text, 0) {
			return nil, d.errorf(item, "%s holds an empty string or a NUL", what)
		}
		out = append(out, Entry{item.text, d.from(item)})
	}
	return out, nil
}

func (d *decoder) syscalls(n *node) error {
	// A table is accepted for later use with its one key.
	if n.isTable() {
		for _, m := range n.members {
			if m.key != "profile" {
				return &Error{File: d.file, Line: m.line, Text: "unknown key syscalls." + m.key, Hint: "did you mean syscalls.profile?"}
			}
			n = m.value
		}
	}
	s, err := d.textOf(n, "syscalls")
	if err == nil {
		d.p.Syscalls = set(s, d.from(n))
	}
	return err
}

func (d *decoder) profiles(n *node, where string) error {
	if where != "" {
		return d.errorf(n, "a profile cannot hold profiles")
	}
	if !n.isTable() {
		return d.errorf(n, "profiles must be a table, not %s", n.kind)
	}
	d.p.Profiles = map[string]*Policy{}
	for _, m := range n.members {
		if !m.value.isTable() {
			return d.errorf(m.value, "profiles.%s must be a table, not %s", m.key, m.value.kind)
		}
		sub := decoder{reader: d.reader, p: &Policy{Source: d.p.Source}}
		if err := sub.policy(m.value, "profiles."+m.key); err != nil {
			return err
		}
		d.p.Profiles[m.key] = sub.p
	}
	return nil
}

func (d *decoder) rules(m member) error {
	kinds := map[string]policy.Kind{"deny": policy.DenyRule, "ask": policy.AskRule, "allow": policy.AllowRule}
	return d.ruleList(m.value, "rules."+m.key, kinds[m.key])
}

func (d *decoder) ruleList(n *node, what string, kind policy.Kind) error {
	items := []*node{n}
	if n.isArray() {
		items = n.items
	}
	for _, item := range items {
		rule := policy.Rule{Kind: kind, Source: d.from(item)}
		switch item.kind {
		case text:
			rule.Pattern = item.text
		case table:
			if err := d.ruleTable(item, what, &rule); err != nil {
				return err
			}
		default:
			return d.errorf(item, "%s holds rules as strings or tables, not %s", what, item.kind)
		}
		if strings.TrimSpace(rule.Pattern) == "" {
			return d.errorf(item, "%s holds an empty rule", what)
		}
		d.p.Rules = append(d.p.Rules, rule)
	}
	return nil
}

func (d *decoder) ruleTable(n *node, what string, rule *policy.Rule) error {
	if err := d.checkKeys(n, "rule", what); err != nil {
		return err
	}
	for _, m := range n.members {
		var err error
		switch v := m.value; m.key {
		case "rule":
			rule.Pattern, err = d.textOf(v, "rule")
			rule.Source.Line = v.line
		case "reason":
			rule.Reason, err = d.textOf(v, m.key)
		case "message":
			rule.Message, err = d.textOf(v, m.key)
		case "except":
			rule.Except, err = d.strings(v, "except")
		case "match":
			rule.Match, err = d.strings(v, "match")
		case "not_match":
			rule.NotMatch, err = d.strings(v, "not_match")
		case "expires":
			rule.Expires, err = d.instant(v)
		case "modes":
			rule.Modes, err = d.modeNames(v)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (d *decoder) strings(n *node, what string) ([]string, error) {
	items, err := d.textsOf(n, what)
	var out []string
	for _, item := range items {
		out = append(out, item.text)
	}
	return out, err
}

func (d *decoder) modeNames(n *node) ([]policy.Mode, error) {
	items, err := d.textsOf(n, "modes")
	var out []policy.Mode
	for _, item := range items {
		mode, err := policy.ParseMode(item.text)
		if err != nil {
			return nil, d.errorf(item, "%v", err)
		}
		out = append(out, mode)
	}
	return out, err
}

// instant reads a date or a date with time; a date means its first moment, UTC.
func (d *decoder) instant(n *node) (time.Time, error) {
	if n.kind == moment || n.kind == text {
		for _, layout := range []string{time.RFC3339Nano, "2006-01-02 15:04:05Z07:00", "2006-01-02T15:04:05", "2006-01-02"} {
			if t, err := time.Parse(layout, n.text); err == nil {
				return t, nil
			}
		}
	}
	return time.Time{}, d.errorf(n, "expires must be a date such as 2030-01-31 or 2030-01-31T12:00:00Z")
}

func quote(s string) string {
	if len(s) > 60 {
		s = s[:60] + "…"
	}
	return `"` + strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return '?'
		}
		return r
	}, s) + `"`
}
