package child

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Keepers that take long to end are waited for without a thread each, and none of
// them stays a zombie.
func TestClosedKeepersAreReapedWithoutThreads(t *testing.T) {
	const keepers = 40
	threads := func() int {
		entries, err := os.ReadDir("/proc/self/task")
		if err != nil {
			t.Fatal(err)
		}
		return len(entries)
	}
	before := threads()
	var pids []int
	for range keepers {
		p, err := StartKeeper(Options{})
		if err != nil {
			t.Fatal(err)
		}
		pid := pidOf(t, p.pidfd)
		pids = append(pids, pid)
		if err := unix.Kill(pid, unix.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		p.Close()
	}
	time.Sleep(100 * time.Millisecond) // that threads are made is what must not happen
	if n := threads(); n > before+keepers/2 {
		t.Errorf("%d threads before, %d with %d keepers to reap", before, n, keepers)
	}
	for _, pid := range pids {
		unix.Kill(pid, unix.SIGCONT)
	}
	end := time.Now().Add(10 * time.Second)
	for _, pid := range pids {
		for unix.Kill(pid, 0) == nil {
			if time.Now().After(end) {
				t.Fatalf("keeper %d was not reaped", pid)
			}
			time.Sleep(time.Millisecond)
		}
	}
}

// pidOf reads the process of a descriptor (proc_pid_fdinfo(5)).
func pidOf(t *testing.T, pidfd int) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", pidfd))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "\nPid:")
	var pid int
	if _, err := fmt.Sscan(rest, &pid); err != nil || pid < 1 {
		t.Fatalf("no pid in %q: %v", text, err)
	}
	return pid
}
