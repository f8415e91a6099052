package agentloop

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sandboxd/policy"
)

// taskTestTool starts its command in the background.
type taskTestTool struct{ ended chan *Task }

func (taskTestTool) Name() string { return taskTool }

func (taskTestTool) Traits(policy.Args) Traits { return Traits{} }

func (b taskTestTool) Call(_ context.Context, r *ToolRun) (string, error) {
	t, err := r.Background(Command{Argv: []string{"bash", "--noprofile", "--norc", "-c", r.Call.Args["command"].(string)}}, TaskOptions{Ended: func(t *Task) {
		if b.ended != nil {
			b.ended <- t
		}
	}})
	if err != nil {
		return "", err
	}
	return t.State().ID, nil
}

// yes answers every question.
type yes struct{}

func (yes) Ask(context.Context, policy.Question) (policy.Answer, error) {
	return policy.Answer{Verdict: policy.Allow, By: "test"}, nil
}

func taskWorld(t *testing.T) (*world, chan *Task) {
	ended := make(chan *Task, 100)
	w := newWorld(t, func(p *PolicyInForce) { p.Config.Askers = []policy.Asker{yes{}} }, func(w *world) { w.opts.Tools = []Tool{taskTestTool{ended}} })
	return w, ended
}

func (w *world) task(script string) *Task {
	w.t.Helper()
	res := w.call(taskTool, policy.Args{"command": script})
	if res.Error != "" {
		w.t.Fatalf("task %q: %s", script, res.Error)
	}
	task, err := w.s.Task(res.Output)
	if err != nil {
		w.t.Fatal(err)
	}
	return task
}

func within5s(t *testing.T, c <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(5 * time.Second):
		t.Fatalf("%s: not within 5 s", what)
	}
}

