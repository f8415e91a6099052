package main

import (
	"slices"
	"testing"
)

func TestVariablesStandForFlagsThatAreNotGiven(t *testing.T) {
	environ := []string{"SANDBOXD_TIMEOUT=5m", "SANDBOXD_FILE_SIZE=1MiB", "SANDBOXD_NET=full", "SANDBOXD_QUIET=1", "SANDBOXD_VERBOSE=0",
		"SANDBOXD_PIDS=", "SANDBOXD_RW=/", "SANDBOXD_MODE=plan", "XSANDBOXD_CPU=1s", "HOME=/x"}
	flags, err := withVariables(plainFlags{"timeout": {"1s"}, "net": {"none"}}, environ)
	if err != nil {
		t.Fatal(err)
	}
	for flag, want := range map[string]string{"timeout": "1s", "file-size": "1MiB", "pids": "", "cpu": "", "rw": ""} {
		if got := flags.String(flag); got != want || flags.IsSet(flag) != (want != "") {
			t.Errorf("--%s is %q, want %q", flag, got, want)
		}
	}
	if got := flags.StringSlice("net"); !slices.Equal(got, []string{"none"}) {
		t.Errorf("--net is %q: a flag outranks its variable", got)
	}
	if !flags.Bool("quiet") || flags.Bool("verbose") {
		t.Errorf("quiet %v, verbose %v", flags.Bool("quiet"), flags.Bool("verbose"))
	}
	if _, err := withVariables(plainFlags{}, []string{"SANDBOXD_BEST_EFFORT=perhaps"}); err == nil {
		t.Error("a boolean that is neither 1 nor 0 passes")
	}
	given := plainFlags{}
	if same, err := withVariables(given, []string{"PATH=/bin"}); err != nil || same.IsSet("timeout") {
		t.Errorf("without variables: %v %v", same, err)
	}
}

// TestEachVariableHasAFlag: the table names flags of sbx run, with their type.
func TestEachVariableHasAFlag(t *testing.T) {
	for _, v := range variableFlags {
		if _, boolean, ok := findFlag(runFlags(), v.flag); !ok || boolean != v.boolean {
			t.Errorf("--%s: known %v, boolean %v", v.flag, ok, boolean)
		}
	}
}
