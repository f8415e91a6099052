package agentloop

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"sandboxd/exec"
	"sandboxd/policy"
)

// serverTool is the name of the rows of servers in the audit log.
const serverTool = "mcp"

const (
	// maxServerProcesses bounds the servers of one session that run at once.
	maxServerProcesses = 32
	// serverStderr is how much of a server's standard error is kept, the newest.
	serverStderr = 4 << 10
)

// Events of server processes; their data names the server.
const (
	EventServerStarted = "mcp.started"
	EventServerEnded   = "mcp.ended"
)

// ServerCommand is a program that answers requests on its standard streams for as
// long as its session wants it.
type ServerCommand struct {
	Name string
	Argv []string
	// Env are variables besides those of the policy, as NAME=VALUE.
	Env []string
	// Network replaces what the policy grants. Write lets it write the workspace.
	Network []string
	Write   bool
	// From says who named the server, for the audit log.
	From string
}

// ServerProcess is a server that was started. Its methods may be called at the same
// time.
type ServerProcess struct {
	// Stdin and Stdout are connected to it. Closing them is the caller's.
	Stdin  io.WriteCloser
	Stdout io.ReadCloser

	name string
	kill context.CancelCauseFunc
	done chan struct{}

	mu     sync.Mutex
	stderr []byte
	result *exec.Result
	err    error
}

// StartServer starts a server in the confinement of the session: what the policy
// grants, with the workspace read-only and without a network unless the command
// says otherwise. It has no limit of time and ends with the session.
//
// # Limits
//
// What the policy, its rules and the mode become later holds for calls of its
// tools, not for what the process may touch: it was confined when it started.
func (d *Dispatcher) StartServer(ctx context.Context, s *Session, c ServerCommand) (*ServerProcess, error) {
	if len(c.Argv) == 0 || s.local() {
		return nil, errors.New("bug: a server without a command or a session")
	}
	run := d.serverRun(s, c)
	if err := run.recordStart(ctx, c); err != nil {
		return nil, err
	}
	stdin, feed, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	stdout, print := io.Pipe()
	live, kill := context.WithCancelCause(context.Background())
	p := &ServerProcess{Stdin: feed, Stdout: stdout, name: c.Name, kill: kill, done: make(chan struct{})}
	if err := s.servers.add(p); err != nil {
		kill(nil)
		return nil, errors.Join(err, stdin.Close(), feed.Close())
	}
	confined := make(chan struct{})
	run.Call.IO = CallIO{Stdin: stdin, Stdout: print, Stderr: (*serverErrors)(p), Listen: func() (<-chan os.Signal, func(), error) {
		close(confined)
		return nil, func() {}, nil
	}}
	go func() {
		res, err := d.runSafely(live, run, Command{Argv: c.Argv})
		_ = stdin.Close()
		_ = print.Close()
		p.ended(res, err)
		run.recordEnd(p, context.Cause(live))
		s.servers.remove(p)
		kill(nil)
		close(p.done)
	}()
	select {
	case <-confined:
	case <-p.done:
		_ = feed.Close()
		return nil, p.Err()
	}
	return p, nil
}

// serverRun is the run of a server: a call that nobody asked for, with the traits
// that its command has.
func (d *Dispatcher) serverRun(s *Session, c ServerCommand) *ToolRun {
	now := d.o.Now()
	return &ToolRun{
		Call: ToolCall{Call: policy.Call{ID: NewID("server"), Tool: serverTool, Session: s.id, Cwd: s.workspace}, Attended: true}, Session: s, d: d,
		traits: Traits{ReadOnly: !c.Write}, result: &ToolResult{lastHop: now, Decision: policy.Decision{Verdict: policy.Allow, Env: c.Env}},
		adjust: func(g *policy.Grant) {
			g.Network = c.Network
			g.Limits.Timeout = 0
		},
	}
}

// runSafely is runCommand whose panic ends nothing but the run.
func (d *Dispatcher) runSafely(ctx context.Context, r *ToolRun, c Command) (res *exec.Result, err error) {
	defer func() {
		if p := recover(); p != nil {
			res, err = nil, fmt.Errorf("bug: %v", p)
		}
	}()
	return d.runCommand(ctx, r, c)
}

