package settings

import (
	"slices"
	"strings"
	"time"
)

// hooks decodes one event of [hooks].
func (d *decoder) hooks(m member) error {
	event := canonicalEvent(m.key)
	if !slices.Contains(events, event) {
		e := &Error{File: d.file, Line: m.line, Text: "unknown hook event " + m.key, Hint: "one of " + strings.Join(events, ", ")}
		if near := nearest(m.key, events); near != "" {
			e.Hint = "did you mean " + near + "?"
		}
		return e
	}
	items := []*node{m.value}
	if m.value.isArray() {
		items = m.value.items
	}
	for _, item := range items {
		if !item.isTable() {
			return d.errorf(item, "hooks.%s must be a table, not %s", m.key, item.kind)
		}
		if err := d.hookGroup(item, event); err != nil {
			return err
		}
	}
	return nil
}

// hookGroup decodes one hook, or the form of Claude Code: a matcher with a list
// of hooks.
func (d *decoder) hookGroup(n *node, event string) error {
	list := n.get("hooks")
	if list == nil {
		h, err := d.hook(n, Hook{Event: event}, event)
		if err == nil {
			d.p.Hooks = append(d.p.Hooks, h)
		}
		return err
	}
	where := "hooks." + event
	if !list.isArray() || n.get("command") != nil {
		return d.errorf(n, "%s holds either a command, or a list of hooks", where)
	}
	group, err := d.hookFields(n, Hook{Event: event}, where)
	if err != nil {
		return err
	}
	group.ClaudeShape = true
	for _, item := range list.items {
		if !item.isTable() || item.get("hooks") != nil {
			return d.errorf(item, "%s.hooks must hold tables with a command", where)
		}
		h, err := d.hook(item, group, event)
		if err != nil {
			return err
		}
		d.p.Hooks = append(d.p.Hooks, h)
	}
	return nil
}

func (d *decoder) hook(n *node, h Hook, event string) (Hook, error) {
	where := "hooks." + event
	h, err := d.hookFields(n, h, where)
	if err == nil && h.Command == "" {
		err = d.errorf(n, "%s has no command", where)
	}
	return h, err
}

// hookFields reads the fields that stand in one table over those of h.
func (d *decoder) hookFields(n *node, h Hook, where string) (Hook, error) {
	if err := d.checkKeys(n, "hook", where); err != nil {
		return h, err
	}
	h.Source = d.from(n)
	for _, m := range n.members {
		var err error
		switch m.key {
		case "timeout":
			var t Value[time.Duration]
			t, err = d.duration(m.value, where+".timeout")
			h.Timeout = t.V
			if err == nil && t.V < 0 {
				err = d.errorf(m.value, "%s.timeout cannot be unlimited", where)
			}
		case "on_failure":
			var w Value[string]
			w, err = d.word(m.value, where+".on_failure", []string{"block", "continue"})
			h.ContinueOnFailure = w.V == "continue"
		case "shape":
			var w Value[string]
			w, err = d.word(m.value, where+".shape", []string{"own", "claude"})
			h.ClaudeShape = w.V == "claude"
		case "type":
			_, err = d.word(m.value, where+".type", []string{"command"})
		case "write":
			h.Write, err = d.boolOf(m.value, where+".write")
		case "network":
			h.Network, err = d.strings(m.value, where+".network")
		case "matcher":
			h.Matcher, err = d.textOf(m.value, where+".matcher")
		case "if":
			h.If, err = d.textOf(m.value, where+".if")
		case "command":
			h.Command, err = d.textOf(m.value, where+".command")
		}
		if err != nil {
			return h, err
		}
	}
	return h, nil
}
