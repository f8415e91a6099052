package agentloop

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestResultsThatFitStayAsTheyAre(t *testing.T) {
	kept := func(string) (string, string, error) { t.Error("kept"); return "", "", nil }
	for _, text := range []string{"", "short", strings.Repeat("ü", 4000), strings.Repeat("x", 4000)} {
		if got, path := fitResult(text, 4000, kept); got != text || path != "" {
			t.Errorf("%d bytes became %d", len(text), len(got))
		}
	}
}

func TestLargeResultsHaveHeadTailAndAWayToReadOn(t *testing.T) {
	for _, text := range []string{linesOf("some", 1000), strings.Repeat("ü", 9000), strings.Repeat("日本\n", 3000), strings.Repeat("x", 4001)} {
		var whole string
		got, path := fitResult(text, 4000, func(s string) (string, string, error) {
			whole = s
			return "result-x", "/state/result-x", nil
		})
		m := regexp.MustCompile(`(?s)^(.*)\n\[\.\.\. (\d+) of (\d+) bytes are left out here; read on with read_result {"id":"result-x","offset":(\d+)} \.\.\.\]\n(.*)$`).FindStringSubmatch(got)
		if m == nil || whole != text || path != "/state/result-x" {
			t.Fatalf("%q", got)
		}
		if !strings.HasPrefix(text, m[1]) || !strings.HasSuffix(text, m[5]) || m[1] == "" || m[5] == "" || fmt.Sprint(len(m[1])) != m[4] ||
			fmt.Sprint(len(text)-len(m[1])-len(m[5])) != m[2] || !utf8.ValidString(got) || utf8.RuneCountInString(m[1]+m[5]) > 4000 {
			t.Errorf("head %d, tail %d: %s", len(m[1]), len(m[5]), got[len(m[1]):len(got)-len(m[5])])
		}
	}
	got, _ := fitResult(strings.Repeat("x", 5000), 4000, func(string) (string, string, error) { return "", "", errors.New("disk full") })
	if !strings.Contains(got, "the whole could not be kept: disk full") {
		t.Errorf("%q", got[2000:])
	}
}

// TestKeptResultsAreReadPageByPage is rows 145 and 146: the name of the file is the
// server's, the file the user's alone, and a call reads it page by page.
func TestKeptResultsAreReadPageByPage(t *testing.T) {
	w := newWorld(t, allowing("run_bash(seq *)"))
	token := "ghp_" + strings.Repeat("a1B2", 9)
	text := linesOf("../../etc/passwd", 3000) + token + "\n" + linesOf("end", 3000)
	short, path := w.d.resultText(w.s, 4000, ToolResult{Call: "../../call"}, text)
	if utf8.RuneCountInString(short) > 4300 || strings.Contains(path, "call") || !strings.HasPrefix(path, w.host.StateDir+"/") {
		t.Fatalf("%s: %s", path, short)
	}
	if st, err := os.Lstat(path); err != nil || st.Mode() != 0o600 {
		t.Errorf("%v %v", st, err)
	}
	id := regexp.MustCompile(`"id":"([^"]+)"`).FindStringSubmatch(short)[1]
	run := &ToolRun{d: w.d, Session: w.s}
	var whole strings.Builder
	for at, pages := int64(0), 0; ; pages++ {
		p, err := run.ResultPage(id, at, 1<<30)
		if err != nil || len(p.Text) > 4000 || pages > 100 {
			t.Fatalf("page at %d: %d bytes, %v", at, len(p.Text), err)
		}
		whole.WriteString(p.Text)
		if at = p.Next; p.Last {
			break
		}
	}
	if want := strings.Replace(text, token, mask, 1); whole.String() != want {
		t.Errorf("the pages have %d bytes, want %d", whole.Len(), len(want))
	}
	for _, bad := range []string{"", "../" + id, id + "/../" + id, path, "/etc/passwd", strings.ToUpper(id), "result-aaaaaaaaaaaaaaaaaaaaaaaaaa"} {
		if p, err := run.ResultPage(bad, 0, 0); !errors.Is(err, ErrNoResultFile) || p.Text != "" {
			t.Errorf("%q: %+v %v", bad, p, err)
		}
	}
	// The output of a command was cut where it was captured; the model learns how to
	// read on there too.
	res := w.bash("seq 1 9000")
	short, path = w.d.resultText(w.s, 1<<20, res, res.Output)
	m := regexp.MustCompile(`\[the whole stdout: read_result {"id":"([^"]+)","offset":0}\]$`).FindStringSubmatch(short)
	if m == nil || path != res.Exec.Stdout.File {
		t.Fatalf("%s: %s", path, short)
	}
	if p, err := run.ResultPage(m[1], 0, 10); err != nil || p.Text != "1\n2\n3\n4\n5\n" {
		t.Errorf("%+v %v", p, err)
	}
}
