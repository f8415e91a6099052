package policy

import (
	"path"
	"strings"

	"sandboxd/policy/bash"
)

// mention is a part of a command line that names a path or a host, of a program
// whose use of it no table tells. A deny or ask rule about the path or the host
// holds for it too: a rule does not depend on knowing the program.
type mention struct {
	at      access // a read; given and real are empty when the path is not known
	text    string
	command int
	hosts   []hostTarget
	// unknown and opaque say what else the program may do with it: an unknown
	// one anything, an opaque one (make, npm run) perhaps.
	unknown, opaque bool
	// variable is true for the value of a variable; weak when it is not certain
	// that the program sees it.
	variable, weak bool
}

// maxResolved bounds the mentions of one script whose links are followed; the
// others count as they are written.
const maxResolved = 256

// mentionable reports whether a rule could be about a mention.
func (r *RuleSet) mentionable() bool {
	if r == nil {
		return false
	}
	for _, k := range [...]Kind{DenyRule, AskRule} {
		t := &r.table[k]
		if len(t.read.all)+len(t.write.all)+len(t.remove.all)+len(t.hosts)+len(t.any) > 0 {
			return true
		}
	}
	return false
}

// gatherMentions locates the mentions of a script. What an effect of the same
// command is about is left out: there it is known what is done.
func (f *facts) gatherMentions(l *locator) {
	type key struct {
		text, path string
		command    int
	}
	seen := map[key]bool{}
	f.mentions = make([]mention, 0, len(f.analysis.Mentions))
	for i := range f.analysis.Mentions {
		m := &f.analysis.Mentions[i]
		k := key{m.Text, m.Path, m.Command}
		if seen[k] || m.Command < 0 || m.Command >= len(f.commands) {
			continue
		}
		seen[k] = true
		c := f.commands[m.Command].cmd
		out := mention{text: m.Text, command: m.Command, unknown: !c.InTable, opaque: c.Opaque, variable: m.Variable, weak: m.Weak}
		out.at = access{verb: effectRead, raw: m.Path, command: m.Command}
		switch {
		case strings.Contains(m.Path, bash.Hole) || !strings.HasPrefix(m.Path, "/"):
		case len(f.mentions) < maxResolved:
			out.at = l.access(&bash.Effect{Kind: bash.Read, Path: m.Path, Glob: m.Glob, Hidden: m.Hidden, Command: m.Command})
		default:
			out.at.given = path.Clean(m.Path)
			out.at.real = out.at.given
		}
		if out.at.given != "" && f.touches(&out) {
			continue
		}
		out.hosts = mentionedHosts(m)
		f.mentions = append(f.mentions, out)
	}
}

// touches reports whether an effect of the command is about the same path.
func (f *facts) touches(m *mention) bool {
	for _, j := range f.byCommand[m.command] {
		if a := &f.accesses[j]; a.given == m.at.given && a.given != "" {
			return true
		}
	}
	return false
}

// mentionedHosts reads a part of a command line as a host: a URL, user@host,
// host:port, host/path. A single label counts too, for rules about one.
func mentionedHosts(m *bash.Mention) []hostTarget {
	s := m.Text
	if m.Whole {
		if strings.HasPrefix(s, "[") {
			s, _, _ = strings.Cut(s[1:], "]")
		} else if i := strings.Index(s, "://"); i >= 0 {
			s = s[i+3:]
			if j := strings.IndexAny(s, "/?#"); j >= 0 {
				s = s[:j]
			}
			s = s[strings.LastIndexByte(s, '@')+1:]
		}
	}
	s = strings.TrimPrefix(s, "//")
	s, _, _ = strings.Cut(s, "/")
	if s == "" || len(s) > 253 || s[0] == '.' || s[0] == '-' {
		return nil
	}
	host, port, err := splitPort(s)
	if err != nil {
		host, port = s, 0
	}
	if strings.Trim(host, "0123456789") == "" {
		return nil // a number
	}
	name, addr, broken := canonicalHost(host)
	if broken != "" {
		return nil
	}
	return []hostTarget{{host: name, addr: addr, port: port}}
}

// onMention compares one mention with the rules about paths and hosts.
func (f *finder) onMention(t *ruleTable, m *mention) {
	f.soften = m.weak
	f.mentionedPath(&t.read, m)
	if m.unknown || m.opaque {
		f.soften = m.weak || m.variable || !m.unknown
		f.mentionedPath(&t.write, m)
		f.soften = true
		f.mentionedPath(&t.remove, m)
	}
	f.soften = m.weak
	for i := range m.hosts {
		for _, c := range t.hosts {
			if f.better(c) && c.pat.re == nil && !c.pat.host.any && c.pat.host.match(&m.hosts[i], true) &&
				!c.excepts(func(p *pattern) bool { return p.host.match(&m.hosts[i], false) }) {
				f.found(c, fullMatch, m.command)
			}
		}
	}
	f.soften = false
}

func (f *finder) mentionedPath(x *pathIndex, m *mention) {
	if len(x.all) == 0 {
		return
	}
	if m.at.given != "" || m.at.real != "" {
		f.pathRules(x, m.at.given, m.at.real, m.command)
		soft := f.soften
		f.matching(x, &m.at)
		f.soften = soft
		return
	}
	if m.at.glob {
		f.mentionedPattern(x, m)
		return
	}
	// The directory is not known: rules about a name at any depth hold.
	if len(x.name) == 0 && len(x.rest) == 0 {
		return
	}
	rest := m.text
	for rest != "" {
		var part string
		part, rest, _ = strings.Cut(rest, "/")
		if part == "" || strings.Contains(part, bash.Hole) {
			continue
		}
		for _, c := range x.name[part] {
			if f.better(c) {
				f.found(c, fullMatch, m.command)
			}
		}
		for _, c := range x.rest {
			if f.better(c) && c.pat.re == nil && c.pat.path.name != "" && c.pat.path.matchName("/"+part) {
				f.found(c, fullMatch, m.command)
			}
		}
	}
}

// mentionedPattern is for a pattern whose names cannot be listed: it matches the
// rules about a name that it could stand for.
func (f *finder) mentionedPattern(x *pathIndex, m *mention) {
	dir, last := path.Split(m.at.raw)
	for _, c := range x.all {
		p := &c.pat.path
		hit := p.name != "" && !p.nameGlob && globMatches(last, p.name, m.at.hidden)
		for _, l := range p.literals {
			hit = hit || globMatches(last, path.Base(l), m.at.hidden) && (isGlobText(dir) || path.Clean(dir) == path.Dir(l))
		}
		if hit && f.better(c) {
			f.found(c, fullMatch, m.command)
		}
	}
}
