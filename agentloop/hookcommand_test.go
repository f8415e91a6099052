package agentloop

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sandboxd/exec"
	"sandboxd/policy"
)

// probedHost is what this machine can enforce, probed once.
var probedHost = sync.OnceValue(exec.ProbeHost)

// hookBench runs command hooks for a workspace of its own.
type hookBench struct {
	*fakeHost
	env     HookEnvironment
	notices []string
	mu      sync.Mutex
}

func newHookBench(t *testing.T) *hookBench {
	t.Helper()
	b := &hookBench{fakeHost: newHost(t)}
	h := probedHost()
	b.env = HookEnvironment{Runner: exec.NewRunner(h), Caller: b.Caller, View: HostView{MountView: h.MountView}, Workspace: b.Cwd,
		Grant: policy.Grant{PrivateTmp: true}, Mode: func() policy.Mode { return policy.ModeDefault }}
	return b
}

// trustNow trusts files with the content that they have now.
func (b *hookBench) trustNow(files ...string) {
	b.t.Helper()
	trusted := map[string]string{}
	for _, f := range files {
		content, err := os.ReadFile(filepath.Join(b.Cwd, f))
		if err != nil {
			b.t.Fatal(err)
		}
		trusted[filepath.Join(b.Cwd, f)] = string(content)
	}
	b.env.Trusts = func(path string, content []byte) bool {
		want, ok := trusted[path]
		return ok && want == string(content)
	}
}

func user() policy.Source {
	return policy.Source{Kind: policy.SourceUser, File: "policy.toml", Line: 3}
}
func project() policy.Source {
	return policy.Source{Kind: policy.SourceProject, File: "sandboxd.toml", Line: 7}
}

func (b *hookBench) registry(specs ...HookSpec) *HookRegistry {
	b.t.Helper()
	r, err := NewHookRegistry(HookRegistryOptions{Specs: specs, Env: b.env, Notify: func(n HookNotice) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.notices = append(b.notices, n.Text)
	}})
	if err != nil {
		b.t.Fatal(err)
	}
	return r
}

// fire asks one hook of the user about a call.
func (b *hookBench) fire(s HookSpec, e HookEvent) HookChainResult {
	b.t.Helper()
	if s.Source == (policy.Source{}) {
		s.Source = user()
	}
	if e.Event == "" {
		e.Event = s.Event
	}
	if e.Tool == "" {
		e.Tool, e.Args = "run_bash", policy.Args{"command": "make test"}
	}
	e.Session, e.Call = "s1", "call1"
	return b.registry(s).Fire(b.t.Context(), nil, e)
}

func (b *hookBench) noCopiesLeft() {
	b.t.Helper()
	if left, _ := filepath.Glob(filepath.Join(b.StateDir, "hooks", "*")); len(left) > 0 {
		b.t.Errorf("copies are left: %v", left)
	}
}

