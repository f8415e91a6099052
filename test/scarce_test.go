package test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"sandboxd/test/require"
)

// A caller that is allowed few open files runs all the same, or is told of it;
// and what it could not try is not taken for the host's limit by later runs.
func TestFewOpenFiles(t *testing.T) {
	for _, uid := range users() {
		t.Run(fmt.Sprint("uid", uid), func(t *testing.T) {
			s := newScene(t, uid, "full")
			run := func(limit int) result {
				return s.plain("sh", "-c", fmt.Sprintf("ulimit -n %d; exec %s run --tier auto --json --workspace %s -- echo ran", limit, s.program("sbx"), s.Work))
			}
			for limit := 10; limit <= 40; limit++ {
				if r := run(limit); r.Code == 125 {
					if text := r.Stdout + r.Stderr; limit >= 32 || !strings.Contains(text, "too many open files") || !strings.Contains(r.Stderr, "hint: raise the limit of open files") {
						t.Errorf("%d files: %s", limit, text)
					}
				} else if r.Code != 0 {
					t.Errorf("%d files: exit %d %q", limit, r.Code, r.Stderr)
				}
			}
			fresh := newScene(t, uid, "full")
			want := fresh.report(fresh.plain(s.program("sbx"), "run", "--json", "--workspace", fresh.Work, "--", "true"))
			got := s.report(run(1000))
			if got.Report.Enforced.Tier != want.Report.Enforced.Tier || len(got.Report.Enforced.Weakened) != len(want.Report.Enforced.Weakened) {
				t.Errorf("after runs in need: %+v, without them %+v", got.Report.Enforced, want.Report.Enforced)
			}
			passed := s.plain("sh", "-c", "ulimit -n 40; exec "+s.program("sbx")+" run -q --pass-fd 9 -- sh -c 'cat <&9' 9</proc/sys/kernel/ostype")
			if passed.Stdout != "Linux\n" {
				t.Errorf("a passed descriptor: %d %q %q", passed.Code, passed.Stdout, passed.Stderr)
			}
		})
	}
}

// A caller that may write small files only runs all the same or is told of it in one
// line, and what it could not try is not taken for the host's limit by later runs.
func TestSmallFileSizeLimit(t *testing.T) {
	onStages(t, func(s *scene) {
		for _, limit := range []int{0, 1, 2, 4, 8, 16, 63, 64, 100} { // KiB
			r := s.plain("bash", "-c", fmt.Sprintf("ulimit -f %d; exec %s run -q --tier %s --workspace %s -- echo ran", limit, s.program("sbx"), s.Tier, s.Work))
			if limit >= 64 && (r.Code != 0 || r.Stdout != "ran\n") {
				s.Errorf("%d KiB: exit %d, stdout %q, stderr %q", limit, r.Code, r.Stdout, r.Stderr)
			}
			if lines := strings.Count(r.Stderr, "\n"); limit < 64 && (r.Code != 125 || lines != 2 || !strings.Contains(r.Stderr, "file size limit") || !strings.Contains(r.Stderr, "hint: raise it")) {
				s.Errorf("%d KiB: exit %d, stderr %q", limit, r.Code, r.Stderr)
			}
		}
		if r := s.sbx(nil, "sh", "-c", "head -c 200000 /dev/zero > big && wc -c < big"); r.Code != 0 || r.Stdout != "200000\n" {
			s.Errorf("after runs in need: exit %d, stdout %q, stderr %q", r.Code, r.Stdout, r.Stderr)
		}
	})
}

// Output that could not be written is not a success: the command itself cannot
// tell, it wrote into a pipe.
func TestOutputToAFullDisk(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		require.Missing(t, require.Host, "no /dev/full")
	}
	onStages(t, func(s *scene) {
		for _, tt := range []struct {
			script, to string
			code       int
		}{
			{"echo x", "/dev/full", 125}, {"echo x; exit 3", "/dev/full", 3}, {"true", "/dev/full", 0},
			{"echo x", s.Work + "/out", 0}, {"echo x >&2", "/dev/full", 0},
		} {
			r := s.plain("sh", "-c", fmt.Sprintf("exec %s run -q --tier %s -- sh -c '%s' > %s", s.program("sbx"), s.Tier, tt.script, tt.to))
			if r.Code != tt.code || (r.Code == 125) != strings.Contains(r.Stderr, "no space left") {
				s.Errorf("%s > %s: exit %d, want %d; %q", tt.script, tt.to, r.Code, tt.code, r.Stderr)
			}
		}
		// A reader who goes away is none: the command gets SIGPIPE.
		if r := s.plain("sh", "-c", s.program("sbx")+" run -q --tier "+s.Tier+" -- yes | head -n 1"); r.Stdout != "y\n" || r.Stderr != "" {
			s.Errorf("into head: %q %q", r.Stdout, r.Stderr)
		}
	})
}
