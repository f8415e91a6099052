package agentloop

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sandboxd/exec"
	"sandboxd/policy"
	"sandboxd/test/require"
)

func administrator() policy.Source {
	return policy.Source{Kind: policy.SourceManaged, File: "/etc/sandboxd/policy.toml", Line: 5}
}

// evil is a library that lets every program end well, if it were loaded.
const evilStart = "exit 0\n"

// hostileClient chooses all that a client can choose, so that a guard passes.
func hostileClient(b *hookBench) {
	ws := b.Cwd
	for _, name := range []string{"grep", "sh", "cat", "guard"} {
		b.file("home/u/w/bin/"+name, pass, 0o755)
		b.file("home/u/w/"+name, pass, 0o755)
		b.file("home/u/bin/"+name, pass, 0o755)
	}
	start := b.file("home/u/w/start.sh", evilStart, 0o644)
	b.file("home/u/w/json.py", "raise SystemExit(0)\n", 0o644)
	b.file("home/u/w/sitecustomize.py", "import os\nos._exit(0)\n", 0o644)
	b.Environ = []string{
		"PATH=" + ws + "/bin:" + b.path("home/u/bin") + ":" + ws + ":/usr/bin:/bin", "HOME=" + b.Home, "BASH_ENV=" + start, "ENV=" + start, "PYTHONPATH=" + ws,
		"PYTHONSTARTUP=" + start, "LD_PRELOAD=" + ws + "/none.so", "LC_ALL=xx", "LANG=xx", "TZ=:" + ws, "TMPDIR=" + ws, "IFS=e", "PS4=$(exit 0)",
		"XDG_STATE_HOME=" + ws, "XDG_CACHE_HOME=" + ws, "GUARD_MODE=off", "GIT_AUTHOR_NAME=client",
	}
	b.env.Caller = b.Caller
	b.env.Grant = policy.Grant{
		PrivateTmp: false, EnvPass: []string{"LD_PRELOAD", "BASH_ENV", "ENV", "PATH", "HOME", "IFS", "GUARD_MODE", "PYTHONPATH"},
		EnvSet: []string{"GUARD_MODE=off", "LD_PRELOAD=" + ws + "/none.so", "BASH_ENV=" + start, "SANDBOXD_HOOK_EVENT=Stop", "PATH=" + ws + "/bin"},
		Paths: []policy.PathGrant{cli("/etc/passwd", policy.GrantDeny), cli("/etc/hostname", policy.GrantDeny), cli(b.path("home/u/bin"), policy.GrantRead),
			cli(ws+"/seen", policy.GrantDeny)},
		NoExecWrite: true, Limits: policy.GrantLimits{FileBytes: 1, MemoryBytes: 1 << 20, Tasks: 1, Timeout: time.Millisecond},
	}
	b.env.Trusts = func(string, []byte) bool { return true } // the client's store
}

// The same guard, which says what it finds: in a clean world and in one where the
// client chose all that it can choose. Nothing may differ but the workspace.
func TestManagedHookIsNotTalkedRoundByItsClient(t *testing.T) {
	b := newHookBench(t)
	b.file("home/u/w/seen", "seen\n", 0o644)
	script := strings.Join([]string{
		"command -v grep cat python3; env | grep -v '^HOME=' | sort; pwd; umask; ulimit -f; ulimit -v; ls -A ~ 2>/dev/null", `echo home: "$HOME"`,
		`(touch ~/x /tmp/x && echo places) 2>/dev/null`, `d=$(printenv SANDBOXD_PROJECT_DIR); cat "$d"/seen`, "wc -c < /etc/passwd", "echo aaa | grep -c a",
		`test -e /etc/hostname && wc -c < /etc/hostname`, `seq 2000 > "${TMPDIR:-/none}/long" && wc -l < "$TMPDIR/long"`, `sh -c 'exit 7'; echo $?`,
		"bash -c 'exit 8'; echo $?", `command -v python3 >/dev/null && python3 -c 'import json; print(json.dumps(9))'`,
	}, "; ")
	said := func() string {
		t.Helper()
		res := b.fire(HookSpec{Event: "PreToolUse", Command: "{ " + script + "; } >&2; exit 2", Source: administrator()}, HookEvent{})
		if !res.Blocked {
			t.Fatalf("the guard let pass: %+v", res)
		}
		return res.Reason
	}
	clean := said()
	for _, want := range []string{"SANDBOXD_HOOK_EVENT=PreToolUse", "LANG=C.UTF-8", "\n/\n", "seen", "places", "\n7\n8\n", "\n2000\n"} {
		if !strings.Contains(clean, want) {
			t.Errorf("%q is missing in\n%s", want, clean)
		}
	}
	hostileClient(b)
	if got := said(); got != clean {
		t.Errorf("the client's choices show:\n%s\n\nwithout them:\n%s", got, clean)
	}
	for _, name := range []string{"GUARD_MODE", "LD_PRELOAD", "BASH_ENV", "GIT_"} {
		if strings.Contains(clean, name) {
			t.Errorf("%s is there", name)
		}
	}
}

