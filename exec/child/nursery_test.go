package child

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A copied keeper is in the namespaces that were asked for, is a child of this
// process, and runs a command as any other.
func TestCopiedKeeperIsAKeeper(t *testing.T) {
	n, err := NewNursery()
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	own := uint64(0)
	if os.Getuid() != 0 {
		own = unix.CLONE_NEWUSER
	}
	for _, ns := range []uint64{0, allSpaces | own, own | unix.CLONE_NEWPID, allSpaces&^unix.CLONE_NEWNS | own} {
		p, err := n.StartKeeper(Options{Namespaces: ns})
		if err != nil {
			t.Fatalf("namespaces %x: %v", ns, err)
		}
		pid := pidOf(t, p.pidfd)
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err != nil || !strings.Contains(string(status), fmt.Sprintf("\nPPid:\t%d\n", os.Getpid())) {
			t.Errorf("namespaces %x: not a child of this process: %v\n%s", ns, err, status)
		}
		null, err := os.OpenFile("/dev/null", os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		fd := int(null.Fd())
		var plan Plan
		plan.Run(Command{Path: "/bin/sh", Dir: "/", Argv: []string{"sh", "-c", "exit 7"}, Env: []string{"PATH=/bin"},
			Stdio: [3]int{fd, fd, fd}, NoRuleset: true, NoFilter: true})
		proc, err := Start(&plan, Options{Namespaces: ns, Ready: p})
		null.Close()
		if err != nil {
			t.Fatalf("namespaces %x: %v", ns, err)
		}
		if proc != p {
			t.Errorf("namespaces %x: another keeper was made", ns)
		}
		for {
			m, err := proc.Receive()
			if err != nil {
				t.Fatalf("namespaces %x: %v", ns, err)
			}
			if m.Type == ExitedMessage && m.B != 7 {
				t.Errorf("namespaces %x: status %d, want 7", ns, m.B)
			}
			if m.Type == Done {
				break
			}
		}
		proc.Close()
	}
}

// Copies hold nothing of each other: each ends when its own socket closes, and
// with the nursery gone they still serve.
func TestCopiedKeepersAreApart(t *testing.T) {
	n, err := NewNursery()
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	keepers := make([]*Process, 8)
	for i := range keepers {
		all.Go(func() {
			p, err := n.StartKeeper(Options{})
			if err != nil {
				t.Error(err)
			}
			keepers[i] = p
		})
	}
	all.Wait()
	if t.Failed() {
		return
	}
	gone := pidOf(t, keepers[0].pidfd)
	keepers[0].Close()
	for end := time.Now().Add(10 * time.Second); unix.Kill(gone, 0) == nil; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("a copy outlives its socket")
		}
	}
	n.Close()
	if _, err := n.StartKeeper(Options{}); err == nil {
		t.Error("a nursery that is closed made a keeper")
	}
	for _, p := range keepers[1:] {
		var plan Plan
		plan.Ready()
		if err := p.Execute(&plan); err != nil {
			t.Error(err)
		}
		p.Close()
	}
}
