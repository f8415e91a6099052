package sqlite

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sandboxd/agentloop"
)

func TestRetentionKeepsTheChainVerifiable(t *testing.T) {
	now := time.Now()
	for _, tt := range []struct {
		name  string
		r     Retention
		first int64 // that stays
		last  int64 // with the checkpoints
	}{
		{"rows", Retention{Rows: 100}, 911, 1005},
		{"age", Retention{Age: 50 * time.Minute}, 951, 1005},
		{"nothing to do", Retention{Rows: 1000, Age: 100 * time.Hour, Bytes: 1 << 30}, 1, 1000},
		{"everything is old", Retention{Age: time.Nanosecond}, 1001, 1005},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := newPath(t)
			s := open(t, path, Options{})
			fillAt(t, s, 1000, func(n int) time.Time { return now.Add(-time.Duration(1000-n) * time.Minute) })
			got, err := s.Retain(t.Context(), tt.r)
			if err != nil || got.Rows != tt.first-1 {
				t.Fatalf("Retain = %+v, %v, want %d rows", got, err, tt.first-1)
			}
			rep, err := s.Verify(t.Context())
			if err != nil || !rep.OK || rep.First != tt.first || rep.Last != tt.last || (rep.Checkpoint == 0) != (tt.first == 1) {
				t.Fatalf("Verify = %+v, %v, want rows %d to %d", rep, err, tt.first, tt.last)
			}
			// The checkpoints themselves are rows that count.
			if again, err := s.Retain(t.Context(), tt.r); err != nil || again.Rows > 5 {
				t.Errorf("again: %+v, %v", again, err)
			}
			_ = s.Close()
			s = open(t, path, Options{})
			if _, err := s.Append(t.Context(), record(1)); err != nil {
				t.Fatal(err)
			}
			if rep, err = s.Verify(t.Context()); err != nil || !rep.OK {
				t.Errorf("Verify later = %+v, %v", rep, err)
			}
			// Only there: one row more is gone than the checkpoint says.
			first := rep.First
			_ = s.Close()
			tamper(t, path, func(h hand) { h.do(`DELETE FROM agent_audit_log WHERE seq = ?`, first) })
			if rep := verifyAt(t, path); rep.OK || !slices.Contains(kinds(rep), foundStart) && !slices.Contains(kinds(rep), foundGap) {
				t.Errorf("a row more was cut: %+v", rep)
			}
		})
	}
}

