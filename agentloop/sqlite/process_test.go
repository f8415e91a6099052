package sqlite

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sandboxd/agentloop"
	"sandboxd/test/require"
)

// child is this test binary in one of the roles of playRole.
func child(t *testing.T, role string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.Env = append(os.Environ(), "SANDBOXD_TEST_STORE_ROLE="+role)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd
}

func playRole(role string, args []string) int {
	var err error
	switch role {
	case "append":
		err = roleAppend(args[0])
	case "some":
		err = roleSome(args[0], args[1])
	case "full":
		err = roleFull(args[0])
	case "converse":
		err = roleConverse(args[0])
	case "open":
		var s *Store
		if s, err = Open(args[0], Options{}); err == nil {
			err = s.Close()
		}
		if errors.Is(err, ErrInUse) {
			return 3
		}
	default:
		err = fmt.Errorf("no role %q", role)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, role+":", err)
		return 1
	}
	return 0
}

// roleAppend writes rows and questions until it is killed, and says each time what
// has returned.
func roleAppend(path string) error {
	s, err := Open(path, Options{AnchorRows: 20})
	if err != nil {
		return err
	}
	for g := range 8 {
		go func() {
			for n := 0; ; n++ {
				r := record(n)
				r.Call = fmt.Sprintf("%d-%d-%d", os.Getpid(), g, n)
				seq, err := s.Append(context.Background(), r)
				if err != nil {
					fmt.Fprintln(os.Stderr, err)
					os.Exit(1)
				}
				_, _ = os.Stdout.WriteString(fmt.Sprintf("row %d %s\n", seq, r.Call))
				if n%8 == 0 {
					q := question(n)
					q.ID = r.Call
					if err := s.SaveQuestion(context.Background(), q); err != nil {
						os.Exit(1)
					}
					_, _ = os.Stdout.WriteString("question 0 " + q.ID + "\n")
				}
			}
		}()
	}
	select {}
}

