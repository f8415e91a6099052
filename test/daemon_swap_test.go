package test

import (
	"encoding/json"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sandboxd/test/require"
)

// swapping exchanges two names again and again with the file rights of uid, until stop.
// It returns how often that worked.
func swapping(uid int, one, two string) (stop func() int64) {
	var ended atomic.Bool
	var swaps atomic.Int64
	var loop sync.WaitGroup
	loop.Go(func() {
		runtime.LockOSThread() // never unlocked: the thread ends here
		unix.RawSyscall(unix.SYS_SETFSGID, uintptr(uid), 0, 0)
		unix.RawSyscall(unix.SYS_SETFSUID, uintptr(uid), 0, 0)
		for !ended.Load() {
			if unix.Renameat2(unix.AT_FDCWD, one, unix.AT_FDCWD, two, unix.RENAME_EXCHANGE) == nil {
				swaps.Add(1)
			}
			// Uneven, to hit each gap between two steps of whoever looks.
			time.Sleep(time.Duration(swaps.Load()%7) * 300 * time.Microsecond)
		}
	})
	return func() int64 {
		ended.Store(true)
		loop.Wait()
		return swaps.Load()
	}
}

// A user of root's daemon exchanges what a path leads through while the daemon works
// with it: with a link to a directory that is closed to it, and with a directory of
// root's that lies in its own. Nothing of root's is read or written, and what is the
// user's own goes on.
func TestSwappedPathsOfClients(t *testing.T) {
	require.Root(t, "to play a daemon that serves others")
	d := startDaemon(t, 0, "--group", strconv.Itoa(daemonGID))
	one := d.as(1000)
	word := strings.ReplaceAll(d.Token, "-", "_")
	mine := strings.ReplaceAll(one.Token, "-", "_")
	fill := func(s *scene, dir, word string) string {
		s.file(dir+"/secret", word+"\nshared\n")
		s.file(dir+"/policy.toml", word+" = 1\n")
		return dir
	}
	outside := fill(d.scene, d.Home+"/in", word)
	d.must(os.Chmod(d.Home, 0o700))

	type stage struct{ name, path, swap, with, closed string }
	var stages []stage
	byLink := one.mkdir(one.Out + "/bylink")
	fill(one, byLink+"/w", mine)
	one.link(outside, byLink+"/l")
	stages = append(stages, stage{"a link", byLink + "/w", byLink + "/w", byLink + "/l", outside})
	byDir := one.mkdir(one.Out + "/bydir")
	fill(one, byDir+"/w/in", mine)
	closed := d.mkdir(byDir + "/r")
	fill(d.scene, closed+"/in", word)
	d.must(os.Chmod(closed, 0o700))
	held, err := os.Open(closed) // by any name
	d.must(err)
	defer held.Close()
	stages = append(stages, stage{"a directory of root's", byDir + "/w/in", byDir + "/w", byDir + "/r", "/proc/self/fd/" + strconv.Itoa(int(held.Fd())) + "/in"})

	tool := func(name string, args map[string]string) result {
		body, err := json.Marshal(map[string]any{"tool": name, "args": args, "cwd": one.Work, "mode": "bypassPermissions", "env": []string{"HOME=" + one.Home, "PATH=/usr/bin:/bin"},
			"grant": map[string]any{"paths": []any{map[string]any{"path": one.Out, "access": "rw"}}}})
		d.must(err)
		return one.finish(one.post(d, "/api/exec", string(body)))
	}
	kinds := []struct {
		name string
		ask  func(w string) result
		done func(w string, r result) bool
	}{
		{"the workspace", func(w string) result {
			return one.execTo(d, []string{"--workspace", w, "--ro", one.Work}, "sh", "-c", "cat "+w+"/secret; echo x >>"+w+"/planted")
		}, nil},
		{"a path to read", func(w string) result { return one.execTo(d, []string{"--ro", w}, "cat", w+"/secret") }, nil},
		{"a path to write", func(w string) result {
			return one.execTo(d, []string{"--rw", w}, "sh", "-c", "cat "+w+"/secret; echo x >>"+w+"/planted")
		}, nil},
		{"the directory", func(w string) result {
			body := `{"argv":["sh","-c","cat secret; echo x >>planted"],"cwd":"` + w + `","env":["HOME=` + one.Home + `","PATH=/usr/bin:/bin"],"mode":"bypassPermissions"}`
			return one.finish(one.post(d, "/api/exec", body))
		}, nil},
		{"the policy", func(w string) result { return one.execTo(d, []string{"--policy", w + "/policy.toml"}, "true") }, nil},
		{"read_file", func(w string) result { return tool("read_file", map[string]string{"file_path": w + "/secret"}) }, nil},
		{"file_write", func(w string) result {
			return tool("file_write", map[string]string{"file_path": w + "/planted" + strconv.FormatInt(time.Now().UnixNano(), 36), "content": "x\n"})
		}, func(w string, r result) bool { return strings.Contains(r.Stdout, `"status":"ok"`) }},
		{"file_edit", func(w string) result {
			tool("read_file", map[string]string{"file_path": w + "/secret"}) // it must be known
			return tool("file_edit", map[string]string{"file_path": w + "/secret", "old_string": "shared\n", "new_string": "shared\nplanted\n"})
		}, func(w string, r result) bool { return strings.Contains(r.Stdout, `"status":"ok"`) }},
		{"an output", func(w string) result {
			return one.execTo(d, []string{"--rw", one.Out}, "dd", "status=none", "if=/etc/hostname", "of="+w+"/planted")
		}, func(w string, r result) bool { return r.Code == 0 }},
	}
	for _, st := range stages {
		for _, k := range kinds {
			if k.done == nil {
				k.done = func(_ string, r result) bool { return strings.Contains(r.Stdout+r.Stderr, mine) }
			}
			stop := swapping(1000, st.swap, st.with)
			worked, tries := 0, 0
			for end := time.Now().Add(2 * time.Second); time.Now().Before(end) || tries < 5; tries++ {
				r := k.ask(st.path)
				if strings.Contains(r.Stdout+r.Stderr, word) {
					t.Errorf("%s, swapped with %s: it was read: %+v", k.name, st.name, r)
					break
				}
				if k.done(st.path, r) {
					worked++
				}
			}
			swaps := stop()
			if swaps%2 == 1 { // as it was
				d.must(unix.Renameat2(unix.AT_FDCWD, st.swap, unix.AT_FDCWD, st.with, unix.RENAME_EXCHANGE))
			}
			t.Logf("%s, swapped with %s: %d swaps, %d of %d tries worked", k.name, st.name, swaps, worked, tries)
			if swaps < 100 {
				t.Errorf("%s: only %d swaps: the test does not try", k.name, swaps)
			}
			if names, err := os.ReadDir(st.closed); err != nil || len(names) != 2 || d.content(st.closed+"/secret") != word+"\nshared\n" {
				t.Fatalf("%s, swapped with %s: what is root's was changed: %v %v, %q", k.name, st.name, names, err, d.content(st.closed+"/secret"))
			}
			if r := k.ask(st.path); !k.done(st.path, r) {
				t.Errorf("%s, afterwards: %+v", k.name, r)
			}
		}
	}
}
