package agentloop

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"sandboxd/policy"
)

// put makes a result of s.
func put(t *testing.T, r *ResultFiles, s *Session, text string) *ResultFile {
	t.Helper()
	f, err := r.Create(s)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(f, text); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return f
}

// TestWholeOutputIsTheUsersOwnFile: a root daemon keeps it as the client's, where
// the client finds it and nobody else does, with secrets masked.
func TestWholeOutputIsTheUsersOwnFile(t *testing.T) {
	w := otherWorld(t, denying())
	token := "ghp_" + strings.Repeat("a1B2", 9)
	res := w.bash("seq 1 9000; echo " + token + "; seq 1 9000; echo errors >&2")
	out := res.Exec.Stdout
	if !strings.HasPrefix(out.File, w.host.StateDir+"/outputs/") || out.FileDropped != 0 || res.Exec.Stderr.File != "" {
		t.Fatalf("%+v %s", out, res.Error)
	}
	var st unix.Stat_t
	if err := unix.Lstat(out.File, &st); err != nil || st.Uid != 1000 || st.Gid != 1000 || st.Mode != unix.S_IFREG|0o600 {
		t.Errorf("uid %d gid %d mode %o: %v", st.Uid, st.Gid, st.Mode, err)
	}
	text, err := os.ReadFile(out.File)
	if err != nil || strings.Contains(string(text), token) || !strings.Contains(string(text), "\n"+mask+"\n") || strings.Count(string(text), "\n8999\n") != 2 {
		t.Errorf("%d bytes, %v", len(text), err)
	}
	if !strings.Contains(res.Output, out.File) {
		t.Error("the answer does not name the file")
	}
	// It is read page by page.
	var all strings.Builder
	id := filepath.Base(out.File)
	for at, last := int64(0), false; !last; {
		p, err := w.d.Results().Page(w.host.Caller, id, at, 10000)
		if err != nil || p.Next == at {
			t.Fatalf("%+v %v", p, err)
		}
		all.WriteString(p.Text)
		at, last = p.Next, p.Last
	}
	if all.String() != string(text) {
		t.Errorf("the pages have %d bytes, the file %d", all.Len(), len(text))
	}
	other := w.host.Caller
	other.UID, other.GID, other.Groups = 1001, 1001, []int{1001}
	if p, err := w.d.Results().Page(other, id, 0, 0); !errors.Is(err, ErrNoResultFile) || p.Text != "" {
		t.Errorf("another user reads %q, %v", p.Text, err)
	}
	// A later run does not see it, however much is granted.
	w.edit = func(p *PolicyInForce) {
		denying()(p)
		p.Grant.Paths = append(p.Grant.Paths, policy.PathGrant{Path: w.host.path("home"), Access: policy.GrantWrite, Source: policy.Source{Kind: policy.SourceUser}})
	}
	w.s = w.session()
	if res := w.bash("ls " + w.host.path("home/u") + "; cat " + out.File + "; echo x >" + out.File); strings.Contains(res.Output, "8999") || !strings.Contains(res.Output, "w\n") {
		t.Errorf("a run reads it: %.200q %s", res.Output, res.Error)
	}
	if now, err := os.ReadFile(out.File); err != nil || string(now) != string(text) {
		t.Errorf("a run changed it: %d bytes, %v", len(now), err)
	}
}

// TestResultFilesFollowNoLink: what the user puts in the way leads root nowhere,
// and holds nobody up.
func TestResultFilesFollowNoLink(t *testing.T) {
	w := otherWorld(t, denying())
	secret := w.host.file("rootonly/secret", "hush\n", 0o600)
	r := NewResultFiles(ResultFilesOptions{})
	dir := filepath.Join(w.host.StateDir, "outputs")
	f := put(t, r, w.s, "mine\n")
	own := func(name, text string, mode os.FileMode) string {
		p := w.host.file(name, text, mode)
		if err := os.Chown(p, 1000, 1000); err != nil {
			t.Fatal(err)
		}
		return p
	}
	for name, place := range map[string]func() error{
		"link":            func() error { return os.Symlink(secret, f.Name()) },
		"link to its own": func() error { return os.Symlink(own("home/u/own", "hush\n", 0o644), f.Name()) },
		"pipe":            func() error { return errors.Join(unix.Mkfifo(f.Name(), 0o666), os.Lchown(f.Name(), 1000, 1000)) },
		"root's":          func() error { return os.WriteFile(f.Name(), []byte("hush\n"), 0o644) },
		"directory":       func() error { return errors.Join(os.Mkdir(f.Name(), 0o777), os.Lchown(f.Name(), 1000, 1000)) },
		"other name":      func() error { return nil },
	} {
		os.RemoveAll(f.Name())
		if err := place(); err != nil {
			t.Fatal(err)
		}
		if p, err := r.Page(w.host.Caller, f.ID(), 0, 0); !errors.Is(err, ErrNoResultFile) || p.Text != "" {
			t.Errorf("%s: %q, %v", name, p.Text, err)
		}
	}
	os.RemoveAll(f.Name())
	for _, id := range []string{"", "..", "../../../rootonly/secret", "result-", "result-" + strings.Repeat("/", 26), f.ID() + "x"} {
		if p, err := r.Page(w.host.Caller, id, 0, 0); !errors.Is(err, ErrNoResultFile) || p.Text != "" {
			t.Errorf("id %q: %q, %v", id, p.Text, err)
		}
	}
	// The directory is a link to a place of root's: nothing is made there, and the
	// command runs all the same and says why there is no file.
	target := w.host.dir("rootonly")
	os.RemoveAll(dir)
	if err := os.Symlink(target, dir); err != nil {
		t.Fatal(err)
	}
	if f, err := r.Create(w.s); err == nil {
		t.Errorf("made %s", f.Name())
	}
	res := w.bash("seq 1 9000")
	if out := res.Exec.Stdout; res.Status != StatusOK || out.File != "" || out.FileError == "" || !strings.Contains(out.Text, "not a directory") {
		t.Errorf("%v %+v", res.Status, out)
	}
	if names, err := os.ReadDir(target); err != nil || len(names) != 1 {
		t.Errorf("in root's directory: %v, %v", names, err)
	}
	// A state directory in the workspace is none: the next run could write there.
	c := w.host.Caller
	c.StateDir = filepath.Join(w.s.Workspace(), ".state")
	s := newSession("s", Peer{Caller: c}, SessionRequest{}, sessionParts{now: time.Now})
	s.workspace = w.s.Workspace()
	if f, err := r.Create(s); err == nil || !strings.Contains(err.Error(), "in the workspace") {
		t.Errorf("made %v, %v", f, err)
	}
	if _, err := os.Lstat(c.StateDir); err == nil {
		t.Error("something was made in the workspace")
	}
	os.Remove(dir)
	if f := put(t, r, w.s, "again\n"); f.Dropped() != 0 {
		t.Error("honest use beside it")
	}
}

