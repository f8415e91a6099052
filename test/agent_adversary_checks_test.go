package test

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// nothingLeaked: no process is left, no file outside changed, the workspace holds
// what it held and what is named, and the secret went nowhere.
func (d *daemonRun) nothingLeaked(s *scene, o adversaryEnd, children []int, before []map[string]string, left map[string]string) {
	s.Helper()
	ended := false
	for range 300 {
		if ended = len(without(d.descendants(), children)) == 0; ended {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if !ended {
		for _, pid := range without(d.descendants(), children) {
			text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
			s.Errorf("process %d is left: %q", pid, text)
		}
	}
	if want := maps.Clone(before[0]); want != nil {
		maps.Copy(want, left)
		sameTree(s, "the workspace", s.tree(s.Work), want)
	}
	sameTree(s, "outside", s.tree(s.Out), before[1])
	home := s.tree(s.Home)
	maps.DeleteFunc(home, func(name, _ string) bool { // what every run has
		return slices.Contains([]string{".cache", ".local", ".local/state"}, name) ||
			strings.HasPrefix(name, ".cache/sandboxd") || strings.HasPrefix(name, ".local/state/sandboxd")
	})
	sameTree(s, "the home", home, before[2])
	seen, _ := json.Marshal(o.requests)
	for where, text := range map[string]string{"what the model received": string(seen), "standard output": o.Stdout, "standard error": o.Stderr} {
		if at := strings.Index(text, s.Token); at >= 0 {
			s.Errorf("the secret is in %s: ...%q", where, text[max(0, at-300):at])
		}
		if strings.Contains(text, modelKey) && where != "what the model received" {
			s.Errorf("the key is in %s", where)
		}
	}
}

// nothingLost: the conversation is kept whole, each call with one result, and each
// call that began has its end in the audit log.
func (d *daemonRun) nothingLost(s *scene, o adversaryEnd, conversation string) {
	s.Helper()
	r := s.sbxTo(d, "sessions", "export", conversation)
	if r.Code != 0 {
		s.Fatalf("export %q: %d %s", conversation, r.Code, r.Stderr)
	}
	if leaks(s, r) {
		s.Error("the secret is in the conversation")
	}
	results := map[string]int{}
	for line := range strings.Lines(r.Stdout) {
		var e struct {
			Kind  string `json:"kind"`
			Block struct {
				Call string `json:"call_id"`
			} `json:"block"`
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			s.Fatalf("export: %v: %.300s", err, line)
		}
		if e.Kind == "result" {
			results[e.Block.Call]++
		}
	}
	for _, c := range o.calls {
		if results[c.ID] != 1 {
			s.Errorf("the call %s of %.60q has %d results in the conversation", c.ID, c.Tool, results[c.ID])
		}
	}
	began, over := map[string]bool{}, map[string]bool{}
	for _, row := range o.rows {
		switch row.Status {
		case "allow":
			began[row.Call] = true
		case "ok", "fail", "cancelled", "timeout", "interrupted":
			over[row.Call] = true
		}
	}
	for id := range began {
		if !over[id] {
			s.Errorf("the call %s was allowed and has no end in the audit log", id)
		}
	}
}

// tree is what stands below dir: names with type, mode and content.
func (s *scene) tree(dir string) map[string]string {
	s.Helper()
	all := map[string]string{}
	s.must(filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		name, _ := filepath.Rel(dir, path)
		switch target, _ := os.Readlink(path); {
		case e.IsDir():
			all[name] = "directory"
		case e.Type().IsRegular():
			all[name] = s.content(path)
		default:
			all[name] = e.Type().String() + " " + target
		}
		return nil
	}))
	return all
}

func sameTree(s *scene, where string, got, want map[string]string) {
	s.Helper()
	for name, content := range got {
		if w, there := want[name]; !there || w != content {
			s.Errorf("%s: %s holds %.200q, want %.200q (%v)", where, name, content, w, there)
		}
	}
	for name := range want {
		if _, there := got[name]; !there {
			s.Errorf("%s: %s is gone", where, name)
		}
	}
}

// descendants are the processes below the daemon, without its keepers of workspaces.
func (d *daemonRun) descendants() []int {
	parents := map[int]int{}
	names, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, name := range names {
		text, err := os.ReadFile(name)
		at := strings.LastIndexByte(string(text), ')')
		if err != nil || at < 0 {
			continue
		}
		var pid, parent int
		var state string
		if _, err := fmt.Sscan(filepath.Base(filepath.Dir(name)), &pid); err != nil {
			continue
		}
		if _, err := fmt.Sscan(string(text[at+1:]), &state, &parent); err == nil && state != "Z" {
			parents[pid] = parent
		}
	}
	var list []int
	for pid := range parents {
		if text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); err != nil || strings.HasPrefix(string(text), "sbx-keeper") {
			continue // it stays as long as the daemon does
		}
		for p := pid; p > 1; p = parents[p] {
			if parents[p] == d.cmd.Process.Pid {
				list = append(list, pid)
				break
			}
		}
	}
	slices.Sort(list)
	return list
}

func without(list, these []int) []int {
	return slices.DeleteFunc(slices.Clone(list), func(pid int) bool {
		return slices.Contains(these, pid) || unix.Kill(pid, 0) != nil
	})
}

// outsideFrames is what is left of a text that a model received without what is
// framed as data, and whether each frame is closed.
func outsideFrames(text string) (rest string, closed bool) {
	for {
		at := frameBegin.FindStringSubmatchIndex(text)
		if at == nil {
			return rest + text, true
		}
		rest += text[:at[0]]
		end := "</data id=\"" + text[at[2]:at[3]] + "\">"
		_, after, found := strings.Cut(text[at[1]:], end)
		if !found {
			return rest, false
		}
		text = after
	}
}

var frameBegin = regexp.MustCompile(`<data id="([a-z2-7]{16})" from="[^"\n]*">\n`)

// dataOnly: the model received the text, and everywhere as data: in frames that are
// closed behind it.
func dataOnly(s *scene, requests []modelRequest, text string) {
	s.Helper()
	seen := false
	for i, q := range requests {
		all := []string{q.System}
		for _, m := range q.Messages {
			if m.Role != "user" {
				continue // the model's own words
			}
			all = append(all, m.Text)
			for _, res := range m.Results {
				all = append(all, res.Text)
			}
		}
		for _, one := range all {
			seen = seen || strings.Contains(one, text)
			rest, closed := outsideFrames(one)
			if !closed {
				s.Errorf("request %d: a frame is not closed: %.500q", i, one)
			}
			if strings.Contains(rest, text) {
				s.Errorf("request %d: %q is no data: %.500q", i, text, one)
			}
		}
	}
	if !seen {
		s.Errorf("the model never received %q", text)
	}
}
