package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"sandboxd/agentloop"
	"sandboxd/agentloop/sqlite"
	"sandboxd/cmd/sandboxd/api"
	"sandboxd/policy/settings"
)

// The log of sbx run is a database of its own, of whoever runs sbx, with a chain and
// anchors of its own: no daemon takes rows from a client, which could write what it
// likes there.
const (
	runLogWait  = 10 * time.Second // for other runs that write
	runLogBytes = 256 << 20        // beyond it the oldest rows go
)

// runLog serves [api.RunLogCommand] until stdin ends.
func runLog(ctx context.Context, environ []string, stdin io.Reader, stdout io.Writer) error {
	dir := settings.StateDir(environ)
	if dir == "" {
		return misuse("set HOME or XDG_STATE_HOME", "no place for the log of sbx run")
	}
	l := runLogFile{filepath.Join(dir, "run-audit", "audit.db")}
	in, out := json.NewDecoder(stdin), json.NewEncoder(stdout)
	in.DisallowUnknownFields()
	for {
		var q api.RunLogRequest
		if err := in.Decode(&q); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		a, err := l.answer(ctx, q)
		if err != nil {
			a.Error = err.Error()
		}
		if err := out.Encode(a); err != nil {
			return err
		}
	}
}

// runLogFile is the database by its path. Many runs write to it in turn: each opens it
// for one row.
type runLogFile struct{ path string }

func (l runLogFile) answer(ctx context.Context, q api.RunLogRequest) (a api.RunLogAnswer, err error) {
	switch {
	case q.Append != nil:
		a.Seq, err = l.append(ctx, *q.Append)
		return a, err
	case q.Search == nil && q.Export == nil && q.Verify == nil:
		return a, errors.New("nothing is asked for")
	}
	r, err := sqlite.OpenReader(l.path)
	if errors.Is(err, os.ErrNotExist) {
		return a, fmt.Errorf("%s: no run was recorded; a policy with [audit] run = true does: %w", l.path, err)
	}
	if err != nil {
		return a, err
	}
	defer r.Close()
	if q.Export != nil {
		q.Export.Query.Viewer = agentloop.ViewAll()
		text, next, err := r.ExportPage(ctx, q.Export.Query)
		a.Lines = &api.RunLogLines{Text: text, Next: next}
		return a, err
	}
	if q.Search != nil {
		q.Search.Query.Viewer = agentloop.ViewAll() // the file is the caller's
		page, err := r.Search(ctx, q.Search.Query)
		a.Page = &page
		return a, err
	}
	report, err := r.Verify(ctx, q.Verify...)
	a.Report = &report
	return a, err
}

// append writes one row and lets go of the database.
func (l runLogFile) append(ctx context.Context, row agentloop.AuditRecord) (seq int64, err error) {
	s, err := l.open(ctx)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if seq, err = s.Append(ctx, row); err != nil {
		return 0, err
	}
	if st, statErr := os.Stat(l.path); statErr == nil && st.Size() > runLogBytes {
		_, err = s.Retain(ctx, sqlite.Retention{Bytes: runLogBytes})
	}
	return seq, err
}

// open waits for its turn.
func (l runLogFile) open(ctx context.Context) (*sqlite.Store, error) {
	late := time.Now().Add(runLogWait)
	for {
		s, err := sqlite.Open(l.path, sqlite.Options{})
		if !errors.Is(err, sqlite.ErrInUse) || time.Now().After(late) || ctx.Err() != nil {
			return s, err
		}
		time.Sleep(3 * time.Millisecond)
	}
}
