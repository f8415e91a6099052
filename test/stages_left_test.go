package test

import (
	"bufio"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

const leaveVariable = "SANDBOXD_TEST_LEAVE"

// TestLeaves is what TestRunLeavesNothing runs.
func TestLeaves(t *testing.T) {
	how := os.Getenv(leaveVariable)
	if how == "" {
		return
	}
	stage := os.Getenv(stagesVariable)
	if err := os.Mkdir(filepath.Join(stage, "1"), 0o755); err != nil {
		t.Fatal(err)
	}
	os.Stdout.WriteString("\nstages " + stage + "\n")
	switch how {
	case "clean":
		os.Remove(filepath.Join(stage, "1"))
	case "stage":
	case "beside":
		os.Remove(filepath.Join(stage, "1"))
		if _, err := os.CreateTemp("/dev/shm", runName()+"-"); err != nil {
			t.Fatal(err)
		}
	case "temp":
		os.Remove(filepath.Join(stage, "1"))
		if _, err := os.CreateTemp("", "x"); err != nil {
			t.Fatal(err)
		}
	case "crash":
		os.Exit(2)
	default:
		select {} // until it is killed
	}
}

// TestRunLeavesNothing runs this program as go test does: what its tests leave is told
// and gone, and a run that ends in another way leaves nothing either.
func TestRunLeavesNothing(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	start := func(t *testing.T, how string) (c *osexec.Cmd, stage string, rest func() string) {
		c = osexec.Command(self, "-test.run", "^TestLeaves$", "-test.timeout", "2m")
		for _, v := range os.Environ() {
			if name, _, _ := strings.Cut(v, "="); name != privateVariable && name != stagesVariable {
				c.Env = append(c.Env, v)
			}
		}
		c.Env = append(c.Env, leaveVariable+"="+how)
		out, err := c.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		c.Stderr = c.Stdout
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		lines, seen := bufio.NewScanner(out), ""
		for stage == "" && lines.Scan() {
			seen += lines.Text() + "\n"
			stage, _ = strings.CutPrefix(lines.Text(), "stages ")
			if stage == lines.Text() {
				stage = ""
			}
		}
		if stage == "" {
			t.Fatalf("%s: no stage: %s, %v", how, seen, c.Wait())
		}
		return c, stage, func() string {
			for lines.Scan() {
				seen += lines.Text() + "\n"
			}
			if err := c.Wait(); err != nil && c.ProcessState == nil {
				t.Fatal(err)
			}
			return seen
		}
	}
	gone := func(t *testing.T, stage string) {
		t.Helper()
		left := besides(stage)
		if exists(stage) {
			left = append(left, stage)
		}
		if len(left) > 0 {
			t.Errorf("%v is there", left)
		}
	}
	for _, tt := range []struct {
		how  string
		code int
		told string
	}{{"clean", 0, ""}, {"stage", 1, "/1\n"}, {"beside", 1, "/dev/shm/"}, {"temp", 1, ".tmp/x"}, {"crash", 2, ""}} {
		t.Run(tt.how, func(t *testing.T) {
			c, stage, rest := start(t, tt.how)
			out := rest()
			if c.ProcessState.ExitCode() != tt.code || strings.Contains(out, "left behind") != (tt.told != "") || !strings.Contains(out, tt.told) {
				t.Errorf("%v, want %d and %q:\n%s", c.ProcessState, tt.code, tt.told, out)
			}
			gone(t, stage)
		})
	}
	t.Run("ended", func(t *testing.T) {
		c, stage, rest := start(t, "wait")
		if err := c.Process.Signal(unix.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if out := rest(); c.ProcessState.ExitCode() != 128+int(unix.SIGTERM) {
			t.Errorf("%v:\n%s", c.ProcessState, out)
		}
		gone(t, stage)
	})
	t.Run("killed", func(t *testing.T) {
		living, livingStage, livingRest := start(t, "wait")
		c, stage, rest := start(t, "wait")
		if err := c.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		rest()
		if !exists(stage) {
			t.Fatal("nothing was left to remove")
		}
		_, _, next := start(t, "clean")
		next()
		gone(t, stage)
		if !exists(livingStage + "/1") {
			t.Error("the stages of a run that lives were removed")
		}
		if err := living.Process.Signal(unix.SIGINT); err != nil {
			t.Fatal(err)
		}
		livingRest()
		gone(t, livingStage)
	})
}
