package test

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// fromEnv is how often something is tried: few times by default, more where
// there is time for it.
func fromEnv(t *testing.T, name string, usual int) int {
	text := os.Getenv(name)
	if text == "" {
		return usual
	}
	n, err := strconv.Atoi(text)
	must(t, err)
	return n
}

// residue is what runs could leave behind on this machine and in our own state.
type residue struct {
	processes, mounts, groups, state, work []string
}

// residueOf looks at what is there now. word marks the processes of a test.
func residueOf(s *scene, word string) residue {
	s.Helper()
	var r residue
	for _, dir := range entries("/proc") {
		pid, err := strconv.Atoi(dir)
		if err != nil || pid == os.Getpid() {
			continue
		}
		line, _ := os.ReadFile("/proc/" + dir + "/cmdline")
		name, _ := os.ReadFile("/proc/" + dir + "/comm")
		if strings.Contains(string(line), word) || strings.HasPrefix(string(line), "sbx-keeper") || strings.TrimSpace(string(name)) == "sbx" {
			r.processes = append(r.processes, dir+" "+strings.ReplaceAll(string(line), "\x00", " "))
		}
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	s.must(err)
	r.mounts = strings.Split(string(mounts), "\n")
	// Groups are named for the pid namespace, which is this test run's own.
	space, err := os.Readlink("/proc/self/ns/pid")
	s.must(err)
	ours := "sandboxd-" + strings.Trim(strings.TrimPrefix(space, "pid:"), "[]") + "-"
	filepath.WalkDir("/sys/fs/cgroup", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && strings.HasPrefix(d.Name(), ours) {
			r.groups = append(r.groups, path)
		}
		return nil
	})
	r.state = listing(s.Home, "homes")
	r.work = listing(s.Work, ".git")
	return r
}

func entries(dir string) []string {
	list, _ := os.ReadDir(dir)
	var names []string
	for _, e := range list {
		names = append(names, e.Name())
	}
	return names
}

// listing is all that lies below dir, but not inside of directories named but.
func listing(dir, but string) []string {
	var list []string
	filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil
		}
		list = append(list, strings.TrimPrefix(path, dir))
		if d.IsDir() && d.Name() == but {
			return filepath.SkipDir
		}
		return nil
	})
	return list
}

// more lists what is in got and not in before, part by part.
func (r residue) more(before residue) []string {
	var list []string
	for _, p := range []struct {
		name        string
		before, got []string
	}{
		{"process", before.processes, r.processes}, {"mount", before.mounts, r.mounts}, {"control group", before.groups, r.groups},
		{"state", before.state, r.state}, {"workspace", before.work, r.work},
	} {
		known := map[string]bool{}
		for _, e := range p.before {
			known[e] = true
		}
		for _, e := range p.got {
			if !known[e] {
				list = append(list, p.name+" "+e)
			}
		}
	}
	return list
}

// settled waits until the processes of killed runs have gone.
func settled(s *scene, word string) residue {
	s.Helper()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		r := residueOf(s, word)
		if len(r.processes) == 0 || time.Now().After(end) {
			return r
		}
	}
}

// TestKilledAtAnyMoment kills sbx at random moments of a run: while it starts,
// while the command runs, while it ends.
func TestKilledAtAnyMoment(t *testing.T) {
	for _, uid := range users() {
		for _, tier := range tiers() {
			t.Run(fmt.Sprintf("uid%d/%s", uid, tier), func(t *testing.T) {
				s := newScene(t, uid, tier)
				if r := s.plain("git", "-C", s.Work, "init", "-q"); r.Code != 0 {
					t.Fatal(r.Stderr)
				}
				const word = "61.375"
				script := "setsid sh -c 'trap \"\" TERM HUP; sleep " + word + "' & (sleep " + word + " &); cat /proc/self/status >$TMPDIR/f; sleep 0.05; exit 0"
				argv := s.sbxArgs([]string{"--memory", "256MiB"}, "sh", "-c", script)
				// The first run makes what stays: the private home, caches.
				start := time.Now()
				if r := s.report(s.finish(s.command(argv...))); r.Code != 0 {
					t.Fatalf("exit %d: %s", r.Code, r.Stderr)
				}
				whole := time.Since(start)
				before := settled(s, word) // the keeper leaves a moment after sbx
				if len(before.processes) > 0 || len(before.groups) > 0 {
					t.Fatalf("a run that ended leaves %v %v", before.processes, before.groups)
				}
				tries := fromEnv(t, "SANDBOXD_TEST_KILLS", 100)
				killed, deadline := 0, time.Now().Add(30*time.Second)
				for i := 0; i < tries && (time.Now().Before(deadline) || os.Getenv("SANDBOXD_TEST_KILLS") != ""); i++ {
					c := s.command(argv...)
					s.must(c.Start())
					time.Sleep(rand.N(whole + whole/4))
					if unix.Kill(c.Process.Pid, unix.SIGKILL) == nil {
						killed++
					}
					c.Wait()
				}
				t.Logf("killed %d times within %v", killed, whole)
				if killed < 20 {
					t.Errorf("only %d runs were killed", killed)
				}
				after := settled(s, word)
				after.state, after.groups = nil, nil // what the next start removes
				for _, m := range after.more(before) {
					t.Error("left behind: " + m)
				}
				// The next start that has something to sweep does it.
				if r := s.report(s.finish(s.command(argv...))); r.Code != 0 {
					t.Fatalf("after the kills a run exits %d: %s", r.Code, r.Stderr)
				}
				for _, m := range settled(s, word).more(before) {
					t.Error("after the next start: " + m)
				}
				if r := s.plain("git", "-C", s.Work, "status", "--porcelain", "--ignored"); r.Stdout+r.Stderr != "" {
					t.Errorf("git status: %s%s", r.Stdout, r.Stderr)
				}
			})
		}
	}
}

// TestManyRunsGrowNothing: the last of many runs finds the machine as the first
// did, and is held as the first was.
func TestManyRunsGrowNothing(t *testing.T) {
	for _, tier := range tiers() {
		t.Run(tier, func(t *testing.T) {
			s := newScene(t, os.Getuid(), tier)
			secret := s.file(s.Out+"/secret", s.Token)
			const word = "61.625"
			held := func() string {
				t.Helper()
				r := s.sbx(nil, "sh", "-c", "setsid sleep "+word+" & cat "+secret+"; echo x >"+s.Out+"/new; echo x >file && cat file && rm file")
				if r.Code != 0 || r.Stdout != "x\n" || exists(s.Out+"/new") {
					t.Fatalf("exit %d: %s%s", r.Code, r.Stdout, r.Stderr)
				}
				return r.Stderr + fmt.Sprint(r.Report.Enforced)
			}
			first := held()
			before := residueOf(s, word)
			runs := fromEnv(t, "SANDBOXD_TEST_RUNS", 150)
			for range runs {
				if r := s.finish(s.command(s.sbxArgs(nil, "true")...)); r.Code != 0 {
					t.Fatalf("exit %d: %s", r.Code, r.Stderr)
				}
			}
			if last := held(); last != first {
				t.Errorf("after %d runs: %s\nat first: %s", runs, last, first)
			}
			after := settled(s, word)
			for _, m := range after.more(before) {
				t.Error("grown: " + m)
			}
		})
	}
}
