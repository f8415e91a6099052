package test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sandboxd/test/require"
)

// The cases from the field about files, each by its id. Flags are ours.

// onStages runs f for every user and tier.
func onStages(t *testing.T, f func(s *scene)) {
	t.Helper()
	for _, uid := range users() {
		for _, tier := range tiers() {
			t.Run(fmt.Sprintf("uid%d-%s", uid, tier), func(t *testing.T) { f(newScene(t, uid, tier)) })
		}
	}
}

// succeeds runs a shell script confined and wants status 0.
func (s *scene) succeeds(flags []string, script string) result {
	s.Helper()
	r := s.sbx(flags, "bash", "-c", script)
	if r.Report.Outcome != "exited" || r.Code != 0 {
		s.Errorf("%s: %s %d, stdout %q, stderr %q, error %+v", script, r.Report.Outcome, r.Code, r.Stdout, r.Stderr, r.Report.Error)
	}
	return r
}

func TestCaseS006ContradictoryGrants(t *testing.T) {
	onStages(t, func(s *scene) {
		s.mkdir(s.Out + "/u/project")
		s.file(s.Out+"/u/other", s.Token)
		u, project := s.Out+"/u", s.Out+"/u/project"
		r := s.succeeds([]string{"--deny", u, "--ro", u, "--ro", project, "--rw", project},
			"echo ok >"+project+"/t && cat "+project+"/t")
		if strings.TrimSpace(r.Stdout) != "ok" || s.content(project+"/t") != "ok\n" {
			s.Errorf("the write grant is not honoured: %q, %q", r.Stdout, s.content(project+"/t"))
		}
		if r := s.sbx([]string{"--deny", u, "--ro", u, "--rw", project}, "cat", u+"/other"); leaks(s, r) {
			s.Error("the denied half is readable")
		}
		if !slices.ContainsFunc(r.Report.Warnings, func(w string) bool { return strings.Contains(w, u) }) {
			s.Errorf("no warning about the contradictory pair: %q", r.Report.Warnings)
		}
	})
}

func TestCaseS009MoveBetweenDirectories(t *testing.T) {
	onStages(t, func(s *scene) {
		spool := s.mkdir(s.Out + "/spool")
		r := s.succeeds([]string{"--rw", spool}, "cd "+spool+" && mkdir -p in act && touch in/1 && stat -c %i in/1 && mv in/1 act/1")
		var st unix.Stat_t
		s.must(unix.Stat(spool+"/act/1", &st))
		if strings.TrimSpace(r.Stdout) != fmt.Sprint(st.Ino) {
			s.Errorf("the file was copied: inode %s became %d", r.Stdout, st.Ino)
		}
	})
}

// S025: file watchers and git see nothing of a run.
func TestCaseS025NothingAppearsInTheWorkspace(t *testing.T) {
	onStages(t, func(s *scene) {
		repository(s)
		fd, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
		s.must(err)
		defer unix.Close(fd)
		for _, dir := range []string{s.Work, s.Work + "/.git", s.Work + "/.git/hooks"} {
			_, err = unix.InotifyAddWatch(fd, dir, unix.IN_CREATE|unix.IN_DELETE|unix.IN_MOVE|unix.IN_MODIFY|unix.IN_ATTRIB)
			s.must(err)
		}
		for range 10 {
			s.succeeds(nil, "true")
		}
		events := make([]byte, 4096)
		if n, err := unix.Read(fd, events); n > 0 || !errors.Is(err, unix.EAGAIN) {
			s.Errorf("a watcher saw %q, %v", events[:max(n, 0)], err)
		}
		s.succeeds(nil, "touch seen") // the watcher can see
		if n, err := unix.Read(fd, events); n <= 0 {
			s.Errorf("the watcher saw nothing of a real change: %v", err)
		}
	})
}

func TestCaseS029WritesToAHiddenDirectoryFail(t *testing.T) {
	onStages(t, func(s *scene) {
		s.file(s.Home+"/.ssh/key", s.Token)
		s.file(s.Out+"/u/.ssh/key", s.Token)
		for _, tt := range []struct {
			dir   string
			flags []string
		}{
			{s.Home + "/.ssh", nil},
			{s.Home + "/.ssh", []string{"--deny", s.Home + "/.ssh"}},
			{s.Out + "/u/.ssh", []string{"--ro", s.Out + "/u", "--deny", s.Out + "/u/.ssh"}},
		} {
			r := s.sbx(tt.flags, "bash", "-c", "echo x >"+tt.dir+"/f")
			if r.Report.Outcome != "exited" || r.Code == 0 || exists(tt.dir+"/f") {
				s.Errorf("%q: a write to %s ended %s %d", tt.flags, tt.dir, r.Report.Outcome, r.Code)
			}
		}
	})
}

