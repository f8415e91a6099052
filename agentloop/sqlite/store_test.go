package sqlite

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"sandboxd/agentloop"
)

// TestMain also plays the processes that tests need beside them.
func TestMain(m *testing.M) {
	if role := os.Getenv("SANDBOXD_TEST_STORE_ROLE"); role != "" {
		os.Exit(playRole(role, os.Args[1:]))
	}
	os.Exit(m.Run())
}

func newPath(t testing.TB) string {
	t.Helper()
	return filepath.Join(t.TempDir(), "state", "audit.db")
}

func open(t testing.TB, path string, o Options) *Store {
	t.Helper()
	s, err := Open(path, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// record is the nth of a run of rows.
func record(n int) agentloop.AuditRecord {
	return agentloop.AuditRecord{
		Time: time.Date(2026, 11, 30, 12, 0, n, 123, time.UTC), UID: 1000 + n%2, Session: fmt.Sprintf("s%d", n%3),
		Call: fmt.Sprintf("c%d", n), Step: n, Tool: "run_bash", Status: agentloop.StatusAllow, Agent: "lead", ElapsedMS: int64(n),
		OutputPreview: "line\nof output\x00 \u2028 \"quoted\" <b>", Verdict: "allow",
		Reason:     json.RawMessage(`{"type":"rule","pattern":"run_bash(make *)"}`),
		Args:       json.RawMessage(fmt.Sprintf(`{"command":"make target%d && echo '<é>'"}`, n)),
		Generation: 3, Enforced: json.RawMessage(`{"landlock_abi":7}`), Denials: json.RawMessage(`[]`),
	}
}

func fill(t testing.TB, s *Store, from, to int) {
	t.Helper()
	var wg sync.WaitGroup
	for n := from; n <= to; n++ {
		wg.Go(func() {
			if _, err := s.Append(t.Context(), record(n)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

func fillInOrder(t testing.TB, s *Store, from, to int) {
	t.Helper()
	for n := from; n <= to; n++ {
		if seq, err := s.Append(t.Context(), record(n)); err != nil || seq != int64(n) {
			t.Fatalf("Append = %d, %v, want %d", seq, err, n)
		}
	}
}

func mustVerify(t testing.TB, r *Reader, wantRows int64) agentloop.AuditReport {
	t.Helper()
	rep, err := r.Verify(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !rep.OK || rep.Rows != wantRows {
		t.Fatalf("Verify = %+v, want %d good rows", rep, wantRows)
	}
	return rep
}

func all(t testing.TB, r *Reader, q agentloop.AuditQuery) []agentloop.AuditRecord {
	t.Helper()
	var rows []agentloop.AuditRecord
	for {
		page, err := r.Search(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, page.Rows...)
		if page.Next == 0 {
			return rows
		}
		q.After = page.Next
	}
}

func TestWhatIsAppendedIsReadBack(t *testing.T) {
	path := newPath(t)
	s := open(t, path, Options{})
	odd := record(2)
	odd.Args, odd.Reason, odd.Enforced, odd.Denials = json.RawMessage("not json \xff"), nil, nil, json.RawMessage("{ \"a\" :\n[1, 2] }")
	odd.Time = time.Date(2026, 1, 2, 3, 4, 5, 0, time.FixedZone("", 3600))
	for _, r := range []agentloop.AuditRecord{record(1), odd} {
		if _, err := s.Append(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, path, Options{})
	got := all(t, s.Reader, agentloop.AuditQuery{Viewer: agentloop.ViewAll()})
	want := []agentloop.AuditRecord{record(1), odd}
	want[0].Seq, want[1].Seq = 1, 2
	want[1].Args, want[1].Denials = json.RawMessage(`"not json `+"\uFFFD"+`"`), json.RawMessage(`{"a":[1,2]}`)
	want[1].Time = odd.Time.UTC()
	if len(got) != 2 {
		t.Fatalf("%d rows, want 2", len(got))
	}
	want[0].PrevHash, want[0].Hash = genesis(s.id), got[0].Hash
	want[1].PrevHash, want[1].Hash = got[0].Hash, got[1].Hash
	for i := range want {
		if !reflect.DeepEqual(got[i], want[i]) {
			t.Errorf("row %d = %+v\nwant %+v", i+1, got[i], want[i])
		}
	}
	mustVerify(t, s.Reader, 2)
}

func TestTableHasTheColumnsOfTheDesign(t *testing.T) {
	s := open(t, newPath(t), Options{})
	fillInOrder(t, s, 1, 1)
	db, err := s.pool()
	if err != nil {
		t.Fatal(err)
	}
	var session, tool, status, preview, agent string
	var step, elapsed int
	if err := db.QueryRow(`SELECT session_id, step, tool_name, status, elapsed_ms, output_preview, agent_name FROM agent_audit_log`).
		Scan(&session, &step, &tool, &status, &elapsed, &preview, &agent); err != nil {
		t.Fatal(err)
	}
	r := record(1)
	if session != r.Session || step != 1 || tool != "run_bash" || status != "allow" || elapsed != 1 || preview != r.OutputPreview || agent != "lead" {
		t.Errorf("row = %q %d %q %q %d %q %q", session, step, tool, status, elapsed, preview, agent)
	}
}

func TestEveryStatusHasItsRow(t *testing.T) {
	s := open(t, newPath(t), Options{})
	statuses := []agentloop.Status{
		agentloop.StatusAllow, agentloop.StatusDeny, agentloop.StatusAsk, agentloop.StatusBlocked, agentloop.StatusTimeout,
		agentloop.StatusCancelled, agentloop.StatusOK, agentloop.StatusFail, agentloop.StatusSessionStop,
	}
	for _, status := range statuses {
		r := record(1)
		r.Status = status
		if _, err := s.Append(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	for _, status := range statuses {
		rows := all(t, s.Reader, agentloop.AuditQuery{Viewer: agentloop.ViewAll(), Status: status})
		if len(rows) != 1 || rows[0].Status != status {
			t.Errorf("status %s: %d rows, want 1", status, len(rows))
		}
	}
}

func TestRowsThatCannotBeKeptAreRefused(t *testing.T) {
	s := open(t, newPath(t), Options{})
	huge, forged, early := record(1), record(1), record(1)
	huge.OutputPreview = strings.Repeat("x", maxRowBytes)
	forged.Tool, forged.Status = retentionTool, retentionStatus
	early.Time = time.Date(-4, 1, 1, 0, 0, 0, 0, time.UTC)
	for name, r := range map[string]agentloop.AuditRecord{"huge": huge, "forged checkpoint": forged, "no time": early} {
		if _, err := s.Append(t.Context(), r); !errors.Is(err, agentloop.ErrNotRecorded) || !strings.Contains(err.Error(), s.path) {
			t.Errorf("%s: Append = %v, want ErrNotRecorded with the path", name, err)
		}
	}
	fillInOrder(t, s, 1, 3)
	mustVerify(t, s.Reader, 3)
}

func TestManyAppendAtOnce(t *testing.T) {
	s := open(t, newPath(t), Options{})
	const rows = 2000
	fill(t, s, 1, rows)
	mustVerify(t, s.Reader, rows)
	seen := map[string]bool{}
	for _, r := range all(t, s.Reader, agentloop.AuditQuery{Viewer: agentloop.ViewAll()}) {
		seen[r.Call] = true
	}
	if len(seen) != rows {
		t.Errorf("%d calls have a row, want %d", len(seen), rows)
	}
}

func TestClosedStoreRefuses(t *testing.T) {
	s := open(t, newPath(t), Options{})
	var wg sync.WaitGroup
	var mu sync.Mutex
	written := int64(0)
	for range 8 {
		wg.Go(func() {
			for {
				_, err := s.Append(t.Context(), record(1))
				if err == nil {
					mu.Lock()
					written++
					mu.Unlock()
					continue
				}
				if !errors.Is(err, ErrClosed) || !errors.Is(err, agentloop.ErrNotRecorded) {
					t.Errorf("Append = %v, want ErrClosed", err)
				}
				return
			}
		})
	}
	for s.Health().Rows < 50 {
		time.Sleep(time.Millisecond)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	r, err := OpenReader(s.path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	mustVerify(t, r, written)
}
