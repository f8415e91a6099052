package test

import (
	"bytes"
	"fmt"
	"os"
	osexec "os/exec"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// terminal is one of the caller: the tests hold the far end and read what a
// person would see.
type terminal struct {
	*scene
	master, slave *os.File
	name          string
	done          chan struct{}

	mu   sync.Mutex
	seen bytes.Buffer
}

func newTerminal(s *scene) *terminal {
	s.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	s.must(err)
	fd := int(master.Fd()) // from here on reads block
	s.must(unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	s.must(err)
	t := &terminal{scene: s, master: master, name: fmt.Sprintf("/dev/pts/%d", n), done: make(chan struct{})}
	t.slave, err = os.OpenFile(t.name, os.O_RDWR|unix.O_NOCTTY, 0)
	s.must(err)
	s.own(t.name)
	go t.read()
	s.Cleanup(func() { t.slave.Close(); <-t.done; t.master.Close() })
	return t
}

// read ends when the last opener of the near end is gone.
func (t *terminal) read() {
	defer close(t.done)
	buf := make([]byte, 4096)
	for {
		n, err := t.master.Read(buf)
		if err != nil {
			return
		}
		t.mu.Lock()
		t.seen.Write(buf[:n])
		t.mu.Unlock()
	}
}

func (t *terminal) text() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.seen.String()
}

// shows waits until text is on the terminal.
func (t *terminal) shows(text string) bool {
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if strings.Contains(t.text(), text) {
			return true
		}
	}
	return false
}

func (t *terminal) want(text string) {
	t.Helper()
	if !t.shows(text) {
		t.Fatalf("the terminal does not show %q: %q", text, t.text())
	}
}

func (t *terminal) typeIn(keys string) {
	t.Helper()
	_, err := t.master.WriteString(keys)
	t.must(err)
}

// start runs argv as the job of a shell on this terminal: in a session of which
// it is the controlling terminal. Streams that out names go there instead.
func (t *terminal) start(out *bytes.Buffer, argv ...string) *osexec.Cmd {
	t.Helper()
	c := t.command(argv...)
	c.Env = append(c.Env, "TERM=xterm")
	c.Stdin, c.Stdout, c.Stderr = t.slave, t.slave, t.slave
	if out != nil {
		c.Stdout, c.Stderr = out, out
	}
	c.SysProcAttr.Setpgid, c.SysProcAttr.Setsid, c.SysProcAttr.Setctty = false, true, true
	c.Cancel = func() error { return unix.Kill(c.Process.Pid, unix.SIGKILL) }
	t.must(c.Start())
	t.Cleanup(func() { unix.Kill(-c.Process.Pid, unix.SIGKILL) })
	return c
}

// wait ends c after at most half a minute.
func (t *terminal) wait(c *osexec.Cmd) int {
	t.Helper()
	timer := time.AfterFunc(30*time.Second, func() { unix.Kill(c.Process.Pid, unix.SIGKILL) })
	defer timer.Stop()
	c.Wait() // the code tells
	return c.ProcessState.ExitCode()
}

// waiting is how many bytes a shell on this terminal would read next.
func (t *terminal) waiting() int {
	t.Helper()
	n, err := unix.IoctlGetInt(int(t.slave.Fd()), unix.TIOCINQ)
	t.must(err)
	return n
}

// run is sbx with flags for a terminal: nothing is captured.
func (t *terminal) run(flags []string, argv ...string) []string {
	args := []string{t.program("sbx"), "run", "--quiet", "--tier", t.Tier, "--timeout", "20s", "--workspace", t.Work, "--ro", t.program("player")}
	return append(append(append(args, flags...), "--"), argv...)
}

// onTerminals runs f for each user and tier, without and with a terminal of the
// command's own.
func onTerminals(t *testing.T, f func(t *testing.T, s *scene, flags []string)) {
	for _, uid := range users() {
		for _, tier := range tiers() {
			for _, flags := range [][]string{nil, {"--tty"}} {
				t.Run(fmt.Sprintf("uid%d/%s/%s", uid, tier, append(flags, "no-tty")[0]), func(t *testing.T) {
					f(t, newScene(t, uid, tier), flags)
				})
			}
		}
	}
}

// typing is what a command tries to type into the caller's shell.
var typing = []struct {
	name, target string
	request      uint
}{
	{"TIOCSTI on standard input", "/proc/self/fd/0", unix.TIOCSTI},
	{"TIOCSTI on the controlling terminal", "/dev/tty", unix.TIOCSTI},
	{"TIOCSTI with upper bits", "/proc/self/fd/0", 1<<32 | unix.TIOCSTI},
	{"TIOCSTI on the caller's terminal by name", "", unix.TIOCSTI},
	{"TIOCLINUX paste", "/proc/self/fd/0", 0x541c},
}

