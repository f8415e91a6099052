package agentloop

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"sandboxd/exec"
	"sandboxd/policy"
	"sandboxd/test/require"
)

// memoryLog keeps rows in memory, or refuses them.
type memoryLog struct {
	mu   sync.Mutex
	rows []AuditRecord
	err  error
}

func (l *memoryLog) Append(_ context.Context, r AuditRecord) (int64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return 0, l.err
	}
	l.rows = append(l.rows, r)
	return int64(len(l.rows)), nil
}

func (l *memoryLog) statuses() []Status {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []Status
	for _, r := range l.rows {
		out = append(out, r.Status)
	}
	return out
}

// world is a dispatcher on the real host with one session.
type world struct {
	t    testing.TB
	host *fakeHost
	d    *Dispatcher
	m    *Sessions
	s    *Session
	log  *memoryLog
	asks *AskQueue
	// edit changes the policy of sessions that are made later or reloaded.
	edit func(*PolicyInForce)
	opts DispatcherOptions
}

func rule(kind policy.Kind, pattern string) policy.Rule {
	return policy.Rule{Kind: kind, Pattern: pattern, Source: policy.Source{Kind: policy.SourceUser}}
}

// newWorld makes one. edit may be nil.
func newWorld(t testing.TB, edit func(*PolicyInForce), more ...func(*world)) *world {
	t.Helper()
	w := &world{t: t, host: newHost(t), log: &memoryLog{}, edit: edit}
	w.host.file("home/u/w/.git/HEAD", "ref: refs/heads/main\n", 0o644)
	real := exec.LoadHost(w.host.CacheDir)
	if real.LandlockABI == 0 {
		require.Missing(t, require.Landlock, "none here")
	}
	runner := exec.NewRunner(real)
	runner.CacheDir = w.host.CacheDir
	w.opts = DispatcherOptions{Runner: runner, Host: real, Audit: w.log, Metrics: NewMetrics(), Results: NewResultFiles(ResultFilesOptions{})}
	for _, f := range more {
		f(w)
	}
	if w.asks == nil {
		w.asks = NewAskQueue(AskQueueOptions{Metrics: w.opts.Metrics})
	}
	w.opts.Asks = w.asks
	w.opts.Tools = append([]Tool{catTool{}, teeTool{}}, w.opts.Tools...)
	var err error
	if w.d, err = NewDispatcher(w.opts); err != nil {
		t.Fatal(err)
	}
	w.m, err = NewSessions(SessionsOptions{
		Load: w.load, Runner: runner, Host: real, Confinement: policy.FullyConfined, Asks: w.asks, Hooks: w.opts.Hooks, Audit: w.log, Metrics: w.opts.Metrics,
		Tools: w.opts.Tools,
	})
	if err != nil {
		t.Fatal(err)
	}
	w.s = w.session()
	return w
}

func (w *world) peer() Peer { return Peer{PID: os.Getpid(), Caller: w.host.Caller} }

func (w *world) load(_ context.Context, p Peer, r SessionRequest) (PolicyInForce, error) {
	in := PolicyInForce{
		Config: policy.Config{Workspace: r.Workspace, Home: p.Caller.Home, Default: policy.Ask, PrivateTmp: true},
		Grant:  policy.Grant{PrivateTmp: true},
	}
	if r.Mode != "" {
		mode, err := policy.ParseMode(r.Mode)
		if err != nil {
			return in, err
		}
		in.Config.Mode = mode
	}
	if w.edit != nil {
		w.edit(&in)
	}
	return in, nil
}