// What the administrator's own policy says reaches its hooks; what the user's says
// reaches the user's.
func TestHooksGetTheGrantOfTheirSource(t *testing.T) {
	require.Root(t, "to make a file of the administrator's")
	b := newHookBench(t)
	dir := ownedByRoot(t)
	list := filepath.Join(dir, "list")
	if err := os.WriteFile(list, []byte("of the administrator\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	b.env.Managed = policy.Grant{PrivateTmp: true, EnvSet: []string{"GUARD_MODE=strict"}, Paths: []policy.PathGrant{{Path: dir, Access: policy.GrantRead, Source: administrator()}}}
	b.env.Grant.EnvSet = []string{"GUARD_MODE=off", "MINE=yes"}
	command := `echo "$GUARD_MODE-$MINE" >&2; d=` + dir + `; cat $d/list >&2; exit 2`
	if res := b.fire(HookSpec{Event: "PreToolUse", Command: command, Source: administrator()}, HookEvent{}); !strings.HasPrefix(res.Reason, "strict-\nof the administrator") {
		t.Errorf("managed: %q", res.Reason)
	}
	if res := b.fire(HookSpec{Event: "PreToolUse", Command: command, Source: user()}, HookEvent{}); !strings.HasPrefix(res.Reason, "off-yes") || strings.Contains(res.Reason, "\nof the adm") {
		t.Errorf("the user's: %q", res.Reason)
	}
}

// ownedByRoot is a directory that root alone can write, up to the top.
func ownedByRoot(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/var/lib", "sandboxd-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// A program is the administrator's where root alone can change it, and nowhere else.
func TestProgramOfAManagedHookIsRootsAlone(t *testing.T) {
	require.Root(t, "to be a daemon for another user")
	b := newHookBench(t)
	dir := ownedByRoot(t)
	guard := func(path string, uid int, mode os.FileMode) string {
		t.Helper()
		for _, err := range []error{os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(guardScript), 0o755), os.Chown(path, uid, uid), os.Chmod(path, mode)} {
			if err != nil {
				t.Fatal(err)
			}
		}
		return path
	}
	client := 1000
	own := guard(dir+"/own", 0, 0o755)
	theirs := guard(dir+"/theirs", client, 0o755)
	open := guard(dir+"/open", 0, 0o757)
	group := guard(dir+"/group", 0, 0o775)
	if err := os.Chown(group, 0, client); err != nil {
		t.Fatal(err)
	}
	below := guard(dir+"/below/guard", 0, 0o755)
	if err := os.Chown(dir+"/below", client, client); err != nil {
		t.Fatal(err)
	}
	linked := dir + "/linked"
	if err := os.Symlink(own, dir+"/below/link"); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(dir+"/below/link", linked); err != nil {
		t.Fatal(err)
	}
	honest := dir + "/honest"
	if err := os.Symlink("own", honest); err != nil {
		t.Fatal(err)
	}
	b.file("home/u/w/guard", guardScript, 0o755)
	b.file("home/u/w/cat", pass, 0o755)
	for at := b.Cwd; at != "/tmp" && at != "/"; at = filepath.Dir(at) {
		if err := os.Chmod(at, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Chown(b.Cwd, client, client); err != nil {
		t.Fatal(err)
	}
	b.env.Caller.UID, b.env.Caller.GID, b.env.Caller.Groups = client, client, []int{client}
	b.env.Managed = policy.Grant{PrivateTmp: true, Paths: []policy.PathGrant{{Path: dir, Access: policy.GrantRead, Source: administrator()}}}
	for _, tt := range []struct{ command, reason string }{
		{own, "guarded"},
		{honest + " --strict", "guarded"},
		{"sh " + own, "guarded"},
		{"cd " + dir + " && ./own", "guarded"},
		{own[1:], "guarded"}, // relative to /
		{theirs, "belongs to uid 1000"},
		{theirs[1:], "belongs to uid 1000"},
		{"sh " + theirs, "belongs to uid 1000"},
		{"sh -c '" + theirs + "'", "belongs to uid 1000"},
		{open, "can be written by the client"},
		{group, "can be written by the client"},
		{below, "belongs to uid 1000"},
		{linked, "belongs to uid 1000"},
		{"cd " + dir + "/below && ./guard", "belongs to uid 1000"},
		{`"$SANDBOXD_PROJECT_DIR"/guard`, "lies in the workspace"},
		{"sh " + b.Cwd + "/guard", "lies in the workspace"},
		{`cd "$CLAUDE_PROJECT_DIR" && ./guard`, "lies in the workspace"},
		{`cd "$CLAUDE_PROJECT_DIR" && cat; sh ` + own, "guarded"}, // cat is none of its files, though there is one
		{"./guard", "failed: exit status 127"},
		{"guard", "failed: exit status 127"},
	} {
		res := b.fire(HookSpec{Event: "PreToolUse", Command: tt.command, Source: administrator()}, HookEvent{})
		if !res.Blocked || !strings.Contains(res.Reason, tt.reason) {
			t.Errorf("%s: blocked %v because of %q, want %q", tt.command, res.Blocked, res.Reason, tt.reason)
		}
	}
}

// What commands of the workspace leave in their home is nothing to a managed hook,
// with and without a mount view; for a hook of the user it is there.
func TestManagedHookHasAHomeOfItsOwn(t *testing.T) {
	for _, tier := range []exec.Tier{exec.TierAuto, exec.TierBase} {
		b := newHookBench(t)
		b.env.Tier = tier
		if tier == exec.TierBase {
			b.env.View.MountView = false
		}
		leave := HookSpec{Event: "PreToolUse", Command: `echo x > ~/.planted; echo x > "$TMPDIR/planted"; ls -A ~ >&2; exit 2`}
		look := HookSpec{Event: "PreToolUse", Command: `ls -A ~ >&2; ls -A "$TMPDIR" >&2; exit 2`}
		b.fire(leave, HookEvent{})
		if res := b.fire(look, HookEvent{}); !strings.Contains(res.Reason, ".planted") {
			t.Errorf("tier %v: the user's hook finds %q", tier, res.Reason)
		}
		leave.Source, look.Source = administrator(), administrator()
		if res := b.fire(leave, HookEvent{}); !strings.Contains(res.Reason, "planted") {
			t.Errorf("tier %v: a managed hook has no home: %q", tier, res.Reason)
		}
		if res := b.fire(look, HookEvent{}); strings.Contains(res.Reason, "planted") {
			t.Errorf("tier %v: a managed hook finds %q", tier, res.Reason)
		}
	}
}

// A hook of the client cannot change a call behind the administrator's back.
func TestManagedHookJudgesWhatWillRun(t *testing.T) {
	change := `echo '{"hookSpecificOutput":{"updatedInput":{"command":"touch forbidden"}}}'`
	guard := `grep -q forbidden && { echo no >&2; exit 2; }; exit 0`
	for _, client := range []policy.Source{user(), {Kind: policy.SourceCLI}} {
		w := newWorld(t, func(p *PolicyInForce) {
			p.Config.Rules = append(p.Config.Rules, rule(policy.AllowRule, "run_bash"))
			p.Hooks = []HookSpec{{Event: "PreToolUse", Command: guard, Source: administrator()}, {Event: "PreToolUse", If: "Bash(touch made)", Command: change, Source: client}}
		}, func(w *world) { w.opts.Hooks = registry(t) })
		if res := w.bash("touch made"); res.Status != StatusBlocked || w.made("forbidden") {
			t.Errorf("%v: status %s, %q, made %v", client, res.Status, res.Error, w.made("forbidden"))
		}
		if res := w.bash("touch other"); res.Status != StatusOK || !w.made("other") {
			t.Errorf("%v: an honest call: %s %q", client, res.Status, res.Error)
		}
	}
}

// Which calls concern a managed hook does not depend on where the client says that
// its home is.
func TestManagedHookKnowsTheHomeItself(t *testing.T) {
	a, ok := accountOf(os.Getuid())
	if !ok || a.home == "" {
		require.Missing(t, require.Host, "no passwd entry")
	}
	b := newHookBench(t) // HOME leads elsewhere
	s := HookSpec{Event: "PreToolUse", If: "Read(~/.secret/**)", Command: "exit 2", Source: administrator()}
	read := func(path string) bool {
		return b.fire(s, HookEvent{Tool: "read_file", Args: policy.Args{"path": path}}).Blocked
	}
	if !read(a.home+"/.secret/key") || read(filepath.Join(b.Home, "other")) {
		t.Errorf("the rule about %s: %v, another file: %v", a.home, read(a.home+"/.secret/key"), read(filepath.Join(b.Home, "other")))
	}
}

// The start of a hook without anything remembered costs a look at the system.
func BenchmarkManagedHook(b *testing.B) {
	for _, s := range []policy.Source{administrator(), user()} {
		b.Run(fmt.Sprint(s.Kind), func(b *testing.B) {
			h := &hookBench{fakeHost: newHost(b)}
			host := probedHost()
			h.env = HookEnvironment{Runner: exec.NewRunner(host), Caller: h.Caller, View: HostView{MountView: host.MountView}, Workspace: h.Cwd, Grant: policy.Grant{PrivateTmp: true}}
			r, err := NewHookRegistry(HookRegistryOptions{Specs: []HookSpec{{Event: "PreToolUse", Command: "exit 0", Source: s}}, Env: h.env})
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				if r.Fire(b.Context(), nil, HookEvent{Event: "PreToolUse", Tool: "run_bash", Args: policy.Args{"command": "true"}}).Blocked {
					b.Fatal("blocked")
				}
			}
		})
	}
}
