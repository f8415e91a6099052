package path

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestMatchNames(t *testing.T) {
	for _, tt := range []struct {
		rel  string
		want string // pattern, "" for none
	}{
		{".git/hooks/pre-commit", ".git/hooks"},
		{".git/hooks/.keep", ".git/hooks"},
		{".git/hooks", ".git/hooks"},
		{"a/b/.git/hooks/x", ".git/hooks"},
		{".git/config", ".git/config"},
		{".git/config.worktree", ".git/config.worktree"},
		{".git/config.lock", ".git"},
		{".git/HEAD", ".git"},
		{".git", ".git"},
		{"sub/.git", ".git"},
		{".git/info-x", ".git"},
		{".git/info/attributes", ".git/info/attributes"},
		{".git/modules/dep/hooks/post-checkout", ".git/modules/*/hooks"},
		{".git/modules/dep/config", ".git/modules/*/config"},
		{".git/worktrees/w/commondir", ".git/worktrees/*/commondir"},
		{".gitmodules", ".gitmodules"},
		{".gitattributes", ".gitattributes"},
		{".bashrc", ".bashrc"},
		{".profile", ".profile"},
		{".zshrc", ".zshrc"},
		{".claude.json", ".claude.json"},
		{".claude/settings.json", ".claude"},
		{".vscode/tasks.json", ".vscode"},
		{"pkg/.idea/workspace.xml", ".idea"},
		{".mcp.json", ".mcp.json"},
		{".envrc", ".envrc"},
		{".aider.conf.yml", ".aider.conf.yml"},
		{".aider.tags.cache.v3/x", ".aider*"},
		{"sandboxd.toml", "sandboxd.toml"},
		{".sandboxd-local.toml", ".sandboxd*"},
		{"./x/../y", ""},
		{".gitignore", ""},
		{".GIT/hooks/x", ""}, // Linux tells them apart
		{"git/hooks/pre-commit", ""},
		{".github/workflows/ci.yml", ""},
		{"hooks/pre-commit", ""},
		{"src/config", ""},
		{".bashrc.d/x", ""},
		{"Makefile", ""},
		{"local-out/.keep", ""},
		{".", ""},
		{"", ""},
	} {
		e, ok := Match(tt.rel)
		if ok != (tt.want != "") || e.Pattern != tt.want {
			t.Errorf("Match(%q) = %q, %v, want %q", tt.rel, e.Pattern, ok, tt.want)
		}
	}
}

func TestTableIsWhole(t *testing.T) {
	seen := map[string]bool{}
	for _, e := range Protected() {
		if e.Reason == "" || e.Pattern == "" || filepath.Clean(e.Pattern) != e.Pattern {
			t.Errorf("entry %+v is not whole", e)
		}
		if seen[e.Pattern] {
			t.Errorf("%s stands twice", e.Pattern)
		}
		seen[e.Pattern] = true
	}
}

func TestExistingFindsOnlyWhatIsThere(t *testing.T) {
	w := t.TempDir()
	want := func(names ...string) {
		t.Helper()
		var got []string
		for _, n := range Existing(w) {
			got = append(got, n.Path)
		}
		for i := range names {
			names[i] = filepath.Join(w, names[i])
		}
		slices.Sort(got)
		slices.Sort(names)
		if !slices.Equal(got, names) {
			t.Errorf("Existing = %q, want %q", got, names)
		}
	}
	want()
	put(t, w, ".vscode/settings.json", "{}")
	put(t, w, "sub/.idea/x", "")
	put(t, w, ".gitattributes", "")
	want(".vscode")
	git(t, w, "init", "-q")
	want(".vscode", ".git/hooks", ".git/config")
	if err := os.Symlink("nowhere", filepath.Join(w, ".bashrc")); err != nil {
		t.Fatal(err)
	}
	want(".vscode", ".git/hooks", ".git/config", ".bashrc")
	put(t, w, "tools/hooks/pre-commit", "")
	put(t, w, "shared.gitconfig", "")
	git(t, w, "config", "core.hooksPath", "tools/hooks")
	git(t, w, "config", "include.path", "../shared.gitconfig")
	want(".vscode", ".git/hooks", ".git/config", ".bashrc", "tools/hooks", "shared.gitconfig")
}

func TestExistingInLinkedWorktreeAndBareRepository(t *testing.T) {
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	main, linked := filepath.Join(base, "main"), filepath.Join(base, "linked")
	git(t, base, "init", "-q", main)
	git(t, main, "commit", "-q", "--allow-empty", "-m", "x")
	git(t, main, "worktree", "add", "-q", linked)
	got := FindGitDirs(linked)
	want := GitDirs{Link: filepath.Join(linked, ".git"), Dir: filepath.Join(main, ".git/worktrees/linked"), Common: filepath.Join(main, ".git")}
	if got != want {
		t.Errorf("FindGitDirs = %+v, want %+v", got, want)
	}
	for _, name := range []string{want.Link, main + "/.git/config", main + "/.git/hooks", want.Dir + "/commondir"} {
		if !slices.ContainsFunc(Existing(linked), func(n Name) bool { return n.Path == name }) {
			t.Errorf("Existing(linked worktree) lacks %s", name)
		}
	}
	bare := filepath.Join(base, "bare")
	git(t, base, "init", "-q", "--bare", bare)
	for _, name := range []string{"config", "hooks"} {
		if !slices.ContainsFunc(Existing(bare), func(n Name) bool { return n.Path == filepath.Join(bare, name) }) {
			t.Errorf("Existing(bare repository) lacks %s", name)
		}
	}
}

func BenchmarkExisting(b *testing.B) {
	w := b.TempDir()
	git(b, w, "init", "-q")
	for b.Loop() {
		Existing(w)
	}
}
