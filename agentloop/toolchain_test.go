package agentloop

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sandboxd/exec"
	"sandboxd/policy"
)

const script = "#!/bin/sh\n"

// toolHome is a home with one toolchain of every common kind and the secrets
// that lie beside them.
func toolHome(t *testing.T) *fakeHost {
	h := newHost(t)
	for _, program := range []string{
		".cargo/bin/rustup", ".nvm/versions/node/v20/bin/node", ".pyenv/shims/python3", ".pyenv/versions/3.12/bin/python3.12",
		".asdf/shims/ruby", ".asdf/installs/ruby/3/bin/ruby", "sdk/go1.26/bin/go", "miniconda3/bin/conda", ".volta/bin/volta",
		".sdkman/candidates/java/17/bin/java", "bin/mine", ".docker/bin/docker", "go/bin/gopls", ".local/share/pipx/venvs/black/bin/black", "code/proj/tool.sh",
		".local/share/claude/versions/1.0",
	} {
		h.file("home/u/"+program, script, 0o755)
	}
	h.link("rustup", "home/u/.cargo/bin/cargo")
	h.link("17", "home/u/.sdkman/candidates/java/current")
	h.link(h.path("home/u/.pyenv/versions/3.12/bin/python3.12"), "home/u/.local/share/pipx/venvs/black/bin/python")
	h.file("home/u/.local/share/pipx/venvs/black/bin/black", "#!"+h.path("home/u/.local/share/pipx/venvs/black/bin/python")+"\n", 0o755)
	h.link("../share/pipx/venvs/black/bin/black", "home/u/.local/bin/black")
	h.link("../share/claude/versions/1.0", "home/u/.local/bin/claude")
	h.link(h.path("home/u/code/proj/tool.sh"), "home/u/.local/bin/tool")
	for _, data := range []string{
		".cargo/registry/cache/x.crate", ".cargo/config.toml", ".rustup/toolchains/stable/bin/rustc", ".rustup/settings.toml", "go/pkg/mod/m@v1/x.go",
		".local/lib/python3.12/site-packages/p.py", "miniconda3/lib/x", ".nvm/versions/node/v20/lib/node_modules/npm/x.js",
	} {
		h.file("home/u/"+data, "x", 0o644)
	}
	for _, secret := range []string{
		".ssh/id_rsa", ".cargo/credentials.toml", ".docker/config.json", ".npmrc", ".local/share/keyrings/k", "go/src/private/x.go", "code/proj/.env",
		"code/other/x", ".aws/credentials", "miniconda3/.env", ".config/gcloud/x", "notes.txt", ".nvm/versions/node/v18/x",
	} {
		h.file("home/u/"+secret, "s", 0o600)
	}
	home := h.Home
	var path []string
	for _, dir := range []string{".cargo/bin", ".nvm/versions/node/v20/bin", ".pyenv/shims", ".asdf/shims", "sdk/go1.26/bin", "miniconda3/bin", ".volta/bin",
		".sdkman/candidates/java/current/bin", "bin", ".docker/bin", "go/bin", ".local/bin"} {
		path = append(path, home+"/"+dir)
	}
	h.Environ = []string{"PATH=" + strings.Join(append(path, "/usr/bin", "/bin"), ":"), "HOME=" + home}
	return h
}

