package agentloop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"sandboxd/policy"
)

// auditPreview is how many characters of the output a row keeps.
const auditPreview = 200

// maxAuditArgs bounds the arguments in a row, in bytes of JSON.
const maxAuditArgs = 8 << 10

// record makes the row of the decision durable. It reports whether the call may
// go on; if not, all is said.
func (h *handling) record(ctx context.Context) bool {
	if h.recorded {
		return true
	}
	h.recorded = true
	h.d.o.Metrics.decided(h.res.Decision)
	if h.s.local() && h.d.o.Audit == nil {
		h.hop(hopRecord, "nothing is recorded")
		return true
	}
	h.s.events.Publish(EventCallDecided, h.decidedEvent())
	row := h.row()
	row.Status = decisionStatus(h.res.Decision)
	err := h.append(ctx, row)
	h.hop(hopRecord, "")
	if err == nil || h.goesOn(err) {
		return true
	}
	if h.res.Decision.Verdict == policy.Allow {
		h.d.o.Metrics.add(1, "sandboxd_refused_total", "unrecorded")
		h.fail(fmt.Errorf("nothing was run: %w", err))
		h.res.Status = StatusFail
		h.finished()
	}
	return false
}

// goesOn reports whether the call goes on without the row that err is about, and says
// so in its result.
func (h *handling) goesOn(err error) bool {
	if !h.s.runsUnrecorded(h.d.o.RunUnrecorded) {
		return false
	}
	h.noteOnce(fmt.Sprintf("not recorded: %v", err))
	return true
}

// noteOnce puts a note into the result, unless it is there.
func (h *handling) noteOnce(note string) {
	if !slices.Contains(h.res.Notes, note) {
		h.res.Notes = append(h.res.Notes, note)
	}
}

// append writes a row.
func (h *handling) append(ctx context.Context, row AuditRecord) error {
	if h.d.o.Audit == nil {
		return nil
	}
	_, err := h.d.o.Audit.Append(ctx, row)
	if err != nil {
		h.d.o.Metrics.add(1, "sandboxd_audit_failures_total")
		if !errors.Is(err, ErrNotRecorded) {
			err = fmt.Errorf("%w: %w", ErrNotRecorded, err)
		}
	}
	return err
}

// row is what both rows of a call have in common.
func (h *handling) row() AuditRecord {
	r := AuditRecord{
		Time: h.d.o.Now().UTC(), UID: h.s.peer.UID(), Session: h.s.id, Call: h.c.ID, Step: h.c.Step, Agent: agentName(h.c.Agent),
		Tool: policy.CanonicalTool(h.c.Tool), Verdict: h.res.Decision.Verdict.String(), Generation: h.res.Generation,
	}
	red := h.kept()
	if reason, err := policy.ReasonJSON(h.res.Decision.Reason); err == nil {
		r.Reason = maskJSON(red, reason)
	}
	r.Args = maskedArgs(red, h.c.Args)
	return r
}

// kept is the mask of the rows of the call: it knows the secrets in its arguments.
func (h *handling) kept() *Redactor {
	if h.mask == nil {
		h.mask = h.s.keptWith(h.c.Args)
	}
	return h.mask
}

// agentName is the agent of a row.
func agentName(agent string) string {
	if agent == "" {
		return "lead"
	}
	return agent
}

// maskedArgs are arguments as they are kept. What is too long is cut text by
// text, so that the row stays one JSON object.
func maskedArgs(red *Redactor, args policy.Args) json.RawMessage {
	masked := red.MaskArgs(args)
	text, err := json.Marshal(masked)
	for limit := maxAuditArgs / 2; err == nil && len(text) > maxAuditArgs && limit > 16; limit /= 2 {
		text, err = json.Marshal(clipValue(map[string]any(masked), limit))
	}
	if err != nil || len(text) > maxAuditArgs {
		return json.RawMessage(`{"omitted":"too long"}`)
	}
	return text
}

func clipValue(v any, limit int) any {
	switch v := v.(type) {
	case string:
		if len(v) > limit {
			return firstCharacters(v, limit/4) + fmt.Sprintf("[... %d bytes in all]", len(v))
		}
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = clipValue(v[i], limit)
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(v))
		for k := range v {
			out[k] = clipValue(v[k], limit)
		}
		return out
	}
	return v
}

// firstCharacters cuts s after n characters.
func firstCharacters(s string, n int) string {
	for i := range s {
		if n == 0 {
			return s[:i]
		}
		n--
	}
	return s
}

