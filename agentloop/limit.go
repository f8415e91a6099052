package agentloop

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"sandboxd/policy"
)

// limits bound one turn of one agent: steps, repetitions, steps that bring nothing
// new, tokens, denials, and the [budget] that it shares with its sub-agents. A
// limit that is zero in [AgentLimits] has its default, a negative one is none. It
// is safe for concurrent use.
//
// The loop asks before each step, and tells of each answer and result:
//
//	if err := l.check(); err != nil { ... }
//	for step := 1; ; step++ {
//		s := l.before(step, contextTokens)
//		...                                  // s.End, s.Compact, s.Notices, s.Last
//		l.answer(message, usage)
//		refusal := l.use(tool, args)         // for each use, in order
//		l.result(tool, traits, toolResult)   // for each result
//	}
type limits struct {
	max    AgentLimits
	budget *budget
	up     *limits // of the parent of a sub-agent
	price  *Price
	now    func() time.Time

	mu      sync.Mutex
	repeats repeatDetector
	news    novelty
	denials policy.DenialTracker
	// denied says which limit of denials was reached.
	denied string
	// skipped counts the calls in a row that were not run for being repetitions.
	skipped int
	// compactions are the failures in a row; unproven: the last one said that it
	// worked, and no answer has shown it.
	failed   int
	unproven bool
	// told are the notices that were given: each once, that of the soft limit
	// once for each time it is crossed.
	told map[string]bool
	// lastCost is that of the last answer.
	lastCost float64

	tally tally // with that of sub-agents
}

// tally sums up what was used.
type tally struct {
	mu       sync.Mutex
	usage    Usage
	cost     float64
	unpriced bool // a price was not known
	counted  bool // there was something
}

func (t *tally) add(u Usage, cost float64, priced bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.usage = t.usage.Add(u)
	t.cost += cost
	t.counted, t.unpriced = true, t.unpriced || !priced
}

// total is what the agent and its sub-agents used in this turn. The cost is nil
// when a price is not known.
func (l *limits) total() (Usage, *float64) {
	t := &l.tally
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.unpriced || !t.counted {
		return t.usage, nil
	}
	cost := t.cost
	return t.usage, &cost
}

// stepLimit is what the limits say about the step that is about to begin.
type stepLimit struct {
	// End, without Last, ends the turn now; Why is one line about it. With Last
	// it is how the turn ends after this step.
	End EndReason
	Why string
	// Last: the model must answer without tools.
	Last bool
	// Compact is the kind of compaction that is due before the request: "micro",
	// "auto" or none.
	Compact string
	// Notices are put before the model, as words of the loop.
	Notices []TurnNotice
}

// Kinds of notices.
const (
	noticeLastStep = "last-step"
	noticeTokens   = "tokens"
	noticeCost     = "cost"
	noticeTime     = "time"
)

// maxCompactionFailures in a row open the circuit breaker (requirement 137).
const maxCompactionFailures = 3

// budgetNotice is the share of a budget from which on the model is told.
const budgetNotice = 0.8

// newLimits returns the limits of a turn that begins now. A nil price is unknown.
func newLimits(l AgentLimits, price *Price, now func() time.Time) *limits {
	l = l.OrDefault()
	return limitsWith(l, price, now, newBudget(l, now()))
}

func limitsWith(l AgentLimits, price *Price, now func() time.Time, b *budget) *limits {
	return &limits{
		max: l, budget: b, price: price, now: now,
		repeats: repeatDetector{times: l.Repeats}, news: novelty{seen: map[lineHash]struct{}{}},
		denials: policy.DenialTracker{MaxConsecutive: l.DenialsInARow, MaxTotal: l.DenialsTotal},
		told:    map[string]bool{},
	}
}

// child returns the limits of a sub-agent: detectors and compaction of its own,
// the budget of its parent. own may only tighten what bounds the parent.
func (l *limits) child(own AgentLimits, price *Price) *limits {
	c := limitsWith(own.OrDefault().within(l.max), price, l.now, l.budget)
	c.up = l
	return c
}