func TestToolchainsOfTheHomeAreReadableAndItsSecretsAreNot(t *testing.T) {
	h := toolHome(t)
	for _, mount := range []bool{true, false} {
		s, r := h.build(policy.Grant{}, HostView{MountView: mount})
		for _, rel := range []string{
			".cargo/bin/rustup", ".cargo/registry/cache/x.crate", ".cargo/config.toml", ".rustup/toolchains/stable/bin/rustc", ".nvm/versions/node/v20/bin/node",
			".nvm/versions/node/v20/lib/node_modules/npm/x.js", ".pyenv/shims/python3", ".pyenv/versions/3.12/bin/python3.12", ".asdf/installs/ruby/3/bin/ruby",
			"sdk/go1.26/bin/go", "miniconda3/bin/conda", "miniconda3/lib/x", ".volta/bin/volta", ".sdkman/candidates/java/17/bin/java", "bin/mine", ".docker/bin/docker",
			"go/bin/gopls", "go/pkg/mod/m@v1/x.go", ".local/lib/python3.12/site-packages/p.py", ".local/share/pipx/venvs/black/bin/black", "code/proj/tool.sh",
			".local/share/claude/versions/1.0",
		} {
			if got := access(s.View, h.path("home/u/"+rel)); got != exec.ReadOnly {
				t.Errorf("mount %v: tool %s has access %v", mount, rel, got)
			}
		}
		for _, rel := range []string{
			".ssh/id_rsa", ".cargo/credentials.toml", ".docker/config.json", ".npmrc", ".local/share/keyrings/k", "go/src/private/x.go", "code/proj/.env", "code/other/x",
			".aws/credentials", "miniconda3/.env", ".config/gcloud/x", "notes.txt", ".nvm/versions/node/v18/x",
		} {
			if got := access(s.View, h.path("home/u/"+rel)); got != exec.Deny {
				t.Errorf("mount %v: secret %s has access %v", mount, rel, got)
			}
		}
		if r.Workspace != h.Cwd || access(s.View, h.Cwd+"/x") != exec.ReadWrite {
			t.Errorf("mount %v: the workspace in the home is not writable", mount)
		}
		if got := envOf(s, "GOMODCACHE"); got != h.path("home/u/go/pkg/mod") {
			t.Errorf("GOMODCACHE=%q", got)
		}
		// Names below the home work by $HOME too.
		for _, rel := range []string{".rustup/settings.toml", ".cargo/config.toml"} {
			path := r.HomeSource + "/" + rel
			if mount {
				if _, err := os.Lstat(r.HomeSource + "/.rustup"); err != nil {
					t.Errorf("no mount point for .rustup: %v", err)
				}
			} else if real, err := filepath.EvalSymlinks(path); err != nil || real != h.path("home/u/"+rel) {
				t.Errorf("%s leads to %q, %v", path, real, err)
			}
		}
		// cargo writes beside its registry, in its own home.
		if info, err := os.Lstat(r.HomeSource + "/.cargo"); err != nil || !info.IsDir() {
			t.Errorf("mount %v: .cargo of the private home: %v, %v", mount, info, err)
		}
	}
}

// A command may write links into its workspace, into PATH directories there
// too. They must not choose what the next command can read.
func TestLinksInTheWorkspaceReachToolStoresOnly(t *testing.T) {
	h := newHost(t)
	h.file("home/u/docs/bin/diary", script, 0o755)
	h.file("home/u/.ssh/agent-helper", script, 0o755)
	h.file("home/u/.local/share/uv/python/cp312/bin/python3.12", script, 0o755)
	h.link(h.path("home/u/docs/bin/diary"), "home/u/w/.venv/bin/diary")
	h.link(h.path("home/u/.ssh/agent-helper"), "home/u/w/.venv/bin/helper")
	h.file("home/u/w/.venv/bin/script", "#!"+h.path("home/u/docs/bin/diary")+"\n", 0o755)
	h.link(h.path("home/u/.local/share/uv/python/cp312/bin/python3.12"), "home/u/w/.venv/bin/python")
	h.link(h.path("home/u/docs"), "home/u/w/pathdir")
	h.link(h.path("home/u/docs"), "home/u/w/mod")
	h.link(h.path("home/u/docs/bin/diary"), "home/u/w/hop")
	h.link(h.Cwd+"/hop", "home/u/.local/bin/hop")
	h.Environ = []string{"PATH=" + h.Cwd + "/.venv/bin:" + h.Cwd + "/pathdir/bin:" + h.path("home/u/.local/bin") + ":/usr/bin", "HOME=" + h.Home,
		"VIRTUAL_ENV=" + h.Cwd + "/pathdir", "GOMODCACHE=" + h.Cwd + "/mod", "CARGO_HOME=" + h.Cwd + "/pathdir"}
	s, _ := h.build(policy.Grant{}, HostView{MountView: true})
	if got := access(s.View, h.path("home/u/.local/share/uv/python/cp312/bin/python3.12")); got != exec.ReadOnly {
		t.Errorf("the python of a venv has access %v", got)
	}
	for _, rel := range []string{"docs/bin/diary", ".ssh/agent-helper"} {
		if got := access(s.View, h.path("home/u/"+rel)); got != exec.Deny {
			t.Errorf("%s has access %v by a link in the workspace", rel, got)
		}
	}
}