func decisionStatus(d policy.Decision) Status {
	switch r := d.Reason.(type) {
	case policy.HookReason:
		if d.Verdict == policy.Deny {
			return StatusBlocked
		}
	case policy.TimeoutReason:
		return StatusTimeout
	case policy.SafetyReason:
		if r.Check == "cancelled" {
			return StatusCancelled
		}
	}
	if d.Verdict == policy.Allow {
		return StatusAllow
	}
	return StatusDeny
}

// answer makes the row of the end and tells the session.
func (h *handling) answer() {
	if h.s.local() && h.d.o.Audit == nil {
		h.hop(hopAnswer, "nothing is recorded")
		return
	}
	row := h.row()
	row.Status, row.ElapsedMS = h.res.Status, h.d.o.Now().Sub(h.start).Milliseconds()
	h.end(&row, h.res.Output)
	if err := h.append(context.Background(), row); err != nil && h.res.Err == nil && !h.goesOn(err) {
		h.fail(fmt.Errorf("the call ended, and its end could not be recorded: %w", err))
	}
	h.hop(hopAnswer, "")
	h.finished()
}

// end puts what became of the call into its last row.
func (h *handling) end(row *AuditRecord, output string) {
	row.OutputPreview = firstCharacters(h.printed(h.kept(), output), auditPreview)
	if h.res.Exec != nil {
		text, _ := json.Marshal(h.res.Exec.Enforced)
		row.Enforced = maskJSON(h.kept(), text)
	}
	text, _ := json.Marshal(h.denials())
	row.Denials = maskJSON(h.kept(), text)
}

// printed is an output, masked, with what went straight to its reader before it.
func (h *handling) printed(red *Redactor, output string) string {
	output = red.Mask(output)
	if head := h.c.IO.Printed; head != nil && h.res.Ran {
		output = head.preview(red) + output
	}
	return output
}

// denials is what was refused or found at the end of a call, for its row.
func (h *handling) denials() any {
	return struct {
		Added    []Line         `json:"added,omitempty"`
		Detected []GuardFinding `json:"detected,omitempty"`
		Error    string         `json:"error,omitempty"`
	}{h.res.Plan.Added, h.res.Detected, h.res.Error}
}

// noteChange tells people that the call is not the one that was asked for.
func (h *handling) noteChange(args policy.Args) {
	h.changed = true
	text := string(maskedArgs(h.s.secrets, args))
	if startsCommand(h.c.Tool) {
		if script, err := oneText(args, "command", "cmd", "script"); err == nil {
			text = h.s.masked(script)
		}
	}
	h.res.Notes = append(h.res.Notes, "a hook changed the call, which is now: "+clipLine(text))
}

// callEvent is the data of the events of a call.
type callEvent struct {
	Call    string          `json:"call_id"`
	Tool    string          `json:"tool"`
	Agent   string          `json:"agent_name,omitempty"`
	Verdict string          `json:"verdict,omitempty"`
	Reason  json.RawMessage `json:"reason,omitempty"`
	Status  Status          `json:"status,omitempty"`
	Error   string          `json:"error,omitempty"`
	Args    json.RawMessage `json:"args,omitempty"`
	// Changed: a hook made it another call than the one that was asked for.
	Changed bool   `json:"changed,omitempty"`
	Output  string `json:"output_preview,omitempty"`
}

func (h *handling) decidedEvent() callEvent {
	e := callEvent{Call: h.c.ID, Tool: policy.CanonicalTool(h.c.Tool), Agent: h.c.Agent, Verdict: h.res.Decision.Verdict.String(), Args: maskedArgs(h.kept(), h.c.Args), Changed: h.changed}
	if reason, err := policy.ReasonJSON(h.res.Decision.Reason); err == nil {
		e.Reason = maskJSON(h.kept(), reason)
	}
	return e
}

// finished tells the session that the call is over.
func (h *handling) finished() {
	if h.s.local() {
		return
	}
	h.d.o.Metrics.add(1, "sandboxd_calls_total", string(h.res.Status))
	h.s.events.Publish(EventCallFinished, callEvent{Call: h.c.ID, Tool: policy.CanonicalTool(h.c.Tool), Agent: h.c.Agent,
		Status: h.res.Status, Error: h.res.Error, Output: firstCharacters(h.printed(h.s.secrets, h.res.Output), auditPreview)})
}
