package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"sandboxd/policy/settings"
)

// A policy counts as changed when any of its files was written, replaced, removed or
// made, or a file was trusted; also when that happened while it was read.
func TestChangedPolicyIsNoticed(t *testing.T) {
	long := time.Now().Add(-time.Hour)
	for _, tt := range []struct {
		name string
		// during happens while the policy is read, after when it is in force.
		during, after func(dir string) error
		want          bool
	}{
		{"nothing", nil, nil, false},
		{"written", nil, func(dir string) error { return os.WriteFile(dir+"/there", []byte("mode = 'plan'\n"), 0o600) }, true},
		{"written, same size and times", nil, func(dir string) error {
			if err := os.WriteFile(dir+"/there", []byte("x"), 0o600); err != nil {
				return err
			}
			return os.Chtimes(dir+"/there", long, long)
		}, true},
		{"removed", nil, func(dir string) error { return os.Remove(dir + "/there") }, true},
		{"made", nil, func(dir string) error { return os.WriteFile(dir+"/missing", nil, 0o600) }, true},
		{"replaced", nil, func(dir string) error {
			if err := os.WriteFile(dir+"/new", []byte("y"), 0o600); err != nil {
				return err
			}
			return os.Rename(dir+"/new", dir+"/there")
		}, true},
		{"its directory removed", nil, func(dir string) error { return os.RemoveAll(dir) }, true},
		{"trusted", nil, func(dir string) error { return os.WriteFile(settings.TrustFile(dir+"/state/sandboxd"), nil, 0o600) }, true},
		{"something else", nil, func(dir string) error { return os.WriteFile(dir+"/other", nil, 0o600) }, false},
		{"written while it is read", func(dir string) error { return os.WriteFile(dir+"/there", []byte("z"), 0o600) }, nil, true},
		{"made while it is read", func(dir string) error { return os.WriteFile(dir+"/missing", nil, 0o600) }, nil, true},
		{"removed while it is read", func(dir string) error { return os.Remove(dir + "/there") }, nil, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "d")
			must := func(err error) {
				t.Helper()
				if err != nil {
					t.Fatal(err)
				}
			}
			must(os.MkdirAll(dir+"/state/sandboxd", 0o700))
			must(os.WriteFile(dir+"/there", []byte("x"), 0o600))
			must(os.Chtimes(dir+"/there", long, long))
			time.Sleep(2 * sameTick)
			began := time.Now()
			e := &settings.Effective{Files: []settings.FileInfo{{Path: dir + "/there", Found: true}, {Path: dir + "/missing"}}}
			if tt.during != nil {
				must(tt.during(dir))
			}
			changed, bytes := watchFiles(e, []string{"HOME=/", "XDG_STATE_HOME=" + dir + "/state"}, began)
			if tt.during == nil && bytes != 1 {
				t.Errorf("the files have %d bytes", bytes)
			}
			if tt.after != nil {
				if changed() {
					t.Error("before anything happened")
				}
				must(tt.after(dir))
			}
			if got := changed(); got != tt.want {
				t.Errorf("changed: %v, want %v", got, tt.want)
			}
		})
	}
}
