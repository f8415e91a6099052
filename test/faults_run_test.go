package test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	osexec "os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sandboxd/test/require"
)

// faultsVariable selects the rows whose faults are planted, "85,88", or "all".
// Empty plants none: make test checks only that they can be planted.
const faultsVariable = "SANDBOXD_FAULTS"

// Bounds of one build and of one run of a test.
const (
	faultBuildTime = 10 * time.Minute
	faultTestTime  = 5 * time.Minute
)

// TestFaults plants each fault, one at a time, and sees its test fail. The tree
// is left alone: the go command is told to read one file from elsewhere (go help
// build, -overlay).
func TestFaults(t *testing.T) {
	selected := os.Getenv(faultsVariable)
	if selected == "" {
		require.Asked(t, "run by make faults")
	}
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	faults, err := readFaults(os.DirFS(root))
	if err != nil {
		t.Fatal(err)
	}
	if faults, err = selectFaults(faults, selected); err != nil {
		t.Fatal(err)
	}
	p := &planter{root: root, dir: t.TempDir(), honest: map[string]string{}}
	count := map[string]int{}
	for _, f := range faults {
		start := time.Now()
		outcome, output := p.plant(t.Context(), f)
		count[outcome]++
		fmt.Printf("%-14s %6.1fs  %s\n", outcome, time.Since(start).Seconds(), f)
		if outcome != caught {
			t.Errorf("%s:%d: row %s: %s\n%s", faultFile, f.line, f, outcome, tail(output))
		}
	}
	fmt.Printf("%d faults: %v\n", len(faults), count)
}

// selectFaults keeps the faults of the rows in a list, or all.
func selectFaults(faults []fault, rows string) ([]fault, error) {
	if rows == "all" {
		return faults, nil
	}
	var kept []fault
	for s := range strings.FieldsFuncSeq(rows, func(r rune) bool { return r == ',' || r == ' ' }) {
		row, err := strconv.Atoi(s)
		if err != nil {
			return nil, fmt.Errorf("%s: row %q is not a number", faultsVariable, s)
		}
		before := len(kept)
		for _, f := range faults {
			if slices.Contains(f.rows, row) {
				kept = append(kept, f)
			}
		}
		if len(kept) == before {
			return nil, fmt.Errorf("%s: row %d has no fault", faultsVariable, row)
		}
	}
	return kept, nil
}

// Outcomes of planting a fault. Only the first is as it must be.
const (
	caught       = "caught"
	survived     = "SURVIVED"
	skipped      = "SKIPPED"     // the test did not look
	unbuildable  = "NO BUILD"    // the compiler found the fault, not the test
	inapplicable = "NOT APPLIED" // the text does not stand there once
	failsAnyhow  = "FAILS ANYHOW"
	other        = "OTHER END" // time out, or an end without a verdict of the test
)

// planter builds and runs tests with and without a fault.
type planter struct {
	root string
	dir  string
	// honest keeps the outcome of each test without a fault.
	honest map[string]string
}

func (p *planter) plant(ctx context.Context, f fault) (outcome, output string) {
	code, err := os.ReadFile(filepath.Join(p.root, f.file))
	if err != nil || strings.Count(string(code), f.old) != 1 {
		return inapplicable, fmt.Sprintf("%q, %v", f.old, err)
	}
	if p.honest[f.test] == "" {
		p.honest[f.test], output = p.try(ctx, f.test, "")
	}
	switch p.honest[f.test] {
	case survived: // it passes, as it should
	case skipped, unbuildable:
		return p.honest[f.test], output
	default:
		return failsAnyhow, output
	}
	overlay, err := p.overlay(f.file, strings.Replace(string(code), f.old, f.new, 1))
	if err != nil {
		return inapplicable, err.Error()
	}
	return p.try(ctx, f.test, overlay)
}

// overlay writes the file that the go command reads in place of file.
func (p *planter) overlay(file, code string) (string, error) {
	replaced := filepath.Join(p.dir, "fault"+path.Ext(file))
	if err := os.WriteFile(replaced, []byte(code), 0o600); err != nil {
		return "", err
	}
	text, err := json.Marshal(map[string]map[string]string{"Replace": {filepath.Join(p.root, file): replaced}})
	if err != nil {
		return "", err
	}
	overlay := filepath.Join(p.dir, "overlay.json")
	return overlay, os.WriteFile(overlay, text, 0o600)
}

// try builds the room's tests and runs one.
func (p *planter) try(ctx context.Context, test, overlay string) (outcome, output string) {
	room, name, _ := strings.Cut(test, ".")
	binary := filepath.Join(p.dir, strings.ReplaceAll(room, "/", "_")+".test")
	env := slices.DeleteFunc(os.Environ(), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return name == privateVariable || name == stagesVariable // it has its own
	})
	env = append(env, faultsVariable+"=")
	if overlay != "" {
		// By the environment, so that a build which the test starts has it too.
		env = append(env, "GOFLAGS="+strings.TrimSpace(os.Getenv("GOFLAGS")+" -overlay="+overlay))
	} else {
		binary = filepath.Join(p.dir, "honest_"+filepath.Base(binary))
	}
	if _, err := os.Stat(binary); err != nil || overlay != "" {
		out, err := p.run(ctx, faultBuildTime, p.root, env, "go", "test", "-c", "-vet=off", "-p", "1", "-ldflags=-s -w", "-buildvcs=false", "-o", binary, "./"+room)
		if err != nil {
			return unbuildable, out
		}
	}
	parts := strings.Split(name, "/")
	for i, part := range parts {
		parts[i] = "^" + regexp.QuoteMeta(part) + "$"
	}
	out, err := p.run(ctx, faultTestTime+time.Minute, filepath.Join(p.root, room), env, binary,
		"-test.run", strings.Join(parts, "/"), "-test.v", "-test.timeout", faultTestTime.String())
	top, _, _ := strings.Cut(name, "/")
	switch {
	case err == nil && strings.Contains(out, "--- PASS: "+top+" ") && !strings.Contains(out, "--- SKIP: "+name+" "):
		return survived, out
	case err == nil && strings.Contains(out, "--- SKIP: "):
		return skipped, out
	case err != nil && strings.Contains(out, "--- FAIL: "+top+" "):
		return caught, out
	}
	return other, out
}

// run starts a command that ends with ctx or its time, and returns its output.
func (p *planter) run(ctx context.Context, limit time.Duration, dir string, env []string, argv ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	c := osexec.CommandContext(ctx, argv[0], argv[1:]...)
	c.Dir, c.Env = dir, env
	c.Cancel = func() error { return c.Process.Signal(unix.SIGKILL) }
	c.WaitDelay = 5 * time.Second
	out, err := c.CombinedOutput()
	return string(out), err
}

// tail keeps the end of a long output.
func tail(s string) string {
	const keep = 2000
	if len(s) > keep {
		return "..." + s[len(s)-keep:]
	}
	return s
}
