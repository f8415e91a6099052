package policy

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"sandboxd/test/require"
)

// gitPlace is a workspace with a repository of one commit and a changed file,
// and a program that leaves a mark when git starts it.
type gitPlace struct {
	dir, home, mark, program string
	cfg                      Config
}

func newGitPlace(t *testing.T) *gitPlace {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		require.Missing(t, require.Program, "git is not installed")
	}
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	g := &gitPlace{dir: filepath.Join(root, "w"), home: filepath.Join(root, "home"), mark: filepath.Join(root, "mark"), program: filepath.Join(root, "program")}
	g.cfg = Config{Workspace: g.dir, Home: g.home, Default: Ask, AppliesEnv: true}
	for _, d := range []string{g.dir, g.home} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	g.write(t, g.program, "#!/bin/sh\necho x >>"+g.mark+"\nexit 1\n", 0o755)
	g.repository(t, g.dir)
	return g
}

func (g *gitPlace) write(t *testing.T, file, text string, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}

// repository makes one with a commit, attributes and a change.
func (g *gitPlace) repository(t *testing.T, dir string) {
	t.Helper()
	g.git(t, dir, "init", "-q", "-b", "main")
	g.write(t, filepath.Join(dir, ".gitattributes"), "*.x filter=own diff=own\n", 0o644)
	g.write(t, filepath.Join(dir, "a.x"), "one\n", 0o644)
	g.git(t, dir, "add", ".")
	g.git(t, dir, "commit", "-q", "-m", "one")
	g.write(t, filepath.Join(dir, "a.x"), "two\n", 0o644)
}

func (g *gitPlace) environ(more ...string) []string {
	return append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + g.home, "GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@a.test", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@a.test"}, more...)
}

func (g *gitPlace) git(t *testing.T, dir string, args ...string) {
	t.Helper()
	c := exec.Command("git", args...)
	c.Dir, c.Env = dir, g.environ()
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("git %s: %v: %s", args, err, out)
	}
}

// run starts a script as it would be after it was allowed. It returns the output
// and whether git started the program.
func (g *gitPlace) run(t *testing.T, script string, env []string) (out string, started bool) {
	t.Helper()
	if err := os.RemoveAll(g.mark); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	c := exec.CommandContext(ctx, "bash", "-c", script)
	c.Dir, c.Env, c.WaitDelay = g.dir, g.environ(env...), time.Second
	b, _ := c.CombinedOutput() // some of them fail, as git grep without a hit
	_, err := os.Stat(g.mark)
	return string(b), err == nil
}

// onTerminal runs a script with a terminal, where git uses a pager.
func onTerminal(script string) string {
	return "script -qec " + QuoteWord(script) + " /dev/null </dev/null"
}

// readingGit are git commands that only read.
var readingGit = []string{
	"git status", "git status --short", "git diff", "git diff HEAD", "git diff --cached", "git diff --stat", "git log", "git log -p", "git log --stat",
	"git show", "git show HEAD:a.x", "git blame a.x", "git grep one", "git ls-files", "git ls-files -m", "git branch", "git tag", "git stash list",
	"git rev-parse HEAD", "git describe --always", "git cat-file -p HEAD", "git cat-file --textconv HEAD:a.x", "git cat-file --filters HEAD:a.x",
	"git diff-index -p HEAD", "git diff-files -p", "git shortlog HEAD", "git remote -v", "git worktree list", "git submodule status", "git fsck",
	"git log --show-signature", "git range-diff HEAD HEAD HEAD", "git check-attr -a a.x", "git -C . status", "cd src/.. && git status",
}

