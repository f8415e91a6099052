package tools

import (
	"context"
	"errors"

	"sandboxd/agentloop"
	"sandboxd/policy"
)

// todoTool is todo_write.
type todoTool struct{}

func (todoTool) Name() string { return "todo_write" }

// Traits are those of requirement 17.
func (todoTool) Traits(policy.Args) agentloop.Traits { return ownStateTraits }

// ownStateTraits are of tools that change the session and nothing outside of it,
// one after the other.
var ownStateTraits = agentloop.Traits{ReadOnly: true, Harmless: true, Interrupt: agentloop.InterruptCancel}

func (todoTool) Schema() agentloop.ToolSchema {
	return schema("todo_write", "Keeps the list of what you mean to do, for work of several steps. The list is shown to the person and survives a compaction. "+
		"It replaces the earlier one.", object{
		{name: "todos", kind: "array", text: "All items, in order.", required: true, items: &object{
			{name: "content", kind: "string", text: "What is to be done.", required: true},
			{name: "status", kind: "string", enum: []string{agentloop.TodoPending, agentloop.TodoInProgress, agentloop.TodoCompleted}, required: true},
		}},
		{name: "merge", kind: "boolean", text: "Change the items that are named, keep the others."},
	})
}

func (todoTool) Call(_ context.Context, r *agentloop.ToolRun) (string, error) {
	a := r.Agent()
	if a == nil {
		return "", errNoLoop
	}
	list, err := a.Todos().Write(r.Call.Args)
	if err != nil {
		return "", err
	}
	a.Publish(agentloop.EventTurnTodos, agentloop.TodoState{Todos: list})
	if len(list) == 0 {
		return "The list is empty.", nil
	}
	return a.Todos().Text(), nil
}

// errNoLoop: the tool works on the conversation of an agent.
var errNoLoop = errors.New("only an agent in a conversation can use this tool")
