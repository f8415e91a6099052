package policy

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// Decide answers one call, in the order of docs/policy.md. It has no error: a
// failure on the way is a Deny with that reason. It returns when hooks,
// classifier and person have answered or ctx has ended.
func (e *Engine) Decide(ctx context.Context, c Call) (d Decision) {
	return e.decide(ctx, c, true)
}

// Check decides without asking anybody: no hook is started, no classifier and
// no person is asked, so a question stays the verdict Ask. It also suggests how
// the call could be allowed.
func (e *Engine) Check(ctx context.Context, c Call) Decision {
	return e.decide(ctx, c, false)
}

func (e *Engine) decide(ctx context.Context, c Call, live bool) (d Decision) {
	r := &run{e: e, st: e.state.Load(), live: live, trace: newTracer(e.now)}
	r.when = e.when(r.st)
	defer func() {
		if p := recover(); p != nil {
			r.settle(Deny, SafetyReason{Check: "internal", Text: fmt.Sprintf("bug: %v", p)})
			d = r.decision()
		}
	}()
	r.facts = e.gather(c, r.st.rules)
	r.decide(ctx)
	d = r.decision()
	if d.Verdict != Allow {
		d.Suggest = r.suggest()
	}
	return d
}

// run is one decision on its way.
type run struct {
	e     *Engine
	st    *state
	live  bool
	when  when
	trace *tracer
	facts *facts
	// denied is what the deny rules said about deniedFacts.
	denied      match
	deniedFacts *facts
	// partVerdicts are filled from the parts' stages.
	parts    []part
	verdicts []partVerdict
	// floor is the reason why the call is at least asked about; nil without.
	floor Reason
	// floorCommand are the commands that have a floor of their own.
	floorCommand map[int]Reason
	context      []string
	// gitStarts is what was found, by directory and sub-command.
	gitStarts  map[string]gitStarts
	verdict    Verdict
	reason     Reason
	asked      Reason   // why a person was asked
	effects    *Effects // that a person was told of
	ruleToSave string
}

type partVerdict struct {
	decided bool
	verdict Verdict
	reason  Reason
}

// settle fixes the verdict; the stage that is current decided it.
func (r *run) settle(v Verdict, why Reason) {
	r.verdict, r.reason = v, why
}

func (r *run) decide(ctx context.Context) {
	if ctx.Err() != nil {
		r.settle(Deny, SafetyReason{Check: "cancelled", Text: ctx.Err().Error()})
		return
	}
	possible, denied := r.denyStage()
	if denied {
		return
	}
	if r.hooks(ctx) {
		return
	}
	if possible, denied = r.denyStage(); denied {
		return
	}
	if r.e.cfg.OnlyRules {
		r.onlyRules(ctx)
		return
	}
	if r.safety(possible) {
		return
	}
	r.askRules()
	r.toolRules()
	r.undecided(ctx)
}

// denyStage compares the deny rules with all that is known of the call.
func (r *run) denyStage() (possible match, denied bool) {
	defer r.trace.begin(StageDeny)()
	if r.deniedFacts != r.facts { // else no hook changed anything
		r.denied, r.deniedFacts = r.st.deny(r.facts, r.when), r.facts
	}
	m := r.denied
	switch {
	case m.rule == nil:
	case m.possible:
		return m, false
	default:
		r.trace.say(Deny, m.reason())
		r.settle(Deny, m.reason())
		r.floorOn(m.command, m.reason())
		r.matchedCommands(DenyRule)
		r.describeParts()
		return m, true
	}
	return match{command: -1}, false
}

// hooks runs the chain. The first block ends it.
func (r *run) hooks(ctx context.Context) (blocked bool) {
	if !r.live {
		r.trace.skip(StageHooks, "a check starts no hook")
		return false
	}
	defer r.trace.begin(StageHooks)()
	var said []string
	defer func() { r.trace.note(strings.Join(said, "; ")) }()
	for _, h := range r.e.cfg.Hooks {
		start := r.e.now()
		res, err := h.PreToolUse(ctx, r.facts.call.copy())
		if err == nil && res.Skipped {
			continue
		}
		what, blocked := r.hookSaid(h, res, err)
		said = append(said, fmt.Sprintf("hook %s %s (%s)", h.Name(), what, r.e.now().Sub(start).Round(10*time.Microsecond)))
		if blocked {
			return true
		}
	}
	return false
}

