package path

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestJudgeGitConfigFindsExecutingKeys(t *testing.T) {
	for _, text := range []string{
		"[core]hooksPath=x", "[core]fsmonitor=./evil", "[core]fsmonitor=\"true \"x", "[core]sshCommand=x", "[core]pager=x", "[core]editor=x",
		"[core]askPass=x", "[core]gitProxy=x", "[core]alternateRefsCommand=x", "[core]attributesFile=x", "[core]worktree=/home/u",
		"[alias]a=!x", "[alias]a=\" !x\"", "[alias]a=-c core.pager=x log", "[alias \"a\"]command=!x", "[pager]log=x",
		"[credential]helper=!x", "[credential \"https://h\"]helper=x", "[filter \"f\"]clean=x", "[filter \"f\"]smudge=x", "[filter \"f\"]process=x",
		"[filter.f]clean=x", "[FILTER \"f\"]CLEAN=x", "[diff \"d\"]command=x", "[diff \"d\"]textconv=x", "[diff]external=x", "[merge \"m\"]driver=x",
		"[gpg]program=x", "[gpg \"ssh\"]program=x", "[gpg \"ssh\"]defaultKeyCommand=x", "[sequence]editor=x",
		"[include]path=x", "[includeIf \"gitdir:/\"]path=x", "[protocol \"ext\"]allow=always", "[protocol]allow=always",
		"[remote \"o\"]uploadpack=x", "[remote \"o\"]receivepack=x", "[remote \"o\"]vcs=x", "[remote \"o\"]url=ext::sh -c x", "[remote \"o\"]url=-oProxyCommand=x",
		"[submodule \"s\"]update=!x", "[submodule \"s\"]url=ext::x", "[interactive]diffFilter=x", "[difftool \"t\"]cmd=x", "[mergetool \"t\"]path=x",
		"[trailer \"t\"]command=x", "[trailer \"t\"]cmd=x", "[man \"m\"]cmd=x", "[browser \"b\"]cmd=x", "[uploadpack]packObjectsHook=x",
		"[init]templateDir=x", "[http]proxy=h:1", "[http \"https://h\"]sslVerify=false", "[url \"https://evil/\"]insteadOf=https://good/",
		"[sendemail]smtpServer=/bin/x", "[hook \"h\"]command=x", "[lfs \"customtransfer.x\"]path=x", "[guitool \"g\"]cmd=x", "[gc]recentObjectsHook=x",
		"[core]\npager = x\n[broken", "[core]\n\tbare = false\n[x",
		"[core]\n\tbare = \\\n false\n\tpager \\\n", // continuation outside a value
	} {
		if len(JudgeGitConfig([]byte(text))) == 0 {
			t.Errorf("JudgeGitConfig(%q) finds nothing", text)
		}
	}
}

func TestJudgeGitConfigLetsHarmlessSettingsBe(t *testing.T) {
	for _, text := range []string{
		"", "[core]\n\tbare = false\n\tlogallrefupdates = true\n\tfilemode = true\n\trepositoryformatversion = 0\n",
		"[remote \"origin\"]\n\turl = https://example.org/a.git\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n",
		"[remote \"o\"]url=git@example.org:a/b.git", "[remote \"o\"]url=/srv/x.git", "[remote \"o\"]url=ssh://git@h/x", "[remote \"o\"]url=[::1]:x",
		"[branch \"main\"]\n\tremote = origin\n\tmerge = refs/heads/main\n\trebase = true\n",
		"[user]\n\tname = a\n\temail = b\n", "[core]fsmonitor", "[core]fsmonitor=TRUE", "[alias]co=checkout", "[pager]log=false",
		"[submodule \"s\"]\n\tactive = true\n\turl = ../s\n\tupdate = rebase\n", "[filter \"lfs\"]required=true", "[credential]helper=",
		"[extensions]\n\tworktreeConfig = true\n", "[protocol \"ext\"]allow=never", "# core.pager = x\n", "; [core] pager=x\n", "[http]sslVerify=true",
		"[core]\n\tautocrlf = \"input\" ; pager = x\n", "[color]pager=true", "[safe]directory=*",
	} {
		if got := JudgeGitConfig([]byte(text)); len(got) != 0 {
			t.Errorf("JudgeGitConfig(%q) = %+v, want none", text, got)
		}
	}
}

