package agentloop

import (
	"errors"
	"os"
	"strings"
	"testing"

	"sandboxd/exec"
	"sandboxd/policy"
)

func TestWorkspaceIsCheckoutTopElseCwd(t *testing.T) {
	h := newHost(t)
	h.dir("home/u/plain/sub")
	git(t, h.dir("home/u/repo"), "init", "-q")
	h.dir("home/u/repo/a/b")
	h.dir("home/u/hollow/.git")
	h.dir("home/u/hollow/sub")
	h.link(h.path("home/u/repo"), "alias")
	for _, tt := range []struct{ name, cwd, want string }{
		{"no checkout", "home/u/plain/sub", "home/u/plain/sub"},
		{"below the top", "home/u/repo/a/b", "home/u/repo"},
		{"the top", "home/u/repo", "home/u/repo"},
		{"an empty .git is none", "home/u/hollow/sub", "home/u/hollow/sub"},
		{"through a link", "alias/a", "home/u/repo"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ws, warnings, err := DetectWorkspace(h.path(tt.cwd), "", h.Caller)
			if err != nil || len(warnings) > 0 {
				t.Fatalf("DetectWorkspace: %v, warnings %q", err, warnings)
			}
			if ws.Root != h.path(tt.want) {
				t.Errorf("workspace of %s = %s, want %s", tt.cwd, ws.Root, h.path(tt.want))
			}
		})
	}
}

func TestWorkspaceRefusals(t *testing.T) {
	h := newHost(t)
	h.dir("home/u/.cache/sandboxd")
	h.file("home/u/w/file", "", 0o644)
	for _, tt := range []struct{ name, cwd, why string }{
		{"root", "/", "the root directory"},
		{"home", h.Home, "the home directory"},
		{"ancestor of home", h.path("home"), "an ancestor of the home"},
		{"our state", h.path("home/u/.cache"), "sandboxd's own state"},
		{"below our state", h.path("home/u/.cache/sandboxd"), "sandboxd's own state"},
		{"system directory", "/usr/lib", "a system directory"},
		{"system directory itself", "/var", "a system directory"},
		{"settings", "/etc/ssl", "a system directory"},
		{"missing", h.path("gone"), "no such file"},
		{"file", h.path("home/u/w/file"), "not a directory"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, _, err := DetectWorkspace(tt.cwd, "", h.Caller)
			refused, ok := errors.AsType[*GrantError](err)
			if !ok || !strings.Contains(err.Error(), tt.why) || refused.Hint == "" {
				t.Fatalf("DetectWorkspace(%s) = %v, want a refusal that says %q with a hint", tt.cwd, err, tt.why)
			}
			if _, dir, insists := strings.Cut(refused.Hint, "insist with --workspace "); insists {
				if _, _, err := DetectWorkspace(h.Cwd, dir, h.Caller); err != nil {
					t.Errorf("the hint %q does not help: %v", refused.Hint, err)
				}
			}
		})
	}
	for _, dir := range []string{h.Home, h.path("home"), "/usr/lib"} {
		_, warnings, err := DetectWorkspace(h.Cwd, dir, h.Caller)
		if err != nil || len(warnings) == 0 {
			t.Errorf("naming %s: %v, warnings %q; want it allowed with a warning", dir, err, warnings)
		}
	}
	for _, dir := range []string{"/", "/.", "/usr/..", "/proc/self/root"} {
		if ws, _, err := DetectWorkspace(h.Cwd, dir, h.Caller); err == nil || ws.Root != "" {
			t.Errorf("naming %s: workspace %q, %v; want it refused", dir, ws.Root, err)
		}
	}
}

func TestDotfilesRepositoryDoesNotWidenTheWorkspace(t *testing.T) {
	h := newHost(t)
	git(t, h.Home, "init", "-q")
	ws, warnings, err := DetectWorkspace(h.Cwd, "", h.Caller)
	if err != nil || ws.Root != h.Cwd || len(warnings) != 1 {
		t.Errorf("workspace below a home with .git = %s, %v, warnings %q; want the directory itself and a warning", ws.Root, err, warnings)
	}
}

func TestForeignGitAboveDoesNotChooseTheWorkspace(t *testing.T) {
	needRoot(t)
	h := newHost(t)
	h.dir("shared/mine")
	h.file("shared/.git/HEAD", "ref: refs/heads/x\n", 0o644)
	if err := os.Chown(h.path("shared/.git"), 1001, 1001); err != nil {
		t.Fatal(err)
	}
	ws, _, err := DetectWorkspace(h.path("shared/mine"), "", h.Caller)
	if err != nil || ws.Root != h.path("shared/mine") {
		t.Errorf("workspace = %s, %v; another user's .git above must not count", ws.Root, err)
	}
}

func TestLinkedWorktreeGrantsTheCommonDirectoryOnly(t *testing.T) {
	h := newHost(t)
	main := h.dir("home/u/main")
	git(t, main, "init", "-q")
	git(t, main, "commit", "-q", "--allow-empty", "-m", "x")
	git(t, main, "worktree", "add", "-q", h.path("home/u/wt"))
	h.file("home/u/main/private", "s", 0o644)
	h.Cwd = h.path("home/u/wt")
	for _, mount := range []bool{true, false} {
		s, _ := h.build(policy.Grant{}, HostView{MountView: mount})
		if got := access(s.View, main+"/.git/objects"); got != exec.ReadWrite {
			t.Errorf("mount %v: common directory has access %v, want read-write", mount, got)
		}
		if got := access(s.View, main+"/private"); got != exec.Deny {
			t.Errorf("mount %v: main working tree has access %v, want none", mount, got)
		}
	}
}

