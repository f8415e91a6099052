package test

import (
	"fmt"
	"os"
	osexec "os/exec"
	"strconv"
	"strings"
	"testing"

	"sandboxd/test/require"
)

// What a client names is opened with its rights, also where the name leads through
// /proc: by the directory of a process of root's, or by what the daemon has open. A
// file of each kind that is named plainly is read, and its error says what it holds.
func TestClientsNamesOpenNothingByProcesses(t *testing.T) {
	require.Root(t, "to play a daemon that serves others")
	d := startDaemon(t, 0, "--group", strconv.Itoa(daemonGID))
	one := d.as(1000)
	word := strings.ReplaceAll(d.Token, "-", "_")
	closed := d.mkdir(d.Home + "/in")
	for _, dir := range []string{closed, one.mkdir(one.Home + "/in")} {
		s := d.scene
		if dir != closed {
			s = one
		}
		s.file(dir+"/policy.toml", word+" = 1\n")
		s.file(dir+"/script.yaml", word+": 1\n")
		s.file(dir+"/secret", word)
		s.file(dir+"/sandboxd/policy.toml", word+" = 1\n")
		s.file(dir+"/.claude/agents/x.md", word)
	}
	d.must(os.Chmod(d.Home, 0o700))
	roots := osexec.Command("sleep", "600")
	roots.Dir = closed
	d.must(roots.Start())
	t.Cleanup(func() { roots.Process.Kill(); roots.Wait() })
	theirs := fmt.Sprintf("/proc/%d/cwd", roots.Process.Pid)
	daemon := fmt.Sprintf("/proc/%d/root", d.cmd.Process.Pid)
	plainly := one.Home + "/in"

	one.link("/proc/self/root"+plainly, one.Home+"/self")
	one.link("/proc/thread-self/root"+plainly, one.Home+"/thread")
	one.link(theirs, one.Home+"/theirs")
	places := []string{plainly, theirs, one.Home + "/theirs", daemon + closed, daemon + plainly, one.Home + "/self", one.Home + "/thread", "/proc/self/root" + plainly, "/proc/thread-self/root" + plainly}

	kinds := []struct {
		name    string
		mayRead bool // by what leads back to a file that uid 1000 may open: no harm
		ask     func(dir string) result
	}{
		{"--policy", false, func(dir string) result { return one.execTo(d, []string{"--policy", dir + "/policy.toml"}, "true") }},
		{"--profile", false, func(dir string) result { return one.execTo(d, []string{"--profile", dir + "/policy.toml"}, "true") }},
		{"SANDBOXD_POLICY", false, func(dir string) result {
			c := one.toDaemon(d, "exec", "--mode", "bypassPermissions", "--", "true")
			c.Env = append(c.Env, "SANDBOXD_POLICY="+dir+"/policy.toml")
			return one.finish(c)
		}},
		{"XDG_CONFIG_HOME", false, func(dir string) result {
			c := one.toDaemon(d, "exec", "--mode", "bypassPermissions", "--", "true")
			c.Env = append(c.Env, "XDG_CONFIG_HOME="+dir)
			return one.finish(c)
		}},
		{"--script", false, func(dir string) result {
			body := fmt.Sprintf(`{"cwd":%q,"env":["HOME=%s"],"agent":{"provider":"scripted","script":%q}}`, one.Work, one.Home, dir+"/script.yaml")
			return one.finish(one.post(d, "/api/chat/sessions", body))
		}},
		{"--workspace", true, func(dir string) result {
			return one.execTo(d, []string{"--workspace", dir, "--ro", one.Work}, "cat", dir+"/secret")
		}},
		{"cwd", true, func(dir string) result {
			return one.finish(one.post(d, "/api/exec", fmt.Sprintf(`{"argv":["cat","secret"],"cwd":%q,"env":["HOME=/","PATH=/usr/bin:/bin"],"mode":"bypassPermissions"}`, dir)))
		}},
		{"--ro", true, func(dir string) result { return one.execTo(d, []string{"--ro", dir}, "cat", dir+"/secret") }},
	}
	for _, k := range kinds {
		for _, dir := range places {
			r := k.ask(dir)
			shown := strings.Contains(r.Stdout+r.Stderr, word)
			switch {
			case dir == plainly && !shown:
				t.Errorf("%s plainly shows nothing: the test proves nothing: %+v", k.name, r)
			case dir != plainly && shown && (!k.mayRead || strings.HasPrefix(dir, theirs) || strings.HasPrefix(dir, daemon+closed) || dir == one.Home+"/theirs"):
				t.Errorf("%s by %s shows what is there: %+v", k.name, dir, r)
			}
			told := strings.Contains(r.Stdout+r.Stderr, "would open as its own") || strings.Contains(r.Stdout+r.Stderr, "it leads through or into /proc")
			if !told && (strings.HasPrefix(dir, "/proc/self") || strings.HasSuffix(dir, "/self") && !k.mayRead) {
				t.Errorf("%s by %s: %+v, want to be told why", k.name, dir, r)
			}
		}
	}
}

// post is a request by curl, as the scene's user.
func (s *scene) post(d *daemonRun, path, body string) *osexec.Cmd {
	return s.command("curl", "-s", "-m", "60", "--unix-socket", d.socket, "-H", "Content-Type: application/json", "-d", body, "http://localhost"+path)
}
