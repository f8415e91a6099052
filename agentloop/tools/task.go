package tools

import (
	"context"
	"fmt"
	"strings"
	"time"

	"sandboxd/agentloop"
	"sandboxd/policy"
)

// Limits of the tools of background tasks.
const (
	maxTaskText = 16 << 10         // bytes of output in one answer
	toldAtEnd   = 2000             // bytes of output that the end of a task tells
	maxTaskWait = 60 * time.Second // of bg_task_output
)

// taskRunTool is bg_task_run: a command that goes on beside the turn. It knows
// nothing of the conversation; its end is told to the model as data, before the
// next request.
type taskRunTool struct{}

func (taskRunTool) Name() string { return "bg_task_run" }

// Traits: the start is short, and a failed one is no reason to go on with what was
// asked for beside it (resolution C32).
func (taskRunTool) Traits(policy.Args) agentloop.Traits {
	return agentloop.Traits{SiblingAbort: true, Interrupt: agentloop.InterruptCancel}
}

func (taskRunTool) Schema() agentloop.ToolSchema {
	return schema("bg_task_run", "Starts a Bash script in the background, confined like run_bash, and returns at once with the name of the task. "+
		"For slow work: builds, test suites, servers. Its end is reported to you by itself; do not poll. Tasks end with the session.",
		object{
			{name: "command", kind: "string", text: "The script.", required: true},
			{name: "description", kind: "string", text: "What it does, in a few words."},
			{name: "working_dir", kind: "string", text: "Where it starts; the workspace unless given."},
			{name: "timeout", kind: "integer", text: "Seconds until it is ended; 600 unless given, at most 3600 unless the policy says otherwise."},
		})
}

// Summary is for the classifier.
func (taskRunTool) Summary(args policy.Args) string { return bashTool{}.Summary(args) }

func (taskRunTool) Call(_ context.Context, r *agentloop.ToolRun) (string, error) {
	return startTask(r)
}

// Check reads the arguments.
func (taskRunTool) Check(args policy.Args) error {
	_, _, err := scriptOf(args)
	return err
}

// startTask starts the script of a call in the background and says so.
func startTask(r *agentloop.ToolRun) (string, error) {
	argv, script, err := r.Call.Start()
	if err != nil {
		return "", err
	}
	_, description, err := scriptOf(r.Call.Args)
	if err != nil {
		return "", err
	}
	o := agentloop.TaskOptions{Command: script, Description: description}
	if a := r.Agent(); a != nil {
		o.Ended = func(t *agentloop.Task) { a.Inject(agentloop.OriginBackground, t.State().ID, endOfTask(t)) }
	}
	t, err := r.Background(agentloop.Command{Argv: argv}, o)
	if err != nil {
		return "", err
	}
	s := t.State()
	return fmt.Sprintf("%s runs in the background: %s\nIts end will be told; bg_task_output shows what it printed so far, bg_task_kill ends it.", s.ID, strings.TrimSpace(s.Command)), nil
}

// endOfTask is what the model is told of a task that ended.
func endOfTask(t *agentloop.Task) string {
	s := t.State()
	out := t.Output(-1, toldAtEnd)
	head := fmt.Sprintf("background %s ended: %s\ncommand: %s\n", s.ID, s.Outline(), s.Command)
	switch {
	case out.Next == 0:
		return head + "It printed nothing."
	case out.From > 0:
		return head + fmt.Sprintf("The last of %d bytes of output (bg_task_output shows more):\n%s", s.OutputBytes, out.Text)
	}
	return head + "Output:\n" + out.Text
}

// taskListTool is bg_task_list.
type taskListTool struct{}

func (taskListTool) Name() string                        { return "bg_task_list" }
func (taskListTool) Traits(policy.Args) agentloop.Traits { return readingTraits }

func (taskListTool) Schema() agentloop.ToolSchema {
	return schema("bg_task_list", "Lists the background tasks of this session and how they stand.", object{})
}

