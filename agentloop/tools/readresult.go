package tools

import (
	"context"
	"fmt"

	"sandboxd/agentloop"
	"sandboxd/policy"
)

// resultTool is read_result: it reads on in a result that was too large for its
// answer. The model names it by the id that the answer gave, never by a path, and
// gets those of its own user alone.
type resultTool struct{}

func (resultTool) Name() string                        { return "read_result" }
func (resultTool) Traits(policy.Args) agentloop.Traits { return readingTraits }

func (resultTool) Schema() agentloop.ToolSchema {
	return schema("read_result", "Reads on in a result that was too large to be shown whole. The shortened result gives the id and the offset.",
		object{
			{name: "id", kind: "string", text: "The id that the shortened result names.", required: true},
			{name: "offset", kind: "integer", text: "The byte at which to begin; 0 unless given."},
			{name: "limit", kind: "integer", text: "How many bytes to read; as many as fit in one answer unless given."},
		})
}

func (resultTool) Call(_ context.Context, r *agentloop.ToolRun) (string, error) {
	id, err := need(r.Call.Args, "id")
	if err != nil {
		return "", err
	}
	offset, err := number(r.Call.Args, "offset", 0, 1<<50)
	if err != nil {
		return "", err
	}
	limit, err := number(r.Call.Args, "limit", 0, 1<<20)
	if err != nil {
		return "", err
	}
	p, err := r.ResultPage(id, int64(offset), limit)
	if err != nil {
		return "", fmt.Errorf("result %q: %w", id, err)
	}
	text := p.Text
	switch {
	case p.Offset >= p.Size:
		return fmt.Sprintf("[nothing: the result ends at byte %d]", p.Size), nil
	case p.Last:
		return text + fmt.Sprintf("\n[bytes %d to %d of %d: this is the end]", p.Offset, p.Next, p.Size), nil
	}
	return text + fmt.Sprintf("\n[bytes %d to %d of %d; read on at offset %d]", p.Offset, p.Next, p.Size, p.Next), nil
}
