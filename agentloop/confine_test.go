package agentloop

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sandboxd/policy"
	"sandboxd/test/require"
)

// matrixRow is one deny rule, a file that it covers and one beside it that it
// does not. Both are named from the workspace.
type matrixRow struct {
	rule         string
	except       string
	covered, not string
	write        bool
}

// matrix has 50 rules, in every spelling that a file rule can have.
var matrix = []matrixRow{
	{rule: "read_file(secret.txt)", covered: "secret.txt", not: "notes.md"},
	{rule: "read_file(./secret.txt)", covered: "secret.txt", not: "notes.md"},
	{rule: "read_file(WS/secret.txt)", covered: "secret.txt", not: "notes.md"},
	{rule: "read_file(~/w/secret.txt)", covered: "secret.txt", not: "notes.md"},
	{rule: "read_file(deploy/../secret.txt)", covered: "secret.txt", not: "notes.md"},
	{rule: "read_file(**/secret.txt)", covered: "secret.txt", not: "notes.md"},
	{rule: "read_file(s?cret.txt)", covered: "secret.txt", not: "notes.md"},
	{rule: "read_file([s]ecret.txt)", covered: "secret.txt", not: "notes.md"},
	{rule: "read_file(secret.*)", covered: "secret.txt", not: "notes.md"},
	{rule: "read_file(./secret.*)", covered: "secret.txt", not: "notes.md"},
	{rule: "read_file(link.txt)", covered: "link.txt", not: "notes.md"},
	{rule: "read_file(./link.txt)", covered: "secret.txt", not: "notes.md"},
	{rule: "read_file(sp ace.txt)", covered: "sp ace.txt", not: "notes.md"},
	{rule: "read_file(./sp ace.txt)", covered: "sp ace.txt", not: "notes.md"},
	{rule: "Read(secret.txt)", covered: "secret.txt", not: "notes.md"},
	{rule: "Read(.env)", covered: ".env", not: "env"},
	{rule: "Read(.env*)", covered: ".env.local", not: "env"},
	{rule: "Read(./.env)", covered: ".env", not: "env"},
	{rule: "NotebookRead(secret.txt)", covered: "secret.txt", not: "notes.md"},
	{rule: "grep_files(deploy/**)", covered: "deploy/key.pem", not: "notes.md"},
	{rule: "Glob(deploy)", covered: "deploy/key.pem", not: "notes.md"},
	{rule: "list_dir(deploy)", covered: "deploy/sub/deep.pem", not: "notes.md"},
	{rule: "read_file(deploy)", covered: "deploy/key.pem", not: "notes.md"},
	{rule: "read_file(deploy/)", covered: "deploy/key.pem", not: "notes.md"},
	{rule: "read_file(deploy/**)", covered: "deploy/sub/deep.pem", not: "notes.md"},
	{rule: "read_file(./deploy/**)", covered: "deploy/key.pem", not: "notes.md"},
	{rule: "read_file(WS/deploy/**)", covered: "deploy/key.pem", not: "notes.md"},
	{rule: "read_file(deploy/*.pem)", covered: "deploy/key.pem", not: "deploy/read.me"},
	{rule: "read_file(./deploy/*.pem)", covered: "deploy/key.pem", not: "deploy/read.me"},
	{rule: "read_file(dep*/key.pem)", covered: "deploy/key.pem", not: "deploy/read.me"},
	{rule: "read_file(deploy/sub/*)", covered: "deploy/sub/deep.pem", not: "deploy/key.pem"},
	{rule: "read_file(deploy/**)", except: "deploy/read.me", covered: "deploy/key.pem", not: "deploy/read.me"},
	{rule: "effect(read ./secret.txt)", covered: "secret.txt", not: "notes.md"},
	{rule: "effect(read secret.txt)", covered: "secret.txt", not: "notes.md"},
	{rule: "effect(read deploy/**)", covered: "deploy/key.pem", not: "notes.md"},
	{rule: "effect(read ~/w/deploy)", covered: "deploy/key.pem", not: "notes.md"},
	{rule: "*(secret.txt)", covered: "secret.txt", not: "notes.md"},
	{rule: "*(./secret.txt)", covered: "secret.txt", not: "notes.md"},
	{rule: "file_write(secret.txt)", covered: "secret.txt", not: "notes.md", write: true},
	{rule: "file_write(./secret.txt)", covered: "secret.txt", not: "notes.md", write: true},
	{rule: "Write(WS/secret.txt)", covered: "secret.txt", not: "notes.md", write: true},
	{rule: "Edit(secret.txt)", covered: "secret.txt", not: "notes.md", write: true},
	{rule: "MultiEdit(.env*)", covered: ".env.local", not: "env", write: true},
	{rule: "file_edit(deploy/**)", covered: "deploy/key.pem", not: "notes.md", write: true},
	{rule: "file_edit(deploy/*.pem)", covered: "deploy/key.pem", not: "deploy/read.me", write: true},
	{rule: "Edit(deploy/sub/*)", covered: "deploy/sub/deep.pem", not: "deploy/key.pem", write: true},
	{rule: "effect(write ./secret.txt)", covered: "secret.txt", not: "notes.md", write: true},
	{rule: "effect(write deploy/)", covered: "deploy/key.pem", not: "notes.md", write: true},
	{rule: "effect(write ~/w/deploy)", covered: "deploy/sub/deep.pem", not: "notes.md", write: true},
	{rule: "Read(secret.txt)", covered: "secret.txt", not: "notes.md", write: true}, // hidden is not written either
}

