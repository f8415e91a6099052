package main

import (
	"testing"
	"time"

	"sandboxd/cmd/sandboxd/api"
	"sandboxd/exec"
)

func TestOutcomeLine(t *testing.T) {
	const confined = "network none"
	for _, tt := range []struct {
		name string
		res  exec.Result
		l    exec.Limits
		want string
		code int
	}{
		{"success is silent", exec.Result{Outcome: exec.Exited}, exec.Limits{}, "", 0},
		{"own code", exec.Result{Outcome: exec.Exited, ExitCode: 3}, exec.Limits{}, "make exited 3; confined: network none", 3},
		{"signal", exec.Result{Outcome: exec.Signaled, Signal: 11, ExitCode: 139}, exec.Limits{}, "make was ended by signal SIGSEGV; confined: network none", 139},
		{"the reader had enough", exec.Result{Outcome: exec.Signaled, Signal: 13, ExitCode: 141}, exec.Limits{}, "", 141},
		{"time", exec.Result{Outcome: exec.TimedOut, Signal: 15, ExitCode: 143}, exec.Limits{Wall: 200 * time.Millisecond},
			"make timed out after 200ms; confined: network none", 124},
		{"memory", exec.Result{Outcome: exec.OutOfMem, Signal: 9, ExitCode: 137}, exec.Limits{Memory: 1 << 30},
			"make ended at its memory limit of 1 GiB; confined: network none", 137},
		{"tasks, handled by the command", exec.Result{Outcome: exec.TaskLimit}, exec.Limits{}, "make reached its limit of tasks; confined: network none", 0},
		{"refused", exec.Result{Outcome: exec.Refused}, exec.Limits{}, "", 126},
		{"not set up", exec.Result{Outcome: exec.NotSetUp}, exec.Limits{}, "", 125},
	} {
		if got := explainOutcome(tt.res, "make", tt.l, confined); got != tt.want {
			t.Errorf("%s: explainOutcome = %q, want %q", tt.name, got, tt.want)
		}
		if got := api.ExitStatus(tt.res); got != tt.code {
			t.Errorf("%s: status = %d, want %d", tt.name, got, tt.code)
		}
	}
}

func TestWithheldKinds(t *testing.T) {
	for _, tt := range []struct {
		names   []string
		verbose bool
		want    string
	}{
		{nil, false, "no variables withheld"},
		{[]string{"AWS_SECRET_ACCESS_KEY"}, false, "variables withheld: 1 that looks like a secret"},
		{[]string{"FOO", "BAR"}, false, "variables withheld: 2"},
		{[]string{"GH_TOKEN", "FOO"}, false, "variables withheld: 1 that looks like a secret, 1 other"},
		{[]string{"GH_TOKEN", "FOO"}, true, "withheld variables: FOO GH_TOKEN"},
	} {
		if got := withheldKinds(tt.names, tt.verbose); got != tt.want {
			t.Errorf("withheldKinds(%q, %v) = %q, want %q", tt.names, tt.verbose, got, tt.want)
		}
	}
}

func TestWeakerLine(t *testing.T) {
	e := exec.Enforced{
		Tier:     "base",
		Missing:  []exec.Gap{{Part: "tasks", Why: "no cgroup"}, {Part: "system call mseal", Instead: "refused"}},
		Weakened: []exec.Gap{{Part: "protected names", Why: "no mount view", Instead: "judged after the run"}, {Part: "loopback"}},
	}
	for _, tt := range []struct {
		e       exec.Enforced
		verbose bool
		want    string
	}{
		{exec.Enforced{}, false, ""},
		{exec.Enforced{Missing: []exec.Gap{{Part: "system call mseal", Instead: "refused"}}}, true, ""},
		{e, false, "tier base: not held here: tasks; held less well here: protected names, loopback; --verbose says how, --quiet leaves this line out"},
		{e, true, "tier base: not held here: tasks (no cgroup); held less well here: protected names: judged after the run (no mount view); loopback"},
	} {
		if got := explainWeaker(tt.e, tt.verbose); got != tt.want {
			t.Errorf("explainWeaker = %q, want %q", got, tt.want)
		}
	}
}