// TestReadingGitStartsNothing plants each way by which a repository's own files
// make git start a program. What is still allowed without a question must not
// start it, judged by whether it ran; with the planted guard off it does run.
func TestReadingGitStartsNothing(t *testing.T) {
	config := func(keyValues ...string) func(t *testing.T, g *gitPlace) {
		return func(t *testing.T, g *gitPlace) {
			for i := 0; i < len(keyValues); i += 2 {
				g.git(t, g.dir, "config", keyValues[i], strings.ReplaceAll(keyValues[i+1], "PROGRAM", g.program))
			}
		}
	}
	for _, tt := range []struct {
		name  string
		plant func(t *testing.T, g *gitPlace)
		// runs is a script by which the program starts without protection.
		runs string
		// asks: that script is not allowed, since nothing from outside helps.
		asks bool
	}{
		{"fsmonitor", config("core.fsmonitor", "PROGRAM"), "git status", false},
		{"pager", config("core.pager", "PROGRAM"), "git log", false},
		{"pager of a command", config("pager.log", "PROGRAM"), "git log", false},
		{"hook", func(t *testing.T, g *gitPlace) {
			g.write(t, filepath.Join(g.dir, ".git/hooks/post-index-change"), "#!/bin/sh\nexec "+g.program+"\n", 0o755)
		}, "touch -d 2001-01-01 .gitattributes; git status", false},
		{"hooks elsewhere", func(t *testing.T, g *gitPlace) {
			config("core.hooksPath", ".husky")(t, g)
			if err := os.Mkdir(filepath.Join(g.dir, ".husky"), 0o755); err != nil {
				t.Fatal(err)
			}
			g.write(t, filepath.Join(g.dir, ".husky/post-index-change"), "#!/bin/sh\nexec "+g.program+"\n", 0o755)
		}, "git status", false},
		{"external diff", config("diff.external", "PROGRAM"), "git diff", true},
		{"diff driver", config("diff.own.command", "PROGRAM"), "git diff", true},
		{"text conversion", config("diff.own.textconv", "PROGRAM"), "git log -p", true},
		{"filter", config("filter.own.clean", "PROGRAM"), "git diff", true},
		{"filter process", config("filter.own.process", "PROGRAM"), "git diff", true},
		{"smudge filter", config("filter.own.smudge", "PROGRAM"), "git cat-file --filters HEAD:a.x", true},
		{"included file", func(t *testing.T, g *gitPlace) {
			g.write(t, filepath.Join(g.dir, "more"), "[filter \"own\"]\nclean = "+g.program+"\n", 0o644)
			config("include.path", "../more")(t, g)
		}, "git diff", true},
		{"worktree settings", func(t *testing.T, g *gitPlace) {
			config("extensions.worktreeConfig", "true")(t, g)
			g.git(t, g.dir, "config", "--worktree", "diff.external", g.program)
		}, "git diff", true},
		{"lazy fetch", config("extensions.partialClone", "o", "remote.o.promisor", "true", "remote.o.url", "ext::PROGRAM", "protocol.ext.allow", "always"),
			"git cat-file -p 1234567890123456789012345678901234567890", false},
		{"remote show", config("remote.o.url", "ext::PROGRAM", "protocol.ext.allow", "always"), "git remote show o", false},
		{"inner repository", func(t *testing.T, g *gitPlace) {
			g.inner(t)
			g.git(t, filepath.Join(g.dir, "in"), "config", "filter.own.clean", g.program)
		}, "git status", true},
		{"fsmonitor of an inner repository", func(t *testing.T, g *gitPlace) {
			g.inner(t)
			g.git(t, filepath.Join(g.dir, "in"), "config", "core.fsmonitor", g.program)
		}, "git status", false},
		{"signature", func(t *testing.T, g *gitPlace) {
			config("gpg.program", "PROGRAM", "log.showSignature", "true")(t, g)
			c := exec.Command("bash", "-c", `t=$(git write-tree); printf 'tree %s\nauthor a <a> 1 +0000\ncommitter a <a> 1 +0000\ngpgsig -----BEGIN PGP SIGNATURE-----\n \n x\n -----END PGP SIGNATURE-----\n\nm\n' $t | git hash-object -t commit -w --stdin | xargs git update-ref refs/heads/main`)
			c.Dir, c.Env = g.dir, g.environ()
			if out, err := c.CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
		}, "git log", true},
		{"outer repository", func(t *testing.T, g *gitPlace) {
			// An empty .git is none: git looks further up.
			if err := os.MkdirAll(filepath.Join(g.dir, "src/.git"), 0o755); err != nil {
				t.Fatal(err)
			}
			config("diff.external", "PROGRAM")(t, g)
		}, "cd src && git diff", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := newGitPlace(t)
			if err := os.Mkdir(filepath.Join(g.dir, "src"), 0o755); err != nil {
				t.Fatal(err)
			}
			tt.plant(t, g)
			terminal := tt.name == "pager" || tt.name == "pager of a command"
			shell := func(script string) string {
				if terminal {
					return onTerminal(script)
				}
				return script
			}
			if _, started := g.run(t, shell(tt.runs), nil); !started {
				t.Fatalf("%q does not start the program: the plant is wrong", tt.runs)
			}
			e := engine(t, g.cfg)
			script := tt.runs[strings.LastIndex(tt.runs, "; ")+1:]
			if d := e.Check(t.Context(), BashCall(script, g.dir)); (d.Verdict == Ask) != tt.asks {
				t.Errorf("%q: %v (%v), want asks %v", script, d.Verdict, d.Reason, tt.asks)
			}
			allowed := 0
			prepare := strings.TrimSuffix(tt.runs, script)
			for _, script := range append([]string{script}, readingGit...) {
				d := e.Check(t.Context(), BashCall(script, g.dir))
				if d.Verdict != Allow {
					continue
				}
				allowed++
				if out, started := g.run(t, prepare+shell(script), d.Env); started {
					t.Errorf("%q was allowed (%v) and started the program: %s", script, d.Reason, out)
				}
			}
			t.Logf("%d of %d allowed", allowed, 1+len(readingGit))
			// Whoever does not apply the variables gets a question instead.
			cfg := g.cfg
			cfg.AppliesEnv = false
			e = engine(t, cfg)
			for _, script := range append([]string{script}, readingGit...) {
				d := e.Check(t.Context(), BashCall(script, g.dir))
				if d.Verdict != Allow {
					continue
				}
				if out, started := g.run(t, prepare+shell(script), nil); started {
					t.Errorf("%q was allowed (%v) without variables and started the program: %s", script, d.Reason, out)
				}
			}
		})
	}
}

