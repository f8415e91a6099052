package policy

import (
	"fmt"
	"strings"
)

// Mode says how a call that no rule decides is treated. The zero value is
// [ModeDefault], which asks. No mode lifts a deny rule or a floor.
type Mode uint8

const (
	// ModeDefault allows reads inside the roots and asks for the rest.
	ModeDefault Mode = iota
	// ModeAcceptEdits also allows writes inside the workspace.
	ModeAcceptEdits
	// ModeBypass allows whatever has no floor. It is usable only when it was
	// enabled at start and policy does not forbid it; see [Engine.SetMode].
	ModeBypass
	// ModeDontAsk turns each remaining Ask into Deny.
	ModeDontAsk
	// ModePlan reads freely and asks for each write; the sandbox is read-only.
	ModePlan
	// ModeAuto lets the classifier decide reads and writes.
	ModeAuto
	// ModeBubble hands questions to the person of the parent agent. Sub-agents
	// only.
	ModeBubble
)

// Modes lists every mode in the order in which a terminal cycles through them.
func Modes() []Mode {
	return []Mode{ModeDefault, ModeAcceptEdits, ModePlan, ModeAuto, ModeDontAsk, ModeBypass, ModeBubble}
}

// modeNames are the names of settings files, flags and the API.
var modeNames = [...]string{
	ModeDefault: "default", ModeAcceptEdits: "acceptEdits", ModeBypass: "bypassPermissions",
	ModeDontAsk: "dontAsk", ModePlan: "plan", ModeAuto: "auto", ModeBubble: "bubble",
}

func (m Mode) String() string {
	if int(m) < len(modeNames) {
		return modeNames[m]
	}
	return "unknown"
}

// MarshalText writes the name of m.
func (m Mode) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// ParseMode reads the name of a mode as written in settings. The error lists the
// names there are.
func ParseMode(name string) (Mode, error) {
	for m, n := range modeNames {
		if n == name {
			return Mode(m), nil
		}
	}
	return ModeDefault, fmt.Errorf("unknown mode %q: want one of %s", name, strings.Join(modeNames[:], ", "))
}

// modeWidth orders the modes by how much goes without a person, the narrowest
// first. Where two modes differ both ways, as plan reads more than default and
// writes less, the one comes first that changes less.
var modeWidth = [...]uint8{
	ModePlan: 0, ModeDontAsk: 1, ModeBubble: 2, ModeDefault: 2, ModeAcceptEdits: 3, ModeAuto: 4, ModeBypass: 5,
}

// NarrowerMode is the mode of a sub-agent that wants one under a parent that has
// another: never a wider one than its parent's. See also [Config.Above], which
// holds where the order of modes is not one of inclusion.
func NarrowerMode(parent, want Mode) Mode {
	if int(want) < len(modeWidth) && int(parent) < len(modeWidth) && modeWidth[want] <= modeWidth[parent] {
		return want
	}
	return parent
}

// allowance is what a mode by itself allows of one class of calls, the least first.
type allowance uint8

const (
	alwaysAsk   allowance = iota // asks even when "default" allows
	nothing                      // the setting "default" decides
	insideRoots                  // allowed when every path is inside the roots
	inWorkspace                  // allowed when every path is inside the workspace
	everything
)

// class is the kind of a call or of a part of it. What is dangerous has a floor
// and reaches no cell of the mode table: in every mode it is at least Ask.
type class uint8

const (
	readClass class = iota
	writeClass
)

// modeRow is one line of the table of modes.
type modeRow struct {
	read, write allowance
	// explicit: what only the setting "default" would allow is denied.
	explicit bool
	// classifier: what is left goes to the classifier.
	classifier bool
	// keepsTrees: to remove a whole tree is no edit.
	keepsTrees bool
	// unknownCode: everything covers unknown code too, inside full confinement.
	unknownCode bool
}

// meet is what both rows allow.
func (r modeRow) meet(o modeRow) modeRow {
	return modeRow{
		read: min(r.read, o.read), write: min(r.write, o.write), explicit: r.explicit || o.explicit,
		classifier: r.classifier && o.classifier, unknownCode: r.unknownCode && o.unknownCode,
		keepsTrees: r.keepsTrees || o.keepsTrees,
	}
}

// modeTable is the table of docs/policy.md. Reads inside the roots by the
// read-only set and the read tools are allowed before it is asked.
var modeTable = [...]modeRow{
	ModeDefault:     {read: insideRoots, write: nothing},
	ModeAcceptEdits: {read: everything, write: inWorkspace},
	ModeBypass:      {read: everything, write: everything, unknownCode: true},
	ModeDontAsk:     {read: insideRoots, write: nothing, explicit: true},
	ModePlan:        {read: everything, write: alwaysAsk},
	ModeAuto:        {read: insideRoots, write: inWorkspace, classifier: true, keepsTrees: true},
	ModeBubble:      {read: insideRoots, write: nothing},
}

// row returns the line of m; an unknown mode has the line of [ModeDefault].
func (m Mode) row() modeRow {
	if int(m) < len(modeTable) {
		return modeTable[m]
	}
	return modeTable[ModeDefault]
}
