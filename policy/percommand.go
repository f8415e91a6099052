package policy

import (
	"strings"

	"sandboxd/policy/bash"
)

// matchedCommands notes every command that a deny or ask rule matches, for the
// table of commands; the decision is made already.
func (r *run) matchedCommands(k Kind) {
	if !r.facts.isScript || r.st.rules == nil {
		return
	}
	for i := range r.facts.commands {
		find := finder{when: r.when, command: -1, maybe: -1}
		t := &r.st.rules.table[k]
		find.onCommand(t, &r.facts.commands[i])
		for _, j := range r.facts.byCommand[i] {
			find.onAccess(t, &r.facts.accesses[j])
		}
		if m := find.result(); m.rule != nil && !m.possible {
			r.floorOn(i, m.reason())
		}
	}
}

// describeParts judges the parts of a call that is denied, so that a check can
// show which of its commands would be allowed. Nobody is asked.
func (r *run) describeParts() {
	if r.live || !r.facts.isScript {
		return
	}
	trace := r.trace
	r.trace = newTracer(r.e.now)
	r.parts = r.facts.parts()
	r.markOpaque()
	r.verdicts = make([]partVerdict, len(r.parts))
	r.allowRules()
	r.readOnly()
	r.modeStage()
	r.defaultStage()
	r.trace = trace
}

// commandDecisions gives each listed command its own verdict.
func (r *run) commandDecisions() []CommandDecision {
	out := make([]CommandDecision, 0, len(r.facts.commands))
	byCommand := make(map[int]partVerdict, len(r.parts))
	for i, p := range r.parts {
		if p.kind == partCommand && i < len(r.verdicts) {
			byCommand[p.index] = r.verdicts[i]
		}
	}
	left := maxShown
	for i := range r.facts.commands {
		c := r.facts.commands[i].cmd
		if len(c.Argv) == 0 {
			continue
		}
		argv := make([]string, len(c.Argv))
		for j, w := range c.Argv {
			argv[j] = shorten(strings.ReplaceAll(w.Text, bash.Hole, unknownMark), max(min(maxShownWord, left), maxShownText))
			left -= len(argv[j])
		}
		cd := CommandDecision{Argv: argv, Via: c.Via, Verdict: r.verdict, Reason: r.reason}
		if pv, ok := byCommand[i]; ok && pv.decided {
			cd.Verdict, cd.Reason = pv.verdict, pv.reason
		} else if len(r.parts) > 0 && !ok {
			cd.Verdict, cd.Reason = Allow, DefaultReason{Text: "does nothing but what is listed beside it"}
		}
		if why := r.floorCommand[i]; why != nil {
			cd.Verdict, cd.Reason = Strictest(cd.Verdict, Ask), why
			if rr, ok := why.(RuleReason); ok && rr.Kind == DenyRule && !rr.Possible {
				cd.Verdict = Deny
			}
		}
		out = append(out, cd)
	}
	return out
}