// fill makes the files of the matrix.
func (h *fakeHost) fill() {
	for _, name := range []string{"secret.txt", "notes.md", ".env", ".env.local", "env", "sp ace.txt", "deploy/key.pem", "deploy/read.me", "deploy/sub/deep.pem"} {
		h.file("home/u/w/"+name, "content of "+name+"\n", 0o644)
	}
	_ = os.Symlink("secret.txt", h.path("home/u/w/link.txt"))
	// A program that nobody can read beforehand: it finds the name in a file.
	h.file("home/u/w/reader", "#!/bin/sh\ncat -- \"$(cat which)\"\n", 0o755)
	h.file("home/u/w/writer", "#!/bin/sh\necho added >>\"$(cat which)\"\n", 0o755)
}

// TestOneRuleForCheckFileToolAndBash: the decision, the file tool and an unread
// command in the sandbox give one answer for each of 50 rules.
func TestOneRuleForCheckFileToolAndBash(t *testing.T) {
	if len(matrix) != 50 {
		t.Errorf("%d rules", len(matrix))
	}
	w := newWorld(t, nil)
	if !w.opts.Host.MountView {
		require.Missing(t, require.UserNS, "no mount view: denials inside the workspace are refused as a whole")
	}
	w.host.fill()
	for _, row := range matrix {
		name := row.rule
		if row.write {
			name += " written"
		}
		t.Run(name, func(t *testing.T) {
			w.t = t
			deny := rule(policy.DenyRule, strings.ReplaceAll(row.rule, "WS", w.host.Cwd))
			if row.except != "" {
				deny.Except = []string{row.except}
			}
			w.edit = func(p *PolicyInForce) {
				p.Config.Rules = []policy.Rule{deny, rule(policy.AllowRule, "run_bash"), rule(policy.AllowRule, "read_file"), rule(policy.AllowRule, "file_write")}
			}
			w.s = w.session()
			row.compare(w, row.covered, true)
			row.compare(w, row.not, false)
		})
	}
}

// compare asks all three about one file.
func (row matrixRow) compare(w *world, file string, denied bool) {
	w.t.Helper()
	tool, program := "read_file", "./reader"
	args := policy.Args{"file_path": file}
	if row.write {
		tool, program = "file_write", "./writer"
		args["content"] = "content of " + file + "\n"
		if row.covered == file && strings.HasPrefix(row.rule, "Read") {
			tool = "" // the rule is about reading; what it hides cannot be written by a command
		}
	}
	if tool != "" {
		d, _ := w.s.Check(w.t.Context(), policy.Call{Tool: tool, Args: args})
		if (d.Verdict == policy.Deny) != denied {
			w.t.Errorf("%s: the check says %v (%v)", file, d.Verdict, d.Reason)
		}
		if res := w.call(tool, args); (res.Status == StatusOK) == denied {
			w.t.Errorf("%s: the tool: %v %s %s", file, res.Status, res.Output, res.Error)
		}
	}
	w.host.file("home/u/w/which", file, 0o644)
	res := w.bash(program)
	data, err := os.ReadFile(filepath.Join(w.host.Cwd, file))
	if err != nil {
		w.t.Fatal(err)
	}
	done := strings.Contains(res.Output, "content of")
	if row.write {
		done = strings.Contains(string(data), "added")
		w.host.file("home/u/w/"+file, "content of "+file+"\n", 0o644)
	}
	if done == denied || !res.Ran {
		w.t.Errorf("%s: an unread command: done %v, ran %v: %s %s", file, done, res.Ran, res.Output, res.Error)
	}
}

