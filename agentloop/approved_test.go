package agentloop

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sandboxd/policy"
	"sandboxd/test/require"
)

// openWorld has a person, and no private /tmp: what a test makes below /tmp would be
// another file in it.
func openWorld(t *testing.T) *world {
	t.Helper()
	w := newWorld(t, func(p *PolicyInForce) { p.Config.PrivateTmp, p.Grant.PrivateTmp = false, false })
	t.Cleanup(w.asks.Attach(w.peer(), "test"))
	if err := w.s.AddRule(policy.AllowRule, "run_bash(./unread)", "test"); err != nil {
		t.Fatal(err)
	}
	return w
}

// answered puts the call of a script to a person and gives the answer.
func (w *world) answered(script string, a AskAnswer) (PendingQuestion, ToolResult) {
	w.t.Helper()
	done := w.later(script)
	q := w.asked(1)[0]
	if _, err := w.asks.Answer(w.t.Context(), q.ID, w.peer(), a); err != nil {
		w.t.Fatalf("%s: %v", script, err)
	}
	return q, <-done
}

// What a person approved by name is what happens, also to names that are made or
// removed; where it is not, the question says so beforehand and the result after.
func TestApprovedIsWhatHappens(t *testing.T) {
	const dirText = "opens the directory OUT for writing, with all below it: "
	for _, tt := range []struct {
		name, script string
		// want is a file and its content afterwards; "-" for one that is not there.
		file, want string
		// opens is said in the question; with other also in the notes.
		opens string
		other bool
	}{
		{"a file that is there", "echo new > OUT/e", "OUT/e", "new\n", "opens OUT/e for writing", false},
		{"reading", "cat OUT/e > copy", "home/u/w/copy", "old\n", "opens OUT/e for reading", false},
		{"a new file", "echo new > OUT/f", "OUT/f", "new\n", dirText + "OUT/f is not there yet", true},
		{"a new file by a program", "touch OUT/f", "OUT/f", "", dirText + "OUT/f is not there yet", true},
		{"a new directory", "mkdir OUT/d && echo new > OUT/d/f", "OUT/d/f", "new\n", dirText + "OUT/d is not there yet", true},
		{"removing", "rm OUT/e", "OUT/e", "-", dirText + "OUT/e is removed", true},
		{"renaming", "mv OUT/e OUT/f", "OUT/f", "old\n", dirText + "OUT/", true},
		{"replacing a link", "ln -sfn /nowhere OUT/link", "OUT/link", "-", dirText + "OUT/link is removed", true},
		{"renaming a link", "mv OUT/link OUT/f", "OUT/f", "old\n", dirText + "OUT/", true},
		{"a new file in the home", "echo new > ~/made", "home/u/made", "-", "HOST/home/u/made is not opened: it is not there yet, and the command has a private home in place of yours", true},
		{"a file of the home that is there", "echo new > ~/there", "home/u/there", "new\n", "opens HOST/home/u/there for writing", false},
		{"a new file in a directory of the home", "echo new > ~/project/f", "home/u/project/f", "new\n", "opens the directory HOST/home/u/project for writing", true},
		{"a new file beside secrets", "echo new > ~/.ssh/f", "home/u/.ssh/f", "-", "its directory holds secrets", true},
		{"a directory that is not there", "mkdir -p OUT/a/b/c", "OUT/a", "-", "no directory OUT/a/b is there", true},
		{"a directory above the home", "touch HOST/home/made", "home/made", "-", "its directory holds secrets", true},
		{"a pattern", "cat OUT/? > copy", "home/u/w/copy", "", "is no single path", true},
		{"a protected name", "echo '# x' >> .git/config", "home/u/w/.git/config", "[core]\n", "is not opened: it is a protected name", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := openWorld(t)
			out := filepath.Dir(w.host.file("outside/e", "old\n", 0o644))
			w.host.file("home/u/there", "old\n", 0o644)
			w.host.dir("home/u/project")
			w.host.file("home/u/.ssh/id_rsa", "secret\n", 0o600)
			w.host.file("home/u/w/.git/config", "[core]\n", 0o644)
			w.host.link(w.host.path("home/u/there"), "outside/link")
			if tt.name == "a protected name" && !w.opts.Host.MountView {
				require.NotHere(t, "without a mount view it is looked at after the run")
			}
			real := func(s string) string { return strings.NewReplacer("OUT", out, "HOST", w.host.root).Replace(s) }
			q, res := w.answered(real(tt.script), AskAnswer{Verdict: policy.Allow})
			file := real(tt.file)
			if !filepath.IsAbs(file) {
				file = w.host.path(file)
			}
			got := "-"
			if text, err := os.ReadFile(file); err == nil {
				got = string(text)
			}
			if got != tt.want {
				t.Errorf("%s is %q, want %q; %s %q %s", file, got, tt.want, res.Status, res.Output, res.Error)
			}
			has := func(s string) bool { return strings.Contains(s, real(tt.opens)) }
			if !slices.ContainsFunc(q.Opens, has) {
				t.Errorf("the question says %q", q.Opens)
			}
			if tt.other && !slices.ContainsFunc(res.Notes, has) {
				t.Errorf("the result says %q", res.Notes)
			}
			for _, a := range res.Plan.Added { // nothing is opened that was not said
				if !strings.Contains(strings.Join(q.Opens, "\n"), a.Path) {
					t.Errorf("added %s, and the question says %q", a.Path, q.Opens)
				}
			}
			if tt.name == "renaming a link" && strings.Contains(strings.Join(q.Opens, "\n"), "home/u/there") {
				t.Errorf("what a link leads to is opened: %q", q.Opens)
			}
			if secret, err := os.ReadFile(w.host.path("home/u/.ssh/id_rsa")); err != nil || string(secret) != "secret\n" {
				t.Error("a secret is gone")
			}
		})
	}
}

