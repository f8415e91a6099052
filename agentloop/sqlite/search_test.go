package sqlite

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"sandboxd/agentloop"
)

func steps(rows []agentloop.AuditRecord) []int {
	n := []int{}
	for _, r := range rows {
		n = append(n, r.Step)
	}
	return n
}

func TestSearch(t *testing.T) {
	s := open(t, newPath(t), Options{})
	for n := 1; n <= 9; n++ {
		r := record(n)
		switch n {
		case 4:
			r.Tool, r.Verdict, r.Status, r.Agent = "file_write", "deny", agentloop.StatusDeny, "child"
			r.Reason = json.RawMessage(`{"type":"rule","text":"Protected hooks-Directory"}`)
		case 5:
			r.OutputPreview = "fatal: unrelated histories \"quoted\""
		case 6:
			r.Args = json.RawMessage(`{"command":"curl https://example.org/ AND OR NOT NEAR(x"}`)
		}
		if _, err := s.Append(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	at := func(n int) time.Time { return record(n).Time }
	uid := 1001
	admin := agentloop.ViewAll()
	for _, tt := range []struct {
		name string
		q    agentloop.AuditQuery
		want []int
	}{
		{"everything", agentloop.AuditQuery{Viewer: admin}, []int{1, 2, 3, 4, 5, 6, 7, 8, 9}},
		{"newest first", agentloop.AuditQuery{Viewer: admin, Newest: true}, []int{9, 8, 7, 6, 5, 4, 3, 2, 1}},
		{"own rows", agentloop.AuditQuery{Viewer: agentloop.ViewOwn(1000)}, []int{2, 4, 6, 8}},
		{"own rows, asking for another's", agentloop.AuditQuery{Viewer: agentloop.ViewOwn(1000), UID: &uid}, []int{}},
		{"a user's rows for an admin", agentloop.AuditQuery{Viewer: admin, UID: &uid}, []int{1, 3, 5, 7, 9}},
		{"own rows by text", agentloop.AuditQuery{Viewer: agentloop.ViewOwn(1000), Text: "histories"}, []int{}},
		{"session", agentloop.AuditQuery{Viewer: admin, Session: "s1"}, []int{1, 4, 7}},
		{"call", agentloop.AuditQuery{Viewer: admin, Call: "c7"}, []int{7}},
		{"tool", agentloop.AuditQuery{Viewer: admin, Tool: "file_write"}, []int{4}},
		{"agent", agentloop.AuditQuery{Viewer: admin, Agent: "child"}, []int{4}},
		{"verdict", agentloop.AuditQuery{Viewer: admin, Verdict: "deny"}, []int{4}},
		{"status", agentloop.AuditQuery{Viewer: admin, Status: agentloop.StatusDeny}, []int{4}},
		{"times", agentloop.AuditQuery{Viewer: admin, Since: at(3), Until: at(6)}, []int{3, 4, 5}},
		{"text of output", agentloop.AuditQuery{Viewer: admin, Text: "HISTORIES unrelated"}, []int{5}},
		{"text of reason", agentloop.AuditQuery{Viewer: admin, Text: "hooks-directory"}, []int{4}},
		{"text of arguments", agentloop.AuditQuery{Viewer: admin, Text: "target8"}, []int{8}},
		{"beginning of a word", agentloop.AuditQuery{Viewer: admin, Text: "histor*"}, []int{5}},
		{"operators are words", agentloop.AuditQuery{Viewer: admin, Text: "AND OR NOT NEAR(x"}, []int{6}},
		{"quotes", agentloop.AuditQuery{Viewer: admin, Text: `histories "quoted"`}, []int{5}},
		{"address", agentloop.AuditQuery{Viewer: admin, Text: "https://example.org/"}, []int{6}},
		{"SQL", agentloop.AuditQuery{Viewer: admin, Session: "' OR 1=1 --"}, []int{}},
		{"text with everything else", agentloop.AuditQuery{Viewer: admin, Text: "make", Session: "s1", Newest: true}, []int{7, 4, 1}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			page, err := s.Search(t.Context(), tt.q)
			if err != nil || !slices.Equal(steps(page.Rows), tt.want) || page.Next != 0 {
				t.Errorf("Search = %v, next %d, %v, want %v", steps(page.Rows), page.Next, err, tt.want)
			}
			tt.q.Limit = 2
			if got := steps(all(t, s.Reader, tt.q)); !slices.Equal(got, tt.want) {
				t.Errorf("by pages of two: %v, want %v", got, tt.want)
			}
		})
	}
	if _, err := s.Search(t.Context(), agentloop.AuditQuery{}); !errors.Is(err, agentloop.ErrNoViewer) {
		t.Errorf("no viewer: %v, want ErrNoViewer", err)
	}
	if _, err := s.Export(t.Context(), io.Discard, agentloop.AuditQuery{}); !errors.Is(err, agentloop.ErrNoViewer) {
		t.Errorf("no viewer: Export = %v, want ErrNoViewer", err)
	}
}

// TestSessionIsSearchedWithItsSubAgents: and not with sessions whose name begins alike.
func TestSessionIsSearchedWithItsSubAgents(t *testing.T) {
	s := open(t, newPath(t), Options{})
	for n, session := range []string{"s1", "s1/explore-1", "s10", "s1/explore-1/general-2", "s1-x", "s10/explore-1", "s", "s1/"} {
		r := record(n + 1)
		r.Session = session
		if _, err := s.Append(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	for session, want := range map[string][]int{"s1": {1, 2, 4}, "s1/explore-1": {2, 4}, "s10": {3, 6}, "s": {7}, "s1/explore": {}} {
		if got := steps(all(t, s.Reader, agentloop.AuditQuery{Viewer: agentloop.ViewAll(), Session: session})); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", session, got, want)
		}
	}
}

func TestPagesStayStableWhileRowsAreAppended(t *testing.T) {
	s := open(t, newPath(t), Options{})
	fillInOrder(t, s, 1, 10)
	q := agentloop.AuditQuery{Viewer: agentloop.ViewAll(), Newest: true, Limit: 4}
	var got []int
	for n := 11; ; n++ {
		page, err := s.Search(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, steps(page.Rows)...)
		if q.After = page.Next; q.After == 0 {
			break
		}
		fillInOrder(t, s, n, n)
	}
	if want := []int{10, 9, 8, 7, 6, 5, 4, 3, 2, 1}; !slices.Equal(got, want) {
		t.Errorf("pages = %v, want %v", got, want)
	}
}

func FuzzSearchText(f *testing.F) {
	s := open(f, newPath(f), Options{})
	fill(f, s, 1, 3)
	for _, text := range []string{`"`, `*`, `a*`, `""*`, "NEAR(", "a\x00b", `col:x`, `^x`, "-", "é*", "\xff"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		q := agentloop.AuditQuery{Viewer: agentloop.ViewAll(), Text: text}
		if _, err := s.Search(context.Background(), q); err != nil {
			t.Errorf("Search(%q) = %v", text, err)
		}
	})
}

func TestExportCanBeVerifiedAlone(t *testing.T) {
	s := open(t, newPath(t), Options{})
	fillInOrder(t, s, 1, 30)
	var out bytes.Buffer
	if n, err := s.Export(t.Context(), &out, agentloop.AuditQuery{Viewer: agentloop.ViewAll()}); n != 30 || err != nil {
		t.Fatalf("Export = %d, %v", n, err)
	}
	lines := strings.SplitAfter(strings.TrimSuffix(out.String(), "\n"), "\n")
	check := func(lines []string) Exported {
		t.Helper()
		e, err := VerifyExport(strings.NewReader(strings.Join(lines, "")))
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	rep := mustVerify(t, s.Reader, 30)
	if e := check(lines); !e.OK || e.Rows != 30 || e.Head != rep.Head || e.Gaps != 0 {
		t.Fatalf("VerifyExport = %+v", e)
	}
	for n, line := range lines {
		var r agentloop.AuditRecord
		if err := json.Unmarshal([]byte(line), &r); err != nil || r.Step != n+1 || r.OutputPreview != record(1).OutputPreview {
			t.Errorf("line %d: %+v, %v", n+1, r, err)
		}
	}
	for name, change := range map[string]func([]string) []string{
		"changed":      func(l []string) []string { l[9] = strings.Replace(l[9], "allow", "denyx", 1); return l },
		"exchanged":    func(l []string) []string { l[9], l[10] = l[10], l[9]; return l },
		"twice":        func(l []string) []string { return slices.Insert(l, 9, l[9]) },
		"hash changed": func(l []string) []string { l[9] = strings.Replace(l[9], `"hash":"`, `"hash":"0`, 1); return l },
		"field added":  func(l []string) []string { l[9] = strings.TrimSuffix(l[9], "}\n") + ",\"x\":1}\n"; return l },
		"no row":       func(l []string) []string { l[9] = "{}\n"; return l },
	} {
		if e := check(change(slices.Clone(lines))); e.OK {
			t.Errorf("%s: not found", name)
		}
	}
	if e := check(slices.Delete(slices.Clone(lines), 5, 8)); !e.OK || e.Gaps != 1 {
		t.Errorf("rows left out: %+v, want one gap", e)
	}
}

// A log of rows as large as they can be is searched and exported in bounded memory.
func TestReadingTakesBoundedMemory(t *testing.T) {
	s := open(t, newPath(t), Options{})
	for n := range 120 {
		r := record(n)
		r.OutputPreview = strings.Repeat(fmt.Sprintf("%d ", n), 200000/len(fmt.Sprint(n, " ")))
		if _, err := s.Append(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	page, err := s.Search(t.Context(), agentloop.AuditQuery{Viewer: agentloop.ViewAll(), Limit: 1000})
	if err != nil || page.Next == 0 || len(page.Rows) >= 120 {
		t.Fatalf("a page of %d large rows, next %d, %v", len(page.Rows), page.Next, err)
	}
	page = agentloop.AuditPage{}
	var peak uint64
	w := writerFunc(func(p []byte) (int, error) {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		peak = max(peak, m.HeapAlloc)
		return len(p), nil
	})
	runtime.GC()
	if n, err := s.Export(t.Context(), w, agentloop.AuditQuery{Viewer: agentloop.ViewAll()}); n != 120 || err != nil {
		t.Fatalf("Export = %d, %v", n, err)
	}
	if peak > 80<<20 {
		t.Errorf("%d MiB of heap for pages of 8 MiB", peak>>20)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
