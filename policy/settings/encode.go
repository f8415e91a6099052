package settings

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"sandboxd/policy"
)

// TOML writes p as a policy file. Reading it back gives the same rules and
// values with other lines.
func (p *Policy) TOML() []byte {
	w := tomlWriter{}
	w.policy(p, "")
	for _, name := range slices.Sorted(maps.Keys(p.Profiles)) {
		w.policy(p.Profiles[name], "profiles."+tomlKey(name))
	}
	return []byte(w.out.String())
}

type tomlWriter struct{ out strings.Builder }

func (w *tomlWriter) line(format string, args ...any) { fmt.Fprintf(&w.out, format+"\n", args...) }

// table starts a table; prefix is "" or "profiles.NAME".
func (w *tomlWriter) table(prefix, name string) {
	if prefix != "" && name != "" {
		prefix += "."
	}
	if w.out.Len() > 0 {
		w.line("")
	}
	w.line("[%s]", prefix+name)
}

func (w *tomlWriter) policy(p *Policy, prefix string) {
	if prefix != "" {
		w.table(prefix, "")
	}
	w.list("extends", texts(p.Extends))
	w.word("mode", p.Mode)
	w.word("default", p.Default)
	w.word("confined", p.Confined)
	w.word("syscalls", p.Syscalls)
	if len(p.Rules) > 0 {
		w.table(prefix, "rules")
		for _, kind := range []policy.Kind{policy.DenyRule, policy.AskRule, policy.AllowRule} {
			w.rules(p.Rules, kind)
		}
	}
	w.filesystem(p, prefix)
	if len(p.Network)+len(p.Unix) > 0 {
		w.table(prefix, "network")
		w.list("allow", texts(p.Network))
		w.list("unix", texts(p.Unix))
	}
	w.limits(p.Limits, prefix)
	if len(p.EnvPass)+len(p.EnvSet) > 0 {
		w.table(prefix, "env")
		w.list("pass", texts(p.EnvPass))
		w.list("set", texts(p.EnvSet))
	}
	if len(p.ForbidModes) > 0 {
		w.table(prefix, "modes")
		w.list("forbid", texts(p.ForbidModes))
	}
	if a := p.Audit; a.OnFailure.Set || a.Run.Set {
		w.table(prefix, "audit")
		w.word("on_failure", a.OnFailure)
		if a.Run.Set {
			w.line("run = %v", a.Run.V)
		}
	}
	w.agent(p, prefix)
	for _, h := range p.Hooks {
		w.hook(h, prefix)
	}
}

func (w *tomlWriter) word(key string, v Value[string]) {
	if v.Set {
		w.line("%s = %s", key, tomlString(v.V))
	}
}

func (w *tomlWriter) list(key string, items []string) {
	switch len(items) {
	case 0:
	case 1:
		w.line("%s = [%s]", key, tomlString(items[0]))
	default:
		w.line("%s = [", key)
		for _, s := range items {
			w.line("  %s,", tomlString(s))
		}
		w.line("]")
	}
}

func (w *tomlWriter) rules(rules []policy.Rule, kind policy.Kind) {
	var lines []string
	for _, r := range rules {
		if r.Kind == kind {
			lines = append(lines, ruleTOML(r))
		}
	}
	if len(lines) == 0 {
		return
	}
	w.line("%s = [", kind)
	for _, l := range lines {
		w.line("  %s,", l)
	}
	w.line("]")
}

