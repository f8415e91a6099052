package tools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sandboxd/agentloop"
	"sandboxd/policy"
	"sandboxd/test/require"
)

func TestMemoryOfAWorkspace(t *testing.T) {
	w := newWorld(t, nil)
	w.caller.Environ = append(w.caller.Environ, "SERVICE_TOKEN=sesame-open-12345")
	w.s = w.session()
	memory := func(s *agentloop.Session) string {
		t.Helper()
		text, err := Memory(s)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	if got := memory(w.s); got != "" {
		t.Errorf("before: %q", got)
	}
	w.ok("save_memory", policy.Args{"key": "test", "content": "run go test"})
	w.ok("save_memory", policy.Args{"key": "style", "content": "tabs"})
	w.ok("save_memory", policy.Args{"key": "test", "content": "run go test ./..."})
	if got := w.ok("save_memory", policy.Args{"key": "login", "content": "curl -H 'Authorization: Bearer abcdefgh12345678' with sesame-open-12345"}); !strings.Contains(got, "secret left out") {
		t.Errorf("answer %q", got)
	}
	today := time.Now().UTC().Format("2006-01-02")
	want := fmt.Sprintf("- login (%[1]s): curl -H 'Authorization: Bearer [secret]' with [secret]\n- test (%[1]s): run go test ./...\n- style (%[1]s): tabs\n", today)
	if got := memory(w.session()); got != want { // of a later session
		t.Errorf("memory\n%swant\n%s", got, want)
	}
	w.ok("save_memory", policy.Args{"key": "login", "forget": true})
	w.refused("nothing is kept under", "save_memory", policy.Args{"key": "login", "forget": true})
	w.refused("argument content is missing", "save_memory", policy.Args{"key": "x"})
	w.refused("exclude", "save_memory", policy.Args{"key": "x", "content": "y", "forget": true})
	w.refused("at most 2000", "save_memory", policy.Args{"key": "x", "content": strings.Repeat("y", maxMemoryText+1)})
	w.refused("argument key", "save_memory", policy.Args{"key": strings.Repeat("y", maxMemoryKey+1), "content": "y"})
	if got := memory(w.s); strings.Contains(got, "login") || !strings.Contains(got, "tabs") {
		t.Errorf("memory\n%s", got)
	}
	other := *w // the same user elsewhere
	other.ws = filepath.Join(w.caller.Home, "other")
	other.file(".git/HEAD", "ref: refs/heads/main\n")
	other.caller.Cwd = other.ws
	if got := memory(other.session()); got != "" {
		t.Errorf("another workspace: %q", got)
	}
}

// Memory speaks to every later conversation: a person is asked, and no run reaches
// the file.
func TestMemoryIsAskedAboutAndOutOfReach(t *testing.T) {
	w := newWorld(t, func(p *agentloop.PolicyInForce) { p.Config.Default = policy.Ask })
	if res := w.call("save_memory", policy.Args{"key": "a", "content": "b"}); res.Status != agentloop.StatusDeny {
		t.Errorf("not asked: %s", res.Status)
	}
	w.edit = nil
	w.s = w.session()
	w.ok("save_memory", policy.Args{"key": "a", "content": "b"})
	f, err := memoryOf(w.s)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(f.path())
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v, want 0600", info.Mode(), err)
	}
	w.file("w.sh", "cat "+f.path()+"; echo '{}' > "+f.path()+"; true\n")
	if got := w.ok("run_bash", policy.Args{"command": "bash ./w.sh 2>/dev/null"}); strings.Contains(got, `"b"`) {
		t.Errorf("a run reads it: %q", got)
	}
	if text, err := Memory(w.s); err != nil || !strings.Contains(text, "a (") {
		t.Errorf("after the run: %q %v", text, err)
	}
}

func TestMemoryIsBounded(t *testing.T) {
	w := newWorld(t, nil)
	f, err := memoryOf(w.s)
	if err != nil {
		t.Fatal(err)
	}
	for i := range maxMemories {
		if err := f.change(context.Background(), func(list []record) ([]record, error) {
			return remember(list, record{Key: fmt.Sprint("k", i), Text: strings.Repeat("x", maxMemoryText)}, false, maxMemories)
		}); err != nil {
			t.Fatal(err)
		}
	}
	w.refused("kept already", "save_memory", policy.Args{"key": "one more", "content": "y"})
	w.ok("save_memory", policy.Args{"key": "k0", "content": "replaced"})
	text, err := Memory(w.s)
	if err != nil || len(text) > maxMemoryRead+100 || !strings.HasPrefix(text, "- k0 ") || !strings.Contains(text, "older ones are left out]") {
		t.Errorf("%d bytes, %v: %.100s", len(text), err, text)
	}
}

func TestDamagedRecordsAreNotReplaced(t *testing.T) {
	w := newWorld(t, nil)
	w.ok("save_memory", policy.Args{"key": "a", "content": "b"})
	f, _ := memoryOf(w.s)
	if err := os.WriteFile(f.path(), []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.refused("damaged", "save_memory", policy.Args{"key": "c", "content": "d"})
	if data, _ := os.ReadFile(f.path()); string(data) != "half" {
		t.Errorf("replaced by %q", data)
	}
	if _, err := Memory(w.s); err == nil {
		t.Error("read without an error")
	}
	if err := os.Remove(f.path()); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc/hostname", f.path()); err != nil {
		t.Fatal(err)
	}
	w.refused("", "save_memory", policy.Args{"key": "c", "content": "d"})
}

