package child

import (
	"bytes"
	"fmt"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sandboxd/test/require"
)

const (
	asStreams  = "SANDBOXD_TEST_STREAMS" // be streamsProgram
	asEarly    = "SANDBOXD_TEST_EARLY"   // the namespaces that the program asks for
	allSpaces  = unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWIPC | unix.CLONE_NEWNET
	earlyWord  = "word-that-nobody-else-has" // in the environment, an argument and a descriptor
	earlySplit = "word-that-"
)

// earlyProgram stands for sbx run: it tells which keeper it got, and what is in it.
func earlyProgram() int {
	ns, err := strconv.ParseUint(os.Getenv(asEarly), 10, 64)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	proc := early(Options{Namespaces: ns})
	if proc == nil {
		fmt.Println("usual")
		var p Plan
		p.Ready()
		if proc, err = Start(&p, Options{Namespaces: ns}); err != nil {
			fmt.Println(err)
			return 1
		}
		return 0
	}
	info, err := os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", proc.pidfd))
	if err != nil {
		fmt.Println(err)
		return 1
	}
	_, rest, _ := bytes.Cut(info, []byte("\nPid:\t"))
	pid, _, _ := bytes.Cut(rest, []byte("\n"))
	seen := lookInto(string(pid))
	for range 1000 { // until it waits for its plan
		if strings.Contains(seen, "anon_inode / socket /,") || ns == 0 {
			break
		}
		time.Sleep(time.Millisecond)
		seen = lookInto(string(pid))
	}
	fmt.Printf("early\n%s\n", seen)
	var p Plan
	p.Ready()
	if err := proc.Execute(&p); err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

// lookInto tells what a keeper holds: its name, its descriptors, which of its
// namespaces are its own, and whether the word is in its memory.
func lookInto(pid string) string {
	dir := "/proc/" + pid + "/"
	name, _ := os.ReadFile(dir + "comm")
	line, _ := os.ReadFile(dir + "cmdline")
	var out strings.Builder
	fmt.Fprintf(&out, "name %s, line %s, spaces", bytes.TrimSpace(name), bytes.TrimRight(line, "\x00"))
	for _, ns := range []string{"mnt", "pid", "ipc", "net"} {
		theirs, err1 := os.Readlink(dir + "ns/" + ns)
		ours, err2 := os.Readlink("/proc/self/ns/" + ns)
		if err1 == nil && err2 == nil && theirs != ours {
			fmt.Fprintf(&out, " %s", ns)
		}
	}
	fds, _ := os.ReadDir(dir + "fd")
	out.WriteString(", files")
	for _, fd := range fds {
		target, _ := os.Readlink(dir + "fd/" + fd.Name())
		kind, _, _ := strings.Cut(target, ":[")
		fmt.Fprintf(&out, " %s", kind)
	}
	fmt.Fprintf(&out, ", word %v", holds(dir, earlySplit+"nobody-else-has"))
	return out.String()
}

// holds looks for word in all memory of a process that it can write.
func holds(dir, word string) bool {
	maps, err := os.ReadFile(dir + "maps")
	mem, merr := os.Open(dir + "mem")
	if err != nil || merr != nil {
		return true
	}
	defer mem.Close()
	for line := range strings.Lines(string(maps)) {
		var from, to int64
		var mode string
		if n, _ := fmt.Sscanf(line, "%x-%x %s", &from, &to, &mode); n != 3 || mode[1] != 'w' {
			continue
		}
		text := make([]byte, to-from)
		n, _ := mem.ReadAt(text, from)
		if bytes.Contains(text[:n], []byte(word)) {
			return true
		}
	}
	return false
}

// runEarly starts earlyProgram with a command line of sbx.
func runEarly(t *testing.T, ns uint64, args ...string) string {
	t.Helper()
	c := osexec.Command("/proc/self/exe", args...)
	c.Env = append(os.Environ(), fmt.Sprintf("%s=%d", asEarly, ns), "WORD="+earlyWord)
	secret, err := os.Create(filepath.Join(t.TempDir(), earlyWord))
	if err != nil {
		t.Fatal(err)
	}
	defer secret.Close()
	c.ExtraFiles = []*os.File{secret, secret, secret}
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return string(out)
}

// A keeper made ahead is in the namespaces that are asked for, and holds nothing
// of the caller: neither environment nor arguments nor descriptors. It has its
// signals, its socket, and the roots of a fresh proc and devpts.
func TestEarlyKeeperHoldsNothingOfTheCaller(t *testing.T) {
	require.Root(t, "only root may look into a keeper")
	got := runEarly(t, allSpaces, "run", "--", "echo", earlyWord)
	want := "early\nname sbx-keeper, line sbx-keeper, spaces mnt pid ipc net, files anon_inode / socket /, word false\n"
	if got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// The guess from the flags is only ever a guess: another kind is made instead.
func TestEarlyKeeperIsTheOneAskedForOrNone(t *testing.T) {
	require.Root(t, "namespaces without an own user namespace")
	for _, tt := range []struct {
		args  []string
		ns    uint64
		early bool
	}{
		{[]string{"run", "--", "true"}, allSpaces, true},
		{[]string{"run", "true", "--tier", "base"}, allSpaces, true},
		{[]string{"run", "--quiet", "--", "true"}, allSpaces, true},
		{[]string{"run", "--", "true"}, 0, false},
		{[]string{"run", "--", "true"}, allSpaces &^ unix.CLONE_NEWNET, false},
		{[]string{"run", "--tier", "base", "true"}, 0, true},
		{[]string{"run", "--tier=base", "--", "true"}, 0, true},
		{[]string{"run", "--tier=base", "--", "true"}, allSpaces, false},
		{[]string{"run", "--tier", "full", "--", "true"}, allSpaces, true},
		{[]string{"run", "--net", "full", "--", "true"}, allSpaces, false},
		{[]string{"run", "--user=1000", "--", "true"}, allSpaces, false},
		{[]string{"run", "--tier"}, allSpaces, true},
		{[]string{"run"}, allSpaces, true},
		{[]string{"doctor"}, allSpaces, false},
	} {
		kind, _, _ := strings.Cut(runEarly(t, tt.ns, tt.args...), "\n")
		if got := kind == "early"; got != tt.early {
			t.Errorf("%v for namespaces %x: %s, want early %v", tt.args, tt.ns, kind, tt.early)
		}
	}
}

// The socket to the keeper is none of the standard streams, closed or not.
func TestEarlyKeeperTakesNoStandardStream(t *testing.T) {
	for _, closed := range []string{"<&-", ">&-", "2>&-", "<&- >&- 2>&-"} {
		c := osexec.Command("/bin/sh", "-c", `"$0" run -- true 3>&1 `+closed+`; exit 0`, testBinary(t))
		c.Env = append(os.Environ(), asEarly+"=0", asStreams+"=1")
		out, err := c.CombinedOutput()
		if err != nil || string(out) != "no socket\n" {
			t.Errorf("%s: %v: %s", closed, err, out)
		}
	}
}

func testBinary(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// streamsProgram tells on descriptor 3 whether a standard stream is a socket.
func streamsProgram() int {
	out := os.NewFile(3, "out")
	for fd := range 3 {
		var st unix.Stat_t
		if unix.Fstat(fd, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFSOCK {
			fmt.Fprintln(out, "a socket is descriptor", fd)
			return 0
		}
	}
	fmt.Fprintln(out, "no socket")
	return 0
}

// A keeper that nobody takes ends with the program that made it.
func TestEarlyKeeperEndsWithItsProgram(t *testing.T) {
	before := keepersAlive(t)
	runEarly(t, 0, "run", "--", "true") // takes none of that kind
	end := time.Now().Add(10 * time.Second)
	for keepersAlive(t) > before {
		if time.Now().After(end) {
			t.Fatal("a keeper is left")
		}
		time.Sleep(time.Millisecond)
	}
}

func keepersAlive(t *testing.T) (n int) {
	t.Helper()
	names, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		text, _ := os.ReadFile(name)
		if bytes.Contains(text, []byte("(sbx-keeper) ")) && !bytes.Contains(text, []byte("(sbx-keeper) Z")) {
			n++
		}
	}
	return n
}
