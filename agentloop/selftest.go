package agentloop

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"sandboxd/exec"
	"sandboxd/policy"
)

// SelfTestError reports that something denied could be read under the
// confinement of a new session; the session is not made.
type SelfTestError struct{ Path string }

func (e *SelfTestError) Error() string {
	return fmt.Sprintf("the sandbox does not hold: %s is denied and could be read", e.Path)
}

// SelfTest tries, inside the confinement of a session, to read what the policy
// denies: the first of its denied paths that exists, and otherwise a file that is
// never granted. It also reads something that is granted, so that a sandbox in
// which nothing works does not pass.
func (d *Dispatcher) SelfTest(ctx context.Context, s *Session) error {
	r := &ToolRun{Call: ToolCall{Call: policy.Call{Tool: "run_bash", Cwd: s.workspace}}, Session: s, d: d, result: &ToolResult{}}
	p, err := d.confine(r, Command{Argv: []string{systemProgram("sh"), "-c", ":"}})
	if err != nil {
		return err
	}
	defer p.cleanUp(r)
	denied := deniedInView(p)
	if denied == "" {
		denied = "/etc/shadow"
	}
	return d.tryRead(ctx, p, denied)
}

// tryRead fails when a path can be read under a confinement, and when a granted
// one cannot.
func (d *Dispatcher) tryRead(ctx context.Context, p *confined, denied string) error {
	shell := systemProgram("sh")
	script := `exec 3<"$2" || exit 5; if [ -d "$1" ]; then ls -A -- "$1"; else head -c 1 -- "$1"; fi`
	p.spec.Argv = []string{shell, "-c", script, "self-test", denied, shell}
	p.spec.Limits = exec.Limits{Wall: policy.DefaultCommandTimeout, Tasks: p.spec.Limits.Tasks}
	res, err := d.o.Runner.Run(ctx, p.spec)
	switch {
	case err != nil:
		return err
	case res.Stdout.Bytes > 0:
		return &SelfTestError{Path: denied}
	case res.ExitCode == 5:
		return errors.New("the sandbox does not work: a granted file could not be read: " + strings.TrimSpace(res.Stderr.Text))
	case res.Outcome != exec.Exited:
		return fmt.Errorf("the self-test of the sandbox did not end: %s", res.Outcome)
	}
	return nil
}

// deniedInView is a path that is denied inside of something granted: the case in
// which a mechanism can fail.
func deniedInView(p *confined) string {
	for _, e := range p.spec.View.Entries {
		if e.Access != exec.Deny || !e.Demanded {
			continue
		}
		if slices.ContainsFunc(p.spec.View.Entries, func(up exec.Entry) bool {
			return up.Access >= exec.ReadOnly && up.Path != e.Path && within(e.Path, up.Path)
		}) {
			return e.Path
		}
	}
	return ""
}

// systemProgram names a program of the system, whatever PATH says.
func systemProgram(name string) string {
	for _, dir := range []string{"/usr/bin", "/bin"} {
		if n := readNode(filepath.Join(dir, name)); n.err == nil {
			return filepath.Join(dir, name)
		}
	}
	return name
}
