package settings

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"sandboxd/policy"
)

// What a managed policy says by itself is told apart from what others add to it.
func TestManagedGrantIsTheManagedPolicysAlone(t *testing.T) {
	text := func(kind string) string {
		return `syscalls = "debug"
[filesystem]
read = ["/srv/` + kind + `"]
deny = ["/srv/` + kind + `/secret"]
[env]
pass = ["PASS_` + kind + `"]
set = { SET_` + kind + ` = "1", SET = "` + kind + `" }
[limits]
memory = "1GiB"
`
	}
	p := newPlace(t)
	p.user(text("user"))
	none := p.load(p.options()).ManagedGrant()
	if want := (policy.Grant{Workspace: p.work, PrivateTmp: true}); !reflect.DeepEqual(none, want) {
		t.Errorf("without one: %+v", none)
	}
	p.etc(text("managed"))
	g := p.load(p.options()).ManagedGrant()
	for i := range g.Paths {
		g.Paths[i].Source = policy.Source{}
	}
	want := policy.Grant{Workspace: p.work, PrivateTmp: true, Syscalls: "debug", EnvSet: g.EnvSet, Limits: policy.GrantLimits{MemoryBytes: 1 << 30},
		Paths: []policy.PathGrant{{Path: "/srv/managed", Access: policy.GrantRead}, {Path: "/srv/managed/secret", Access: policy.GrantDeny}}}
	slices.SortFunc(g.Paths, func(a, b policy.PathGrant) int { return strings.Compare(a.Path, b.Path) })
	slices.Sort(g.EnvSet)
	if !reflect.DeepEqual(g, want) || !slices.Equal(g.EnvSet, []string{"SET=managed", "SET_managed=1"}) {
		t.Errorf("%+v\nwant %+v", g, want)
	}
}
