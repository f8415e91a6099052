package path

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"
)

func itoa(n int) string { return strconv.Itoa(n) }

func TestOpenBeneath(t *testing.T) {
	base, w := tree(t)
	secret := put(t, base, "w2/secret", "secret")
	if err := os.Link(secret, filepath.Join(base, "w2/hard")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"../w2/secret", secret, "out/secret", "abs/secret", "up/w2/secret", "inabs/a..b", "proc/notes.txt", "src/../../w2/secret", "dangling"} {
		f, err := OpenBeneath(w, name, unix.O_RDWR|unix.O_CREAT, 0o600)
		if err == nil {
			f.Close()
			t.Errorf("OpenBeneath(%q) opened it", name)
		} else if !errors.Is(err, unix.EXDEV) && !errors.Is(err, unix.ELOOP) {
			t.Errorf("OpenBeneath(%q): %v, want EXDEV or ELOOP", name, err)
		}
	}
	if _, err := os.Lstat(filepath.Join(base, "w2/new")); err == nil {
		t.Error("a file was made outside")
	}
	for _, name := range []string{"notes.txt", "in/a..b", "src/../x~", "leaf", "danglingin", "src/fresh"} {
		f, err := OpenBeneath(w, name, unix.O_RDWR|unix.O_CREAT, 0o640)
		if err != nil {
			t.Errorf("OpenBeneath(%q): %v", name, err)
			continue
		}
		f.Close()
	}
	if info, err := os.Stat(filepath.Join(w, "src/fresh")); err != nil || info.Mode() != 0o640 {
		t.Errorf("mode of a new file: %v, %v", info, err)
	}
	for _, name := range []string{"", "a\x00"} {
		if _, err := OpenBeneath(w, name, unix.O_RDONLY, 0); !errors.Is(err, ErrInvalid) {
			t.Errorf("OpenBeneath(%q): %v", name, err)
		}
	}
}

// TestOpenBeneathRace exchanges a directory in the root with a link to an
// outside one while files are opened through it: none may be the outside one.
// The control opens the same name without OpenBeneath and must escape, else
// the race proves nothing.
func TestOpenBeneathRace(t *testing.T) {
	base, w := tree(t)
	put(t, w, "dir/f", "inside")
	put(t, base, "outside/f", "OUTSIDE")
	if err := os.Symlink("../outside", filepath.Join(w, "link")); err != nil {
		t.Fatal(err)
	}
	var stop atomic.Bool
	var flipper sync.WaitGroup
	flipper.Go(func() {
		for !stop.Load() {
			if err := unix.Renameat2(unix.AT_FDCWD, w+"/dir", unix.AT_FDCWD, w+"/link", unix.RENAME_EXCHANGE); err != nil {
				t.Error(err)
				return
			}
		}
	})
	count := 20000
	if testing.Short() {
		count = 2000
	}
	opened, escaped, control := 0, 0, 0
	for i := 0; i < count || control == 0 && i < 20*count; i++ {
		if f, err := OpenBeneath(w, "dir/f", unix.O_RDONLY, 0); err == nil {
			opened++
			if text, _ := io.ReadAll(f); string(text) != "inside" {
				escaped++
			}
			f.Close()
		}
		if text, _ := os.ReadFile(w + "/dir/f"); string(text) == "OUTSIDE" {
			control++
		}
	}
	stop.Store(true)
	flipper.Wait()
	t.Logf("%d tries, %d opened, %d escapes; without OpenBeneath %d escapes", count, opened, escaped, control)
	if escaped != 0 || opened == 0 || control == 0 {
		t.Errorf("escaped %d, opened %d, control escaped %d", escaped, opened, control)
	}
}
