package policy

import (
	"context"

	"sandboxd/policy/bash"
)

// undecided asks, in order, who may allow the parts of the call. A call with a
// floor passes here too, since its other parts may be denied; only the
// classifier is not asked about it.
func (r *run) undecided(ctx context.Context) {
	r.parts = r.facts.parts()
	r.markOpaque()
	r.verdicts = make([]partVerdict, len(r.parts))
	r.allowRules()
	r.readOnly()
	r.modeStage()
	r.confined()
	if r.classifierStage(ctx) {
		return
	}
	r.defaultStage()
	v, why := r.combine()
	if r.floor != nil {
		if v == Allow || v == Ask {
			v, why = Ask, r.floor
		}
	}
	r.finish(ctx, v, why)
}

// open lists the parts that nothing has decided yet.
func (r *run) open() []int {
	var list []int
	for i := range r.verdicts {
		if !r.verdicts[i].decided {
			list = append(list, i)
		}
	}
	return list
}

func (r *run) decidePart(i int, v Verdict, why Reason) {
	r.verdicts[i] = partVerdict{decided: true, verdict: v, reason: why}
	r.trace.say(v, why)
}

// markOpaque adds what the analyser alone cannot know: targets that could not
// be located, and words of unknown programs that a deny rule is about.
func (r *run) markOpaque() {
	f := r.facts
	for i := range r.parts {
		p := &r.parts[i]
		if p.opaque != "" {
			continue
		}
		switch p.kind {
		case partCommand:
			v := &f.commands[p.index]
			if p.opaque = r.hidden(v); p.opaque == "" {
				p.opaque = r.gitHidden(v)
			}
			for _, j := range f.byCommand[p.index] {
				if a := &f.accesses[j]; a.verb != effectRead && !a.known() && !a.some {
					p.opaque = "unknown target: " + readable(a.raw)
				}
			}
		case partRedirect:
			if a := &f.accesses[p.index]; !a.known() {
				p.opaque = "unknown target: " + readable(a.raw)
			}
		case partTool, partPath, partHost:
		}
	}
}

// hidden: a program that is not in the tables may start any of its arguments,
// so one that a deny or ask rule is about counts as unknown code.
func (r *run) hidden(v *commandView) string {
	if v.cmd.InTable || v.cmd.Kind != bash.Program || r.st.rules == nil || len(v.argv) < 2 {
		return ""
	}
	for _, w := range v.argv[1:] {
		for _, word := range programWords(w.Text) {
			if r.st.rules.table[DenyRule].namesProgram(word) || r.st.rules.table[AskRule].namesProgram(word) {
				return "unknown program " + v.base + " with " + word + " among its arguments"
			}
		}
	}
	return ""
}

// allowRules decides parts by the allow rules.
func (r *run) allowRules() {
	defer r.trace.begin(StageAllowRules)()
	for _, i := range r.open() {
		if m := r.st.allow(r.facts, &r.parts[i], r.when); m.rule != nil {
			r.decidePart(i, Allow, m.reason())
		}
	}
}

// readOnly decides what only reads, inside the roots.
func (r *run) readOnly() {
	defer r.trace.begin(StageReadOnly)()
	for _, i := range r.open() {
		if reads, inside := r.reads(&r.parts[i]); reads && inside {
			text := "only reads, inside the roots"
			if r.parts[i].kind == partTool {
				text = "changes nothing by itself"
			}
			r.decidePart(i, Allow, ModeReason{Mode: r.when.mode, Text: text})
		}
	}
}

// reads reports whether a part only reads, and whether all it names is inside
// the roots or the system directories.
func (r *run) reads(p *part) (reads, inside bool) {
	f := r.facts
	if p.opaque != "" {
		return false, false
	}
	switch p.kind {
	case partTool:
		ok := f.declared && f.tool.ReadOnly && len(f.problems) == 0
		return ok, ok
	case partPath, partRedirect:
		a := &f.accesses[p.index]
		return a.verb == effectRead && a.err == "", a.known() && a.zone >= systemDir
	case partCommand:
		v := &f.commands[p.index]
		if !v.cmd.ReadOnly || !r.usualProgram(v) || r.tellsSecrets(p.index) || v.exports() || !harmlessAssigns(v.cmd.Assigns) || !harmlessAssigns(v.inherits) {
			return false, false
		}
		inside = true
		for _, j := range f.byCommand[p.index] {
			a := &f.accesses[j]
			if a.verb != effectRead && a.zone != discard {
				return false, false
			}
			inside = inside && a.known() && a.zone >= systemDir
		}
		if f.contacts[p.index] {
			return false, false
		}
		return true, inside
	case partHost:
		return false, false
	}
	return false, false
}

