package api

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"sandboxd/agentloop"
	"sandboxd/policy"
)

// exec serves POST /api/exec: as a stream, as a job, or with one answer at the end.
func (s *Server) exec(w http.ResponseWriter, r *http.Request) error {
	var q ExecRequest
	if err := readJSON(r, &q); err != nil {
		return err
	}
	stream := wantsStream(r)
	if q.Terminal != nil && !stream {
		return fault(CodeBadRequest, "upgrade to "+Protocol, "a terminal needs a stream")
	}
	end, err := s.begin()
	if err != nil {
		return err
	}
	defer end()
	freeTimes(w)
	if q.Detach {
		return s.execJob(w, r, q)
	}
	c, err := s.prepare(r.Context(), peerOf(r), q)
	if err != nil {
		return err
	}
	defer c.done()
	if stream {
		return s.execStream(w, c)
	}
	res, err := s.execOnce(r.Context(), c)
	if err != nil {
		return err
	}
	answerTime(w)
	writeJSON(w, http.StatusOK, res)
	return nil
}

// freeTimes lifts the times of a request whose body was read: a call takes as long
// as its own limits say.
func freeTimes(w http.ResponseWriter) {
	c := http.NewResponseController(w)
	_ = c.SetReadDeadline(time.Time{})
	_ = c.SetWriteDeadline(time.Time{})
}

// answerTime starts the time in which the client has to take the answer.
func answerTime(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeTime))
}

// endTime is longer than the grace period of a run.
const endTime = 5 * time.Second

func wantsStream(r *http.Request) bool {
	return strings.EqualFold(r.Header.Get("Upgrade"), Protocol) && headerHas(r.Header, "Connection", "upgrade")
}

func headerHas(h http.Header, name, token string) bool {
	for _, line := range h.Values(name) {
		for word := range strings.SplitSeq(line, ",") {
			if strings.EqualFold(strings.TrimSpace(word), token) {
				return true
			}
		}
	}
	return false
}

// execOnce runs a call whose output goes into the result.
func (s *Server) execOnce(ctx context.Context, c *call) (Result, error) {
	if c.q.Stdin == "" {
		return s.run(ctx, c), nil
	}
	in, feed, err := os.Pipe()
	if err != nil {
		return Result{}, err
	}
	defer in.Close()
	c.tool.IO.Stdin = in
	var feeder sync.WaitGroup
	feeder.Go(func() {
		_, _ = io.WriteString(feed, string(c.q.Stdin)) // a command need not read it
		feed.Close()
	})
	res := s.run(ctx, c)
	in.Close()
	feed.SetWriteDeadline(time.Now())
	feeder.Wait()
	return res, nil
}

// serverStream is a stream whose connection has deadlines.
type serverStream struct {
	*stream
	net net.Conn
}

// leave waits for the client to close, which it does when it has read the exit.
func (s *serverStream) leave() { _ = s.net.SetReadDeadline(time.Now().Add(lastAnswers)) }

// upgrade takes the connection over from the HTTP server and answers 101.
func (s *Server) upgrade(w http.ResponseWriter, sends, takes []FrameType) (*serverStream, error) {
	raw, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return nil, fault(CodeInternal, "", "bug: %v", err)
	}
	_ = raw.SetDeadline(time.Time{})
	head := fmt.Sprintf("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n%s: %s\r\n%s: %s\r\n\r\n",
		Protocol, Header, Version, BuildHeader, w.Header().Get(BuildHeader))
	if _, err := io.WriteString(raw, head); err != nil {
		raw.Close()
		return nil, nil
	}
	st := &serverStream{newStream(raw, buffered.Reader, sends, takes), raw}
	st.gone = s.o.Gone
	return st, nil
}

// execStream serves one call over an upgraded connection. The call ends with the
// connection. Errors after the upgrade have nobody to go to.
func (s *Server) execStream(w http.ResponseWriter, c *call) error {
	st, err := s.upgrade(w, []FrameType{FrameStdout, FrameStderr}, []FrameType{FrameStdin})
	if err != nil || st == nil {
		return err
	}
	defer st.conn.Close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	signals := make(chan os.Signal, 16) // more than a person sends before one is taken
	term, stop, err := s.connect(st, c)
	if err != nil {
		return st.sendJSON(FrameExit, Result{Error: &ErrorObject{Stage: "stdio", Message: err.Error()}, plainResult: plainResult{ExitCode: ExitSandbox}})
	}
	c.tool.IO.Signals = signals
	// At the end of the daemon the call is ended; its client gets the result if it
	// takes it.
	defer context.AfterFunc(s.base, func() { time.AfterFunc(endTime, func() { st.conn.Close() }) })()
	untell := s.tell(st, c)
	var reader sync.WaitGroup
	reader.Go(func() {
		defer cancel() // the client is gone, or speaks rubbish: the call ends
		_ = st.receive(func(kind FrameType, payload []byte) error {
			return s.control(ctx, c, term, signals, kind, payload)
		})
	})
	res := s.run(ctx, c)
	stop()
	untell()
	err = st.sendJSON(FrameExit, res)
	// The client closes when it has read the exit; one that does not is left.
	st.leave()
	if err != nil {
		st.conn.Close()
	}
	reader.Wait()
	return nil
}

