package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"sandboxd/agentloop"
)

// hand is someone who may write the files and knows how the log is made.
type hand struct {
	t  *testing.T
	db *sql.DB
}

func (h hand) do(statement string, args ...any) {
	h.t.Helper()
	if _, err := h.db.Exec(statement, args...); err != nil {
		h.t.Fatalf("%s: %v", statement, err)
	}
}

// rechain gives every row from seq on its number and hashes anew.
func (h hand) rechain(seq int64) {
	h.t.Helper()
	rows, err := h.db.Query("SELECT "+rowColumns+" FROM agent_audit_log WHERE seq >= ? ORDER BY seq", seq-1)
	if err != nil {
		h.t.Fatal(err)
	}
	var records []agentloop.AuditRecord
	for rows.Next() {
		r, err := scanRow(rows)
		if err != nil {
			h.t.Fatal(err)
		}
		records = append(records, r)
	}
	_ = rows.Close()
	for i := 1; i < len(records); i++ {
		r := &records[i]
		old := r.Seq
		r.Seq, r.PrevHash = records[i-1].Seq+1, records[i-1].Hash
		r.Hash, _ = rowHash(nil, r)
		h.do(`UPDATE agent_audit_log SET seq = ?, prev_hash = ?, hash = ? WHERE seq = ?`, r.Seq, r.PrevHash, r.Hash, old)
	}
}

// tamper opens the database of a closed store without its triggers, and puts them
// back afterwards.
func tamper(t *testing.T, path string, change func(h hand)) {
	t.Helper()
	db, err := sql.Open(driverName, dsn(path, "rw", nil))
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	defer func() { _ = db.Close() }()
	h := hand{t, db}
	var triggers []string
	for name, text := range objects(t, db) {
		if name, ok := strings.CutPrefix(name, "trigger "); ok {
			h.do("DROP TRIGGER " + name)
			triggers = append(triggers, text)
		}
	}
	change(h)
	for _, text := range triggers {
		h.do(text)
	}
}