// inner puts a repository into the index of the outer one, not listed in
// .gitmodules, and changes a file of it.
func (g *gitPlace) inner(t *testing.T) {
	t.Helper()
	g.repository(t, filepath.Join(g.dir, mkdir(t, g.dir, "in")))
	g.git(t, g.dir, "-c", "advice.addEmbeddedRepo=false", "add", "in")
	g.git(t, g.dir, "commit", "-q", "-m", "inner")
	g.write(t, filepath.Join(g.dir, "in/a.x"), "six\n", 0o644)
}

func mkdir(t *testing.T, dir, name string) string {
	t.Helper()
	if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
		t.Fatal(err)
	}
	return name
}

// TestHonestGitIsAllowed: repositories as people have them need no question,
// and the variables do not change what git prints.
func TestHonestGitIsAllowed(t *testing.T) {
	g := newGitPlace(t)
	mkdir(t, g.dir, "src")
	g.inner(t)
	for _, kv := range [][2]string{
		{"remote.origin.url", "https://git.example/x.git"}, {"core.hooksPath", ".husky/_"}, {"core.fsmonitor", "true"}, {"core.sshCommand", "ssh -i key"},
		{"credential.helper", "store"}, {"filter.lfs.clean", "git-lfs clean -- %f"}, {"filter.lfs.process", "git-lfs filter-process"},
		{"alias.st", "!git status"}, {"merge.tool", "meld"}, {"core.editor", "vim"}, {"diff.algorithm", "histogram"}, {"pager.log", "false"},
	} {
		g.git(t, g.dir, "config", kv[0], kv[1])
	}
	g.git(t, g.dir, "config", "core.fsmonitor", "false") // its daemon would outlive the test
	// git blame dates what is not committed to the moment it runs.
	now := regexp.MustCompile(`(Not Committed Yet\s+)\d{4}-\d\d-\d\d \d\d:\d\d:\d\d`)
	timeless := func(s string) string { return now.ReplaceAllString(s, "${1}now") }
	for _, applies := range []bool{true, false} {
		cfg := g.cfg
		cfg.AppliesEnv = applies
		e := engine(t, cfg)
		for _, script := range readingGit {
			d := e.Check(t.Context(), BashCall(script, g.dir))
			if d.Verdict != Allow {
				t.Errorf("%q: %v (%v)", script, d.Verdict, d.Reason)
			}
			want, _ := g.run(t, script, nil)
			if got, _ := g.run(t, script, d.Env); timeless(got) != timeless(want) {
				t.Errorf("%q: prints %q with the variables, %q without", script, got, want)
			}
		}
	}
}

