package agentloop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"sandboxd/exec"
	"sandboxd/policy"
)

// TaskOptions says what is told of a background task.
type TaskOptions struct {
	Command     string // for people; empty: the words of the command
	Description string
	// Ended is called once with the task when nothing of it is left, from its own
	// goroutine. It must not wait.
	Ended func(t *Task)
}

// taskTool is the name under which background tasks are limited and recorded,
// also those that run_bash starts.
const taskTool = "bg_task_run"

// Background starts a command under the confinement of the call and returns while
// it runs. It ends by itself, by [Task.Kill], at its limit of time, and with the
// session; the end of the call and of its turn do not concern it. An error says
// that nothing runs.
func (r *ToolRun) Background(c Command, o TaskOptions) (*Task, error) {
	if r.result.Ran {
		return nil, errors.New("bug: a call starts one command")
	}
	s := r.Session
	if s.local() {
		return nil, errors.New("there are no background tasks without a session")
	}
	if o.Command == "" {
		o.Command = policy.ArgvCall(c.Argv, "").Args["command"].(string)
	}
	ctx, kill := context.WithCancelCause(context.Background())
	t := &Task{kill: kill, done: make(chan struct{}), mask: s.secrets.learning(o.Command)}
	t.state = TaskState{Call: r.Call.ID, Agent: r.Call.Agent, Command: clipLine(t.mask.Mask(o.Command)), Description: clipLine(t.mask.Mask(o.Description)), Started: r.d.o.Now().UTC()}
	if err := r.d.tasks.take(s.peer.UID()); err != nil {
		kill(nil)
		return nil, err
	}
	if err := s.tasks.add(t); err != nil {
		kill(nil)
		r.d.tasks.release(s.peer.UID())
		return nil, err
	}
	var notes []string
	confined := make(chan struct{})
	run := r.detached(t)
	run.Call.IO.Listen = func() (<-chan os.Signal, func(), error) {
		notes = slices.Clone(run.result.Notes)
		t.begin()
		close(confined)
		return nil, func() {}, nil
	}
	go run.background(ctx, t, c, o)
	select {
	case <-confined:
	case <-t.done:
		if err := t.startError(); err != nil {
			s.tasks.remove(t)
			return nil, err
		}
	}
	r.result.Ran = true
	r.result.Notes = append(r.result.Notes, notes...)
	return t, nil
}

// detached is a run that nothing of the loop hangs on.
func (r *ToolRun) detached(t *Task) *ToolRun {
	call := r.Call
	call.Tool, call.Loop, call.Attended = taskTool, nil, false
	call.IO = CallIO{Stdout: t, Stderr: t}
	return &ToolRun{Call: call, Session: r.Session, d: r.d, traits: Traits{}, adjust: r.adjust, at: r.at,
		result: &ToolResult{Call: call.ID, Decision: r.result.Decision, Generation: r.result.Generation, lastHop: r.d.o.Now()}}
}

// background runs the command to its end, records that, and tells of it.
func (r *ToolRun) background(ctx context.Context, t *Task, c Command, o TaskOptions) {
	var res *exec.Result
	var err error
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("bug: %v", p)
		}
		r.d.tasks.release(r.Session.peer.UID())
		t.ended(r.d.o.Now().UTC(), res, err, context.Cause(ctx))
		t.kill(nil)
		if t.startError() == nil {
			r.recordTask(t)
			r.Session.events.Publish(EventTaskEnded, t.State())
			if o.Ended != nil {
				o.Ended(t)
			}
		}
		close(t.done)
	}()
	r.Session.events.Publish(EventTaskStarted, t.State())
	res, err = r.d.runCommand(ctx, r, c)
}

// begin says that the command is about to start: from here on the end of the task
// is told by the task.
func (t *Task) begin() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.begun = true
}

// startError is why a task did not begin.
func (t *Task) startError() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.begun {
		return nil
	}
	return errors.New(t.state.Error)
}

func (t *Task) ended(now time.Time, res *exec.Result, err, cause error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.state.Ended = now
	switch {
	case err != nil:
		t.state.Outcome, t.state.Error = exec.NotSetUp, t.mask.Mask(err.Error())
	case res != nil:
		t.state.Outcome, t.state.ExitCode = res.Outcome, res.ExitCode
		t.state.Killed = cause != nil
	}
}

// recordTask writes the row of the end, with the id of the call that started it.
func (r *ToolRun) recordTask(t *Task) {
	state := t.State()
	h := &handling{d: r.d, s: r.Session, c: r.Call, res: *r.result}
	row := h.row()
	row.Status, row.ElapsedMS = StatusOK, state.Ended.Sub(state.Started).Milliseconds()
	switch {
	case state.Killed:
		row.Status = StatusCancelled
	case state.Outcome == exec.TimedOut:
		row.Status = StatusTimeout
	case state.ExitCode != 0:
		row.Status = StatusFail
	}
	row.Reason, _ = json.Marshal(map[string]string{"type": "task", "text": "background " + state.ID + ": " + state.Outline()})
	h.end(&row, t.Output(0, taskOutput).Text)
	_ = h.append(context.Background(), row) // counted there; the task has ended in any case
}

// clipLine is s as one line of bounded length.
func clipLine(s string) string {
	const most = 500
	s = ShowText(s)
	if cut := firstCharacters(s, most); cut != s {
		return cut + "..."
	}
	return s
}

// taskCount bounds the tasks of each user.
type taskCount struct {
	mu    sync.Mutex
	byUID map[int]int
}

func (c *taskCount) take(uid int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byUID[uid] >= maxTasksPerUID {
		return fmt.Errorf("%w: uid %d has %d", ErrTooManyTasks, uid, c.byUID[uid])
	}
	if c.byUID == nil {
		c.byUID = map[int]int{}
	}
	c.byUID[uid]++
	return nil
}

func (c *taskCount) release(uid int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byUID[uid]--; c.byUID[uid] <= 0 {
		delete(c.byUID, uid)
	}
}
