package agentloop

import (
	"context"
	"fmt"
	"strings"
	"time"

	"sandboxd/exec"
	"sandboxd/policy"
)

const (
	// defaultToolTime and maxToolTime bound a call of run_bash (requirement 107);
	// a policy that sets a longer limit raises the maximum to it.
	defaultToolTime = 60 * time.Second
	maxToolTime     = 120 * time.Second
)

// bashTool runs a script, or one command without a shell.
type bashTool struct{}

func (bashTool) Name() string { return "run_bash" }

// Traits are those of requirement 18: serial, and finished before a
// cancellation takes effect.
func (bashTool) Traits(policy.Args) Traits { return Traits{} }

func (bashTool) Call(ctx context.Context, r *ToolRun) (string, error) {
	argv := r.Call.Argv
	if len(argv) == 0 {
		script, err := oneText(r.Call.Args, "command", "cmd", "script")
		if err != nil {
			return "", err
		}
		// No start files: what a login shell reads is not part of the call.
		argv = []string{"bash", "--noprofile", "--norc", "-c", script}
	}
	if !r.Session.onlyRules() {
		if err := r.limitTime(); err != nil {
			return "", err
		}
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
	return text + exitLine(res, r.grant.Limits.Timeout), nil
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

// limitTime applies the argument timeout: seconds, or milliseconds under the
// names and the fields of clients that count so.
func (r *ToolRun) limitTime() error {
	policyTime := r.grant.Limits.Timeout
	most := max(maxToolTime, policyTime)
	want := r.Call.Limits.Timeout
	if want == 0 {
		asked, err := askedTime(r.Call)
		if err != nil {
			return err
		}
		want = asked
	}
	switch {
	case want == 0 && policyTime > 0:
		want = policyTime
	case want == 0:
		want = defaultToolTime
	case want < 0 || want > most:
		r.Note("timeout %s was clamped to %v", timeText(want), most)
		want = most
	}
	r.Call.Limits.Timeout = want
	return nil
}

func timeText(d time.Duration) string {
	if d < 0 {
		return "none"
	}
	return d.String()
}

// askedTime reads the arguments timeout and timeout_ms. Claude Code's Bash takes
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
