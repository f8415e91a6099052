package agentloop

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"sandboxd/exec"
	"sandboxd/policy"
)

// BashTool is run_bash: every dispatcher has it.
func BashTool() Tool { return bashTool{} }

// bashTool runs a script, or one command without a shell.
type bashTool struct{}

func (bashTool) Name() string { return "run_bash" }

// Traits are those of requirement 18: serial, and finished before a cancellation
// takes effect, for which it is asked at once.
func (bashTool) Traits(policy.Args) Traits { return Traits{Interrupt: InterruptTerm} }

func (bashTool) Call(ctx context.Context, r *ToolRun) (string, error) {
	argv, _, err := r.Call.Start()
	if err != nil {
		return "", err
	}
	res, err := r.Command(ctx, Command{Argv: argv})
	if err != nil {
		return "", err
	}
	text := r.out.stdout
	if r.out.stderr != "" {
		if text != "" && !strings.HasSuffix(text, "\n") {
			text += "\n"
		}
		text += r.out.stderr
	}
	text += exitLine(res, r.grant.Limits.Timeout)
	if res.LeftBehind {
		text += "\n[processes that outlived the command were ended]"
	}
	return text, nil
}

// Start is what a call of run_bash or bg_task_run starts, and its script: what its
// arguments say, which were decided. The words of Argv start without a shell only
// while the arguments say exactly them; a hook may have made it another command.
func (c ToolCall) Start() (argv []string, script string, err error) {
	if script, err = oneText(c.Args, "command", "cmd", "script"); err != nil {
		return nil, "", err
	}
	if len(c.Argv) > 0 && policy.ArgvText(c.Argv) == script {
		return slices.Clone(c.Argv), script, nil
	}
	return BashArgv(script), script, nil
}

// BashArgv is how a script is started: without start files, since what a shell reads
// besides is not part of the call.
func BashArgv(script string) []string {
	return []string{"bash", "--noprofile", "--norc", "-c", script}
}

// exitLine tells the model how a command ended that did not succeed.
func exitLine(res *exec.Result, wall time.Duration) string {
	switch {
	case res.Outcome == exec.TimedOut:
		return fmt.Sprintf("\n[timed out after %v]", wall)
	case res.Outcome != exec.Exited:
		return fmt.Sprintf("\n[ended: %s]", res.Outcome)
	case res.ExitCode != 0:
		return fmt.Sprintf("\n[exit status %d]", res.ExitCode)
	}
	return ""
}

// startsCommand says that a tool runs a script of its arguments.
func startsCommand(tool string) bool {
	name := policy.CanonicalTool(tool)
	return name == "run_bash" || name == taskTool
}

// limitTime bounds the wall time of a call: what the call asks for, in its limits
// or its arguments, within what the policy and the defaults allow (requirement
// 107).
func (r *ToolRun) limitTime(l *policy.GrantLimits, ofPolicy policy.GrantLimits) error {
	asked, said := r.Call.Limits.Timeout, time.Duration(0)
	if startsCommand(r.Call.Tool) {
		var err error
		if said, err = askedTime(r.Call); err != nil {
			return err
		}
	}
	if r.Call.Attended {
		if said > 0 && (l.Timeout <= 0 || said < l.Timeout) { // by a hook: nobody who attends says it there
			l.Timeout = said
		}
		return nil
	}
	if asked == 0 {
		asked = said
	}
	wall, note := policy.CallTimeout(r.Call.Tool, asked, ofPolicy.Timeout)
	if note != "" {
		r.Note("%s", note)
	}
	l.Timeout = wall
	return nil
}

// askedTime reads the arguments timeout, in seconds, and timeout_ms. Claude Code's Bash takes
// milliseconds in timeout.
func askedTime(c ToolCall) (time.Duration, error) {
	for _, f := range []struct {
		field string
		unit  time.Duration
	}{{"timeout", time.Second}, {"timeout_ms", time.Millisecond}} {
		v, ok := c.Args[f.field]
		if !ok || v == nil {
			continue
		}
		n, ok := v.(float64)
		if !ok || n < 0 || n != n {
			return 0, fmt.Errorf("argument %s: want a number of %s", f.field, map[time.Duration]string{time.Second: "seconds", time.Millisecond: "milliseconds"}[f.unit])
		}
		unit := f.unit
		if c.Tool == "Bash" {
			unit = time.Millisecond
		}
		const hour = float64(time.Hour)
		return time.Duration(min(n*float64(unit), 24*hour)), nil
	}
	return 0, nil
}

// oneText returns the text of the first of fields that is there. More than one is
// refused: the decision looked at all, and a run can only do one.
func oneText(args policy.Args, fields ...string) (string, error) {
	found, name := "", ""
	for _, f := range fields {
		v, ok := args[f]
		if !ok || v == nil {
			continue
		}
		text, isText := v.(string)
		if !isText {
			return "", fmt.Errorf("argument %s: want a text", f)
		}
		if name != "" {
			return "", fmt.Errorf("arguments %s and %s exclude each other", name, f)
		}
		found, name = text, f
	}
	if name == "" {
		return "", fmt.Errorf("argument %s is missing", fields[0])
	}
	return found, nil
}
