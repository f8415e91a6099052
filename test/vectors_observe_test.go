package test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"sandboxd/test/require"
)

// observeVectors are ways to learn of outside processes, files and memory
// without opening a file by its path.
func observeVectors() []vector {
	bystander := func(s *scene) {
		b := s.bystander("")
		s.Extra["proc"], s.Extra["address"] = "/proc/"+strconv.Itoa(b.PID), b.Address
		s.file(s.Work+"/mine", "mine")
	}
	own := func(name string) func(places) error {
		return func(places) error { return show("/proc/self/" + name) }
	}
	outside := []vector{
		{name: "read proc PID root", attack: func(p places) error { return show(p.Extra["proc"] + "/root" + p.Out + "/bystander") },
			honest: func(p places) error { return show("/proc/self/root" + p.Work + "/mine") }},
		{name: "read proc PID cwd", attack: func(p places) error { return show(p.Extra["proc"] + "/cwd/bystander") }, honest: own("cwd/mine")},
		{name: "read proc PID fd", attack: func(p places) error { return show(p.Extra["proc"] + "/fd/3") },
			honest: func(places) error { _, err := os.Readlink("/proc/self/fd/1"); return err }},
		{name: "read proc PID environ", attack: func(places) error { return showAll("/proc/[0-9]*/environ") }, honest: own("environ")},
		{name: "read proc PID mem", attack: func(p places) error { return showMemory(p.Extra["proc"]+"/mem", p.Extra["address"]) },
			honest: func(places) error {
				own := []byte("own")
				return showMemory("/proc/self/mem", fmt.Sprintf("%x", uintptr(unsafe.Pointer(&own[0]))))
			}},
		{name: "read proc PID cmdline", attack: func(places) error { return showAll("/proc/[0-9]*/cmdline") }, honest: own("cmdline"),
			open: []gap{{tier: "base", part: "process list"}}},
	}
	for i := range outside {
		outside[i].setup, outside[i].reached = bystander, leaks
	}
	return append(append(outside, metadataVectors()...), ipcVectors()...)
}

// metadataVectors learn that something exists, how large it is, and what goes on.
func metadataVectors() []vector {
	metadata := []gap{{tier: "base", part: "metadata"}}
	return []vector{
		{name: "stat outside", open: metadata,
			setup: func(s *scene) {
				size := 100_000_000 + rand.Int64N(900_000_000)
				s.must(os.Truncate(s.file(s.Out+"/secret", ""), size))
				s.Token = strconv.FormatInt(size, 10)
			},
			attack: func(p places) error {
				st, err := os.Stat(p.Out + "/secret")
				if err == nil {
					fmt.Println(st.Size())
				}
				return err
			},
			reached: leaks, honest: func(p places) error { _, err := os.Stat(p.Work); return err }},
		{name: "access outside", open: metadata, setup: someExist, reached: leaks,
			attack: func(p places) error {
				return whichExist(p.Out, func(path string) error { return unix.Access(path, unix.F_OK) })
			},
			honest: func(p places) error { return unix.Access(p.Work, unix.W_OK) }},
		{name: "chdir outside", open: metadata, setup: someExist, reached: leaks,
			attack: func(p places) error { return whichExist(p.Out, os.Chdir) },
			honest: func(p places) error { return os.Chdir(p.Work) }},
		{name: "list a directory outside", reached: leaks,
			setup:  func(s *scene) { s.file(s.Out+"/"+s.Token, "") },
			attack: func(p places) error { return list(p.Out) }, honest: func(p places) error { return list(p.Work) }},
		{name: "watch a directory outside", open: metadata, reached: leaks, setup: activity,
			attack: func(p places) error { return watch(p.Out, func() error { return nil }) },
			honest: func(p places) error {
				return watch(p.Work, func() error { return os.WriteFile("new", nil, 0o644) })
			}},
	}
}