// A deny rule of a checkout is in force before anybody trusts it. What it leaves out is
// as it was without it, and no more: not what no run sees, not what is held read-only.
func TestExceptionsOpenNothing(t *testing.T) {
	w := newWorld(t, nil)
	if !w.opts.Host.MountView {
		require.Missing(t, require.UserNS, "no mount view: denials inside the workspace are refused as a whole")
	}
	w.host.fill()
	w.host.file("home/u/.ssh/id", "the key\n", 0o600)
	w.host.file("home/u/notes/one", "the note\n", 0o600)
	w.host.file("home/u/w/.git/HEAD", "ref: refs/heads/main\n", 0o644)
	w.host.file("home/u/w/.git/config", "[core]\n", 0o644)
	w.host.file("home/u/w/.git/hooks/pre-commit", "#!/bin/sh\n", 0o755)
	w.host.file("home/u/w/.claude/settings.json", "{}\n", 0o644)
	project := func(pattern string, except ...string) policy.Rule {
		for i := range except {
			except[i] = w.host.path("home/u/" + except[i])
		}
		return policy.Rule{Kind: policy.DenyRule, Pattern: strings.ReplaceAll(pattern, "HOME", w.host.path("home/u")), Except: except, Source: policy.Source{Kind: policy.SourceProject}}
	}
	w.edit = func(p *PolicyInForce) {
		p.Config.Rules = []policy.Rule{rule(policy.AllowRule, "run_bash"),
			project("effect(read HOME/.ssh)", ".ssh/id"),
			project("effect(read HOME/notes)", "notes/one"),
			project("effect(write HOME/w/.git)", "w/.git/config", "w/.git/hooks", "w/.git/HEAD"),
			project("effect(write HOME/w/.claude)", "w/.claude/settings.json"),
			project("effect(read HOME/w/deploy)", "w/deploy/read.me"),
		}
	}
	w.s = w.session()
	for _, name := range []string{".git/config", ".git/hooks/pre-commit", ".git/hooks/post-commit", ".claude/settings.json"} {
		res := w.unread("echo changed >>" + name + "; true")
		if data, _ := os.ReadFile(w.host.path("home/u/w/" + name)); strings.Contains(string(data), "changed") || !res.Ran {
			t.Errorf("%s: %q, ran %v: %s", name, data, res.Ran, res.Output)
		}
	}
	if res := w.unread("cat " + w.host.path("home/u/.ssh/id") + " " + w.host.path("home/u/notes/one")); strings.Contains(res.Output, "the ") || !res.Ran {
		t.Errorf("read: ran %v: %s %s", res.Ran, res.Output, res.Error)
	}
	// What was open stays so.
	res := w.unread("cat deploy/read.me; echo added >>.git/HEAD; cat deploy/key.pem")
	if head, _ := os.ReadFile(w.host.path("home/u/w/.git/HEAD")); !strings.Contains(res.Output, "content of read.me") && !strings.Contains(res.Output, "content of deploy/read.me") ||
		!strings.Contains(string(head), "added") || strings.Contains(res.Output, "content of deploy/key.pem") {
		t.Errorf("what the rules leave out: %s %s, HEAD %q", res.Output, res.Error, head)
	}
	// A grant of the user's own opens what a rule leaves out of what it closes.
	w.edit = func(edit func(*PolicyInForce)) func(*PolicyInForce) {
		return func(p *PolicyInForce) {
			edit(p)
			p.Grant.Paths = append(p.Grant.Paths, policy.PathGrant{Path: w.host.path("home/u/notes"), Access: policy.GrantRead, Source: policy.Source{Kind: policy.SourceProject}})
		}
	}(w.edit)
	w.s = w.session()
	if res := w.unread("cat " + w.host.path("home/u/notes/one")); !strings.Contains(res.Output, "the note") {
		t.Errorf("granted, and left out of a denial: %s %s", res.Output, res.Error)
	}
}

