package policy

import (
	"encoding/json"
	"time"
)

// StageName names a stage of a decision. The trace of every decision lists all
// stages in this order, deny rules twice.
type StageName string

const (
	StageDeny       StageName = "deny-rules" // on the arguments as given; again on the final ones
	StageHooks      StageName = "hooks"
	StageSafety     StageName = "safety"
	StageAskRules   StageName = "ask-rules"
	StageTool       StageName = "tool"
	StageAllowRules StageName = "allow-rules"
	StageReadOnly   StageName = "read-only"
	StageMode       StageName = "mode"
	StageConfined   StageName = "confined"
	StageClassifier StageName = "classifier"
	StageDefault    StageName = "default"
	StageTransform  StageName = "mode-transform" // dontAsk, bubble
	StagePerson     StageName = "person"
)

// stageOrder is the order of a decision; the second deny stage follows the
// hooks.
var stageOrder = [...]StageName{
	StageDeny, StageHooks, StageDeny, StageSafety, StageAskRules, StageTool, StageAllowRules, StageReadOnly,
	StageMode, StageConfined, StageClassifier, StageDefault, StageTransform, StagePerson,
}

// Stages returns the names of all stages in their order.
func Stages() []StageName { return append([]StageName(nil), stageOrder[:]...) }

// StageResult is what a stage did.
type StageResult string

const (
	StagePassed  StageResult = "passed"  // looked, and said nothing
	StageSaid    StageResult = "said"    // has a verdict, which another stage may make stricter
	StageDecided StageResult = "decided" // its verdict is the decision's
	StageSkipped StageResult = "skipped" // was not asked
)

// Stage is one line of a trace.
type Stage struct {
	Name    StageName
	Result  StageResult
	Verdict Verdict // with StageSaid and StageDecided
	Reason  Reason  // with StageSaid and StageDecided
	Text    string  // a note for people
	Elapsed time.Duration
}

// MarshalJSON writes the fields of the decision object's trace.
func (s Stage) MarshalJSON() ([]byte, error) {
	out := struct {
		Stage   StageName   `json:"stage"`
		Result  StageResult `json:"result"`
		Verdict string      `json:"verdict,omitempty"`
		Reason  *wireReason `json:"reason,omitempty"`
		Text    string      `json:"text,omitempty"`
		Micros  float64     `json:"elapsed_us"`
	}{Stage: s.Name, Result: s.Result, Text: s.Text, Micros: float64(s.Elapsed.Nanoseconds()) / 1000}
	if s.Reason != nil {
		w := wire(s.Reason)
		out.Reason, out.Verdict = &w, s.Verdict.String()
	}
	return json.Marshal(out)
}

// tracer fills a trace in order. Its stages are all there from the start, so a
// stage that was never reached says so.
type tracer struct {
	stages [len(stageOrder)]Stage
	now    func() time.Time
	at     int
}

func newTracer(now func() time.Time) *tracer {
	t := &tracer{now: now}
	for i, name := range stageOrder {
		t.stages[i] = Stage{Name: name, Result: StageSkipped}
	}
	return t
}

// begin enters the next stage with this name; the returned function leaves it.
func (t *tracer) begin(name StageName) (end func()) {
	for i := t.at; i < len(t.stages); i++ {
		if s := &t.stages[i]; s.Name == name && s.Result == StageSkipped {
			t.at = i
			start := t.now()
			s.Result = StagePassed
			return func() { s.Elapsed = t.now().Sub(start) }
		}
	}
	return func() {}
}

// say records a verdict of the current stage.
func (t *tracer) say(v Verdict, r Reason) {
	s := &t.stages[t.at]
	if s.Result == StageSaid && s.Verdict <= v {
		return
	}
	s.Result, s.Verdict, s.Reason = StageSaid, v, r
}

func (t *tracer) note(text string) { t.stages[t.at].Text = text }

// skip enters a stage and marks it as not asked.
func (t *tracer) skip(name StageName, why string) {
	t.begin(name)
	t.stages[t.at].Result, t.stages[t.at].Text = StageSkipped, why
}
