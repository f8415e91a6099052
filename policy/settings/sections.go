package settings

import (
	"slices"
	"strings"
	"time"

	"sandboxd/policy"
)

// filesystem decodes one key of [filesystem].
func (d *decoder) filesystem(m member) error {
	access := map[string]policy.PathAccess{
		"read": policy.GrantRead, "write": policy.GrantWrite, "deny": policy.GrantDeny,
		"protect": policy.GrantProtect, "unprotect": policy.GrantUnprotect,
	}
	var err error
	switch m.key {
	case "tmp":
		d.p.Tmp, err = d.word(m.value, "filesystem.tmp", []string{"private", "none"})
	case "no_exec_write", "strict_names":
		var yes bool
		yes, err = d.boolOf(m.value, "filesystem."+m.key)
		into := &d.p.NoExecWrite
		if m.key == "strict_names" {
			into = &d.p.StrictNames
		}
		*into = set(yes, d.from(m.value))
	default:
		err = d.paths(m.value, "filesystem."+m.key, access[m.key])
	}
	return err
}

// protect decodes one key of [protect], the long form of filesystem.protect.
func (d *decoder) protect(m member) error {
	if m.key == "off" {
		return d.paths(m.value, "protect.off", policy.GrantUnprotect)
	}
	return d.paths(m.value, "protect.paths", policy.GrantProtect)
}

// paths decodes file-system entries. They are paths, not patterns: dir/** means
// dir, and any other star is an error.
func (d *decoder) paths(n *node, what string, access policy.PathAccess) error {
	items, err := d.entries(n, what)
	if err != nil {
		return err
	}
	for _, item := range items {
		path, problem := pathEntry(item.Text)
		if problem != "" {
			return &Error{File: d.file, Line: item.Source.Line, Text: what + ": " + quote(item.Text) + ": " + problem,
				Hint: "a pattern belongs into [rules], such as read_file(**/.env)"}
		}
		d.p.Paths = append(d.p.Paths, policy.PathGrant{Path: path, Access: access, Source: item.Source})
	}
	return nil
}

// pathEntry cuts a trailing /** and says what is wrong with the rest, if
// anything is.
func pathEntry(s string) (path, problem string) {
	path = strings.TrimSuffix(strings.TrimSuffix(s, "/**"), "/*")
	if path == "" && strings.HasPrefix(s, "/") {
		path = "/"
	}
	if strings.ContainsAny(path, "*?[") {
		return "", "patterns are not paths"
	}
	if strings.HasPrefix(path, "~") && path != "~" && !strings.HasPrefix(path, "~/") {
		return "", "only one's own home can be written with ~"
	}
	return path, ""
}

func (d *decoder) network(m member) error {
	entries, err := d.entries(m.value, "network."+m.key)
	if err != nil {
		return err
	}
	for _, e := range entries {
		switch m.key {
		case "unix":
			d.p.Unix = append(d.p.Unix, e)
			continue
		case "deny":
			if problem := hostProblem(e.Text); problem != "" {
				return &Error{File: d.file, Line: e.Source.Line, Text: "network.deny: " + quote(e.Text) + ": " + problem}
			}
			d.p.Rules = append(d.p.Rules, policy.Rule{Kind: policy.DenyRule, Pattern: "effect(network " + e.Text + ")", Source: e.Source})
			continue
		}
		if e.Text != "full" && e.Text != "none" {
			if problem := hostProblem(e.Text); problem != "" {
				return &Error{File: d.file, Line: e.Source.Line, Text: "network.allow: " + quote(e.Text) + ": " + problem}
			}
		}
		d.p.Network = append(d.p.Network, e)
	}
	if m.key == "allow" && len(entries) == 0 {
		// An empty list is "nothing", never "anything".
		d.p.Network = append(d.p.Network, Entry{"none", d.p.source(m.line)})
	}
	return nil
}

// hostProblem says what is wrong with HOST, HOST:PORT or udp:HOST:PORT. A star
// may stand for whole leading labels only (*.example.org).
func hostProblem(s string) string {
	host := strings.TrimPrefix(strings.TrimPrefix(s, "udp:"), "tcp:")
	if i := strings.LastIndexByte(host, ':'); i >= 0 && !strings.HasSuffix(host, "]") {
		port := host[i+1:]
		if port != "*" && (port == "" || len(port) > 5 || strings.Trim(port, "0123456789") != "" || port == "0") {
			return "the port must be a number from 1 to 65535"
		}
		host = host[:i]
	}
	if rest, ok := strings.CutPrefix(host, "["); ok {
		if rest, ok = strings.CutSuffix(rest, "]"); !ok || rest == "" || strings.Trim(rest, "0123456789abcdefABCDEF:.") != "" {
			return "not an IPv6 address in brackets"
		}
		return ""
	}
	labels := strings.Split(strings.TrimPrefix(host, "*."), ".")
	for _, label := range labels {
		if label == "" || len(label) > 63 {
			return "not a host name"
		}
		for _, c := range label {
			if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_') {
				return "not a host name"
			}
		}
	}
	return ""
}

