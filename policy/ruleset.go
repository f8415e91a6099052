package policy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Base says where the relative patterns of rules begin.
type Base struct {
	// Workspace and Home are absolute. Empty refuses patterns that need them.
	Workspace, Home string
	// RealPath returns the path with its links resolved, so that a rule about
	// a link also holds for what it leads to. Nil: only the spelling counts.
	RealPath func(path string) string
}

// RuleSet is a compiled list of rules. It is immutable and safe for concurrent
// use; the zero RuleSet has no rules.
type RuleSet struct {
	rules []Rule
	base  Base
	all   []*compiled
	table [3]ruleTable // by Kind
}

// compiled is one rule ready for matching.
type compiled struct {
	rule   *Rule
	pat    pattern
	except []pattern
	order  int // smaller is stronger: level of the source, then place in it
}

// NewRuleSet compiles rules. Within one kind a stronger source comes first, and
// within a source the earlier rule: this decides which rule is reported, never
// the verdict. Errors are [*RuleError] and [*ExampleError], all of them joined.
func NewRuleSet(rules []Rule, b Base) (*RuleSet, error) {
	s := &RuleSet{rules: slices.Clone(rules), base: b}
	var errs []error
	index := make([]int, len(s.rules))
	for i := range index {
		index[i] = i
	}
	slices.SortStableFunc(index, func(x, y int) int {
		return int(s.rules[x].Source.Kind) - int(s.rules[y].Source.Kind)
	})
	for order, i := range index {
		c, err := compile(&s.rules[i], b, order)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		s.all = append(s.all, c)
		s.table[c.rule.Kind].add(c)
	}
	for _, c := range s.all {
		errs = append(errs, checkExamples(c, b)...)
	}
	if len(errs) > 0 {
		return nil, joinErrors(errs)
	}
	return s, nil
}

// joinedErrors keeps the list so that callers can print one line for each.
type joinedErrors []error

func (e joinedErrors) Error() string {
	lines := make([]string, len(e))
	for i, err := range e {
		lines[i] = err.Error()
	}
	return strings.Join(lines, "\n")
}

func (e joinedErrors) Unwrap() []error { return e }

func joinErrors(errs []error) error {
	if len(errs) == 1 {
		return errs[0]
	}
	return joinedErrors(errs)
}

func compile(r *Rule, b Base, order int) (*compiled, error) {
	fail := func(problem, fix string) error {
		return &RuleError{Pattern: r.Pattern, Source: r.Source, Problem: problem, Fix: fix}
	}
	if r.Kind > AllowRule {
		return nil, fail("unknown kind", "want deny, ask or allow")
	}
	bb := base{workspace: b.Workspace, home: cmp.Or(r.Home, b.Home)}
	p, err := parsePattern(r.Pattern, r.Kind, bb)
	if err != nil {
		return nil, fail(err.Error(), "")
	}
	if r.Kind != AllowRule {
		p.path.alsoReal(b.RealPath)
	}
	c := &compiled{rule: r, pat: p, order: order}
	for _, e := range r.Except {
		if p.form == formBare {
			return nil, fail("except on a rule without a content", "")
		}
		name, _, _ := strings.Cut(r.Pattern, "(")
		text := name + "(" + e + ")"
		if p.form == formEffect {
			text = "effect(" + p.verb.String() + " " + e + ")"
		}
		kind := AllowRule // exceptions are read strictly
		if p.tool.any || p.tool.isGlob {
			return nil, fail("except on a rule for several tools", "write one rule for each tool")
		}
		ep, err := parsePattern(text, kind, bb)
		if err != nil {
			return nil, fail("except "+e+": "+err.Error(), "")
		}
		c.except = append(c.except, ep)
	}
	return c, nil
}

// Rules returns the rules as written, in the order they were given.
func (s *RuleSet) Rules() []Rule {
	if s == nil {
		return nil
	}
	return slices.Clone(s.rules)
}

// With returns a set with r added as the last of its source.
func (s *RuleSet) With(r Rule) (*RuleSet, error) {
	var b Base
	if s != nil {
		b = s.base
	}
	return NewRuleSet(append(s.Rules(), r), b)
}