func TestHookExitCodesAndAnswers(t *testing.T) {
	b := newHookBench(t)
	for _, tt := range []struct {
		name, event, command string
		action               HookAction
		reason               string
		context              string
		notice               string
	}{
		{"exit 0 and nothing printed", "PreToolUse", "true", HookContinue, "", "", ""},
		{"exit 2 with a reason on stderr", "PreToolUse", "echo not here >&2; exit 2", HookBlock, "not here", "", ""},
		{"exit 2 with a reason on stdout", "PreToolUse", "echo not here; exit 2", HookBlock, "not here", "", ""},
		{"exit 2 with both shows both", "PreToolUse", "echo out; echo err >&2; exit 2", HookBlock, "err\nout", "", ""},
		{"exit 2 with nothing blocks", "PreToolUse", "exit 2", HookBlock, "blocked without a reason (exit status 2)", "", ""},
		{"exit 2 with an allow blocks", "PreToolUse", `echo '{"decision":"allow","reason":"fine"}'; exit 2`, HookBlock, "fine", "", ""},
		{"another status blocks and says why", "PreToolUse", "echo broken >&2; exit 3", HookBlock, "failed: exit status 3: broken", "", ""},
		{"deny in the nested form", "PreToolUse", `echo '{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny","permissionDecisionReason":"no"}}'`, HookBlock, "no", "", ""},
		{"deny at the top level", "PreToolUse", `echo '{"permissionDecision":"deny"}'`, HookBlock, "", "", ""},
		{"block in the old form", "PreToolUse", `echo '{"decision":"block","reason":"old"}'`, HookBlock, "old", "", ""},
		{"deny with exit 1", "PreToolUse", `echo '{"decision":"deny","reason":"no"}'; exit 1`, HookBlock, "no", "", ""},
		{"the strictest of two decisions", "PreToolUse", `echo '{"decision":"approve","hookSpecificOutput":{"permissionDecision":"deny"}}'`, HookBlock, "", "", ""},
		{"ask", "PreToolUse", `echo '{"hookSpecificOutput":{"permissionDecision":"ask","permissionDecisionReason":"sure?"}}'`, HookPermissionRequired, "sure?", "", ""},
		{"allow is no more than continue", "PreToolUse", `echo '{"decision":"approve"}'`, HookContinue, "", "", ""},
		{"changed input with context", "PreToolUse", `echo '{"hookSpecificOutput":{"permissionDecision":"allow","updatedInput":{"command":"ls"},"additionalContext":"careful"}}'`, HookMutateInput, "", "careful", ""},
		{"continue false blocks", "PreToolUse", `echo '{"continue":false,"stopReason":"enough"}'`, HookBlock, "enough", "", ""},
		{"a message for the user", "PreToolUse", `echo '{"systemMessage":"hello"}'`, HookContinue, "", "", "hello"},
		{"PostToolUse exit 2 tells the model", "PostToolUse", "echo tests fail >&2; exit 2", HookContinue, "", "tests fail", ""},
		{"PostToolUse block tells the model", "PostToolUse", `echo '{"decision":"block","reason":"lint"}'`, HookContinue, "", "lint", ""},
		{"PostToolUse other status tells the user", "PostToolUse", "echo no linter >&2; exit 1", HookContinue, "", "", "exit status 1: no linter"},
		{"PostToolUse text tells the user", "PostToolUse", "echo formatted", HookContinue, "", "", "formatted"},
		{"PostToolUse changes the output", "PostToolUse", `echo '{"hookSpecificOutput":{"updatedToolOutput":"clean"}}'`, HookMutateOutput, "", "", ""},
		{"SessionStart text is context", "SessionStart", "echo on branch main", HookContinue, "", "on branch main", ""},
		{"UserPromptSubmit text is context", "UserPromptSubmit", "echo it is Monday", HookContinue, "", "it is Monday", ""},
		{"UserPromptSubmit blocks", "UserPromptSubmit", "echo secret in the prompt >&2; exit 2", HookBlock, "secret in the prompt", "", ""},
		{"Stop goes on", "Stop", "echo run the tests first >&2; exit 2", HookBlock, "run the tests first", "", ""},
		{"Stop that fails lets stop", "Stop", "exit 1", HookContinue, "", "", "exit status 1"},
		{"SessionEnd cannot block", "SessionEnd", "echo bye >&2; exit 2", HookContinue, "", "", "bye"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b.t, b.notices = t, nil
			res := b.fire(HookSpec{Event: tt.event, Command: tt.command}, HookEvent{})
			if res.Action != tt.action || res.Reason != tt.reason || strings.Join(res.Context, "|") != tt.context || strings.Join(b.notices, "|") != tt.notice {
				t.Errorf("action %v, reason %q, context %q, notices %q; want %v, %q, %q, %q", res.Action, res.Reason, res.Context, b.notices, tt.action, tt.reason, tt.context, tt.notice)
			}
			if tt.action == HookMutateInput && res.Args["command"] != "ls" || tt.action == HookMutateOutput && (res.Output == nil || *res.Output != "clean") {
				t.Errorf("args %v, output %v", res.Args, res.Output)
			}
		})
	}
}