// tellsSecrets: the command prints the environment. Only where it was scrubbed,
// in a confined run, is that harmless.
func (r *run) tellsSecrets(command int) bool {
	if r.e.cfg.Confinement != Unconfined {
		return false
	}
	return r.facts.secrets[command]
}

// modeStage applies the line of the mode table.
func (r *run) modeStage() {
	defer r.trace.begin(StageMode)()
	row := r.when.row()
	for _, i := range r.open() {
		p := &r.parts[i]
		if p.kind == partHost && r.granted(&r.facts.hosts[p.index]) {
			r.decidePart(i, Allow, ModeReason{Mode: r.when.mode, Text: "host is granted"})
			continue
		}
		reads, _ := r.reads(p)
		cell := row.write
		if reads {
			cell = row.read
		}
		switch cell {
		case everything:
			if p.opaque == "" || row.unknownCode && r.e.cfg.Confinement == FullyConfined {
				r.decidePart(i, Allow, ModeReason{Mode: r.when.mode})
			}
		case inWorkspace:
			if r.editsWorkspace(p) && !(row.keepsTrees && r.removesTree(p)) {
				r.decidePart(i, Allow, ModeReason{Mode: r.when.mode, Text: "edits inside the workspace"})
			}
		case alwaysAsk:
			r.decidePart(i, Strictest(Ask, max(r.e.cfg.Default, Deny)), ModeReason{Mode: ModePlan, Text: "changes something"})
		case nothing, insideRoots:
		}
	}
}

// granted reports whether policy grants the host. No host list grants nothing.
func (r *run) granted(h *hostAccess) bool {
	if !h.known || h.target.broken != "" {
		return false
	}
	for i := range r.e.hosts {
		if r.e.hosts[i].match(&h.target, false) {
			return true
		}
	}
	return false
}

// editCommands change files as an edit tool does, and nothing else: what mode
// acceptEdits allows when all their targets are in the workspace.
var editCommands = map[string]bool{
	"mkdir": true, "touch": true, "rm": true, "rmdir": true, "mv": true, "cp": true, "ln": true, "sed": true,
	"tee": true, "truncate": true, "install": true,
}

// editsWorkspace reports whether a part changes files in the workspace alone.
func (r *run) editsWorkspace(p *part) bool {
	f := r.facts
	if p.opaque != "" {
		return false
	}
	inside := func(a *access) bool {
		if a.verb == effectRead {
			return a.known() && a.zone >= systemDir
		}
		return a.known() && (a.zone == workspaceDir || a.zone == discard) && a.protected == ""
	}
	switch p.kind {
	case partPath, partRedirect:
		return inside(&f.accesses[p.index])
	case partCommand:
		v := &f.commands[p.index]
		if !editCommands[v.base] || !r.usualProgram(v) || !v.cmd.InTable || !harmlessAssigns(v.cmd.Assigns) || !harmlessAssigns(v.inherits) {
			return false
		}
		for _, j := range f.byCommand[p.index] {
			if !inside(&f.accesses[j]) {
				return false
			}
		}
		return len(f.byCommand[p.index]) > 0
	case partTool, partHost:
	}
	return false
}

// removesTree reports whether a command deletes a directory with all below it, which
// moving one does not.
func (r *run) removesTree(p *part) bool {
	if p.kind != partCommand || r.facts.commands[p.index].base == "mv" {
		return false
	}
	for _, j := range r.facts.byCommand[p.index] {
		if a := &r.facts.accesses[j]; a.verb == effectDelete && a.tree {
			return true
		}
	}
	return false
}