// TestResultFilesAreBounded by size, number and age, each user's alone; what does
// not fit is counted.
func TestResultFilesAreBounded(t *testing.T) {
	w := newWorld(t, denying())
	now := time.Now()
	r := NewResultFiles(ResultFilesOptions{FileBytes: 1000, UserBytes: 5000, UserFiles: 8, Age: time.Hour, Now: func() time.Time { return now }})
	list := func() (n int, bytes int64) {
		entries, err := os.ReadDir(filepath.Join(w.host.StateDir, "outputs"))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			info, _ := e.Info()
			n, bytes = n+1, bytes+info.Size()
		}
		return n, bytes
	}
	if f := put(t, r, w.s, strings.Repeat("x", 2500)); f.Dropped() != 1500 {
		t.Errorf("dropped %d", f.Dropped())
	}
	foreign := filepath.Join(w.host.StateDir, "outputs", "not-ours")
	if err := os.WriteFile(foreign, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for i := range 30 {
		put(t, r, w.s, fmt.Sprintf("%900d", i))
		if n, bytes := list(); n > 9 || bytes > 5000 {
			t.Fatalf("%d files of %d bytes", n, bytes)
		}
	}
	for range 30 {
		put(t, r, w.s, "small")
	}
	if n, _ := list(); n != 9 {
		t.Errorf("%d files", n)
	}
	// Those that are being written count with what they may become.
	var open []*ResultFile
	for {
		f, err := r.Create(w.s)
		if errors.Is(err, ErrResultsFull) {
			break
		}
		if err != nil || len(open) > 5 {
			t.Fatalf("%d at once, %v", len(open), err)
		}
		open = append(open, f)
	}
	if len(open) != 5 {
		t.Errorf("%d at once", len(open))
	}
	for _, f := range open {
		f.Close()
		f.Close() // it counts once
	}
	last := put(t, r, w.s, "last")
	now = now.Add(2 * time.Hour)
	if err := r.Prune(w.host.Caller); err != nil {
		t.Fatal(err)
	}
	if n, _ := list(); n != 1 {
		t.Errorf("%d files are left after their time", n)
	}
	if _, err := os.Lstat(foreign); err != nil {
		t.Errorf("what is not ours: %v", err)
	}
	if _, err := r.Page(w.host.Caller, last.ID(), 0, 0); !errors.Is(err, ErrNoResultFile) {
		t.Errorf("a result that was removed: %v", err)
	}
}

// TestPageKeepsCharactersWhole and ends.
func TestPageKeepsCharactersWhole(t *testing.T) {
	w := newWorld(t, denying())
	r := w.d.Results()
	for _, text := range []string{"", "aé日本語\n", strings.Repeat("日", 100), "\xff\xfe\x80\x80\x80\x80", "a\xe6"} {
		f := put(t, r, w.s, text)
		for _, limit := range []int{3, 4, 5, 1 << 30} {
			got, pages := "", 0
			for at, last := int64(0), false; !last; pages++ {
				p, err := r.Page(w.host.Caller, f.ID(), at, limit)
				if err != nil || pages > len(text) || p.Size != int64(len(text)) {
					t.Fatalf("%q in pages of %d: %+v %v", text, limit, p, err)
				}
				got += p.Text
				if utf8.ValidString(text) && !utf8.ValidString(p.Text) {
					t.Errorf("%q in pages of %d has the page %q", text, limit, p.Text)
				}
				at, last = p.Next, p.Last
			}
			if got != text {
				t.Errorf("%q in pages of %d is %q", text, limit, got)
			}
		}
	}
}
