package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"sync"
	"syscall"

	"sandboxd/agentloop"
	"sandboxd/cmd/sandboxd/api"
)

// runLog is the log of sbx run. The database is written by a process of sandboxd that
// is started for the first row and ends with this one: SQLite has no place in the start
// of a program that mostly writes none.
type runLog struct {
	p *program

	mu   sync.Mutex
	proc *os.Process
	to   *os.File
	from *os.File
	in   *json.Decoder
}

var _ agentloop.AuditLog = (*runLog)(nil)

// Append implements [agentloop.AuditLog].
func (l *runLog) Append(_ context.Context, r agentloop.AuditRecord) (int64, error) {
	a, err := l.ask(api.RunLogRequest{Append: &r})
	if err != nil {
		return 0, fmt.Errorf("%w: %w", agentloop.ErrNotRecorded, err)
	}
	return a.Seq, nil
}

// ask sends one request and waits for its answer.
func (l *runLog) ask(q api.RunLogRequest) (a api.RunLogAnswer, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.proc == nil {
		if err := l.start(); err != nil {
			return a, err
		}
	}
	if err := json.NewEncoder(l.to).Encode(q); err != nil {
		return a, fmt.Errorf("sandboxd %s: %w", api.RunLogCommand, err)
	}
	if err := l.in.Decode(&a); errors.Is(err, io.EOF) {
		return a, fmt.Errorf("sandboxd %s ended", api.RunLogCommand)
	} else if err != nil {
		return a, fmt.Errorf("sandboxd %s: %w", api.RunLogCommand, err)
	}
	if a.Error != "" {
		return a, errors.New(a.Error)
	}
	return a, nil
}

// start starts the writer, in a session of its own: what ends the command, such as
// Ctrl-C, must not end the one who writes that down.
func (l *runLog) start() error {
	path, err := l.p.daemonProgram()
	if err != nil {
		return errors.New(err.Error()) // its exit status would be that of a command that is not found
	}
	stdin, to, err := os.Pipe()
	if err != nil {
		return err
	}
	defer stdin.Close()
	from, stdout, err := os.Pipe()
	if err != nil {
		return errors.Join(err, to.Close())
	}
	defer stdout.Close()
	proc, err := os.StartProcess(path, []string{"sandboxd", api.RunLogCommand}, &os.ProcAttr{
		Dir: "/", Env: l.p.environ, Files: []*os.File{stdin, stdout, nil}, Sys: &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return errors.Join(err, to.Close(), from.Close())
	}
	l.proc, l.to, l.from, l.in = proc, to, from, json.NewDecoder(from)
	return nil
}

// close ends the writer.
func (l *runLog) close() {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.proc == nil {
		return
	}
	_ = l.to.Close()
	_, _ = l.proc.Wait() // it has answered all it was asked
	_ = l.from.Close()
	l.proc = nil
}

// runRows are the newest rows of the log of sbx run that match what sbx audit asks for.
func (p *program) runRows(v url.Values, limit int) ([]agentloop.AuditRecord, error) {
	q, err := api.ParseAuditQuery(v, "newest")
	if err != nil {
		return nil, daemonFailure(err)
	}
	l := &runLog{p: p}
	defer l.close()
	var rows []agentloop.AuditRecord
	for {
		q.Limit = min(limit-len(rows), 1000)
		a, err := l.ask(api.RunLogRequest{Search: &api.RunLogSearch{Query: q}})
		if err != nil {
			return nil, runLogFailure(err)
		}
		rows = append(rows, a.Page.Rows...)
		if a.Page.Next == 0 || len(rows) >= limit {
			return rows, nil
		}
		q.After = a.Page.Next
	}
}

// exportRuns writes all rows of the log of sbx run that match, as lines.
func (p *program) exportRuns(v url.Values, to io.Writer) error {
	q, err := api.ParseAuditQuery(v)
	if err != nil {
		return daemonFailure(err)
	}
	l := &runLog{p: p}
	defer l.close()
	for q.Limit = 200; ; {
		a, err := l.ask(api.RunLogRequest{Export: &api.RunLogSearch{Query: q}})
		if err != nil {
			return runLogFailure(err)
		}
		if _, err := to.Write(a.Lines.Text); err != nil {
			return err
		}
		if q.After = a.Lines.Next; q.After == 0 {
			return nil
		}
	}
}

// runReport checks the chain of the log of sbx run.
func (p *program) runReport(anchors []agentloop.AuditAnchor) (agentloop.AuditReport, error) {
	l := &runLog{p: p}
	defer l.close()
	a, err := l.ask(api.RunLogRequest{Verify: append([]agentloop.AuditAnchor{}, anchors...)})
	if err != nil {
		return agentloop.AuditReport{}, runLogFailure(err)
	}
	return *a.Report, nil
}

func runLogFailure(err error) error {
	if f, ok := errors.AsType[*failure](err); ok {
		return f
	}
	return &failure{code: exitSandbox, stage: "audit", err: err}
}