func TestWhatIsPinned(t *testing.T) {
	g := newGitPlace(t)
	g.git(t, g.dir, "config", "core.fsmonitor", g.program)
	all := gitPins(true)
	some := gitPins(false)
	e := engine(t, g.cfg, allow("run_bash(git commit *)"), allow("run_bash(npm test)"), deny("run_bash(git push *)"))
	for _, tt := range []struct {
		script string
		want   Verdict
		env    []string
	}{
		{"git status", Allow, all},
		{"git status | head -5; ls", Allow, all},
		{"git diff && git log -1", Allow, all},
		{"timeout 5 git status", Allow, all},
		{"GIT_OPTIONAL_LOCKS=0 git status", Allow, all},
		// Hooks and transports are what the allowed command is allowed for.
		{"git status && git commit -m x", Allow, some},
		{"git status && npm test", Allow, some},
		{"git commit -m x", Allow, nil},
		{"ls", Allow, nil},
		{"git status && rm x", Ask, some},
		{"git status && git push x", Deny, nil},
		// What takes the variables away is asked about.
		{"unset GIT_CONFIG_COUNT; git status", Ask, all},
		{"GIT_CONFIG_COUNT=0; git status", Ask, all},
		{"unset GIT_CONFIG_C''OUNT; git status", Ask, all},
		{"env -i git status", Ask, all},
		{"env -u GIT_CONFIG_COUNT git status", Ask, all},
		{"exec -c git status", Ask, all},
		{"for GIT_CONFIG_COUNT in 0; do git status; done", Ask, all},
		{"read GIT_CONFIG_COUNT <a.x; git status", Ask, all},
		{"printf -v GIT_CONFIG_COUNT 0; git status", Ask, all},
		{"unset $(cat a.x); git status", Ask, all},
		{"cd \"$(cat a.x)\" && git status", Ask, all},
	} {
		d := e.Check(t.Context(), BashCall(tt.script, g.dir))
		env := d.Env
		if tt.want == Ask && len(tt.env) == len(all) {
			env = tt.env // which of them makes no difference: it asks
		}
		if d.Verdict != tt.want || !slices.Equal(env, tt.env) {
			t.Errorf("%q: %v (%v) with %q, want %v with %q", tt.script, d.Verdict, d.Reason, d.Env, tt.want, tt.env)
		}
	}
	// Hooks stay on beside a command that may need them, so the call asks.
	hook := filepath.Join(g.dir, ".git/hooks/post-index-change")
	g.write(t, hook, "#!/bin/sh\n", 0o755)
	for script, want := range map[string]Verdict{"git status": Allow, "git status && npm test": Ask, "git status && git commit -m x": Ask} {
		if d := e.Check(t.Context(), BashCall(script, g.dir)); d.Verdict != want {
			t.Errorf("%q with a hook: %v (%v), want %v", script, d.Verdict, d.Reason, want)
		}
	}
	if err := os.Remove(hook); err != nil {
		t.Fatal(err)
	}
	// A rule that names git, and complete confinement, clear it.
	cfg := g.cfg
	cfg.AppliesEnv = false
	for name, e := range map[string]*Engine{
		"rule":     engine(t, cfg, allow("run_bash(git status)")),
		"confined": engine(t, Config{Workspace: g.dir, Home: g.home, Default: Ask, AllowConfined: true, Confinement: FullyConfined}),
	} {
		if d := e.Check(t.Context(), BashCall("git status", g.dir)); d.Verdict != Allow {
			t.Errorf("%s: %v (%v)", name, d.Verdict, d.Reason)
		}
	}
}

