package test

import (
	"encoding/json"
	"fmt"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"sandboxd/test/require"
)

// recorded is a scene whose user wants rows of sbx run.
func recorded(t *testing.T, uid int) *scene {
	t.Helper()
	if _, err := daemonProgram(); err != nil {
		t.Fatal(err)
	}
	s := newScene(t, uid, "full")
	s.must(os.Chmod(s.file(s.Home+"/.config/sandboxd/policy.toml", "[audit]\nrun = true\n[rules]\ndeny = [\"run_bash(touch denied*)\"]\n"), 0o600))
	return s
}

// runRows are the rows of the scene's log, "status tool command" each, oldest first.
func (s *scene) runRows() (rows []string) {
	s.Helper()
	r := s.finish(s.command(s.program("sbx"), "audit", "--runs", "--json", "--limit", "1000"))
	if r.Code != 0 {
		s.Fatalf("%+v", r)
	}
	for line := range strings.Lines(r.Stdout) {
		var row struct {
			Status, Verdict string
			UID             int
			Tool            string `json:"tool_name"`
			Args            struct{ Command string }
		}
		s.must(json.Unmarshal([]byte(line), &row))
		if row.UID != s.UID {
			s.Errorf("whose call is it: %s", line)
		}
		rows = append(rows, row.Status+" "+row.Tool+" "+row.Args.Command)
	}
	return rows
}

func (s *scene) verifyRuns() {
	s.Helper()
	if r := s.finish(s.command(s.program("sbx"), "audit", "verify", "--runs")); r.Code != 0 || !strings.HasPrefix(r.Stdout, "ok: ") {
		s.Errorf("%+v", r)
	}
}

// Where a policy says so, sbx run writes a row before the command starts and one at its
// end, into a chain of the user's own; else it writes nothing.
func TestRunsAreRecordedWhereThePolicySaysSo(t *testing.T) {
	for _, uid := range users() {
		s := recorded(t, uid)
		s.Env = append(s.Env, "API_TOKEN=tok-0123456789abcdef")
		for _, tt := range []struct {
			code int
			argv []string
		}{
			{0, []string{"true"}}, {3, []string{"sh", "-c", "exit 3"}}, {126, []string{"touch", "denied"}},
			{0, []string{"echo", "tok-0123456789abcdef", "--password", "hunter2hunter"}},
		} {
			if r := s.finish(s.command(append([]string{s.program("sbx"), "run", "--"}, tt.argv...)...)); r.Code != tt.code {
				t.Fatalf("%q: %+v", tt.argv, r)
			}
		}
		if r := s.finish(s.command(s.program("sbx"), "run", "--dry-run", "--", "touch", "dry")); r.Code != 0 {
			t.Errorf("%+v", r)
		}
		got, want := strings.Join(s.runRows(), "\n"), strings.Join([]string{
			"allow run_bash true", "ok run_bash true", "allow run_bash sh -c 'exit 3'", "fail run_bash sh -c 'exit 3'", "deny run_bash touch denied",
		}, "\n")
		last, masked := strings.CutPrefix(got, want+"\n")
		if !masked || strings.Count(last, "\n") != 1 || strings.Contains(last, "0123456789") || strings.Contains(last, "hunter2") || !strings.Contains(last, "allow run_bash echo") {
			t.Errorf("rows\n%s\nwant\n%s\nand two of echo without the secrets", got, want)
		}
		s.verifyRuns()

		plain := newScene(t, uid, "full")
		if r := plain.finish(plain.command(plain.program("sbx"), "run", "--", "true")); r.Code != 0 || exists(plain.Home+"/.local/state/sandboxd/run-audit") {
			t.Errorf("without a policy: %+v", r)
		}
	}
}