func TestTypingIntoTheCallersShell(t *testing.T) {
	for i, a := range typing {
		t.Run(a.name, func(t *testing.T) {
			attack := func(s *scene, term *terminal) []string {
				s.Extra["attempt"], s.Extra["terminal"] = fmt.Sprint(i), term.name
				return s.part("type into terminal")
			}
			if a.request != 0x541c { // only consoles obey that one: nothing to compare with
				for _, uid := range users() {
					s := newScene(t, uid, "")
					term := newTerminal(s)
					if code := term.wait(term.start(nil, attack(s, term)...)); code != 0 || term.waiting() == 0 {
						t.Fatalf("uid %d: without confinement nothing is typed (exit %d): %q", uid, code, term.text())
					}
				}
			}
			onTerminals(t, func(t *testing.T, s *scene, flags []string) {
				term := newTerminal(s)
				code := term.wait(term.start(nil, term.run(flags, attack(s, term)...)...))
				if n := term.waiting(); n != 0 || code == 0 {
					t.Errorf("exit %d, %d bytes wait for the caller's shell: %q", code, n, term.text())
				}
			})
		})
	}
}

// ioctlRaw passes the whole width of the request to the kernel.
func ioctlRaw(fd int, request uint, argument *[8]byte) error {
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), uintptr(request), uintptr(unsafe.Pointer(argument)))
	return errnoOrNil(errno)
}

// typeInto is the player's part.
func typeInto(p places) error {
	var i int
	fmt.Sscan(p.Extra["attempt"], &i)
	a := typing[i]
	target := a.target
	if target == "" {
		target = p.Extra["terminal"]
	}
	fd := 0
	if target != "/proc/self/fd/0" {
		var err error
		if fd, err = unix.Open(target, unix.O_RDWR|unix.O_NOCTTY, 0); err != nil {
			return err
		}
	}
	for _, key := range []byte("touch typed\n") {
		var argument [8]byte
		argument[0] = key
		if a.request == 0x541c {
			argument[0] = 3 // TIOCL_PASTESEL
		}
		if err := ioctlRaw(fd, a.request, &argument); err != nil {
			return err
		}
	}
	return nil
}

func TestWritingToTheCallersTerminal(t *testing.T) {
	for _, target := range []string{"controlling", "by name", "another"} {
		t.Run(target, func(t *testing.T) {
			attack := func(s *scene) (*terminal, *terminal, []string) {
				term, other := newTerminal(s), newTerminal(s)
				at := map[string]string{"controlling": "/dev/tty", "by name": term.name, "another": other.name}[target]
				return term, other, []string{"/bin/sh", "-c", "echo " + s.Token + " >" + at}
			}
			for _, uid := range users() {
				term, other, argv := attack(newScene(t, uid, ""))
				var out bytes.Buffer
				term.wait(term.start(&out, argv...))
				if !soon(func() bool { return strings.Contains(term.text()+other.text(), term.Token) }) {
					t.Fatalf("uid %d: without confinement nothing is written: %s", uid, out.String())
				}
				for _, tier := range tiers() {
					term, other, argv := attack(newScene(t, uid, tier))
					var out bytes.Buffer
					term.wait(term.start(&out, term.run([]string{"--json"}, argv...)...))
					if strings.Contains(term.text()+other.text(), term.Token) {
						t.Errorf("uid %d, %s: the terminals show it: %q %q (%s)", uid, tier, term.text(), other.text(), out.String())
					}
				}
			}
		})
	}
}