// check refuses a turn whose budget could not be held.
func (l *limits) check() error {
	if l.budget.maxCost > 0 && l.price == nil {
		return ErrNoPrice
	}
	return nil
}

// before is asked at the start of a step; context is how many tokens the last
// request and its answer filled, as the provider counts them.
func (l *limits) before(step int, context int64) stepLimit {
	l.mu.Lock()
	defer l.mu.Unlock()
	stale := l.news.endStep()
	if end, why := l.over(); end != "" {
		return stepLimit{End: end, Why: why}
	}
	var s stepLimit
	switch {
	case l.max.HardLimit > 0 && context >= l.max.HardLimit:
		if l.failed >= maxCompactionFailures {
			return stepLimit{End: EndTokens, Why: fmt.Sprintf("%d tokens of at most %d, and compaction failed %d times", context, l.max.HardLimit, l.failed)}
		}
		s.Compact = "auto"
	case l.max.SoftLimit > 0 && context >= l.max.SoftLimit:
		s.Compact = "micro"
		s.Notices = l.notice(s.Notices, noticeTokens, fmt.Sprintf("This conversation fills %d tokens of at most %d. Be brief, and finish what you are at.", context, l.max.HardLimit))
	default:
		delete(l.told, noticeTokens)
	}
	s.Notices = l.budgetNotices(s.Notices)
	s.End, s.Why = l.lastStep(step, stale)
	if s.Last = s.End != ""; s.Last {
		s.Notices = append(s.Notices, TurnNotice{Kind: noticeLastStep,
			Text: "This is the last step (" + s.Why + "). Answer now from what you have: no tool is run any more. Say what is done, what is not, and what you could not find out."})
	}
	return s
}

// over reports a limit that ends the turn at once.
func (l *limits) over() (EndReason, string) {
	if end, why := l.budget.over(l.now(), l.lastCost); end != "" {
		return end, why
	}
	if l.denied != "" {
		return EndDenials, l.denied
	}
	return "", ""
}

// lastStep reports why the step is the last one, or nothing.
func (l *limits) lastStep(step, stale int) (EndReason, string) {
	switch {
	case l.max.Repeats > 0 && l.skipped >= l.max.Repeats:
		return EndRepeated, fmt.Sprintf("%d calls in a row repeated earlier ones", l.skipped)
	case l.max.Stale > 0 && stale >= l.max.Stale:
		return EndDiminishing, fmt.Sprintf("%d steps in a row brought nothing new", stale)
	case l.budget.nearlySpent(l.lastCost):
		return EndCost, "the budget is nearly spent"
	case l.max.MaxSteps > 0 && step >= l.max.MaxSteps:
		return EndMaxSteps, fmt.Sprintf("step %d of %d", step, l.max.MaxSteps)
	}
	return "", ""
}

// notice adds a notice that was not given yet.
func (l *limits) notice(list []TurnNotice, kind, text string) []TurnNotice {
	if l.told[kind] {
		return list
	}
	l.told[kind] = true
	return append(list, TurnNotice{Kind: kind, Text: text})
}

func (l *limits) budgetNotices(list []TurnNotice) []TurnNotice {
	if text := l.budget.costNotice(); text != "" {
		list = l.notice(list, noticeCost, text)
	}
	if text := l.budget.timeNotice(l.now()); text != "" {
		list = l.notice(list, noticeTime, text)
	}
	return list
}

// answer tells of an answer of the model and what it took.
func (l *limits) answer(m Message, u Usage) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.spent(u)
	if l.unproven {
		l.unproven = false
		if l.max.HardLimit > 0 && u.Context() >= l.max.HardLimit {
			l.failed++
		} else {
			l.failed = 0
		}
	}
	for _, b := range m.Blocks {
		l.news.own(b.Text)
		if b.Kind == BlockToolUse {
			l.news.ownArgs(b.Args)
		}
	}
}

// spend counts a request that is no step: a summary, say.
func (l *limits) spend(u Usage) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.spent(u)
}

func (l *limits) spent(u Usage) { l.lastCost = l.spendAside(u, l.price) }

