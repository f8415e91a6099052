package api

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"sandboxd/agentloop"
)

// Bounds of jobs.
const (
	// maxLiveJobs bounds the jobs of one user that run or wait.
	maxLiveJobs = 64
	// maxKeptJobs bounds the ended jobs of one user whose logs are kept, keptJobBytes
	// the size of those logs together, keptJobTime their age.
	maxKeptJobs  = 100
	keptJobBytes = 1 << 30
	keptJobTime  = 7 * 24 * time.Hour
)

// JobState says where a job is.
type JobState string

const (
	JobRunning JobState = "running" // or waiting for its turn, or for an answer
	JobEnded   JobState = "ended"
	// JobLost is one that the daemon did not see the end of: it was killed, and the
	// job with it.
	JobLost JobState = "lost"
)

// Job is a call that runs on its own.
type Job struct {
	ID      string    `json:"id"`
	UID     int       `json:"uid"`
	State   JobState  `json:"state"`
	Argv    []Text    `json:"argv"`
	Cwd     Text      `json:"cwd"`
	Session string    `json:"session_id,omitempty"`
	Call    string    `json:"call_id,omitempty"`
	Started time.Time `json:"started"`
	// Ended is zero for a job that runs.
	Ended time.Time `json:"ended,omitzero"`
	// LogBytes is the size of the log, LogDropped how much output it does not hold,
	// LogError why.
	LogBytes   int64  `json:"log_bytes"`
	LogDropped int64  `json:"log_dropped,omitempty"`
	LogError   string `json:"log_error,omitempty"`
	// Result is there once the job has ended.
	Result *Result `json:"result,omitempty"`
}

// job is a Job with what is needed to run it.
type job struct {
	log     *jobLog
	cancel  context.CancelFunc
	signals chan os.Signal
	session *agentloop.Session // masks the record; the log is the owner's, as written
	done    chan struct{}      // closed when state is final

	mu    sync.Mutex
	state Job
}

// snapshot is the job as it is now.
func (j *job) snapshot() Job {
	j.mu.Lock()
	defer j.mu.Unlock()
	out := j.state
	if out.State == JobRunning {
		out.LogBytes, _, _ = j.log.state()
	}
	return out
}

// jobs holds the jobs of all users. It is safe for concurrent use.
type jobs struct {
	dir string
	log *slog.Logger

	mu   sync.Mutex
	byID map[string]*job
}

// openJobs reads what earlier daemons left: ended jobs with their logs, and those
// that died with a daemon.
func openJobs(dir string, log *slog.Logger) (*jobs, error) {
	js := &jobs{dir: dir, log: log, byID: map[string]*job{}}
	if dir == "" {
		return js, nil
	}
	if err := makePrivateDir(dir); err != nil {
		return nil, fmt.Errorf("jobs: %w", err)
	}
	names, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		return nil, err
	}
	known := map[string]bool{}
	for _, name := range names {
		if j, err := readJob(name); err != nil {
			log.Warn("job not readable", "error", err)
		} else {
			js.byID[j.state.ID] = j
			known[j.state.ID] = true
		}
	}
	js.removeStray(known)
	js.prune(time.Now())
	return js, nil
}

// readJob reads the record of a job that this daemon did not start.
func readJob(name string) (*job, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	j := &job{done: make(chan struct{}), cancel: func() {}, signals: make(chan os.Signal, 1)}
	if err := json.Unmarshal(text, &j.state); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if j.state.ID+".json" != filepath.Base(name) {
		return nil, fmt.Errorf("%s holds the job %q", name, j.state.ID)
	}
	path := strings.TrimSuffix(name, ".json") + ".log"
	j.log = &jobLog{path: path, ended: true, grown: make(chan struct{})}
	if info, err := os.Lstat(path); err == nil && info.Mode().IsRegular() {
		j.log.size = info.Size()
		j.state.LogBytes = info.Size()
	}
	if j.state.State == JobRunning {
		j.state.State = JobLost
	}
	close(j.done)
	return j, nil
}

// removeStray removes logs without a record: the daemon died between the two.
func (js *jobs) removeStray(known map[string]bool) {
	names, _ := filepath.Glob(filepath.Join(js.dir, "*.*"))
	for _, name := range names {
		id, _, _ := strings.Cut(filepath.Base(name), ".")
		if !known[id] {
			_ = os.Remove(name)
		}
	}
}

// save writes the record of a job.
func (js *jobs) save(state Job) error {
	text, err := json.Marshal(state)
	if err != nil {
		return err
	}
	name := filepath.Join(js.dir, state.ID+".json")
	if err := os.WriteFile(name+".new", text, 0o600); err != nil {
		return err
	}
	return os.Rename(name+".new", name)
}

