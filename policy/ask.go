package policy

import (
	"context"
	"fmt"
	"time"
)

// Asker puts a question to a person, a webhook or a PermissionRequest hook. It
// must return soon after ctx has ended.
type Asker interface {
	Ask(ctx context.Context, q Question) (Answer, error)
}

// Question is what a person is shown.
type Question struct {
	Call    Call // with its final arguments
	Mode    Mode
	Reason  Reason // why it is asked
	Explain Explanation
	// Effects are those that the decision will have, also if the host changes while
	// the question waits.
	Effects Effects
	// Suggest is the rule that "always" would keep; nil when there is none.
	Suggest *Suggestion
}

// Answer is what a person said. Anything but Allow denies.
type Answer struct {
	Verdict Verdict
	// Always: keep Rule. It is the caller's to save, at a level that the person
	// chose.
	Always bool
	Rule   string
	By     string
}

// askTimeout is how long a question waits (requirement 150).
const askTimeout = 120 * time.Second

// askGrace bounds the wait for askers that do not return when they are told.
const askGrace = time.Second

// finish turns a verdict into the decision: the mode's transformation, then the
// person.
func (r *run) finish(ctx context.Context, v Verdict, why Reason) {
	if v != Ask {
		r.settle(v, why)
		return
	}
	switch {
	case r.when.in(ModeDontAsk):
		end := r.trace.begin(StageTransform)
		reason := ModeReason{Mode: ModeDontAsk, Text: why.String()}
		r.trace.say(Deny, reason)
		end()
		r.settle(Deny, reason)
		return
	case r.when.mode == ModeBubble:
		end := r.trace.begin(StageTransform)
		r.trace.say(Ask, ModeReason{Mode: ModeBubble, Text: "the parent's person is asked"})
		end()
	default:
		r.trace.skip(StageTransform, "mode "+r.when.mode.String()+" changes nothing")
	}
	r.person(ctx, why, nil)
}

// askers returns who can answer in the mode of the run.
func (r *run) askers() []Asker {
	if r.facts != nil && r.facts.call.Headless {
		return nil
	}
	if r.when.mode == ModeBubble && !r.e.cfg.OnlyRules {
		if r.e.cfg.Parent == nil {
			return nil
		}
		return []Asker{r.e.cfg.Parent}
	}
	return r.e.cfg.Askers
}

type answered struct {
	answer Answer
	err    error
}

// person asks everybody who can answer; the first answer counts and the others
// are told by their context. With classifier, the outcome of a classifier that
// is still working is one of the answers, within its powers.
func (r *run) person(ctx context.Context, why Reason, classifier <-chan classified) {
	defer r.trace.begin(StagePerson)()
	if !r.live {
		r.trace.say(Ask, why)
		r.settle(Ask, why)
		return
	}
	r.asked = why
	askers := r.askers()
	if len(askers) == 0 {
		r.deny(HeadlessReason{Asked: why})
		return
	}
	limit := r.e.cfg.AskTimeout
	if limit == 0 {
		limit = askTimeout
	}
	work, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	told := r.facts.effects()
	r.effects = &told
	q := Question{Call: r.facts.call.copy(), Mode: r.when.mode, Reason: why, Effects: told, Explain: r.explain(), Suggest: r.suggest()}
	answers := make(chan answered, len(askers))
	for _, a := range askers {
		go func() { answers <- askOne(work, a, q) }()
	}
	left := len(askers)
	r.await(ctx, work, cancel, answers, &left, classifier)
	cancel()
	drain(answers, left)
}

// await takes the first answer. An answer that an asker still returns when it is
// told to stop was given before: the one who gave it was told that it counts.
func (r *run) await(ctx, work context.Context, stop func(), answers <-chan answered, left *int, classifier <-chan classified) {
	var failed error
	for {
		select {
		case got := <-answers:
			*left--
			if got.err == nil {
				r.answer(got.answer)
				return
			}
			failed = got.err
			if *left == 0 && work.Err() == nil {
				r.trace.note("nobody could answer: " + failed.Error())
				r.deny(HeadlessReason{Asked: r.asked, Failed: failed.Error()})
				return
			}
			if *left == 0 {
				r.expired(ctx)
				return
			}
		case c := <-classifier:
			classifier = nil
			v, why := r.scored(c)
			if v == Ask {
				break
			}
			stop()
			if got, ok := given(answers, left); ok {
				r.answer(got)
				return
			}
			r.trace.say(v, why)
			r.settle(v, why)
			return
		case <-work.Done():
			if got, ok := given(answers, left); ok && ctx.Err() == nil {
				r.answer(got)
				return
			}
			r.expired(ctx)
			return
		}
	}
}

func (r *run) expired(ctx context.Context) {
	if err := ctx.Err(); err != nil {
		r.deny(SafetyReason{Check: "cancelled", Text: err.Error()})
		return
	}
	r.deny(TimeoutReason{Asked: r.asked})
}

func (r *run) deny(why Reason) {
	r.trace.say(Deny, why)
	r.settle(Deny, why)
}

func (r *run) answer(a Answer) {
	v := Deny
	if a.Verdict == Allow {
		v = Allow
	}
	why := UserReason{Temporary: !a.Always, By: a.By, Asked: r.asked}
	if a.Always {
		r.ruleToSave = a.Rule
	}
	r.e.breaker.record(v, true)
	r.trace.say(v, why)
	r.settle(v, why)
}

// askOne turns a panic into a failure of this one answerer.
func askOne(ctx context.Context, a Asker, q Question) (got answered) {
	defer func() {
		if p := recover(); p != nil {
			got.err = fmt.Errorf("asker panicked: %v", p)
		}
	}()
	got.answer, got.err = a.Ask(ctx, q)
	return got
}

// given collects what the askers return once they were told to stop, and returns
// the first answer among it.
func given(answers <-chan answered, left *int) (a Answer, ok bool) {
	timer := time.NewTimer(askGrace)
	defer timer.Stop()
	for ; *left > 0; *left-- {
		select {
		case got := <-answers:
			if got.err == nil && !ok {
				a, ok = got.answer, true
			}
		case <-timer.C:
			return a, ok
		}
	}
	return a, ok
}

// drain waits for the askers that lost, within the grace.
func drain(answers <-chan answered, left int) {
	timer := time.NewTimer(askGrace)
	defer timer.Stop()
	for ; left > 0; left-- {
		select {
		case <-answers:
		case <-timer.C:
			return
		}
	}
}
