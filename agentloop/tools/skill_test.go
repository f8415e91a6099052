package tools

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sandboxd/agentloop"
	"sandboxd/policy"
)

func skillText(name, description, more string) string {
	return "---\nname: " + name + "\ndescription: " + description + "\n" + more + "---\n\n# How\nDo " + name + ".\n"
}

// skillWorld has a skill of the user and one of the checkout.
func skillWorld(t *testing.T, edit func(*agentloop.PolicyInForce)) *world {
	w := newWorld(t, nil)
	w.edit = func(p *agentloop.PolicyInForce) {
		if edit != nil {
			edit(p)
		}
		p.UseSkills(w.caller.Home, []string{filepath.Join(w.caller.ConfigDir, "skills"), filepath.Join(w.caller.Home, ".claude/skills")})
	}
	w.file(".claude/skills/release/SKILL.md", skillText("release", "Makes a release.", "allowed-tools: Bash(git push*), file_write\n"))
	w.file("../.claude/skills/review/SKILL.md", skillText("review", "Looks at a change.", ""))
	w.file("../.claude/skills/review/list.txt", "first look\n")
	w.s = w.session()
	return w
}

func TestSkillsAreListedAndLoaded(t *testing.T) {
	w := skillWorld(t, nil)
	want := "- release (of this checkout): Makes a release.\n- review: Looks at a change.\n"
	if got := Skills(t.Context(), w.s); got != want {
		t.Errorf("list\n%swant\n%s", got, want)
	}
	if got := w.ok("load_skill", policy.Args{"name": "review"}); !strings.HasSuffix(got, "\n# How\nDo review.\n") || strings.Contains(got, "---") {
		t.Errorf("loaded %q", got)
	}
	got := w.ok("load_skill", policy.Args{"name": "release"})
	for _, part := range []string{"arrived with the checkout", "Bash(git push*), file_write", "allows nothing", "Do release."} {
		if !strings.Contains(got, part) {
			t.Errorf("no %q in %q", part, got)
		}
	}
}

// The directory of a skill is a root: what lies beside the text can be read, by
// the file tool and by a command, and not written.
func TestDirectoryOfSkillsIsAReadableRoot(t *testing.T) {
	w := skillWorld(t, func(p *agentloop.PolicyInForce) { p.Config.Default = policy.Deny })
	list := filepath.Join(w.caller.Home, ".claude/skills/review/list.txt")
	if got := w.ok("read_file", policy.Args{"file_path": list}); !strings.Contains(got, "first look") {
		t.Errorf("read %q", got)
	}
	if res := w.call("file_write", policy.Args{"file_path": list, "content": "x"}); res.Status == agentloop.StatusOK {
		t.Error("the file tool wrote into a skill")
	}
	w.edit = func(p *agentloop.PolicyInForce) {
		p.UseSkills(w.caller.Home, []string{filepath.Join(w.caller.Home, ".claude/skills")})
	}
	w.s = w.session()
	w.file("w.sh", "cat "+list+"; echo bad >> "+list+"; true\n")
	if got := w.ok("run_bash", policy.Args{"command": "bash ./w.sh"}); !strings.Contains(got, "first look") {
		t.Errorf("cat: %q", got)
	}
	if data, _ := os.ReadFile(list); string(data) != "first look\n" {
		t.Errorf("a command wrote into a skill: %q", data)
	}
}

// What a skill says it may use allows nothing (requirement 97).
func TestAllowedToolsOfASkillAllowNothing(t *testing.T) {
	w := skillWorld(t, func(p *agentloop.PolicyInForce) { p.Config.Default = policy.Ask })
	before := w.call("file_write", policy.Args{"file_path": "new.txt", "content": "x"})
	w.ok("load_skill", policy.Args{"name": "release"})
	after := w.call("file_write", policy.Args{"file_path": "new.txt", "content": "x"})
	push := w.call("run_bash", policy.Args{"command": "git push --force origin main"})
	for _, res := range []agentloop.ToolResult{before, after, push} {
		if res.Status != agentloop.StatusDeny || res.Ran {
			t.Errorf("%s: %s", res.Status, res.Decision.Reason)
		}
	}
	if _, err := os.Stat(w.path("new.txt")); err == nil {
		t.Error("the file was written")
	}
}

func TestSkillNamesLeadNowhereElse(t *testing.T) {
	w := skillWorld(t, nil)
	w.file("secret/SKILL.md", skillText("secret", "Not a skill.", ""))
	for _, name := range []string{"../../secret", "release/../../../secret", "/etc", "..", ".", "", "a/b", "rel\x00ease", "Release ", strings.Repeat("a", 200)} {
		w.refused("", "load_skill", policy.Args{"name": name})
	}
	w.refused("there are: release, review", "load_skill", policy.Args{"name": "unknown"})
}

