package test

import (
	"bytes"
	"fmt"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// watcher looks from outside at what lives below a command, all the time, and
// keeps the peaks.
type watcher struct {
	mu    sync.Mutex
	tasks int
	bytes int64 // private memory of all, and what the host's shared memory grew by
	stop  chan struct{}
	done  chan struct{}
}

// startWatch counts what lives below the process root, without the keeper, and
// root itself if it is not sbx.
func startWatch(root int, alone bool) *watcher {
	w := &watcher{stop: make(chan struct{}), done: make(chan struct{})}
	shared := sharedMemory()
	go func() {
		defer close(w.done)
		for {
			tasks, bytes := below(root, alone)
			bytes += max(sharedMemory()-shared, 0)
			w.mu.Lock()
			w.tasks, w.bytes = max(w.tasks, tasks), max(w.bytes, bytes)
			w.mu.Unlock()
			select {
			case <-w.stop:
				return
			case <-time.After(10 * time.Millisecond):
			}
		}
	}()
	return w
}

func (w *watcher) end() (tasks int, bytes int64) {
	close(w.stop)
	<-w.done
	return w.tasks, w.bytes
}

type process struct {
	parent, threads int
	name            string
}

// processTable reads the process table. What ends meanwhile is left out.
func processTable() map[int]process {
	all := map[int]process{}
	dirs, _ := filepath.Glob("/proc/[0-9]*") // the pattern is fixed
	for _, dir := range dirs {
		text, err := os.ReadFile(dir + "/stat")
		open, end := strings.IndexByte(string(text), '('), strings.LastIndexByte(string(text), ')')
		if err != nil || open < 0 || end < 0 {
			continue
		}
		fields := strings.Fields(string(text[end+1:]))
		if len(fields) < 18 {
			continue
		}
		var p process
		p.name = string(text[open+1 : end])
		p.parent, _ = strconv.Atoi(fields[1])
		p.threads, _ = strconv.Atoi(fields[17])
		pid, _ := strconv.Atoi(filepath.Base(dir))
		all[pid] = p
	}
	return all
}

// below counts tasks and private bytes of root's descendants, less the keeper.
func below(root int, alone bool) (tasks int, bytes int64) {
	all := processTable()
	inside := map[int]bool{root: true}
	for changed := true; changed; {
		changed = false
		for pid, p := range all {
			if !inside[pid] && inside[p.parent] {
				inside[pid], changed = true, true
			}
		}
	}
	for pid := range inside {
		if pid == root && !alone || all[pid].name == "sbx-keeper" {
			continue
		}
		tasks += max(all[pid].threads, 1)
		bytes += statusBytes(fmt.Sprintf("/proc/%d/status", pid), "RssAnon:")
	}
	return tasks, bytes
}

func sharedMemory() int64 { return statusBytes("/proc/meminfo", "Shmem:") }

// statusBytes reads a line such as "Shmem:  12 kB".
func statusBytes(path, name string) int64 {
	text, _ := os.ReadFile(path) // gone: nothing
	_, rest, _ := strings.Cut(string(text), "\n"+name)
	fields := strings.Fields(rest)
	if len(fields) == 0 {
		return 0
	}
	n, _ := strconv.ParseInt(fields[0], 10, 64)
	return n * 1024
}

// observed is a finished command and what the outside saw of it.
type observed struct {
	result
	tasks   int
	bytes   int64
	elapsed time.Duration
	own     int64 // peak memory of sbx itself, bytes
	// slowest is the longest that an ordinary program outside took meanwhile.
	slowest time.Duration
}

// observe runs argv, confined if the scene has a tier, and watches it.
func (s *scene) observe(flags []string, argv ...string) observed {
	s.Helper()
	if s.Tier != "" {
		argv = s.sbxArgs(flags, argv...)
	}
	c := s.command(argv...)
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr = &out, &errs
	start := time.Now()
	s.must(c.Start())
	var o observed
	w := startWatch(c.Process.Pid, s.Tier == "")
	ended := make(chan struct{})
	var others sync.WaitGroup
	others.Go(func() { o.own = ownPeak(c.Process.Pid, ended) })
	others.Go(func() { o.slowest = neighbour(ended) })
	timer := time.AfterFunc(time.Minute, func() { unix.Kill(-c.Process.Pid, unix.SIGKILL) })
	c.Wait() // the code tells
	o.elapsed = time.Since(start)
	timer.Stop()
	unix.Kill(-c.Process.Pid, unix.SIGKILL)
	close(ended)
	others.Wait()
	o.tasks, o.bytes = w.end()
	o.result = result{Code: c.ProcessState.ExitCode(), Stdout: out.String(), Stderr: errs.String()}
	if s.Tier != "" {
		o.result = s.report(o.result)
	}
	return o
}

// ownPeak is the peak of the resident memory of process pid.
func ownPeak(pid int, stop <-chan struct{}) (peak int64) {
	for {
		peak = max(peak, statusBytes(fmt.Sprintf("/proc/%d/status", pid), "VmHWM:"))
		select {
		case <-stop:
			return peak
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// neighbour runs /bin/true again and again: is the host usable?
func neighbour(stop <-chan struct{}) (slowest time.Duration) {
	for {
		start := time.Now()
		if err := osexec.Command("/bin/true").Run(); err != nil {
			return time.Hour // fork failed
		}
		slowest = max(slowest, time.Since(start))
		select {
		case <-stop:
			return slowest
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// left names what still runs with mark in its arguments. What was killed may
// take a moment to go.
func left(mark string) string {
	var found string
	soon(func() bool { found = running(mark); return found == "" })
	return found
}

// running names what runs with mark in its arguments now.
func running(mark string) string {
	var found string
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		text, err := os.ReadFile(dir + "/cmdline")
		if err == nil && strings.Contains(string(text), mark) && dir != fmt.Sprintf("/proc/%d", os.Getpid()) {
			found += fmt.Sprintf("%s %q ", dir, text)
		}
	}
	return found
}

// killGroups ends what runs with mark in its arguments, for the unconfined half
// of a trial.
func killGroups(mark string) {
	for range 100 { // a loop may start new ones
		found := false
		for pid := range processTable() {
			text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
			if err == nil && pid > 1 && pid != os.Getpid() && strings.Contains(string(text), mark) {
				unix.Kill(pid, unix.SIGKILL)
				found = true
			}
		}
		if !found {
			return
		}
	}
}