// TestJudgeWhatGitWrites looks at every config that real git commands leave.
func TestJudgeWhatGitWrites(t *testing.T) {
	base := t.TempDir()
	src, w := filepath.Join(base, "src"), filepath.Join(base, "w")
	git(t, base, "init", "-q", src)
	put(t, src, "f", "x")
	git(t, src, "add", ".")
	git(t, src, "commit", "-q", "-m", "x")
	git(t, base, "clone", "-q", src, w)
	git(t, w, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", src, "dep")
	git(t, w, "commit", "-q", "-m", "dep")
	git(t, w, "switch", "-q", "-c", "topic", "--track", "origin/"+branch(t, src))
	git(t, w, "worktree", "add", "-q", filepath.Join(base, "linked"))
	git(t, w, "sparse-checkout", "set", "dep")
	git(t, src, "worktree", "add", "-q", filepath.Join(base, "second"))
	git(t, src, "config", "extensions.worktreeConfig", "true")
	git(t, src, "config", "--worktree", "user.name", "x")
	git(t, w, "remote", "add", "other", "https://example.org/x.git")
	git(t, w, "gc", "-q")
	judged := 0
	err := filepath.WalkDir(base, func(name string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, _ := os.ReadFile(name)
		switch d.Name() {
		case "config", "config.worktree":
			judged++
			for _, f := range JudgeGitConfig(content) {
				if f.Effect != Relocates {
					t.Errorf("%s: %+v\n%s", name, f, content)
				}
			}
		case ".gitmodules":
			judged++
			if got := JudgeGitModules(content); len(got) != 0 {
				t.Errorf("%s: %+v", name, got)
			}
		}
		return nil
	})
	if err != nil || judged < 5 {
		t.Errorf("judged %d files, %v", judged, err)
	}
}

func branch(t *testing.T, dir string) string {
	out := git(t, dir, "branch", "--show-current")
	return out[:len(out)-1]
}

func TestCleanGitConfigKeepsTheRest(t *testing.T) {
	text := "[core]\n\tbare = false\n\tpager = evil \\\n more\n\tfilemode = true\n[alias] a = !x\n[remote \"o\"]\r\n\turl = u\r\n\tuploadpack = e\r\n\tfetch = f\r\n"
	clean, ok := CleanGitConfig([]byte(text), func(Finding) bool { return true })
	want := "[core]\n\tbare = false\n\t\n\tfilemode = true\n[alias] \n[remote \"o\"]\r\n\turl = u\r\n\t\r\n\tfetch = f\r\n"
	if !ok || string(clean) != want {
		t.Errorf("CleanGitConfig = %q, %v\nwant %q", clean, ok, want)
	}
	if _, ok := CleanGitConfig([]byte("[core\n"), func(Finding) bool { return true }); ok {
		t.Error("a malformed file was cleaned")
	}
}

func TestNewFindingsLeavesOldOnes(t *testing.T) {
	before := JudgeGitConfig([]byte("[core]\n\tpager = delta\n"))
	now := JudgeGitConfig([]byte("[user]\n\tname = a\n[core]\n\tpager = delta\n\teditor = evil\n"))
	got := NewFindings(now, before)
	if len(got) != 1 || got[0].Key != "core.editor" {
		t.Errorf("NewFindings = %+v, want core.editor", got)
	}
}

func TestJudgeAttributesModulesLinksHooks(t *testing.T) {
	attributes := map[string]int{"* filter=x": 1, "*.go diff=golang": 0, "*.x diff=evil merge=union": 1, "* text=auto eol=lf\n*.png binary": 0, "# * filter=x": 0, "a merge=evil\nb filter=y": 2, "*.c -filter": 0}
	for text, want := range attributes {
		if got := JudgeGitAttributes([]byte(text)); len(got) != want {
			t.Errorf("JudgeGitAttributes(%q) = %+v, want %d", text, got, want)
		}
	}
	modules := map[string]int{
		"[submodule \"a\"]\n\tpath = a\n\turl = ../a.git\n":      0,
		"[submodule \"a\"]\n\tupdate = !x\n":                     1,
		"[submodule \"../../x\"]\n\tpath = a\n":                  1,
		"[submodule \"a\"]\n\tpath = a\n\turl = -u./x\n":         1,
		"[submodule \"a\"]\n\tpath = \"a\r\"\n":                  1,
		"[submodule \"a\"]\n\tpath = ../x\n":                     1,
		"[submodule \"a\"]\n\turl = ext::sh -c x\n\tpath = a..b": 1,
	}
	for text, want := range modules {
		if got := JudgeGitModules([]byte(text)); len(got) != want {
			t.Errorf("JudgeGitModules(%q) = %+v, want %d", text, got, want)
		}
	}
	links := map[string]string{"gitdir: ../.git/modules/a\n": "../.git/modules/a", "../..\n": "../..", "": "", "gitdir: a\nb": ""}
	for text, want := range links {
		if got, ok := GitLinkTarget([]byte(text)); got != want || ok != (want != "") {
			t.Errorf("GitLinkTarget(%q) = %q, %v, want %q", text, got, ok, want)
		}
	}
	var hooks []string
	for _, name := range []string{"pre-commit", "pre-commit.sample", "README", "post-checkout"} {
		if IsGitHook(name, false) {
			hooks = append(hooks, name)
		}
	}
	if !slices.Equal(hooks, []string{"pre-commit", "post-checkout"}) || !IsGitHook("new-in-git-3", true) {
		t.Errorf("IsGitHook holds for %q", hooks)
	}
}