// sbx audit export --runs writes all rows of that log, more than one page holds, as the
// lines that the program of docs/audit.md finds whole, and asks no daemon.
func TestExportOfRunsIsVerifiedByTheProgramOfTheDocs(t *testing.T) {
	s := recorded(t, 1000)
	s.Env = append(s.Env, "SANDBOXD_SOCKET="+s.Home+"/no-daemon")
	export := func(args ...string) result {
		return s.finish(s.command(append([]string{s.program("sbx"), "audit", "export", "--runs"}, args...)...))
	}
	if r := export("--output", "none.jsonl"); r.Code != 125 || !strings.Contains(r.Stderr, "no run was recorded") || exists(s.Work+"/none.jsonl") {
		t.Errorf("before the first run: %+v", r)
	}
	if r := s.finish(s.command(s.program("sbx"), "run", "--", "sh", "-c", "exit 3")); r.Code != 3 {
		t.Fatalf("%+v", r)
	}
	const more = 450
	write := s.command(s.program("sandboxd"), "run-log")
	write.Stdin = strings.NewReader(strings.Repeat(`{"append":{"status":"allow","tool_name":"run_bash","agent_name":"lead"}}`+"\n", more))
	if r := s.finish(write); r.Code != 0 || strings.Contains(r.Stdout, "error") {
		t.Fatalf("%+v", r)
	}
	r := export()
	if n := strings.Count(r.Stdout, "\n"); r.Code != 0 || n != more+2 {
		t.Fatalf("exit %d, %d lines, want %d: %s", r.Code, n, more+2, clip(r.Stderr))
	}
	s.file(s.Work+"/audit.jsonl", r.Stdout)
	program := s.docProgram("../docs/audit.md", "```python\nimport hashlib, json, sys\n")
	verify := osexec.CommandContext(t.Context(), "python3", "-c", program)
	verify.Dir = s.Work
	if out, err := verify.CombinedOutput(); err != nil || !strings.HasPrefix(string(out), fmt.Sprintf("ok %d ", more+2)) {
		t.Errorf("%v\n%s", err, out)
	}
	r = export("--status", "fail", "--output", "fail.jsonl")
	if text := s.content(s.Work + "/fail.jsonl"); r.Code != 0 || strings.Count(text, "\n") != 1 || !strings.Contains(text, "exit 3") {
		t.Errorf("filtered: %+v, %s", r, text)
	}
}

// The row of the end has the beginning of what was printed, wherever that went, without
// its secrets; what is printed arrives whole.
func TestRowOfARunHasTheBeginningOfItsOutput(t *testing.T) {
	const token = "tok-0123456789abcdef"
	script := `printf 'begin %s ' "$T"; echo err >&2; head -c 100000 /dev/zero | tr '\0' x`
	for _, uid := range users() {
		s := recorded(t, uid)
		s.Env = append(s.Env, "API_TOKEN="+token)
		for _, tt := range []struct {
			name  string
			flags []string
			start func(c *osexec.Cmd) (shown string)
		}{
			{"pipe", nil, func(c *osexec.Cmd) string { return s.finish(c).Stdout }},
			{"file", nil, func(c *osexec.Cmd) string {
				f, err := os.Create(s.Out + "/printed")
				s.must(err)
				defer f.Close()
				c.Stdout = f
				s.must(c.Run())
				return s.content(f.Name())
			}},
			{"nowhere", nil, func(c *osexec.Cmd) string { s.must(c.Run()); return "" }},
			{"limit", []string{"--output-limit", "10"}, func(c *osexec.Cmd) string { return s.finish(c).Stdout }},
			{"json", []string{"--json"}, func(c *osexec.Cmd) string { return s.finish(c).Stdout }},
			{"terminal", nil, func(c *osexec.Cmd) string { p := atTerminal(t, c); p.ends(); return p.seen.String() }},
			{"tty", []string{"--tty"}, func(c *osexec.Cmd) string { p := atTerminal(t, c); p.ends(); return p.seen.String() }},
		} {
			argv := append(append([]string{s.program("sbx"), "run", "-q"}, tt.flags...), "--env", "T="+token, "--", "sh", "-c", script)
			shown := tt.start(s.command(argv...))
			least, most := 100000, 100000
			switch tt.name {
			case "nowhere", "limit":
				least, most = 0, 0
			case "json": // it keeps 4,000 characters
				least, most = 3900, 4010
			}
			if n := strings.Count(strings.ReplaceAll(shown, "exit", ""), "x"); n < least || n > most {
				t.Errorf("uid %d, %s: %d x arrived: %s", uid, tt.name, strings.Count(shown, "x"), clip(shown))
			}
			r := s.finish(s.command(s.program("sbx"), "audit", "--runs", "--json", "--limit", "1"))
			var row struct {
				Status  string
				Preview string `json:"output_preview"`
			}
			s.must(json.Unmarshal([]byte(r.Stdout), &row))
			if n := len([]rune(row.Preview)); row.Status != "ok" || n != 200 || !strings.Contains(row.Preview, "begin ") || !strings.Contains(row.Preview, "xxxx") || strings.Contains(r.Stdout, token) {
				t.Errorf("uid %d, %s: %s, %d characters: %s", uid, tt.name, row.Status, n, r.Stdout)
			}
		}
	}
}