// What is only held read-only, and what a rule leaves out, is not named to be opened:
// secrets of the home and our own state stay closed under a wide grant.
func TestWideGrantsStayClosedWhereNothingOpens(t *testing.T) {
	w := newWorld(t, nil)
	if !w.opts.Host.MountView {
		require.Missing(t, require.UserNS, "no mount view")
	}
	home := w.host.path("home/u")
	w.host.file("home/u/.ssh/id", "the key\n", 0o600)
	w.host.file("home/u/.aws/credentials", "the key\n", 0o600)
	w.host.file("home/u/notes/one", "the note\n", 0o600)
	w.host.file("home/u/notes/two", "the other\n", 0o600)
	grant := func(kind policy.SourceKind, access policy.PathAccess, name string) policy.PathGrant {
		return policy.PathGrant{Path: home + "/" + name, Access: access, Source: policy.Source{Kind: kind}}
	}
	closed := func(pattern string, except ...string) policy.Rule {
		return policy.Rule{Kind: policy.DenyRule, Pattern: pattern, Except: except, Source: policy.Source{Kind: policy.SourceProject}}
	}
	for name, tt := range map[string]struct {
		paths []policy.PathGrant
		rules []policy.Rule
		key   bool
	}{
		"nothing besides":    {},
		"protect":            {paths: []policy.PathGrant{grant(policy.SourceProject, policy.GrantProtect, ".ssh"), grant(policy.SourceProject, policy.GrantProtect, ".aws")}},
		"protect what is in": {paths: []policy.PathGrant{grant(policy.SourceProject, policy.GrantProtect, ".ssh/id"), grant(policy.SourceProject, policy.GrantProtect, ".aws/credentials")}},
		"no writing":         {rules: []policy.Rule{closed("effect(write " + home + "/.ssh)"), closed("effect(write " + home + "/.aws)")}},
		"an exception":       {rules: []policy.Rule{closed("effect(read "+home+"/.ssh)", home+"/.ssh/id"), closed("effect(write "+home+"/.aws)", home+"/.aws/credentials")}},
		"named":              {paths: []policy.PathGrant{grant(policy.SourceUser, policy.GrantRead, ".ssh")}, key: true},
	} {
		for _, wide := range []policy.PathAccess{policy.GrantRead, policy.GrantWrite} {
			t.Run(name+" "+string(wide), func(t *testing.T) {
				w.t = t
				w.edit = func(p *PolicyInForce) {
					p.Config.Rules = append([]policy.Rule{rule(policy.AllowRule, "run_bash"), closed("effect(read "+home+"/notes)", home+"/notes/one")}, tt.rules...)
					p.Grant.Paths = append([]policy.PathGrant{grant(policy.SourceUser, wide, "")}, tt.paths...)
				}
				w.s = w.session()
				res := w.unread("cat " + home + "/.ssh/id " + home + "/.aws/credentials " + home + "/notes/*")
				if !res.Ran || strings.Contains(res.Output, "the key") != tt.key || strings.Contains(res.Output, "the other") {
					t.Errorf("ran %v: %s %s", res.Ran, res.Output, res.Error)
				}
				if res := w.unread("cat " + home + "/notes/one"); !strings.Contains(res.Output, "the note") { // the grant, and what the rule leaves out of it
					t.Errorf("granted: %s %s", res.Output, res.Error)
				}
			})
		}
	}
}

// unread runs a script that the decision cannot read.
func (w *world) unread(script string) ToolResult {
	w.t.Helper()
	w.host.file("home/u/w/unread", "#!/bin/bash\n"+script+"\n", 0o755)
	return w.bash("./unread")
}

func denying(patterns ...string) func(*PolicyInForce) {
	return func(p *PolicyInForce) {
		for _, text := range patterns {
			p.Config.Rules = append(p.Config.Rules, rule(policy.DenyRule, text))
		}
		p.Config.Rules = append(p.Config.Rules, rule(policy.AllowRule, "run_bash"), rule(policy.AllowRule, "read_file"), rule(policy.AllowRule, "file_write"))
	}
}

