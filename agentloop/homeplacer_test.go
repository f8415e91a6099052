package agentloop

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// TestStartsAtOncePlaceTheSameNames: many first starts of one private home make the
// same names at the same time, and each finds all of them there.
func TestStartsAtOncePlaceTheSameNames(t *testing.T) {
	stubs := []stub{{rel: "w", dir: true}, {rel: "a/b/c", dir: true}, {rel: "a/file"}, {rel: "l/link", target: "/usr"}}
	for range 50 {
		dir := t.TempDir()
		root, err := os.OpenRoot(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer root.Close()
		p := homePlacer{root: root, dir: dir}
		start := make(chan struct{})
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				<-start
				for _, s := range stubs {
					if err := p.place(s); err != nil {
						t.Errorf("%s: %v", s.rel, err)
					}
				}
				if err := p.write(".config/git/config", "[user]\n"); err != nil {
					t.Errorf("settings: %v", err)
				}
			})
		}
		close(start)
		all.Wait()
		for _, s := range stubs {
			info, err := os.Lstat(filepath.Join(dir, s.rel))
			if err != nil || info.IsDir() != s.dir || (info.Mode()&os.ModeSymlink != 0) != (s.target != "") {
				t.Errorf("%s is %v, %v", s.rel, info, err)
			}
		}
		if text, err := os.ReadFile(dir + "/.config/git/config"); string(text) != "[user]\n" || err != nil {
			t.Errorf("settings: %q, %v", text, err)
		}
		if rest, _ := filepath.Glob(dir + "/.config/git/*"); len(rest) != 1 {
			t.Errorf("left: %q", rest)
		}
	}
	// What a command made there is not taken away.
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if err := os.WriteFile(dir+"/w", []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := (homePlacer{root: root, dir: dir}).place(stubs[0]); !errors.Is(err, os.ErrExist) {
		t.Errorf("over a file of a command: %v", err)
	}
}
