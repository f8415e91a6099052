package tools

import (
	"context"
	"errors"

	"sandboxd/agentloop"
	"sandboxd/policy"
)

// bashTool is run_bash as a model is offered it.
type bashTool struct{ agentloop.Tool }

func (bashTool) Schema() agentloop.ToolSchema {
	return schema("run_bash", "Runs a Bash script in the workspace, confined by the policy. Its output and exit status are the result. "+
		"Processes that it leaves behind are ended with it; what is to go on runs with run_in_background.",
		object{
			{name: "command", kind: "string", text: "The script.", required: true},
			{name: "description", kind: "string", text: "What it does, in a few words."},
			{name: "working_dir", kind: "string", text: "Where it starts; the workspace unless given."},
			{name: "timeout", kind: "integer", text: "Seconds until it is ended; 60 unless given, at most 120 unless the policy allows more."},
			{name: "run_in_background", kind: "boolean", text: "Start it and go on; its end is told later."},
		})
}

// Summary is for the classifier.
func (bashTool) Summary(args policy.Args) string {
	script, _, _ := text(args, scriptFields...)
	if dir, given, _ := text(args, "working_dir", "cwd", "workdir"); given {
		return "in " + dir + ":\n" + script
	}
	return script
}

// Check reads the arguments.
func (bashTool) Check(args policy.Args) error {
	if _, err := flag(args, "run_in_background", "is_background"); err != nil {
		return err
	}
	if _, err := flag(args, "dangerouslyDisableSandbox"); err != nil {
		return err
	}
	_, _, err := scriptOf(args)
	return err
}

// scriptOf reads the arguments that every call of Bash has.
func scriptOf(args policy.Args) (script, description string, err error) {
	if script, err = need(args, scriptFields...); err != nil {
		return "", "", err
	}
	if v := args["timeout"]; v != nil {
		if n, ok := v.(float64); !ok || n < 0 {
			return "", "", errors.New("argument timeout: want a number of seconds")
		}
	}
	if _, _, err = text(args, "working_dir", "cwd", "workdir"); err != nil {
		return "", "", err
	}
	description, _, err = text(args, "description")
	return script, description, err
}

var scriptFields = []string{"command", "cmd", "script"}

func (t bashTool) Call(ctx context.Context, r *agentloop.ToolRun) (string, error) {
	background, err := flag(r.Call.Args, "run_in_background", "is_background")
	if err != nil {
		return "", err
	}
	if on, err := flag(r.Call.Args, "dangerouslyDisableSandbox"); err != nil {
		return "", err
	} else if on {
		r.Note("dangerouslyDisableSandbox counts for nothing here: every command is confined")
	}
	if !background {
		return t.Tool.Call(ctx, r)
	}
	return startTask(r)
}