// TestS024SubcommandDenialIsDecidedForWhatCanBeRead: the decision part. A script
// that can be read is denied by the rule's name; for one that cannot the answer
// says so.
func TestS024SubcommandDenialIsDecidedForWhatCanBeRead(t *testing.T) {
	w := newWorld(t, func(p *PolicyInForce) {
		p.Config.Rules = []policy.Rule{rule(policy.DenyRule, "run_bash(gh repo create*)")}
	})
	for _, script := range []string{"gh repo create x", "env A=1 gh repo create x", "bash -c 'gh repo create x'", "true && (gh  repo create x)"} {
		res := w.bash(script)
		if res.Status != StatusDeny || !strings.Contains(res.Error, "gh repo create*") {
			t.Errorf("%s: %v %s", script, res.Status, res.Error)
		}
	}
	d, _ := w.s.Check(t.Context(), policy.BashCall("agent-stub gh repo create x", ""))
	if d.Verdict == policy.Allow {
		t.Errorf("an unknown program with gh among its words: %v %v", d.Verdict, d.Reason)
	}
}

// TestS028OutsideIsOutsideForEveryWriter: by the decision where it can be read,
// by the kernel where it cannot.
func TestS028OutsideIsOutsideForEveryWriter(t *testing.T) {
	w := newWorld(t, nil)
	out := w.host.file("outside/out", "old\n", 0o666)
	w.edit = denying("effect(write "+filepath.Dir(out)+")", "effect(read "+filepath.Dir(out)+")")
	w.s = w.session()
	for _, script := range []string{"echo x > OUT", "printf x | tee OUT", "dd if=/dev/zero of=OUT count=1", "cat OUT"} {
		script = strings.ReplaceAll(script, "OUT", out)
		if res := w.bash(script); res.Status != StatusDeny || res.Ran {
			t.Errorf("%s: %v %s", script, res.Status, res.Error)
		}
		if res := w.unread(script); !res.Ran || strings.Contains(res.Output, "old") {
			t.Errorf("unread %s: %+v", script, res.Output)
		}
	}
	if data, _ := os.ReadFile(out); string(data) != "old\n" {
		t.Errorf("the file outside is %q", data)
	}
	if res := w.unread("echo x > inside && cat inside"); res.Output != "x\n" {
		t.Errorf("inside: %q %s", res.Output, res.Error)
	}
}

// TestS037EveryReaderIsStoppedAlike.
func TestS037EveryReaderIsStoppedAlike(t *testing.T) {
	w := newWorld(t, nil)
	out := w.host.file("outside/passwords", "hush\n", 0o644)
	w.edit = denying("effect(read " + out + ")")
	w.s = w.session()
	reasons := map[string]bool{}
	for _, script := range []string{"cat OUT", "head -1 OUT", "tail -n 1 OUT", "read x < OUT; echo $x"} {
		res := w.bash(strings.ReplaceAll(script, "OUT", out))
		if res.Status != StatusDeny {
			t.Errorf("%s: %v", script, res.Status)
		}
		reasons[res.Error] = true
	}
	if len(reasons) != 1 {
		t.Errorf("reasons %v", reasons)
	}
	for _, script := range []string{"cat OUT", "head -1 OUT", "python3 -c 'print(open(\"OUT\").read())'"} {
		if res := w.unread(strings.ReplaceAll(script, "OUT", out)); !res.Ran || strings.Contains(res.Output, "hush") || res.Status != StatusFail {
			t.Errorf("unread %s: %v %s", script, res.Status, res.Output)
		}
	}
}

// TestS068SecretFileIsSecretForAllTools.
func TestS068SecretFileIsSecretForAllTools(t *testing.T) {
	w := newWorld(t, denying("Read(.env.local)", "Edit(.env.local)"))
	if !w.opts.Host.MountView {
		require.Missing(t, require.UserNS, "no mount view")
	}
	file := w.host.file("home/u/w/.env.local", "KEY=hush\n", 0o644)
	for _, res := range []ToolResult{
		w.bash("cat .env.local"), w.bash("bash -c 'echo K=V >> .env.local'"), w.call("Read", policy.Args{"file_path": file}),
		w.call("Write", policy.Args{"file_path": file, "content": "x"}),
	} {
		if res.Status != StatusDeny || !strings.Contains(res.Error, ".env.local") {
			t.Errorf("%v %s", res.Status, res.Error)
		}
	}
	for _, script := range []string{"cat .e*l", "x=.env; cat $x.local", "cp .env.local copy; cat copy", "ln .env.local hard; cat hard", "echo K=V >> .env.local", "mv .env.local moved; cat moved", "rm -f .env.local"} {
		if res := w.unread(script); !res.Ran || strings.Contains(res.Output, "hush") {
			t.Errorf("unread %s: %v %q %s", script, res.Status, res.Output, res.Error)
		}
	}
	if data, err := os.ReadFile(file); string(data) != "KEY=hush\n" {
		t.Errorf("the file is %q, %v", data, err)
	}
	if res := w.unread("echo A=B > .env.test && cat .env.test"); res.Output != "A=B\n" {
		t.Errorf("a file beside it: %q", res.Output)
	}
}