func TestWideDirectoriesOnPathAreNotGranted(t *testing.T) {
	h := newHost(t)
	h.file("home/u/notes", script, 0o755)
	h.file("home/u/.ssh/bin/x", script, 0o755)
	h.Environ = []string{"PATH=/:" + h.Home + ":" + h.path("home") + ":" + h.path("home/u/.ssh/bin") + ":/usr/bin", "HOME=" + h.Home, "JAVA_HOME=" + h.Home}
	s, r := h.build(policy.Grant{}, HostView{MountView: true})
	for _, path := range []string{h.path("home/u/notes"), h.path("home/u/.ssh/bin/x"), h.path("x"), "/var/log"} {
		if got := access(s.View, path); got != exec.Deny {
			t.Errorf("%s has access %v", path, got)
		}
	}
	if len(r.Warnings) < 4 {
		t.Errorf("warnings %q", r.Warnings)
	}
	// A home without any known secret is no tool either.
	bare := newHost(t)
	bare.file("home/u/notes", script, 0o755)
	bare.file("home/u/.local/share/x", "", 0o644)
	bare.Environ = []string{"PATH=/:" + bare.Home + ":" + bare.path("home") + ":" + bare.path("home/u/.local/share") + ":/usr/bin", "HOME=" + bare.Home, "JAVA_HOME=" + bare.Home}
	s, _ = bare.build(policy.Grant{}, HostView{MountView: true})
	for _, path := range []string{bare.path("home/u/notes"), bare.path("home/u/.local/share/x"), "/var/log"} {
		if got := access(s.View, path); got != exec.Deny {
			t.Errorf("%s has access %v", path, got)
		}
	}
}

func TestToolchainThroughLinksKeepsItsName(t *testing.T) {
	h := newHost(t)
	h.file("store/node/v20/bin/node", script, 0o755)
	h.link(h.path("store/node/v20"), "multishell/123")
	h.link("store", "alias")
	h.Environ = []string{"PATH=" + h.path("multishell/123/bin") + ":/usr/bin", "HOME=" + h.Home, "NVM_BIN=" + h.path("alias/node/v20/bin")}
	s, _ := h.build(policy.Grant{}, HostView{MountView: true})
	if got := access(s.View, h.path("store/node/v20/bin/node")); got != exec.ReadOnly {
		t.Errorf("the real root has access %v", got)
	}
	for _, want := range []exec.Link{{Path: h.path("multishell/123"), Target: h.path("store/node/v20")}, {Path: h.path("alias"), Target: "store"}} {
		if !slices.Contains(s.View.Links, want) {
			t.Errorf("link %v is missing in %v", want, s.View.Links)
		}
	}
}

func TestToolPlanFollowsChanges(t *testing.T) {
	h := newHost(t)
	h.file("home/u/.local/bin/one", script, 0o755)
	h.file("home/u/.local/share/pipx/venvs/new/bin/new", script, 0o755)
	h.Environ = []string{"PATH=" + h.path("home/u/.local/bin") + ":" + h.path("later/bin") + ":/usr/bin", "HOME=" + h.Home}
	age()
	s, _ := h.build(policy.Grant{}, HostView{MountView: true})
	if kept, _ := filepath.Glob(h.CacheDir + "/plans/tools-*"); len(kept) != 1 {
		t.Fatalf("plans kept: %q", kept)
	}
	if got := access(s.View, h.path("home/u/.local/share/pipx/venvs/new/bin/new")); got != exec.Deny {
		t.Fatalf("not linked yet, access %v", got)
	}
	h.link("../share/pipx/venvs/new/bin/new", "home/u/.local/bin/new")
	h.file("later/bin/x", script, 0o755)
	s, _ = h.build(policy.Grant{}, HostView{MountView: true})
	for _, rel := range []string{"home/u/.local/share/pipx/venvs/new/bin/new", "later/bin/x"} {
		if got := access(s.View, h.path(rel)); got != exec.ReadOnly {
			t.Errorf("%s appeared and has access %v", rel, got)
		}
	}
}

