package agentloop

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"sandboxd/exec"
)

const (
	// maxTasks bounds the background tasks of one session that run at once, and
	// maxTasksPerUID those of one user in all sessions.
	maxTasks       = 8
	maxTasksPerUID = 64
	// keptTasks bounds the tasks that a session remembers, those that ended among
	// them.
	keptTasks = 64
	// taskOutput is how much of the output of a task is kept, the newest, in bytes.
	taskOutput = 256 << 10
)

// Events of background tasks; their data is a [TaskState].
const (
	EventTaskStarted = "task.started"
	EventTaskEnded   = "task.ended"
)

var (
	// ErrNoTask reports that a session has no background task of this name.
	ErrNoTask = errors.New("no such background task")
	// ErrTooManyTasks reports that as many background tasks run as may.
	ErrTooManyTasks = errors.New("too many background tasks")
	// ErrTaskKilled is why a task ended that was killed.
	ErrTaskKilled = errors.New("killed")
)

// TaskState is a background task as it is told.
type TaskState struct {
	ID          string    `json:"id"` // of the session: "task-1"
	Call        string    `json:"call_id"`
	Agent       string    `json:"agent_name,omitempty"`
	Command     string    `json:"command"` // masked, one line
	Description string    `json:"description,omitempty"`
	Started     time.Time `json:"started"`
	// Ended is zero while it runs. The fields below are set with it.
	Ended    time.Time    `json:"ended,omitzero"`
	Outcome  exec.Outcome `json:"outcome,omitempty"`
	ExitCode int          `json:"exit_code"`
	Killed   bool         `json:"killed,omitempty"`
	Error    string       `json:"error,omitempty"`
	// OutputBytes is how much was printed so far.
	OutputBytes int64 `json:"output_bytes"`
}

// Running says that the task has not ended.
func (s TaskState) Running() bool { return s.Ended.IsZero() }

// Outline says in one line how it stands.
func (s TaskState) Outline() string {
	took := func(end time.Time) string { return end.Sub(s.Started).Round(10 * time.Millisecond).String() }
	switch {
	case s.Running():
		return "running"
	case s.Killed:
		return "killed after " + took(s.Ended)
	case s.Error != "":
		return "failed: " + s.Error
	case s.Outcome == exec.TimedOut:
		return "timed out after " + took(s.Ended)
	case s.Outcome != exec.Exited:
		return fmt.Sprintf("ended by %s after %s", s.Outcome, took(s.Ended))
	}
	return fmt.Sprintf("exit status %d after %s", s.ExitCode, took(s.Ended))
}

// Task is a command that goes on beside the turns of its session. It is safe for
// concurrent use.
//
// It runs in the confinement of the call that started it and knows nothing of the
// conversation: what it is given is its command line.
type Task struct {
	kill context.CancelCauseFunc
	done chan struct{}
	mask *Redactor

	mu    sync.Mutex
	state TaskState
	begun bool
	// tail holds the last bytes of the output, of all that came before total.
	tail  []byte
	total int64
	read  int64 // up to here [Task.Unread] has told
	cut   int64 // where the last part ended: the next may begin within a line
}

// State is a copy of how it stands.
func (t *Task) State() TaskState {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.state
	s.OutputBytes = t.total
	return s
}

// Done is closed when nothing of the task is left.
func (t *Task) Done() <-chan struct{} { return t.done }