// Without returns a set without the rules of this kind, pattern and source
// level, and how many those were.
func (s *RuleSet) Without(kind Kind, pattern string, source SourceKind) (*RuleSet, int, error) {
	rules := s.Rules()
	kept := slices.DeleteFunc(slices.Clone(rules), func(r Rule) bool {
		return r.Kind == kind && r.Pattern == pattern && r.Source.Kind == source
	})
	var b Base
	if s != nil {
		b = s.base
	}
	next, err := NewRuleSet(kept, b)
	return next, len(rules) - len(kept), err
}

// Check says what the rules alone say about a call: deny over ask over allow.
// found is false when no rule matched; the verdict is then Ask. It looks at the
// arguments and at every command of a script, and knows no mode and no roots.
func (s *RuleSet) Check(c Call) (v Verdict, by RuleReason, found bool) {
	e := &Engine{cfg: Config{Workspace: s.Base().Workspace, Home: s.Base().Home}}
	st := state{rules: s}
	f := e.gather(c, s)
	w := when{mode: ModeDefault, now: time.Now()}
	if m := st.deny(f, w); m.rule != nil {
		return Deny, m.reason(), true
	}
	if m := st.ask(f, w); m.rule != nil {
		return Ask, m.reason(), true
	}
	if parts := f.parts(); len(parts) > 0 {
		var last match
		for i := range parts {
			m := st.allow(f, &parts[i], w)
			if m.rule == nil {
				return Ask, RuleReason{}, false
			}
			last = m
		}
		return Allow, last.reason(), true
	}
	return Ask, RuleReason{}, false
}

// Denied reports whether a rule denies every call of the tool.
func (s *RuleSet) Denied(tool string) bool {
	if s == nil {
		return false
	}
	w := finder{when: when{mode: ModeDefault, now: time.Now()}}
	w.bare(&s.table[DenyRule], CanonicalTool(tool), tool)
	return w.best != nil
}

// Base returns what relative patterns begin at.
func (s *RuleSet) Base() Base {
	if s == nil {
		return Base{}
	}
	return s.base
}

// checkExamples runs the rule's own examples.
func checkExamples(c *compiled, b Base) []error {
	var errs []error
	check := func(examples []string, want bool) {
		for _, ex := range examples {
			if c.matchesExample(ex, b) == want {
				continue
			}
			problem := fmt.Sprintf("example %q of match does not match", ex)
			if !want {
				problem = fmt.Sprintf("example %q of not_match matches", ex)
			}
			errs = append(errs, &ExampleError{Example: ex, WantMatch: want,
				Rule: RuleError{Pattern: c.rule.Pattern, Source: c.rule.Source, Problem: problem}})
		}
	}
	check(c.rule.Match, true)
	check(c.rule.NotMatch, false)
	return errs
}

// matchesExample builds the call that the example stands for and asks this rule
// alone.
func (c *compiled) matchesExample(example string, b Base) bool {
	s := &RuleSet{base: b}
	only := *c.rule
	only.Modes, only.Expires = nil, time.Time{} // an example is about the text
	probe := &compiled{rule: &only, pat: c.pat, except: c.except}
	s.all = []*compiled{probe}
	s.table[only.Kind].add(probe)
	v, _, found := s.Check(exampleCall(c.pat, example))
	return found && v == Verdict(only.Kind)
}

// exampleCall is a call whose content is example.
func exampleCall(p pattern, example string) Call {
	name := p.tool.name
	switch {
	case p.form == formEffect && p.verb == effectNetwork:
		return Call{Tool: "web_fetch", Args: Args{"url": example}}
	case p.form == formEffect && p.verb == effectRead:
		return Call{Tool: "read_file", Args: Args{"file_path": example}}
	case p.form == formEffect && p.verb == effectWrite:
		return Call{Tool: "file_write", Args: Args{"file_path": example}}
	case p.form == formEffect && p.verb == effectDelete:
		return BashCall("rm -- "+QuoteWord(example), "")
	case p.form == formEffect, name == "":
		return BashCall(example, "")
	case p.form == formParam:
		return Call{Tool: name, Args: Args{p.param: example}}
	}
	tool, ok := builtinTool(name)
	field := "pattern"
	switch {
	case !ok:
	case len(tool.Command) > 0:
		field = tool.Command[0]
	case len(tool.Paths) > 0:
		field = tool.Paths[0].Field
	case len(tool.URL) > 0:
		field = tool.URL[0]
	case len(tool.Agent) > 0:
		field = tool.Agent[0]
	case len(tool.Text) > 0:
		field = tool.Text[0]
	}
	return Call{Tool: name, Args: Args{field: example}}
}
