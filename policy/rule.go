package policy

import (
	"fmt"
	"time"
)

// Rule is one rule as written, with what its options say. It is data; a
// [RuleSet] compiles it.
type Rule struct {
	Kind Kind
	// Pattern is tool(content) or tool; see docs/rules.md for the grammar.
	Pattern string
	Source  Source
	// Home is where ~ of the pattern is. Empty: that of the [Base].
	Home string
	// Reason is told when a deny rule matches, Message when an ask rule does.
	Reason, Message string
	// Except are contents, in the grammar of the rule's own content, that the
	// rule does not cover. They are read as strictly as allow rules are.
	Except []string
	// Modes limits the rule to these modes. Empty means all.
	Modes []Mode
	// Expires is the moment from which the rule no longer holds. Zero: never.
	Expires time.Time
	// Match and NotMatch are contents (a command, a path, an address) that the
	// rule must and must not match. They are checked when the rule is compiled.
	Match, NotMatch []string
}

// RuleError reports a rule that cannot be used.
type RuleError struct {
	Pattern string
	Source  Source
	// Problem is one phrase, lower case.
	Problem string
	// Fix is what would be right, empty when unknown.
	Fix string
}

func (e *RuleError) Error() string {
	s := fmt.Sprintf("rule %q (%s): %s", e.Pattern, e.Source, e.Problem)
	if e.Fix != "" {
		s += "; " + e.Fix
	}
	return s
}

// ExampleError reports that a rule does not do what its own example says.
type ExampleError struct {
	Rule    RuleError
	Example string
	// WantMatch is true for an example of match, false for one of not_match.
	WantMatch bool
}

func (e *ExampleError) Error() string { return e.Rule.Error() }

func (e *ExampleError) Unwrap() error { return &e.Rule }

// text is what is told when the rule decides.
func (r *Rule) text() string {
	if r.Kind == AskRule && r.Message != "" {
		return r.Message
	}
	return r.Reason
}

// because is the reason of a decision by r.
func (r *Rule) because(possible bool) RuleReason {
	return RuleReason{Kind: r.Kind, Pattern: r.Pattern, Source: r.Source, Text: r.text(), Possible: possible}
}

// live reports whether r holds in mode m at time now.
func (r *Rule) live(m Mode, now time.Time) bool {
	if !r.Expires.IsZero() && !now.Before(r.Expires) {
		return false
	}
	if len(r.Modes) == 0 {
		return true
	}
	for _, x := range r.Modes {
		if x == m {
			return true
		}
	}
	return false
}