// failures are all the ways in which a hook can give no answer.
var failures = []struct {
	name, command, reason string
	timeout               time.Duration
}{
	{"exits with another status", "exit 1", "exit status 1", 0},
	{"is not there", "/usr/bin/no-such-guard", "exit status 127", 0},
	{"is no program", "/etc/passwd", "exit status 126", 0},
	{"is no shell text", "if", "exit status 2", 0}, // dash exits 2: a block of its own
	{"hangs", "sleep 1000", "no answer within 300ms", 300 * time.Millisecond},
	{"hangs and ignores TERM", "trap '' TERM; while :; do sleep 1000; done", "no answer within 300ms", 300 * time.Millisecond},
	{"kills itself", "kill -9 $$", "signal 9", 0},
	{"crashes", "kill -SEGV $$", "signal 11", 0},
	{"prints rubbish", "echo ok, go ahead", "no answer", 0},
	{"prints half an object", `echo '{"decision":"al'`, "no answer", 0},
	{"prints an array", `echo '[]'`, "no answer", 0},
	{"prints two objects", `echo '{} {"decision":"deny"}'`, "no answer", 0},
	{"gives a name twice", `echo '{"decision":"deny","decision":"allow"}'`, "given twice", 0},
	{"gives a nested name twice", `echo '{"hookSpecificOutput":{"permissionDecision":"deny","permissionDecision":"allow"}}'`, "given twice", 0},
	{"misspells the decision", `echo '{"permisionDecision":"deny"}'`, `unknown field "permisionDecision"`, 0},
	{"writes the decision in capitals", `echo '{"DECISION":"deny"}'`, `unknown field "DECISION"`, 0},
	{"decides an unknown word", `echo '{"decision":"perhaps"}'`, "decision is perhaps", 0},
	{"decides by a number", `echo '{"decision":1}'`, "decision is 1", 0},
	{"answers another event", `echo '{"hookSpecificOutput":{"hookEventName":"Stop","permissionDecision":"allow"}}'`, "hookEventName", 0},
	{"changes the input to a text", `echo '{"updatedInput":"rm"}'`, "updatedInput is no object", 0},
	{"prints bytes that are no text", `printf '{"reason":"\377"}'`, "not UTF-8", 0},
	{"prints too much", "head -c 1200000 /dev/zero", "printed more than 1024 KiB", 0},
	{"prints without end", "yes", "printed more than 1024 KiB", 0},
	{"prints too much on stderr", "head -c 1200000 /dev/zero >&2; exit 0", "printed more than 1024 KiB", 0},
}

func TestFailingHookBlocksUnlessItMayFail(t *testing.T) {
	b := newHookBench(t)
	for _, tt := range failures {
		t.Run(tt.name, func(t *testing.T) {
			b.t, b.notices = t, nil
			start := time.Now()
			s := HookSpec{Event: "PreToolUse", Command: tt.command, Timeout: tt.timeout}
			res := b.fire(s, HookEvent{})
			if !res.Blocked || !strings.Contains(res.Reason+"exit status 2", tt.reason) {
				t.Errorf("blocked %v, reason %q; want a block because of %q", res.Blocked, res.Reason, tt.reason)
			}
			if d := time.Since(start); d > 20*time.Second {
				t.Errorf("it took %v", d)
			}
			if tt.reason == "exit status 2" {
				return
			}
			s.ContinueOnFailure = true
			res = b.fire(s, HookEvent{})
			if res.Blocked || len(b.notices) != 1 || !strings.Contains(b.notices[0], tt.reason) || len(res.Failed) != 1 {
				t.Errorf("on_failure = continue: blocked %v, the user was told %q", res.Blocked, b.notices)
			}
		})
	}
}