func (taskListTool) Call(_ context.Context, r *agentloop.ToolRun) (string, error) {
	var b strings.Builder
	for _, t := range r.Session.Tasks() {
		s := t.State()
		fmt.Fprintf(&b, "%s: %s, %d bytes of output: %s\n", s.ID, s.Outline(), s.OutputBytes, s.Command)
	}
	if b.Len() == 0 {
		return "There are no background tasks.", nil
	}
	return b.String(), nil
}

// taskOutputTool is bg_task_output.
type taskOutputTool struct{}

func (taskOutputTool) Name() string { return "bg_task_output" }

// Traits: it may wait for the task, without taking the place of a call that runs.
func (taskOutputTool) Traits(policy.Args) agentloop.Traits {
	traits := readingTraits
	traits.Unqueued = true
	return traits
}

func (taskOutputTool) Schema() agentloop.ToolSchema {
	return schema("bg_task_output", "Shows what a background task printed since the last time, and how it stands.", object{
		{name: "task", kind: "string", text: "The name of the task, such as task-1.", required: true},
		{name: "offset", kind: "integer", text: "Show the output from this byte on instead."},
		{name: "wait", kind: "integer", text: "Wait up to this many seconds, at most 60, for the task to end first."},
	})
}

func (taskOutputTool) Call(ctx context.Context, r *agentloop.ToolRun) (string, error) {
	t, err := taskOf(r)
	if err != nil {
		return "", err
	}
	wait, err := number(r.Call.Args, "wait", 0, int(maxTaskWait/time.Second))
	if err != nil {
		return "", err
	}
	from, err := number(r.Call.Args, "offset", -1, 1<<40)
	if err != nil {
		return "", err
	}
	if wait > 0 {
		timer := time.NewTimer(time.Duration(wait) * time.Second)
		defer timer.Stop()
		select {
		case <-t.Done():
		case <-timer.C:
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	}
	s := t.State() // before the output: an end that is told has all of it
	var out agentloop.TaskText
	if from < 0 {
		out = t.Unread(maxTaskText)
	} else {
		out = t.Output(int64(from), maxTaskText)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n", s.ID, s.Outline())
	if out.Lost > 0 {
		fmt.Fprintf(&b, "[%d bytes before this are not kept any more]\n", out.Lost)
	}
	b.WriteString(out.Text)
	switch left := t.State().OutputBytes - out.Next; {
	case left > 0:
		fmt.Fprintf(&b, "\n[%d bytes more: call again with offset %d]", left, out.Next)
	case out.Text == "":
		b.WriteString("[no new output]")
	}
	return b.String(), nil
}

// taskKillTool is bg_task_kill.
type taskKillTool struct{}

func (taskKillTool) Name() string { return "bg_task_kill" }

func (taskKillTool) Traits(policy.Args) agentloop.Traits {
	return agentloop.Traits{Unqueued: true, Interrupt: agentloop.InterruptCancel}
}

func (taskKillTool) Schema() agentloop.ToolSchema {
	return schema("bg_task_kill", "Ends a background task with all its processes.", object{
		{name: "task", kind: "string", text: "The name of the task, such as task-1.", required: true},
	})
}

func (taskKillTool) Call(ctx context.Context, r *agentloop.ToolRun) (string, error) {
	t, err := taskOf(r)
	if err != nil {
		return "", err
	}
	if s := t.State(); !s.Running() {
		return fmt.Sprintf("%s had ended before: %s", s.ID, s.Outline()), nil
	}
	if err := t.Kill(ctx); err != nil {
		return "", err
	}
	s := t.State()
	return fmt.Sprintf("%s: %s", s.ID, s.Outline()), nil
}

func taskOf(r *agentloop.ToolRun) (*agentloop.Task, error) {
	id, err := need(r.Call.Args, "task", "task_id", "bash_id", "shell_id")
	if err != nil {
		return nil, err
	}
	return r.Session.Task(id)
}