// The row of the decision outlives a kill; runs at once share the chain; the command
// itself neither reads nor writes the log.
func TestRunLogHoldsUnderKillsAndCrowds(t *testing.T) {
	s := recorded(t, 1000)
	killed := s.command(s.program("sbx"), "run", "--", "sh", "-c", "echo begun >begun; sleep 61.3")
	s.must(killed.Start())
	s.until("the command runs", func() bool { return exists(s.Work + "/begun") })
	s.must(unix.Kill(killed.Process.Pid, unix.SIGKILL))
	killed.Wait()
	if rows := s.runRows(); len(rows) != 1 || !strings.HasPrefix(rows[0], "allow run_bash sh -c") {
		t.Errorf("after a kill: %q", rows)
	}
	var all sync.WaitGroup
	for i := range 12 {
		all.Go(func() {
			if r := s.finish(s.command(s.program("sbx"), "run", "-q", "--", "echo", fmt.Sprint("crowd", i))); r.Code != 0 {
				t.Errorf("%+v", r)
			}
		})
	}
	all.Wait()
	rows := s.runRows()
	for i := range 12 {
		for _, status := range []string{"allow", "ok"} {
			if n := strings.Count("\n"+strings.Join(rows, "\n")+"\n", fmt.Sprintf("\n%s run_bash echo crowd%d\n", status, i)); n != 1 {
				t.Errorf("%d rows %q of run %d", n, status, i)
			}
		}
	}
	s.verifyRuns()
	// A row of its own making goes into the private home's log at most.
	forge := `echo '{"append":{"status":"allow","tool_name":"forged","agent_name":"x"}}' | "$0" run-log; cat ` + s.Home + `/.local/state/sandboxd/run-audit/audit.db.anchors`
	r := s.finish(s.command(s.program("sbx"), "run", "--ro", filepath.Dir(s.program("sandboxd")), "--", "sh", "-c", forge, s.program("sandboxd")))
	if text := strings.Join(s.runRows(), "\n"); strings.Contains(text, "run_bash forged") || strings.Contains(text, "allow forged") {
		t.Errorf("a command wrote into the log: %+v\n%s", r, text)
	}
	s.verifyRuns()
}

// Nothing runs unrecorded where the policy wants rows, and it recovers by itself.
func TestNoRunWithoutItsRow(t *testing.T) {
	require.Root(t, "to mount a small file system")
	s := recorded(t, 0)
	state := s.mkdir(s.Home + "/.local/state/sandboxd")
	s.must(unix.Mount("none", state, "tmpfs", 0, "size=1m,mode=700"))
	t.Cleanup(func() { unix.Unmount(state, unix.MNT_DETACH) })
	run := func(name string) (result, bool) {
		r := s.finish(s.command(s.program("sbx"), "run", "--", "touch", name))
		return r, exists(s.Work + "/" + name)
	}
	if r, ran := run("before"); !ran {
		t.Fatalf("with space: %+v", r)
	}
	f, err := os.Create(state + "/full")
	s.must(err)
	for block := make([]byte, 4096); err == nil; {
		_, err = f.Write(block)
	}
	f.Close()
	if r, ran := run("full"); ran || r.Code != 125 || !strings.Contains(r.Stderr, "nothing was run: the audit log cannot be written") {
		t.Errorf("on a full disk it ran %v: %+v", ran, r)
	}
	s.must(os.Remove(state + "/full"))
	if r, ran := run("after"); !ran || r.Code != 0 {
		t.Errorf("with space again: %+v", r)
	}
	s.verifyRuns()
}
