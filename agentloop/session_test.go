package agentloop

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sandboxd/policy"
)

// TestSessionRulesHoldForOneSession is rows 43 and 45.
func TestSessionRulesHoldForOneSession(t *testing.T) {
	w := newWorld(t, nil)
	first, other := w.s, w.session()
	if err := first.AddRule(policy.AllowRule, "run_bash(touch *)", "uid 1"); err != nil {
		t.Fatal(err)
	}
	if res := w.bash("touch a"); res.Status != StatusOK || res.Decision.Reason.Type() != "rule" {
		t.Errorf("the next turn: %+v", res.Decision.Reason)
	}
	w.s = other
	if res := w.bash("touch a"); res.Status != StatusDeny {
		t.Errorf("another session: %v", res.Status)
	}
	w.s = first
	own := first.OwnRules()
	if len(own) != 1 || own[0].Pattern != "run_bash(touch *)" || own[0].By != "uid 1" || own[0].Kind != "allow" {
		t.Errorf("list %+v", own)
	}
	if there, err := first.RemoveRule(policy.AllowRule, "run_bash(touch *)"); !there || err != nil {
		t.Errorf("remove: %v %v", there, err)
	}
	if there, _ := first.RemoveRule(policy.AllowRule, "run_bash(touch *)"); there {
		t.Error("removed twice")
	}
	if res := w.bash("touch a"); res.Status != StatusDeny {
		t.Errorf("after removal: %v", res.Status)
	}
	var wrong *policy.RuleError
	if err := first.AddRule(policy.AllowRule, "run_bash(", "x"); !errors.As(err, &wrong) || len(first.OwnRules()) != 0 {
		t.Errorf("a broken rule: %v", err)
	}
}

// holdTurns takes every turn of the queue until release.
func (w *world) holdTurns() (release func()) {
	if err := w.d.queue.acquire(w.t.Context(), w.host.UID); err != nil {
		w.t.Fatal(err)
	}
	return func() { w.d.queue.release(w.host.UID) }
}

// waiting returns when n calls are in the queue.
func (w *world) waiting(n int) {
	for {
		w.d.queue.mu.Lock()
		queued := w.d.queue.queued
		w.d.queue.mu.Unlock()
		if queued == n {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

func oneAtATime(w *world) { w.opts.MaxRunning, w.opts.MaxQueued = 1, 8 }

// TestModeAndRulesHoldForQueuedCalls is row 44.
func TestModeAndRulesHoldForQueuedCalls(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*Session) error
		want   Status
	}{
		{"nothing changes", func(*Session) error { return nil }, StatusOK},
		{"mode dontAsk", func(s *Session) error { return s.SetMode(policy.ModeDontAsk) }, StatusDeny},
		{"mode plan", func(s *Session) error { return s.SetMode(policy.ModePlan) }, StatusDeny},
		{"a deny rule", func(s *Session) error { return s.AddRule(policy.DenyRule, "run_bash(touch *)", "t") }, StatusDeny},
		{"an unrelated rule", func(s *Session) error { return s.AddRule(policy.DenyRule, "run_bash(rm *)", "t") }, StatusOK},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, nil, oneAtATime)
			if err := w.s.SetMode(policy.ModeAcceptEdits); err != nil {
				t.Fatal(err)
			}
			release := w.holdTurns()
			done := w.later("touch made")
			w.waiting(1)
			if err := tt.change(w.s); err != nil {
				t.Fatal(err)
			}
			release()
			res := <-done
			_, err := os.Stat(w.host.path("home/u/w/made"))
			if res.Status != tt.want || (err == nil) != (tt.want == StatusOK) {
				t.Errorf("%v %s; file %v", res.Status, res.Error, err)
			}
			if decisions := count(w.log.statuses(), StatusAllow) + count(w.log.statuses(), StatusDeny); decisions != 1 {
				t.Errorf("rows %v", w.log.statuses())
			}
		})
	}
}

func count[T comparable](list []T, x T) (n int) {
	for _, y := range list {
		if y == x {
			n++
		}
	}
	return n
}

