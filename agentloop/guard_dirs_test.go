package agentloop

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sandboxd/test/require"
)

// walkTree walks a tree and returns where git could find something to run, how
// many directories were opened, and what was recorded.
func walkTree(t *testing.T, root string, before *dirIndex) (found []string, opened int, record *dirRecord) {
	t.Helper()
	fd, err := unix.Open(root, openDirFlags, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	w := &dirWalk{uid: unix.Geteuid(), before: before,
		visit: func(path []string, d *dirSeen) {
			opened++
			if d.gitEntry != "" || d.modulesFile || d.isGitDir() {
				found = append(found, filepath.Join(path...))
			}
		},
		blind: func(path []string, err error) { t.Errorf("blind at %q: %v", path, err) },
	}
	if !w.run(fd) {
		t.Error("the walk ended early")
	}
	slices.Sort(found)
	return found, opened, &w.record
}

// TestDirIndexMissesNothing changes a tree at random and compares a walk that
// knows the tree of before with one that knows nothing.
func TestDirIndexMissesNothing(t *testing.T) {
	root := t.TempDir()
	r := rand.New(rand.NewPCG(1, uint64(os.Getpid())))
	dirs := func() (all []string) {
		filepath.WalkDir(root, func(name string, d os.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				all = append(all, name)
			}
			return nil
		})
		return all
	}
	change := func() string {
		all := dirs()
		dir, other := all[r.IntN(len(all))], all[r.IntN(len(all))]
		name := filepath.Join(dir, fmt.Sprintf("d%d", r.IntN(6)))
		switch r.IntN(10) {
		case 0, 1, 2:
			return fmt.Sprint("mkdir ", name, os.Mkdir(name, 0o755))
		case 3:
			return fmt.Sprint("git dir ", name, os.MkdirAll(name+"/.git/hooks", 0o755))
		case 4:
			return fmt.Sprint("bare ", name, os.MkdirAll(name+"/objects", 0o755), os.MkdirAll(name+"/refs", 0o755), os.WriteFile(name+"/HEAD", nil, 0o644))
		case 5:
			return fmt.Sprint("link ", dir, os.WriteFile(dir+"/.git", []byte("gitdir: x"), 0o644))
		case 6:
			return fmt.Sprint("modules ", dir, os.WriteFile(dir+"/.gitmodules", nil, 0o644))
		case 7:
			return fmt.Sprint("move ", other, " ", name, os.Rename(other, name))
		case 8:
			if dir != root {
				return fmt.Sprint("remove ", dir, os.RemoveAll(dir))
			}
			return ""
		default:
			return fmt.Sprint("exchange ", dir, " ", other, unix.Renameat2(unix.AT_FDCWD, dir, unix.AT_FDCWD, other, unix.RENAME_EXCHANGE))
		}
	}
	for range 300 {
		change()
	}
	time.Sleep(time.Duration(dirSettle) + 50*time.Millisecond)
	_, all, record := walkTree(t, root, nil)
	if record.off || !record.changed || len(record.nodes) != all {
		t.Fatalf("the record has %d nodes for %d directories, off %v", len(record.nodes), all, record.off)
	}
	known := decodeDirIndex(record.encode())
	if known == nil {
		t.Fatal("the index cannot be read back")
	}
	want, _, _ := walkTree(t, root, nil)
	if got, opened, again := walkTree(t, root, known); !slices.Equal(got, want) || opened > len(want)+1 || again.changed {
		t.Errorf("unchanged: found %d of %d places, opened %d of %d directories, changed %v", len(got), len(want), opened, all, again.changed)
	}
	var log []string
	for range 200 {
		log = append(log, change())
		want, all, fresh := walkTree(t, root, nil)
		got, _, record := walkTree(t, root, known)
		if !slices.Equal(got, want) {
			t.Fatalf("after %q:\nfound %q\nwant  %q", log[len(log)-1], got, want)
		}
		if names(&record.dirIndex) != names(&fresh.dirIndex) || len(record.nodes) != all {
			t.Fatalf("after %q: the record is not that of a fresh walk", log[len(log)-1])
		}
	}
}

// names lists the paths of an index, sorted, in one text.
func names(x *dirIndex) string {
	var list []string
	var below func(i int32, at string)
	below = func(i int32, at string) {
		list = append(list, at)
		x.children(i, func(c int32) { below(c, at+"/"+x.nodes[c].name) })
	}
	below(0, "")
	slices.Sort(list)
	return fmt.Sprint(list)
}

