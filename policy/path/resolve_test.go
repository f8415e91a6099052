package path

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// tree makes W (the root), its neighbour W2, and links of every kind.
func tree(t *testing.T) (base, w string) {
	t.Helper()
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	w = filepath.Join(base, "w")
	put(t, w, "src/a..b", "")
	put(t, w, "x~", "")
	put(t, w, "notes.txt", "")
	put(t, w, ".git/hooks/.keep", "")
	put(t, base, "w2/file", "")
	put(t, base, "home/.bashrc", "")
	for name, target := range map[string]string{
		"out": "../w2", "abs": filepath.Join(base, "w2"), "in": "src", "inabs": filepath.Join(w, "src"),
		"g": ".git", "loop": "loop", "loop1": "loop2", "loop2": "loop1", "dangling": "../w2/new", "danglingin": "src/new",
		"proc": "/proc/self/cwd", "up": "..", "back": "../w/src", "leaf": "notes.txt", "empty": "gone/../src",
	} {
		if err := os.Symlink(target, filepath.Join(w, name)); err != nil {
			t.Fatal(err)
		}
	}
	put(t, w, "bare/HEAD", "ref: refs/heads/main\n")
	put(t, w, "bare/objects/x", "")
	put(t, w, "bare/refs/x", "")
	if err := os.Symlink(w, filepath.Join(base, "wlink")); err != nil {
		t.Fatal(err)
	}
	return base, w
}

func TestResolve(t *testing.T) {
	base, w := tree(t)
	r := Resolver{Roots: []string{w}, Home: filepath.Join(base, "home"), Cwd: w}
	for _, tt := range []struct {
		path      string
		abs       string // relative to base
		inside    bool
		missing   bool
		protected string
	}{
		{"notes.txt", "w/notes.txt", true, false, ""},
		{"./src/../notes.txt", "w/notes.txt", true, false, ""},
		{"src/a..b", "w/src/a..b", true, false, ""},
		{"x~", "w/x~", true, false, ""},
		{"~", "home", false, false, ""},
		{"~/x", "home/x", false, true, ""},
		{"~user", "w/~user", true, true, ""},
		{"new", "w/new", true, true, ""},
		{"new/deep/er", "w/new/deep/er", true, true, ""},
		{".", "w", true, false, ""},
		{"src/", "w/src", true, false, ""},
		{"..", ".", false, false, ""},
		{"../w2/file", "w2/file", false, false, ""},
		{"../w/notes.txt", "w/notes.txt", true, false, ""},
		{"../w2", "w2", false, false, ""}, // a prefix of the name is not the root
		{"out/file", "w2/file", false, false, ""},
		{"out/new", "w2/new", false, true, ""},
		{"abs/file", "w2/file", false, false, ""},
		{"in/a..b", "w/src/a..b", true, false, ""},
		{"inabs/../notes.txt", "w/notes.txt", true, false, ""},
		{"out/../w/notes.txt", "w/notes.txt", true, false, ""}, // ".." after the link
		{"back/a..b", "w/src/a..b", true, false, ""},
		{"up/w2/file", "w2/file", false, false, ""},
		{"dangling", "w2/new", false, true, ""},
		{"danglingin", "w/src/new", true, true, ""},
		{"leaf", "w/notes.txt", true, false, ""},
		{"g/hooks/pre-commit", "w/.git/hooks/pre-commit", true, true, ".git/hooks"},
		{".git/../.git/hooks/commit-msg", "w/.git/hooks/commit-msg", true, true, ".git/hooks"},
		{"g", "w/.git", true, false, ".git"},
		{"bare/hooks/x", "w/bare/hooks/x", true, true, ".git/hooks"},
		{"bare/config", "w/bare/config", true, true, ".git/config"},
		{"bare/other", "w/bare/other", true, true, ""},
		{"src/hooks/x", "w/src/hooks/x", true, true, ""},
		{"sub/.vscode/tasks.json", "w/sub/.vscode/tasks.json", true, true, ".vscode"},
		{"~/.bashrc", "home/.bashrc", false, false, ""},
		{filepath.Join(base, "wlink/notes.txt"), "w/notes.txt", true, false, ""},
	} {
		got, err := r.Resolve(tt.path)
		protected := ""
		if got.Protected != nil {
			protected = got.Protected.Pattern
		}
		if err != nil || got.Abs != filepath.Join(base, tt.abs) || got.Inside != tt.inside || got.Missing != tt.missing || protected != tt.protected || got.Magic {
			t.Errorf("Resolve(%q) = %+v protected %q, %v; want %+v", tt.path, got, protected, err, tt)
		}
	}
}

