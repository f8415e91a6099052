package files

import (
	"math/rand/v2"
	"os"
	osexec "os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"sandboxd/test/require"
)

// TestIgnoreFilesMeanWhatGitSays walks random trees with random ignore files, and
// takes git as the judge of what is left out.
func TestIgnoreFilesMeanWhatGitSays(t *testing.T) {
	git, err := osexec.LookPath("git")
	if err != nil {
		require.Missing(t, require.Program, "git")
	}
	names := []string{"a", "b.txt", "build", "c.log", "node_modules", "x{1}", "#note", "!bang", "sp ace", "end ", "Makefile"}
	lines := []string{
		"*.log", "build/", "/a", "a/b.txt", "**/c.log", "build/**", "a/**/b.txt", "!c.log", "!b.txt", "node_modules", "x{1}", "x{*}", `\#note`, `\!bang`,
		"# comment", "", "sp ace", "end ", `end\ `, "[ab]*", "[!a]*.txt", "?.log", "/build/*", "!/build/a", "a/", "*", "!*/", "!Makefile", "**", "/**", "**/", "a**", "/a/*/c.log", "b.txt/", `\a`, "M*e",
	}
	seen := 0
	for round := range 60 {
		r := rand.New(rand.NewPCG(7, uint64(round)))
		top := t.TempDir()
		pick := func(list []string) string { return list[r.IntN(len(list))] }
		ignoreText := func() string {
			var s string
			for range 1 + r.IntN(5) {
				s += pick(lines) + "\n"
			}
			return s
		}
		put := func(name, content string) {
			if os.MkdirAll(filepath.Dir(name), 0o755) == nil {
				_ = os.WriteFile(name, []byte(content), 0o644) // a directory may have the name
			}
		}
		for range 25 {
			put(filepath.Join(top, pick(names), pick(names), pick(names)), "x")
			put(filepath.Join(top, pick(names)), "x")
		}
		put(filepath.Join(top, ".gitignore"), ignoreText())
		put(filepath.Join(top, pick(names), ".gitignore"), ignoreText())
		git := func(args ...string) string {
			c := osexec.Command(git, args...)
			c.Dir = top
			c.Env = []string{"HOME=" + top, "GIT_CONFIG_NOSYSTEM=1", "PATH=/usr/bin:/bin"}
			out, err := c.Output()
			if err != nil {
				t.Fatalf("git %v: %v", args, err)
			}
			return string(out)
		}
		git("init", "-q")
		put(filepath.Join(top, ".git/info/exclude"), ignoreText())
		want := strings.Split(strings.TrimSuffix(git("ls-files", "-z", "--others", "--exclude-standard"), "\x00"), "\x00")
		want = slices.DeleteFunc(want, func(s string) bool { return s == "" })
		slices.Sort(want)
		got := walked(t, top)
		seen += len(got)
		if !slices.Equal(got, want) {
			rules, _ := osexec.Command("sh", "-c", `cd "$1" && head -50 $(find . -name .gitignore | sed 's/ /?/g') .git/info/exclude`, "sh", top).CombinedOutput()
			t.Fatalf("round %d:\nhere %q\ngit  %q\n%s", round, got, want, rules)
		}
	}
	if seen == 0 {
		t.Error("every tree was ignored as a whole")
	}
}

// walked lists the files that a walk visits.
func walked(t *testing.T, top string) (list []string) {
	t.Helper()
	p, err := find(top)
	if err != nil {
		t.Fatal(err)
	}
	f, err := p.openDir()
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	defer unix.Close(p.dir)
	w := newWalker(p, false)
	w.visit = func(rel, _ string, _ int, _ os.FileMode) bool {
		list = append(list, rel)
		return true
	}
	w.walk(f)
	slices.Sort(list)
	return list
}
