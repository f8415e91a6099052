package seccomp

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"sandboxd/test/require"
)

// cacheFile fills a fresh cache and returns its directory and only file.
func cacheFile(t *testing.T, o Options) (dir, file string, want Filter) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "seccomp")
	p, _ := ByName("default")
	want, err := Cached(dir, p, "amd64", o)
	if err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Fatalf("cache holds %v, %v; want one file", entries, err)
	}
	return dir, filepath.Join(dir, entries[0].Name()), want
}

func sameFilter(a, b Filter) bool {
	return a.Arch == b.Arch && bytes.Equal(a.BPF, b.BPF) && slices.Equal(a.Unknown, b.Unknown)
}

func TestCachedGivesWhatCompileGives(t *testing.T) {
	o := Options{Inet: true}
	dir, file, first := cacheFile(t, o)
	compiled := compile(t, "default", "amd64", o)
	if !sameFilter(first, compiled) {
		t.Error("the first answer differs from Compile")
	}
	// Marked, so that an answer from the file can be told from a new one.
	p, _ := ByName("default")
	marked := Filter{BPF: slices.Concat(compiled.BPF, compiled.BPF[:8]), Unknown: []string{"a", "b"}, Arch: "amd64"}
	if err := os.WriteFile(file, marshalFilter(marked, p.key("amd64", o)), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := Cached(dir, p, "amd64", o)
	if err != nil || !sameFilter(got, marked) {
		t.Errorf("the second answer is not the file's (%v)", err)
	}
	if st, err := os.Stat(dir); err != nil || st.Mode().Perm() != 0o700 {
		t.Errorf("cache directory: %v, %v; want mode 0700", st.Mode(), err)
	}
}

// TestDoubtfulCacheFileIsNotUsed plants, in each way, a file that would allow
// everything.
func TestDoubtfulCacheFileIsNotUsed(t *testing.T) {
	o := Options{Unix: true}
	p, _ := ByName("default")
	key := p.key("amd64", o)
	evil := Filter{BPF: encode([]unix.SockFilter{{Code: unix.BPF_RET, K: unix.SECCOMP_RET_ALLOW}}), Arch: "amd64"}
	planted := marshalFilter(evil, key)
	otherKey := p.key("amd64", Options{})
	write := func(t *testing.T, file string, content []byte, mode os.FileMode) {
		t.Helper()
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(file, mode); err != nil {
			t.Fatal(err)
		}
	}
	must := func(t *testing.T, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		name  string
		plant func(t *testing.T, dir, file string)
		used  bool
	}{
		{"control: a file of ours is used", func(t *testing.T, dir, file string) { write(t, file, planted, 0o600) }, true},
		{"readable by others", func(t *testing.T, dir, file string) { write(t, file, planted, 0o644) }, false},
		{"writable by the group", func(t *testing.T, dir, file string) { write(t, file, planted, 0o620) }, false},
		{"symbolic link", func(t *testing.T, dir, file string) {
			write(t, filepath.Join(dir, "other"), planted, 0o600)
			must(t, os.Remove(file))
			must(t, os.Symlink("other", file))
		}, false},
		{"second hard link", func(t *testing.T, dir, file string) {
			write(t, file, planted, 0o600)
			must(t, os.Link(file, filepath.Join(dir, "other")))
		}, false},
		{"FIFO", func(t *testing.T, dir, file string) {
			must(t, os.Remove(file))
			must(t, unix.Mkfifo(file, 0o600))
		}, false},
		{"another owner", func(t *testing.T, dir, file string) {
			require.Root(t, "to give files to another user")
			write(t, file, planted, 0o600)
			must(t, os.Chown(file, 1000, 1000))
		}, false},
		{"directory of another owner", func(t *testing.T, dir, file string) {
			require.Root(t, "to give files to another user")
			write(t, file, planted, 0o600)
			must(t, os.Chown(dir, 1000, 1000))
		}, false},
		{"directory writable by others", func(t *testing.T, dir, file string) {
			write(t, file, planted, 0o600)
			must(t, os.Chmod(dir, 0o777))
		}, false},
		{"directory is a symbolic link", func(t *testing.T, dir, file string) {
			write(t, file, planted, 0o600)
			must(t, os.Rename(dir, dir+"2"))
			must(t, os.Symlink(dir+"2", dir))
		}, false},
		{"filter of other options", func(t *testing.T, dir, file string) { write(t, file, marshalFilter(evil, otherKey), 0o600) }, false},
		{"one bit changed", func(t *testing.T, dir, file string) {
			changed := slices.Clone(planted)
			changed[len(changed)-1] ^= 1
			write(t, file, changed, 0o600)
		}, false},
		{"cut", func(t *testing.T, dir, file string) { write(t, file, planted[:len(planted)-8], 0o600) }, false},
		{"empty", func(t *testing.T, dir, file string) { write(t, file, nil, 0o600) }, false},
		{"no instructions", func(t *testing.T, dir, file string) { write(t, file, marshalFilter(Filter{}, key), 0o600) }, false},
		{"half an instruction", func(t *testing.T, dir, file string) {
			write(t, file, marshalFilter(Filter{BPF: evil.BPF[:4]}, key), 0o600)
		}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir, file, want := cacheFile(t, o)
			tt.plant(t, dir, file)
			got, err := Cached(dir, p, "amd64", o)
			if err != nil {
				t.Fatal(err)
			}
			if used := bytes.Equal(got.BPF, evil.BPF); used != tt.used {
				t.Errorf("planted file used: %v, want %v", used, tt.used)
			}
			if !tt.used && !sameFilter(got, want) {
				t.Error("the answer is neither the file's nor Compile's")
			}
		})
	}
}