func TestFailingHookInADecision(t *testing.T) {
	b := newHookBench(t)
	decide := func(s HookSpec) policy.Decision {
		s.Event, s.Source = "PreToolUse", user()
		e, err := policy.NewEngine(policy.Config{Default: policy.Allow, Workspace: b.Cwd, Home: b.Home, Hooks: b.registry(s).PreToolUse(nil)})
		if err != nil {
			t.Fatal(err)
		}
		return e.Decide(t.Context(), bashCall("true"))
	}
	d := decide(HookSpec{Command: "exit 3"})
	if d.Verdict != policy.Deny || d.Reason.String() != "hook exit 3: failed: exit status 3" {
		t.Errorf("a failing hook: %v because of %v", d.Verdict, d.Reason)
	}
	d = decide(HookSpec{Command: "exit 3", ContinueOnFailure: true})
	if d.Verdict != policy.Allow || !strings.Contains(hookStage(d), "failed: exit status 3") || !slices.Equal(b.notices, []string{"exit status 3"}) {
		t.Errorf("a failing hook that may fail: %v, trace %q, notices %q", d.Verdict, hookStage(d), b.notices)
	}
	d = decide(HookSpec{Command: "exit 3", Matcher: "Edit|Write"})
	if d.Verdict != policy.Allow || hookStage(d) != "" {
		t.Errorf("a hook for other tools: %v, trace %q", d.Verdict, hookStage(d))
	}
}

// What a hook tries is judged from outside, by its effect.
func TestHookIsConfined(t *testing.T) {
	b := newHookBench(t)
	b.file("home/u/.ssh/id", "key", 0o600)
	b.file("home/u/w/data", "old", 0o644)
	b.env.Caller.Environ = append(b.env.Caller.Environ, "GITHUB_TOKEN=ghp_0123456789abcdefghijklmnop")
	for _, tt := range []struct{ name, try string }{
		{"write the workspace", "echo new > $PWD/dat''a"},
		{"make a file in the workspace", "echo new > made"},
		{"remove from the workspace", "rm -f dat?; test ! -e data"},
		{"change a mode in the workspace", "chmod 777 dat?"},
		{"read a secret of the home", "cat " + b.Home + "/.ss?/id"},
		{"see a withheld variable", "test -n \"$GITHUB_TOKEN\""},
		{"write its own input", "echo x > /proc/self/fd/0"},
		{"open the network", "/bin/bash -c 'exec 3<>/dev/tcp/192.0.2.1/80 && echo open'"},
		{"see other processes", "test $(ls -d /proc/[0-9]* | wc -l) -gt 20"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b.t = t
			res := b.fire(HookSpec{Event: "PreToolUse", Command: "if (" + tt.try + ") >/dev/null 2>&1; then echo could >&2; exit 2; fi"}, HookEvent{})
			if res.Blocked {
				t.Errorf("the hook could: %s", res.Reason)
			}
		})
	}
	b.t = t
	if got, _ := os.ReadFile(b.path("home/u/w/data")); string(got) != "old" {
		t.Errorf("data holds %q", got)
	}
	if _, err := os.Stat(b.path("home/u/w/made")); err == nil {
		t.Error("a hook made a file in the workspace")
	}
	// Beside it the honest work of a hook.
	honest := "test \"$(cat dat?)\" = old && echo x > $TMPDIR/t && cat > $TMPDIR/in && grep -q 'make test' $TMPDIR/in && test \"$PWD\" = \"$CLAUDE_PROJECT_DIR\" && test $SANDBOXD_HOOK_EVENT = PreToolUse"
	if res := b.fire(HookSpec{Event: "PreToolUse", Command: honest}, HookEvent{}); res.Blocked {
		t.Errorf("honest hook: %s", res.Reason)
	}
}

func TestWriteIsForHooksOfTheUser(t *testing.T) {
	b := newHookBench(t)
	b.file("home/u/w/a.txt", "b\na\n", 0o644)
	// Row 74: format what was edited, once.
	s := HookSpec{Event: "PostToolUse", Matcher: "Edit|Write", Command: `f=$(sed -n 's/.*"file_path":"\([^"]*\)".*/\1/p'); sort -o "$f" "$f"; echo run >> log`, Write: true}
	edit := HookEvent{Tool: "Edit", Args: policy.Args{"file_path": "a.txt"}}
	b.fire(s, edit)
	b.fire(s, HookEvent{Tool: "Read", Args: policy.Args{"file_path": "a.txt"}})
	got, _ := os.ReadFile(b.path("home/u/w/a.txt"))
	log, _ := os.ReadFile(b.path("home/u/w/log"))
	if string(got) != "a\nb\n" || string(log) != "run\n" {
		t.Errorf("the formatter left %q, and ran %q", got, log)
	}
	for _, s := range []HookSpec{{Write: true}, {Network: []string{"full"}}} {
		s.Event, s.Command, s.Source = "PostToolUse", "true", project()
		_, err := NewHookRegistry(HookRegistryOptions{Specs: []HookSpec{s}, Env: b.env})
		if err == nil || !strings.Contains(err.Error(), "sandboxd.toml:7") {
			t.Errorf("a project's hook with more: %v", err)
		}
	}
}

