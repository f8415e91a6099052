package main

import (
	"fmt"

	"sandboxd/agentloop"
	"sandboxd/cmd/sandboxd/api"
)

// beside shows what happens besides the calls of the agent: its sub-agents, its tasks
// in the background, and the list of what it means to do. v.mu is held.
func (v *turnView) beside(e agentloop.Event) {
	switch e.Type {
	case agentloop.EventSubagentStarted:
		if d, err := api.TurnData[agentloop.SubagentStarted](e); err == nil {
			text := safe(d.Description, shownWidth)
			if d.Wanted != "" {
				text += fmt.Sprintf(" (mode %s; %s was asked for)", safe(d.Mode, 20), safe(d.Wanted, 20))
			}
			v.line("%s begins: %s", v.paint.in(bold, safe(d.Agent, 60)), text)
		}
	case agentloop.EventSubagentEnded:
		if d, err := api.TurnData[agentloop.SubagentEnded](e); err == nil {
			v.line("%s ends: %s; %s, %s", v.paint.in(bold, safe(d.Agent, 60)), safe(string(d.End.Reason), 40), counted(d.End.Steps, "step"), counted(d.End.Calls, "call"))
		}
	case agentloop.EventTaskStarted, agentloop.EventTaskEnded:
		if d, err := api.TurnData[agentloop.TaskState](e); err == nil {
			v.line("%s", v.paint.in(dim, safe(d.ID+": "+d.Command+" ["+d.Outline()+"]", shownWidth)))
		}
	case agentloop.EventTurnTodos:
		if d, err := api.TurnData[agentloop.TodoState](e); err == nil {
			v.todos(d)
		}
	}
}

// maxTodos bounds what is shown of a list.
const maxTodos = 20

func (v *turnView) todos(d agentloop.TodoState) {
	for i, t := range d.Todos {
		if i == maxTodos {
			v.line("  %s", v.paint.in(dim, "... "+number(len(d.Todos)-i)+" more"))
			return
		}
		mark := map[string]string{"completed": "x", "in_progress": ">"}[t.Status]
		if mark == "" {
			mark = " "
		}
		v.line("  %s", v.paint.in(dim, "["+mark+"] "+safe(t.Content, shownWidth)))
	}
}