// spendAside counts what another model used on behalf of the agent, at that model's
// price; the next request of the agent is not expected to cost as much.
func (l *limits) spendAside(u Usage, price *Price) (cost float64) {
	cost = l.budget.spend(u, price)
	for at := l; at != nil; at = at.up {
		at.tally.add(u, cost, price != nil)
	}
	return cost
}

// use looks at a call that the model asks for, in the order of the model. A text
// says why it is not run, and is its result.
func (l *limits) use(tool string, args policy.Args) (refusal string) {
	return l.useKey(canonicalCall(tool, args))
}

// useText is use for arguments that are no JSON object.
func (l *limits) useText(tool, args string) (refusal string) {
	return l.useKey(policy.CanonicalTool(tool) + "\x00?" + strings.TrimSpace(args))
}

func (l *limits) useKey(key string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	period := l.repeats.see(key)
	if period == 0 {
		l.skipped = 0
		return ""
	}
	l.skipped++
	what := "This call, with the same arguments,"
	if period > 1 {
		what = fmt.Sprintf("The same %d calls in turn, of which this is one,", period)
	}
	return fmt.Sprintf("not run: %s came %d times in a row; the results stand above. Do something else, or answer with what you have. The end of a background task is told to you by itself.", what, l.max.Repeats)
}

// result tells of the result of a call that was handed to the Dispatcher.
func (l *limits) result(tool string, t Traits, res ToolResult) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if v, counts := countedVerdict(res); counts {
		stop := l.denials.Record(v)
		if v != policy.Allow {
			if all := l.budget.denial(); stop == "" && all != "" {
				stop = all
			}
		}
		if l.denied == "" {
			l.denied = stop
		}
	}
	changes := !t.ReadOnly && policy.CanonicalTool(tool) != "run_bash"
	if changes && res.Status == StatusOK {
		l.news.changed()
	}
	l.news.result(res.Output)
	l.news.result(res.Error)
}

// countedVerdict is the verdict that the denial tracker counts. A call that was
// cancelled, or could not be read, was not denied by anybody.
func countedVerdict(res ToolResult) (v policy.Verdict, counts bool) {
	if r, ok := res.Decision.Reason.(policy.SafetyReason); ok && (r.Check == "cancelled" || r.Check == "arguments") {
		return policy.Deny, false
	}
	if res.Decision.Verdict == policy.Allow {
		return policy.Allow, true
	}
	return policy.Deny, true
}

// compacted tells how an automatic compaction ended. One that the next answer
// shows to have saved too little has failed as well.
func (l *limits) compacted(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.unproven = err == nil
	if err != nil {
		l.failed++
	}
}

// within returns l with no bound wider than that of the outer limits.
func (l AgentLimits) within(outer AgentLimits) AgentLimits {
	l.MaxSteps = tighter(l.MaxSteps, outer.MaxSteps)
	l.SoftLimit = tighter(l.SoftLimit, outer.SoftLimit)
	l.HardLimit = tighter(l.HardLimit, outer.HardLimit)
	l.MaxOutput = tighter(l.MaxOutput, outer.MaxOutput)
	l.MaxAnswer = tighter(l.MaxAnswer, outer.MaxAnswer)
	l.DenialsInARow = tighter(l.DenialsInARow, outer.DenialsInARow)
	l.DenialsTotal = tighter(l.DenialsTotal, outer.DenialsTotal)
	l.Repeats = tighter(l.Repeats, outer.Repeats)
	l.Stale = tighter(l.Stale, outer.Stale)
	l.Parallel = tighter(l.Parallel, outer.Parallel)
	l.Depth = tighter(l.Depth, outer.Depth)
	l.Spawns = tighter(l.Spawns, outer.Spawns)
	l.Silence = tighter(l.Silence, outer.Silence)
	l.Cost, l.Time = outer.Cost, outer.Time // one budget
	return l
}

// tighter is the smaller of two limits, of which a negative one is none.
func tighter[T int | int64 | time.Duration](a, b T) T {
	switch {
	case a < 0:
		return b
	case b < 0:
		return a
	}
	return min(a, b)
}