func TestHookThatForksDiesWithItsRun(t *testing.T) {
	b := newHookBench(t)
	mark := b.path("home/u/w/alive")
	s := HookSpec{Event: "PreToolUse", Write: true, Command: "(setsid sh -c 'sleep 1; echo alive > alive' >/dev/null 2>&1 &) ; exit 0"}
	if res := b.fire(s, HookEvent{}); res.Blocked {
		t.Fatalf("blocked: %s", res.Reason)
	}
	deadline := time.Now().Add(2 * time.Second)
	for time.Now().Before(deadline) {
		if _, err := os.Stat(mark); err == nil {
			t.Fatal("what the hook left behind was still running")
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func TestHookInputIsNeverCut(t *testing.T) {
	b := newHookBench(t)
	script := "echo " + strings.Repeat("x", 3<<20) + " && rm -rf /"
	call := HookEvent{Tool: "run_bash", Args: policy.Args{"command": script}}
	if res := b.fire(HookSpec{Event: "PreToolUse", Command: "grep -q '&& rm -rf /' && { echo found >&2; exit 2; }; exit 0"}, call); res.Reason != "found" {
		t.Errorf("the end of a large call was not seen: %q", res.Reason)
	}
	if res := b.fire(HookSpec{Event: "PreToolUse", Command: "exit 0"}, call); res.Blocked {
		t.Errorf("a hook that reads nothing: %s", res.Reason)
	}
	huge := HookEvent{Tool: "file_write", Args: policy.Args{"content": strings.Repeat("x", maxHookInput)}}
	if res := b.fire(HookSpec{Event: "PreToolUse", Command: "exit 0"}, huge); !res.Blocked || !strings.Contains(res.Reason, "larger than 16 MiB") {
		t.Errorf("a call past the bound: %+v", res.Reason)
	}
	raw := HookEvent{Tool: "run_bash", Args: policy.Args{"command": "cat \xff"}}
	if res := b.fire(HookSpec{Event: "PreToolUse", Command: "exit 0"}, raw); !res.Blocked || !strings.Contains(res.Reason, "UTF-8") {
		t.Errorf("a call that JSON cannot show: %+v", res.Reason)
	}
}

// A guard reads tool_input.command; a script under another name must not hide
// from it.
func TestHookSeesTheScriptUnderItsMainName(t *testing.T) {
	b := newHookBench(t)
	guard := HookSpec{Event: "PreToolUse", Command: `grep -q '"command":"rm -rf /"' && { echo found >&2; exit 2; }; exit 0`}
	for _, field := range []string{"command", "cmd", "script"} {
		if res := b.fire(guard, HookEvent{Tool: "exec_command", Args: policy.Args{field: "rm -rf /"}}); res.Reason != "found" {
			t.Errorf("the script in %q was not seen: %q", field, res.Reason)
		}
	}
}

func TestHooksOfParallelCallsDoNotMix(t *testing.T) {
	b := newHookBench(t)
	echo := `read line; id=${line##*\"tool_use_id\":\"}; id=${id%%\"*}; sleep 0.0$((${#id} % 3)); echo "{\"additionalContext\":\"$id\",\"updatedInput\":{\"command\":\"echo $id\"}}"`
	r := b.registry(HookSpec{Event: "PreToolUse", Command: echo, Source: user()}, HookSpec{Event: "PreToolUse", Command: echo, Source: user()})
	var wg sync.WaitGroup
	for i := range 24 {
		wg.Go(func() {
			id := fmt.Sprintf("call%d", i)
			res := r.Fire(t.Context(), nil, HookEvent{Event: "PreToolUse", Call: id, Tool: "run_bash", Args: policy.Args{"command": "true"}})
			if !slices.Equal(res.Context, []string{id, id}) || res.Args["command"] != "echo "+id {
				t.Errorf("%s got %+v", id, res)
			}
		})
	}
	wg.Wait()
}

func TestCancelledCallEndsItsHook(t *testing.T) {
	b := newHookBench(t)
	ctx, cancel := context.WithCancel(t.Context())
	r := b.registry(HookSpec{Event: "PreToolUse", Command: "sleep 1000", Source: user(), ContinueOnFailure: false})
	time.AfterFunc(200*time.Millisecond, cancel)
	start := time.Now()
	res := r.Fire(ctx, nil, HookEvent{Event: "PreToolUse", Tool: "run_bash"})
	if !res.Blocked || time.Since(start) > 10*time.Second || !strings.Contains(res.Reason, "context canceled") {
		t.Errorf("after %v: %+v", time.Since(start), res)
	}
}

func TestPermissionRequestHooksAnswer(t *testing.T) {
	b := newHookBench(t)
	answer := func(behavior string) HookSpec {
		return HookSpec{Event: "PermissionRequest", Source: user(), Command: `echo '{"hookSpecificOutput":{"hookEventName":"PermissionRequest","decision":{"behavior":"` + behavior + `","message":"by the book"}}}'`}
	}
	waits := askerFunc(func(ctx context.Context, _ policy.Question) (policy.Answer, error) {
		<-ctx.Done()
		return policy.Answer{}, ctx.Err()
	})
	for _, tt := range []struct {
		name    string
		specs   []HookSpec
		person  bool
		verdict policy.Verdict
		reason  string
	}{
		{"a hook allows before a person does", []HookSpec{answer("allow")}, true, policy.Allow, "hook"},
		{"a hook denies", []HookSpec{answer("deny")}, true, policy.Deny, "by the book"},
		{"a hook without an answer leaves it to others", []HookSpec{{Event: "PermissionRequest", Source: user(), Command: "true"}, answer("allow")}, false, policy.Allow, "hook"},
		{"a hook that fails never allows", []HookSpec{{Event: "PermissionRequest", Source: user(), Command: "exit 1", ContinueOnFailure: true}}, false, policy.Deny, "exit status 1"},
		{"a hook cannot change the call behind the rules", []HookSpec{{Event: "PermissionRequest", Source: user(),
			Command: `echo '{"hookSpecificOutput":{"decision":{"behavior":"allow","updatedInput":{"command":"rm"}}}}'`}}, false, policy.Deny, "updatedInput"},
		{"a hook for another tool is no answerer", []HookSpec{func() HookSpec { s := answer("allow"); s.Matcher = "Edit"; return s }()}, false, policy.Deny, "no answer"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b.t = t
			askers := b.registry(tt.specs...).Askers(nil)
			if tt.person {
				askers = append(askers, waits)
			}
			e, err := policy.NewEngine(policy.Config{Default: policy.Ask, Workspace: b.Cwd, Home: b.Home, Askers: askers})
			if err != nil {
				t.Fatal(err)
			}
			d := e.Decide(t.Context(), bashCall("make deploy"))
			if d.Verdict != tt.verdict || !strings.Contains(d.Reason.String()+fmt.Sprint(d.Trace), tt.reason) {
				t.Errorf("%v because of %v; want %v because of %s", d.Verdict, d.Reason, tt.verdict, tt.reason)
			}
		})
	}
}

func TestChildTriggersTheParentsCommandHook(t *testing.T) {
	b := newHookBench(t)
	r := b.registry(HookSpec{Event: "PreToolUse", Source: user(), Command: `cat >&2; exit 2`})
	res := r.Child("worker-1", "worker").Fire(t.Context(), nil, HookEvent{Event: "PreToolUse", Tool: "run_bash", Step: 4})
	var got map[string]any
	if err := json.Unmarshal([]byte(res.Reason), &got); err != nil || got["agent_id"] != "worker-1" || got["agent_type"] != "worker" || got["step"] != 4.0 {
		t.Errorf("the hook was told %q", res.Reason)
	}
}