// TestTerminalIsLeftAsItWas: settings, mode and size are the caller's again,
// whatever the command did to what it was given, and also when sbx is killed.
func TestTerminalIsLeftAsItWas(t *testing.T) {
	const change = `stty -echo raw cols 20 rows 7; stty -echo -F /dev/tty; perl -e 'use Fcntl; fcntl(STDIN, F_SETFL, O_NONBLOCK|O_RDWR)'; : >changed; test -e linger && sleep 30; exit 0`
	state := func(term *terminal) string {
		settings, err := unix.IoctlGetTermios(int(term.slave.Fd()), unix.TCGETS)
		term.must(err)
		size, err := unix.IoctlGetWinsize(int(term.slave.Fd()), unix.TIOCGWINSZ)
		term.must(err)
		flags, err := unix.FcntlInt(term.slave.Fd(), unix.F_GETFL, 0)
		term.must(err)
		return fmt.Sprintf("%+v %+v nonblocking %v", *settings, *size, flags&unix.O_NONBLOCK != 0)
	}
	for _, uid := range users() {
		s := newScene(t, uid, "")
		term := newTerminal(s)
		before := state(term)
		term.wait(term.start(nil, "/bin/sh", "-c", change))
		if state(term) == before {
			t.Fatalf("uid %d: without confinement nothing changes: %q", uid, term.text())
		}
	}
	onTerminals(t, func(t *testing.T, s *scene, flags []string) {
		for _, killed := range []bool{false, true} {
			term := newTerminal(s)
			s.must(unix.IoctlSetWinsize(int(term.slave.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 33, Col: 99}))
			before := state(term)
			if killed {
				os.Remove(s.Work + "/changed")
				s.file(s.Work+"/linger", "")
			}
			c := term.start(nil, term.run(flags, "/bin/sh", "-c", change)...)
			if killed {
				for end := time.Now().Add(10 * time.Second); !exists(s.Work+"/changed") && time.Now().Before(end); {
					time.Sleep(5 * time.Millisecond)
				}
				unix.Kill(c.Process.Pid, unix.SIGKILL)
			}
			term.wait(c)
			if !exists(s.Work + "/changed") {
				t.Fatalf("the command did not come so far: %q", term.text())
			}
			// The keeper of a killed sbx gives the terminal back once it has
			// ended the tree, which takes as long as the machine lets it.
			same := func() bool { return state(term) == before }
			for end := time.Now().Add(5 * time.Second); !same() && time.Now().Before(end); {
				time.Sleep(5 * time.Millisecond)
			}
			if !same() {
				t.Errorf("killed %v:\nbefore %s\nafter  %s", killed, before, state(term))
			}
		}
	})
}

// TestReportsHoldNoControlSequences: a title or clipboard sequence in captured
// output, in a name that sbx speaks of, reaches no reader's terminal as such.
func TestReportsHoldNoControlSequences(t *testing.T) {
	const sequence = "\x1b]0;title\a\x1b]52;c;YQ==\a\u009d0;c1\u009c\u009b2J\x7f\r\b"
	bad := func(text string) string {
		for _, r := range text {
			if r < ' ' && r != '\n' || r >= 0x7f && r < 0xa0 {
				return fmt.Sprintf("%q holds %U", text, r)
			}
		}
		return ""
	}
	for _, uid := range users() {
		s := newScene(t, uid, "")
		if r := s.plain("/bin/sh", "-c", "printf %s '"+sequence+"'"); bad(r.Stdout) == "" {
			t.Fatalf("without sbx the sequence is not there: %q", r.Stdout)
		}
		for _, tier := range tiers() {
			s := newScene(t, uid, tier)
			s.file(s.Work+"/.git/HEAD", "ref: refs/heads/main\n")
			for name, argv := range map[string][]string{
				"captured output":    {"run", "--json", "--", "/bin/sh", "-c", "printf %s '" + sequence + "'; printf %s '" + sequence + "' >&2"},
				"a name not found":   {"run", "--", "no" + sequence},
				"a name that failed": {"run", "--", "/bin/sh", "-c", "exit 3", sequence},
				"a missing grant":    {"run", "--ro", "/no/" + sequence, "--", "true"},
				"a variable":         {"run", "--verbose", "--env", "X=" + sequence, "--", "false"},
				"an unknown flag":    {"run", "--no" + sequence, "--", "true"},
				"a plan":             {"run", "--dry-run", "--", "true", sequence},
				"a planted name":     {"run", "--", "/bin/sh", "-c", "mkdir -p '" + sequence + "/.vscode' && echo '{\"a\":1}' >'" + sequence + "/.vscode/settings.json'; git init -q '" + sequence + "/g'; echo x >'" + sequence + "/g/.git/hooks/pre-commit'; chmod +x '" + sequence + "/g/.git/hooks/pre-commit'"},
			} {
				argv = append([]string{s.program("sbx"), argv[0], "--tier", tier, "--workspace", s.Work}, argv[1:]...)
				r := s.plain(argv...)
				if problem := bad(r.Stdout); problem != "" {
					t.Errorf("uid %d, %s, %s: stdout %s", uid, tier, name, problem)
				}
				if problem := bad(r.Stderr); problem != "" {
					t.Errorf("uid %d, %s, %s: stderr %s", uid, tier, name, problem)
				}
			}
		}
	}
}