// recordStart makes the row of a start durable: unrecorded nothing starts.
func (r *ToolRun) recordStart(ctx context.Context, c ServerCommand) error {
	err := r.recordServer(ctx, StatusAllow, fmt.Sprintf("server %s of %s: %s", c.Name, c.From, strings.Join(c.Argv, " ")), nil)
	if err != nil && !r.Session.runsUnrecorded(r.d.o.RunUnrecorded) {
		return fmt.Errorf("nothing was run: %w", err)
	}
	r.Session.events.Publish(EventServerStarted, map[string]string{"server": c.Name})
	return nil
}

func (r *ToolRun) recordEnd(p *ServerProcess, cause error) {
	status, text := StatusFail, "server "+p.name+" ended"
	switch {
	case p.err != nil:
		text += ": " + p.err.Error()
	case cause != nil:
		status = StatusOK // as it was told to
	case p.result != nil:
		text += fmt.Sprintf(" by itself (%s, status %d)", p.result.Outcome, p.result.ExitCode)
	}
	_ = r.recordServer(context.Background(), status, text, p.result) // counted there; it has ended in any case
	r.Session.events.Publish(EventServerEnded, map[string]string{"server": p.name, "text": r.Session.secrets.Mask(text)})
}

func (r *ToolRun) recordServer(ctx context.Context, status Status, text string, res *exec.Result) error {
	h := &handling{d: r.d, s: r.Session, c: r.Call, res: ToolResult{Decision: r.result.Decision, Generation: r.Session.Generation()}}
	row := h.row()
	row.Tool, row.Status = serverTool, status
	row.Reason, _ = json.Marshal(map[string]string{"type": "server", "text": r.Session.secrets.learning(text).Mask(text)})
	if res != nil {
		row.ElapsedMS = res.Elapsed.Milliseconds()
		row.Enforced, _ = json.Marshal(res.Enforced)
		row.Denials, _ = json.Marshal(struct {
			Detected []GuardFinding `json:"detected,omitempty"`
		}{r.result.Detected})
	}
	return h.append(ctx, row)
}

func (p *ServerProcess) ended(res *exec.Result, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.result, p.err = res, err
}

// Done is closed when nothing of the server is left.
func (p *ServerProcess) Done() <-chan struct{} { return p.done }

// Err says why the server is gone; nil while it runs.
func (p *ServerProcess) Err() error {
	select {
	case <-p.done:
	default:
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.err != nil:
		return p.err
	case p.result.Outcome != exec.Exited:
		return fmt.Errorf("the server ended by %s", p.result.Outcome)
	}
	return fmt.Errorf("the server ended with status %d", p.result.ExitCode)
}

// Errors is the end of what it printed on its standard error.
func (p *ServerProcess) Errors() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.ToValidUTF8(string(p.stderr), "\uFFFD")
}

// Stop ends the server's whole tree and waits for that, as long as ctx allows. The
// caller closed Stdin before, if the server is to end by itself.
func (p *ServerProcess) Stop(ctx context.Context) {
	p.kill(ErrSessionClosed)
	_ = p.Stdout.Close() // it may be blocked by what nobody reads
	select {
	case <-p.done:
	case <-ctx.Done():
	}
}

// serverErrors takes the standard error of a server.
type serverErrors ServerProcess

func (e *serverErrors) Write(b []byte) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.stderr = append(e.stderr, b[max(len(b)-serverStderr, 0):]...)
	if over := len(e.stderr) - serverStderr; over > 0 {
		e.stderr = bytes.Clone(e.stderr[over:])
	}
	return len(b), nil
}

// serverTable holds the servers of one session. Its zero value is empty.
type serverTable struct {
	mu     sync.Mutex
	live   map[*ServerProcess]bool
	closed bool
}

func (st *serverTable) add(p *ServerProcess) error {
	st.mu.Lock()
	defer st.mu.Unlock()
	switch {
	case st.closed:
		return ErrSessionClosed
	case len(st.live) >= maxServerProcesses:
		return fmt.Errorf("%d servers run already", len(st.live))
	case st.live == nil:
		st.live = map[*ServerProcess]bool{}
	}
	st.live[p] = true
	return nil
}

func (st *serverTable) remove(p *ServerProcess) {
	st.mu.Lock()
	defer st.mu.Unlock()
	delete(st.live, p)
}

// end refuses further servers, ends all and waits for them.
func (st *serverTable) end(ctx context.Context) {
	st.mu.Lock()
	st.closed = true
	var list []*ServerProcess
	for p := range st.live {
		list = append(list, p)
	}
	st.mu.Unlock()
	for _, p := range list {
		p.kill(ErrSessionClosed)
	}
	for _, p := range list {
		p.Stop(ctx)
	}
}