func waitFile(t *testing.T, path string) {
	t.Helper()
	for range 500 {
		if _, err := os.Stat(path); err == nil {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("%s was not made", path)
}

func TestTaskOutlivesItsCallAndIsRecorded(t *testing.T) {
	w, ended := taskWorld(t)
	task := w.task("echo begun; echo oops >&2; touch started; while [ ! -e go ]; do sleep 0.05; done; echo done; exit 3")
	waitFile(t, w.host.path("home/u/w/started"))
	if s := task.State(); !s.Running() || s.Outline() != "running" {
		t.Errorf("state %+v, want running", s)
	}
	w.s.Cancel("test") // ends turns, not tasks
	w.s.TurnEnded()
	w.host.file("home/u/w/go", "", 0o644)
	select {
	case <-ended:
	case <-time.After(5 * time.Second):
		t.Fatal("the end was not told")
	}
	within5s(t, task.Done(), "end")
	s := task.State()
	if s.ExitCode != 3 || s.Killed || s.Running() || !strings.HasPrefix(s.Outline(), "exit status 3 after") {
		t.Errorf("state %+v %s", s, s.Outline())
	}
	// Two pipes have no order between them.
	if out := task.Output(0, 1000).Text; len(out) != len("begun\noops\ndone\n") || !strings.HasSuffix(out, "done\n") || !strings.Contains(out, "oops\n") {
		t.Errorf("output %q", out)
	}
	var rows []string
	for _, r := range w.log.rows {
		if r.Call == s.Call {
			rows = append(rows, fmt.Sprint(r.Tool, " ", r.Status))
		}
	}
	if got, want := strings.Join(rows, ", "), "bg_task_run allow, bg_task_run ok, bg_task_run fail"; got != want {
		t.Errorf("rows %s, want %s", got, want)
	}
}

func TestTaskIsHeldToThePolicyOfTheSession(t *testing.T) {
	w, _ := taskWorld(t)
	secret := w.host.file("home/u/.ssh/id_rsa", "PRIVATE", 0o600)
	// Names that only the run knows: what a person is shown by name and allows is
	// granted.
	w.host.file("home/u/w/names", secret+"\n"+w.host.path("outside")+"\n", 0o644)
	task := w.task("{ read -r a; read -r b; } <names; cat $a; echo tried > $b; echo inside > kept; env")
	within5s(t, task.Done(), "end")
	if out := task.Output(0, 1<<16).Text; strings.Contains(out, "PRIVATE") {
		t.Errorf("read a secret: %s", out)
	}
	if _, err := os.Stat(w.host.path("outside")); err == nil {
		t.Error("wrote outside of the workspace")
	}
	if data, _ := os.ReadFile(w.host.path("home/u/w/kept")); string(data) != "inside\n" {
		t.Errorf("honest write: %q", data)
	}
	// A deny rule of run_bash holds for it too.
	if err := w.s.AddRule(policy.DenyRule, "run_bash(touch *)", "test"); err != nil {
		t.Fatal(err)
	}
	if res := w.call(taskTool, policy.Args{"command": "touch x"}); res.Status != StatusDeny || len(w.s.Tasks()) != 1 {
		t.Errorf("status %s, %d tasks; want a denial and one task", res.Status, len(w.s.Tasks()))
	}
}

func TestTaskKilledWithItsTree(t *testing.T) {
	w, _ := taskWorld(t)
	mark := "61." + fmt.Sprint(os.Getpid())
	task := w.task("trap '' TERM; setsid sleep " + mark + " & touch started; sleep " + mark)
	waitFile(t, w.host.path("home/u/w/started"))
	began := time.Now()
	if err := task.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took > 4*time.Second {
		t.Errorf("took %v", took)
	}
	if s := task.State(); !s.Killed || s.Running() {
		t.Errorf("state %+v", s)
	}
	noProcess(t, mark)
}

func noProcess(t *testing.T, arg string) {
	t.Helper()
	dirs, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, f := range dirs {
		if data, _ := os.ReadFile(f); strings.Contains(string(data), arg) {
			t.Errorf("%s is left: %q", f, data)
		}
	}
}

func TestTasksEndWithTheSession(t *testing.T) {
	w, ended := taskWorld(t)
	mark := "62." + fmt.Sprint(os.Getpid())
	var tasks []*Task
	for range 3 {
		tasks = append(tasks, w.task("sleep "+mark))
	}
	if err := w.m.Close(t.Context(), w.s.ID(), w.peer(), "test"); err != nil {
		t.Fatal(err)
	}
	for _, task := range tasks {
		select {
		case <-task.Done():
		default:
			t.Errorf("%s runs after the end of its session", task.State().ID)
		}
		<-ended
	}
	noProcess(t, mark)
	if err := w.s.tasks.add(&Task{}); !errors.Is(err, ErrSessionClosed) {
		t.Errorf("a further task: %v", err)
	}
}

func TestTasksAreBounded(t *testing.T) {
	w, _ := taskWorld(t)
	for range maxTasks {
		w.task("sleep 100")
	}
	res := w.call(taskTool, policy.Args{"command": "sleep 100"})
	if !errors.Is(res.Err, ErrTooManyTasks) {
		t.Errorf("one more: %v", res.Err)
	}
	for _, task := range w.s.Tasks() {
		go task.Kill(t.Context())
	}
	for _, task := range w.s.Tasks() {
		within5s(t, task.Done(), "kill")
	}
	for range keptTasks { // those that ended are forgotten, oldest first
		within5s(t, w.task("true").Done(), "end")
	}
	if n := len(w.s.Tasks()); n != keptTasks {
		t.Errorf("%d tasks are kept, want %d", n, keptTasks)
	}
	if len(w.d.tasks.byUID) != 0 {
		t.Errorf("still counted: %v", w.d.tasks.byUID)
	}
}

func TestTaskStopsAtItsLimit(t *testing.T) {
	w, _ := taskWorld(t)
	res := w.call(taskTool, policy.Args{"command": "sleep 60", "timeout": 0.3})
	task, err := w.s.Task(res.Output)
	if err != nil {
		t.Fatal(res.Error)
	}
	within5s(t, task.Done(), "limit")
	if s := task.State(); !strings.HasPrefix(s.Outline(), "timed out after") {
		t.Errorf("%s", s.Outline())
	}
}

func TestTaskThatCannotStartIsAnError(t *testing.T) {
	w, ended := taskWorld(t)
	w.edit = func(p *PolicyInForce) {
		p.Config.Askers = []policy.Asker{yes{}}
		p.Grant.Network = []string{"example.org:443"}
	}
	if err := w.m.load(t.Context(), w.s); err != nil {
		t.Fatal(err)
	}
	res := w.call(taskTool, policy.Args{"command": "true"})
	if !strings.Contains(res.Error, "egress by host") || len(w.s.Tasks()) != 0 || len(ended) != 0 || len(w.d.tasks.byUID) != 0 {
		t.Errorf("error %q, tasks %d, ends %d, counted %v", res.Error, len(w.s.Tasks()), len(ended), w.d.tasks.byUID)
	}
}

func TestTaskOutputIsBoundedPagedAndMasked(t *testing.T) {
	task := &Task{mask: NewRedactor([]string{"API_TOKEN=sesame-open-12345"})}
	if out := task.Output(0, 10); out.Text != "" || out.Next != 0 {
		t.Errorf("empty: %+v", out)
	}
	for i := range 100000 {
		fmt.Fprintf(task, "line %06d\n", i)
	}
	if len(task.tail) > taskOutput || cap(task.tail) > 2*taskOutput {
		t.Errorf("keeps %d bytes of %d", len(task.tail), cap(task.tail))
	}
	out := task.Output(0, 1000)
	if out.Lost == 0 || out.From != out.Lost || !strings.HasSuffix(out.Text, "\n") || len(out.Text) > 1000 {
		t.Errorf("first page: %+v", out)
	}
	var all strings.Builder
	for at := out.From; ; {
		page := task.Output(at, 1000)
		if page.Text == "" {
			break
		}
		all.WriteString(page.Text)
		at = page.Next
	}
	if !strings.HasSuffix(all.String(), "line 099999\n") || all.Len() != len(task.tail) {
		t.Errorf("pages hold %d bytes, want %d", all.Len(), len(task.tail))
	}
	fmt.Fprintf(task, "key sesame-open-12345 and \xff\n")
	for from := int64(-1); from < task.total; from = max(from+1, task.total-40) {
		if out := task.Output(from, 30); strings.Contains(out.Text, "open-1") || from > task.total-20 && out.Text != "key [secret] and \uFFFD\n" {
			t.Errorf("from %d: %q", from, out.Text)
		}
	}
	first := task.Unread(taskOutput)
	if first.Text == "" || task.Unread(taskOutput).Text != "" {
		t.Error("what was read is told again")
	}
}

// Parts of the output of a task, read as it comes, tell no secret that is cut in two.
func TestSecretInPartsOfATaskIsMasked(t *testing.T) {
	for _, tt := range secretTexts {
		for cut := 1; cut < len(tt.text); cut++ {
			task := &Task{mask: pieceRedactor()} // it runs
			var told strings.Builder
			_, _ = task.Write([]byte(tt.text[:cut]))
			told.WriteString(task.Unread(1000).Text)
			_, _ = task.Write([]byte(tt.text[cut:] + "end.\n"))
			told.WriteString(task.Unread(1000).Text)
			if strings.Contains(told.String(), tt.secret) || strings.Contains(told.String(), tt.secret[len(tt.secret)-4:]) || !strings.HasSuffix(told.String(), "end.\n") {
				t.Fatalf("%q and %q: told %q", tt.text[:cut], tt.text[cut:], told.String())
			}
		}
	}
	task := &Task{mask: pieceRedactor()}
	for range 40 {
		_, _ = task.Write([]byte("-----BEGIN PRIVATE KEY-----" + strings.Repeat("A", 1000)))
	}
	for last := int64(-1); last != task.read; { // however long a secret is, reading goes on
		last = task.read
		if text := task.Unread(1000).Text; strings.Contains(text, "AAAA") {
			t.Fatalf("told %q", text)
		}
	}
	if task.read < task.total-2000 {
		t.Errorf("read %d of %d", task.read, task.total)
	}
}
