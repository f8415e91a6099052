package api

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// StreamIO connects a call that streams. Nil streams are not connected: no input,
// output dropped.
type StreamIO struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// Signals go to the command. SIGWINCH is sent as the size of Terminal.
	Signals <-chan os.Signal
	// Size tells the size of the terminal. Nil: there is none.
	Size func() Size
	// Started is called when the call was let through and begins. Standard input is
	// read from then on, so that who is asked can answer at the same terminal.
	Started func()
	// Question shows a question about this call. It returns the answer, or false
	// when ctx ended first: by [ErrSettled] if somebody else answered.
	Question func(ctx context.Context, question json.RawMessage) (AnswerRequest, bool)
}

// ErrSettled is the cause when a question needs no answer any more: somebody else gave
// one, or its time is over.
var ErrSettled = errors.New("the question is settled")

// ErrGone reports that the daemon went away in the middle of its answer.
var ErrGone = errors.New("the daemon was stopped or killed in the middle of its answer")

// ErrCut reports that the daemon went away before the call had ended.
var ErrCut = errors.New("the connection to the daemon ended before the command did")

// StreamResult is the end of a call, and what became of its output here.
type StreamResult struct {
	Result Result
	// OutputError is why output could not be written. A reader who went away is
	// none: the command was told.
	OutputError error
}

// Exec runs one call with its streams. It returns when the call has ended and all
// its output was written. The error is a *Fault, an *UnreachableError or ErrCut.
func (c *Client) Exec(ctx context.Context, q ExecRequest, streams StreamIO) (StreamResult, error) {
	return c.stream(ctx, "POST", "/api/exec", q, streams)
}

// Attach joins a job until it ends.
func (c *Client) Attach(ctx context.Context, job string, streams StreamIO) (StreamResult, error) {
	return c.stream(ctx, "GET", "/api/jobs/"+job+"/attach", nil, streams)
}

func (c *Client) stream(ctx context.Context, method, path string, body any, streams StreamIO) (StreamResult, error) {
	answer, err := c.do(ctx, method, path, body, http.Header{"Connection": {"Upgrade"}, "Upgrade": {Protocol}})
	if err != nil {
		return StreamResult{}, err
	}
	defer answer.Body.Close()
	conn, ok := answer.Body.(io.ReadWriteCloser)
	if answer.StatusCode != http.StatusSwitchingProtocols || !ok {
		return StreamResult{}, fault(CodeVersion, "install sbx and sandboxd of one version", "the daemon does not stream")
	}
	s := &clientStream{stream: newStream(conn, bufio.NewReaderSize(conn, 64<<10), []FrameType{FrameStdin}, []FrameType{FrameStdout, FrameStderr}),
		io: streams, questions: map[string]context.CancelCauseFunc{}, begun: make(chan struct{})}
	s.alive = aliveTime
	s.begin = sync.OnceFunc(func() {
		if streams.Started != nil {
			streams.Started()
		}
		close(s.begun)
	})
	return s.run(ctx)
}

// clientStream is a call as its client sees it.
type clientStream struct {
	*stream
	io     StreamIO
	result *Result
	begun  chan struct{}
	begin  func()

	mu        sync.Mutex
	questions map[string]context.CancelCauseFunc
	asking    sync.WaitGroup
}

func (s *clientStream) run(ctx context.Context) (StreamResult, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(ctx, func() { s.conn.Close() })()
	var outputs sync.WaitGroup
	lost := make([]error, 2)
	for i, out := range []struct {
		kind FrameType
		to   io.Writer
	}{{FrameStdout, s.io.Stdout}, {FrameStderr, s.io.Stderr}} {
		to := out.to
		if to == nil {
			to = io.Discard
		}
		outputs.Go(func() { lost[i] = s.inlets[out.kind].copyTo(to) })
	}
	go s.sendInput(ctx)   // a read of standard input cannot be ended; it ends with the program
	go s.sendSignals(ctx) // ends with ctx
	err := s.receive(func(kind FrameType, payload []byte) error { return s.control(ctx, kind, payload) })
	if s.result == nil {
		if err == io.EOF || err == io.ErrUnexpectedEOF || errors.Is(err, unix.ECONNRESET) || errors.Is(err, unix.EPIPE) {
			err = ErrCut
		}
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		outputs.Wait()
		return StreamResult{}, err
	}
	outputs.Wait()
	cancel()
	s.asking.Wait()
	out := StreamResult{Result: *s.result}
	for _, err := range lost {
		if err != nil && !errors.Is(err, unix.EPIPE) && !errors.Is(err, os.ErrClosed) {
			out.OutputError = err
		}
	}
	return out, nil
}

