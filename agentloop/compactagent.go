package agentloop

import "context"

// Kinds of a compaction.
const (
	compactMicro  = "micro"
	compactAuto   = "auto"
	compactManual = "manual"
)

// compact makes the conversation smaller while a turn of the agent has the loop. A
// kind of "" in the result says that there was too little to save. After is an
// estimate; the provider's next figure takes its place.
func (a *Agent) compact(ctx context.Context, kind, focus string) (TurnCompaction, error) {
	messages := a.Messages()
	a.mu.Lock()
	t := a.turn
	a.mu.Unlock()
	out := TurnCompaction{Kind: kind, Before: t.context}
	if out.Before == 0 {
		out.Before = contextOf(messages)
	}
	if kind == compactMicro {
		small, ok := microCompact(messages)
		if !ok {
			return TurnCompaction{}, nil
		}
		a.mu.Lock()
		a.conv.messages = small
		a.mu.Unlock()
		out.After = max(out.Before-estimateTokens(messages)+estimateTokens(small), 0)
		return out, nil
	}
	c := compactor{provider: a.o.Provider, model: a.o.Config.Model, limits: a.limits, fire: t.fire, now: a.now}
	done, err := c.summarise(ctx, kind, focus, a.Todos().Text(), messages)
	if done.Usage != (Usage{}) {
		t.usage = t.usage.Add(done.Usage)
		t.limits.spend(done.Usage)
	}
	if err == nil {
		err = a.replaceMessages(ctx, done.Summary, done.Rest)
	}
	if err != nil {
		out.Error = err.Error()
		return out, err
	}
	out.After = max(out.Before-done.Before+done.After, 0)
	return out, nil
}

// contextOf is what the last answer and its request filled, as its provider
// counted, or an estimate.
func contextOf(messages []Message) int64 {
	for i := len(messages) - 1; i >= 0; i-- {
		if u := messages[i].Usage; u != nil {
			return u.Context()
		}
	}
	return estimateTokens(messages)
}