// ruleTOML is one rule: a string, or a table when it has options.
func ruleTOML(r policy.Rule) string {
	fields := []string{"rule = " + tomlString(r.Pattern)}
	add := func(key string, items []string) {
		if len(items) > 0 {
			quoted := make([]string, len(items))
			for i, s := range items {
				quoted[i] = tomlString(s)
			}
			fields = append(fields, key+" = ["+strings.Join(quoted, ", ")+"]")
		}
	}
	if r.Reason != "" {
		fields = append(fields, "reason = "+tomlString(r.Reason))
	}
	if r.Message != "" {
		fields = append(fields, "message = "+tomlString(r.Message))
	}
	add("except", r.Except)
	var modes []string
	for _, m := range r.Modes {
		modes = append(modes, m.String())
	}
	add("modes", modes)
	if !r.Expires.IsZero() {
		fields = append(fields, "expires = "+r.Expires.UTC().Format(time.RFC3339Nano))
	}
	add("match", r.Match)
	add("not_match", r.NotMatch)
	if len(fields) == 1 {
		return tomlString(r.Pattern)
	}
	return "{ " + strings.Join(fields, ", ") + " }"
}

func (w *tomlWriter) filesystem(p *Policy, prefix string) {
	if len(p.Paths) == 0 && !p.Tmp.Set && !p.NoExecWrite.Set && !p.StrictNames.Set {
		return
	}
	w.table(prefix, "filesystem")
	for _, kind := range []struct {
		key    string
		access policy.PathAccess
	}{{"read", policy.GrantRead}, {"write", policy.GrantWrite}, {"deny", policy.GrantDeny},
		{"protect", policy.GrantProtect}, {"unprotect", policy.GrantUnprotect}} {
		var items []string
		for _, g := range p.Paths {
			if g.Access == kind.access && !slices.Contains(items, g.Path) {
				items = append(items, g.Path)
			}
		}
		w.list(kind.key, items)
	}
	w.word("tmp", p.Tmp)
	if p.NoExecWrite.Set {
		w.line("no_exec_write = %t", p.NoExecWrite.V)
	}
	if p.StrictNames.Set {
		w.line("strict_names = %t", p.StrictNames.V)
	}
}

func (w *tomlWriter) limits(l Limits, prefix string) {
	if l == (Limits{}) {
		return
	}
	w.table(prefix, "limits")
	for _, d := range []struct {
		key string
		v   Value[time.Duration]
	}{{"timeout", l.Timeout}, {"cpu", l.CPU}} {
		if d.v.Set && d.v.V < 0 {
			w.line("%s = \"unlimited\"", d.key)
		} else if d.v.Set {
			w.line("%s = %s", d.key, tomlString(d.v.V.String()))
		}
	}
	for _, n := range []struct {
		key string
		v   Value[int64]
	}{{"memory", l.Memory}, {"file_size", l.FileSize}, {"output", l.Output}, {"max_file_size", l.MaxFileSize},
		{"tasks", l.Tasks}, {"denials_in_row", l.DenialsInRow}, {"denials_total", l.DenialsTotal}} {
		if n.v.Set && n.v.V < 0 {
			w.line("%s = \"unlimited\"", n.key)
		} else if n.v.Set {
			w.line("%s = %d", n.key, n.v.V)
		}
	}
}

func (w *tomlWriter) hook(h Hook, prefix string) {
	if prefix != "" {
		prefix += "."
	}
	w.line("\n[[%shooks.%s]]", prefix, h.Event)
	for _, f := range []struct{ key, value string }{{"matcher", h.Matcher}, {"if", h.If}, {"command", h.Command}} {
		if f.value != "" {
			w.line("%s = %s", f.key, tomlString(f.value))
		}
	}
	if h.Timeout > 0 {
		w.line("timeout = %s", tomlString(h.Timeout.String()))
	}
	if h.ContinueOnFailure {
		w.line("on_failure = \"continue\"")
	}
	if h.ClaudeShape {
		w.line("shape = \"claude\"")
	}
	if h.Write {
		w.line("write = true")
	}
	w.list("network", h.Network)
}

// tomlString writes a basic string. Bytes that are not UTF-8 cannot be written
// in TOML; they become the replacement character, which no rule accepts.
func tomlString(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r < 0x20 || r == 0x7f:
			fmt.Fprintf(&b, `\u%04X`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

func tomlKey(s string) string {
	if s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") == "" {
		return s
	}
	return tomlString(s)
}
