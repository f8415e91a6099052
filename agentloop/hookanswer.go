package agentloop

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"sandboxd/policy"
)

const (
	// maxHookReason and maxHookContext bound what of a hook's text is handed on,
	// in bytes. Claude Code keeps 10,000 characters of context.
	maxHookReason  = 4000
	maxHookContext = 10_000
)

// hookAnswer is what the JSON object on a hook's standard output says.
type hookAnswer struct {
	decision   string // "", allow, ask or deny: the strictest that it holds
	reason     string
	context    string
	message    string // for the user
	input      policy.Args
	output     *string
	permission string
	tool       string
	stop       bool // continue is false
	stopReason string
}

// errHookAnswer reports standard output that is neither empty nor an answer.
var errHookAnswer = errors.New("its standard output is no answer; print nothing, or one JSON object (docs/hooks.md)")

// answerWords are the words of all clients for a decision.
var answerWords = map[string]string{"allow": "allow", "approve": "allow", "ask": "ask", "deny": "deny", "block": "deny"}

// answerFields are the fields of an answer, of the object and of its
// hookSpecificOutput. A name that is not here is refused: a decision under a
// misspelled name must not be lost.
var answerFields = []string{
	"continue", "stopReason", "suppressOutput", "systemMessage", "decision", "reason", "hookSpecificOutput",
	"hookEventName", "permissionDecision", "permissionDecisionReason", "updatedInput", "additionalContext",
	"updatedToolOutput", "updatedMCPToolOutput", "permission", "tool",
}

// parseHookAnswer reads one JSON object. It refuses names that stand twice.
func parseHookAnswer(text string, kind hookEvent) (a hookAnswer, err error) {
	if !utf8.ValidString(text) {
		return a, fmt.Errorf("%w: not UTF-8", errHookAnswer)
	}
	top, err := policy.DecodeArgs([]byte(text))
	if err != nil {
		return a, fmt.Errorf("%w: %w", errHookAnswer, err)
	}
	if err := a.object(top, kind); err != nil {
		return a, fmt.Errorf("%w: %w", errHookAnswer, err)
	}
	return a, nil
}

// object reads the top object or hookSpecificOutput: what belongs into one of
// them is honoured in the other too.
func (a *hookAnswer) object(o policy.Args, kind hookEvent) error {
	for name, v := range o {
		if !slices.Contains(answerFields, name) {
			return fmt.Errorf("unknown field %q", name)
		}
		if v == nil {
			continue
		}
		if err := a.field(name, v, kind); err != nil {
			return err
		}
	}
	return nil
}

func (a *hookAnswer) field(name string, v any, kind hookEvent) error {
	text := func(to *string) error {
		s, ok := v.(string)
		if !ok {
			return fmt.Errorf("%s is no text", name)
		}
		if s != "" {
			*to = s
		}
		return nil
	}
	switch name {
	case "continue":
		b, ok := v.(bool)
		if !ok {
			return fmt.Errorf("%s is not true or false", name)
		}
		a.stop = a.stop || !b
	case "suppressOutput":
		if _, ok := v.(bool); !ok {
			return fmt.Errorf("%s is not true or false", name)
		}
	case "stopReason":
		return text(&a.stopReason)
	case "systemMessage":
		return text(&a.message)
	case "reason", "permissionDecisionReason":
		return text(&a.reason)
	case "additionalContext":
		return text(&a.context)
	case "permission":
		return text(&a.permission)
	case "tool":
		return text(&a.tool)
	case "hookEventName":
		s, _ := v.(string)
		if e, ok := findHookEvent(s); !ok || e.name != kind.name {
			return fmt.Errorf("hookEventName is %q, and the event is %s", s, kind.name)
		}
	case "hookSpecificOutput":
		o, ok := v.(map[string]any)
		if !ok {
			return fmt.Errorf("%s is no object", name)
		}
		return a.object(o, kind)
	case "updatedInput":
		o, ok := v.(map[string]any)
		if !ok {
			return fmt.Errorf("%s is no object", name)
		}
		if a.input != nil {
			return fmt.Errorf("%s is given twice", name)
		}
		a.input = o
	case "updatedToolOutput", "updatedMCPToolOutput":
		s, ok := v.(string)
		if !ok {
			return fmt.Errorf("%s is no text", name)
		}
		a.output = &s
	case "decision", "permissionDecision":
		return a.decide(name, v)
	}
	return nil
}

