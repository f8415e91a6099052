package tools

import (
	"sandboxd/agentloop"
	"sandboxd/policy"
)

// bashTool is run_bash as a model is offered it.
type bashTool struct{ agentloop.Tool }

func (bashTool) Schema() agentloop.ToolSchema {
	return schema("run_bash", "Runs a Bash script in the workspace, confined by the policy. Its output and exit status are the result. "+
		"Processes that it leaves behind are ended with it.",
		object{
			{name: "command", kind: "string", text: "The script.", required: true},
			{name: "description", kind: "string", text: "What it does, in a few words."},
			{name: "working_dir", kind: "string", text: "Where it starts; the workspace unless given."},
			{name: "timeout", kind: "integer", text: "Seconds until it is ended; 60 unless given, at most 120 unless the policy allows more."},
		})
}

// Summary is for the classifier.
func (bashTool) Summary(args policy.Args) string {
	script, _, _ := text(args, "command", "cmd", "script")
	return script
}
