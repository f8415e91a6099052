package tools

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"sandboxd/agentloop"
	"sandboxd/policy"
)

// subagentTool is subagent: it starts a sub-agent and waits for its answer. What it
// may do is a part of what its parent may; see [agentloop.Agent.Spawn].
type subagentTool struct{}

func (subagentTool) Name() string { return "subagent" }

// Traits are those of requirement 18. It waits for calls of its own, which take
// places among those that run: it takes none itself. An interruption ends the
// sub-agent at its next step (resolution C17).
func (subagentTool) Traits(policy.Args) agentloop.Traits { return agentloop.Traits{Unqueued: true} }

func (subagentTool) Schema() agentloop.ToolSchema {
	return schema("subagent", "Gives one task to a sub-agent, which works on it in a conversation of its own and answers once. It knows nothing of this conversation: "+
		"say all that it needs. It may do no more than you may, and nobody answers its questions. The types stand in your instructions.", object{
		{name: "description", kind: "string", text: "What it is about, in a few words."},
		{name: "prompt", kind: "string", text: "The task, and what the answer should hold.", required: true},
		{name: "subagent_type", kind: "string", text: "A type, as listed; the general one unless given."},
		{name: "tools", kind: "array", text: "The only tools that it may use; unless given, those of its type."},
		{name: "mode", kind: "string", text: "A narrower mode of permissions: plan changes nothing, bubble asks the person."},
		{name: "model", kind: "string", text: "Another model; seldom needed."},
		{name: "max_turns", kind: "integer", text: "How many steps it may take at most."},
	})
}

func (subagentTool) Call(ctx context.Context, r *agentloop.ToolRun) (string, error) {
	req, err := spawnRequest(r.Call.Args)
	if err != nil {
		return "", err
	}
	a := r.Agent()
	if a == nil {
		return "", errors.New("a sub-agent is started by an agent")
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	ended := make(chan struct{})
	defer func() { <-ended }()
	defer stop(nil)
	go func() {
		defer close(ended)
		select {
		case <-r.Interrupted():
			stop(agentloop.ErrCancelled)
		case <-ctx.Done():
		}
	}()
	end, err := a.Spawn(ctx, req)
	if err != nil {
		return "", err
	}
	switch end.Reason {
	case agentloop.EndCompleted:
		return end.Text, nil
	case agentloop.EndMaxSteps, agentloop.EndRepeated, agentloop.EndDiminishing, agentloop.EndCost:
		if end.Text != "" { // it answered because it had to
			return fmt.Sprintf("%s\n[it had to answer: %s]", end.Text, end.Error), nil
		}
	}
	if end.Text != "" {
		return end.Text, fmt.Errorf("the sub-agent ended before it had answered (%s): %s", end.Reason, end.Error)
	}
	if end.Reason == agentloop.EndCancelled {
		return "", fmt.Errorf("the sub-agent gave no answer: %w", agentloop.ErrCancelled)
	}
	return "", fmt.Errorf("the sub-agent gave no answer (%s): %s", end.Reason, end.Error)
}

// Check reads the arguments.
func (subagentTool) Check(args policy.Args) error {
	_, err := spawnRequest(args)
	return err
}

func spawnRequest(args policy.Args) (req agentloop.SpawnRequest, err error) {
	if req.Prompt, err = need(args, "prompt"); err != nil {
		return req, err
	}
	for _, f := range []struct {
		to     *string
		fields []string
	}{
		{&req.Type, []string{"subagent_type", "agent_type", "type", "agent"}}, {&req.Description, []string{"description"}},
		{&req.Mode, []string{"mode"}}, {&req.Model, []string{"model"}},
	} {
		if *f.to, _, err = text(args, f.fields...); err != nil {
			return req, err
		}
	}
	if _, given := args["tools"]; given {
		if req.Tools, err = texts(args, "tools"); err != nil {
			return req, err
		}
		if req.Tools == nil {
			req.Tools = []string{} // none
		}
	}
	if background, err := flag(args, "run_in_background"); err != nil || background {
		return req, errors.Join(err, errors.New("argument run_in_background: a sub-agent is waited for"))
	}
	req.MaxSteps, err = number(args, "max_turns", 0, 1000)
	return req, err
}

// maxAgentsText bounds the list of sub-agents in the system prompt, in bytes.
const maxAgentsText = 8 << 10

// Agents lists the types of sub-agents of a session for the system prompt, bounded,
// as data: their authors wrote names and descriptions. Definitions that cannot be
// used are named with what is wrong.
func Agents(ctx context.Context, s *agentloop.Session) string {
	defs, problems := s.AgentDefs(ctx)
	var b strings.Builder
	left := 0
	add := func(format string, args ...any) {
		line := fmt.Sprintf(format, args...) + "\n"
		if left > 0 || b.Len()+len(line) > maxAgentsText {
			left++
			return
		}
		b.WriteString(line)
	}
	for _, d := range defs {
		from := ""
		if d.Checkout {
			from = " (of this checkout)"
		}
		add("- %s%s: %s", d.Name, from, clip(oneLine(d.Description), maxSkillLine))
	}
	for _, p := range problems {
		add("- not usable: %s", clip(oneLine(p.Error()), maxSkillLine))
	}
	if left > 0 {
		fmt.Fprintf(&b, "[%d more are left out]\n", left)
	}
	return b.String()
}