var errEnd = errors.New("the end of the stream")

func (s *clientStream) control(ctx context.Context, kind FrameType, payload []byte) error {
	switch kind {
	case FrameExit:
		var res Result
		if err := json.Unmarshal(payload, &res); err != nil {
			return fmt.Errorf("%w: %w", errFrame, err)
		}
		s.result = &res
		for _, in := range s.inlets {
			in.end(io.EOF)
		}
		return errEnd
	case FrameStart:
		s.begin()
		return nil
	case FrameQuestion:
		var q StreamQuestion
		if err := json.Unmarshal(payload, &q); err != nil {
			return fmt.Errorf("%w: %w", errFrame, err)
		}
		s.question(ctx, q)
		return nil
	}
	return fmt.Errorf("%w: type %q goes the other way", errFrame, kind)
}

// question asks whoever is here, until somebody elsewhere has answered.
func (s *clientStream) question(ctx context.Context, q StreamQuestion) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if q.Settled {
		if end, ok := s.questions[q.ID]; ok {
			end(ErrSettled)
			delete(s.questions, q.ID)
		}
		return
	}
	if s.io.Question == nil {
		return
	}
	ask, end := context.WithCancelCause(ctx)
	s.questions[q.ID] = end
	text := append(json.RawMessage(nil), q.Question...)
	s.asking.Go(func() {
		if a, ok := s.io.Question(ask, text); ok {
			_ = s.sendJSON(FrameAnswer, StreamAnswer{ID: q.ID, AnswerRequest: a})
		}
	})
}

func (s *clientStream) sendInput(ctx context.Context) {
	select {
	case <-s.begun:
	case <-ctx.Done():
		return
	}
	if s.io.Stdin != nil {
		buf := make([]byte, 64<<10)
		for {
			n, err := s.io.Stdin.Read(buf)
			if n > 0 {
				if _, err := s.out[FrameStdin].write(ctx, buf[:n]); err != nil {
					return // nobody reads it any more
				}
			}
			if err != nil {
				break
			}
		}
	}
	_ = s.send(FrameStdinEnd, nil)
}

func (s *clientStream) sendSignals(ctx context.Context) {
	for {
		select {
		case sig := <-s.io.Signals:
			n, ok := sig.(syscall.Signal)
			switch {
			case !ok:
			case n == unix.SIGWINCH && s.io.Size != nil:
				size := s.io.Size()
				b := binary.BigEndian.AppendUint16(nil, size.Rows)
				_ = s.send(FrameResize, binary.BigEndian.AppendUint16(b, size.Columns))
			default:
				_ = s.send(FrameSignal, []byte{byte(n)})
			}
		case <-ctx.Done():
			return
		}
	}
}

// JobLogs writes the output of a job; with follow until the job has ended.
func (c *Client) JobLogs(ctx context.Context, job string, follow bool, stdout, stderr io.Writer) error {
	path := "/api/jobs/" + job + "/logs"
	if follow {
		path += "?follow=1"
	}
	answer, err := c.do(ctx, "GET", path, nil, nil)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	return readFrames(answer.Body, func(kind FrameType, b []byte) error {
		to := stdout
		if kind == FrameStderr {
			to = stderr
		}
		_, err := to.Write(b)
		return err
	})
}

// EventOpen is told first, without data: the daemon follows from here on.
const EventOpen = "open"

// Events calls f for each server-sent event of a route until it ends. after is the
// id of the last event that is known, 0 for none.
func (c *Client) Events(ctx context.Context, path string, after int64, f func(kind string, data []byte) error) error {
	header := http.Header{"Accept": {"text/event-stream"}}
	if after > 0 {
		header.Set("Last-Event-ID", fmt.Sprint(after))
	}
	answer, err := c.do(ctx, "GET", path, nil, header)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if err := f(EventOpen, nil); err != nil {
		return err
	}
	lines := bufio.NewScanner(answer.Body)
	lines.Buffer(make([]byte, 64<<10), maxObject)
	kind := ""
	var data bytes.Buffer
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case lines.Text() == "":
			if data.Len() > 0 {
				if err := f(kind, data.Bytes()); err != nil {
					return err
				}
			}
			kind = ""
			data.Reset()
		case name == "event":
			kind = value
		case name == "data":
			data.WriteString(value)
		}
	}
	return lines.Err()
}
