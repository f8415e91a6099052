package tools

import (
	"context"
	"fmt"

	"sandboxd/agentloop"
	"sandboxd/policy"
)

// compressTool is compress_context.
type compressTool struct{}

func (compressTool) Name() string { return "compress_context" }

// Traits are those of requirement 17.
func (compressTool) Traits(policy.Args) agentloop.Traits { return ownStateTraits }

func (compressTool) Schema() agentloop.ToolSchema {
	return schema("compress_context", "Replaces the conversation so far by a summary, before your next answer, to make room. "+
		"The person's own words and the todo list stay.", object{
		{name: "focus", kind: "string", text: "What the summary must keep."},
	})
}

func (compressTool) Call(ctx context.Context, r *agentloop.ToolRun) (string, error) {
	a := r.Agent()
	if a == nil {
		return "", errNoLoop
	}
	focus, _, err := text(r.Call.Args, "focus")
	if err != nil {
		return "", err
	}
	if len(focus) > maxNoteText {
		return "", fmt.Errorf("a focus of %d bytes: at most %d are taken", len(focus), maxNoteText)
	}
	if _, err := a.Compact(ctx, focus); err != nil {
		return "", err
	}
	return "The conversation is summed up before your next answer.", nil
}
