package agentloop

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// maxAgentDef bounds a file, in bytes; a prompt is a page or two.
const maxAgentDef = 64 << 10

// ParseAgentDef reads a definition: a front matter between lines of ---, then the
// prompt. The error is an *[AgentDefError] with file and line.
//
//	---
//	name: reviewer
//	description: Reads a change and says what is wrong with it.
//	tools: Read, Grep, Bash(git diff *)
//	permissionMode: plan
//	---
//	You review changes. ...
func ParseAgentDef(file string, text []byte) (AgentDef, error) {
	d := AgentDef{File: file}
	bad := func(line int, format string, args ...any) (AgentDef, error) {
		return AgentDef{File: file}, &AgentDefError{File: file, Line: line, Text: fmt.Sprintf(format, args...)}
	}
	if len(text) > maxAgentDef {
		return bad(0, "larger than %d bytes", maxAgentDef)
	}
	if !utf8.Valid(text) {
		return bad(0, "not UTF-8")
	}
	head, body, ok := CutFrontMatter(string(text))
	if !ok {
		return bad(1, "no front matter: want --- with name and description, then ---")
	}
	lines := map[string]int{}
	if err := d.readHead(head, lines); err != nil {
		return AgentDef{File: file}, err
	}
	d.Prompt = strings.TrimSpace(body)
	if err := d.check(func(field string) int { return lines[field] }); err != nil {
		return AgentDef{File: file}, err
	}
	return d, nil
}

// agentFields reads the values of a front matter.
var agentFields = map[string]func(d *AgentDef, v fieldValue) error{
	"name":            func(d *AgentDef, v fieldValue) error { return v.text(&d.Name) },
	"description":     func(d *AgentDef, v fieldValue) error { return v.text(&d.Description) },
	"model":           func(d *AgentDef, v fieldValue) error { return v.text(&d.Model) },
	"permissionMode":  func(d *AgentDef, v fieldValue) error { return v.text(&d.Mode) },
	"tools":           func(d *AgentDef, v fieldValue) error { return v.list(&d.Tools) },
	"disallowedTools": func(d *AgentDef, v fieldValue) error { return v.list(&d.Disallowed) },
	"askTools":        func(d *AgentDef, v fieldValue) error { return v.list(&d.Ask) },
	"delegateTools":   func(d *AgentDef, v fieldValue) error { return v.list(&d.Delegate) },
	"maxTurns":        func(d *AgentDef, v fieldValue) error { return v.number(&d.MaxTurns) },
}

// foreignFields are those of other clients without a meaning here. What they would
// start or add is not started: hooks and servers are a matter of the policy.
var foreignFields = []string{"color", "skills", "memory", "background", "isolation", "effort", "initialPrompt", "hooks", "mcpServers", "temperature", "version"}

// readHead reads the front matter and notes the lines of its fields in the file.
func (d *AgentDef) readHead(head string, lines map[string]int) error {
	bad := func(line int, hint, format string, args ...any) error {
		return &AgentDefError{File: d.File, Line: line, Text: fmt.Sprintf(format, args...), Hint: hint}
	}
	fields, err := ParseFrontMatter(head)
	if wrong, ok := errors.AsType[*FrontMatterError](err); ok {
		return bad(wrong.Line, wrong.Hint, "%s", wrong.Text)
	}
	for _, f := range fields {
		line, key := f.Line, f.Name
		set, ok := agentFields[key]
		switch {
		case lines[key] != 0:
			return bad(line, "", "%s stands twice", key)
		case !ok && slices.Contains(foreignFields, key):
			continue
		case !ok:
			return bad(line, nearField(key), "unknown field %q", firstCharacters(key, maxAgentName))
		}
		lines[key] = line
		v, err := readField(f.value)
		if err == nil {
			err = set(d, v)
		}
		if err != nil {
			return bad(line, "", "%s: %v", key, err)
		}
	}
	return nil
}

// nearField suggests the field that was meant.
func nearField(key string) string {
	plain := func(s string) string { return strings.ToLower(strings.NewReplacer("-", "", "_", "").Replace(s)) }
	names := make([]string, 0, len(agentFields))
	for name := range agentFields {
		if plain(name) == plain(key) || len(key) > 3 && strings.HasPrefix(plain(name), plain(key)[:4]) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	if len(names) == 0 {
		return ""
	}
	return "did you mean " + names[0] + "?"
}
