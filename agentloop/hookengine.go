package agentloop

import (
	"context"
	"errors"
	"strings"

	"sandboxd/policy"
)

// PreToolUse returns the hooks of r as the engine asks them for calls of s, for
// policy.Config.Hooks. The engine compares the rules again with arguments that a
// hook changed.
func (r *HookRegistry) PreToolUse(s *Session) []policy.Hook {
	if r == nil {
		return nil
	}
	var out []policy.Hook
	kind, _ := findHookEvent(EventPreToolUse)
	for _, h := range r.order(kind) {
		if sel, ok := h.(selective); ok && sel.event() != EventPreToolUse {
			continue
		}
		out = append(out, engineHook{r, s, h})
	}
	return out
}

// engineHook is one hook as the engine sees it.
type engineHook struct {
	r *HookRegistry
	s *Session
	h Hook
}

func (a engineHook) Name() string            { return a.h.Name() }
func (a engineHook) ContinueOnFailure() bool { return mayFail(a.h) }

// PreToolUse implements [policy.Hook].
func (a engineHook) PreToolUse(ctx context.Context, c policy.Call) (policy.HookResult, error) {
	kind, _ := findHookEvent(EventPreToolUse)
	e := a.r.complete(a.s, HookEvent{Event: EventPreToolUse, Session: c.Session, Agent: c.Agent, Call: c.ID, Tool: c.Tool, Args: c.Args, Cwd: c.Cwd}, kind)
	out, asked, err := askHook(ctx, a.h, kind, e)
	if !asked {
		return policy.HookResult{Action: policy.HookContinue, Skipped: true}, nil
	}
	a.r.tell(a.h, e, out.Message, err != nil)
	if err != nil {
		if mayFail(a.h) {
			a.r.tell(a.h, e, err.Error(), true)
		}
		return policy.HookResult{}, err
	}
	if out.StopLoop && a.s != nil {
		a.s.stopAfter(c.ID, stopText(a.h.Name(), out))
	}
	res := policy.HookResult{Action: policy.HookBlock, Reason: out.Reason, Args: out.Args, Context: out.Context}
	switch out.Action {
	case HookContinue, HookMutateInput, HookMutateOutput, HookAllow:
		res.Action = policy.HookContinue
	case HookPermissionRequired:
		res.Action = policy.HookAsk
		res.Reason = strings.TrimSpace(strings.Join([]string{out.Permission, out.Tool, out.Reason}, " "))
	case HookBlock:
	}
	return res, nil
}

// ErrNoAnswer reports that a PermissionRequest hook leaves the question to
// others.
var ErrNoAnswer = errors.New("the hook has no answer")

// Askers returns the PermissionRequest hooks of r as answerers for s, for
// policy.Config.Askers: each races with the others and with people.
func (r *HookRegistry) Askers(s *Session) []policy.Asker {
	if r == nil {
		return nil
	}
	var out []policy.Asker
	for _, h := range r.hooks {
		if sel, ok := h.(selective); ok && sel.event() == EventPermissionRequest {
			out = append(out, askerHook{r, s, h})
		}
	}
	return out
}

type askerHook struct {
	r *HookRegistry
	s *Session
	h Hook
}

// Ask implements [policy.Asker]. A failure is no answer, which never allows.
func (a askerHook) Ask(ctx context.Context, q policy.Question) (policy.Answer, error) {
	kind, _ := findHookEvent(EventPermissionRequest)
	e := a.r.complete(a.s, HookEvent{Event: EventPermissionRequest, Session: q.Call.Session, Agent: q.Call.Agent, Call: q.Call.ID,
		Tool: q.Call.Tool, Args: q.Call.Args, Cwd: q.Call.Cwd}, kind)
	if q.Reason != nil {
		e.Reason = q.Reason.String()
	}
	out, asked, err := askHook(ctx, a.h, kind, e)
	if !asked {
		return policy.Answer{}, ErrNoAnswer
	}
	a.r.tell(a.h, e, out.Message, err != nil)
	if err != nil {
		a.r.tell(a.h, e, err.Error(), true)
		return policy.Answer{}, err
	}
	switch out.Action {
	case HookAllow:
		return policy.Answer{Verdict: policy.Allow, By: "hook " + a.h.Name()}, nil
	case HookBlock:
		by := "hook " + a.h.Name()
		if out.Reason != "" {
			by += ": " + out.Reason
		}
		return policy.Answer{Verdict: policy.Deny, By: by}, nil
	case HookPermissionRequired, HookMutateInput, HookMutateOutput, HookContinue:
	}
	return policy.Answer{}, ErrNoAnswer
}
