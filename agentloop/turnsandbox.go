package agentloop

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"sandboxd/exec"
	"sandboxd/policy"
)

// probeTime bounds the command that tries the sandbox of a session.
const probeTime = 10 * time.Second

// trySandbox starts nothing but true(1), confined as the commands of the session are,
// and says why that does not work. What is wrong then is not the call's.
func (d *Dispatcher) trySandbox(ctx context.Context, s *Session) error {
	if err := d.queue.acquire(ctx, s.peer.UID()); err != nil {
		return nil // not known; the call says what it finds
	}
	defer d.queue.release(s.peer.UID())
	r := &ToolRun{Session: s, d: d, traits: bashTool{}.Traits(nil), result: &ToolResult{lastHop: d.o.Now()}}
	r.Call.Call = policy.Call{ID: NewID("call"), Tool: "run_bash"}
	r.Call.Limits.Timeout = probeTime
	_, err := d.runCommand(ctx, r, Command{Argv: []string{"true"}})
	if setup, ok := errors.AsType[*exec.SetupError](err); ctx.Err() != nil || ok && errors.Is(setup, unix.ENOENT) && setup.Stage == "exec" {
		return nil
	}
	return err
}

// needsSandbox says whether a call that is asked about would be for nothing: the
// sandbox of its session cannot be set up. Nobody is asked then, call after call,
// about what fails whatever is answered. It is tried once, until it has worked.
func (t *turn) needsSandbox(ctx context.Context, u *use) *refusal {
	if t.s.sandboxWorks.Load() || t.s.ownTool(u.tool.Name()) != nil {
		return nil
	}
	if d, _ := t.s.decide(ctx, t.toolCall(u), false); d.Verdict != policy.Ask {
		return nil
	}
	err := t.a.o.Dispatcher.trySandbox(ctx, t.s)
	if err == nil {
		t.s.sandboxWorks.Store(true)
		return nil
	}
	end := sandboxEnd(err)
	t.endWith(end)
	return &refusal{check: "sandbox", text: "not run: " + end.Error, status: StatusFail}
}

// sandboxFailed ends the turn after a call whose confinement could not be set up, if
// that holds for every call: the next ones would fail as it did.
func (t *turn) sandboxFailed(ctx context.Context, res ToolResult) {
	if res.setup == nil || ctx.Err() != nil {
		return
	}
	if err := t.a.o.Dispatcher.trySandbox(ctx, t.s); err != nil {
		t.endWith(sandboxEnd(err))
	}
}

func sandboxEnd(err error) TurnEnd {
	return TurnEnd{Reason: EndSandbox, Error: fmt.Sprintf("the sandbox of this session cannot be set up, so nothing is run and nobody is asked: %v (sbx doctor says what this host can enforce)", err), Err: err}
}
