package api

import (
	"context"
	"net/http"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// execJob starts a call on its own and answers with its Job.
func (s *Server) execJob(w http.ResponseWriter, r *http.Request, q ExecRequest) error {
	peer := peerOf(r)
	c, err := s.prepare(r.Context(), peer, q)
	if err != nil {
		return err
	}
	j, err := s.jobs.add(c.peer, c.q, c.session)
	if err != nil {
		c.done()
		return err
	}
	end := s.extend()
	ctx, cancel := context.WithCancel(s.base)
	j.mu.Lock()
	j.cancel = cancel
	j.state.Session, j.state.Call = c.session.ID(), c.tool.ID
	j.mu.Unlock()
	c.printTo(j.log.stream(FrameStdout), j.log.stream(FrameStderr))
	c.tool.IO.Signals = j.signals
	go func() { // waited for by Shutdown, through begin
		defer end()
		defer cancel()
		defer c.done()
		s.jobs.finish(j, s.run(ctx, c))
	}()
	answerTime(w)
	writeJSON(w, http.StatusAccepted, j.snapshot())
	return nil
}

func (s *Server) listJobs(w http.ResponseWriter, r *http.Request) error {
	writeJSON(w, http.StatusOK, JobList{s.jobs.list(peerOf(r))})
	return nil
}

// JobList is the answer of GET /api/jobs.
type JobList struct {
	Jobs []Job `json:"jobs"`
}

func (s *Server) getJob(w http.ResponseWriter, r *http.Request) error {
	j, err := s.jobs.get(r.PathValue("id"), peerOf(r))
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, j.snapshot())
	return nil
}

func (s *Server) deleteJob(w http.ResponseWriter, r *http.Request) error {
	j, err := s.jobs.get(r.PathValue("id"), peerOf(r))
	if err != nil {
		return err
	}
	if err := s.jobs.remove(j); err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, j.snapshot())
	return nil
}

// jobLogs answers with the frames of the log; with follow=1 until the job ends.
func (s *Server) jobLogs(w http.ResponseWriter, r *http.Request) error {
	j, err := s.jobs.get(r.PathValue("id"), peerOf(r))
	if err != nil {
		return err
	}
	follow, _ := strconv.ParseBool(r.URL.Query().Get("follow"))
	c := http.NewResponseController(w)
	ctx, cancel := s.untilQuit(r.Context())
	defer cancel()
	freeTimes(w)
	w.Header().Set("Content-Type", "application/vnd.sandboxd.frames")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	var buf []byte
	err = j.log.read(ctx, follow, func(kind FrameType, b []byte) error {
		buf = appendFrame(buf[:0], kind, b)
		_ = c.SetWriteDeadline(time.Now().Add(writeTime))
		if _, err := w.Write(buf); err != nil {
			return err
		}
		if follow {
			return c.Flush()
		}
		return nil
	})
	if err != nil && ctx.Err() == nil {
		return err // before the first byte it becomes an answer, later the end
	}
	return nil
}

// attachJob joins a job: its log from the start, its output as it comes, signals to
// it, and its result at the end. Leaving does not end the job.
func (s *Server) attachJob(w http.ResponseWriter, r *http.Request) error {
	j, err := s.jobs.get(r.PathValue("id"), peerOf(r))
	if err != nil {
		return err
	}
	if !wantsStream(r) {
		return fault(CodeBadRequest, "upgrade to "+Protocol+", or GET /api/jobs/{id}/logs", "attaching needs a stream")
	}
	end, err := s.begin()
	if err != nil {
		return err
	}
	defer end()
	st, err := s.upgrade(w, []FrameType{FrameStdout, FrameStderr}, []FrameType{FrameStdin})
	if err != nil || st == nil {
		return err
	}
	defer st.conn.Close()
	st.inlets[FrameStdin].drop() // a job has no input
	ctx, cancel := s.untilQuit(context.Background())
	defer cancel()
	defer context.AfterFunc(ctx, func() { st.conn.Close() })()
	var reader sync.WaitGroup
	defer reader.Wait()
	reader.Go(func() {
		defer cancel()
		_ = st.receive(func(kind FrameType, payload []byte) error {
			if kind == FrameSignal {
				return push(ctx, j.signals, syscall.Signal(payload[0]))
			}
			return nil
		})
	})
	_ = st.send(FrameStart, nil)
	err = j.log.read(ctx, true, func(kind FrameType, b []byte) error {
		out, ok := st.out[kind]
		if !ok {
			return nil
		}
		_, err := out.write(ctx, b)
		return err
	})
	if err != nil {
		st.conn.Close()
		return nil
	}
	select {
	case <-j.done:
		state := j.snapshot()
		if state.Result == nil {
			state.Result = &Result{Error: &ErrorObject{Stage: "job", Message: "the daemon ended before the job did", Hint: "start it again"},
				plainResult: plainResult{Outcome: "setup", ExitCode: ExitSandbox}}
		}
		_ = st.sendJSON(FrameExit, state.Result)
		st.leave()
		reader.Wait()
	case <-ctx.Done():
	}
	return nil
}

// KillRequest says how a job ends. Without a signal it ends as at its deadline: TERM
// to the whole tree, a grace period, KILL to what is left.
type KillRequest struct {
	Signal int `json:"signal,omitempty"`
}

func (s *Server) killJob(w http.ResponseWriter, r *http.Request) error {
	var k KillRequest
	if err := readJSON(r, &k); err != nil {
		return err
	}
	j, err := s.jobs.get(r.PathValue("id"), peerOf(r))
	if err != nil {
		return err
	}
	switch {
	case j.snapshot().State != JobRunning:
		return fault(CodeConflict, "", "the job has ended")
	case k.Signal < 0 || k.Signal > 64:
		return fault(CodeBadRequest, "1 to 64", "no signal %d", k.Signal)
	case k.Signal != 0 && unix.Signal(k.Signal) != unix.SIGKILL:
		_ = push(r.Context(), j.signals, unix.Signal(k.Signal))
	default:
		j.mu.Lock()
		cancel := j.cancel
		j.mu.Unlock()
		cancel()
		freeTimes(w)
		select {
		case <-j.done:
		case <-r.Context().Done():
		}
		answerTime(w)
	}
	writeJSON(w, http.StatusOK, j.snapshot())
	return nil
}

// untilQuit is a context that also ends when the daemon stops.
func (s *Server) untilQuit(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(parent)
	done := make(chan struct{})
	go func() {
		select {
		case <-s.quit:
			cancel()
		case <-ctx.Done():
		}
		close(done)
	}()
	return ctx, func() { cancel(); <-done }
}
