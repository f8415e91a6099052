package require

import (
	"os"
	osexec "os/exec"
	"strings"
	"testing"
)

const childVariable = "REQUIRE_TEST_CHILD"

// TestChild is what the test below runs in a process of its own: it misses Landlock.
func TestChild(t *testing.T) {
	if os.Getenv(childVariable) == "" {
		Asked(t, "runs as a child")
	}
	Missing(t, Landlock, "none here")
	t.Error("Missing returned")
}

func TestRequiredFeatureFailsTheTest(t *testing.T) {
	for _, tt := range []struct {
		list, want string
		fails      bool
	}{
		{"", "landlock: none here", false},
		{"seccomp,userns", "landlock: none here", false},
		{"landlock", "landlock is required and missing: none here", true},
		{"seccomp, landlock", "landlock is required and missing: none here", true},
		{"landlok", `no feature "landlok"`, true},
	} {
		c := osexec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestChild$", "-test.v")
		c.Env = append(os.Environ(), childVariable+"=1", Variable+"="+tt.list)
		out, err := c.CombinedOutput()
		if (err != nil) != tt.fails || !strings.Contains(string(out), tt.want) || strings.Contains(string(out), "Missing returned") {
			t.Errorf("%s=%s: %v\n%s\nwant %q, failing %v", Variable, tt.list, err, out, tt.want, tt.fails)
		}
	}
}

func TestRootIsNeverSkipped(t *testing.T) {
	t.Run("inner", func(t *testing.T) {
		t.Cleanup(func() {
			if t.Skipped() != (os.Geteuid() != 0) {
				t.Errorf("uid %d: skipped %v", os.Geteuid(), t.Skipped())
			}
		})
		Root(t, "to be tried")
	})
}
