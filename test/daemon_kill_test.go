package test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// kill -9 of the daemon at a random moment under load, and after the restart: the
// log is whole, each command that started has its decision in it, no command of the
// dead daemon runs, a question that waited is there, each session has ended once, and
// nothing is left over.
// SANDBOXD_TEST_KILLS says how many rounds, as make kills does; 4 without it.
func TestKilledDaemon(t *testing.T) {
	rounds := 4
	if n, err := strconv.Atoi(os.Getenv("SANDBOXD_TEST_KILLS")); err == nil {
		rounds = n
	}
	d := startDaemon(t, os.Getuid(), "--ask-timeout", "10m")
	mounts := strings.Count(d.content("/proc/self/mountinfo"), "\n")
	for round := range rounds {
		if t.Failed() {
			break
		}
		d.killRound(round)
	}
	if now := strings.Count(d.content("/proc/self/mountinfo"), "\n"); now != mounts {
		t.Errorf("%d mounts, %d before", now, mounts)
	}
	if files, _ := filepath.Glob(d.socket + "*"); len(files) != 2 {
		t.Errorf("at the socket: %v, want socket and lock", files)
	}
}

func (d *daemonRun) killRound(round int) {
	d.Helper()
	word := fmt.Sprintf("1618.%04d", round)
	d.mkdir(d.Work + "/started")
	stop := make(chan struct{})
	var load sync.WaitGroup
	for worker := range 3 {
		load.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				name := fmt.Sprintf("%d-%d-%d", round, worker, i)
				d.execTo(d, nil, "sh", "-c", "echo x >started/"+name+"; sleep 0.0"+strconv.Itoa(i%10)+"; sleep "+word+" & exit 0")
			}
		})
	}
	load.Go(func() { d.execTo(d, nil, "sh", "-c", "sleep "+word+" & setsid sleep "+word+" & wait") })
	load.Go(func() { d.execTo(d, []string{"--detach"}, "sh", "-c", "sleep "+word) })
	var closed []string // sessions whose end was acknowledged
	load.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			id := strings.TrimSpace(d.sbxTo(d, "sessions", "new").Stdout)
			if r := d.sbxTo(d, "sessions", "close", id); id != "" && r.Code == 0 {
				closed = append(closed, id)
			}
		}
	})
	watch := d.toDaemon(d, "approvals", "--watch", "--json")
	load.Go(func() { d.finish(watch) })
	load.Go(func() {
		for range 100 { // until the watcher is there to ask
			d.sbxTo(d, "exec", "--quiet", "--", "rm", "-rf", "question-"+word)
			select {
			case <-stop:
				return
			case <-time.After(20 * time.Millisecond):
			}
		}
	})
	asked := func() bool {
		text, _ := d.get("/api/approvals")
		return strings.Contains(text, "question-"+word)
	}
	d.until("a question waits", asked)
	d.until("a command starts", func() bool {
		started, _ := filepath.Glob(fmt.Sprintf("%s/started/%d-*", d.Work, round))
		return len(started) > 0
	})
	time.Sleep(time.Duration(rand.IntN(300)) * time.Millisecond)
	d.kill()
	close(stop)
	load.Wait()
	d.until("no command of the dead daemon runs", func() bool { return len(processesWith("sleep\x00"+word)) == 0 })
	d.start()
	if !asked() {
		text, _ := d.get("/api/approvals")
		d.Errorf("round %d: the question is gone: %s", round, text)
	}
	if r := d.sbxTo(d, "audit", "verify"); r.Code != 0 {
		d.Errorf("round %d: %+v", round, r)
	}
	d.decisionsOf(round)
	d.stopsOf(round, closed)
	if r := d.sbxTo(d, "jobs", "list"); !strings.Contains(r.Stdout, "lost") {
		d.Errorf("round %d: the job of the dead daemon is not told of: %+v", round, r)
	}
}

// stopsOf looks for the last rows of sessions: each that was closed has one, none has
// two, and one that is live has none.
func (d *daemonRun) stopsOf(round int, closed []string) {
	d.Helper()
	stops := map[string]int{}
	for after, more := int64(0), true; more; more = after != 0 {
		text, _ := d.get(fmt.Sprintf("/api/audit?status=SESSION_STOP&limit=1000&after=%d", after))
		var page struct {
			Rows []struct {
				Session string `json:"session_id"`
			}
			Next int64
		}
		d.must(json.Unmarshal([]byte(text), &page))
		for _, r := range page.Rows {
			if stops[r.Session]++; stops[r.Session] > 1 {
				d.Errorf("round %d: %s has more than one SESSION_STOP", round, r.Session)
			}
		}
		after = page.Next
	}
	for _, id := range closed {
		if stops[id] != 1 {
			d.Errorf("round %d: the closed session %s has %d SESSION_STOP", round, id, stops[id])
		}
	}
	text, _ := d.get("/api/chat/sessions")
	for id := range stops {
		if strings.Contains(text, id) {
			d.Errorf("round %d: %s has its SESSION_STOP and is live", round, id)
		}
	}
}

// decisionsOf compares what started, by the files it made, with the log.
func (d *daemonRun) decisionsOf(round int) {
	d.Helper()
	decided := map[string]bool{}
	var after int64
	for {
		text, _ := d.get(fmt.Sprintf("/api/audit?verdict=allow&status=allow&limit=1000&after=%d", after))
		var page struct {
			Rows []struct {
				Args struct{ Command string }
			}
			Next int64
		}
		d.must(json.Unmarshal([]byte(text), &page))
		for _, r := range page.Rows {
			_, rest, _ := strings.Cut(r.Args.Command, "started/")
			name, _, _ := strings.Cut(rest, ";")
			decided[name] = true
		}
		if after = page.Next; after == 0 {
			break
		}
	}
	started, _ := filepath.Glob(fmt.Sprintf("%s/started/%d-*", d.Work, round))
	if len(started) == 0 {
		d.Errorf("round %d: nothing was started, so that nothing is proven", round)
	}
	for _, path := range started {
		if !decided[filepath.Base(path)] {
			d.Errorf("round %d: %s started without a decision in the log", round, filepath.Base(path))
		}
	}
}