// decide takes the strictest of several decisions.
func (a *hookAnswer) decide(name string, v any) error {
	if o, ok := v.(map[string]any); ok { // the form of PermissionRequest
		if _, changes := o["updatedInput"]; changes {
			return errors.New("updatedInput in the answer to a question: the rules would not see it")
		}
		if s, ok := o["message"].(string); ok {
			a.reason = s
		}
		for field := range o {
			if !slices.Contains([]string{"behavior", "message", "interrupt"}, field) {
				return fmt.Errorf("unknown field %q in %s", field, name)
			}
		}
		if b, ok := o["interrupt"].(bool); ok && b {
			a.stop = true
		}
		v = o["behavior"]
	}
	s, ok := v.(string)
	word := answerWords[s]
	if !ok || word == "" {
		return fmt.Errorf("%s is %v; it is allow, ask or deny (or approve, block)", name, v)
	}
	order := []string{"deny", "ask", "allow", ""}
	if slices.Index(order, word) < slices.Index(order, a.decision) {
		a.decision = word
	}
	return nil
}

// answer reads exit status and output as docs/hooks.md says. The error is a
// failure of the hook.
func (h *commandHook) answer(run hookRunResult) (HookOutcome, error) {
	var a hookAnswer
	var bad error
	object := strings.HasPrefix(run.stdout, "{")
	if object {
		a, bad = parseHookAnswer(run.stdout, h.kind)
	}
	switch {
	case run.exitCode == 2:
		return h.exitedTwo(run, a, object && bad == nil), nil
	case run.exitCode != 0:
		if object && bad == nil && a.decision == "deny" {
			return h.outcome(a), nil // as Claude Code has it
		}
		err := fmt.Errorf("exit status %d", run.exitCode)
		if text := bothTexts(run.stderr, run.stdout); text != "" {
			err = fmt.Errorf("exit status %d: %s", run.exitCode, shorten(text, maxHookReason))
		}
		return HookOutcome{}, err
	case bad != nil:
		return HookOutcome{}, bad
	case object:
		return h.outcome(a), nil
	case run.stdout == "":
		return HookOutcome{Action: HookContinue}, nil
	case h.kind.plainContext:
		return HookOutcome{Action: HookContinue, Context: shorten(run.stdout, maxHookContext)}, nil
	case h.kind.failureBlocks:
		return HookOutcome{}, fmt.Errorf("%w: %s", errHookAnswer, shorten(run.stdout, 200))
	}
	return HookOutcome{Action: HookContinue, Message: shorten(run.stdout, maxHookReason)}, nil
}

// exitedTwo is a block with its text from standard error, else from standard
// output; both are shown.
func (h *commandHook) exitedTwo(run hookRunResult, a hookAnswer, answered bool) HookOutcome {
	stdout := run.stdout
	if answered {
		stdout = a.reason
	}
	text := bothTexts(run.stderr, stdout)
	if text == "" {
		text = "blocked without a reason (exit status 2)"
	}
	a.decision, a.reason = "deny", text
	return h.outcome(a)
}

func bothTexts(stderr, stdout string) string {
	if stderr == "" || stdout == "" || stderr == stdout {
		return max(stderr, stdout)
	}
	return stderr + "\n" + stdout
}

// outcome turns an answer into what it means at this event.
func (h *commandHook) outcome(a hookAnswer) HookOutcome {
	if a.stop && a.decision != "deny" {
		a.decision, a.reason = "deny", a.stopReason
		if a.reason == "" {
			a.reason = "the hook ends the session (continue is false)"
		}
	}
	out := HookOutcome{Action: HookContinue, Reason: shorten(a.reason, maxHookReason), Context: shorten(a.context, maxHookContext),
		Message: shorten(a.message, maxHookReason), StopLoop: a.stop, Args: a.input, Output: a.output}
	switch {
	case a.decision == "deny" && (h.kind.blocks || h.kind.name == EventPermissionRequest):
		out.Action = HookBlock
	case a.decision == "deny" && h.kind.name == EventPostToolUse:
		// The call is done: the text goes to the model.
		out.Context = strings.TrimSpace(out.Context + "\n" + out.Reason)
		out.Reason = ""
	case a.decision == "deny":
		out.Message = strings.TrimSpace(out.Message + "\n" + out.Reason)
	case a.decision == "ask" && h.kind.name == EventPreToolUse:
		out.Action, out.Permission, out.Tool = HookPermissionRequired, a.permission, a.tool
	case a.decision == "allow" && h.kind.name == EventPermissionRequest:
		out.Action = HookAllow
	}
	return out
}

// shorten cuts text on a character boundary and says how much is missing.
func shorten(text string, most int) string {
	if len(text) <= most {
		return strings.ToValidUTF8(text, "\uFFFD")
	}
	cut := most
	for cut > 0 && !utf8.RuneStart(text[cut]) {
		cut--
	}
	return strings.ToValidUTF8(text[:cut], "\uFFFD") + fmt.Sprintf(" [%d bytes more]", len(text)-cut)
}