func TestCaseS034LinkedWorktree(t *testing.T) {
	onStages(t, func(s *scene) {
		main := s.mkdir(s.Out + "/main")
		as := []string{"git", "-c", "user.name=a", "-c", "user.email=a@b.test"}
		for _, args := range [][]string{{"init", "-q", main}, {"-C", main, "commit", "-q", "--allow-empty", "-m", "x"},
			{"-C", main, "worktree", "add", "-q", "-f", s.Work + "/wt"}} {
			if r := s.plain(append(slices.Clone(as), args...)...); r.Code != 0 {
				s.Fatalf("git %q: %s", args, r.Stderr)
			}
		}
		s.file(main+"/kept", "kept")
		s.Work += "/wt"
		s.succeeds(nil, "echo x >f && git add f && git -c user.name=a -c user.email=a@b.test commit -q -m f && git status --porcelain")
		if r := s.plain("git", "-C", s.Work, "log", "--oneline"); strings.Count(r.Stdout, "\n") != 2 {
			s.Errorf("the commit is not there: %q", r.Stdout)
		}
		if s.sbx(nil, "bash", "-c", "echo x >"+main+"/kept"); s.content(main+"/kept") != "kept" {
			s.Error("the main working tree was written")
		}
	})
}

// S041: a denial inside a grant holds, or the run is refused before it starts.
func TestCaseS041DenialInsideAGrant(t *testing.T) {
	onStages(t, func(s *scene) {
		local := s.mkdir(s.Out + "/local")
		s.file(local+"/share/keyrings/secret", s.Token)
		s.file(local+"/share/mine", "mine")
		for _, grant := range []string{"--ro", "--rw"} {
			flags := []string{grant, local, "--deny", local + "/share/keyrings"}
			r := s.sbx(flags, "bash", "-c", "ls "+local+"/share; cat "+local+"/share/mine; cat "+local+"/share/keyrings/secret")
			switch {
			case leaks(s, r):
				s.Errorf("%s: the denied child is readable", grant)
			case s.Tier == "base" && grant == "--rw":
				if r.Code != 125 || r.Report.Error == nil || !strings.Contains(r.Report.Error.Hint, "--best-effort") {
					s.Errorf("want a refusal with a hint, got %d, %+v", r.Code, r.Report.Error)
				}
			case !strings.Contains(r.Stdout, "mine"):
				s.Errorf("%s: the neighbour is not readable: %q %q %+v", grant, r.Stdout, r.Stderr, r.Report.Error)
			case s.Tier == "full" && !strings.Contains(r.Stdout, "keyrings\nmine\n"):
				s.Errorf("%s: the parent cannot be listed: %q %q", grant, r.Stdout, r.Stderr)
			}
		}
	})
}

func TestCaseS045TrailingGlob(t *testing.T) {
	onStages(t, func(s *scene) {
		out := s.mkdir(s.Out + "/out")
		s.succeeds([]string{"--rw", out + "/**"}, "echo x >"+out+"/f")
		if s.content(out+"/f") != "x\n" {
			s.Error("nothing was written")
		}
		r := s.sbx([]string{"--rw", s.Out + "/*/x"}, "true")
		if r.Code != 125 || r.Report.Error == nil || !strings.Contains(r.Report.Error.Message, "*") {
			s.Errorf("want a refusal that names the pattern, got %d, %+v", r.Code, r.Report.Error)
		}
	})
}

func TestCaseS047OrderOfFlags(t *testing.T) {
	onStages(t, func(s *scene) {
		a, lib := s.mkdir(s.Home+"/src/a"), s.mkdir(s.Home+"/lib")
		s.file(lib+"/l", "lib")
		s.file(s.Home+"/secret", s.Token)
		pairs := [][]string{{"--deny", s.Home}, {"--deny", "/etc"}, {"--ro", a}, {"--ro", lib}, {"--rw", a}}
		for i := range pairs {
			flags := slices.Concat(append(slices.Clone(pairs[i:]), pairs[:i]...)...)
			os.Remove(a + "/x")
			r := s.succeeds(flags, "cd "+a+" && touch x && cat ../../lib/l; ! cat ../../secret && ! touch ../../lib/no")
			if !exists(a+"/x") || !strings.Contains(r.Stdout, "lib") || leaks(s, r) || exists(lib+"/no") {
				s.Errorf("order %q: x made %v, output %q", flags, exists(a+"/x"), r.Stdout)
			}
		}
	})
}

