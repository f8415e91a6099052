package seccomp

import (
	"fmt"
	"net"
	"os"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sandboxd/test/require"
)

// newEffects sets up the outside that one attack aims at.
func newEffects(t *testing.T, uid int) *effects {
	t.Helper()
	e := &effects{stage: newStage(t, uid)}
	master, slave := openTerminal(t)
	_ = master
	e.terminal = slave
	if os.Getuid() == 0 {
		if err := slave.Chown(uid, uid); err != nil {
			t.Fatal(err)
		}
	}
	var err error
	if e.service, err = net.ListenUnixgram("unixgram", &net.UnixAddr{Name: e.stage.dir + "/service", Net: "unixgram"}); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(e.stage.dir+"/service", 0o777); err != nil {
		t.Fatal(err)
	}
	if e.listener, err = net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.service.Close(); e.listener.Close() })
	e.stage.port = e.listener.Addr().(*net.TCPAddr).Port
	if e.stage.segment, err = unix.SysvShmGet(unix.IPC_PRIVATE, 4096, unix.IPC_CREAT|0o666); err != nil {
		t.Fatal(err)
	}
	if e.memory, err = unix.SysvShmAttach(e.stage.segment, 0, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := unix.SysvShmCtl(e.stage.segment, unix.IPC_RMID, nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.SysvShmDetach(e.memory) })
	return e
}

// openTerminal makes a pseudo-terminal.
func openTerminal(t *testing.T) (master, slave *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { master.Close() })
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { slave.Close() })
	return master, slave
}

// lacking are answers of a kernel that does not have what an attack aims at, or
// of an outer sandbox.
var lacking = []syscall.Errno{
	unix.EPROTONOSUPPORT, unix.EAFNOSUPPORT, unix.ENOSYS, unix.ENOTTY, unix.EOPNOTSUPP,
	unix.EIO,    // TIOCSTI with dev.tty.legacy_tiocsti=0
	unix.ENOSPC, // user namespaces limited to none
	unix.EPERM,
}

// TestAttacksAreRefused makes each attack twice: without the filter, where it
// must have its effect as far as this machine has what it aims at, and under it.
func TestAttacksAreRefused(t *testing.T) {
	requireSeccomp(t)
	for _, uid := range users() {
		for _, a := range attacks {
			t.Run(fmt.Sprintf("%s as %d", a.name, uid), func(t *testing.T) {
				if a.rootOnly && uid != 0 {
					require.NotHere(t, "refused to an ordinary user anyhow")
				}
				judge := func(e *effects, errno syscall.Errno) bool {
					if a.happened == nil {
						return errno == 0
					}
					return a.happened(t, e)
				}
				open := newEffects(t, uid)
				before, signal := try(t, a.name, Filter{}, uid, open.stage, open.terminal)
				switch {
				case judge(open, before):
				case slices.Contains(lacking, before):
					t.Logf("without a filter: %v: this machine proves less", before)
				default:
					t.Errorf("without a filter: no effect (%v %v)", before, signal)
				}
				confined := newEffects(t, uid)
				f := compile(t, "default", runtime.GOARCH, a.with)
				after, signal := try(t, a.name, f, uid, confined.stage, confined.terminal)
				want := a.want
				if want == 0 {
					want = unix.EPERM
				}
				if signal != 0 || after != want && !(want == anyRefusal && (after == unix.EPERM || after == unix.ENOSYS)) {
					t.Errorf("under the filter: %v %v, want %v", after, signal, want)
				}
				if judge(confined, after) {
					t.Error("under the filter: it had its effect")
				}
			})
		}
	}
}

// TestRefusedCallsByNumber makes every refused call with arguments that do
// nothing if let through: all bits set.
func TestRefusedCallsByNumber(t *testing.T) {
	requireSeccomp(t)
	table := loadNumbers(t, runtime.GOARCH)
	f := compile(t, "default", runtime.GOARCH, Options{Inet: true, Unix: true, OwnPID: true, OwnIPC: true})
	newest := newestNumber(t, runtime.GOARCH, table)
	harmful := map[string]bool{
		"vhangup": true,                    // takes no arguments
		"uprobe":  true, "uretprobe": true, // end a caller that is no trampoline
	}
	s := stage{dir: t.TempDir()}
	proven := 0
	for _, r := range Refusals() {
		for _, name := range r.Calls {
			number, ok := table[name]
			if !ok || harmful[name] {
				continue
			}
			role := fmt.Sprintf("call:%d", number)
			free, _ := try(t, role, Filter{}, os.Getuid(), s, nil)
			got, signal := try(t, role, f, os.Getuid(), s, nil)
			want := meaning{newest: newest}.of(name, number, [6]uint64{})
			if signal != 0 || uint32(unix.SECCOMP_RET_ERRNO)|uint32(got) != want {
				t.Errorf("%s: %v %v, want %#x", name, got, signal, want)
			}
			if free != got {
				proven++
			}
		}
	}
	// The rest is not in this kernel, or refused to everybody with such arguments.
	t.Logf("%d calls answer otherwise without the filter", proven)
	if os.Getuid() == 0 && proven < 40 {
		t.Errorf("only %d calls answer otherwise without the filter", proven)
	}
}

// TestX32ProcessEnds: the number of getpid, read from the x32 table.
func TestX32ProcessEnds(t *testing.T) {
	requireSeccomp(t)
	if runtime.GOARCH != "amd64" {
		require.NotHere(t, "x32 is an ABI of amd64")
	}
	f := compile(t, "default", "amd64", Options{})
	role := fmt.Sprintf("call:%d", x32Bit|unix.SYS_GETPID)
	s := stage{dir: t.TempDir()}
	if errno, signal := try(t, role, Filter{}, os.Getuid(), s, nil); signal != 0 {
		t.Fatalf("without a filter: %v %v", errno, signal)
	}
	if errno, signal := try(t, role, f, os.Getuid(), s, nil); signal != unix.SIGSYS {
		t.Errorf("under the filter: %v %v, want SIGSYS", errno, signal)
	}
}

func TestHonestAttemptsWork(t *testing.T) {
	requireSeccomp(t)
	for _, uid := range users() {
		for _, a := range honest {
			t.Run(fmt.Sprintf("%s as %d", a.name, uid), func(t *testing.T) {
				e := newEffects(t, uid)
				if a.name == "connect to a UNIX socket and TCP port" {
					go func() {
						if c, err := e.listener.Accept(); err == nil {
							c.Close()
						}
					}()
				}
				before, signal := try(t, a.name, Filter{}, uid, e.stage, e.terminal)
				if before != a.want || signal != 0 {
					t.Fatalf("without a filter: %v %v, want %v", before, signal, a.want)
				}
				e = newEffects(t, uid)
				f := compile(t, "default", runtime.GOARCH, a.with)
				e.listener.SetDeadline(time.Now().Add(time.Second))
				if after, signal := try(t, a.name, f, uid, e.stage, e.terminal); after != a.want || signal != 0 {
					t.Errorf("under the filter: %v %v, want %v", after, signal, a.want)
				}
			})
		}
	}
}