// confined allows a script whose effects are all inside its grant, where the
// kernel holds it to that grant.
func (r *run) confined() {
	switch {
	case !r.e.cfg.AllowConfined:
		r.trace.skip(StageConfined, "not switched on")
		return
	case r.e.cfg.Confinement != FullyConfined:
		r.trace.skip(StageConfined, "confinement is not complete")
		return
	case !r.facts.isScript || !r.facts.declared:
		r.trace.skip(StageConfined, "not a command")
		return
	}
	defer r.trace.begin(StageConfined)()
	if r.floor != nil {
		return
	}
	plan := r.when.in(ModePlan)
	for i := range r.facts.accesses {
		a := &r.facts.accesses[i]
		if a.verb != effectRead && a.zone != discard && (plan || a.known() && a.zone < writeRoot) {
			return
		}
	}
	for i := range r.facts.hosts {
		if !r.granted(&r.facts.hosts[i]) {
			return
		}
	}
	for _, i := range r.open() {
		r.decidePart(i, Allow, ConfinedReason{})
	}
	if plan {
		for i := range r.verdicts { // a question of the mode itself
			if m, ok := r.verdicts[i].reason.(ModeReason); ok && m.Mode == ModePlan && r.verdicts[i].verdict == Ask {
				r.decidePart(i, Allow, ConfinedReason{})
			}
		}
	}
}

// defaultStage decides what is left.
func (r *run) defaultStage() {
	open := r.open()
	if len(open) == 0 {
		r.trace.skip(StageDefault, "nothing was left")
		return
	}
	defer r.trace.begin(StageDefault)()
	for _, i := range open {
		v := r.e.cfg.Default
		if v > Allow {
			v = Deny
		}
		switch {
		case v == Allow && r.parts[i].opaque != "":
			r.decidePart(i, Ask, SafetyReason{Check: "unknown-code", Text: r.parts[i].opaque})
		case v == Allow && !r.facts.declared && len(r.facts.unmatched) > 0 && r.contentRules():
			r.decidePart(i, Ask, SafetyReason{Check: "unmatched", Text: "no rule could be compared with " + r.facts.unmatched[0]})
		case v == Allow && r.when.row().explicit:
			r.decidePart(i, Ask, DefaultReason{Text: "no rule allows it"})
		default:
			r.decidePart(i, v, DefaultReason{Text: r.whyDefault(i, v)})
		}
	}
}

// contentRules reports whether a deny or ask rule about contents could be about
// this tool.
func (r *run) contentRules() bool {
	if r.st.rules == nil {
		return false
	}
	for _, k := range []Kind{DenyRule, AskRule} {
		t := &r.st.rules.table[k]
		if len(t.any) > 0 {
			return true
		}
		for _, c := range t.texts {
			if c.pat.tool.match(r.facts.canonical, r.facts.call.Tool) {
				return true
			}
		}
	}
	return false
}

// whyDefault says what the setting default decided about a part.
func (r *run) whyDefault(i int, v Verdict) string {
	if v == Allow {
		return `default = "allow", and no rule or check is against it`
	}
	why := r.whyUndecided(i)
	if v == Deny {
		return withText(`default = "deny"`, why)
	}
	return why
}

// whyUndecided names what kept a read from being allowed.
func (r *run) whyUndecided(i int) string {
	p := &r.parts[i]
	if p.opaque != "" {
		return p.opaque
	}
	switch p.kind {
	case partPath, partRedirect:
		if a := &r.facts.accesses[p.index]; a.verb == effectRead {
			return "reads outside the roots: " + readable(a.raw)
		} else if p.kind == partRedirect {
			return "no rule allows writing " + readable(a.raw)
		}
	case partCommand:
		v := &r.facts.commands[p.index]
		if reads, _ := r.reads(p); reads {
			return v.base + " reads outside the roots"
		}
		return "no rule allows " + readable(v.loose[0])
	case partTool, partHost:
	}
	return ""
}

// weight orders the reasons for an Allow by how much there is to tell.
func weight(why Reason) int {
	switch why.(type) {
	case DefaultReason:
		return 3
	case RuleReason:
		return 2
	case ConfinedReason, ClassifierReason:
		return 1
	}
	return 0
}

// combine returns the strictest verdict of the parts. Of several that are
// allowed, the one that somebody had to allow gives the reason, not one that
// only reads; what nobody decided (default = "allow") comes before a rule.
func (r *run) combine() (Verdict, Reason) {
	if len(r.verdicts) == 0 {
		return Allow, ModeReason{Mode: r.when.mode, Text: "does nothing outside the shell"}
	}
	v, why := Allow, Reason(nil)
	for i := range r.verdicts {
		pv := &r.verdicts[i]
		if why == nil || pv.verdict < v || pv.verdict == v && v == Allow && weight(pv.reason) > weight(why) {
			v, why = pv.verdict, pv.reason
		}
	}
	return v, why
}
