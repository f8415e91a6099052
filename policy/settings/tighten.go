package settings

import (
	"slices"

	"sandboxd/policy"
)

// tighterModes says, for each mode, which others are at least as strict in every
// cell of the mode table. Two modes that are not comparable are in neither row:
// plan asks before every change but reads everywhere, auto asks where the mode
// default does what the setting "default" says.
var tighterModes = map[string][]string{
	"bypassPermissions": {"auto", "acceptEdits", "default", "dontAsk", "plan", "bubble"},
	"auto":              {"dontAsk"},
	"acceptEdits":       {"default", "dontAsk", "plan"},
	"bubble":            {"dontAsk"},
	"default":           {"dontAsk"},
}

// modeLoosens reports whether going from mode a to mode b could permit more.
func modeLoosens(a, b string) bool { return a != b && !slices.Contains(tighterModes[a], b) }

// verdictLoosens compares the words deny, ask and allow.
func verdictLoosens(a, b string) bool {
	order := []string{"deny", "ask", "allow"}
	return slices.Index(order, b) > slices.Index(order, a)
}

// tmpLoosens: "none" is tighter than "private".
func tmpLoosens(a, b string) bool { return a == "none" && b != "none" }

// syscallsLoosen: every profile but the default may permit more.
func syscallsLoosen(a, b string) bool { return b != a && b != "default" }

func switchedOff(a, b bool) bool { return a && !b }

// moreThan compares limits: negative is unlimited.
func moreThan[T ~int64](a, b T) bool { return a >= 0 && (b < 0 || b > a) }

// builtin is the weakest layer: what holds when nobody says anything. Limits are
// not part of it, since exec and agentloop own their defaults.
func builtin() *Policy {
	from := policy.Source{Kind: policy.SourceDefault}
	return &Policy{
		Source:      from,
		Mode:        set("default", from),
		Default:     set("ask", from),
		Confined:    set("ask", from),
		Tmp:         set("private", from),
		Syscalls:    set("default", from),
		NoExecWrite: set(false, from),
		StrictNames: set(false, from),
		Network:     []Entry{{"none", from}},
	}
}