func (w *world) session() *Session {
	w.t.Helper()
	s, err := w.m.Create(w.t.Context(), w.peer(), SessionRequest{})
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

func (w *world) call(tool string, args policy.Args) ToolResult {
	w.t.Helper()
	return w.d.Dispatch(w.t.Context(), w.s, ToolCall{Call: policy.Call{Tool: tool, Args: args}})
}

func (w *world) bash(script string) ToolResult {
	w.t.Helper()
	return w.call("run_bash", policy.Args{"command": script})
}

func allowing(patterns ...string) func(*PolicyInForce) {
	return func(p *PolicyInForce) {
		for _, text := range patterns {
			p.Config.Rules = append(p.Config.Rules, rule(policy.AllowRule, text))
		}
	}
}

func TestDispatchRunsWhatIsAllowedAndRecordsIt(t *testing.T) {
	w := newWorld(t, allowing("run_bash(echo *)"))
	res := w.bash("echo hello; echo more >&2")
	if res.Status != StatusOK || !res.Ran || res.Output != "hello\nmore\n" || res.Error != "" {
		t.Fatalf("result %+v", res)
	}
	if got := w.log.statuses(); !slices.Equal(got, []Status{StatusAllow, StatusOK}) {
		t.Errorf("rows %v", got)
	}
	row := w.log.rows[1]
	if row.OutputPreview != "hello\nmore\n" || row.Tool != "run_bash" || row.Agent != "lead" || row.Generation != 1 || row.Step != 1 ||
		row.Session != w.s.ID() || row.Call != res.Call || len(row.Enforced) == 0 || !strings.Contains(string(row.Args), "echo hello") {
		t.Errorf("row %+v", row)
	}
}

func TestDispatchRefusesWithoutTrace(t *testing.T) {
	w := newWorld(t, func(p *PolicyInForce) {
		p.Config.Rules = []policy.Rule{rule(policy.DenyRule, "run_bash(touch *)"), rule(policy.AllowRule, "run_bash")}
	})
	res := w.bash("touch made")
	if res.Status != StatusDeny || res.Ran || !strings.Contains(res.Error, "touch") {
		t.Fatalf("result %+v", res)
	}
	var denied *DeniedError
	if !errors.As(res.Err, &denied) {
		t.Errorf("error %v", res.Err)
	}
	if _, err := os.Stat(w.host.path("home/u/w/made")); err == nil {
		t.Error("the command ran")
	}
	if got := w.log.statuses(); !slices.Equal(got, []Status{StatusDeny}) {
		t.Errorf("rows %v", got)
	}
}

// TestTraceShowsEveryHopOnce is row 4: loop checks, preparation, decision, turn,
// record, confinement, run, what was left, hooks, answer.
func TestTraceShowsEveryHopOnce(t *testing.T) {
	w := newWorld(t, allowing("run_bash(echo *)"))
	res := w.bash("echo x")
	var got []string
	for _, h := range res.Trace {
		got = append(got, h.Name)
		if h.Elapsed < 0 {
			t.Errorf("hop %s took %v", h.Name, h.Elapsed)
		}
	}
	want := []string{hopLoop, hopPrepare}
	for _, stage := range policy.Stages() {
		want = append(want, "decide: "+string(stage))
	}
	want = append(want, hopSchedule, hopRecord, hopConfine, hopRun, hopGuard, hopPost, hopAnswer)
	if !slices.Equal(got, want) {
		t.Errorf("trace\n%q, want\n%q", got, want)
	}
	for _, h := range res.Trace {
		if h.Name == hopRun && h.Elapsed <= 0 {
			t.Error("the run has no duration")
		}
	}
}

func TestNothingRunsUnrecorded(t *testing.T) {
	for _, tt := range []struct {
		name    string
		setting bool
		policy  Unrecorded
		ran     bool
	}{
		{"refused", false, UnrecordedUnsaid, false},
		{"run by setting", true, UnrecordedUnsaid, true},
		{"run by policy", false, UnrecordedRun, true},
		{"refused by policy", true, UnrecordedRefused, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, func(p *PolicyInForce) {
				allowing("run_bash(touch *)")(p)
				p.Unrecorded = tt.policy
			}, func(w *world) { w.opts.RunUnrecorded = tt.setting })
			w.log.err = errors.New("disk full")
			res := w.bash("touch made")
			if res.Ran != tt.ran {
				t.Fatalf("ran %v: %+v", res.Ran, res)
			}
			if _, err := os.Stat(w.host.path("home/u/w/made")); (err == nil) != tt.ran {
				t.Errorf("file: %v", err)
			}
			if !tt.ran && (!errors.Is(res.Err, ErrNotRecorded) || !strings.Contains(res.Error, "disk full")) {
				t.Errorf("error %v", res.Err)
			}
			if tt.ran && (res.Status != StatusOK || len(res.Notes) != 1 || !strings.Contains(res.Notes[0], "not recorded: ") || !strings.Contains(res.Notes[0], "disk full")) {
				t.Errorf("it ran unrecorded without a word, or failed: %+v", res)
			}
			w.log.err = nil
			if res := w.bash("touch later"); res.Status != StatusOK {
				t.Errorf("it does not recover: %+v", res)
			}
		})
	}
}

func TestUnknownToolIsRefused(t *testing.T) {
	w := newWorld(t, nil)
	if res := w.call("nothing_like_it", policy.Args{}); res.Status != StatusDeny || res.Ran {
		t.Errorf("unknown tool %+v", res)
	}
}

// BenchmarkDispatch is one call of a session, with its rows kept in memory, beside
// the same command given to the Runner directly.
func BenchmarkDispatch(b *testing.B) {
	w := newWorld(b, allowing("run_bash(true)"))
	for name, run := range map[string]func() bool{
		"call": func() bool { return w.bash("true").Status == StatusOK },
		"file": func() bool {
			return w.call("read_file", policy.Args{"file_path": "/etc/hostname"}).Status == StatusOK
		},
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if !run() {
					b.Fatal("failed")
				}
			}
		})
	}
	spec := w.bash("true").Spec
	b.Run("runner alone", func(b *testing.B) {
		for b.Loop() {
			if _, err := w.opts.Runner.Run(b.Context(), spec); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// fixedScore is a classifier that always gives the same answer.
type fixedScore float64

func (f fixedScore) Classify(context.Context, policy.ClassifierInput) (float64, error) {
	return float64(f), nil
}

// TestScoreIsInTheAudit is row 159: what the classifier said is kept with the
// decision it made.
func TestScoreIsInTheAudit(t *testing.T) {
	for _, tt := range []struct {
		score float64
		want  policy.Verdict
		text  string
	}{{0.93, policy.Allow, `"score":0.93`}, {0.07, policy.Deny, `"score":0.07`}} {
		w := newWorld(t, func(in *PolicyInForce) {
			in.Config.Mode, in.Config.Classifier = policy.ModeAuto, fixedScore(tt.score)
		})
		res := w.d.Dispatch(t.Context(), w.s, ToolCall{Call: policy.BashCall("./deploy x", w.host.Cwd)})
		if res.Decision.Verdict != tt.want {
			t.Fatalf("score %v: %v by %v", tt.score, res.Decision.Verdict, res.Decision.Reason)
		}
		for _, row := range w.log.rows {
			if !strings.Contains(string(row.Reason), tt.text) || !strings.Contains(string(row.Reason), `"type":"classifier"`) {
				t.Errorf("a row with status %s has the reason %s, want %s", row.Status, row.Reason, tt.text)
			}
		}
		if len(w.log.rows) == 0 {
			t.Errorf("score %v: no row", tt.score)
		}
	}
}