// TestResolveAgreesWithTheKernel opens what exists and asks /proc where it is.
func TestResolveAgreesWithTheKernel(t *testing.T) {
	_, w := tree(t)
	r := Resolver{Roots: []string{w}, Cwd: w}
	for _, name := range []string{"out/../w/src/..", "up/w/in/..", "back/../in/./a..b", "inabs//..//g/hooks/..", "abs/..", "bare/../../w2/file", "leaf", "out/"} {
		fd, err := unix.Open(w+"/"+name, unix.O_PATH, 0)
		if err != nil {
			t.Fatal(name, err)
		}
		want, err := os.Readlink("/proc/self/fd/" + itoa(fd))
		unix.Close(fd)
		got, gotErr := r.Resolve(name)
		if err != nil || gotErr != nil || got.Abs != want {
			t.Errorf("Resolve(%q) = %q, %v; the kernel says %q, %v", name, got.Abs, gotErr, want, err)
		}
	}
}

func TestResolveRefuses(t *testing.T) {
	_, w := tree(t)
	r := Resolver{Roots: []string{w}, Cwd: w}
	for _, tt := range []struct {
		path string
		want error
	}{
		{"", ErrInvalid},
		{"a\x00b", ErrInvalid},
		{"loop", ErrLoop},
		{"loop1/x", ErrLoop},
		{"notes.txt/x", unix.ENOTDIR},
		{"notes.txt/", unix.ENOTDIR},
		{"leaf/..", unix.ENOTDIR},
		{strings.Repeat("n", 300), unix.ENAMETOOLONG},
		{strings.Repeat("d/", 50000) + "x", unix.ENAMETOOLONG},
	} {
		if got, err := r.Resolve(tt.path); !errors.Is(err, tt.want) || got.Inside {
			t.Errorf("Resolve(%.40q) = %+v, %v; want %v", tt.path, got, err, tt.want)
		}
	}
	if got, err := (Resolver{Roots: []string{w}, Cwd: "w"}).Resolve("x"); !errors.Is(err, ErrInvalid) || got.Inside {
		t.Errorf("relative start directory: %+v, %v", got, err)
	}
}

func TestResolveNeverTrustsLinksOfProc(t *testing.T) {
	_, w := tree(t)
	r := Resolver{Roots: []string{w, "/proc"}, Cwd: w}
	for _, name := range []string{"/proc/self/root" + w + "/notes.txt", "/proc/self/cwd/notes.txt", "proc/notes.txt", "/proc/thread-self/root", "/proc/1/root/etc/passwd", "/proc/self/fd/0", "/dev/fd/0", "/proc/self/root/../../" + w} {
		got, err := r.Resolve(name)
		if err == nil && (got.Inside || !got.Magic) {
			t.Errorf("Resolve(%q) = %+v, want Magic and not Inside", name, got)
		}
	}
}

func TestResolveGuess(t *testing.T) {
	_, w := tree(t)
	r := Resolver{Roots: []string{w}, Cwd: w}
	got, err := r.Resolve("build/../src/a..b")
	if err != nil || !got.Guess || got.Missing || got.Abs != w+"/src/a..b" {
		t.Errorf("Resolve through a missing name = %+v, %v", got, err)
	}
	got, err = r.Resolve("build/../out/file")
	if err != nil || !got.Guess || got.Inside {
		t.Errorf("Resolve through a missing name and a link = %+v, %v", got, err)
	}
	if got, _ = r.Resolve("src/../notes.txt"); got.Guess {
		t.Errorf("nothing is missing: %+v", got)
	}
}