// Links in a checkout are not followed, neither for the list nor to load.
func TestLinksInACheckoutAreNoSkills(t *testing.T) {
	w := skillWorld(t, nil)
	outside := w.file("../private/SKILL.md", skillText("private", "SECRET-WORDS", ""))
	for link, target := range map[string]string{
		".claude/skills/private":     filepath.Dir(outside),
		".claude/skills/b/SKILL.md":  outside,
		".claude/skills/c/SKILL.md":  "/dev/zero",
		".sandboxd/skills":           filepath.Dir(filepath.Dir(outside)),
		".claude/skills/fifo/target": "x",
	} {
		if err := os.MkdirAll(filepath.Dir(w.path(link)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(target, w.path(link)); err != nil {
			t.Fatal(err)
		}
	}
	if list := Skills(t.Context(), w.s); strings.Contains(list, "SECRET-WORDS") || !strings.Contains(list, "- release") {
		t.Errorf("list\n%s", list)
	}
	for _, name := range []string{"private", "b", "c"} {
		if res := w.call("load_skill", policy.Args{"name": name}); res.Status == agentloop.StatusOK || strings.Contains(res.Error+res.Output, "SECRET-WORDS") {
			t.Errorf("%s: %s %q %q", name, res.Status, res.Output, res.Error)
		}
	}
}

func TestSkillsThatCannotBeUsed(t *testing.T) {
	w := skillWorld(t, func(p *agentloop.PolicyInForce) {
		denying("read_file(*/skills/hidden/*)")(p)
	})
	w.file(".claude/skills/hidden/SKILL.md", skillText("hidden", "HIDDEN-WORDS", ""))
	w.file(".claude/skills/plain/SKILL.md", "# no front matter\n")
	w.file(".claude/skills/other/SKILL.md", skillText("renamed", "x", ""))
	w.file(".claude/skills/broken/SKILL.md", "---\nname: [\n---\n")
	w.file(".claude/skills/huge/SKILL.md", skillText("huge", "Too long.", "")+strings.Repeat("x", maxSkillText))
	w.file(".claude/skills/review/SKILL.md", skillText("review", "Not the user's.", "")) // the user's own counts
	list := Skills(t.Context(), w.s)
	for _, part := range []string{"- plain: cannot be used: no front matter", "- other: cannot be used: its name is \"renamed\"", "- broken: cannot be used: front matter", "- review: Looks at a change."} {
		if !strings.Contains(list, part) {
			t.Errorf("no %q in\n%s", part, list)
		}
	}
	if strings.Contains(list, "hidden") || strings.Contains(list, "Not the user's") {
		t.Errorf("list\n%s", list)
	}
	w.refused("no skill", "load_skill", policy.Args{"name": "hidden"})
	w.refused("front matter", "load_skill", policy.Args{"name": "plain"})
	w.refused("at most 65536 are loaded", "load_skill", policy.Args{"name": "huge"})
	if got := w.ok("load_skill", policy.Args{"name": "review"}); !strings.Contains(got, "Do review") || strings.Contains(got, "checkout") {
		t.Errorf("loaded %q", got)
	}
}

// A front matter makes no more of itself than it is: the daemon of all users reads it.
func TestFrontMatterOfASkillIsNotExpanded(t *testing.T) {
	bomb := "allowed-tools:\n- &a0 [x, x, x, x, x, x, x, x, x, x]\n"
	for i := 1; i < 25; i++ {
		bomb += fmt.Sprintf("- &a%d [%s*a%d]\n", i, strings.Repeat(fmt.Sprintf("*a%d, ", i-1), 9), i-1)
	}
	w := skillWorld(t, nil)
	for name, head := range map[string]string{
		"lists": bomb, "tables": "description:\n  <<: &a {x: 1}\n", "alias": "description: &a x\nallowed-tools: *a\n", "itself": "description: &a [*a]\n",
		"brackets": "description: " + strings.Repeat("[", 8000) + "\n", "dashes": strings.Repeat("- ", 4000) + "x\n", "long": "description: " + strings.Repeat("x", 12<<10) + "\n",
		"tag": "description: !!binary aGk=\n",
	} {
		w.file(".claude/skills/"+name+"/SKILL.md", "---\nname: "+name+"\n"+head+"---\nDo it.\n")
	}
	w.file(".claude/skills/odd/SKILL.md", "---\nname: odd\ndescription: >\n  Odd, and\n  fine.\nallowed-tools: [Read, 'Bash(git *)']\nmetadata:\n  any: [thing]\n---\nDo it.\n")
	began := time.Now()
	list := Skills(t.Context(), w.s)
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("took %v", took)
	}
	for _, name := range []string{"lists", "tables", "alias", "itself", "brackets", "dashes", "long", "tag"} {
		if !strings.Contains(list, "- "+name+": cannot be used: ") {
			t.Errorf("%s is used:\n%s", name, list)
		}
	}
	if !strings.Contains(list, "- odd (of this checkout): Odd, and fine.") {
		t.Errorf("an honest one is not:\n%s", list)
	}
	if got := w.ok("load_skill", policy.Args{"name": "odd"}); !strings.Contains(got, "(Read, Bash(git *))") {
		t.Errorf("loaded: %s", got)
	}
}

// A directory that the policy hides is not opened for its skills.
func TestHiddenDirectoryOfSkills(t *testing.T) {
	w := skillWorld(t, func(p *agentloop.PolicyInForce) {
		p.Grant.Paths = append(p.Grant.Paths, policy.PathGrant{Path: "~/.claude", Access: policy.GrantDeny, Source: policy.Source{Kind: policy.SourceUser}})
	})
	if list := Skills(t.Context(), w.s); strings.Contains(list, "review") {
		t.Errorf("list\n%s", list)
	}
	if got := w.ok("run_bash", policy.Args{"command": "ls " + w.caller.Home + "/.claude/skills 2>&1; true"}); strings.Contains(got, "review\n") {
		t.Errorf("ls: %q", got)
	}
}

func TestListOfSkillsIsBounded(t *testing.T) {
	w := skillWorld(t, nil)
	for i := range 2 * maxSkills {
		name := "s" + strings.Repeat("x", i%40) + string(rune('a'+i%26)) + string(rune('a'+i/26))
		w.file(".claude/skills/"+name+"/SKILL.md", skillText(name, strings.Repeat("word ", 300), ""))
	}
	if list := Skills(t.Context(), w.s); len(list) > maxSkillsText+100 || !strings.Contains(list, "more are left out]") {
		t.Errorf("%d bytes: ...%s", len(list), list[max(0, len(list)-100):])
	}
}
