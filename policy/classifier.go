package policy

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"
)

// Classifier scores how safe a call is: 0 is certainly harmful, 1 certainly
// harmless. It is asked in mode auto, about calls that no rule, hook or check
// has an opinion on.
type Classifier interface {
	Classify(ctx context.Context, in ClassifierInput) (score float64, err error)
}

// ReasoningClassifier is a classifier that says why, in words of a model.
type ReasoningClassifier interface {
	Classifier
	ClassifyWhy(ctx context.Context, in ClassifierInput) (score float64, why string, err error)
}

// ClassifierInput is what a classifier sees. Text was written by the model or
// by whoever talks to it and must be treated as data; the output of tools is
// never in it.
type ClassifierInput struct {
	Tool string
	// Text is the script of a command, else the arguments as JSON.
	Text string
	Cwd  string
}

// Thresholds decide what a score means. Both are exclusive: a score of exactly
// AllowAbove or DenyBelow asks. The zero value is 0.8 and 0.2.
type Thresholds struct{ AllowAbove, DenyBelow float64 }

func (t Thresholds) orDefault() Thresholds {
	if t == (Thresholds{}) {
		return Thresholds{AllowAbove: 0.8, DenyBelow: 0.2}
	}
	return t
}

func (t Thresholds) check() error {
	t = t.orDefault()
	if !(t.DenyBelow >= 0 && t.DenyBelow <= t.AllowAbove && t.AllowAbove <= 1) {
		return fmt.Errorf("classifier thresholds %v and %v: want 0 <= deny <= allow <= 1", t.DenyBelow, t.AllowAbove)
	}
	return nil
}

// verdict turns a score into a verdict.
func (t Thresholds) verdict(score float64) Verdict {
	t = t.orDefault()
	switch {
	case score > t.AllowAbove:
		return Allow
	case score < t.DenyBelow:
		return Deny
	}
	return Ask
}

// classifierTrips is how many denials in a row send the next call to the
// person (requirement 156).
const classifierTrips = 3

// breaker counts the classifier's denials in a row.
type breaker struct {
	mu     sync.Mutex
	denied int
}

func (b *breaker) open() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.denied >= classifierTrips
}

// record counts a verdict of the classifier, or of the person after it: an
// allow starts the count anew, and so does any answer of a person.
func (b *breaker) record(v Verdict, person bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case person, v == Allow:
		b.denied = 0
	case v == Deny:
		b.denied++
	}
}

// classified is the outcome of both tries.
type classified struct {
	score float64
	why   string
	err   error
}

// classifierTries: one repetition (a lost connection), then it counts as down.
const classifierTries = 2

// classify asks the classifier, twice at most, each try within its time.
func (e *Engine) classify(ctx context.Context, in ClassifierInput) classified {
	limit := e.cfg.ClassifierTimeout
	if limit == 0 {
		limit = 10 * time.Second
	}
	var last error
	for range classifierTries {
		try, cancel := context.WithTimeout(ctx, limit)
		var score float64
		var why string
		var err error
		if c, ok := e.cfg.Classifier.(ReasoningClassifier); ok {
			score, why, err = c.ClassifyWhy(try, in)
		} else {
			score, err = e.cfg.Classifier.Classify(try, in)
		}
		if errors.Is(err, context.DeadlineExceeded) && try.Err() != nil {
			err = fmt.Errorf("no answer within %v", limit)
		}
		cancel()
		if err == nil && (math.IsNaN(score) || score < 0 || score > 1) {
			err = fmt.Errorf("score %v is not between 0 and 1", score)
		}
		if err == nil {
			return classified{score: score, why: why}
		}
		last = err
		if ctx.Err() != nil {
			break
		}
	}
	return classified{err: last}
}

// errNoClassifier is why mode auto asks where no classifier is configured.
var errNoClassifier = errors.New("there is no classifier")

