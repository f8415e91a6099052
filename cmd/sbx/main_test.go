package main

import (
	"context"
	"errors"
	"os"
	osexec "os/exec"
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// The test binary plays sbx when it is started under that name.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"sbx": func() {
			os.Exit(run(context.Background(), os.Args[1:], os.Environ(), os.Stdin, os.Stdout, os.Stderr))
		},
	})
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: false,
		Setup: func(e *testscript.Env) error {
			home := e.WorkDir + "/home"
			e.Setenv("HOME", home)
			e.Setenv("XDG_STATE_HOME", home+"/.local/state")
			e.Setenv("XDG_CACHE_HOME", home+"/.cache")
			e.Setenv("XDG_CONFIG_HOME", home+"/.config")
			return os.MkdirAll(home, 0o755)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits},
	})
}

// exits runs a command and checks its exit status: exits N command [arg...];
// N may be ? for any but 0.
// Its output is there for stdout and stderr as after exec.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits N command [arg...]")
	}
	want, err := strconv.Atoi(args[0])
	if err != nil && args[0] != "?" {
		ts.Fatalf("exits: %q is not a status", args[0])
	}
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		exit, ok := errors.AsType[*osexec.ExitError](err)
		if !ok {
			ts.Fatalf("exits: %v", err)
		}
		got = exit.ExitCode()
	}
	if got != want && args[0] != "?" || got == 0 && args[0] == "?" {
		ts.Fatalf("%v exited %d, want %d", args[1:], got, want)
	}
}