// ipcVectors reach memory and messages that belong to a user and have no path,
// or a well-known one.
func ipcVectors() []vector {
	return []vector{
		{name: "attach a System V segment", reached: leaks,
			setup: func(s *scene) { s.Extra["id"] = s.segment() },
			attack: func(p places) error {
				id, err := strconv.Atoi(p.Extra["id"])
				if err != nil {
					return err
				}
				text, err := unix.SysvShmAttach(id, 0, unix.SHM_RDONLY)
				fmt.Printf("%.40s\n", text)
				return err
			},
			honest: func(places) error { // with an own IPC namespace it is there
				id, err := unix.SysvShmGet(unix.IPC_PRIVATE, 4096, unix.IPC_CREAT|0o600)
				if errors.Is(err, unix.EPERM) && os.TempDir() != "/tmp" {
					return nil // base: refused as a whole, and reported
				}
				if err == nil {
					_, err = unix.SysvShmCtl(id, unix.IPC_RMID, nil)
				}
				return err
			}},
		{name: "receive from a System V queue", reached: leaks,
			setup: func(s *scene) { s.Extra["key"] = s.messages() },
			attack: func(p places) error {
				key, err := strconv.Atoi(p.Extra["key"])
				if err != nil {
					return err
				}
				return showMessage(key)
			}},
		{name: "receive from a POSIX queue", reached: leaks,
			setup: func(s *scene) { s.Extra["queue"] = s.posixQueue() },
			attack: func(p places) error {
				fd, err := openQueue(p.Extra["queue"], unix.O_RDONLY|unix.O_NONBLOCK)
				if err != nil {
					return err
				}
				return receive(fd)
			}},
		{name: "read a key of the user keyring", reached: leaks,
			setup: func(s *scene) {
				s.bystander("key")
				s.Extra["key"] = "sandboxd-" + s.Token[6:14]
			},
			attack: func(p places) error {
				id, err := unix.KeyctlSearch(unix.KEY_SPEC_USER_KEYRING, "user", p.Extra["key"], 0)
				if err != nil {
					return err
				}
				text := make([]byte, 100)
				n, err := unix.KeyctlBuffer(unix.KEYCTL_READ, id, text, 0)
				fmt.Printf("%s\n", text[:max(0, min(n, len(text)))])
				return err
			}},
	}
}

// someExist makes a random half of 24 directories; the token says which.
func someExist(s *scene) {
	bits := make([]byte, existBits)
	for i := range bits {
		bits[i] = '0'
		if rand.IntN(2) == 1 {
			bits[i] = '1'
			s.mkdir(s.Out + "/" + strconv.Itoa(i))
		}
	}
	s.Token = string(bits)
	if !strings.Contains(s.Token, "1") {
		someExist(s)
	}
}

const existBits = 24

func whichExist(dir string, try func(string) error) error {
	var last error
	for i := range existBits {
		if err := try(dir + "/" + strconv.Itoa(i)); err != nil {
			fmt.Print("0")
			last = err
		} else {
			fmt.Print("1")
		}
	}
	return last
}

func list(dir string) error {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		fmt.Println(e.Name())
	}
	return err
}

// showAll prints all files that match. Its own process is not of interest.
func showAll(pattern string) error {
	paths, err := filepath.Glob(pattern)
	own := "/proc/" + strconv.Itoa(os.Getpid()) + "/"
	for _, path := range paths {
		if !strings.HasPrefix(path, own) {
			err = errors.Join(err, show(path))
		}
	}
	return err
}

