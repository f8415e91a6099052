package main

import (
	"reflect"
	"testing"
	"time"

	"sandboxd/policy"
	"sandboxd/policy/settings"
)

func TestOverrideLimit(t *testing.T) {
	for _, tt := range []struct {
		name        string
		limit, flag int
		managed     bool
		want        int
	}{
		{"no flag", 5, 0, false, 5},
		{"flag loosens", 5, 9, false, 9},
		{"flag lifts", 5, -1, false, -1},
		{"flag alone", 0, 9, true, 9},
		{"managed is not loosened", 5, 9, true, 5},
		{"managed is not lifted", 5, -1, true, 5},
		{"managed is tightened", 5, 3, true, 3},
	} {
		got := tt.limit
		overrideLimit(&got, tt.flag, tt.managed)
		if got != tt.want {
			t.Errorf("%s: %d with flag %d (managed %v) is %d, want %d", tt.name, tt.limit, tt.flag, tt.managed, got, tt.want)
		}
	}
}

func TestFlagsGoOverFiles(t *testing.T) {
	e := &settings.Effective{Workspace: "/w"}
	e.Mode.V = "plan"
	e.Paths = []policy.PathGrant{{Path: "/a", Access: policy.GrantRead}}
	e.Limits.Timeout = settings.Value[time.Duration]{V: time.Minute, Set: true, From: policy.Source{Kind: policy.SourceManaged}}
	e.Limits.Tasks = settings.Value[int64]{V: 10, Set: true, From: policy.Source{Kind: policy.SourceProject}}
	e.Syscalls.V = "debug"
	flags := policy.Grant{
		Workspace: "", User: "caller", NoExecWrite: true, Syscalls: "default", Network: []string{"full"}, EnvPass: []string{"X"},
		Paths:  []policy.PathGrant{{Path: "/b", Access: policy.GrantDeny}},
		Limits: policy.GrantLimits{Timeout: time.Hour, Tasks: 20},
	}
	got, err := mergeGrant(e, flags)
	if err != nil {
		t.Fatal(err)
	}
	want := policy.Grant{
		User: "caller", PrivateTmp: true, NoExecWrite: true, Syscalls: "default", Network: []string{"full"}, EnvPass: []string{"X"},
		Paths:  []policy.PathGrant{{Path: "/a", Access: policy.GrantRead}, {Path: "/b", Access: policy.GrantDeny}},
		Limits: policy.GrantLimits{Timeout: time.Minute, Tasks: 20},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("merged grant\n%+v, want\n%+v", got, want)
	}
}