// Kill ends the task's whole tree, and returns when it has ended or ctx has.
func (t *Task) Kill(ctx context.Context) error {
	t.kill(ErrTaskKilled)
	select {
	case <-t.done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Write takes output. Both streams come here; between them there is no order.
func (t *Task) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.total += int64(len(p))
	if len(p) >= taskOutput {
		t.tail = append(t.tail[:0], p[len(p)-taskOutput:]...)
		return len(p), nil
	}
	if over := len(t.tail) + len(p) - taskOutput; over > 0 {
		t.tail = t.tail[:copy(t.tail, t.tail[over:])]
	}
	t.tail = append(t.tail, p...)
	return len(p), nil
}

// TaskText is a part of the output of a task.
type TaskText struct {
	Text string // masked
	// From is where it begins, in bytes of the output; Next where the next part does.
	From, Next int64
	// Lost is how many bytes before From are not kept any more.
	Lost int64
}

// Output returns at most limit bytes of the output from byte from on. A negative
// from means the last limit bytes.
func (t *Task) Output(from int64, limit int) TaskText {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.output(from, limit)
}

// Unread is Output from where the last Unread ended.
func (t *Task) Unread(limit int) TaskText {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := t.output(t.read, limit)
	t.read = out.Next
	return out
}

func (t *Task) output(from int64, limit int) TaskText {
	first := t.total - int64(len(t.tail))
	if from < 0 {
		from = max(t.total-int64(limit), first)
	}
	out := TaskText{From: min(max(from, first), t.total), Lost: max(first-from, 0)}
	// Parts begin and end with lines, unless a line is longer than a part. What may be
	// the beginning of a secret waits for the next part, as long as there may be one.
	if at := out.From - first; out.From != t.cut {
		out.From = first + int64(bytes.LastIndexByte(t.tail[:at], '\n')+1)
	}
	part := t.tail[out.From-first:]
	if len(part) > limit {
		part = part[:limit]
		if nl := bytes.LastIndexByte(part, '\n'); nl >= 0 {
			part = part[:nl+1]
		}
	}
	at := int(out.From - first)
	begin := max(0, at-maskContext)
	if key := bytes.LastIndex(t.tail[:at], []byte(keyBegin)); key >= 0 && !bytes.Contains(t.tail[key:at], []byte(keyEnd)) {
		begin = min(begin, key) // however long it is
	}
	text := string(t.tail[begin : at+len(part)])
	found := t.mask.secretsIn(text)
	low, high := at-begin, len(text)
	if at+len(part) < len(t.tail) || t.state.Running() {
		// Of one that is longer than a part the mask is given.
		if open := max(t.mask.openAt(text, found), low); high-open < limit {
			high = open
		}
	}
	out.Next = out.From + int64(high-low)
	t.cut = out.Next
	out.Text = strings.ToValidUTF8(masked(text, found, low, high), "\uFFFD")
	return out
}

// taskTable holds the background tasks of one session. Its zero value is empty.
type taskTable struct {
	mu     sync.Mutex
	last   int
	list   []*Task // oldest first
	closed bool
}

// add enters a task that is about to start.
func (tt *taskTable) add(t *Task) error {
	tt.mu.Lock()
	defer tt.mu.Unlock()
	if tt.closed {
		return ErrSessionClosed
	}
	running := 0
	for _, other := range tt.list {
		if other.State().Running() {
			running++
		}
	}
	if running >= maxTasks {
		return fmt.Errorf("%w: %d run in this session; wait for one, or end one with bg_task_kill", ErrTooManyTasks, running)
	}
	for len(tt.list) >= keptTasks {
		i := slices.IndexFunc(tt.list, func(t *Task) bool { return !t.State().Running() })
		tt.list = slices.Delete(tt.list, i, i+1)
	}
	tt.last++
	t.state.ID = "task-" + strconv.Itoa(tt.last)
	tt.list = append(tt.list, t)
	return nil
}

func (tt *taskTable) remove(t *Task) {
	tt.mu.Lock()
	defer tt.mu.Unlock()
	tt.list = slices.DeleteFunc(tt.list, func(other *Task) bool { return other == t })
}

func (tt *taskTable) all() []*Task {
	tt.mu.Lock()
	defer tt.mu.Unlock()
	return slices.Clone(tt.list)
}

// end refuses further tasks, kills all and waits for them.
func (tt *taskTable) end(ctx context.Context) {
	tt.mu.Lock()
	tt.closed = true
	tt.mu.Unlock()
	list := tt.all()
	for _, t := range list {
		t.kill(ErrSessionClosed)
	}
	for _, t := range list {
		select {
		case <-t.done:
		case <-ctx.Done():
			return
		}
	}
}

// Tasks are the background tasks that the session remembers, oldest first.
func (s *Session) Tasks() []*Task { return s.tasks.all() }

// Task returns one of them, or [ErrNoTask].
func (s *Session) Task(id string) (*Task, error) {
	for _, t := range s.tasks.all() {
		if t.State().ID == id {
			return t, nil
		}
	}
	return nil, fmt.Errorf("%w: %q", ErrNoTask, firstCharacters(id, 64))
}