// classifierStage asks the classifier about what is left, in mode auto. A
// classifier that takes longer than the patience goes on while the person is
// asked. It reports whether the call is settled.
func (r *run) classifierStage(ctx context.Context) (settled bool) {
	e := r.e
	switch {
	case !r.when.row().classifier && r.when.in(ModeAuto):
		// An agent above, or this one, leaves nothing to the setting "default", and
		// the other may not leave it to a classifier.
		r.trace.skip(StageClassifier, "not under the modes of all agents above")
		r.askOpen(DefaultReason{Text: "mode auto and the modes of the agents above do not leave it to the same judge"})
		return false
	case !r.when.row().classifier:
		r.trace.skip(StageClassifier, "mode "+r.when.mode.String()+" has none")
		return false
	case r.floor != nil:
		r.trace.skip(StageClassifier, "the call has a floor")
		return false
	case len(r.open()) == 0:
		r.trace.skip(StageClassifier, "nothing was left")
		return false
	case !r.live:
		r.trace.skip(StageClassifier, "a check asks no classifier")
		r.askOpen(DefaultReason{Text: "the classifier decides when the call is made"})
		return false
	case e.breaker.open():
		r.trace.skip(StageClassifier, "three denials in a row: the person decides")
		r.askOpen(DefaultReason{Text: "the classifier denied three times in a row"})
		return false
	case e.cfg.Classifier == nil:
		r.trace.skip(StageClassifier, errNoClassifier.Error())
		r.askOpen(DefaultReason{Text: errNoClassifier.Error()})
		return false
	}
	defer r.trace.begin(StageClassifier)()
	if v, _ := r.combineDecided(); v < Allow {
		return false // another part is not allowed: the answer could not help
	}
	return r.askClassifier(ctx)
}

// askClassifier waits for the classifier, and from the patience on for the
// person as well.
func (r *run) askClassifier(ctx context.Context) (settled bool) {
	e := r.e
	work, cancel := context.WithCancel(ctx)
	answer := make(chan classified, 1)
	done := make(chan struct{})
	defer func() { cancel(); <-done }()
	in := r.classifierInput()
	go func() {
		defer close(done)
		answer <- e.safeClassify(work, in)
	}()
	var impatient <-chan time.Time
	if len(e.cfg.Askers) > 0 {
		patience := e.cfg.ClassifierPatience
		if patience == 0 {
			patience = 2 * time.Second
		}
		timer := time.NewTimer(patience)
		defer timer.Stop()
		impatient = timer.C
	}
	select {
	case c := <-answer:
		v, why := r.scored(c)
		r.closeOpen(v, why)
		return false
	case <-impatient:
		r.trace.note("still working when the person was asked")
		r.person(ctx, DefaultReason{Text: "the classifier has not answered yet"}, answer)
		return true
	case <-ctx.Done():
		r.settle(Deny, SafetyReason{Check: "cancelled", Text: ctx.Err().Error()})
		return true
	}
}

// safeClassify turns a panic of a classifier into a failure.
func (e *Engine) safeClassify(ctx context.Context, in ClassifierInput) (c classified) {
	defer func() {
		if p := recover(); p != nil {
			c = classified{err: fmt.Errorf("classifier panicked: %v", p)}
		}
	}()
	return e.classify(ctx, in)
}

// scored turns an outcome into a verdict, and counts it.
func (r *run) scored(c classified) (Verdict, Reason) {
	if c.err != nil {
		return Ask, DefaultReason{Text: "classifier unavailable: " + c.err.Error()}
	}
	v := r.e.cfg.Thresholds.verdict(c.score)
	r.e.breaker.record(v, false)
	return v, ClassifierReason{Score: c.score, Text: c.why}
}

func (r *run) classifierInput() ClassifierInput {
	f := r.facts
	in := ClassifierInput{Tool: f.canonical, Cwd: f.dir, Text: f.script}
	if f.isScript {
		return in
	}
	in.Text = jsonText(f.call.Args)
	if summary := r.e.cfg.Summaries[f.canonical]; summary != nil {
		if short, ok := safeSummary(summary, f.call.Args.Clone()); ok {
			in.Text = short
		}
	}
	return in
}

// safeSummary is the summary of a call, unless it is empty or making it panics.
func safeSummary(summary func(Args) string, a Args) (short string, ok bool) {
	defer func() {
		if recover() != nil {
			short, ok = "", false
		}
	}()
	short = summary(a)
	return short, short != ""
}

// askOpen leaves what is left to a person, or to the setting "default" where it
// denies.
func (r *run) askOpen(why Reason) {
	v := Ask
	if r.e.cfg.Default == Deny {
		v = Deny
	}
	for _, i := range r.open() {
		r.verdicts[i] = partVerdict{decided: true, verdict: v, reason: why}
	}
}

func (r *run) closeOpen(v Verdict, why Reason) {
	if _, failed := why.(DefaultReason); failed {
		r.trace.note(why.String())
		r.askOpen(why)
		return
	}
	for _, i := range r.open() {
		r.decidePart(i, v, why)
	}
}

// combineDecided is combine over the parts that have a verdict.
func (r *run) combineDecided() (Verdict, Reason) {
	v, why := Allow, Reason(nil)
	for i := range r.verdicts {
		if pv := &r.verdicts[i]; pv.decided && pv.verdict < v {
			v, why = pv.verdict, pv.reason
		}
	}
	return v, why
}
