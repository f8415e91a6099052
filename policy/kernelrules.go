package policy

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	policypath "sandboxd/policy/path"
)

// KernelDenial is a deny rule about paths or programs as far as a kernel can
// hold it for a command that nobody can read beforehand.
type KernelDenial struct {
	Rule RuleReason
	// Read hides the paths; otherwise only changing them is denied.
	Read bool
	// Paths exist now, absolute as the rule names them.
	Paths []string
	// Except are paths that the rule leaves out.
	Except []string
	// Network: the rule is about hosts. Delete: it is about removing alone; no
	// mechanism holds that, but to refuse writing does.
	Network, Delete bool
	// NotHeld says what of the rule is not held by these paths; empty when they
	// are all of it.
	NotHeld string
}

// KernelGrant is an allow rule about an effect on one path, which a command may
// then have.
type KernelGrant struct {
	Rule  RuleReason
	Path  string
	Write bool
}

// maxListed bounds how many names are looked at for the patterns of one rule. The
// cost of a start must not grow with the size of a tree.
const maxListed = 4096

// KernelDenials lists the deny rules in force that are about paths, programs and
// hosts, for whoever turns a policy into a confinement. dirs are the directories
// where names "at any depth" are looked for; elsewhere they are not held. It
// reads directories with the rights of the calling thread.
func (s Snapshot) KernelDenials(dirs []string) []KernelDenial {
	st := s.st
	if st == nil || st.rules == nil {
		return nil
	}
	w := s.when
	var out []KernelDenial
	for _, c := range st.rules.all {
		if c.rule.Kind == DenyRule && w.live(c.rule) {
			if d, ok := c.kernelDenial(dirs); ok {
				out = append(out, d)
			}
		}
	}
	return out
}

// KernelGrants lists the allow rules about effects on one path.
func (s Snapshot) KernelGrants() []KernelGrant {
	st := s.st
	if st == nil || st.rules == nil {
		return nil
	}
	w := s.when
	var out []KernelGrant
	for _, c := range st.rules.all {
		p := &c.pat
		if c.rule.Kind != AllowRule || p.form != formEffect || p.verb != effectRead && p.verb != effectWrite || len(c.except) > 0 || !w.live(c.rule) {
			continue
		}
		for _, path := range p.path.places() {
			out = append(out, KernelGrant{Rule: c.rule.because(false), Path: path, Write: p.verb == effectWrite})
		}
	}
	return out
}

// kernelDenial turns one rule into paths; ok is false for a rule about something
// else: commands, tools, arguments.
func (c *compiled) kernelDenial(dirs []string) (d KernelDenial, ok bool) {
	p := &c.pat
	d.Rule = c.rule.because(false)
	switch {
	case p.form == formPath:
		tool, _ := builtinTool(p.tool.name)
		d.Read = tool.ReadOnly
	case p.form == formAny && (len(p.path.literals) > 0 || len(p.path.globs) > 0 || p.path.name != ""):
		d.Read = true
	case p.form != formEffect:
		return d, false
	case p.verb == effectRead, p.verb == effectWrite:
		d.Read = p.verb == effectRead
	case p.verb == effectDelete:
		d.Delete = true
	case p.verb == effectNetwork:
		d.Network, d.NotHeld = true, "hosts are not told apart"
		return d, true
	case p.verb == effectExec:
		d.Read = true
		program, literal := p.text.literal()
		if literal && strings.HasPrefix(program, "/") {
			d.Paths = existing(program)
		}
		d.NotHeld = "a copy of the program under another name is not seen"
		return d, true
	default:
		return d, false
	}
	if p.re != nil {
		d.NotHeld = "a regular expression names no place"
		return d, true
	}
	for i := range c.except {
		places := c.except[i].path.places()
		if len(places) == 0 {
			d.NotHeld = "an exception with a pattern names no place"
			return d, true
		}
		d.Except = append(d.Except, places...)
	}
	d.expand(&p.path, dirs)
	return d, true
}

// expand finds what a pattern covers now, without walking trees.
func (d *KernelDenial) expand(p *pathPattern, dirs []string) {
	x := expansion{dirs: dirs, left: maxListed}
	for _, l := range p.literals {
		x.paths = append(x.paths, existing(l)...)
	}
	for _, g := range p.globs {
		trimmed := strings.TrimSuffix(g, "/**")
		dir := literalDir(trimmed)
		if trimmed == dir || trimmed == "" {
			x.paths = append(x.paths, existing(orRoot(trimmed))...)
			continue
		}
		x.walk(dir, strings.Split(strings.TrimPrefix(trimmed[len(dir):], "/"), "/"))
	}
	if p.name != "" {
		x.deep = true
		for _, dir := range dirs {
			x.walk(dir, []string{p.name})
		}
	}
	slices.Sort(x.paths)
	d.Paths = slices.Compact(x.paths)
	switch {
	case d.Delete:
		d.NotHeld = "removing alone is not told apart from writing"
	case x.left <= 0:
		d.NotHeld = "more names than are looked at before a start"
	case x.deep:
		d.NotHeld = "names deeper than " + strings.Join(dirs, ", ")
	case x.listed:
		d.NotHeld = "names that are made during the run"
	}
}

func orRoot(p string) string {
	if p == "" {
		return "/"
	}
	return p
}

// existing returns path when something is there. A path that may not be looked
// at counts as there.
func existing(path string) []string {
	if _, err := os.Lstat(path); err != nil && os.IsNotExist(err) {
		return nil
	}
	return []string{path}
}

// expansion is one search for the names of a pattern.
type expansion struct {
	dirs   []string
	paths  []string
	left   int
	deep   bool // "at any depth" was cut to dirs
	listed bool // a directory was listed
}

func (x *expansion) walk(dir string, parts []string) {
	if len(parts) == 0 {
		x.paths = append(x.paths, dir)
		return
	}
	part, rest := parts[0], parts[1:]
	switch {
	case part == "**":
		x.deep = true
		seen := map[string]bool{}
		for _, d := range append([]string{dir}, x.dirs...) {
			if within(d, dir) && !seen[d] {
				seen[d] = true
				x.walk(d, rest)
			}
		}
	case !isGlobText(part):
		for _, p := range existing(filepath.Join(dir, part)) {
			x.walk(p, rest)
		}
	default:
		x.listed = true
		f, err := policypath.OpenDir(dir)
		if err != nil || x.left <= 0 {
			return
		}
		names, _ := f.Readdirnames(x.left)
		f.Close()
		x.left -= len(names)
		for _, name := range names {
			if ok, _ := doublestar.Match(part, name); ok {
				x.walk(filepath.Join(dir, name), rest)
			}
		}
	}
}

// places returns the paths of a pattern that is nothing but whole paths; nil for
// any other.
func (p *pathPattern) places() []string {
	if p.name != "" {
		return nil
	}
	out := slices.Clone(p.literals)
	for _, g := range p.globs {
		dir := strings.TrimSuffix(g, "/**")
		if dir == "" || isGlobText(dir) {
			return nil
		}
		out = append(out, dir)
	}
	return out
}
