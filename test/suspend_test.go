package test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// Ctrl-Z in a shell stops the command's whole tree with sbx, also what left its
// session; fg continues all of it.
func TestCtrlZStopsTheWholeTree(t *testing.T) {
	for _, uid := range users() {
		for _, tier := range tiers() {
			t.Run(fmt.Sprintf("uid%d/%s", uid, tier), func(t *testing.T) {
				s := newScene(t, uid, tier)
				term := newTerminal(s)
				shell := term.start(nil, "bash", "--norc", "--noprofile", "-i")
				beats := []string{s.Work + "/child", s.Work + "/detached"}
				loop := "while :; do echo x >>NAME; sleep 0.02; done"
				s.file(s.Work+"/job", strings.ReplaceAll(loop, "NAME", "child"))
				s.file(s.Work+"/detached-job", strings.ReplaceAll(loop, "NAME", "detached"))
				term.typeIn("PS1='ready> '\n")
				run := strings.Join(term.run(nil, "sh", "-c", `"setsid sh detached-job & sh job"`), " ")
				term.typeIn(run + "\n")
				if !grows(beats) {
					t.Fatalf("the command does not run: %q", term.text())
				}
				term.typeIn("\x1a")
				term.want("Stopped")
				before := sizes(beats)
				time.Sleep(300 * time.Millisecond)
				if after := sizes(beats); fmt.Sprint(after) != fmt.Sprint(before) {
					t.Errorf("it goes on while sbx is stopped: %v, then %v", before, after)
				}
				term.typeIn("fg\n")
				if !grows(beats) {
					t.Errorf("fg does not continue it: %q", term.text())
				}
				prompts := strings.Count(term.text(), "ready> ")
				term.typeIn("\x03")
				// Typed before the prompt it would be the command's input.
				for end := time.Now().Add(10 * time.Second); strings.Count(term.text(), "ready> ") == prompts && time.Now().Before(end); {
					time.Sleep(10 * time.Millisecond)
				}
				term.typeIn("echo status $?\n")
				term.want("status 130")
				term.typeIn("exit\n")
				term.wait(shell)
			})
		}
	}
}

func sizes(files []string) []int64 {
	var list []int64
	for _, f := range files {
		info, err := os.Stat(f)
		if err != nil {
			list = append(list, 0)
			continue
		}
		list = append(list, info.Size())
	}
	return list
}

// grows waits until each file is longer than it was.
func grows(files []string) bool {
	before := sizes(files)
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		now, all := sizes(files), true
		for i := range files {
			all = all && now[i] > before[i]
		}
		if all {
			return true
		}
	}
	return false
}

// A job in the background leaves what is typed to the shell and goes on.
func TestBackgroundJobLeavesTheTerminal(t *testing.T) {
	for _, tier := range tiers() {
		s := newScene(t, os.Getuid(), tier)
		term := newTerminal(s)
		shell := term.start(nil, "bash", "--norc", "--noprofile", "-i")
		s.file(s.Work+"/job", "while :; do echo x >>beat; sleep 0.02; done")
		term.typeIn(strings.Join(term.run(nil, "sh", "job", "&"), " ") + "\n")
		beat := []string{s.Work + "/beat"}
		if !grows(beat) {
			t.Fatalf("the command does not run: %q", term.text())
		}
		// While the shell waits, typed text lies in the terminal.
		term.typeIn("sleep 0.5\n")
		time.Sleep(100 * time.Millisecond)
		term.typeIn("echo typed $((40 + 2))\n")
		term.want("typed 42")
		term.typeIn("echo running $(jobs -r | wc -l)\n")
		if !term.shows("running 1") || !grows(beat) {
			t.Errorf("tier %s: the job does not go on: %q", tier, term.text())
		}
		term.typeIn("kill %1; wait; exit\n")
		term.wait(shell)
	}
}