// TestS072OurOwnShellIsNoSubjectOfRules.
func TestS072OurOwnShellIsNoSubjectOfRules(t *testing.T) {
	w := newWorld(t, func(p *PolicyInForce) {
		p.Config.Rules = []policy.Rule{rule(policy.DenyRule, "run_bash(bash *)"), rule(policy.DenyRule, "run_bash(zsh -c *)"), rule(policy.AllowRule, "run_bash(date *)"), rule(policy.AllowRule, "run_bash(TZ=* date *)")}
	})
	if res := w.bash("TZ=Asia/Tokyo date +%Z"); res.Status != StatusOK || !strings.Contains(res.Output, "JST") {
		t.Errorf("%v %q %s", res.Status, res.Output, res.Error)
	}
	if res := w.bash("bash -c true"); res.Status != StatusDeny {
		t.Errorf("the rule does not hold for the script itself: %v", res.Status)
	}
}

// TestPlanModeCannotWrite is row 55: a write that the decision missed fails in
// the kernel, and a file that a person approves is written.
func TestPlanModeCannotWrite(t *testing.T) {
	w := newWorld(t, denying())
	w.host.file("home/u/w/kept", "old\n", 0o644)
	w.host.file("home/u/w/approved", "old\n", 0o644)
	w.host.file("home/u/w/unread", "#!/bin/bash\necho new > kept; echo new > made; id -u\n", 0o755)
	if err := w.s.SetMode(policy.ModePlan); err != nil {
		t.Fatal(err)
	}
	res := w.bash("./unread")
	if !res.Ran || !(strings.Contains(res.Output, "Read-only file system") || strings.Contains(res.Output, "Permission denied")) {
		t.Errorf("%v %q %s", res.Status, res.Output, res.Error)
	}
	if data, _ := os.ReadFile(w.host.path("home/u/w/kept")); string(data) != "old\n" {
		t.Errorf("kept is %q", data)
	}
	if _, err := os.Stat(w.host.path("home/u/w/made")); err == nil {
		t.Error("a file was made")
	}
	w.edit = nil
	w.s = w.session()
	_ = w.s.SetMode(policy.ModePlan)
	defer w.asks.Attach(w.peer(), "test")()
	done := make(chan ToolResult, 1)
	go func() { done <- w.call("file_write", policy.Args{"file_path": "approved", "content": "new\n"}) }()
	q := w.asked(1)[0]
	if _, err := w.asks.Answer(t.Context(), q.ID, w.peer(), AskAnswer{Verdict: policy.Allow}); err != nil {
		t.Fatal(err)
	}
	res = <-done
	data, _ := os.ReadFile(w.host.path("home/u/w/approved"))
	if res.Status != StatusOK || string(data) != "new\n" || len(res.Notes) == 0 || len(res.Plan.Added) != 1 {
		t.Errorf("approved: %v %q %v %+v %s", res.Status, data, res.Notes, res.Plan.Added, res.Error)
	}
}