func objects(t *testing.T, db *sql.DB) map[string]string {
	t.Helper()
	m, err := schemaObjects(t.Context(), db)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// kinds are the distinct kinds of a report.
func kinds(rep agentloop.AuditReport) []string {
	var k []string
	for _, p := range rep.Problems {
		k = append(k, p.Kind)
	}
	slices.Sort(k)
	return slices.Compact(k)
}

func verifyAt(t *testing.T, path string, known ...agentloop.AuditAnchor) agentloop.AuditReport {
	t.Helper()
	r, err := OpenReader(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	rep, err := r.Verify(t.Context(), known...)
	if err != nil {
		t.Fatal(err)
	}
	return rep
}

func TestVerifyFindsWhatWasDone(t *testing.T) {
	const insert = `INSERT INTO agent_audit_log SELECT 21, time, uid, session_id, call_id, step, tool_name, status, agent_name, elapsed_ms,
		output_preview, verdict, reason, args, policy_generation, enforced, denials, prev_hash, hash FROM agent_audit_log WHERE seq = 20`
	change := func(h hand) { h.do(`UPDATE agent_audit_log SET verdict = 'deny' WHERE seq = 10`) }
	for _, tt := range []struct {
		name   string
		change func(h hand)
		want   string // one of the kinds found
		seq    int64  // where; 0: anywhere
	}{
		{"a changed row", change, foundChanged, 10},
		{"a changed time", func(h hand) { h.do(`UPDATE agent_audit_log SET time = 'yesterday' WHERE seq = 10`) }, foundChanged, 10},
		{"a changed row with its new hash", func(h hand) {
			change(h)
			h.do(`CREATE TEMP TABLE keep AS SELECT * FROM agent_audit_log WHERE seq > 10`)
			h.do(`DELETE FROM agent_audit_log WHERE seq > 10`)
			h.rechain(10)
			h.do(`INSERT INTO agent_audit_log SELECT * FROM keep`)
		}, foundLink, 11},
		{"a changed row and everything behind it anew", func(h hand) { change(h); h.rechain(10) }, foundAnchor, 20},
		{"a deleted row", func(h hand) { h.do(`DELETE FROM agent_audit_log WHERE seq = 10`) }, foundGap, 11},
		{"a deleted row, renumbered", func(h hand) {
			h.do(`DELETE FROM agent_audit_log WHERE seq = 10`)
			h.do(`UPDATE agent_audit_log SET seq = seq - 1 WHERE seq > 10`)
		}, foundLink, 10},
		{"a deleted row, everything behind it anew", func(h hand) {
			h.do(`DELETE FROM agent_audit_log WHERE seq = 10`)
			h.rechain(10)
		}, foundCut, 20},
		{"two rows that changed places", func(h hand) {
			h.do(`UPDATE agent_audit_log SET seq = 100 WHERE seq = 10`)
			h.do(`UPDATE agent_audit_log SET seq = 10 WHERE seq = 11`)
			h.do(`UPDATE agent_audit_log SET seq = 11 WHERE seq = 100`)
		}, foundLink, 10},
		{"an inserted row", func(h hand) {
			h.do(`UPDATE agent_audit_log SET seq = seq + 100 WHERE seq > 10`)
			h.do(`UPDATE agent_audit_log SET seq = seq - 99 WHERE seq > 10`)
			h.do(strings.ReplaceAll(strings.Replace(insert, "SELECT 21", "SELECT 11", 1), "seq = 20", "seq = 10"))
		}, foundLink, 11},
		{"an appended copy", func(h hand) { h.do(insert) }, foundLink, 21},
		{"a cut end", func(h hand) { h.do(`DELETE FROM agent_audit_log WHERE seq > 15`) }, foundCut, 20},
		{"an emptied log", func(h hand) { h.do(`DELETE FROM agent_audit_log`) }, foundCut, 20},
		{"a cut beginning", func(h hand) { h.do(`DELETE FROM agent_audit_log WHERE seq < 5`) }, foundStart, 5},
		{"a cut beginning, a checkpoint about another hash", func(h hand) {
			h.do(`DELETE FROM agent_audit_log WHERE seq < 5`)
			h.do(insert)
			h.do(`UPDATE agent_audit_log SET tool_name = 'retention', status = 'checkpoint', args = '{"through_seq":4,"through_hash":"00"}' WHERE seq = 21`)
			h.rechain(21)
		}, foundStart, 5},
		{"a cut beginning, renumbered", func(h hand) {
			h.do(`DELETE FROM agent_audit_log WHERE seq < 5`)
			h.do(`UPDATE agent_audit_log SET seq = seq - 4`)
		}, foundStart, 1},
		{"another id", func(h hand) { h.do(`UPDATE store_meta SET value = '00' WHERE name = 'id'`) }, foundForeign, 0},
		{"no id", func(h hand) { h.do(`DELETE FROM store_meta`) }, foundSchema, 0},
		{"a trigger more", func(h hand) {
			h.do(`CREATE TRIGGER quiet AFTER INSERT ON agent_audit_log BEGIN DELETE FROM questions; END`)
		}, foundSchema, 0},
		{"a view over the log", func(h hand) { h.do(`CREATE VIEW other AS SELECT 1`) }, foundSchema, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := newPath(t)
			s := open(t, path, Options{})
			fillInOrder(t, s, 1, 20)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if rep := verifyAt(t, path); !rep.OK || rep.Anchored != 20 {
				t.Fatalf("before: %+v", rep)
			}
			tamper(t, path, func(hand) {})
			if rep := verifyAt(t, path); !rep.OK {
				t.Fatalf("opened by hand and left as it was: %+v", rep)
			}
			tamper(t, path, tt.change)
			rep := verifyAt(t, path)
			found := slices.ContainsFunc(rep.Problems, func(p agentloop.AuditProblem) bool {
				return p.Kind == tt.want && (tt.seq == 0 || p.Seq == tt.seq)
			})
			if rep.OK || !found {
				t.Errorf("Verify = OK %v, %+v, want %s at row %d", rep.OK, rep.Problems, tt.want, tt.seq)
			}
		})
	}
}

func TestTriggersRefuseOrdinaryChanges(t *testing.T) {
	s := open(t, newPath(t), Options{})
	fillInOrder(t, s, 1, 5)
	db, err := sql.Open(driverName, dsn(s.path, "rw", nil))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	for _, statement := range []string{
		`UPDATE agent_audit_log SET verdict = 'deny' WHERE seq = 3`,
		`DELETE FROM agent_audit_log WHERE seq = 5`,
		`DELETE FROM agent_audit_log`,
		`INSERT OR REPLACE INTO agent_audit_log SELECT * FROM agent_audit_log WHERE seq = 3`,
		`INSERT INTO agent_audit_log SELECT seq + 7, time, uid, session_id, call_id, step, tool_name, status, agent_name, elapsed_ms,
			output_preview, verdict, reason, args, policy_generation, enforced, denials, prev_hash, hash FROM agent_audit_log WHERE seq = 5`,
	} {
		if _, err := db.Exec(statement); err == nil || !strings.Contains(err.Error(), "audit log are") {
			t.Errorf("%s: %v, want a refusal", statement, err)
		}
	}
	mustVerify(t, s.Reader, 5)
}

func TestMissingAnchorsAreAProblem(t *testing.T) {
	path := newPath(t)
	s := open(t, path, Options{})
	fillInOrder(t, s, 1, 20)
	_ = s.Close()
	last := verifyAt(t, path)
	if err := os.Remove(anchorsPath(path)); err != nil {
		t.Fatal(err)
	}
	rep := verifyAt(t, path)
	if rep.OK || !slices.Equal(kinds(rep), []string{foundAnchorsLost}) || !strings.Contains(strings.Join(rep.Notes, " "), "cannot be known") {
		t.Errorf("without anchors: %+v", rep)
	}
	// A new file does not make it good, and the daemon says so when it starts.
	s = open(t, path, Options{})
	if h := s.Health(); len(h.Warnings) != 1 || !strings.Contains(h.Warnings[0], "anchors of 20 rows are gone") {
		t.Errorf("Health = %+v", h)
	}
	_ = s.Close()
	if rep := verifyAt(t, path); rep.OK || !slices.Equal(kinds(rep), []string{foundAnchorsLost}) {
		t.Errorf("with anchors that begin anew: %+v", rep)
	}
	// An anchor from elsewhere tells what the file cannot.
	tamper(t, path, func(h hand) { h.do(`DELETE FROM agent_audit_log WHERE seq > 15`) })
	_ = os.Remove(anchorsPath(path))
	good := agentloop.AuditAnchor{Seq: last.Last, Hash: last.Head}
	if rep := verifyAt(t, path, good); !slices.Contains(kinds(rep), foundCut) {
		t.Errorf("cut, with an anchor from the journal: %+v", rep)
	}
}

func TestForeignDatabaseIsFound(t *testing.T) {
	ours, theirs := newPath(t), newPath(t)
	for _, path := range []string{ours, theirs} {
		s := open(t, path, Options{})
		fillInOrder(t, s, 1, 20)
		_ = s.Close()
	}
	text, err := os.ReadFile(theirs)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(ours, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if rep := verifyAt(t, ours); rep.OK || !slices.Equal(kinds(rep), []string{foundForeign}) {
		t.Errorf("Verify = %+v", rep)
	}
}

func TestTornAnchorIsNoProblem(t *testing.T) {
	path := newPath(t)
	s := open(t, path, Options{})
	fillInOrder(t, s, 1, 3)
	_ = s.Close()
	f, err := os.OpenFile(anchorsPath(path), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = f.WriteString(anchorVersion + " 12 2026-")
	_ = f.Close()
	s = open(t, path, Options{})
	fillInOrder(t, s, 4, 6)
	_ = s.Close()
	rep := verifyAt(t, path)
	if !rep.OK || rep.Anchored != 6 || !strings.Contains(strings.Join(rep.Notes, " "), "1 lines") {
		t.Errorf("Verify = %+v", rep)
	}
}

func TestAnchorsAreWrittenRegularly(t *testing.T) {
	var anchored []int64
	s := open(t, newPath(t), Options{AnchorRows: 10, OnAnchor: func(a agentloop.AuditAnchor) { anchored = append(anchored, a.Seq) }})
	fillInOrder(t, s, 1, 35)
	_ = s.Close()
	if want := []int64{10, 20, 30, 35}; !slices.Equal(anchored, want) {
		t.Errorf("anchored %v, want %v", anchored, want)
	}
}

func TestCutEndIsSaidAtTheStart(t *testing.T) {
	path := newPath(t)
	s := open(t, path, Options{})
	fillInOrder(t, s, 1, 20)
	_ = s.Close()
	tamper(t, path, func(h hand) { h.do(`DELETE FROM agent_audit_log WHERE seq > 15`) })
	s = open(t, path, Options{})
	if h := s.Health(); len(h.Warnings) != 1 || !strings.Contains(h.Warnings[0], "cut off or lost") {
		t.Errorf("Health = %+v", h)
	}
	// Growing over the cut does not hide it.
	for range 10 {
		if _, err := s.Append(context.Background(), record(1)); err != nil {
			t.Fatal(err)
		}
	}
	_ = s.Close()
	if rep := verifyAt(t, path); rep.OK || !slices.Contains(kinds(rep), foundAnchor) {
		t.Errorf("Verify = %+v", rep)
	}
}

func TestDamagedPagesAreReported(t *testing.T) {
	path := newPath(t)
	s := open(t, path, Options{})
	fillInOrder(t, s, 1, 200)
	_ = s.Close()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	st, _ := f.Stat()
	for at := int64(3 * 4096); at < st.Size(); at += 4096 {
		_, _ = f.WriteAt(make([]byte, 2048), at)
	}
	_ = f.Close()
	r, err := OpenReader(path)
	if err == nil {
		defer func() { _ = r.Close() }()
		var rep agentloop.AuditReport
		if rep, err = r.Verify(t.Context()); err == nil && (rep.OK || !slices.Contains(kinds(rep), foundDamaged)) {
			t.Errorf("Verify = %+v", rep)
		}
	}
	if err != nil && !errors.Is(err, ErrDamaged) {
		t.Errorf("err = %v, want ErrDamaged or a report", err)
	}
}
