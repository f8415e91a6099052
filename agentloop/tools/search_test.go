package tools

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sandboxd/agentloop"
	"sandboxd/agentloop/tools/files"
	"sandboxd/policy"
)

// searchWorld is a small repository.
func searchWorld(t *testing.T, edit func(*agentloop.PolicyInForce)) *world {
	w := newWorld(t, edit)
	w.file("src/main.go", "package main\n\n// needle here\nfunc main() {\n\tneedle()\n}\n")
	w.file("src/lib/lib.go", "package lib\nvar Needle = 1\n")
	w.file("docs/read me.md", "no such thing\n")
	w.file("build/out.go", "needle in a built file\n")
	w.file(".gitignore", "build/\n")
	w.file("bin.dat", "needle\x00binary")
	w.file(".git/config-like", "needle in git")
	return w
}

func TestGrepFindsLines(t *testing.T) {
	w := searchWorld(t, nil)
	for _, tt := range []struct {
		name string
		args policy.Args
		want string
	}{
		{"names", policy.Args{"pattern": "needle"}, "src/main.go\n"},
		{"case", policy.Args{"pattern": "needle", "-i": true}, "src/lib/lib.go\nsrc/main.go\n"},
		{"lines", policy.Args{"pattern": "needle", "output_mode": "content"}, "src/main.go:3:// needle here\nsrc/main.go:5:\tneedle()\n"},
		{"without numbers", policy.Args{"pattern": "here", "output_mode": "content", "-n": false}, "src/main.go:// needle here\n"},
		{"context", policy.Args{"pattern": `needle\(`, "output_mode": "content", "-B": 1.0, "-A": 1.0}, "src/main.go-4-func main() {\nsrc/main.go:5:\tneedle()\nsrc/main.go-6-}\n"},
		{"context around", policy.Args{"pattern": "needle", "output_mode": "content", "-C": 1.0},
			"src/main.go-2-\nsrc/main.go:3:// needle here\nsrc/main.go-4-func main() {\nsrc/main.go:5:\tneedle()\nsrc/main.go-6-}\n"},
		{"count", policy.Args{"pattern": "needle", "output_mode": "count"}, "src/main.go:2\n"},
		{"glob", policy.Args{"pattern": "(?i)needle", "glob": "*.go,!main.go"}, "src/lib/lib.go\n"},
		{"glob with directories", policy.Args{"pattern": "(?i)needle", "glob": "src/*/*.{go,c}"}, "src/lib/lib.go\n"},
		{"type", policy.Args{"pattern": "such", "type": "md"}, "docs/read me.md\n"},
		{"in a directory", policy.Args{"pattern": "Needle", "path": "src/lib"}, "src/lib/lib.go\n"},
		{"in a file", policy.Args{"pattern": "Needle", "path": "src/lib/lib.go", "output_mode": "content"}, "src/lib/lib.go:2:var Needle = 1\n"},
		{"a line's ends", policy.Args{"pattern": "^package lib$"}, "src/lib/lib.go\n"},
		{"a text's ends are a line's", policy.Args{"pattern": `\Avar Needle = 1\z`}, "src/lib/lib.go\n"},
		{"over lines", policy.Args{"pattern": "package lib.*Needle", "multiline": true, "output_mode": "content"}, "src/lib/lib.go:1:package lib\nsrc/lib/lib.go:2:var Needle = 1\n"},
		{"limit", policy.Args{"pattern": "needle", "output_mode": "content", "head_limit": 1.0}, "src/main.go:3:// needle here\n[not complete: there are more; go on with offset 1]\n"},
		{"offset", policy.Args{"pattern": "needle", "output_mode": "content", "offset": 1.0}, "src/main.go:5:\tneedle()\n"},
		{"nothing", policy.Args{"pattern": "haystack"}, "[no match]\n"},
	} {
		if got := w.ok("grep_files", tt.args); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
	w.refused("error parsing regexp", "grep_files", policy.Args{"pattern": "("})
	w.refused("is not known", "grep_files", policy.Args{"pattern": "x", "type": "cobol"})
	w.refused("output_mode", "grep_files", policy.Args{"pattern": "x", "output_mode": "json"})
	w.refused("pattern", "grep_files", policy.Args{"pattern": "x", "glob": "[a"})
	w.refused("no such file", "grep_files", policy.Args{"pattern": "x", "path": "missing"})
}

func TestGlobFindsNames(t *testing.T) {
	w := searchWorld(t, nil)
	for _, tt := range []struct {
		args policy.Args
		want string
	}{
		{policy.Args{"pattern": "**/*.go"}, "src/lib/lib.go\nsrc/main.go\n"},
		{policy.Args{"pattern": "*.txt"}, "a.txt\n"},
		{policy.Args{"pattern": "src/*.go"}, "src/main.go\n"},
		{policy.Args{"pattern": "{src,docs}/**"}, "docs/read me.md\nsrc/lib/lib.go\nsrc/main.go\n"},
		{policy.Args{"pattern": "*.go", "path": "src/lib"}, "src/lib/lib.go\n"},
		{policy.Args{"pattern": w.path("src") + "/**/*.go"}, "src/lib/lib.go\nsrc/main.go\n"},
		{policy.Args{"pattern": "~/w/*.txt"}, "a.txt\n"},
		{policy.Args{"pattern": "a.txt"}, "a.txt\n"},
		{policy.Args{"pattern": "**/*.GO", "case_sensitive": false}, "src/lib/lib.go\nsrc/main.go\n"},
		{policy.Args{"pattern": "build/*", "respect_git_ignore": false}, "build/out.go\n"},
		{policy.Args{"pattern": "**/out.go"}, "[no file matches]\n"},
		{policy.Args{"pattern": "missing.txt"}, "[no file matches]\n"},
	} {
		if got := w.ok("glob_files", tt.args); got != tt.want {
			t.Errorf("%v: %q, want %q", tt.args, got, tt.want)
		}
	}
	w.refused("syntax error", "glob_files", policy.Args{"pattern": "[a"})
}

func TestListShowsOneDirectory(t *testing.T) {
	w := searchWorld(t, nil)
	if err := os.Symlink("a.txt", w.path("link")); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(w.path("fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, want := w.ok("list_dir", policy.Args{"ignore": []any{".git*"}}), "a.txt 14\nbin.dat 13\nbuild/\ndocs/\nfifo [a FIFO]\nlink -> a.txt\nsrc/\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := w.ok("list_dir", policy.Args{"path": "src"}); got != "lib/\nmain.go 55\n" {
		t.Errorf("%q", got)
	}
	w.refused("not a directory", "list_dir", policy.Args{"path": "a.txt"})
}

// TestSearchesAreBounded: a large tree and long lines are cut, and it is told.
func TestSearchesAreBounded(t *testing.T) {
	w := newWorld(t, nil)
	for i := range 1100 {
		w.file(fmt.Sprintf("many/%04d.txt", i), "needle "+strings.Repeat("x", 1000)+"\n")
	}
	if got := w.ok("grep_files", policy.Args{"pattern": "needle"}); strings.Count(got, "\n") != defaultHead+1 || !strings.HasSuffix(got, "go on with offset 250]\n") {
		t.Errorf("%d lines, %q", strings.Count(got, "\n"), got[len(got)-80:])
	}
	got := w.ok("grep_files", policy.Args{"pattern": "needle", "output_mode": "content", "head_limit": 0.0})
	if len(got) > files.MaxReadBytes+1000 || !strings.Contains(got, "more bytes in this line]") || !strings.Contains(got, "the answer would be longer than") {
		t.Errorf("%d bytes, %q", len(got), got[len(got)-120:])
	}
	if got := w.ok("glob_files", policy.Args{"pattern": "**"}); strings.Count(got, "\n") != files.MaxGlobbed+1 || !strings.Contains(got, "more than 1000 files match") {
		t.Errorf("%d lines, %q", strings.Count(got, "\n"), got[len(got)-80:])
	}
	if got := w.ok("list_dir", policy.Args{"path": "many"}); strings.Count(got, "\n") != files.MaxListed+1 || !strings.Contains(got, "1100 names are there") {
		t.Errorf("%d lines, %q", strings.Count(got, "\n"), got[len(got)-80:])
	}
}

// TestSearchesShowNothingDenied: neither the content nor, in a denied directory,
// the names; also where the rule is one that the kernel does not hold.
func TestSearchesShowNothingDenied(t *testing.T) {
	w := newWorld(t, denying("read_file(secret/**)", "read_file(**/.env)", "read_file(./one.key)"))
	w.file("secret/inside.txt", "hush")
	w.file("deep/er/.env", "hush=1")
	w.file(".env", "hush=2")
	w.file("one.key", "hush")
	w.file("open.txt", "hush, but for all")
	s := w.session() // sees the files
	for _, args := range []policy.Args{
		{"pattern": "hush"}, {"pattern": "hush", "output_mode": "content"}, {"pattern": "hush", "output_mode": "count"},
		{"pattern": "hush", "glob": ".env"}, {"pattern": "hush", "path": "deep"},
	} {
		res := w.in(s, "grep_files", args)
		for _, name := range []string{".env", "inside", "one.key", "hush="} {
			if strings.Contains(res.Output, name) {
				t.Errorf("grep_files(%v) shows %s: %q", args, name, res.Output)
			}
		}
		if args["path"] == nil && args["glob"] == nil && !strings.Contains(res.Output, "open.txt") {
			t.Errorf("grep_files(%v) does not find what is open: %s %q", args, res.Error, res.Output)
		}
	}
	for tool, args := range map[string]policy.Args{"glob_files": {"pattern": "**"}, "list_dir": {"path": "secret"}} {
		if res := w.in(s, tool, args); strings.Contains(res.Output, "inside") {
			t.Errorf("%s(%v): %q", tool, args, res.Output)
		}
	}
	if res := w.in(s, "grep_files", policy.Args{"pattern": "x", "path": "secret"}); res.Ran && strings.Contains(res.Output, "inside") {
		t.Errorf("in the denied directory: %q", res.Output)
	}
}

// TestSearchEndsWhenCancelled: a search of a large tree ends at once.
func TestSearchEndsWhenCancelled(t *testing.T) {
	w := newWorld(t, nil)
	big := strings.Repeat(strings.Repeat("ab", 500)+"\n", 9000)
	for i := range 20 {
		w.file(fmt.Sprintf("big%02d", i), big)
	}
	done := make(chan agentloop.ToolResult, 1)
	go func() {
		done <- w.call("grep_files", policy.Args{"pattern": "(a|ab)*(b|ba)*c$", "multiline": false})
	}()
	deadline := time.Now().Add(20 * time.Second)
	for len(w.s.LiveCalls()) == 0 && time.Now().Before(deadline) {
		time.Sleep(time.Millisecond)
	}
	time.Sleep(100 * time.Millisecond) // into the search
	start := time.Now()
	w.s.Cancel("test")
	res := <-done
	if took := time.Since(start); res.Status != agentloop.StatusCancelled || took > time.Second {
		t.Errorf("%s after %v", res.Status, took)
	}
}

func TestGlobListsAreSplitOutsideOfBraces(t *testing.T) {
	for text, want := range map[string][]string{
		"": nil, "*.go": {"*.go"}, "*.go,*.c": {"*.go", "*.c"}, "*.{ts,tsx} *.js": {"*.{ts,tsx}", "*.js"}, "{a,b": {"{a,b"},
	} {
		if got := splitGlobs(text); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
