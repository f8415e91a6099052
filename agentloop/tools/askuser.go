package tools

import (
	"context"
	"errors"
	"fmt"

	"sandboxd/agentloop"
	"sandboxd/policy"
)

// askTool is ask_user: a question to the person, answered in words. What is
// answered is data: it allows nothing.
type askTool struct{}

func (askTool) Name() string { return "ask_user" }

// Traits are those of requirement 18. When it is interrupted the question is taken
// back before it returns, so that nobody answers into nothing. It waits for a
// person and takes no place of a call that runs.
func (askTool) Traits(policy.Args) agentloop.Traits {
	return agentloop.Traits{ReadOnly: true, Harmless: true, Unqueued: true}
}

func (askTool) Schema() agentloop.ToolSchema {
	return schema("ask_user", "Asks the person a question and waits for the answer, two minutes at most. Use it when you cannot decide yourself. "+
		"It is not for permission: a call that needs one asks by itself.", object{
		{name: "question", kind: "string", text: "One question, short.", required: true},
		{name: "options", kind: "array", text: "Up to 8 answers to choose from; the person may answer otherwise."},
	})
}

func (askTool) Call(ctx context.Context, r *agentloop.ToolRun) (string, error) {
	question, err := need(r.Call.Args, "question")
	if err != nil {
		return "", err
	}
	options, err := texts(r.Call.Args, "options")
	if err != nil {
		return "", err
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	go func() {
		select {
		case <-r.Interrupted():
			stop(agentloop.ErrCancelled)
		case <-ctx.Done():
		}
	}()
	answer, err := r.AskText(ctx, agentloop.TextQuestion{Text: question, Options: options})
	switch {
	case errors.Is(err, agentloop.ErrNoAnswerer):
		return "", fmt.Errorf("nobody is there to answer: decide by yourself, and say what you assumed: %w", err)
	case errors.Is(err, agentloop.ErrExpired):
		return "", fmt.Errorf("nobody answered in time: decide by yourself, and say what you assumed: %w", err)
	}
	return answer, err
}