func TestCaseS054NetworkDoesNotChangeFiles(t *testing.T) {
	onStages(t, func(s *scene) {
		for _, flags := range [][]string{nil, {"--net", "none"}, {"--net", "full"}} {
			dir := s.mkdir(s.Out + "/t" + strings.Join(flags, ""))
			s.file(dir+"/f1", "x")
			s.mkdir(dir + "/sub")
			s.succeeds(append([]string{"--rw", dir}, flags...), `python3 -c 'import os,sys; os.rename(sys.argv[1]+"/f1", sys.argv[1]+"/sub/f1")' `+dir)
			if !exists(dir + "/sub/f1") {
				s.Errorf("%q: not renamed", flags)
			}
		}
	})
}

// S059: killed at work, sbx leaves nothing in the checkout.
func TestCaseS059KilledSupervisor(t *testing.T) {
	onStages(t, func(s *scene) {
		repository(s)
		s.must(os.RemoveAll(s.Work + "/sub"))
		before := tree(s, s.Work)
		c := s.command(s.sbxArgs(nil, "bash", "-c", "touch "+"/dev/null; sleep 300.59")...)
		s.must(c.Start())
		running := func() bool { return processes("300.59") > 0 }
		if !wait(running) {
			s.Fatal("the command does not start")
		}
		if now := tree(s, s.Work); now != before {
			s.Errorf("during the run the checkout holds\n%s\nbefore\n%s", now, before)
		}
		s.must(unix.Kill(c.Process.Pid, unix.SIGKILL))
		c.Wait()
		if !wait(func() bool { return !running() }) {
			s.Error("the command outlives sbx")
		}
		if now := tree(s, s.Work); now != before {
			s.Errorf("after the kill the checkout holds\n%s\nbefore\n%s", now, before)
		}
		if r := s.plain("git", "status", "--porcelain"); r.Stdout != "" {
			s.Errorf("git status prints %q", r.Stdout)
		}
	})
}

// processes counts those with word among their arguments.
func processes(word string) int {
	found, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	n := 0
	for _, path := range found {
		text, err := os.ReadFile(path)
		if err == nil && slices.Contains(strings.Split(string(text), "\x00"), word) {
			n++
		}
	}
	return n
}

// tree lists every name below dir with its mode, size and modification time.
func tree(s *scene, dir string) string {
	s.Helper()
	var b strings.Builder
	s.must(filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := os.Lstat(path)
		if err == nil {
			fmt.Fprintln(&b, path, info.Mode(), info.Size(), info.ModTime().Format(time.RFC3339Nano))
		}
		return err
	}))
	return b.String()
}

// S060: the current directory lies on a read-only mount.
func TestCaseS060ReadOnlyCurrentDirectory(t *testing.T) {
	require.Root(t, "to mount")
	onStages(t, func(s *scene) {
		ro, work := s.mkdir(s.Out+"/ro"), s.Work
		s.must(unix.Mount("none", ro, "tmpfs", unix.MS_RDONLY, "mode=755"))
		defer unix.Unmount(ro, unix.MNT_DETACH)
		run := func(script string) result {
			c := s.command(s.program("sbx"), "run", "--quiet", "--json", "--tier", s.Tier, "--rw", work, "--", "bash", "-c", script)
			c.Dir = ro
			return s.report(s.finish(c))
		}
		if r := run("true"); r.Code != 0 {
			s.Errorf("true: %d %+v %s", r.Code, r.Report.Error, r.Stderr)
		}
		if r := run("cd " + work + " && touch ok"); r.Code != 0 || !exists(work+"/ok") {
			s.Errorf("touch: %d %+v %s", r.Code, r.Report.Error, r.Stderr)
		}
		if r := run("touch " + ro + "/x"); r.Code == 0 || !strings.Contains(r.Stderr, "Read-only file system") {
			s.Errorf("a write to the read-only mount: %d %q", r.Code, r.Stderr)
		}
	})
}

// S064: a rule about a command changes nothing about files.
func TestCaseS064RulesDoNotChangeFiles(t *testing.T) {
	onStages(t, func(s *scene) {
		x := s.mkdir(s.Out + "/x")
		policy := s.file(s.Out+"/policy.toml", "[rules]\ndeny = [\"run_bash(git push --force*)\"]\n")
		for _, flags := range [][]string{{"--rw", x}, {"--rw", x, "--policy", policy}} {
			s.file(x+"/a/r", "x")
			os.Remove(x + "/r")
			s.succeeds(flags, `python3 -c 'import os,sys; os.rename(sys.argv[1]+"/a/r", sys.argv[1]+"/r")' `+x)
			if !exists(x + "/r") {
				s.Errorf("%q: not renamed", flags)
			}
		}
	})
}