// Two processes that change one file lose nothing.
func TestConcurrentRecords(t *testing.T) {
	dir := t.TempDir()
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for j := range 10 {
				f := records{dir, "x.json"}
				err := f.change(context.Background(), func(list []record) ([]record, error) {
					return remember(list, record{Key: fmt.Sprint(i, "-", j), Text: "x"}, false, 1000)
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if list, err := (records{dir, "x.json"}).read(); err != nil || len(list) != 80 {
		t.Errorf("%d records, %v", len(list), err)
	}
}

// recordChild is the environment of a child that changes records until it is killed.
const recordChild = "SANDBOXD_TEST_RECORDS"

func changeForEver(dir string) {
	f := records{dir, "x.json"}
	for i := 0; ; i++ {
		if err := f.change(context.Background(), func([]record) ([]record, error) {
			list := make([]record, 20)
			for k := range list {
				list[k] = record{Key: fmt.Sprint(k), Text: strings.Repeat(strconv.Itoa(i%10), 500)}
			}
			return list, nil
		}); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
	}
}

// Whenever who changes a record is killed, the record before or after stands there
// whole, and the next change works (requirements 18 and 20).
func TestKilledChangeLeavesAWholeRecord(t *testing.T) {
	dir := t.TempDir()
	f := records{dir, "x.json"}
	if err := f.change(context.Background(), func([]record) ([]record, error) { return []record{{Key: "0", Text: strings.Repeat("0", 500)}}, nil }); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for i := range 40 {
		cmd := osexec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), recordChild+"="+dir)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(15+i) * time.Millisecond)
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		list, err := f.read()
		if err != nil || len(list) == 0 {
			t.Fatalf("kill %d: %d records, %v", i, len(list), err)
		}
		for _, r := range list {
			if r.Text != list[0].Text || len(r.Text) != 500 {
				t.Fatalf("kill %d: torn: %.20s and %.20s", i, list[0].Text, r.Text)
			}
		}
		seen[list[0].Text[:1]] = true
	}
	if len(seen) < 2 {
		t.Errorf("the child never got far enough: %v", seen)
	}
	if err := f.change(context.Background(), func(list []record) ([]record, error) { return list[:1], nil }); err != nil {
		t.Errorf("after the kills: %v", err)
	}
	files, _ := os.ReadDir(dir)
	if len(files) != 2 { // the file and its lock
		t.Errorf("left: %v", files)
	}
}

// A holder that was stopped does not hold others for ever.
func TestHeldRecordsAreAnError(t *testing.T) {
	dir := t.TempDir()
	f := records{dir, "x.json"}
	lock, err := os.Create(filepath.Join(dir, ".lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	err = f.change(context.Background(), func(list []record) ([]record, error) { return list, nil })
	if err == nil || time.Since(began) > 2*recordLockTime {
		t.Errorf("%v after %v", err, time.Since(began))
	}
}

func TestFailedEditChangesNothing(t *testing.T) {
	f := records{t.TempDir(), "x.json"}
	no := errors.New("no")
	if err := f.change(context.Background(), func([]record) ([]record, error) { return nil, no }); !errors.Is(err, no) {
		t.Errorf("%v", err)
	}
	if _, err := os.Stat(f.path()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("made: %v", err)
	}
}

// The memory of another user is kept with that user's rights.
func TestMemoryOfAnotherUser(t *testing.T) {
	require.Root(t, "to work for another user")
	w := newWorld(t, nil)
	const uid = 1000
	if err := filepath.WalkDir(filepath.Dir(filepath.Dir(w.caller.Home)), func(path string, _ os.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(path, uid, uid))
	}); err != nil {
		t.Fatal(err)
	}
	for dir := filepath.Dir(filepath.Dir(w.caller.Home)); dir != "/tmp" && dir != "/"; dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	w.caller.UID, w.caller.GID, w.caller.Groups = uid, uid, []int{uid}
	s := w.session()
	f, err := memoryOf(s)
	if err != nil {
		t.Fatal(err)
	}
	if err := as(s, func() error {
		return f.change(context.Background(), func([]record) ([]record, error) { return []record{{Key: "k", Text: "v"}}, nil })
	}); err != nil {
		t.Fatal(err)
	}
	var st unix.Stat_t
	if err := unix.Stat(f.path(), &st); err != nil || st.Uid != uid {
		t.Errorf("owner %d, %v", st.Uid, err)
	}
	// A link in the user's own state leads no further than the user.
	if err := os.RemoveAll(f.dir); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/root", f.dir); err != nil {
		t.Fatal(err)
	}
	if err := as(s, func() error {
		return f.change(context.Background(), func([]record) ([]record, error) { return []record{{Key: "k", Text: "v"}}, nil })
	}); err == nil {
		t.Error("root's directory was written")
	}
	if found, _ := filepath.Glob("/root/.lock"); found != nil {
		t.Errorf("made %v", found)
	}
}

func TestSweepKeepsTheNewest(t *testing.T) {
	dir := t.TempDir()
	now := time.Now()
	for i := range 6 {
		path := filepath.Join(dir, fmt.Sprint(i, ".json"))
		data, _ := json.Marshal(map[string]any{"records": nil})
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		old := now.Add(-time.Duration(i) * time.Hour)
		if err := os.Chtimes(path, old, old); err != nil {
			t.Fatal(err)
		}
	}
	sweep(dir, 4, 150*time.Minute, now)
	left, _ := filepath.Glob(filepath.Join(dir, "*.json"))
	if len(left) != 3 {
		t.Errorf("left %v, want 0, 1 and 2", left)
	}
}