func showMemory(path, address string) error {
	at, err := strconv.ParseInt(address, 16, 64)
	if err != nil {
		return err
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	text := make([]byte, 40)
	n, err := f.ReadAt(text, at)
	fmt.Printf("%s\n", text[:n])
	return err
}

// activity makes and removes a file of Out that is named for the token, over and
// over, until the test ends.
func activity(s *scene) {
	end, ended := make(chan struct{}), make(chan struct{})
	s.Cleanup(func() { close(end); <-ended })
	go func() {
		defer close(ended)
		for {
			select {
			case <-end:
				return
			case <-time.After(5 * time.Millisecond):
				os.WriteFile(s.Out+"/"+s.Token, nil, 0o644)
				os.Remove(s.Out + "/" + s.Token)
			}
		}
	}()
}

// watch prints the first event of a directory; act may cause one.
func watch(dir string, act func() error) error {
	fd, err := unix.InotifyInit1(unix.IN_NONBLOCK)
	if err != nil {
		return err
	}
	if _, err := unix.InotifyAddWatch(fd, dir, unix.IN_CREATE); err != nil {
		return err
	}
	if err := act(); err != nil {
		return err
	}
	events := make([]byte, 4096)
	for range 200 {
		if n, err := unix.Read(fd, events); err == nil {
			fmt.Printf("%s\n", regexp.MustCompile(`[^ -~]+`).ReplaceAll(events[:n], []byte(" ")))
			return nil
		}
		time.Sleep(10 * time.Millisecond)
	}
	return errors.New("no event in two seconds")
}

// segment makes a System V segment of the scene's user that holds the token.
func (s *scene) segment() string {
	s.Helper()
	id, err := unix.SysvShmGet(unix.IPC_PRIVATE, 4096, unix.IPC_CREAT|0o600)
	s.must(err)
	s.Cleanup(func() { unix.SysvShmCtl(id, unix.IPC_RMID, nil) })
	memory, err := unix.SysvShmAttach(id, 0, 0)
	s.must(err)
	copy(memory, s.Token)
	s.must(unix.SysvShmDetach(memory))
	var d unix.SysvShmDesc
	_, err = unix.SysvShmCtl(id, unix.IPC_STAT, &d)
	s.must(err)
	d.Perm.Uid, d.Perm.Gid = uint32(s.UID), uint32(s.UID)
	_, err = unix.SysvShmCtl(id, unix.IPC_SET, &d)
	s.must(err)
	return strconv.Itoa(id)
}

type message struct {
	Kind int64
	Text [64]byte
}

// messages makes a System V queue that holds the token; its key is returned.
func (s *scene) messages() string {
	s.Helper()
	key := int(rand.Int32N(1<<30)) + 1
	id, _, errno := unix.Syscall(unix.SYS_MSGGET, uintptr(key), unix.IPC_CREAT|unix.IPC_EXCL|0o666, 0)
	if errno != 0 {
		s.Fatal(errno)
	}
	s.Cleanup(func() { unix.Syscall(unix.SYS_MSGCTL, id, unix.IPC_RMID, 0) })
	m := message{Kind: 1}
	copy(m.Text[:], s.Token)
	if _, _, errno := unix.Syscall6(unix.SYS_MSGSND, id, uintptr(unsafe.Pointer(&m)), unsafe.Sizeof(m.Text), 0, 0, 0); errno != 0 {
		s.Fatal(errno)
	}
	return strconv.Itoa(key)
}

func showMessage(key int) error {
	id, _, errno := unix.Syscall(unix.SYS_MSGGET, uintptr(key), 0, 0)
	if errno != 0 {
		return errno
	}
	var m message
	_, _, errno = unix.Syscall6(unix.SYS_MSGRCV, id, uintptr(unsafe.Pointer(&m)), unsafe.Sizeof(m.Text), 0, unix.IPC_NOWAIT, 0)
	if errno != 0 {
		return errno
	}
	fmt.Printf("%s\n", m.Text)
	return nil
}

// posixQueue makes a queue that holds the token; its name is returned.
func (s *scene) posixQueue() string {
	s.Helper()
	name := "sandboxd-" + s.Token
	fd, err := openQueue(name, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL)
	if errors.Is(err, unix.ENOSYS) {
		require.Missing(s, require.Host, "this kernel has no POSIX queues")
	}
	s.must(err)
	s.Cleanup(func() {
		unix.Close(fd)
		path := append([]byte(name), 0)
		unix.Syscall(unix.SYS_MQ_UNLINK, uintptr(unsafe.Pointer(&path[0])), 0, 0)
	})
	s.must(unix.Fchown(fd, s.UID, s.UID))
	text := []byte(s.Token)
	if _, _, errno := unix.Syscall6(unix.SYS_MQ_TIMEDSEND, uintptr(fd), uintptr(unsafe.Pointer(&text[0])), uintptr(len(text)), 0, 0, 0); errno != 0 {
		s.Fatal(errno)
	}
	return name
}

func openQueue(name string, flags int) (int, error) {
	path := append([]byte(name), 0)
	attr := [8]int64{1: 4, 2: 64} // four messages of 64 bytes
	fd, _, errno := unix.Syscall6(unix.SYS_MQ_OPEN, uintptr(unsafe.Pointer(&path[0])), uintptr(flags), 0o600, uintptr(unsafe.Pointer(&attr)), 0, 0)
	if errno != 0 {
		return -1, errno
	}
	return int(fd), nil
}

func receive(fd int) error {
	text := make([]byte, 64)
	n, _, errno := unix.Syscall6(unix.SYS_MQ_TIMEDRECEIVE, uintptr(fd), uintptr(unsafe.Pointer(&text[0])), uintptr(len(text)), 0, 0, 0)
	if errno != 0 {
		return errno
	}
	fmt.Printf("%s\n", text[:n])
	return nil
}