// TestGuardWithAnIndexFindsPlants plants what a run may plant into a tree whose
// directories are known.
func TestGuardWithAnIndexFindsPlants(t *testing.T) {
	guardUsers(t, func(g *guarded) {
		g.sh("git init -q .; mkdir -p a/b/c/d e/f; git init -q e/f/r; git init -q --bare e/bare; for i in `seq 50`; do mkdir -p many/$i/x; done")
		g.want(g.run("true"))
		time.Sleep(time.Duration(dirSettle) + 50*time.Millisecond)
		g.want(g.run("true")) // settled and written
		index := readDirIndex(dirIndexFile(g.state, g.w))
		if index == nil || len(index.nodes) < 100 {
			t.Fatalf("no index was kept: %v", index)
		}
		for _, tt := range []struct{ script, found string }{
			{"git init -q a/b/c/d; f=a/b/c/d/.git/hooks/pre-commit", "a/b/c/d/.git/hooks/pre-commit"},
			{"f=e/f/r/.git/hooks/post-checkout", "e/f/r/.git/hooks/post-checkout"},
			{"f=e/bare/hooks/update", "e/bare/hooks/update"},
			{"git init -q --bare many/2/x/y; f=many/2/x/y/hooks/pre-receive", "many/2/x/y/hooks/pre-receive"},
			{"git init -q .git/objects/zz; f=.git/objects/zz/.git/hooks/pre-commit", ".git/objects/zz/.git/hooks/pre-commit"},
		} {
			g.want(g.run(tt.script+"; "+evilHook), tt.found)
			g.gone(tt.found)
		}
		g.want(g.run("git -C e/f/r config core.fsmonitor evil"), "e/f/r/.git/config")
		g.want(g.run("echo 'gitdir: /nonexistent/x' > many/1/x/.git"), "many/1/x/.git")
	})
}

// TestWalkKnowsGitDirectories by what git asks for, in any spelling: the file
// system may fold case.
func TestWalkKnowsGitDirectories(t *testing.T) {
	for _, tt := range []struct {
		names string // of a directory's entries
		want  bool
	}{
		{"HEAD objects refs", true}, {"head Objects REFS", true}, {"objects refs config", true}, {"HEAD commondir", true}, {"Head CommonDir", true},
		{"HEAD", false}, {"objects HEAD", false}, {"refs", false}, {"commondir", false}, {"object refs-old HEADER", false},
	} {
		root := t.TempDir()
		for name := range strings.FieldsSeq(tt.names) {
			if err := os.Mkdir(filepath.Join(root, name), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if found, _, _ := walkTree(t, root, nil); slices.Contains(found, "") != tt.want {
			t.Errorf("%s: taken for a git directory %v, want %v", tt.names, !tt.want, tt.want)
		}
	}
}

// TestDirIndexKeepsNoParentOfWhatWasShut: a directory that the walk could not go
// into can become the command's without a change of its parent.
func TestDirIndexKeepsNoParentOfWhatWasShut(t *testing.T) {
	require.Root(t, "a directory of somebody else")
	guardUsers(t, func(g *guarded) {
		if g.user.UID == 0 {
			return // to whom nothing is shut
		}
		g.sh("mkdir -p a/shut; for i in `seq 100`; do mkdir -p many/$i; done")
		shut := filepath.Join(g.w, "a/shut")
		own := func(uid int, mode os.FileMode) {
			if err := errors.Join(os.Chown(shut, uid, uid), os.Chmod(shut, mode)); err != nil {
				t.Fatal(err)
			}
		}
		own(0, 0o700)
		time.Sleep(time.Duration(dirSettle) + 50*time.Millisecond)
		g.want(g.run("true"))
		if readDirIndex(dirIndexFile(g.state, g.w)) == nil {
			t.Fatal("no index was kept")
		}
		own(g.user.UID, 0o755)
		plant := "git init -q a/shut/r; f=a/shut/r/.git/hooks/pre-commit; " + evilHook
		g.want(g.run(plant), "a/shut/r/.git/hooks/pre-commit")
	})
}

// TestDirIndexThatIsNotWhole: a damaged file is no index, and never a crash.
func TestDirIndexThatIsNotWhole(t *testing.T) {
	root := t.TempDir()
	for _, dir := range []string{"a/b", "a/c", "d"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	_, _, record := walkTree(t, root, nil)
	text := record.encode()
	if decodeDirIndex(text) == nil {
		t.Fatal("a whole index cannot be read")
	}
	for i := range text {
		if decodeDirIndex(text[:i]) != nil {
			t.Errorf("the first %d bytes pass for an index", i)
		}
		bad := slices.Clone(text)
		bad[i] ^= 0x41
		if decodeDirIndex(bad) != nil {
			t.Errorf("an index with byte %d changed passes", i)
		}
	}
	file := filepath.Join(root, "index")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if readDirIndex(file) == nil {
		t.Error("a file of ours is not read")
	}
	for name, spoil := range map[string]func() error{
		"writable by others": func() error { return os.Chmod(file, 0o666) },
		"a link":             func() error { return errors.Join(os.Rename(file, file+"2"), os.Symlink(file+"2", file)) },
		"a pipe":             func() error { return errors.Join(os.Remove(file), unix.Mkfifo(file, 0o600)) },
	} {
		if err := spoil(); err != nil {
			t.Fatal(name, err)
		}
		if readDirIndex(file) != nil {
			t.Errorf("%s passes for an index", name)
		}
		os.Remove(file)
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
