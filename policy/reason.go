package policy

import (
	"encoding/json"
	"fmt"
)

// Reason says why a call was decided as it was. The set of cases is closed.
type Reason interface {
	// Type is the name of the case in JSON.
	Type() string
	// String is one line for people, lower case.
	String() string
	reason()
}

type (
	// RuleReason names the rule that decided.
	RuleReason struct {
		Kind    Kind
		Pattern string
		Source  Source
		// Text is the rule's own reason (deny) or message (ask).
		Text string
		// Possible is true when the rule could match, depending on what is
		// known at run time only.
		Possible bool
	}
	// ModeReason: the mode's own allowance or restriction.
	ModeReason struct {
		Mode Mode
		Text string
	}
	// HookReason: a PreToolUse hook blocked, or asked for a question.
	HookReason struct{ Name, Text string }
	// ClassifierReason keeps the score, 0 to 1. Text was written by a model, and
	// is data.
	ClassifierReason struct {
		Score float64
		Text  string
	}
	// UserReason: a person answered. Temporary is false when the answer became
	// a rule. Asked is why it was asked.
	UserReason struct {
		Temporary bool
		By        string
		Asked     Reason
	}
	// SafetyReason names a built-in check.
	SafetyReason struct{ Check, Text string }
	// ConfinedReason: every effect is inside the grant and confinement is
	// complete (setting confined = "allow").
	ConfinedReason struct{}
	// TimeoutReason: nobody answered in time. Asked is why it was asked.
	TimeoutReason struct{ Asked Reason }
	// HeadlessReason: there is nobody to ask. Asked is why a question would
	// have been asked, Failed why those who could answer did not.
	HeadlessReason struct {
		Asked  Reason
		Failed string
	}
	// DefaultReason: nothing matched.
	DefaultReason struct{ Text string }
)

func (RuleReason) reason()       {}
func (ModeReason) reason()       {}
func (HookReason) reason()       {}
func (ClassifierReason) reason() {}
func (UserReason) reason()       {}
func (SafetyReason) reason()     {}
func (ConfinedReason) reason()   {}
func (TimeoutReason) reason()    {}
func (HeadlessReason) reason()   {}
func (DefaultReason) reason()    {}

func (RuleReason) Type() string       { return "rule" }
func (ModeReason) Type() string       { return "mode" }
func (HookReason) Type() string       { return "hook" }
func (ClassifierReason) Type() string { return "classifier" }
func (UserReason) Type() string       { return "user" }
func (SafetyReason) Type() string     { return "safety" }
func (ConfinedReason) Type() string   { return "confined" }
func (TimeoutReason) Type() string    { return "timeout" }
func (HeadlessReason) Type() string   { return "headless" }
func (DefaultReason) Type() string    { return "default" }

func (r RuleReason) String() string {
	verb := "rule "
	if r.Possible {
		verb = "possibly rule "
	}
	s := verb + r.Kind.String() + " " + r.Pattern + ", " + r.Source.String()
	return withText(s, r.Text)
}
func (r ModeReason) String() string { return withText("mode "+r.Mode.String(), r.Text) }
func (r HookReason) String() string { return withText("hook "+r.Name, r.Text) }
func (r ClassifierReason) String() string {
	s := fmt.Sprintf("classifier score %.2f", r.Score)
	if r.Text != "" {
		s += ", in the words of a model: " + r.Text
	}
	return s
}
func (r UserReason) String() string {
	s := "answered by " + r.By
	if r.By == "" {
		s = "answered by a person"
	}
	if r.Temporary {
		return s + ", this time"
	}
	return s + ", kept as a rule"
}
func (r SafetyReason) String() string { return withText("safety check "+r.Check, r.Text) }
func (ConfinedReason) String() string { return "confined: every effect is inside the grant" }
func (r TimeoutReason) String() string {
	return withText("nobody answered in time", textOf(r.Asked))
}
func (r HeadlessReason) String() string {
	s := "there is nobody to ask"
	if r.Failed != "" {
		s += " (" + r.Failed + ")"
	}
	return withText(s, textOf(r.Asked))
}

// textOf is the text of a reason that may be missing.
func textOf(r Reason) string {
	if r == nil {
		return ""
	}
	return r.String()
}

func (r DefaultReason) String() string {
	if r.Text == "" {
		return "no rule matched"
	}
	return r.Text
}

func withText(s, text string) string {
	if text == "" {
		return s
	}
	return s + ": " + text
}

// wireReason is the JSON form of every case; fields that a case does not have
// are left out.
type wireReason struct {
	Type      string   `json:"type"`
	Kind      string   `json:"kind,omitempty"`
	Source    string   `json:"source,omitempty"`
	Pattern   string   `json:"pattern,omitempty"`
	File      string   `json:"file,omitempty"`
	Line      int      `json:"line,omitempty"`
	Possible  bool     `json:"possible,omitempty"`
	Mode      string   `json:"mode,omitempty"`
	Name      string   `json:"name,omitempty"`
	Score     *float64 `json:"score,omitempty"`
	Temporary *bool    `json:"temporary,omitempty"`
	By        string   `json:"by,omitempty"`
	Check     string   `json:"check,omitempty"`
	Text      string   `json:"text,omitempty"`
	TextBy    string   `json:"text_by,omitempty"` // "model" where one wrote it
	// Asked is why a question was put.
	Asked *wireReason `json:"asked,omitempty"`
}

// ReasonJSON encodes r as {"type":…} with the fields of its case. A nil reason,
// which no decision carries, is encoded as a failed safety check.
func ReasonJSON(r Reason) ([]byte, error) { return json.Marshal(wire(r)) }

func wire(r Reason) wireReason {
	switch r := r.(type) {
	case RuleReason:
		return wireReason{Type: r.Type(), Kind: r.Kind.String(), Source: r.Source.Kind.String(), Pattern: r.Pattern,
			File: r.Source.File, Line: r.Source.Line, Possible: r.Possible, Text: r.Text}
	case ModeReason:
		return wireReason{Type: r.Type(), Mode: r.Mode.String(), Text: r.Text}
	case HookReason:
		return wireReason{Type: r.Type(), Name: r.Name, Text: r.Text}
	case ClassifierReason:
		w := wireReason{Type: r.Type(), Score: &r.Score}
		if r.Text != "" {
			w.Text, w.TextBy = r.Text, "model"
		}
		return w
	case UserReason:
		return wireReason{Type: r.Type(), Temporary: &r.Temporary, By: r.By, Asked: wireAsked(r.Asked)}
	case SafetyReason:
		return wireReason{Type: r.Type(), Check: r.Check, Text: r.Text}
	case HeadlessReason:
		text := textOf(r.Asked)
		if r.Failed != "" {
			text = withText(r.Failed, text)
		}
		return wireReason{Type: r.Type(), Text: text, Asked: wireAsked(r.Asked)}
	case TimeoutReason:
		return wireReason{Type: r.Type(), Asked: wireAsked(r.Asked)}
	case DefaultReason:
		return wireReason{Type: r.Type(), Text: r.Text}
	case ConfinedReason:
		return wireReason{Type: r.Type()}
	}
	return wireReason{Type: "safety", Check: "internal", Text: "bug: a decision without a reason"}
}

func wireAsked(r Reason) *wireReason {
	if r == nil {
		return nil
	}
	w := wire(r)
	return &w
}