func TestLooksSecret(t *testing.T) {
	for value, want := range map[string]bool{
		"ghp_0123456789abcdef": true, "x=sk-0123456789abcdef": true, "https://u:p@h.example.org/x": true, "https://tok@h.example.org": true,
		"-----BEGIN OPENSSH PRIVATE KEY-----": true, "a,https://b.example.org|http://x:y@c.example.org": true,
		"https://h.example.org/a@b": false, "ssh://git@h.example.org/x": false, "task-force-one-two": false, "plain": false, "": false, "://@": false, "risk-assessment-x": false,
	} {
		if got := looksSecret(value); got != want {
			t.Errorf("looksSecret(%q) = %v, want %v", value, got, want)
		}
	}
}

func BenchmarkBuild(b *testing.B) {
	c, _ := CurrentCaller(os.Environ())
	c.CacheDir = b.TempDir()
	if err := os.Chmod(c.CacheDir, 0o700); err != nil {
		b.Fatal(err)
	}
	for _, mount := range []bool{true, false} {
		name := map[bool]string{true: "mounts", false: "base"}[mount]
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, r, err := Build(policy.Grant{PrivateTmp: true}, c, HostView{MountView: mount}, []string{"sh", "-c", "true"})
				if err != nil {
					b.Fatal(err)
				}
				if err := r.Cleanup(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func TestCargoHomeElsewhereIsShownInThePrivateHome(t *testing.T) {
	h := newHost(t)
	h.file("tools/cargo/registry/index/x", "", 0o644)
	h.file("tools/cargo/bin/cargo", script, 0o755)
	h.file("tools/cargo/credentials.toml", "s", 0o644)
	h.Environ = []string{"PATH=" + h.path("tools/cargo/bin") + ":/usr/bin", "HOME=" + h.Home, "CARGO_HOME=" + h.path("tools/cargo")}
	for _, mount := range []bool{true, false} {
		s, r := h.build(policy.Grant{Paths: []policy.PathGrant{cli(h.path("tools"), policy.GrantRead)}}, HostView{MountView: mount})
		if target, err := os.Readlink(r.HomeSource + "/.cargo/registry"); err != nil || target != h.path("tools/cargo/registry") {
			t.Errorf("mount %v: registry in the private home leads to %q, %v", mount, target, err)
		}
		if got := access(s.View, h.path("tools/cargo/registry/index/x")); got != exec.ReadOnly {
			t.Errorf("mount %v: registry has access %v", mount, got)
		}
		if got := access(s.View, h.path("tools/cargo/credentials.toml")); got != exec.Deny {
			t.Errorf("mount %v: credentials have access %v", mount, got)
		}
		if envOf(s, "CARGO_HOME") != "" {
			t.Errorf("mount %v: CARGO_HOME=%s, which is not writable", mount, envOf(s, "CARGO_HOME"))
		}
	}
}

// A directory with a bin below the home is a tool only if it looks like one: of
// somebody's project on PATH the programs are granted and nothing beside them.
func TestProjectOnThePathGrantsItsProgramsOnly(t *testing.T) {
	h := newHost(t)
	for _, file := range []string{"app/bin/run", "tool/bin/tool", "tool/lib/tool/part", "repo/bin/x", "repo/lib/code.py", "repo/.git/HEAD"} {
		h.file("home/u/"+file, script, 0o755)
	}
	for _, file := range []string{"app/conf/secrets.yml", "app/config.json", "repo/notes"} {
		h.file("home/u/"+file, "s", 0o644)
	}
	h.Environ = []string{"PATH=" + h.Home + "/app/bin:" + h.Home + "/tool/bin:" + h.Home + "/repo/bin:/usr/bin", "HOME=" + h.Home}
	for _, mount := range []bool{true, false} {
		s, _ := h.build(policy.Grant{}, HostView{MountView: mount})
		for rel, want := range map[string]exec.Access{
			"app/bin/run": exec.ReadOnly, "app/conf/secrets.yml": exec.Deny, "app/config.json": exec.Deny,
			"tool/bin/tool": exec.ReadOnly, "tool/lib/tool/part": exec.ReadOnly,
			"repo/bin/x": exec.ReadOnly, "repo/lib/code.py": exec.Deny, "repo/notes": exec.Deny,
		} {
			if got := access(s.View, h.path("home/u/"+rel)); got != want {
				t.Errorf("mount %v: %s has access %v, want %v", mount, rel, got, want)
			}
		}
	}
}