func TestNothingThatReturnedIsLostByAKill(t *testing.T) {
	rounds := 200
	if testing.Short() {
		rounds = 20
	}
	var path string
	rows := map[int64]string{}
	questions := map[string]bool{}
	for round := range rounds {
		if round%40 == 0 { // a long log is slow to check
			path = newPath(t)
			clear(rows)
			clear(questions)
		}
		killDuringWrites(t, path, rows, questions)
		s, err := Open(path, Options{})
		if err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		rep, err := s.Verify(t.Context())
		if err != nil || !rep.OK {
			t.Fatalf("round %d: Verify = %+v, %v", round, rep, err)
		}
		kept := map[int64]string{}
		for _, r := range all(t, s.Reader, agentloop.AuditQuery{Viewer: agentloop.ViewAll(), Limit: 1000}) {
			kept[r.Seq] = r.Call
		}
		for seq, call := range rows {
			if kept[seq] != call {
				t.Fatalf("round %d: row %d is of call %q, Append had returned for %q", round, seq, kept[seq], call)
			}
		}
		pending, err := s.Questions(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		there := map[string]bool{}
		for _, q := range pending {
			there[q.ID] = true
		}
		for id := range questions {
			if !there[id] {
				t.Fatalf("round %d: question %s is gone", round, id)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if len(rows) < rounds/10 {
		t.Errorf("only %d rows were written", len(rows))
	}
}

// killDuringWrites kills a writer at a random moment and adds what had returned.
func killDuringWrites(t *testing.T, path string, rows map[int64]string, questions map[string]bool) {
	t.Helper()
	cmd := child(t, "append", path)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var once sync.Once
	after := time.Duration(rand.IntN(20000)) * time.Microsecond
	in := bufio.NewScanner(out)
	for in.Scan() {
		once.Do(func() { time.AfterFunc(after, func() { _ = cmd.Process.Kill() }) })
		f := strings.Fields(in.Text())
		if len(f) != 3 {
			continue // cut by the kill
		}
		seq, _ := strconv.ParseInt(f[1], 10, 64)
		if f[0] == "row" {
			rows[seq] = f[2]
		} else {
			questions[f[2]] = true
		}
	}
	err = cmd.Wait()
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || !status.Signaled() {
		t.Fatalf("the writer ended by itself: %v", err)
	}
}

func TestSecondWriterIsRefused(t *testing.T) {
	path := newPath(t)
	s := open(t, path, Options{})
	fillInOrder(t, s, 1, 2)
	if _, err := Open(path, Options{}); !errors.Is(err, ErrInUse) || !strings.Contains(err.Error(), path) {
		t.Errorf("Open in this process = %v, want ErrInUse", err)
	}
	if _, err := MoveAside(path); !errors.Is(err, ErrInUse) {
		t.Errorf("MoveAside = %v, want ErrInUse", err)
	}
	cmd := child(t, "open", path)
	if _ = cmd.Run(); cmd.ProcessState.ExitCode() != 3 {
		t.Errorf("Open in another process: %v, want ErrInUse", cmd.ProcessState)
	}
	fillInOrder(t, s, 3, 4)
	_ = s.Close()
	if err := child(t, "open", path).Run(); err != nil {
		t.Errorf("after Close: %v", err)
	}
}

func TestReaderWorksBesideTheWriter(t *testing.T) {
	path := newPath(t)
	s := open(t, path, Options{AnchorRows: 5})
	r, err := OpenReader(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				if _, err := s.Append(t.Context(), record(n)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for n := range 50 {
		rep, err := r.Verify(t.Context())
		if err != nil || !rep.OK {
			t.Fatalf("Verify %d = %+v, %v", n, rep, err)
		}
		if n%10 == 9 {
			if _, err := s.Retain(t.Context(), Retention{Rows: 20}); err != nil {
				t.Fatal(err)
			}
		}
	}
	close(stop)
	wg.Wait()
	db, err := r.pool()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec(`DELETE FROM sessions`); err == nil {
		t.Error("the reader can write")
	}
}

// roleFull fills a small file system of its own and frees it again.
func roleFull(dir string) error {
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=8m,mode=0700"); err != nil {
		return err
	}
	path := filepath.Join(dir, "audit.db")
	s, err := Open(path, Options{AnchorRows: 10})
	if err != nil {
		return err
	}
	ctx := context.Background()
	good := int64(0)
	for range 3 {
		if err := fillUp(filepath.Join(dir, "filler")); err != nil {
			return err
		}
		for n := 0; err == nil; n++ {
			r := record(n)
			r.OutputPreview = strings.Repeat("x", 2000)
			if _, err = s.Append(ctx, r); err == nil {
				good++
			}
			if n > 20000 {
				return errors.New("the disk is never full")
			}
		}
		for range 3 { // it stays so, for others too
			if _, err = s.Append(ctx, record(1)); err == nil {
				good++
			}
		}
		if !errors.Is(err, agentloop.ErrNotRecorded) || !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), path) {
			return fmt.Errorf("on a full disk: %v", err)
		}
		if s.Health().LastError == "" {
			return errors.New("Health knows nothing of the full disk")
		}
		if err = os.Remove(filepath.Join(dir, "filler")); err != nil {
			return err
		}
		if _, err = s.Append(ctx, record(1)); err != nil {
			return fmt.Errorf("with space again: %w", err)
		}
		good++
	}
	if err := s.Close(); err != nil {
		return err
	}
	return checkReadOnly(dir, path, good)
}

// checkReadOnly sees that the whole log is there, also on a read-only disk, which
// is refused for writing.
func checkReadOnly(dir, path string, rows int64) error {
	if err := unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		return err
	}
	if _, err := Open(path, Options{}); !errors.Is(err, syscall.EROFS) || !strings.Contains(err.Error(), path) {
		return fmt.Errorf("Open on a read-only disk: %v", err)
	}
	r, err := OpenReader(path)
	if err != nil {
		return err
	}
	rep, err := r.Verify(context.Background())
	if err != nil || !rep.OK || rep.Rows != rows {
		return fmt.Errorf("%d rows were appended: %+v, %v", rows, rep, err)
	}
	return r.Close()
}

func fillUp(path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	block := make([]byte, 4096)
	for err == nil {
		_, err = f.Write(block)
	}
	return f.Close()
}

func TestFullDiskStopsAppendUntilThereIsSpace(t *testing.T) {
	require.Root(t, "mounting a file system needs root")
	cmd := child(t, "full", t.TempDir())
	cmd.SysProcAttr.Unshareflags = syscall.CLONE_NEWNS
	if err := cmd.Run(); err != nil {
		t.Error(err)
	}
}

// roleSome appends so many rows, one after the other.
func roleSome(path, count string) error {
	s, err := Open(path, Options{})
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(count)
	for i := 0; i < n && err == nil; i++ {
		_, err = s.Append(context.Background(), record(i))
	}
	return errors.Join(err, s.Close())
}

// A kill does not show whether the disk was waited for: the kernel has the pages.
// So the system calls are counted.
func TestEachRowWaitsForTheDisk(t *testing.T) {
	if _, err := exec.LookPath("strace"); err != nil {
		require.Missing(t, require.Program, "no strace")
	}
	flushes := func(rows int) int {
		trace := filepath.Join(t.TempDir(), "trace")
		cmd := child(t, "some")
		cmd.Args = append([]string{"strace", "-f", "-qq", "-o", trace, "-e", "trace=fsync,fdatasync", os.Args[0]}, newPath(t), strconv.Itoa(rows))
		cmd.Path, _ = exec.LookPath("strace")
		if err := cmd.Run(); err != nil {
			require.Missing(t, require.Host, "strace may not trace here: ", err)
		}
		text, err := os.ReadFile(trace)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Count(string(text), "sync(")
	}
	few, many := flushes(5), flushes(45)
	if many-few < 40 {
		t.Errorf("%d flushes for 5 rows, %d for 45: want one more for each", few, many)
	}
}
