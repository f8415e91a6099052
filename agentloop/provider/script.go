package provider

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"sandboxd/agentloop"
)

// Script is what a scripted model says. Its YAML form is described in
// docs/agent-scripts.md.
type Script struct {
	// Model is the name that answers carry; empty means "script".
	Model string `yaml:"model"`
	// Steps are the answers to the lead's requests, in order.
	Steps []ScriptStep `yaml:"steps"`
	// Others answer requests that the lead did not make: those of sub-agents, of
	// the classifier, for a summary. The first that matches is taken.
	Others []ScriptPart `yaml:"others"`
}

// ScriptPart is a script for some requests. Each conversation, told by its first
// message, is played from the beginning.
type ScriptPart struct {
	// Match is looked for in the system prompt and the first message.
	Match string       `yaml:"match"`
	Steps []ScriptStep `yaml:"steps"`

	match *regexp.Regexp
}

// ScriptStep is one answer, or several to choose from. Patterns are RE2.
type ScriptStep struct {
	// Expect and Reject are looked for in what was received since the last answer:
	// texts as they are, and results as "result of TOOL (STATUS):" and their text.
	Expect string `yaml:"expect"`
	Reject string `yaml:"reject"`
	// ExpectSystem is looked for in the system prompt.
	ExpectSystem string `yaml:"expect_system"`
	// ExpectTools must all be offered.
	ExpectTools []string `yaml:"expect_tools"`
	// ExpectNoTools: the answer must be asked for without tools.
	ExpectNoTools bool `yaml:"expect_no_tools"`
	// When are branches: the first whose pattern is found is the answer.
	When []ScriptBranch `yaml:"when"`
	// Repeat plays the step so many times. Negative: for ever.
	Repeat int `yaml:"repeat"`

	ScriptAnswer `yaml:",inline"`

	expect, reject, system *regexp.Regexp
}

// ScriptBranch is an answer for one case.
type ScriptBranch struct {
	// Match is looked for as Expect is. Empty matches all.
	Match string `yaml:"match"`
	// Stay: the same step is asked again.
	Stay         bool `yaml:"stay"`
	ScriptAnswer `yaml:",inline"`

	match *regexp.Regexp
}

// ScriptAnswer is what the model says. In its texts and arguments {{1}} or {{name}}
// stand for a group of the pattern that matched, {{n}} for the number of the
// answer, {{i}} for that of a repeated call.
type ScriptAnswer struct {
	Say      string       `yaml:"say"`
	Thinking string       `yaml:"thinking"`
	Calls    []ScriptCall `yaml:"calls"`
	// SayTimes repeats Say.
	SayTimes int `yaml:"say_times"`
	// Stop is the reason; empty: what follows from the answer.
	Stop agentloop.StopReason `yaml:"stop"`
	// Usage is what is reported; absent: a quarter of the characters.
	Usage *ScriptUsage `yaml:"usage"`
	// Delay is waited before the answer, Pace between two pieces of it.
	Delay time.Duration `yaml:"delay"`
	Pace  time.Duration `yaml:"pace"`
	// Retries are told before the answer.
	Retries int `yaml:"retries"`
	// Error ends the request, after what is said.
	Error *ScriptError `yaml:"error"`
	// Hang never answers.
	Hang bool `yaml:"hang"`
}

// ScriptCall is a call of a tool.
type ScriptCall struct {
	Tool string         `yaml:"tool"`
	Args map[string]any `yaml:"args"`
	// Raw stands in place of Args, JSON or not.
	Raw *string `yaml:"raw"`
	// ID is that of the call; empty: one is made.
	ID string `yaml:"id"`
	// Times repeats the call, within one answer.
	Times int `yaml:"times"`
}

// ScriptUsage is the usage of one answer.
type ScriptUsage struct {
	Input      int64 `yaml:"input"`
	Output     int64 `yaml:"output"`
	CacheRead  int64 `yaml:"cache_read"`
	CacheWrite int64 `yaml:"cache_write"`
}

// ScriptError is the error of a request.
type ScriptError struct {
	Kind   agentloop.ModelErrorKind `yaml:"kind"`
	Status int                      `yaml:"status"`
	Text   string                   `yaml:"text"`
}

const (
	// maxScriptBytes bounds a script: the time of the YAML parser grows with the
	// square of some inputs.
	maxScriptBytes = 64 << 10
	// maxScriptNesting bounds it, too: eight seconds for 65,000 brackets.
	maxScriptNesting = 500
	// maxScriptTimes bounds what is repeated in one answer, maxScriptSaid its text.
	maxScriptTimes = 10_000
	maxScriptSaid  = 64 << 20
)

// ParseScript reads a script. Unknown keys, patterns that do not compile and
// anchors are errors with their line.
func ParseScript(data []byte) (*Script, error) {
	if len(data) > maxScriptBytes {
		return nil, fmt.Errorf("a script has at most %d bytes, this one has %d", maxScriptBytes, len(data))
	}
	if nested(data) > maxScriptNesting {
		return nil, errors.New("the script is nested too deep")
	}
	file, err := parser.ParseBytes(data, 0)
	if err != nil {
		return nil, yamlError(err)
	}
	for _, doc := range file.Docs {
		var ref refFinder
		if doc.Body != nil {
			ast.Walk(&ref, doc.Body)
		}
		if ref.line != 0 {
			return nil, fmt.Errorf("line %d: anchors and aliases are not taken", ref.line)
		}
	}
	var s Script
	if err := yaml.UnmarshalWithOptions(data, &s, yaml.DisallowUnknownField()); err != nil {
		return nil, yamlError(err)
	}
	return &s, s.Compile()
}