func TestSubmoduleGrantsItsModuleDirectory(t *testing.T) {
	h := newHost(t)
	lib := h.dir("home/u/lib")
	git(t, lib, "init", "-q")
	git(t, lib, "commit", "-q", "--allow-empty", "-m", "x")
	super := h.dir("home/u/super")
	git(t, super, "init", "-q")
	git(t, super, "-c", "protocol.file.allow=always", "submodule", "add", "-q", lib, "sub")
	h.Cwd = super + "/sub"
	s, r := h.build(policy.Grant{}, HostView{MountView: true})
	if r.Workspace != super+"/sub" {
		t.Fatalf("workspace %s", r.Workspace)
	}
	if got := access(s.View, super+"/.git/modules/sub/objects"); got != exec.ReadWrite {
		t.Errorf("module directory has access %v, want read-write", got)
	}
	if got := access(s.View, super+"/.git/config"); got != exec.Deny {
		t.Errorf("the rest of the superproject's .git has access %v, want none", got)
	}
}

// A command can write any .git file into its workspace; the next run must not
// grant what it names.
func TestPlantedGitFileGrantsNothing(t *testing.T) {
	h := newHost(t)
	victim := h.dir("home/u/victim")
	git(t, victim, "init", "-q")
	git(t, victim, "commit", "-q", "--allow-empty", "-m", "x")
	git(t, victim, "worktree", "add", "-q", h.path("home/u/victim-wt"))
	git(t, victim, "worktree", "add", "-q", h.path("home/u/module")) // a stand-in for a submodule's tree
	module := h.dir("home/u/super/.git/modules/sub")
	git(t, module, "init", "-q", "--bare")
	git(t, module, "config", "core.bare", "false")
	git(t, module, "config", "core.worktree", h.path("home/u/module"))
	h.file("home/u/.ssh/id_rsa", "s", 0o600)
	h.file("home/u/w/fake/HEAD", "", 0o644)
	for _, tt := range []struct{ name, gitdir, spared string }{
		{"another repository", victim + "/.git", victim + "/.git/config"},
		{"another worktree", victim + "/.git/worktrees/victim-wt", victim + "/.git/config"},
		{"another submodule", module, module + "/config"},
		{"a secret directory", h.path("home/u/.ssh"), h.path("home/u/.ssh/id_rsa")},
		{"relative climb", "../.ssh", h.path("home/u/.ssh/id_rsa")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h.file("home/u/w/.git", "gitdir: "+tt.gitdir+"\n", 0o644)
			s, r := h.build(policy.Grant{}, HostView{MountView: true})
			if got := access(s.View, tt.spared); got != exec.Deny {
				t.Errorf("%s has access %v through a planted .git file", tt.spared, got)
			}
			if len(r.Warnings) == 0 {
				t.Error("no warning names the git directory that is not granted")
			}
		})
	}
}

// A planted worktree layout inside the workspace, with commondir pointing
// outside, must not open the outside either.
func TestPlantedCommonDirGrantsNothing(t *testing.T) {
	h := newHost(t)
	victim := h.dir("home/u/victim")
	git(t, victim, "init", "-q")
	h.file("home/u/other/wt/gitdir", h.path("home/u/w/.git")+"\n", 0o644)
	h.file("home/u/other/wt/commondir", victim+"/.git\n", 0o644)
	h.file("home/u/w/.git", "gitdir: "+h.path("home/u/other/wt")+"\n", 0o644)
	s, _ := h.build(policy.Grant{}, HostView{MountView: true})
	if got := access(s.View, victim+"/.git/config"); got != exec.Deny {
		t.Errorf("the victim's .git has access %v", got)
	}
}

func TestSymlinkedWorkspaceKeepsItsName(t *testing.T) {
	h := newHost(t)
	h.link(h.path("home/u/w"), "alias")
	h.Cwd = h.path("alias")
	s, r := h.build(policy.Grant{}, HostView{MountView: true})
	if r.Workspace != h.path("home/u/w") || access(s.View, h.path("home/u/w/x")) != exec.ReadWrite {
		t.Errorf("workspace %s is not the link's target", r.Workspace)
	}
	found := false
	for _, l := range s.View.Links {
		found = found || l == exec.Link{Path: h.path("alias"), Target: h.path("home/u/w")}
	}
	if !found {
		t.Errorf("the name %s is lost: links %v", h.path("alias"), s.View.Links)
	}
}

func TestStartDirectoryStaysInView(t *testing.T) {
	h := newHost(t)
	h.dir("home/u/w/sub")
	h.dir("outside")
	h.link(h.path("outside"), "home/u/w/out")
	s, _ := h.build(policy.Grant{Workspace: h.path("home/u/w"), Dir: "sub"}, HostView{})
	if s.Dir != h.path("home/u/w/sub") {
		t.Errorf("start directory %s, want the asked one", s.Dir)
	}
	for _, dir := range []string{h.path("outside"), "..", "out", "sub/../../../../outside", "gone"} {
		if _, _, err := Build(policy.Grant{Dir: dir}, h.Caller, HostView{}, []string{"true"}); err == nil {
			t.Errorf("start in %s was not refused", dir)
		}
	}
	h.Cwd = h.path("outside")
	s, r := h.build(policy.Grant{Workspace: h.path("home/u/w")}, HostView{})
	if s.Dir != h.path("home/u/w") || len(r.Warnings) == 0 {
		t.Errorf("a caller outside starts in %s with warnings %q, want the workspace and a warning", s.Dir, r.Warnings)
	}
}
