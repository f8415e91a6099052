package test

import (
	"encoding/json"
	"os"
	"strconv"
	"strings"
	"testing"

	"sandboxd/test/require"
)

// guardOfTheMachine blocks what has the word forbidden in it, and tells what it has of
// the world.
const guardOfTheMachine = `#!/bin/sh
if grep -q forbidden; then
	echo "the machine forbids it; $(env | sort | tr '\n' ' ')" >&2
	exit 2
fi
exit 0
`

// managedDaemon is a daemon of root's on a machine whose /etc/sandboxd has a policy
// with a hook: the one of this machine is hidden from it by a mount of its own.
func managedDaemon(t *testing.T, policy string) *daemonRun {
	t.Helper()
	d := newDaemon(t, 0, "--group", strconv.Itoa(daemonGID))
	etc := d.Home + "/../etc"
	if r := d.plain("cp", "-a", "/etc", etc); r.Code != 0 {
		t.Fatalf("%+v", r)
	}
	d.must(os.RemoveAll(etc + "/sandboxd"))
	d.file(etc+"/sandboxd/policy.toml", policy)
	d.must(os.Chmod(d.file(etc+"/sandboxd/guard", guardOfTheMachine), 0o755))
	d.before = []string{"unshare", "--mount", "--propagation", "private", "sh", "-c", `mount --bind "$0" /etc && exec "$@"`, etc}
	d.start()
	return d
}

// The administrator's hook judges every call of every user, after the user's own hooks
// and by nothing that the user chose.
func TestManagedHookJudgesCallsOfAllUsers(t *testing.T) {
	require.Root(t, "to play a daemon that serves others")
	d := managedDaemon(t, `
[[hooks.PreToolUse]]
matcher = "Bash"
command = "/etc/sandboxd/guard"
`)
	one := d.as(1000)
	one.file(one.Home+"/.config/sandboxd/policy.toml", `
[env]
pass = ["GUARD_MODE", "MY_TOKEN"]
set = ["GUARD_SET=off"]
[[hooks.PreToolUse]]
command = '''case "$(cat)" in
*sweet*) echo '{"hookSpecificOutput": {"hookEventName": "PreToolUse", "updatedInput": {"command": "touch forbidden"}}}' ;;
*bitter*) echo '{"hookSpecificOutput": {"hookEventName": "PreToolUse", "updatedInput": {"command": "touch mild"}}}' ;;
*please*) echo '{"decision": "allow"}' ;;
esac'''
`)
	for _, name := range []string{"grep", "sh", "env", "tr", "cat"} { // as a client would have them
		d.must(os.Chmod(one.file(one.Work+"/bin/"+name, "#!/bin/sh\nexit 1\n"), 0o755))
	}
	start := one.file(one.Work+"/start.sh", "exit 0\n")
	call := func(script string) result {
		body, err := json.Marshal(map[string]any{"tool": "run_bash", "args": map[string]string{"command": script}, "cwd": one.Work, "mode": "bypassPermissions",
			"env": []string{"HOME=" + one.Home, "PATH=" + one.Work + "/bin:/usr/bin:/bin", "GUARD_MODE=off", "BASH_ENV=" + start, "ENV=" + start,
				"LD_PRELOAD=" + one.Work + "/none.so", "MY_TOKEN=" + one.Token, "XDG_CONFIG_HOME=" + one.Home + "/.config"}})
		d.must(err)
		return one.finish(one.post(d, "/api/exec", string(body)))
	}
	for _, tt := range []struct{ script, makes, not string }{
		{"/usr/bin/touch plain", "plain", ""},
		{"/usr/bin/touch forbidden", "", "forbidden"},
		{"true please; /usr/bin/touch forbidden", "", "forbidden"},
		{"/usr/bin/touch sweet", "", "forbidden"},                // the user's hook makes it what is forbidden
		{"/usr/bin/touch bitter forbidden", "mild", "forbidden"}, // and takes that out of it
	} {
		r := call(tt.script)
		if tt.not != "" && exists(one.Work+"/"+tt.not) {
			t.Errorf("%s: it ran: %+v", tt.script, r)
		}
		if tt.makes != "" {
			if !exists(one.Work + "/" + tt.makes) {
				t.Errorf("%s: %+v, want it to run", tt.script, r)
			}
			continue
		}
		if !strings.Contains(r.Stdout, "the machine forbids it") || !strings.Contains(r.Stdout, "SANDBOXD_HOOK_EVENT=PreToolUse") {
			t.Errorf("%s: %+v, want the reason of the hook", tt.script, r)
		}
		for _, of := range []string{"GUARD_", "BASH_ENV", "LD_PRELOAD", one.Token, one.Home, one.Work + "/bin", "XDG_CONFIG_HOME"} {
			if strings.Contains(r.Stdout, of) {
				t.Errorf("%s: the hook has %s of its client: %s", tt.script, of, r.Stdout)
			}
		}
	}
	// A direct command and root's own go through the same door.
	if r := one.execTo(d, nil, "touch", "forbidden"); r.Code != 126 || !strings.Contains(r.Stderr, "the machine forbids it") || exists(one.Work+"/forbidden") {
		t.Errorf("sbx exec: %+v", r)
	}
	if r := d.execTo(d, nil, "touch", "forbidden"); r.Code != 126 || exists(d.Work+"/forbidden") {
		t.Errorf("root: %+v", r)
	}
	if r := one.execTo(d, nil, "touch", "more"); r.Code != 0 || !exists(one.Work+"/more") {
		t.Errorf("honest use: %+v", r)
	}
}
