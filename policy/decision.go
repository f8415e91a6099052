package policy

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"sandboxd/policy/bash"
)

// Decision is the answer to one call. The zero Decision denies.
type Decision struct {
	CallID  string
	Verdict Verdict
	Reason  Reason
	Mode    Mode
	// Args are the final arguments, after hooks changed them.
	Args Args
	// Commands are the simple commands of a script, each with its own verdict.
	Commands []CommandDecision
	// Reads, Writes are paths as far as they are known; writes include removals.
	Reads, Writes []string
	// Uses are what is done to paths that are known, for whoever confines the call.
	Uses []PathUse
	// Unknown says what could not be known, for people.
	Unknown []string
	// Unmatched are arguments that no rule could be compared with.
	Unmatched []string
	// Env are variables as NAME=VALUE that the call must be started with, besides
	// its own: they keep git commands that only read from starting what the
	// repository names. Nil when there is nothing to fix.
	Env []string
	// Context is what hooks add for the model.
	Context []string
	Trace   []Stage
	// Suggest is how the call could be allowed. Nil when nothing can or need be
	// suggested.
	Suggest *Suggestion
	// RuleToSave is the rule that a person wants to keep (answer "always").
	RuleToSave string
}

// CommandDecision is the verdict on one simple command.
type CommandDecision struct {
	Argv    []string
	Via     []string
	Verdict Verdict
	Reason  Reason
}

// MarshalJSON writes the decision object of the command line and the API:
// verdict, reason, commands, writes, reads, unknown, trace, suggest, and where
// there are any unmatched, env, context. Lists are never null.
func (d Decision) MarshalJSON() ([]byte, error) {
	type command struct {
		Argv    []string   `json:"argv"`
		Via     []string   `json:"via,omitempty"`
		Verdict Verdict    `json:"verdict"`
		Reason  wireReason `json:"reason"`
	}
	out := struct {
		ID        string      `json:"id,omitempty"`
		Verdict   Verdict     `json:"verdict"`
		Reason    wireReason  `json:"reason"`
		Mode      Mode        `json:"mode"`
		Commands  []command   `json:"commands"`
		Writes    []string    `json:"writes"`
		Reads     []string    `json:"reads"`
		Unknown   []string    `json:"unknown"`
		Unmatched []string    `json:"unmatched,omitempty"`
		Env       []string    `json:"env,omitempty"`
		Context   []string    `json:"context,omitempty"`
		Trace     []Stage     `json:"trace"`
		Suggest   *Suggestion `json:"suggest"`
	}{
		ID: d.CallID, Verdict: d.Verdict, Reason: wire(d.Reason), Mode: d.Mode, Commands: []command{},
		Writes: list(d.Writes), Reads: list(d.Reads), Unknown: list(d.Unknown),
		Unmatched: d.Unmatched, Env: d.Env, Context: d.Context, Trace: d.Trace, Suggest: d.Suggest,
	}
	if out.Trace == nil {
		out.Trace = []Stage{}
	}
	for _, c := range d.Commands {
		out.Commands = append(out.Commands, command{Argv: list(c.Argv), Via: c.Via, Verdict: c.Verdict, Reason: wire(c.Reason)})
	}
	return json.Marshal(out)
}

func list(s []string) []string {
	if s == nil {
		return []string{}
	}
	return s
}

// unknownMark stands for text that is known at run time only.
const unknownMark = "…"

// Bounds in bytes of what a decision repeats of the call that it is about. Rules
// and checks see all of it.
const (
	maxShownText = 300      // in a reason
	maxShownWord = 16 << 10 // a word of a command
	maxShown     = 1 << 20  // all words of all commands; those beyond are shown as in a reason
)

// readable is text of a call as a reason shows it.
func readable(s string) string {
	return shorten(strings.ReplaceAll(s, bash.Hole, unknownMark), maxShownText)
}

// shorten cuts s to at most limit bytes and says how long it was.
func shorten(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	note := fmt.Sprintf("... (%d bytes)", len(s))
	cut := max(limit-len(note), 0)
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + note
}

// describe fills the lists of a decision from the facts.
func (d *Decision) describe(f *facts) {
	d.Unmatched = f.unmatched
	seen := map[string]bool{}
	add := func(list *[]string, kind, p string) {
		if !seen[kind+p] {
			seen[kind+p] = true
			*list = append(*list, p)
		}
	}
	d.Uses = f.uses()
	for i := range f.accesses {
		a := &f.accesses[i]
		p := a.real
		if p == "" {
			p = strings.ReplaceAll(shorten(a.raw, maxShownWord), bash.Hole, unknownMark)
		}
		if a.verb == effectRead {
			add(&d.Reads, "r", p)
		} else {
			add(&d.Writes, "w", p)
		}
	}
	for i := range f.analysis.Unknown {
		u := &f.analysis.Unknown[i]
		d.Unknown = append(d.Unknown, withText(u.Kind.String(), readable(u.Text)))
	}
}

func appendNew(list []string, s string) []string {
	for _, x := range list {
		if x == s {
			return list
		}
	}
	return append(list, s)
}

func jsonText(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return ""
	}
	return string(b)
}
