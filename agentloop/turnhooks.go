package agentloop

import (
	"context"
	"fmt"
)

// maxGoneOn is how often Stop hooks can make one turn go on.
const maxGoneOn = 3

// fire asks the hooks of an event of the turn; what they tell the model waits for
// the next request. A hook that wants the loop to end has it ended.
func (t *turn) fire(ctx context.Context, e HookEvent) HookChainResult {
	e.Session, e.Agent, e.AgentType, e.Cwd = t.s.id, t.a.o.Path, t.a.o.Type, t.s.workspace
	chain := t.a.o.Dispatcher.o.Hooks.Fire(ctx, t.s, e)
	for _, text := range chain.Context {
		t.a.Inject(OriginHook, e.Event, text)
	}
	if chain.StopLoop {
		t.endWith(TurnEnd{Reason: EndHook, Error: chain.StopReason})
	}
	return chain
}

// submit gives the prompt to the hooks and into the conversation.
func (t *turn) submit(ctx context.Context, prompt string) *TurnEnd {
	for _, text := range t.s.greet() {
		t.a.Inject(OriginHook, EventSessionStart, text)
	}
	origin := OriginModel // the task of a sub-agent: no person wrote it
	if t.a.o.Path == "" {
		origin = OriginUser
		chain := t.fire(ctx, HookEvent{Event: EventUserPromptSubmit, Prompt: prompt})
		if ctx.Err() != nil {
			return t.broken(ctx)
		}
		if chain.Blocked {
			return &TurnEnd{Reason: EndHook, Error: fmt.Sprintf("hook %s blocked the prompt: %s", chain.By, chain.Reason)}
		}
	}
	if err := t.a.beginTurn(ctx, prompt); err != nil {
		return storeEnd(err)
	}
	m := TextMessage(RoleUser, origin, prompt)
	m.Time = t.a.now().UTC()
	return t.say(ctx, m)
}

// stepComplete tells the hooks that a step is over.
func (t *turn) stepComplete(ctx context.Context) *TurnEnd {
	if ctx.Err() == nil {
		t.fire(ctx, HookEvent{Event: EventStepComplete, Step: t.step})
	}
	return t.broken(ctx)
}

// fireStop tells the hooks that the loop stops.
func (t *turn) fireStop(ctx context.Context, why EndReason) HookChainResult {
	event := EventStop
	if t.a.o.Path != "" {
		event = EventSubagentStop
	}
	return t.a.o.Dispatcher.o.Hooks.Fire(ctx, t.s, HookEvent{Event: event, Session: t.s.id, Agent: t.a.o.Path, AgentType: t.a.o.Type, Cwd: t.s.workspace,
		Step: t.step, Reason: string(why), LastMessage: t.text, StopHookActive: t.goneOn > 0})
}

// fireEnd is fireStop for a turn that did not complete. Its own context may have
// ended; where it was cut off, it does not wait for long.
func (t *turn) fireEnd(ctx context.Context, why EndReason, cut bool) {
	ctx = context.WithoutCancel(ctx)
	if cut {
		short, cancel := context.WithTimeout(ctx, stopHookTime)
		defer cancel()
		ctx = short
	}
	t.fireStop(ctx, why)
}

// completed ends a turn whose model has answered, unless a Stop hook wants it to go
// on. Its reason is told to the model as data.
func (t *turn) completed(ctx context.Context, answer ModelAnswer) *TurnEnd {
	end := &TurnEnd{Reason: EndCompleted}
	switch {
	case answer.Stop == StopLength:
		end.Error = "the answer was cut at its limit of tokens"
	case len(answer.Message.Blocks) == 0:
		end.Error = "the model gave an empty answer"
	}
	chain := t.fireStop(ctx, EndCompleted)
	if ctx.Err() != nil {
		return t.broken(ctx)
	}
	if !chain.Blocked || chain.StopLoop {
		return end
	}
	if t.goneOn == maxGoneOn {
		t.events.send(EventTurnNotice, TurnNotice{Kind: "stop-hook", Text: fmt.Sprintf("hook %s wants the loop to go on once more; it has %d times", chain.By, maxGoneOn)})
		return end
	}
	t.goneOn++
	t.a.Inject(OriginHook, EventStop, chain.Reason)
	return nil
}