// connect gives the call its streams. stop returns when all output was sent and the
// input is no longer read.
func (s *Server) connect(st *serverStream, c *call) (term *terminal, stop func(), err error) {
	stdin := st.inlets[FrameStdin]
	if c.q.Terminal != nil {
		if term, err = openTerminal(*c.q.Terminal); err != nil {
			return nil, nil, err
		}
		head := &agentloop.OutputHead{End: func() { term.inner.Close() }}
		c.tool.IO.TTY, c.tool.IO.Printed = term.inner, head
		return term, term.connect(st, head), nil
	}
	in, feed, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	c.tool.IO.Stdin = in
	if !c.q.Capture {
		c.printTo(st.out[FrameStdout], st.out[FrameStderr])
	}
	var feeder sync.WaitGroup
	feeder.Go(func() {
		_ = stdin.copyTo(feed) // EPIPE: the command reads no more, and the client was told
		feed.Close()
	})
	return nil, func() {
		in.Close()
		feed.SetWriteDeadline(time.Now())
		stdin.end(io.EOF)
		stdin.drop()
		feeder.Wait()
	}, nil
}

// control obeys what a client sends beside data.
func (s *Server) control(ctx context.Context, c *call, term *terminal, signals chan<- os.Signal, kind FrameType, payload []byte) error {
	switch kind {
	case FrameSignal:
		n := syscall.Signal(payload[0])
		if n < 1 || n > 64 {
			return fmt.Errorf("%w: no signal %d", errFrame, n)
		}
		return push(ctx, signals, n)
	case FrameResize:
		if term == nil {
			return nil
		}
		term.resize(Size{binary.BigEndian.Uint16(payload), binary.BigEndian.Uint16(payload[2:])})
		return push(ctx, signals, unix.SIGWINCH)
	case FrameAnswer:
		var a StreamAnswer
		if err := decodeStrict(payload, &a); err != nil {
			return fmt.Errorf("%w: %w", errFrame, err)
		}
		answer, err := a.answer("sbx exec")
		if err != nil {
			return err
		}
		// Whoever lost is told by the settling of the question.
		_, _ = s.o.Asks.Answer(ctx, a.ID, c.peer, answer)
		return nil
	}
	return fmt.Errorf("%w: type %q goes the other way", errFrame, kind)
}

// push hands a signal on. One that finds the queue full is dropped, as the kernel
// does with those that wait already.
func push(ctx context.Context, signals chan<- os.Signal, n os.Signal) error {
	select {
	case signals <- n:
	case <-ctx.Done():
	default:
	}
	return nil
}

// tell sends what a client is to know before the end: that its call begins, and, if
// somebody is there to answer, the questions about it. That person counts as an
// answerer. stop ends both.
func (s *Server) tell(st *serverStream, c *call) (stop func()) {
	detach := func() {}
	if c.q.Answers {
		detach = s.o.Asks.Attach(c.peer, "sbx exec")
	}
	events := c.session.Events()
	sub := events.Subscribe(events.Last())
	var sender sync.WaitGroup
	sender.Go(func() {
		begun := sync.OnceFunc(func() { _ = st.send(FrameStart, nil) })
		for e := range sub.C {
			switch kind, id := aboutCall(e, c.tool.ID); {
			case kind == agentloop.EventCallStarted:
				begun()
			case kind == agentloop.EventQuestionAsked && c.q.Answers:
				_ = st.sendJSON(FrameQuestion, StreamQuestion{ID: id, Question: e.Data})
			case kind == agentloop.EventQuestionSettled && c.q.Answers:
				_ = st.sendJSON(FrameQuestion, StreamQuestion{ID: id, Settled: true})
			}
		}
		begun() // a session with very many events lets a slow reader go
	})
	return func() {
		detach()
		sub.Close()
		sender.Wait()
	}
}

// aboutCall returns the type of an event of one call, else "", and the id of the
// question that it is about.
func aboutCall(e agentloop.Event, call string) (kind, question string) {
	switch e.Type {
	case agentloop.EventCallStarted, agentloop.EventQuestionAsked, agentloop.EventQuestionSettled:
	default:
		return "", ""
	}
	var of struct {
		ID   string `json:"id"`
		Call string `json:"call_id"`
	}
	if err := json.Unmarshal(e.Data, &of); err != nil || of.Call != call {
		return "", ""
	}
	return e.Type, of.ID
}

// answer checks the words of an answer.
func (a AnswerRequest) answer(by string) (agentloop.AskAnswer, error) {
	out := agentloop.AskAnswer{Scope: a.Scope, Text: a.Text, By: by}
	switch a.Scope {
	case "", "session", "project", "user":
	default:
		return out, fault(CodeBadRequest, "one of session, project, user", "unknown scope %q", a.Scope)
	}
	switch a.Answer {
	case "allow":
		out.Verdict = policy.Allow
	case "always":
		out.Verdict, out.Always = policy.Allow, true
	case "deny":
		out.Verdict = policy.Deny
	case "text":
		out.Verdict = policy.Allow
	default:
		return out, fault(CodeBadRequest, "one of allow, deny, always, text", "unknown answer %q", a.Answer)
	}
	if (a.Text != "") != (a.Answer == "text") {
		return out, fault(CodeBadRequest, "", "the answer text comes with a text, and no other does")
	}
	if a.Scope != "" && a.Answer != "always" {
		return out, fault(CodeBadRequest, "", "a scope belongs to the answer always")
	}
	return out, nil
}
