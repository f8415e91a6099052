package policy

import (
	"fmt"
	"path"
	"slices"
	"sort"
	"strings"
	"time"
)

// Severity orders findings of [Lint].
type Severity uint8

const (
	// Info: works as written, and there is something to know.
	Info Severity = iota
	// Warning: probably not what was meant.
	Warning
)

func (s Severity) String() string {
	if s == Warning {
		return "warning"
	}
	return "info"
}

// MarshalText writes info or warning.
func (s Severity) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Check names what a [Finding] is about.
type Check string

const (
	CheckShadowed   Check = "shadowed"    // can never decide, since a stronger rule covers it
	CheckDead       Check = "dead"        // can never match
	CheckDuplicate  Check = "duplicate"   // says what another rule says
	CheckFragile    Check = "fragile"     // other programs reach the same effect
	CheckPrefix     Check = "prefix"      // matches more than it looks like
	CheckNotKernel  Check = "not-kernel"  // holds for decisions, not in the kernel
	CheckUnknown    Check = "unknown"     // names a tool that is not known
	CheckMatcherAll Check = "matches-all" // matches every call of the tool
)

// Finding is one remark about a rule.
type Finding struct {
	File     string   `json:"file,omitempty"`
	Line     int      `json:"line,omitempty"`
	Severity Severity `json:"severity"`
	Check    Check    `json:"check"`
	Rule     string   `json:"rule"`
	Kind     Kind     `json:"kind"`
	Text     string   `json:"text"`
	Fix      string   `json:"fix,omitempty"`
}

// LintOptions is what lint may assume.
type LintOptions struct {
	Base Base
	// Installed reports whether a program is on PATH. Nil: all are named.
	Installed func(program string) bool
	// Roots limit what an allow rule about writing can ever allow. Nil: the
	// workspace.
	Roots []Root
	Now   time.Time // zero: rules do not expire
}

// Lint looks for rules that do not do what they seem to. Rules that do not
// compile are reported by [NewRuleSet] and skipped here. The order of findings
// is that of the rules.
func Lint(rules []Rule, o LintOptions) []Finding {
	l := &linter{options: o}
	for i := range rules {
		c, err := compile(&rules[i], o.Base, int(rules[i].Source.Kind)<<20+i)
		if err == nil {
			l.rules = append(l.rules, c)
		}
	}
	for _, c := range l.rules {
		l.dead(c)
		l.unknownTool(c)
		l.prefix(c)
		l.shadow(c)
		l.fragile(c)
		l.kernel(c)
	}
	return l.findings
}

type linter struct {
	options  LintOptions
	rules    []*compiled
	findings []Finding
}

func (l *linter) add(c *compiled, s Severity, check Check, text, fix string) {
	l.findings = append(l.findings, Finding{File: c.rule.Source.File, Line: c.rule.Source.Line, Severity: s, Check: check,
		Rule: c.rule.Pattern, Kind: c.rule.Kind, Text: text, Fix: fix})
}

// dead reports rules that can never match.
func (l *linter) dead(c *compiled) {
	if !l.options.Now.IsZero() && !c.rule.live(anyMode(c.rule), l.options.Now) {
		l.add(c, Warning, CheckDead, "expired on "+c.rule.Expires.Format(time.DateOnly), "remove it")
	}
	p := &c.pat
	if p.form == formPath || p.form == formEffect {
		if text := impossiblePath(p.content); text != "" {
			l.add(c, Warning, CheckDead, text, "")
		}
	}
	writes := p.form == formPath && c.rule.Kind == AllowRule
	if tool, _ := builtinTool(p.tool.name); tool.ReadOnly {
		writes = false
	}
	if p.form == formEffect && c.rule.Kind == AllowRule && (p.verb == effectWrite || p.verb == effectDelete) {
		writes = true
	}
	if dir, ok := p.path.literal(); writes && ok && !l.writable(dir) {
		l.add(c, Warning, CheckDead, "never allows anything: "+dir+" is not granted for writing, and a write outside the roots always asks",
			"grant it ([filesystem] write)")
	}
}

func anyMode(r *Rule) Mode {
	if len(r.Modes) > 0 {
		return r.Modes[0]
	}
	return ModeDefault
}

func (l *linter) writable(dir string) bool {
	if l.options.Base.Workspace == "" || within(dir, l.options.Base.Workspace) {
		return true
	}
	for _, r := range l.options.Roots {
		if r.Write && within(dir, r.Path) {
			return true
		}
	}
	return false
}

// impossiblePath says why no path can match.
func impossiblePath(content string) string {
	switch {
	case strings.Contains(content, "\x00"):
		return "no path holds a NUL"
	case strings.HasPrefix(content, "//"):
		return "begins with two slashes, which is one of Claude's anchors; here an absolute path begins with one"
	case strings.HasPrefix(content, "$"), strings.Contains(content, "/$"):
		return "variables are not expanded in a pattern"
	}
	for _, part := range strings.Split(content, "/") {
		if len(part) > 255 {
			return "a name longer than 255 bytes cannot exist"
		}
	}
	return ""
}

// unknownTool reports names that no tool and no alias has.
func (l *linter) unknownTool(c *compiled) {
	t := &c.pat.tool
	if c.pat.form == formEffect || t.any || t.isGlob || t.server != "" || t.name == "" || IsMCPTool(t.name) {
		return
	}
	if _, ok := builtinTool(t.name); ok {
		return
	}
	fix := ""
	if near := nearestTool(t.name); near != "" {
		fix = "did you mean " + near + "?"
	}
	l.add(c, Warning, CheckUnknown, "there is no tool "+t.name, fix)
}