// TestAnswerOfAPersonStandsWhileTheCallWaits: a mode that asks again does not take
// back what was answered for this very call; a deny rule does.
func TestAnswerOfAPersonStandsWhileTheCallWaits(t *testing.T) {
	for _, deny := range []bool{false, true} {
		w := newWorld(t, nil, oneAtATime)
		detach := w.asks.Attach(w.peer(), "t")
		release := w.holdTurns()
		done := w.later("touch made")
		q := w.asked(1)[0]
		if _, err := w.asks.Answer(t.Context(), q.ID, w.peer(), AskAnswer{Verdict: policy.Allow}); err != nil {
			t.Fatal(err)
		}
		w.waiting(1)
		rule := "run_bash(rm *)"
		if deny {
			rule = "run_bash(touch *)"
		}
		if err := w.s.AddRule(policy.DenyRule, rule, "t"); err != nil {
			t.Fatal(err)
		}
		release()
		if res := <-done; res.Ran == deny {
			t.Errorf("deny %v: %+v", deny, res.Status)
		}
		detach()
	}
}

// TestCancelLifecycle is rows 139 and 140: inserted, a call blocked, the loop
// broken, tools ended, removed; in this order, and again without effect.
func TestCancelLifecycle(t *testing.T) {
	commit := testTool{name: "commit", call: func(ctx context.Context, r *ToolRun) (string, error) {
		_, err := r.Command(ctx, Command{Argv: []string{"bash", "-c", "sleep 0.7; echo finished"}})
		return r.out.stdout, err
	}}
	w := newWorld(t, func(p *PolicyInForce) {
		denying()(p)
		p.Config.Rules = append(p.Config.Rules, rule(policy.AllowRule, "commit"))
	}, func(w *world) { w.opts.Tools = []Tool{commit} })
	// read_file is interrupted, commit finishes first.
	if err := unix.Mkfifo(w.host.path("home/u/w/fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	reading, committing := make(chan ToolResult, 1), make(chan ToolResult, 1)
	go func() { committing <- w.call("commit", policy.Args{}) }()
	go func() { reading <- w.call("read_file", policy.Args{"file_path": "fifo"}) }()
	sub := w.s.Events().Subscribe(0)
	defer sub.Close()
	for started := 0; started < 2; {
		if e := <-sub.C; e.Type == EventCallStarted {
			started++
		}
	}
	w.s.Cancel("test")
	w.s.Cancel("test")
	if res := <-reading; res.Status != StatusCancelled {
		t.Errorf("the tool that may be interrupted: %+v %s", res.Status, res.Error)
	}
	if res := w.bash("echo more"); res.Status != StatusCancelled || res.Ran || !errors.Is(res.Err, ErrCancelled) {
		t.Errorf("a call after it: %v %s", res.Status, res.Error)
	}
	if w.s.Cancelled() {
		w.s.LoopBroken()
	}
	if res := <-committing; res.Output != "finished\n" {
		t.Errorf("the tool that finishes first: %v %q %s", res.Status, res.Output, res.Error)
	}
	w.s.TurnEnded()
	w.s.TurnEnded()
	if res := w.bash("echo more"); res.Status != StatusOK {
		t.Errorf("after the turn: %v %s", res.Status, res.Error)
	}
	var got []string
	for e := w.s.Events().Subscribe(0); ; {
		ev := <-e.C
		if strings.HasPrefix(ev.Type, "cancel.") {
			got = append(got, ev.Type)
		}
		if ev.Type == EventCancelRemoved {
			break
		}
	}
	want := []string{EventCancelInserted, EventCancelTools, EventCancelBlocked, EventCancelLoop, EventCancelRemoved}
	if !slices.Equal(got, want) {
		t.Errorf("events %v", got)
	}
}

func TestCancelEndsCallsThatWait(t *testing.T) {
	w := newWorld(t, denying(), oneAtATime)
	release := w.holdTurns()
	done := w.later("touch made")
	w.waiting(1)
	w.s.Cancel("test")
	if res := <-done; res.Status != StatusCancelled || res.Ran {
		t.Errorf("%+v", res.Status)
	}
	release()
	w.s.TurnEnded()
	defer w.asks.Attach(w.peer(), "t")()
	if err := w.s.AddRule(policy.AskRule, "run_bash(touch *)", "t"); err != nil {
		t.Fatal(err)
	}
	done = w.later("touch made")
	w.asked(1)
	w.s.Cancel("test")
	if res := <-done; res.Status != StatusCancelled || res.Ran || len(w.asks.Pending(w.peer())) != 0 {
		t.Errorf("a call that asks: %+v", res.Status)
	}
	if got := w.log.statuses(); got[len(got)-1] != StatusCancelled {
		t.Errorf("rows %v", got)
	}
}

// TestSessionEndsOnce is row 79: one row with the reason, whoever closes it how
// often; its calls end, and nothing more starts.
func TestSessionEndsOnce(t *testing.T) {
	w := newWorld(t, denying())
	done := w.later("sleep 61.3")
	sub := w.s.Events().Subscribe(0)
	for e := range sub.C {
		if e.Type == EventCallStarted {
			break
		}
	}
	results := make(chan error, 4)
	for range 4 {
		go func() { results <- w.m.Close(t.Context(), w.s.ID(), w.peer(), "done with it") }()
	}
	won := 0
	for range 4 {
		if err := <-results; err == nil {
			won++
		} else if !errors.Is(err, ErrNoSession) {
			t.Error(err)
		}
	}
	if res := <-done; res.Status != StatusCancelled {
		t.Errorf("its call: %v", res.Status)
	}
	if res := w.bash("echo x"); res.Ran {
		t.Error("a call after the end ran")
	}
	if n := count(w.log.statuses(), StatusSessionStop); n != 1 || won != 1 {
		t.Errorf("%d rows, %d closed it", n, won)
	}
	for _, r := range w.log.rows {
		if r.Status == StatusSessionStop && (r.Tool != "session" || !strings.Contains(string(r.Reason), "done with it")) {
			t.Errorf("row %+v", r)
		}
	}
	if _, err := w.m.Get(w.s.ID(), w.peer()); !errors.Is(err, ErrNoSession) {
		t.Error("it is still there")
	}
}

func TestSessionsOfOthersAreNotThere(t *testing.T) {
	w := newWorld(t, nil)
	stranger, admin := w.peer(), w.peer()
	stranger.Caller.UID, admin.Caller.UID, admin.Admin = 4242, 4243, true
	if _, err := w.m.Get(w.s.ID(), stranger); !errors.Is(err, ErrNoSession) {
		t.Errorf("error %v", err)
	}
	if err := w.m.Close(t.Context(), w.s.ID(), stranger, "x"); !errors.Is(err, ErrNoSession) {
		t.Errorf("error %v", err)
	}
	if n := len(w.m.List(stranger)); n != 0 {
		t.Errorf("%d sessions", n)
	}
	if _, err := w.m.Get(w.s.ID(), admin); err != nil || len(w.m.List(admin)) != 1 || len(w.m.List(w.peer())) != 1 {
		t.Errorf("admin: %v", err)
	}
}

// TestReloadKeepsWhatIsInForce: a broken policy is refused and told of, a good one
// has the next generation; the session's own rules and mode stay.
func TestReloadKeepsWhatIsInForce(t *testing.T) {
	w := newWorld(t, denying("run_bash(touch *)"))
	if err := w.s.AddRule(policy.DenyRule, "run_bash(rm *)", "t"); err != nil {
		t.Fatal(err)
	}
	if err := w.s.SetMode(policy.ModePlan); err != nil {
		t.Fatal(err)
	}
	w.edit = denying("run_bash(")
	if err := w.m.Reload(t.Context()); err == nil || !strings.Contains(err.Error(), w.s.ID()) {
		t.Errorf("error %v", err)
	}
	if res := w.bash("touch x"); res.Status != StatusDeny || res.Generation != 1 {
		t.Errorf("the old policy: %v of %d", res.Status, res.Generation)
	}
	w.edit = denying("run_bash(mkdir *)")
	if err := w.m.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	for script, want := range map[string]Status{"mkdir x": StatusDeny, "rm x": StatusDeny} {
		if res := w.bash(script); res.Status != want || res.Generation != 2 {
			t.Errorf("%s: %v of %d", script, res.Status, res.Generation)
		}
	}
	if w.s.Mode() != policy.ModePlan {
		t.Errorf("mode %v", w.s.Mode())
	}
}

func TestSessionsSurviveARestart(t *testing.T) {
	store := newMemoryStore()
	w := newWorld(t, nil)
	w.m.o.Store = store
	w.host.Environ = append(w.host.Environ, "API_TOKEN=hunter2hunter2")
	w.s = w.session()
	if err := w.s.AddRule(policy.AllowRule, "run_bash(touch *)", "t"); err != nil {
		t.Fatal(err)
	}
	if err := w.s.SetMode(policy.ModeAcceptEdits); err != nil {
		t.Fatal(err)
	}
	for _, e := range store.sessions[w.s.ID()].Environ {
		if strings.Contains(e, "hunter2") {
			t.Errorf("a secret is kept: %s", e)
		}
	}
	next, err := NewSessions(SessionsOptions{Load: w.load, Confinement: policy.FullyConfined, Store: store, Audit: w.log})
	if err != nil {
		t.Fatal(err)
	}
	if err := next.Restore(t.Context()); err != nil {
		t.Fatal(err)
	}
	s, err := next.Get(w.s.ID(), w.peer())
	if err != nil || s.Mode() != policy.ModeAcceptEdits || len(s.OwnRules()) != 1 || s.Workspace() != w.s.Workspace() || s.Peer().UID() != w.host.UID {
		t.Fatalf("%+v %v", s, err)
	}
	w.s = s
	if res := w.bash("touch x"); res.Status != StatusOK {
		t.Errorf("%v %s", res.Status, res.Error)
	}
	// One whose workspace is gone is ended, with its row.
	if err := os.RemoveAll(w.host.path("home/u/w")); err != nil {
		t.Fatal(err)
	}
	third, _ := NewSessions(SessionsOptions{Load: w.load, Store: store, Audit: w.log})
	if err := third.Restore(t.Context()); err == nil || len(third.List(w.peer())) != 0 || len(store.sessions) != 0 {
		t.Errorf("error %v, %d sessions, %d kept", err, len(third.List(w.peer())), len(store.sessions))
	}
	if n := count(w.log.statuses(), StatusSessionStop); n != 1 {
		t.Errorf("%d rows", n)
	}
}

func TestFailedCreateLeavesNothing(t *testing.T) {
	w := newWorld(t, nil)
	w.m.o.MaxPerUID = 2
	w.edit = denying("run_bash(")
	for range 5 {
		if _, err := w.m.Create(t.Context(), w.peer(), SessionRequest{}); err == nil || errors.Is(err, ErrTooManySessions) {
			t.Fatalf("error %v", err)
		}
	}
	w.edit = nil
	w.session()
	if _, err := w.m.Create(t.Context(), w.peer(), SessionRequest{}); !errors.Is(err, ErrTooManySessions) {
		t.Errorf("error %v", err)
	}
	w.m.o.SelfTest = func(context.Context, *Session) error { return &SelfTestError{Path: "x"} }
	w.m.o.MaxPerUID = 10
	if _, err := w.m.Create(t.Context(), w.peer(), SessionRequest{}); err == nil || len(w.m.List(w.peer())) != 2 {
		t.Errorf("error %v", err)
	}
}

func TestLimitsOfRunBash(t *testing.T) {
	w := newWorld(t, denying())
	for _, tt := range []struct {
		name  string
		args  policy.Args
		tool  string
		want  time.Duration
		notes bool
	}{
		{"default", policy.Args{}, "run_bash", 60 * time.Second, false},
		{"asked", policy.Args{"timeout": 5.0}, "run_bash", 5 * time.Second, false},
		{"clamped", policy.Args{"timeout": 500.0}, "run_bash", 120 * time.Second, true},
		{"milliseconds", policy.Args{"timeout_ms": 1500.0}, "run_bash", 1500 * time.Millisecond, false},
		{"Claude Code's", policy.Args{"timeout": 600000.0}, "Bash", 120 * time.Second, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w.t = t
			tt.args["command"] = "true"
			res := w.call(tt.tool, tt.args)
			if res.Spec.Limits.Wall != tt.want || (len(res.Notes) > 0) != tt.notes || res.Status != StatusOK {
				t.Errorf("wall %v, notes %q, %v %s", res.Spec.Limits.Wall, res.Notes, res.Status, res.Error)
			}
		})
	}
	w.t = t
	w.edit = func(p *PolicyInForce) { denying()(p); p.Grant.Limits.Timeout = 600 * time.Second }
	w.s = w.session()
	if res := w.call("run_bash", policy.Args{"command": "true", "timeout": 500.0}); res.Spec.Limits.Wall != 500*time.Second || len(res.Notes) > 0 {
		t.Errorf("the policy raises it: %v %q", res.Spec.Limits.Wall, res.Notes)
	}
	w.edit = denying()
	w.s = w.session()
	attended := w.d.Dispatch(t.Context(), w.s, ToolCall{Call: policy.BashCall("true", ""), Attended: true, Limits: policy.GrantLimits{Timeout: 900 * time.Second}})
	if attended.Spec.Limits.Wall != 900*time.Second {
		t.Errorf("a person's call: %v", attended.Spec.Limits.Wall)
	}
	if res := w.call("read_file", policy.Args{"file_path": "/etc/hostname"}); res.Spec.Limits.Wall != policy.ToolTimeout {
		t.Errorf("a file tool: %v", res.Spec.Limits.Wall)
	}
	res := w.call("run_bash", policy.Args{"command": "sleep 30.9; echo no", "timeout": 0.3})
	if res.Status != StatusTimeout || !strings.Contains(res.Output, "timed out after 300ms") {
		t.Errorf("%v %q", res.Status, res.Output)
	}
	if res := w.call("run_bash", policy.Args{"command": "true", "timeout": "soon"}); res.Ran || res.Error == "" {
		t.Errorf("a broken timeout: %+v", res.Status)
	}
	// Row 108: 4,000 characters, on a character boundary, the rest in a file.
	res = w.bash("for i in $(seq 3000); do printf 'aé'; done")
	if len(res.Output) > 4200 || !strings.Contains(res.Output, "bytes, 0 lines left out") || strings.ContainsRune(res.Output, '\uFFFD') || res.Exec.Stdout.Bytes != 9000 {
		t.Errorf("%d bytes kept of %d", len(res.Output), res.Exec.Stdout.Bytes)
	}
	if data, err := os.ReadFile(res.Exec.Stdout.File); err != nil || len(data) != 9000 {
		t.Errorf("the whole: %d bytes, %v", len(data), err)
	}
}

// TestWorkingDirectoryIsLimitedToTheRoots is row 109.
func TestWorkingDirectoryIsLimitedToTheRoots(t *testing.T) {
	w := newWorld(t, denying())
	sub := w.host.dir("home/u/w/sub")
	granted := w.host.dir("granted")
	w.edit = func(p *PolicyInForce) {
		denying()(p)
		p.Config.Roots = append(p.Config.Roots, policy.Root{Path: granted})
		p.Grant.Paths = append(p.Grant.Paths, policy.PathGrant{Path: granted, Access: policy.GrantRead, Source: policy.Source{Kind: policy.SourceUser}})
	}
	w.s = w.session()
	_ = os.Symlink("/usr", w.host.path("home/u/w/link"))
	for dir, want := range map[string]string{".": w.s.Workspace(), sub: sub, "sub": sub, granted: granted} {
		if res := w.call("run_bash", policy.Args{"command": "pwd -P", "working_dir": dir}); res.Output != want+"\n" {
			t.Errorf("%q: %q %s", dir, res.Output, res.Error)
		}
	}
	for _, dir := range []string{"/", "/usr", "/tmp", "..", "link", w.host.path("home/u"), "/nowhere"} {
		res := w.call("run_bash", policy.Args{"command": "pwd", "working_dir": dir})
		if res.Ran || res.Status == StatusOK || !strings.Contains(res.Error, "inside the roots") {
			t.Errorf("%q: %v %q %s", dir, res.Status, res.Output, res.Error)
		}
	}
	// The same by the directory of the call itself, which no rule looked at.
	for dir, want := range map[string]bool{sub: true, granted: true, "/usr": false, "/": false, "/tmp": false} {
		r := &ToolRun{Call: ToolCall{Call: policy.Call{Tool: "run_bash", Cwd: dir}}, Session: w.s, d: w.d, result: &ToolResult{}}
		p, err := w.d.confine(r, Command{Argv: []string{"true"}})
		if (err == nil) != want {
			t.Errorf("%q: %v", dir, err)
		}
		p.cleanUp(r)
	}
}
