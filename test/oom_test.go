package test

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// In the base tier a run outlives its keeper. So for want of memory the kernel is to
// end the command's tree and not the keeper, and the command cannot change that.
func TestMemoryKillerTakesTheCommandFirst(t *testing.T) {
	const look = `score() { cat /proc/$1/oom_score_adj; }
echo command $(score self) later $(setsid sh -c "cat /proc/self/oom_score_adj") keeper $(score $PPID)
for s in 0 -1000; do { echo $s > /proc/self/oom_score_adj; } 2>/dev/null && echo lowered; done; :`
	for _, uid := range users() {
		t.Run(fmt.Sprint("uid", uid), func(t *testing.T) {
			s := newScene(t, uid, "base")
			if r := s.plain("sh", "-c", "echo 600 > /proc/self/oom_score_adj && cat /proc/self/oom_score_adj && echo 0 > /proc/self/oom_score_adj && echo lowered"); !strings.Contains(r.Stdout, "lowered") {
				t.Fatalf("a score cannot be lowered without confinement either: %q %q", r.Stdout, r.Stderr)
			}
			own, err := os.ReadFile("/proc/self/oom_score_adj")
			s.must(err)
			want := fmt.Sprintf("command 500 later 500 keeper %s\n", strings.TrimSpace(string(own)))
			if r := s.sbx(nil, "sh", "-c", look); r.Code != 0 || r.Stdout != want {
				t.Errorf("exit %d, %q, want %q; %s", r.Code, r.Stdout, want, r.Stderr)
			}
			r := s.plain("sh", "-c", "echo 700 > /proc/self/oom_score_adj; exec "+s.program("sbx")+" run -q --tier base --workspace "+s.Work+" -- cat /proc/self/oom_score_adj")
			if r.Stdout != "700\n" {
				t.Errorf("a caller's higher score: %q %q", r.Stdout, r.Stderr)
			}
		})
	}
}