// nested is a bound of how deep a document is nested: by brackets, or by the marks
// of lists and keys on one line. Brackets within texts count, too.
func nested(data []byte) int {
	deepest, open, marks, start := 0, 0, 0, true
	for i, c := range data {
		switch {
		case c == '\n':
			marks, start = 0, true
		case c == '[' || c == '{':
			open++
		case (c == ']' || c == '}') && open > 0:
			open--
		case start && (c == '-' || c == '?' || c == ':') && (i+1 == len(data) || data[i+1] == ' '):
			marks++
		case c != ' ':
			start = false
		}
		deepest = max(deepest, open, marks)
	}
	return deepest
}

// refFinder finds the first anchor or alias.
type refFinder struct{ line int }

func (f *refFinder) Visit(n ast.Node) ast.Visitor {
	switch n.Type() {
	case ast.AnchorType, ast.AliasType, ast.MergeKeyType:
		if f.line == 0 {
			f.line = n.GetToken().Position.Line
		}
	}
	return f
}

func yamlError(err error) error {
	var at yaml.Error
	if errors.As(err, &at) && at.GetToken() != nil {
		return fmt.Errorf("line %d: %s", at.GetToken().Position.Line, at.GetMessage())
	}
	return errors.New(strings.SplitN(err.Error(), "\n", 2)[0])
}

// Compile checks a script that was built in Go, as ParseScript does.
func (s *Script) Compile() error {
	if len(s.Steps) == 0 && len(s.Others) == 0 {
		return errors.New("the script has no steps")
	}
	if err := compileSteps("steps", s.Steps); err != nil {
		return err
	}
	for i := range s.Others {
		o := &s.Others[i]
		where := fmt.Sprintf("others[%d]", i+1)
		if o.Match == "" {
			return fmt.Errorf("%s: match is missing", where)
		}
		if err := pattern(&o.match, where+".match", o.Match); err != nil {
			return err
		}
		if err := compileSteps(where+".steps", o.Steps); err != nil {
			return err
		}
	}
	return nil
}

func compileSteps(where string, steps []ScriptStep) error {
	for i := range steps {
		if err := steps[i].compile(fmt.Sprintf("%s[%d]", where, i+1)); err != nil {
			return err
		}
	}
	return nil
}

func (s *ScriptStep) compile(where string) error {
	err := errors.Join(pattern(&s.expect, where+".expect", s.Expect), pattern(&s.reject, where+".reject", s.Reject),
		pattern(&s.system, where+".expect_system", s.ExpectSystem))
	if err != nil {
		return err
	}
	if len(s.When) == 0 {
		return s.ScriptAnswer.check(where)
	}
	if !s.ScriptAnswer.empty() {
		return fmt.Errorf("%s: an answer beside when; put it into a branch", where)
	}
	for i := range s.When {
		b := &s.When[i]
		at := fmt.Sprintf("%s.when[%d]", where, i+1)
		if err := pattern(&b.match, at+".match", b.Match); err != nil {
			return err
		}
		if err := b.ScriptAnswer.check(at); err != nil {
			return err
		}
	}
	return nil
}

func pattern(to **regexp.Regexp, where, text string) error {
	if text == "" {
		return nil
	}
	re, err := regexp.Compile(text)
	if err != nil {
		return fmt.Errorf("%s: %w", where, err)
	}
	*to = re
	return nil
}

func (a *ScriptAnswer) empty() bool {
	return a.Say == "" && a.Thinking == "" && len(a.Calls) == 0 && a.Error == nil && !a.Hang
}

// stops are the reasons that a script may name.
var stops = []agentloop.StopReason{"", agentloop.StopEnd, agentloop.StopTools, agentloop.StopLength, agentloop.StopRefusal, agentloop.StopOther}

// errorKinds are the kinds that a script may name.
var errorKinds = []agentloop.ModelErrorKind{agentloop.ModelBadKey, agentloop.ModelUnknown, agentloop.ModelTooLong, agentloop.ModelRateLimited,
	agentloop.ModelOverloaded, agentloop.ModelCut, agentloop.ModelUnreachable, agentloop.ModelBadRequest, agentloop.ModelBadAnswer}

func (a *ScriptAnswer) check(where string) error {
	switch {
	case !slices.Contains(stops, a.Stop):
		return fmt.Errorf("%s: stop %q: want one of %q", where, a.Stop, stops[1:])
	case a.Error != nil && !slices.Contains(errorKinds, a.Error.Kind):
		return fmt.Errorf("%s: error kind %q: want one of %q", where, a.Error.Kind, errorKinds)
	case a.SayTimes < 0 || a.SayTimes > maxScriptSaid:
		return fmt.Errorf("%s: say_times is 0 to %d", where, maxScriptSaid)
	case a.Retries < 0 || a.Retries > maxScriptTimes:
		return fmt.Errorf("%s: retries is 0 to %d", where, maxScriptTimes)
	case a.Delay < 0 || a.Pace < 0:
		return fmt.Errorf("%s: a negative time", where)
	}
	calls := 0
	for _, c := range a.Calls {
		calls += max(c.Times, 1)
		switch {
		case c.Args != nil && c.Raw != nil:
			return fmt.Errorf("%s: a call of %s has args and raw", where, c.Tool)
		case c.Times < 0 || calls > maxScriptTimes:
			return fmt.Errorf("%s: an answer has at most %d calls", where, maxScriptTimes)
		}
	}
	return nil
}