func TestResolveLongestRootWins(t *testing.T) {
	base, w := tree(t)
	r := Resolver{Roots: []string{filepath.Join(w, "src"), base, filepath.Join(base, "wlink"), "/nonexistent"}, Cwd: filepath.Join(w, "in")}
	for range r.Roots {
		r.Roots = append(r.Roots[1:], r.Roots[0])
		for path, want := range map[string]string{"a..b": w + "/src", "../notes.txt": w, "../../w2/file": base} {
			if got, err := r.Resolve(path); err != nil || got.Root != want || !got.Inside {
				t.Errorf("Resolve(%q) among %q = %+v, %v; want root %s", path, r.Roots, got, err, want)
			}
		}
	}
	if got, err := (Resolver{Roots: []string{"/"}, Cwd: "/"}).Resolve("etc"); err != nil || !got.Inside || got.Root != "/" {
		t.Errorf("root /: %+v, %v", got, err)
	}
}

func TestStrictRefusesWindowsTricks(t *testing.T) {
	_, w := tree(t)
	r := Resolver{Roots: []string{w}, Cwd: w, Strict: true}
	for _, name := range []string{"a<b", "a>b", "a:b", `a"b`, "a|b", "a?b", "a*b", "f::$DATA", ".git::$INDEX_ALLOCATION/config", "GIT~1/config", "PROGRA~1", "a~12", "PROGRA~1.TXT",
		`\\?\C:\x`, `\\.\NUL`, `..\x`, "CON", "nul.txt", "com1", "LPT9.log", "dir./x", "end ", ".git /config", "a\x01b"} {
		if _, err := r.Resolve(name); !errors.Is(err, ErrWindowsName) {
			t.Errorf("strict Resolve(%q) = %v, want ErrWindowsName", name, err)
		}
		loose := r
		loose.Strict = false
		if _, err := loose.Resolve(name); err != nil {
			t.Errorf("loose Resolve(%q) = %v", name, err)
		}
	}
	for _, name := range []string{"a..b", "x~", "~", "../w/src", "...x", "backup~", "v1.2~rc1", "~1x", "a b.txt", "con-fig", "longername~1", "nullable", "COM10", "é.txt"} {
		if _, err := r.Resolve(name); err != nil {
			t.Errorf("strict Resolve(%q) = %v, want no error", name, err)
		}
	}
}

func FuzzResolve(f *testing.F) {
	base := f.TempDir()
	w := filepath.Join(base, "w")
	if err := os.MkdirAll(w+"/d", 0o755); err != nil {
		f.Fatal(err)
	}
	for name, target := range map[string]string{"o": "..", "l": "l", "i": "d", "p": "/proc/self/root"} {
		if err := os.Symlink(target, filepath.Join(w, name)); err != nil {
			f.Fatal(err)
		}
	}
	for _, seed := range []string{"o/w/i", "../x", "d/../../w", "~/x", "p/etc", "l", "//", "d//./.."} {
		f.Add(seed)
	}
	r := Resolver{Roots: []string{w}, Cwd: w, Home: base}
	f.Fuzz(func(t *testing.T, name string) {
		got, err := r.Resolve(name)
		if err != nil {
			return
		}
		if filepath.Clean(got.Abs) != got.Abs || !filepath.IsAbs(got.Abs) {
			t.Errorf("Resolve(%q).Abs = %q is not clean", name, got.Abs)
		}
		if got.Magic || got.Guess || strings.HasPrefix(name, "~") {
			return
		}
		full := name
		if !filepath.IsAbs(name) {
			full = w + "/" + name
		}
		fd, err := unix.Open(full, unix.O_PATH, 0)
		if err != nil {
			return
		}
		defer unix.Close(fd)
		if real, _ := os.Readlink("/proc/self/fd/" + itoa(fd)); real != got.Abs {
			t.Errorf("Resolve(%q).Abs = %q, the kernel opens %q", name, got.Abs, real)
		}
	})
}

func BenchmarkResolve(b *testing.B) {
	w := b.TempDir()
	put(b, w, "a/b/c.txt", "")
	r := Resolver{Roots: []string{w}, Cwd: w}
	for b.Loop() {
		if _, err := r.Resolve("a/b/c.txt"); err != nil {
			b.Fatal(err)
		}
	}
}
