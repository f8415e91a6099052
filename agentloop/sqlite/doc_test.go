package sqlite

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"sandboxd/agentloop"
	"sandboxd/test/require"
)

// examples returns the blocks of docs/audit.md in one language.
func examples(t *testing.T, language string) []string {
	t.Helper()
	text, err := os.ReadFile("../../docs/audit.md")
	if err != nil {
		t.Fatal(err)
	}
	var blocks []string
	for _, part := range strings.Split(string(text), "\n```"+language+"\n")[1:] {
		block, _, _ := strings.Cut(part, "\n```")
		blocks = append(blocks, block)
	}
	return blocks
}

// documented makes a log with odd rows and a retention, and its export.
func documented(t *testing.T) (path string, rep agentloop.AuditReport) {
	t.Helper()
	path = newPath(t)
	s := open(t, path, Options{AnchorRows: 10})
	fillInOrder(t, s, 1, 30)
	odd := record(31)
	odd.OutputPreview, odd.Args, odd.Enforced = "\x00\x01\b\f\n\r\t\x1f\x7f\"\\/<>&\u2028é𝄞", nil, []byte("no json")
	if _, err := s.Append(t.Context(), odd); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Retain(t.Context(), Retention{Rows: 20}); err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(filepath.Join(filepath.Dir(path), "audit.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	if _, err := s.Export(t.Context(), f, agentloop.AuditQuery{Viewer: agentloop.ViewAll()}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if rep = verifyAt(t, path); !rep.OK || rep.Checkpoint == 0 {
		t.Fatalf("Verify = %+v", rep)
	}
	return path, rep
}

// The programs of docs/audit.md are second judges: they come to the same answer,
// and find what was changed.
func TestDocumentedProgramsVerifyTheLog(t *testing.T) {
	if err := exec.Command("python3", "-c", "import hashlib, json, sqlite3").Run(); err != nil {
		require.Missing(t, require.Program, "no python3 with hashlib, json and sqlite3")
	}
	programs := examples(t, "python")
	if len(programs) != 2 {
		t.Fatalf("%d programs, want one for an export and one for the database", len(programs))
	}
	run := func(path, program string) (string, error) {
		cmd := exec.Command("python3", "-c", program)
		cmd.Dir = filepath.Dir(path)
		out, err := cmd.CombinedOutput()
		return strings.TrimSpace(string(out)), err
	}
	path, rep := documented(t)
	for n, program := range programs {
		if out, err := run(path, program); err != nil || out != fmt.Sprintf("ok %d %s", rep.Last, rep.Head) {
			t.Errorf("program %d: %s, %v, want ok %d %s", n, out, err, rep.Last, rep.Head)
		}
	}
	for name, change := range map[string]func(h hand){
		"changed":   func(h hand) { h.do(`UPDATE agent_audit_log SET verdict = 'deny' WHERE seq = 25`) },
		"deleted":   func(h hand) { h.do(`DELETE FROM agent_audit_log WHERE seq = 25`) },
		"cut":       func(h hand) { h.do(`DELETE FROM agent_audit_log WHERE seq > 25`) },
		"beginning": func(h hand) { h.do(`DELETE FROM agent_audit_log WHERE seq < 20`) },
		"rewritten": func(h hand) { h.do(`UPDATE agent_audit_log SET verdict = 'deny' WHERE seq = 25`); h.rechain(25) },
	} {
		path, _ := documented(t)
		tamper(t, path, change)
		if out, err := run(path, programs[1]); err == nil {
			t.Errorf("%s: the program found nothing: %s", name, out)
		}
		if rep := verifyAt(t, path); rep.OK {
			t.Errorf("%s: Verify found nothing", name)
		}
	}
}

func TestDocumentedCommandsAndQueries(t *testing.T) {
	path, _ := documented(t)
	for _, block := range examples(t, "sh") {
		cmd := exec.Command("sh", "-c", block)
		cmd.Dir = filepath.Dir(path)
		out, err := cmd.CombinedOutput()
		if f := strings.Fields(string(out)); err != nil || len(f) != 2 || f[0] != f[1] || len(f[0]) != 64 {
			t.Errorf("%s\n%s%v, want the same hash twice", block, out, err)
		}
	}
	r := newReader(path)
	defer func() { _ = r.Close() }()
	db, err := r.pool()
	if err != nil {
		t.Fatal(err)
	}
	for _, block := range examples(t, "sql") {
		for _, query := range strings.Split(strings.TrimSpace(block), "\n") {
			rows, err := db.Query(query)
			if err != nil {
				t.Errorf("%s: %v", query, err)
				continue
			}
			_ = rows.Close()
		}
	}
	// Each kind of problem is explained.
	text, err := os.ReadFile("../../docs/audit.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{foundChanged, foundLink, foundGap, foundStart, foundCut, foundAnchor, foundAnchorsLost, foundForeign, foundSchema, foundDamaged} {
		if !strings.Contains(string(text), "| `"+kind+"` |") {
			t.Errorf("docs/audit.md does not explain %s", kind)
		}
	}
}