// The opening is of one call, and of what was said: in the same directory, a call
// that nobody was asked about makes nothing.
func TestOpeningEndsWithItsCall(t *testing.T) {
	w := openWorld(t)
	out := filepath.Dir(w.host.file("outside/e", "old\n", 0o644))
	if _, res := w.answered("touch "+out+"/f", AskAnswer{Verdict: policy.Allow}); res.Status != StatusOK {
		t.Fatalf("%s %s %q", res.Status, res.Output, res.Notes)
	}
	if res := w.unread("touch " + out + "/g; echo new > " + out + "/e"); !res.Ran {
		t.Errorf("%s %q", res.Status, res.Error)
	}
	if names, _ := os.ReadDir(out); len(names) != 2 {
		t.Errorf("made %v", names)
	}
	if _, res := w.answered("touch "+out+"/h", AskAnswer{Verdict: policy.Deny}); res.Ran {
		t.Error("a denied call ran")
	}
}

// A path that leads elsewhere since a person approved it opens nothing.
func TestApprovedPathThatMovedIsRefused(t *testing.T) {
	for script, victim := range map[string]string{"echo new > OUT/e": "e", "touch OUT/f": "f", "cat OUT/e; true": "-"} {
		w := openWorld(t)
		out := filepath.Dir(w.host.file("outside/e", "old\n", 0o644))
		other := filepath.Dir(w.host.file("other/e", "theirs\n", 0o644))
		done := w.later(strings.ReplaceAll(script, "OUT", out))
		q := w.asked(1)[0]
		if err := os.Rename(out, out+".moved"); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(other, out); err != nil {
			t.Fatal(err)
		}
		if _, err := w.asks.Answer(t.Context(), q.ID, w.peer(), AskAnswer{Verdict: policy.Allow}); err != nil {
			t.Fatal(err)
		}
		res := <-done
		text, _ := os.ReadFile(other + "/e")
		if _, err := os.Lstat(other + "/" + victim); res.Ran && strings.Contains(res.Output, "theirs") || string(text) != "theirs\n" || victim == "f" && err == nil {
			t.Errorf("%s: ran %v, %q, %q", script, res.Ran, res.Output, text)
		}
		if said := res.Error + strings.Join(res.Notes, "\n"); !strings.Contains(said, "since it was approved") && !strings.Contains(said, "is not opened") {
			t.Errorf("%s: ran %v, said %q", script, res.Ran, said)
		}
	}
}

// "Always" gives this call what "y" gives, and the later ones what the question said.
func TestAlwaysGivesWhatYesGives(t *testing.T) {
	w := openWorld(t)
	file := w.host.file("outside/e", "wanted\n", 0o644)
	beside := w.host.file("outside/beside", "hush\n", 0o644)
	q, res := w.answered("cat "+file, AskAnswer{Verdict: policy.Allow, Always: true})
	if res.Output != "wanted\n" || res.Decision.Reason.Type() != "user" {
		t.Errorf("this call: %q %s %v", res.Output, res.Error, res.Decision.Reason)
	}
	if want := []string{"run_bash(cat " + file + ")", "effect(read " + file + ")"}; !slices.Equal(q.AlwaysRules, want) {
		t.Errorf("kept %q, want %q", q.AlwaysRules, want)
	}
	if !strings.Contains(strings.Join(q.AlwaysAllows, "\n"), "every tool and command to read "+file) {
		t.Errorf("the question says %q", q.AlwaysAllows)
	}
	for range 2 {
		if res := w.bash("cat " + file); res.Output != "wanted\n" || res.Decision.Reason.Type() != "rule" {
			t.Errorf("a later call: %q %s %v", res.Output, res.Error, res.Decision.Reason)
		}
	}
	if res := w.unread("cat " + beside); !res.Ran || strings.Contains(res.Output, "hush") {
		t.Errorf("its neighbour is open too: %q", res.Output)
	}
	// Where a rule cannot hold what is read, none is offered.
	done := w.later("cat " + filepath.Dir(file) + "/besid?")
	if q := w.asked(1)[0]; len(q.AlwaysRules) != 0 {
		t.Errorf("offered %q", q.AlwaysRules)
	} else if _, err := w.asks.Answer(t.Context(), q.ID, w.peer(), AskAnswer{Verdict: policy.Deny}); err != nil {
		t.Fatal(err)
	}
	<-done
	// A path that can never be granted does not stop what has nothing to do with it.
	if err := w.s.AddRule(policy.AllowRule, "effect(read "+w.host.dir("home/u/.local/state/sandboxd/daemon")+")", "test"); err != nil {
		t.Fatal(err)
	}
	if res := w.bash("cat " + file); res.Output != "wanted\n" || !strings.Contains(strings.Join(res.Warnings, "\n"), "is never granted") {
		t.Errorf("beside a rule that cannot be: %q %s %q", res.Output, res.Error, res.Warnings)
	}
}
