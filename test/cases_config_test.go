package test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// S055: what the policy says of the environment holds for each command alike,
// also in a session of the daemon and for a job in the background.
func TestCaseS055SameEnvironmentEachTime(t *testing.T) {
	d := startDaemon(t, os.Getuid())
	s := d.scene
	s.Env = append(s.Env, "DEPLOY_TARGET="+s.Token, "LESS="+s.Token)
	policy := filepath.Join(s.Out, "policy.toml")
	s.file(policy, "[env]\npass = [\"LESS\"]\nset = [\"A=1\"]\n")
	s.must(os.Chmod(policy, 0o644))
	env := func(r result) string {
		s.Helper()
		if r.Code != 0 {
			s.Fatalf("exit %d: %s", r.Code, r.Stderr)
		}
		lines := strings.Split(strings.TrimSpace(r.Stdout), "\n")
		slices.Sort(lines)
		return strings.Join(lines, "\n")
	}
	run := func() string {
		return env(s.plain(s.program("sbx"), "run", "--quiet", "--policy", policy, "--workspace", s.Work, "--", "env"))
	}
	first := run()
	if !strings.Contains(first, "A=1\n") || !strings.Contains(first, "LESS="+s.Token) || strings.Contains(first, "DEPLOY_TARGET=") {
		t.Fatalf("the environment is\n%s", first)
	}
	for range 9 {
		if again := run(); again != first {
			t.Fatalf("then it is\n%s\nat first it was\n%s", again, first)
		}
	}
	var inDaemon string
	for i := range 10 {
		got := env(s.execTo(d, []string{"--policy", policy, "--workspace", s.Work}, "env"))
		if i == 0 {
			inDaemon = got
		}
		if got != inDaemon || !strings.Contains(got, "A=1\n") || !strings.Contains(got, "LESS="+s.Token) || strings.Contains(got, "DEPLOY_TARGET=") {
			t.Fatalf("call %d of the daemon has\n%s\nthe first had\n%s", i+1, got, inDaemon)
		}
	}
	job := strings.TrimSpace(s.execTo(d, []string{"--policy", policy, "--workspace", s.Work, "--detach"}, "env").Stdout)
	if got := env(s.sbxTo(d, "jobs", "logs", "-f", job)); got != inDaemon {
		t.Errorf("the job has\n%s\na call has\n%s", got, inDaemon)
	}
}

// TestRuleUsage: the log tells which rules decide, and which never do.
func TestRuleUsage(t *testing.T) {
	d := startDaemon(t, os.Getuid())
	s := d.scene
	policy := filepath.Join(s.Out, "policy.toml")
	s.file(policy, "[rules]\ndeny = [\"run_bash(git push *)\"]\nask = [\"run_bash(make *)\"]\nallow = [\"run_bash(true *)\", \"run_bash(ninja *)\"]\n")
	s.must(os.Chmod(policy, 0o644))
	flags := []string{"exec", "--quiet", "--policy", policy, "--workspace", s.Work, "--"}
	for range 3 {
		if r := s.sbxTo(d, append(slices.Clone(flags), "git", "push", "x")...); r.Code != 126 {
			t.Fatalf("exit %d: %s", r.Code, r.Stderr)
		}
	}
	if r := s.sbxTo(d, append(slices.Clone(flags), "make", "x")...); r.Code != 126 {
		t.Fatalf("exit %d: %s", r.Code, r.Stderr)
	}
	if r := s.sbxTo(d, append(slices.Clone(flags), "true", "x")...); r.Code != 0 {
		t.Fatalf("exit %d: %s", r.Code, r.Stderr)
	}
	var got struct {
		Rules []struct {
			Rule  string
			Count int
			Last  string
		}
	}
	r := s.sbxTo(d, "permissions", "usage", "--json", "--policy", policy, "--workspace", s.Work)
	if err := json.Unmarshal([]byte(r.Stdout), &got); err != nil {
		t.Fatalf("%v: %+v", err, r)
	}
	counts := map[string]int{}
	for _, u := range got.Rules {
		counts[u.Rule] = u.Count
		if (u.Last != "") != (u.Count > 0) {
			t.Errorf("%s decided %d calls, the last at %q", u.Rule, u.Count, u.Last)
		}
	}
	if counts["run_bash(git push *)"] != 3 || counts["run_bash(true *)"] != 1 || counts["run_bash(make *)"] != 1 || counts["run_bash(ninja *)"] != 0 || len(counts) != 4 {
		t.Errorf("counts are %v", counts)
	}
	unused := s.sbxTo(d, "permissions", "usage", "--unused", "--policy", policy, "--workspace", s.Work)
	if unused.Code != 0 || !strings.Contains(unused.Stdout, "ninja") || strings.Contains(unused.Stdout, "push") {
		t.Errorf("unused: exit %d, %q", unused.Code, unused.Stdout)
	}
}