// TestGitlinksAgreeWithGit compares with git ls-files in each index version.
func TestGitlinksAgreeWithGit(t *testing.T) {
	for _, format := range []string{"sha1", "sha256"} {
		g := newGitPlace(t)
		dir := filepath.Join(g.dir, mkdir(t, g.dir, format))
		g.git(t, dir, "init", "-q", "--object-format="+format)
		id := strings.Repeat("1", map[string]int{"sha1": 40, "sha256": 64}[format])
		for _, name := range []string{"a", "deep/er/b", "deep/er/bb", "z with blank"} {
			g.git(t, dir, "update-index", "--add", "--cacheinfo", "160000,"+id+","+name)
		}
		for i := range 30 {
			name := "deep/er/" + strings.Repeat("f", i+1)
			if err := os.MkdirAll(filepath.Join(dir, "deep/er"), 0o755); err != nil {
				t.Fatal(err)
			}
			g.write(t, filepath.Join(dir, name), "x", 0o644)
			g.git(t, dir, "add", name)
		}
		g.write(t, filepath.Join(dir, "later"), "x", 0o644)
		g.git(t, dir, "add", "-N", "later") // needs extended flags
		for _, version := range []string{"2", "3", "4"} {
			g.git(t, dir, "update-index", "--index-version", version)
			data, err := os.ReadFile(filepath.Join(dir, ".git/index"))
			if err != nil {
				t.Fatal(err)
			}
			got, err := gitlinks(data, map[string]int{"sha1": 20, "sha256": 32}[format])
			if want := []string{"a", "deep/er/b", "deep/er/bb", "z with blank"}; err != nil || !slices.Equal(got, want) {
				t.Errorf("%s, version %s: %q %v, want %q", format, version, got, err, want)
			}
			for n := range len(data) {
				if _, err := gitlinks(data[:n], 20); err != nil && err != errIndex {
					t.Fatal(err)
				}
			}
		}
	}
}

func FuzzGitlinks(f *testing.F) {
	f.Add([]byte("DIRC\x00\x00\x00\x04\x00\x00\x00\x01"+strings.Repeat("\x00", 24)+"\x00\x00\xe0\x00"+strings.Repeat("\x00", 34)+"\x00ab\x00"), 20)
	f.Fuzz(func(t *testing.T, data []byte, n int) {
		for _, hash := range []int{20, 32} {
			if links, err := gitlinks(data, hash); err != nil && links != nil {
				t.Errorf("%q with an error", links)
			}
		}
	})
}

// TestGitReadsOutside: what git is told to read besides its repository is a
// read like that of cat.
func TestGitReadsOutside(t *testing.T) {
	g := newGitPlace(t)
	mkdir(t, g.dir, "src")
	other := filepath.Join(filepath.Dir(g.dir), mkdir(t, filepath.Dir(g.dir), "other"))
	g.repository(t, other)
	g.write(t, filepath.Join(g.dir, "secret"), "s\n", 0o644)
	e := engine(t, g.cfg, deny("Read(secret)"))
	for _, tt := range []struct {
		script string
		want   Verdict
	}{
		{"git diff --no-index /etc/shadow a.x", Ask},
		{"git diff /etc/shadow a.x", Ask},
		{"git diff ../other/a.x a.x", Ask},
		{"git diff -- /etc/shadow /dev/null", Ask},
		{"git diff $(cat a.x) a.x", Ask},
		{"git diff $(cat a.x) $(cat a.x)", Ask},
		{"git grep --no-index x /root", Ask},
		{"git grep -f /etc/shadow", Ask},
		{"git grep -f/etc/shadow", Ask},
		{"git blame --contents /etc/shadow a.x", Ask},
		{"git blame --contents=/etc/shadow a.x", Ask},
		{"git config -f /etc/shadow --list", Ask},
		{"git config --file=/etc/shadow --list", Ask},
		{"git -C " + other + " log", Ask},
		{"cd ../other && git log -p", Ask},
		{"git ls-files -X /etc/shadow", Ask},
		{"git diff --no-index secret a.x", Deny},
		{"git blame --contents secret a.x", Deny},

		{"git diff", Allow},
		{"git diff HEAD -- src", Allow},
		{"git diff main..HEAD", Allow},
		{"git diff HEAD a.x", Allow},
		{`git diff "$(git merge-base HEAD main)" HEAD`, Allow},
		{"git diff --no-index a.x .gitattributes", Allow},
		{"git diff --no-index a.x /dev/null", Allow},
		{"git grep -n x src", Allow},
		{"git grep -e /etc/x", Allow},
		{"git grep /api/users", Allow},
		{"git grep -n /api/users -- src", Allow},
		{"git grep --no-index -e x /root", Ask},
		{"git log -S /api/users", Allow},
		{"git -C src status", Allow},
		{"cd src && git log --oneline", Allow},
		{"cd src && git diff ../a.x", Allow},
		{"git log " + g.dir + "/a.x", Allow},
		{"git config --get user.name", Allow},
		{"git blame a.x", Allow},
	} {
		if d := e.Check(t.Context(), BashCall(tt.script, g.dir)); d.Verdict != tt.want {
			t.Errorf("%q: %v (%v), want %v", tt.script, d.Verdict, d.Reason, tt.want)
		}
	}
}
