package api

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"sandboxd/agentloop"
	"sandboxd/exec"
	"sandboxd/policy"
)

// call is one request for a run on its way to the dispatcher.
type call struct {
	q       ExecRequest
	peer    agentloop.Peer
	session *agentloop.Session
	done    func() // lets go of the session
	tool    agentloop.ToolCall
	warn    []string
}

// prepare reads the policy and builds the call. Nothing has run when it fails.
func (s *Server) prepare(ctx context.Context, peer agentloop.Peer, q ExecRequest) (*call, error) {
	if err := q.check(); err != nil {
		return nil, err
	}
	c := &call{q: q, peer: peer, done: func() {}}
	var err error
	if q.Session != "" {
		// Who calls is the session's; only the directory is the call's.
		c.peer.Caller.Cwd, err = agentloop.ClientDir(peer.Caller, string(q.Cwd))
	} else if c.peer.Caller, c.warn, err = agentloop.ClientCaller(peer.Caller.UID, peer.Caller.GID, peer.Caller.Groups, string(q.Cwd), Strings(q.Env)); err != nil {
		return nil, fault(CodeBadRequest, "", "%v", err)
	}
	if err != nil {
		return nil, err
	}
	q.Cwd = Text(c.peer.Caller.Cwd)
	c.q = q
	if c.tool, err = q.toolCall(); err != nil {
		return nil, err
	}
	if q.Session != "" {
		if c.session, err = s.o.Sessions.Get(q.Session, peer); err != nil {
			return nil, sessionFault(err)
		}
		if err := mayAct(c.session, peer); err != nil {
			return nil, err
		}
	} else if c.session, c.done, err = s.execs.take(ctx, c.peer, q); err != nil {
		return nil, sessionFault(err)
	}
	c.tool.Session = c.session.ID()
	return c, nil
}

// toolCall is the call as the dispatcher takes it.
func (q *ExecRequest) toolCall() (agentloop.ToolCall, error) {
	t := agentloop.ToolCall{BestEffort: q.BestEffort}
	var err error
	if t.Tier, err = q.tier(); err != nil {
		return t, err
	}
	switch {
	case len(q.Argv) > 0:
		t.Argv = Strings(q.Argv)
		// Whoever starts a command and says how long it may take, or that it may take
		// any time, is no model's call that has to be clamped.
		t.Attended = q.Attended || q.Grant.Limits.TimeoutMS != 0
		t.Call = policy.ArgvCall(t.Argv, string(q.Cwd))
	case q.Script != "":
		t.Call = policy.BashCall(string(q.Script), string(q.Cwd))
	default:
		args, err := policy.DecodeArgs(q.Args)
		if err != nil {
			return t, fault(CodeBadRequest, "", "%v", err)
		}
		t.Call = policy.Call{Tool: q.Tool, Args: args, Cwd: string(q.Cwd)}
	}
	t.ID = "call-" + strings.ToLower(rand.Text()[:16])
	if q.Session != "" {
		if err := q.inSession(&t); err != nil {
			return t, err
		}
	}
	return t, nil
}

// printTo sends what the command prints to where it is read.
func (c *call) printTo(stdout, stderr io.Writer) {
	head := &agentloop.OutputHead{}
	c.tool.IO.Printed, c.tool.IO.Stdout, c.tool.IO.Stderr = head, head.Tee(stdout), head.Tee(stderr)
}

// run passes the door and makes the answer.
func (s *Server) run(ctx context.Context, c *call) Result {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.base, cancel)()
	res := s.o.Dispatcher.Dispatch(ctx, c.session, c.tool)
	out := c.result(res)
	s.o.Log.Info("call", "session", out.Session, "call", out.Call, "tool", c.tool.Tool, "uid", c.peer.UID(),
		"verdict", res.Decision.Verdict.String(), "status", string(res.Status), "elapsed", res.Elapsed)
	return out
}

// started is the command of a result: what was asked for, unless a hook made it
// another one. A call of a tool has none.
func (c *call) started(decided policy.Args) []string {
	if c.q.Tool != "" {
		return nil
	}
	t := c.tool
	if decided != nil {
		t.Args = decided
	}
	argv, script, err := t.Start()
	if err != nil || len(t.Argv) == 0 || !slices.Equal(argv, t.Argv) {
		return []string{script}
	}
	return argv
}

// named is a call in an error: its command, or its tool and what that is about.
func (c *call) named(argv []string, decided policy.Args) string {
	if c.q.Tool == "" {
		return strings.Join(argv, " ")
	}
	what := c.q.Tool
	for _, name := range []string{"command", "file_path", "path", "url", "pattern"} {
		if text, ok := decided[name].(string); ok {
			return what + " " + text
		}
	}
	return what
}

// result turns what the dispatcher says into the object for the client.
func (c *call) result(res agentloop.ToolResult) Result {
	var run exec.Result
	if res.Exec != nil {
		run = *res.Exec
	}
	argv := c.started(res.Decision.Args)
	var problem *ErrorObject
	switch {
	case res.Decision.Verdict != policy.Allow:
		run.Outcome, run.ExitCode = exec.Refused, ExitRefused
		by := "nobody decided"
		if res.Decision.Reason != nil {
			by = res.Decision.Reason.String()
		}
		problem = &ErrorObject{Stage: "policy", Message: "denied: " + c.named(argv, res.Decision.Args) + ": " + by, Hint: Remedy(res.Decision)}
	case res.Err != nil && !res.Ran:
		e, code := Explain(res.Err)
		problem, run.Outcome, run.ExitCode = &e, exec.NotSetUp, code
		if code == ExitRefused {
			run.Outcome = exec.NotSetUp
		}
	case res.Exec == nil && res.Error != "":
		problem, run.Outcome, run.ExitCode = &ErrorObject{Stage: "tool", Message: res.Error}, exec.NotSetUp, ExitSandbox
	case res.Exec == nil: // a tool that started nothing
		run.Outcome = exec.Exited
	default:
		run.ExitCode = ExitStatus(run)
	}
	if res.Exec == nil { // that of a run has them
		run.Enforced.Weakened = append(run.Enforced.Weakened, res.Plan.Gaps...)
		run.UID, run.GID = c.session.Peer().UID(), c.session.Peer().Caller.GID
	}
	out := NewResult(run, argv)
	out.Error = problem
	out.Call, out.Session, out.Status, out.Generation = c.tool.ID, c.session.ID(), res.Status, res.Generation
	out.Decision, _ = json.Marshal(res.Decision)
	out.Workspace = res.Plan.Workspace
	out.Withheld = list(res.Plan.WithheldEnv)
	out.Warnings = list(append(append(append([]string(nil), c.warn...), res.Plan.Warnings...), res.Notes...))
	out.Detected = list(res.Detected)
	out.Context, out.Trace = res.Context, res.Trace
	if c.q.Tool != "" {
		// What a model gets is masked and went through the hooks; the raw streams of the
		// command would go around them.
		out.Output = res.Output
		out.Stdout.Text, out.Stderr.Text = "", ""
	}
	for _, p := range res.Plan.Protected {
		if rel, err := filepath.Rel(res.Plan.Workspace, p.Path); err == nil && filepath.IsLocal(rel) && p.Level == agentloop.LevelKernel {
			out.Protected = append(out.Protected, rel)
		}
	}
	return out
}
