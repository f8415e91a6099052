package tools

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"sandboxd/agentloop"
	"sandboxd/exec"
	"sandboxd/policy"
	"sandboxd/test/require"
)

func TestMain(m *testing.M) {
	HelperMain("")
	playMCP()
	if dir := os.Getenv(recordChild); dir != "" {
		changeForEver(dir)
	}
	goleak.VerifyTestMain(m)
}

// world is a dispatcher with all tools on the real host, and one session.
type world struct {
	t  testing.TB
	ws string // the workspace
	d  *agentloop.Dispatcher
	m  *agentloop.Sessions
	s  *agentloop.Session
	// edit changes the policy of a session.
	edit   func(*agentloop.PolicyInForce)
	caller agentloop.Caller
	host   exec.Host
	runner *exec.Runner
	asks   *agentloop.AskQueue // nil: nobody is asked
	tools  Options
}

// newWorld makes one whose session allows what it is asked for, but for what rules
// in edit deny.
func newWorld(t testing.TB, edit func(*agentloop.PolicyInForce)) *world {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	home := root + "/home/u"
	w := &world{t: t, ws: home + "/w", edit: edit}
	w.file("a.txt", "one\ntwo\nthree\n")
	w.file(".git/HEAD", "ref: refs/heads/main\n")
	w.caller = agentloop.Caller{Cwd: w.ws, Environ: []string{"PATH=/usr/bin:/bin", "HOME=" + home}, UID: os.Getuid(), GID: os.Getgid(),
		Home: home, ConfigDir: home + "/.config/sandboxd", StateDir: home + "/.local/state/sandboxd", CacheDir: home + "/.cache/sandboxd"}
	host := exec.LoadHost(w.caller.CacheDir)
	if host.LandlockABI == 0 {
		require.Missing(t, require.Landlock, "none here")
	}
	w.host, w.runner = host, exec.NewRunner(host)
	w.runner.CacheDir = w.caller.CacheDir
	w.remake()
	return w
}

// remake makes dispatcher, sessions and the one session.
func (w *world) remake() {
	w.t.Helper()
	var err error
	w.d, err = agentloop.NewDispatcher(agentloop.DispatcherOptions{Runner: w.runner, Host: w.host, Tools: All(w.tools), Metrics: agentloop.NewMetrics(), Asks: w.asks,
		Results: agentloop.NewResultFiles(agentloop.ResultFilesOptions{})})
	if err != nil {
		w.t.Fatal(err)
	}
	w.m, err = agentloop.NewSessions(agentloop.SessionsOptions{Load: w.load, Runner: w.runner, Host: w.host, Confinement: policy.FullyConfined, Metrics: agentloop.NewMetrics(), Asks: w.asks})
	if err != nil {
		w.t.Fatal(err)
	}
	m := w.m
	w.t.Cleanup(func() {
		ctx, stop := context.WithTimeout(context.Background(), 10*time.Second)
		defer stop()
		if err := m.Shutdown(ctx); err != nil {
			w.t.Errorf("sessions: %v", err)
		}
	})
	w.s = w.session()
}

func (w *world) session() *agentloop.Session {
	w.t.Helper()
	s, err := w.m.Create(w.t.Context(), agentloop.Peer{PID: os.Getpid(), Caller: w.caller}, agentloop.SessionRequest{})
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

func (w *world) load(_ context.Context, p agentloop.Peer, r agentloop.SessionRequest) (agentloop.PolicyInForce, error) {
	in := agentloop.PolicyInForce{
		Config: policy.Config{Workspace: r.Workspace, Home: p.Caller.Home, Default: policy.Allow, PrivateTmp: true},
		Grant:  policy.Grant{PrivateTmp: true},
	}
	if w.edit != nil {
		w.edit(&in)
	}
	return in, nil
}

// denying adds deny rules.
func denying(patterns ...string) func(*agentloop.PolicyInForce) {
	return func(p *agentloop.PolicyInForce) {
		for _, text := range patterns {
			p.Config.Rules = append(p.Config.Rules, policy.Rule{Kind: policy.DenyRule, Pattern: text, Source: policy.Source{Kind: policy.SourceUser}})
		}
	}
}

// as is the same world for a subtest.
func (w *world) as(t testing.TB) *world {
	c := *w
	c.t = t
	return &c
}

func (w *world) path(rel string) string { return filepath.Join(w.ws, rel) }

func (w *world) file(rel, content string) string {
	w.t.Helper()
	if err := os.MkdirAll(filepath.Dir(w.path(rel)), 0o755); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(w.path(rel), []byte(content), 0o644); err != nil {
		w.t.Fatal(err)
	}
	return w.path(rel)
}

func (w *world) content(rel string) string {
	w.t.Helper()
	b, err := os.ReadFile(w.path(rel))
	if err != nil {
		w.t.Fatal(err)
	}
	return string(b)
}

func (w *world) call(tool string, args policy.Args) agentloop.ToolResult {
	w.t.Helper()
	return w.in(w.s, tool, args)
}

func (w *world) in(s *agentloop.Session, tool string, args policy.Args) agentloop.ToolResult {
	return w.d.Dispatch(w.t.Context(), s, agentloop.ToolCall{Call: policy.Call{Tool: tool, Args: args}})
}

// ok calls a tool that must do what it is asked to.
func (w *world) ok(tool string, args policy.Args) string {
	w.t.Helper()
	res := w.call(tool, args)
	if res.Status != agentloop.StatusOK {
		w.t.Fatalf("%s(%v): %s: %s", tool, args, res.Status, res.Error)
	}
	return res.Output
}

// refused calls a tool that must refuse, with a text in its error.
func (w *world) refused(want, tool string, args policy.Args) agentloop.ToolResult {
	w.t.Helper()
	res := w.call(tool, args)
	if res.Status == agentloop.StatusOK || !strings.Contains(res.Error, want) {
		w.t.Errorf("%s(%v): %s, error %q, output %q; want an error with %q", tool, args, res.Status, res.Error, res.Output, want)
	}
	return res
}

func (w *world) read(rel string) {
	w.t.Helper()
	w.ok("read_file", policy.Args{"file_path": rel})
}