func fillAt(t *testing.T, s *Store, rows int, at func(n int) time.Time) {
	t.Helper()
	err := s.do(t.Context(), false, func(ctx context.Context, tx *transaction) error {
		for n := 1; n <= rows; n++ {
			r, err := normalize(record(n))
			r.Time = at(n).UTC()
			if err := errors.Join(err, tx.append(ctx, &r)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestRetentionBySize(t *testing.T) {
	path := newPath(t)
	s := open(t, path, Options{})
	fill(t, s, 1, 2000)
	size := func() int64 {
		_ = s.Close()
		st, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		s = open(t, path, Options{})
		return st.Size()
	}
	before := size()
	if _, err := s.Retain(t.Context(), Retention{Bytes: before / 2}); err != nil {
		t.Fatal(err)
	}
	if after := size(); after > before/2+64<<10 {
		t.Errorf("%d bytes before, %d after, want at most half", before, after)
	}
	if rep, err := s.Verify(t.Context()); err != nil || !rep.OK || rep.Rows < 600 {
		t.Errorf("Verify = %+v, %v", rep, err)
	}
}

func TestRetentionIsAppliedByTheStore(t *testing.T) {
	path := newPath(t)
	s := open(t, path, Options{})
	fill(t, s, 1, 300)
	_ = s.Close()
	s = open(t, path, Options{Retention: Retention{Rows: 100}})
	if _, err := s.Append(t.Context(), record(1)); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); ; {
		rep, err := s.Verify(t.Context())
		if err != nil || !rep.OK {
			t.Fatalf("Verify = %+v, %v", rep, err)
		}
		if rep.Rows <= 100 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%d rows are left", rep.Rows)
		}
	}
}

// What was masked before it came here is nowhere on the disk. What was not is: so
// this test can fail. And what retention removed is gone from every file.
func TestWhatIsOnDisk(t *testing.T) {
	path := newPath(t)
	s := open(t, path, Options{})
	secret, planted := "tok"+"enAbc123XyzQ", "plain"+"Word77Qx"
	mask := strings.NewReplacer(secret, "***")
	for n := range 50 {
		r := record(n)
		r.Args = json.RawMessage(mask.Replace(`{"command":"curl -H 'Authorization: ` + secret + `' ` + planted + `"}`))
		r.OutputPreview = mask.Replace("got " + secret + " and " + planted)
		r.Reason = json.RawMessage(mask.Replace(`{"text":"` + secret + `"}`))
		if _, err := s.Append(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	q := question(1)
	q.Script = mask.Replace("curl " + secret)
	if err := s.SaveQuestion(t.Context(), q); err != nil {
		t.Fatal(err)
	}
	if where := onDisk(t, path, secret); len(where) > 0 {
		t.Errorf("the masked secret is in %v", where)
	}
	if where := onDisk(t, path, planted); !slices.Contains(where, "audit.db-wal") {
		t.Errorf("what was not masked is found in %v only", where)
	}
	for n := range 5 {
		if _, err := s.Append(t.Context(), record(n)); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := s.Retain(t.Context(), Retention{Rows: 3}); err != nil || got.Rows < 50 {
		t.Fatalf("Retain = %+v, %v", got, err)
	}
	if page, err := s.Search(t.Context(), agentloop.AuditQuery{Viewer: agentloop.ViewAll(), Text: planted}); err != nil || len(page.Rows) > 0 {
		t.Errorf("removed rows are found: %v %v", page.Rows, err)
	}
	_ = s.Close()
	if where := onDisk(t, path, planted); len(where) > 0 {
		t.Errorf("what retention removed is still in %v", where)
	}
}

// onDisk lists the files beside path that hold the word, in any case: the text
// index keeps small letters.
func onDisk(t *testing.T, path, word string) []string {
	t.Helper()
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	var where []string
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(filepath.Dir(path), e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(bytes.ToLower(text), bytes.ToLower([]byte(word))) {
			where = append(where, e.Name())
		}
	}
	return where
}

func TestOldAnchorsGoWithTheirRows(t *testing.T) {
	path := newPath(t)
	s := open(t, path, Options{})
	fillInOrder(t, s, 1, 10)
	_ = s.Close()
	// Seven thousand anchors of row 5, as if it had been long ago.
	lines, _, err := readAnchors(anchorsPath(path))
	if err != nil {
		t.Fatal(err)
	}
	l := lines[0]
	rows := all(t, newReader(path), agentloop.AuditQuery{Viewer: agentloop.ViewAll()})
	l.Seq, l.Hash, l.kind = 5, rows[4].Hash, anchorHead
	text := lines[0].String() + strings.Repeat(l.String(), 7000) + lines[1].String()
	if err := os.WriteFile(anchorsPath(path), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s = open(t, path, Options{AppendOnly: true})
	t.Cleanup(func() { clearAppendOnly(t, filepath.Dir(path)) })
	if _, err := s.Retain(t.Context(), Retention{Rows: 4}); err != nil {
		t.Fatal(err)
	}
	if w := s.Health().Warnings; len(w) > 0 {
		t.Errorf("warnings: %v", w)
	}
	st, err := os.Stat(anchorsPath(path))
	if err != nil || st.Size() > 1000 {
		t.Errorf("anchors: %d bytes, %v", st.Size(), err)
	}
	rep, err := s.Verify(t.Context())
	if err != nil || !rep.OK || rep.Anchored < 10 || rep.AppendOnly != s.Health().AppendOnly {
		t.Errorf("Verify = %+v, %v", rep, err)
	}
}
