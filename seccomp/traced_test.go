package seccomp

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// TestTracedProgramsAreCovered: what ordinary programs were seen to call is
// allowed on some condition, but for what is listed here.
func TestTracedProgramsAreCovered(t *testing.T) {
	exceptions := map[string][]string{
		"clone3": nil, // any program: libc falls back to clone
		// ps asks libnuma for the nodes and does without.
		"get_mempolicy": {"coreutils"}, "set_mempolicy": {"coreutils"},
		"ptrace": {"gdb"},
	}
	text, err := os.ReadFile("testdata/traced.txt")
	if err != nil {
		t.Fatal(err)
	}
	always, sometimes := weAllow()
	programs := 0
	for line := range strings.Lines(string(text)) {
		program, calls, ok := strings.Cut(line, ":")
		if !ok || strings.HasPrefix(line, "#") {
			continue
		}
		programs++
		for _, call := range strings.Fields(calls) {
			who, excepted := exceptions[call]
			if always[call] || sometimes[call] || excepted && (who == nil || slices.Contains(who, program)) {
				continue
			}
			t.Errorf("%s calls %s, which is refused", program, call)
		}
	}
	if programs < 15 {
		t.Errorf("only %d programs in the list", programs)
	}
}
