package agentloop

import "context"

// Masker replaces secrets in a text. A [Redactor] is one.
type Masker interface {
	Mask(text string) string
}

// RedactionHook masks secrets in what a tool returned, before the model and
// before any hook after it sees the output. Without a Masker it takes that of the
// session, which knows the values of the client's variables.
type RedactionHook struct{ Masker Masker }

// withheld stands for an output whose secrets could not be looked for.
const withheld = "[output withheld: looking for secrets in it failed]"

// Name implements [Hook].
func (h RedactionHook) Name() string { return "redaction" }

func (h RedactionHook) event() string           { return EventPostToolUse }
func (h RedactionHook) concerns(HookEvent) bool { return true }

// Handle implements [Hook]. It does not fail: without masking there is no output.
func (h RedactionHook) Handle(_ context.Context, e HookEvent) (out HookOutcome, _ error) {
	if e.Event != EventPostToolUse {
		return HookOutcome{Action: HookContinue}, nil
	}
	defer func() {
		if recover() != nil {
			text := withheld
			out = HookOutcome{Action: HookMutateOutput, Output: &text}
		}
	}()
	masker := h.Masker
	if masker == nil && e.session != nil {
		masker = e.session.secrets
	}
	if masker == nil {
		masker = &Redactor{}
	}
	text := masker.Mask(e.Output)
	if text == e.Output {
		return HookOutcome{Action: HookContinue}, nil
	}
	return HookOutcome{Action: HookMutateOutput, Output: &text, Reason: "a secret was masked"}, nil
}