// TestApprovedPathIsAddedForOneCall.
func TestApprovedPathIsAddedForOneCall(t *testing.T) {
	// With a private /tmp what the test makes below /tmp would be another file.
	w := newWorld(t, func(p *PolicyInForce) { p.Config.PrivateTmp, p.Grant.PrivateTmp = false, false })
	out := w.host.file("outside/data", "wanted\n", 0o644)
	beside := w.host.file("outside/beside", "hush\n", 0o644)
	defer w.asks.Attach(w.peer(), "test")()
	done := w.later("cat " + out + "; cat " + filepath.Dir(beside) + "/besid?")
	q := w.asked(1)[0]
	if _, err := w.asks.Answer(t.Context(), q.ID, w.peer(), AskAnswer{Verdict: policy.Allow}); err != nil {
		t.Fatal(err)
	}
	res := <-done
	if !strings.Contains(res.Output, "wanted") || strings.Contains(res.Output, "hush") {
		t.Errorf("%q %s", res.Output, res.Error)
	}
	if len(res.Plan.Added) != 1 || !strings.Contains(strings.Join(res.Notes, "\n"), out+" was added for this call alone") {
		t.Errorf("added %+v, notes %q", res.Plan.Added, res.Notes)
	}
	last := w.log.rows[len(w.log.rows)-1]
	if !strings.Contains(string(last.Denials), out) {
		t.Errorf("the row does not tell: %s", last.Denials)
	}
	// The next call does not have it.
	if err := w.s.AddRule(policy.AllowRule, "run_bash(./unread)", "test"); err != nil {
		t.Fatal(err)
	}
	if res := w.unread("cat " + out); strings.Contains(res.Output, "wanted") || !res.Ran {
		t.Errorf("the next call: %q", res.Output)
	}
}

// TestEffectRulesGrantAndUnheldRulesAreReported.
func TestEffectRulesGrantAndUnheldRulesAreReported(t *testing.T) {
	w := newWorld(t, nil)
	dir := w.host.dir("cache")
	read := w.host.file("lib/data", "lib\n", 0o644)
	w.host.file("home/u/w/deep/down/.env", "hush\n", 0o644)
	w.edit = func(p *PolicyInForce) {
		denying("Read(.env)", "effect(delete ./notes)", "effect(network example.org)", "read_file(re:x+)")(p)
		p.Config.Rules = append(p.Config.Rules, rule(policy.AllowRule, "effect(write "+dir+")"), rule(policy.AllowRule, "effect(read "+read+")"))
	}
	w.s = w.session()
	res := w.unread("echo made > " + dir + "/f; cat " + read + "; echo no > " + read)
	data, _ := os.ReadFile(filepath.Join(dir, "f"))
	if string(data) != "made\n" || !strings.Contains(res.Output, "lib\n") {
		t.Errorf("granted: %q, %q %s", data, res.Output, res.Error)
	}
	if data, _ := os.ReadFile(read); string(data) != "lib\n" {
		t.Error("a read grant was written")
	}
	var gaps []string
	for _, g := range res.Exec.Enforced.Weakened {
		if strings.Contains(g.Part, "rule deny") {
			gaps = append(gaps, g.Part+": "+g.Why)
		}
	}
	text := strings.Join(gaps, "\n")
	for _, want := range []string{"Read(.env)", "effect(delete ./notes)", "re:x+"} {
		if !strings.Contains(text, want) {
			t.Errorf("not reported: %s in\n%s", want, text)
		}
	}
	if strings.Contains(text, "network") {
		t.Errorf("without a network the rule about hosts is held: %s", text)
	}
}

func TestSelfTestTriesADeniedRead(t *testing.T) {
	w := newWorld(t, denying("Read(.env)"))
	w.host.file("home/u/w/.env", "hush\n", 0o644)
	if err := w.d.SelfTest(t.Context(), w.s); err != nil {
		t.Errorf("a sound sandbox fails: %v", err)
	}
	w.edit = nil
	w.s = w.session()
	if err := w.d.SelfTest(t.Context(), w.s); err != nil {
		t.Errorf("without denials: %v", err)
	}
	// A sandbox that does not hold: the same, with what should be denied granted.
	for _, path := range []string{w.host.path("home/u/w/.env"), w.s.Workspace()} {
		r := &ToolRun{Call: ToolCall{Call: policy.Call{Tool: "run_bash"}}, Session: w.s, d: w.d, result: &ToolResult{}}
		p, err := w.d.confine(r, Command{Argv: []string{"sh", "-c", ":"}})
		if err != nil {
			t.Fatal(err)
		}
		var leak *SelfTestError
		if err := w.d.tryRead(t.Context(), p, path); !errors.As(err, &leak) || leak.Path != path {
			t.Errorf("%s can be read, and the test says %v", path, err)
		}
		p.cleanUp(r)
	}
}