func TestCacheIsNeverTheReasonForAnError(t *testing.T) {
	p, _ := ByName("default")
	want := compile(t, "default", "arm64", Options{})
	plain := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(plain, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"", "/proc/none/cache", plain, "/dev/null", filepath.Join(plain, "x")} {
		if got, err := Cached(dir, p, "arm64", Options{}); err != nil || !sameFilter(got, want) {
			t.Errorf("Cached(%q): %v", dir, err)
		}
	}
}

// TestKeyCoversWhatTheFilterDependsOn changes one thing at a time.
func TestKeyCoversWhatTheFilterDependsOn(t *testing.T) {
	base, _ := ByName("default")
	keys := map[[32]byte]string{}
	add := func(name string, p Profile, arch string, o Options) {
		k := p.key(arch, o)
		if other, taken := keys[k]; taken {
			t.Errorf("%s has the key of %s", name, other)
		}
		keys[k] = name
	}
	add("base", base, "amd64", Options{})
	add("arm64", base, "arm64", Options{})
	for bits := 1; bits < 32; bits++ {
		add("options", base, "amd64", optionsOf(bits))
	}
	debug, _ := ByName("debug")
	add("debug", debug, "amd64", Options{})
	change := func(name string, f func(p *Profile)) {
		p := base
		p.Allow, p.Refuse, p.Missing = slices.Clone(p.Allow), slices.Clone(p.Refuse), slices.Clone(p.Missing)
		f(&p)
		add(name, p, "amd64", Options{})
	}
	change("newest", func(p *Profile) { p.Newest-- })
	change("missing", func(p *Profile) { p.Missing = p.Missing[1:] })
	change("refuse to allow", func(p *Profile) { p.Allow = append(p.Allow, p.Refuse[0]); p.Refuse = p.Refuse[1:] })
	change("condition", func(p *Profile) {
		p.Refuse[0].When = []Condition{{1, word, p.Refuse[0].When[0].Value + 1}}
	})
	change("need", func(p *Profile) { p.Allow[3].If = IfInet })
	change("split name", func(p *Profile) {
		p.Allow[0].Calls = append([]string{"re", "ad"}, p.Allow[0].Calls[1:]...)
	})
}

func TestConcurrentCacheUse(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "c")
	p, _ := ByName("debug")
	want := compile(t, "debug", "amd64", Options{})
	results := make(chan bool)
	const callers = 16
	for range callers {
		go func() {
			got, err := Cached(dir, p, "amd64", Options{})
			results <- err == nil && sameFilter(got, want)
		}()
	}
	for range callers {
		if !<-results {
			t.Error("a caller got another filter")
		}
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 1 {
		t.Errorf("left in the cache: %v", entries)
	}
}