// add makes a job of peer, within its bound.
func (js *jobs) add(peer agentloop.Peer, q ExecRequest, session *agentloop.Session) (*job, error) {
	if js.dir == "" {
		return nil, fault(CodeConflict, "give the daemon a state directory", "this daemon keeps no jobs")
	}
	js.mu.Lock()
	defer js.mu.Unlock()
	live := 0
	for _, j := range js.byID {
		if s := j.snapshot(); s.UID == peer.UID() && s.State == JobRunning {
			live++
		}
	}
	if live >= maxLiveJobs {
		return nil, fault(CodeBusy, "wait for one, or sbx jobs kill ID", "uid %d has %d jobs, which is the most", peer.UID(), live)
	}
	argv := []Text{q.Script + Text(q.Tool)}
	if len(q.Argv) > 0 {
		argv = q.Argv
	}
	secrets := session.LearnWords(Strings(argv))
	argv = Texts(secrets.MaskWords(Strings(argv)))
	id := "job-" + strings.ToLower(rand.Text()[:10])
	log, err := createJobLog(filepath.Join(js.dir, id+".log"), peer.Caller)
	if err != nil {
		return nil, err
	}
	j := &job{log: log, session: session, signals: make(chan os.Signal, 16), done: make(chan struct{}), cancel: func() {},
		state: Job{ID: id, UID: peer.UID(), State: JobRunning, Argv: argv, Cwd: Text(secrets.Mask(string(q.Cwd))), Started: time.Now().UTC()}}
	if err := js.save(j.state); err != nil {
		log.end()
		return nil, errors.Join(err, os.Remove(log.path))
	}
	js.byID[id] = j
	return j, nil
}

// finish notes the end of a job.
func (js *jobs) finish(j *job, res Result) {
	dropped, failed := j.log.end()
	res, maskErr := res.masked(j.session.Kept())
	j.session = nil // a record outlives it
	j.mu.Lock()
	j.state.State, j.state.Ended = JobEnded, time.Now().UTC()
	if maskErr == nil {
		j.state.Result = &res
	}
	j.state.LogBytes, _, _ = j.log.state()
	j.state.LogDropped = dropped
	if failed != nil {
		j.state.LogError = failed.Error()
	}
	state := j.state
	j.mu.Unlock()
	if err := errors.Join(maskErr, js.save(state)); err != nil {
		js.log.Error("job not recorded", "job", state.ID, "error", err)
	}
	close(j.done)
	js.prune(time.Now())
}

// get returns a job that peer may see.
func (js *jobs) get(id string, peer agentloop.Peer) (*job, error) {
	js.mu.Lock()
	defer js.mu.Unlock()
	if j, ok := js.byID[id]; ok && (peer.Admin || j.state.UID == peer.UID()) {
		return j, nil
	}
	return nil, fault(CodeNotFound, "sbx jobs list shows yours", "no such job")
}

// list returns the jobs that peer may see, oldest first.
func (js *jobs) list(peer agentloop.Peer) []Job {
	js.mu.Lock()
	defer js.mu.Unlock()
	out := []Job{}
	for _, j := range js.byID {
		if s := j.snapshot(); peer.Admin || s.UID == peer.UID() {
			out = append(out, s)
		}
	}
	slices.SortFunc(out, func(a, b Job) int { return cmp.Or(a.Started.Compare(b.Started), cmp.Compare(a.ID, b.ID)) })
	return out
}

// remove forgets an ended job and its log.
func (js *jobs) remove(j *job) error {
	s := j.snapshot()
	if s.State == JobRunning {
		return fault(CodeConflict, "sbx jobs kill "+s.ID, "the job is running")
	}
	js.mu.Lock()
	delete(js.byID, s.ID)
	js.mu.Unlock()
	err := os.Remove(j.log.path)
	if errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	return errors.Join(err, os.Remove(filepath.Join(js.dir, s.ID+".json")))
}

// prune removes what is too old or too much.
func (js *jobs) prune(now time.Time) {
	all := js.list(agentloop.Peer{Admin: true})
	kept, bytes := map[int]int{}, map[int]int64{}
	for _, s := range slices.Backward(all) {
		if s.State == JobRunning {
			continue
		}
		kept[s.UID]++
		bytes[s.UID] += s.LogBytes
		if kept[s.UID] <= maxKeptJobs && bytes[s.UID] <= keptJobBytes && now.Sub(s.Started) < keptJobTime {
			continue
		}
		if j, err := js.get(s.ID, agentloop.Peer{Admin: true}); err == nil {
			if err := js.remove(j); err != nil {
				js.log.Warn("job not removed", "job", s.ID, "error", err)
			}
		}
	}
}