func (d *decoder) limits(m member) error {
	l := &d.p.Limits
	var err error
	switch m.key {
	case "timeout":
		l.Timeout, err = d.duration(m.value, "limits.timeout")
	case "cpu":
		l.CPU, err = d.duration(m.value, "limits.cpu")
	case "memory":
		l.Memory, err = d.size(m.value, "limits.memory")
	case "file_size":
		l.FileSize, err = d.size(m.value, "limits.file_size")
	case "output":
		l.Output, err = d.size(m.value, "limits.output")
	case "max_file_size":
		l.MaxFileSize, err = d.size(m.value, "limits.max_file_size")
	case "tasks":
		l.Tasks, err = d.count(m.value, "limits.tasks")
	case "denials_in_row":
		l.DenialsInRow, err = d.count(m.value, "limits.denials_in_row")
	case "denials_total":
		l.DenialsTotal, err = d.count(m.value, "limits.denials_total")
	}
	return err
}

func (d *decoder) duration(n *node, what string) (Value[time.Duration], error) {
	var v time.Duration
	var err error
	switch n.kind {
	case text:
		v, err = ParseDuration(n.text)
	case integer:
		v, err = secondsOf(n.integer)
	default:
		return Value[time.Duration]{}, d.errorf(n, "%s must be a duration such as \"60s\", not %s", what, n.kind)
	}
	if err != nil {
		return Value[time.Duration]{}, d.errorf(n, "%s: %v", what, err)
	}
	return set(v, d.from(n)), nil
}

func (d *decoder) size(n *node, what string) (Value[int64], error) {
	switch n.kind {
	case text:
		v, err := ParseSize(n.text)
		if err != nil {
			return Value[int64]{}, d.errorf(n, "%s: %v", what, err)
		}
		return set(v, d.from(n)), nil
	case integer:
		if n.integer < 1 {
			return Value[int64]{}, d.errorf(n, "%s: out of range", what)
		}
		return set(n.integer, d.from(n)), nil
	}
	return Value[int64]{}, d.errorf(n, "%s must be a size such as \"2GiB\", not %s", what, n.kind)
}

func (d *decoder) count(n *node, what string) (Value[int64], error) {
	if n.isText() && n.text == "unlimited" {
		return set(int64(-1), d.from(n)), nil
	}
	if n.kind != integer || n.integer < 1 || n.integer > 1<<31-1 {
		return Value[int64]{}, d.errorf(n, "%s must be a number from 1, or \"unlimited\"", what)
	}
	return set(n.integer, d.from(n)), nil
}

func (d *decoder) env(m member) error {
	if m.key == "set" && m.value.isTable() {
		for _, v := range m.value.members {
			value, err := d.textOf(v.value, "env.set."+v.key)
			if err != nil {
				return err
			}
			if err := d.envName(v.value, v.key); err != nil {
				return err
			}
			d.p.EnvSet = append(d.p.EnvSet, Entry{v.key + "=" + value, d.from(v.value)})
		}
		return nil
	}
	entries, err := d.entries(m.value, "env."+m.key)
	for _, e := range entries {
		name, _, found := strings.Cut(e.Text, "=")
		at := &node{line: e.Source.Line}
		if err := d.envName(at, name); err != nil {
			return err
		}
		if found != (m.key == "set") {
			return d.errorf(at, "env.%s: %s: pass holds names, set holds NAME=VALUE", m.key, quote(e.Text))
		}
	}
	if m.key == "set" {
		d.p.EnvSet = append(d.p.EnvSet, entries...)
	} else {
		d.p.EnvPass = append(d.p.EnvPass, entries...)
	}
	return err
}

func (d *decoder) envName(n *node, name string) error {
	if name == "" || strings.ContainsAny(name, "= \t\n\x00*") {
		return d.errorf(n, "%s is not the name of a variable", quote(name))
	}
	return nil
}

func (d *decoder) modes(m member) error {
	entries, err := d.entries(m.value, "modes.forbid")
	for _, e := range entries {
		if !slices.Contains(Modes, e.Text) {
			return &Error{File: d.file, Line: e.Source.Line, Text: "modes.forbid: unknown mode " + quote(e.Text),
				Hint: "one of " + strings.Join(Modes, ", ")}
		}
	}
	d.p.ForbidModes = append(d.p.ForbidModes, entries...)
	return err
}
