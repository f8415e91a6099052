package test

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
)

// The row of a call has the beginning of its output however that reached its reader, so
// that a search finds it, and no secret of it.
func TestRowsHaveTheBeginningOfEachOutput(t *testing.T) {
	d := startDaemon(t, os.Getuid())
	script := func(word string) []string {
		return []string{"sh", "-c", "echo out-" + word + "; echo err-" + word + " >&2; echo key ghp_0123456789abcdefghij" + "ABCDEFGHIJ456789; sleep 0.3; seq 100000; exit 7"}
	}
	exec := func(word string, flags ...string) []string {
		return append(append(append([]string{"exec", "--quiet", "--mode", "bypassPermissions"}, flags...), "--"), script(word)...)
	}
	row := func(word string) (preview string) {
		t.Helper()
		var page struct {
			Rows []struct {
				Preview string `json:"output_preview"`
			}
		}
		d.until("the row about "+word, func() bool {
			text, _ := d.get("/api/audit?status=fail&text=out-" + word)
			d.must(json.Unmarshal([]byte(text), &page))
			return len(page.Rows) == 1
		})
		return page.Rows[0].Preview
	}
	for word, run := range map[string]func(){
		"stream":   func() { d.sbxTo(d, exec("stream")...) },
		"captured": func() { d.sbxTo(d, exec("captured", "--json")...) },
		"job":      func() { d.sbxTo(d, exec("job", "--detach")...) },
		"terminal": func() { atTerminal(t, d.toDaemon(d, exec("terminal")...)).ends() },
	} {
		run()
		preview := row(word)
		if !strings.Contains(preview, "out-"+word) || !strings.Contains(preview, "err-"+word) && word != "captured" || strings.Contains(preview, "ghp_") || !strings.Contains(preview, "[secret]") && word != "captured" {
			t.Errorf("%s: %q", word, preview)
		}
		if n := len([]rune(preview)); n > 200 {
			t.Errorf("%s: %d characters", word, n)
		}
	}
	r := d.sbxTo(d, "exec", "--quiet", "--mode", "bypassPermissions", "--", "printf", "short")
	if rows, _ := d.get("/api/audit?status=ok&text=short"); r.Stdout != "short" || !strings.Contains(rows, `"output_preview":"short"`) {
		t.Errorf("%+v, %s", r, rows)
	}
}

// What a result says of a call: ids that are no secrets, whose call it was, each gap
// once, the name of a tool that was denied.
func TestResultsSayWhatTheyAreAbout(t *testing.T) {
	for _, uid := range []int{os.Getuid(), 1000} {
		d := startDaemon(t, uid)
		type object struct {
			Outcome  string
			UID      int
			Session  string `json:"session_id"`
			Call     string `json:"call_id"`
			Error    *struct{ Message string }
			Enforced struct{ Weakened []struct{ Part string } }
		}
		for _, argv := range [][]string{{"true"}, {"rm", "-rf", "build"}} {
			job := strings.TrimSpace(d.sbxTo(d, append([]string{"exec", "--detach", "--mode", "dontAsk", "--"}, argv...)...).Stdout)
			var list struct {
				Jobs []struct {
					ID     string
					Result *object
				}
			}
			var got *object
			d.until("the job has ended", func() bool {
				d.must(json.Unmarshal([]byte(d.sbxTo(d, "jobs", "list", "--json").Stdout), &list))
				for _, j := range list.Jobs {
					if j.ID == job {
						got = j.Result
					}
				}
				return got != nil
			})
			if !strings.HasPrefix(got.Session, "session-") || !strings.HasPrefix(got.Call, "call-") || got.UID != uid {
				t.Errorf("uid %d, %q: %+v", uid, argv, got)
			}
		}
		var res object
		for _, tier := range []string{"base", "auto"} {
			r := d.sbxTo(d, "exec", "--json", "--tier", tier, "--mode", "bypassPermissions", "--", "true")
			d.must(json.Unmarshal([]byte(r.Stdout), &res))
			var parts []string
			for _, w := range res.Enforced.Weakened {
				if slices.Contains(parts, w.Part) {
					t.Errorf("tier %s: %q is said twice", tier, w.Part)
				}
				parts = append(parts, w.Part)
			}
			if len(parts) == 0 {
				t.Errorf("tier %s: nothing is weakened: the test looks at nothing", tier)
			}
		}
	}
	d := startDaemon(t, os.Getuid())
	d.file(d.Work+"/.env", "x")
	d.file(d.Work+"/p.toml", "[rules]\ndeny = [\"read_file(.env)\"]\n")
	text, _ := d.request("POST", "/api/exec", `{"cwd":"`+d.Work+`","env":["PATH=/usr/bin:/bin","HOME=`+d.Home+`"],"policy":["p.toml"],"tool":"read_file","args":{"file_path":".env"}}`)
	if !strings.Contains(text, `"message":"denied: read_file .env: `) {
		t.Errorf("a denied tool: %s", text)
	}
	if r := d.sbxTo(d, "sessions", "new", "--mode", "bogus"); r.Code != 125 || !strings.Contains(r.Stderr, "one of default, acceptEdits, plan") {
		t.Errorf("%+v", r)
	}
	if r := d.sbxTo(d, "exec", "--mode", "bypassPermissions", "--", "no-such-program"); r.Code != 127 || strings.Contains(r.Stderr, "sbx run") {
		t.Errorf("%+v", r)
	}
	// One broken file is one line, however many sessions have it.
	for _, dir := range []string{"a", "b", "c"} {
		d.must(os.Mkdir(d.Work+"/"+dir, 0o755))
		d.own(d.Work + "/" + dir)
		d.newSession(map[string]any{"cwd": d.Work + "/" + dir, "policy": []string{d.Work + "/p.toml"}})
	}
	d.file(d.Work+"/p.toml", "[rules\n")
	if r := d.sbxTo(d, "daemon", "reload"); r.Code != 125 || strings.Count(r.Stderr, "p.toml") != 1 || !strings.Contains(r.Stderr, "4 sessions keep") || strings.Contains(r.Stderr, "?") {
		t.Errorf("%+v", r)
	}
}
