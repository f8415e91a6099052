package bash_test

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"sandboxd/policy/bash"
)

// workshop is a tree of files in which programs of the tables are run, to
// compare what changed with the effects that were listed.
type workshop struct{ dir string }

func newWorkshop(t testing.TB) *workshop {
	t.Helper()
	dir, err := os.MkdirTemp("", "bashwrites")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	os.Chmod(dir, 0o755)
	return &workshop{dir}
}

// fresh makes the tree anew; the scripts run in its directory w.
func (w *workshop) fresh(t testing.TB) string {
	t.Helper()
	root := filepath.Join(w.dir, "r")
	os.RemoveAll(root)
	for _, d := range []string{"w/d", "w/e", "out/d", "tmp"} {
		os.MkdirAll(filepath.Join(root, d), 0o755)
	}
	for f, s := range map[string]string{"w/a": "one\ntwo\nthree\n", "w/b": "two\none\n", "w/d/x": "x\n", "out/f": "f\n", "out/d/y": "y\n", "w/c.sh": ":\n"} {
		if err := os.WriteFile(filepath.Join(root, f), []byte(s), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	os.Symlink("../out/f", filepath.Join(root, "w/l"))
	old := time.Unix(1_600_000_000, 0)
	filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if os.Getuid() == 0 {
			os.Lchown(p, 1000, 1000)
		}
		if d.Type()&fs.ModeSymlink == 0 {
			os.Chtimes(p, old, old)
		}
		return nil
	})
	return root
}

// snapshot describes every file below root: mode, size, time and, for links,
// the target; of directories the mode alone.
func snapshot(root string) map[string]string {
	out := map[string]string{}
	filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil
		}
		i, err := os.Lstat(p)
		if err != nil {
			return nil
		}
		switch {
		case i.IsDir():
			out[p] = i.Mode().String()
		case i.Mode()&fs.ModeSymlink != 0:
			to, _ := os.Readlink(p)
			out[p] = "-> " + to
		default:
			out[p] = fmt.Sprint(i.Mode(), i.Size(), i.ModTime().UnixNano())
		}
		return nil
	})
	return out
}

// changed runs a script and lists the paths that are other than before.
func (w *workshop) changed(t testing.TB, script string) []string {
	t.Helper()
	root := w.fresh(t)
	before := snapshot(root)
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	cmd := osexec.CommandContext(ctx, "bash", "-c", "ulimit -f 20000 -t 2; "+script)
	cmd.Dir = filepath.Join(root, "w")
	cmd.Env = []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + filepath.Join(root, "home"), "TMPDIR=" + filepath.Join(root, "tmp")}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if os.Getuid() == 0 {
		cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWPID | syscall.CLONE_NEWNET | syscall.CLONE_NEWIPC
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: 1000, Gid: 1000}
	}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	cmd.Run()
	after := snapshot(root)
	var out []string
	for p, s := range before {
		if after[p] != s {
			out = append(out, p)
		}
	}
	for p := range after {
		if _, ok := before[p]; !ok {
			out = append(out, p)
		}
	}
	return out
}

// accounted reports whether a listed effect accounts for a change at p. Names
// that a program derives (a.gz, a~, xaa) count when the effect names a file of
// which they are a longer or shorter form, in the same directory.
func accounted(a *bash.Analysis, p string) bool {
	for _, e := range a.Effects {
		if e.Kind != bash.Write && e.Kind != bash.Delete {
			continue
		}
		if !e.Known() || !strings.HasPrefix(e.Path, "/") {
			return true // an unknown target asks
		}
		q := filepath.Clean(e.Path)
		switch {
		case q == p, strings.HasPrefix(q, p+"/"):
			return true
		case (e.Tree || e.Into) && strings.HasPrefix(p, q+"/"):
			return true
		case filepath.Dir(p) == filepath.Dir(q) && (strings.HasPrefix(p, q) || strings.HasPrefix(q, p)):
			return true
		}
		if to, err := filepath.EvalSymlinks(q); err == nil && (to == p || strings.HasPrefix(p, to+"/")) {
			return true
		}
	}
	return false
}

// TestWritesAgainstRealBash runs programs of the tables with options that they
// may or may not have: a file that changed must be among the effects listed, and
// a command that is called read-only changes nothing. Programs whose doings are
// not known (Opaque, UnknownCode, …) are not judged.
func TestWritesAgainstRealBash(t *testing.T) {
	deadline, r := budget(t, 10)
	w := newWorkshop(t)
	c := &composer{r: r, box: newToolbox(t)}
	if got := w.changed(t, "echo > ../out/new; rm a; ls"); len(got) != 2 {
		t.Fatalf("the workshop does not tell what changed: %v", got)
	}
	// Writers without options and with each of their own, first; then any
	// program by chance.
	var queue []string
	for _, t := range c.box.tools {
		if !t.Writes {
			continue
		}
		for _, ops := range []string{"a", "a b", "new", "../out/f", "a ../out/new", "d/x b e", "644 a", "-s a new", "d"} {
			queue = append(queue, t.name+" "+ops)
		}
		for _, f := range t.Flags {
			if strings.ContainsRune("#~?$@;:'\"\\", f) {
				continue
			}
			queue = append(queue, fmt.Sprintf("%s -%c a", t.name, f), fmt.Sprintf("%s -%c a new", t.name, f), fmt.Sprintf("%s -%c new a", t.name, f))
		}
	}
	r.Shuffle(len(queue), func(i, j int) { queue[i], queue[j] = queue[j], queue[i] })
	tried, writes := 0, 0
	for tried < 20_000 && time.Now().Before(deadline) {
		s := c.handle()
		if n := len(queue); n > 0 {
			s, queue = queue[n-1], queue[:n-1]
		}
		root := filepath.Join(w.dir, "r")
		a := bash.Analyze(s, bash.Options{Cwd: filepath.Join(root, "w"), Home: filepath.Join(root, "home")})
		if len(a.Unknown) > 0 || opaque(&a) {
			continue
		}
		tried++
		for _, p := range w.changed(t, s) {
			if strings.HasPrefix(p, filepath.Join(root, "tmp")) {
				continue // of no matter: where programs put what they need for a moment
			}
			writes++
			if !accounted(&a, p) {
				t.Errorf("%q changed %s, which is not listed (read-only: %v)", s, strings.TrimPrefix(p, root), a.Commands[0].ReadOnly)
			}
		}
	}
	t.Logf("%d commands, %d changes", tried, writes)
	if tried < 20 || writes == 0 {
		t.Error("tried too little")
	}
}

func opaque(a *bash.Analysis) bool {
	for i := range a.Commands {
		if a.Commands[i].Opaque || !a.Commands[i].InTable {
			return true
		}
	}
	return len(a.Dangers) > 0
}

// workOperands are what a program is given in the workshop.
var workOperands = strings.Fields("a b d e new ../out/f ../out/new ../out/d l d/x c.sh . 1 s/o/x/ p w/../out/new 644 -")

// handle writes a command line for a program of the tables with files of the
// workshop as option values and operands.
func (c *composer) handle() string {
	t := &c.box.tools[c.r.IntN(len(c.box.tools))]
	s := t.name + c.options(t, workOperands)
	for range c.r.IntN(4) {
		s += " " + workOperands[c.r.IntN(len(workOperands))]
	}
	if c.r.IntN(6) == 0 {
		s = "cat a | " + s
	}
	return s
}
