package main

import (
	"reflect"
	"testing"
	"time"

	"sandboxd/policy"
	"sandboxd/policy/settings"
)

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