// hookSaid applies the answer of one hook and says in a word what it was.
func (r *run) hookSaid(h Hook, res HookResult, err error) (what string, blocked bool) {
	if err == nil && res.Args != nil {
		res.Args, err = plainArgs(res.Args)
	}
	if err != nil && h.ContinueOnFailure() {
		return "failed: " + err.Error(), false
	}
	if err == nil && res.Context != "" {
		r.context = append(r.context, res.Context)
	}
	why := HookReason{Name: h.Name(), Text: res.Reason}
	switch {
	case err != nil:
		why.Text = "failed: " + err.Error()
	case res.Action == HookContinue, res.Action == HookAsk:
		what = "continued"
		if res.Args != nil {
			c := r.facts.call
			c.Args = res.Args
			r.facts = r.e.gather(c, r.st.rules)
			what = "changed the arguments"
		}
		if res.Action == HookAsk {
			r.trace.say(Ask, why)
			r.raise(why)
			what = "asked for a question"
		}
		return what, false
	}
	r.trace.say(Deny, why)
	r.settle(Deny, why)
	return "blocked", true
}

// raise gives the call a floor. The first reason is the one reported.
func (r *run) raise(why Reason) {
	if r.floor == nil {
		r.floor = why
	}
}

func (r *run) floorOn(command int, why Reason) {
	if command < 0 {
		return
	}
	if r.floorCommand == nil {
		r.floorCommand = map[int]Reason{}
	}
	if r.floorCommand[command] == nil {
		r.floorCommand[command] = why
	}
}

// askRules applies explicit ask rules.
func (r *run) askRules() {
	defer r.trace.begin(StageAskRules)()
	m := r.st.ask(r.facts, r.when)
	if m.rule == nil {
		return
	}
	why := m.reason()
	r.trace.say(Ask, why)
	if r.floor == nil || !m.possible {
		r.floor = why // what the policy says is the better answer to "why"
	}
	r.floorOn(m.command, why)
	r.matchedCommands(AskRule)
}

// toolRules applies the tool's own rule.
func (r *run) toolRules() {
	rule := r.e.cfg.ToolRules[r.facts.canonical]
	if rule == nil {
		r.trace.skip(StageTool, "the tool has no rules of its own")
		return
	}
	defer r.trace.begin(StageTool)()
	if v, text := rule(r.facts.call.Args.Clone()); v != Allow {
		why := SafetyReason{Check: "tool", Text: text}
		r.trace.say(Ask, why)
		r.raise(why)
	}
}

// onlyRules is sbx run: somebody decided already, and only what the policy
// denies or asks about counts.
func (r *run) onlyRules(ctx context.Context) {
	r.askRules()
	if r.floor == nil {
		end := r.trace.begin(StageDefault)
		why := DefaultReason{Text: "run by a person: only deny and ask rules apply"}
		r.trace.say(Allow, why)
		end()
		r.settle(Allow, why)
		return
	}
	r.person(ctx, r.floor, nil)
}

// decision assembles the answer.
func (r *run) decision() Decision {
	d := Decision{Verdict: r.verdict, Reason: r.reason, Mode: r.when.mode, Context: r.context, RuleToSave: r.ruleToSave}
	if r.facts != nil {
		d.CallID, d.Args = r.facts.call.ID, r.facts.call.Args
		d.describe(r.facts)
		if r.effects != nil { // as they were asked about
			d.Uses = r.effects.Uses
		}
		d.Commands = r.commandDecisions()
		d.Env = r.pins()
	}
	if d.Reason == nil {
		d.Verdict, d.Reason = Deny, SafetyReason{Check: "internal", Text: "bug: no stage decided"}
	}
	r.mark(d)
	d.Trace = r.trace.stages[:]
	return d
}

// mark names the stage that decided: the last one that said what was decided.
func (r *run) mark(d Decision) {
	for i := len(r.trace.stages) - 1; i >= 0; i-- {
		s := &r.trace.stages[i]
		if s.Result == StageSaid && s.Verdict == d.Verdict {
			s.Result = StageDecided
			return
		}
	}
}

// DeniesPath reports whether a deny rule covers access to a path, for tools that
// walk directories and must leave out what the call as a whole could not name.
// The path is absolute; links in it are followed.
func (e *Engine) DeniesPath(access Access, path string) (RuleReason, bool) {
	st := e.state.Load()
	if st.rules == nil {
		return RuleReason{}, false
	}
	a := e.access(verbOf(access), path, "/", -1)
	find := finder{when: e.when(st), command: -1, maybe: -1}
	find.onAccess(&st.rules.table[DenyRule], &a)
	if m := find.result(); m.rule != nil {
		return m.reason(), true
	}
	return RuleReason{}, false
}