func nearestTool(name string) string {
	best, at := "", 4
	try := func(known string) {
		if d := EditDistance(strings.ToLower(name), strings.ToLower(known)); d < at || d == at && known < best {
			best, at = known, d
		}
	}
	for i := range builtinTools {
		try(builtinTools[i].Name)
	}
	for alias := range toolAliases {
		try(alias)
	}
	return best
}

// prefix reports patterns that match more, or less, than they look like.
func (l *linter) prefix(c *compiled) {
	p := &c.pat
	if p.form != formCommand && p.form != formAny || len(p.command.words) == 0 {
		return
	}
	content := p.content
	last := p.command.words[len(p.command.words)-1]
	_, literal := last.literal()
	switch {
	case p.re != nil:
	case !literal && !last.any() && strings.HasSuffix(content, "*") && last.prefix() != "" && !strings.HasPrefix(last.prefix(), "-") && len(last.parts) == 2:
		stem := strings.TrimSuffix(content, "*")
		l.add(c, Info, CheckPrefix, "is a text prefix and also matches "+stem+"x", "write "+stem+" * (with an argument), and "+stem+" for the bare command")
	case c.rule.Kind == AllowRule && p.command.words[0].prefix() == "":
		l.add(c, Warning, CheckMatcherAll, "begins with a star and allows any program", "name the program")
	}
}

// shadow reports allow rules that a deny or ask rule covers, ask rules that a
// deny rule covers, and duplicates.
func (l *linter) shadow(c *compiled) {
	for _, s := range l.rules {
		if s == c || !sameModes(s.rule, c.rule) || len(s.except) > 0 {
			continue
		}
		switch {
		case s.rule.Kind < c.rule.Kind && s.pat.covers(&c.pat):
			l.add(c, Warning, CheckShadowed, fmt.Sprintf("never decides: %s rule %s (%s) covers it", s.rule.Kind, s.rule.Pattern, s.rule.Source), shadowFix(s, c))
			return
		case s.rule.Kind < c.rule.Kind && s.pat.form == formBare && c.pat.form != formEffect && s.pat.tool.match(c.pat.tool.name, c.pat.tool.name):
			l.add(c, Warning, CheckShadowed, fmt.Sprintf("never decides: %s rule %s (%s) covers the whole tool", s.rule.Kind, s.rule.Pattern, s.rule.Source), "remove one of the two")
			return
		case s.rule.Kind == c.rule.Kind && s.order < c.order && s.pat.covers(&c.pat):
			l.add(c, Info, CheckDuplicate, fmt.Sprintf("adds nothing to %s (%s)", s.rule.Pattern, s.rule.Source), "remove it")
			return
		}
	}
}

// shadowFix offers the exclusion form.
func shadowFix(s, c *compiled) string {
	if s.pat.form == formPath || s.pat.form == formCommand {
		return fmt.Sprintf("exclude it: { rule = %q, except = [%q] }", s.rule.Pattern, c.pat.content)
	}
	return "remove one of the two"
}

func sameModes(strong, weak *Rule) bool {
	if len(strong.Modes) == 0 {
		return true
	}
	if len(weak.Modes) == 0 {
		return false
	}
	for _, m := range weak.Modes {
		if !strong.live(m, time.Time{}) {
			return false
		}
	}
	return strong.Expires.IsZero()
}

// fragile reports deny rules about a program whose effect others have too.
func (l *linter) fragile(c *compiled) {
	if c.rule.Kind == AllowRule || c.pat.form != formCommand && c.pat.form != formAny || len(c.pat.command.words) == 0 {
		return
	}
	program, ok := c.pat.command.words[0].literal()
	if !ok {
		return
	}
	for _, e := range fragileEffects {
		if !slices.Contains(e.programs, path.Base(program)) {
			continue
		}
		others := l.others(e, path.Base(program))
		if len(others) == 0 {
			continue
		}
		l.add(c, Warning, CheckFragile, fmt.Sprintf("names one way to %s; %s do the same", e.does, joinPeople(others)), e.fix)
		return
	}
}

// others lists programs with the same effect, installed ones only.
func (l *linter) others(e fragileEffect, program string) []string {
	var list []string
	for _, p := range append(append([]string(nil), e.programs...), e.also...) {
		name, _, _ := strings.Cut(p, " ")
		if name == program || l.options.Installed != nil && !l.options.Installed(name) {
			continue
		}
		list = append(list, p)
	}
	sort.Strings(list)
	return list
}

// joinPeople writes up to eight names.
func joinPeople(list []string) string {
	if len(list) > 8 {
		return strings.Join(list[:8], ", ") + fmt.Sprintf(" and %d more", len(list)-8)
	}
	return strings.Join(list, ", ")
}

// kernel reports rules that a decision applies and the kernel cannot hold.
func (l *linter) kernel(c *compiled) {
	if c.rule.Kind != DenyRule {
		return
	}
	p := &c.pat
	switch p.form {
	case formPath, formEffect:
		if p.verb == effectNetwork {
			l.add(c, Info, CheckNotKernel, "the kernel refuses all of the network or none of it; a single host is checked when a command is decided", "leave the network off and grant hosts ([network] allow)")
			return
		}
		if p.verb == effectExec {
			l.add(c, Info, CheckNotKernel, "the kernel does not hold a program back by its name; it is checked when a command is decided", "")
			return
		}
		if _, ok := p.path.literal(); !ok || p.re != nil {
			l.add(c, Info, CheckNotKernel, "a pattern with wildcards holds for decisions and file tools; for what a command does by itself only paths are held by the kernel",
				"name the paths ([filesystem] deny)")
		}
	case formCommand, formAny:
		l.add(c, Info, CheckNotKernel, "is about the text of a command; what an allowed program does by itself is held by [filesystem] and [network]", "")
	case formBare, formHost, formParam, formText:
	}
}
