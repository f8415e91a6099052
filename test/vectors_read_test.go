package test

import (
	"errors"
	"fmt"
	"os"
	osexec "os/exec"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"sandboxd/test/require"
)

// readVectors are ways to read files outside.
func readVectors() []vector {
	secret := func(s *scene) { s.file(s.Out+"/secret", s.Token) }
	inside := func(s *scene) { secret(s); s.file(s.Work+"/mine", "mine"); s.link("mine", s.Work+"/inside") }
	mine := func(p places) error { return show(p.Work + "/mine") }
	return []vector{
		{name: "read absolute path", setup: inside, reached: leaks,
			attack: func(p places) error { return show(p.Out + "/secret") }, honest: mine},
		{name: "read relative path", setup: inside, reached: leaks,
			attack: func(places) error { return show("../out/secret") },
			honest: func(p places) error { return show("../work/mine") }},
		{name: "read in home", reached: leaks,
			setup:  func(s *scene) { s.file(s.Home+"/.ssh/id_rsa", s.Token) },
			attack: func(p places) error { return show(p.Home + "/.ssh/id_rsa") },
			honest: func(p places) error { // the private home is writable
				return errors.Join(os.WriteFile(os.Getenv("HOME")+"/note", nil, 0o600), show(os.Getenv("HOME")+"/note"))
			}},
		{name: "read through new symlink", setup: inside, reached: leaks,
			attack: func(p places) error {
				return errors.Join(os.Symlink(p.Out+"/secret", "new"), show("new"))
			},
			honest: func(p places) error { return errors.Join(os.Symlink("mine", "new"), show("new")) }},
		{name: "read through old symlink", reached: leaks,
			setup:  func(s *scene) { inside(s); s.link("../out/secret", s.Work+"/old") },
			attack: func(places) error { return show("old") },
			honest: func(places) error { return show("inside") }},
		{name: "read through old linked directory", reached: leaks,
			setup: func(s *scene) {
				inside(s)
				s.link(s.Out, s.Work+"/dir")
				s.link(".", s.Work+"/here")
			},
			attack: func(places) error { return show("dir/secret") },
			honest: func(places) error { return show("here/mine") }},
		{name: "read through hard link", setup: inside, reached: leaks,
			attack: func(p places) error { return errors.Join(os.Link(p.Out+"/secret", "hard"), show("hard")) },
			honest: func(places) error { return errors.Join(os.Link("mine", "hard"), show("hard")) }},
		{name: "read through proc self root", setup: inside, reached: leaks,
			attack: func(p places) error { return show("/proc/self/root" + p.Out + "/secret") },
			honest: func(p places) error { return show("/proc/self/root" + p.Work + "/mine") }},
		{name: "read through proc self cwd", setup: inside, reached: leaks,
			attack: func(places) error { return show("/proc/self/cwd/../out/secret") },
			honest: func(places) error { return show("/proc/self/cwd/mine") }},
		{name: "read beneath inherited directory", setup: inside, reached: leaks, inherit: inherits(""),
			attack: func(places) error { return showAt(3, "secret") }, honest: mine},
		{name: "read from inherited file", setup: inside, reached: leaks, inherit: inherits("/secret"),
			attack: func(places) error {
				text := make([]byte, 100)
				n, err := unix.Pread(3, text, 0)
				fmt.Printf("%s\n", text[:max(n, 0)])
				return err
			}, honest: mine},
		{name: "write by reopening inherited file", setup: inside, inherit: inherits("/secret"),
			attack:  func(p places) error { return os.WriteFile("/proc/self/fd/3", []byte("x"), 0) },
			reached: func(s *scene, _ result) bool { return s.content(s.Out+"/secret") == "x" }, honest: mine},
		{name: "read by file handle", rootOnly: true, reached: leaks, attack: openByHandle, honest: mine,
			setup: func(s *scene) {
				inside(s)
				handle, _, err := unix.NameToHandleAt(unix.AT_FDCWD, s.Out+"/secret", 0)
				if errors.Is(err, unix.EOPNOTSUPP) {
					require.Missing(s, require.Host, "this file system has no handles")
				}
				s.must(err)
				s.Extra["type"], s.Extra["handle"] = strconv.Itoa(int(handle.Type())), string(encode(handle.Bytes()))
			}},
		{name: "read in the host's temporary directory", reached: leaks, honest: tempWorks,
			setup:  func(s *scene) { s.Extra["file"] = s.temporary("/tmp", s.Token) },
			attack: func(p places) error { return show(p.Extra["file"]) }},
		{name: "read in the host's shared memory", reached: leaks, honest: shmWorks,
			setup:  func(s *scene) { s.Extra["file"] = s.temporary("/dev/shm", s.Token) },
			attack: func(p places) error { return show(p.Extra["file"]) }},
		{name: "read by io_uring", setup: inside, reached: leaks, honest: mine,
			attack: func(p places) error { return ringShow(p.Out + "/secret") }},
		{name: "unmount the private temporary directory", reached: leaks, honest: tempWorks,
			setup: func(s *scene) { s.Extra["file"] = s.temporary("/tmp", s.Token) },
			attack: func(p places) error {
				if show(p.Extra["file"]) == nil {
					return nil
				}
				err := unix.Unmount("/tmp", unix.MNT_DETACH)
				inNewUser := osexec.Command("unshare", "-Urm", "sh", "-c", `umount -l /tmp; cat "$0"`, p.Extra["file"])
				inNewUser.Stdout, inNewUser.Stderr = os.Stdout, os.Stderr
				return errors.Join(err, show(p.Extra["file"]), inNewUser.Run())
			}},
		{name: "unmount the mask of a denied file", reached: leaks, refusedIn: "base", honest: mine,
			setup: func(s *scene) { inside(s); s.file(s.Work+"/.env", s.Token) },
			flags: func(s *scene) []string { return []string{"--deny", s.Work + "/.env"} },
			attack: func(p places) error {
				if show(".env") == nil {
					return nil
				}
				return errors.Join(unix.Unmount(p.Work+"/.env", unix.MNT_DETACH), os.Rename(".env", "seen"),
					os.Link(".env", "seen"), show("seen"), show(".env"))
			}},
	}
}

// inherits leaves a file of Out open as descriptor 3.
func inherits(name string) func(s *scene) []*os.File {
	return func(s *scene) []*os.File {
		f, err := os.Open(s.Out + name)
		s.must(err)
		s.Cleanup(func() { f.Close() })
		return []*os.File{f}
	}
}

// temporary makes a file of the scene's user in a shared directory of the host.
func (s *scene) temporary(dir, content string) string {
	s.Helper()
	f, err := os.CreateTemp(dir, runName()+"-")
	s.must(err)
	s.Cleanup(func() { os.Remove(f.Name()) })
	_, err = f.WriteString(content)
	s.must(errors.Join(err, f.Chmod(0o644), f.Close()))
	s.own(f.Name())
	return f.Name()
}

// show prints a file.
func show(path string) error {
	text, err := os.ReadFile(path)
	if err == nil {
		_, err = fmt.Printf("%s\n", text)
	}
	return err
}

// showAt prints a file beneath an open directory.
func showAt(dir int, name string) error {
	fd, err := unix.Openat(dir, name, unix.O_RDONLY, 0)
	if err != nil {
		return err
	}
	return show("/proc/self/fd/" + strconv.Itoa(fd))
}

// tempWorks: a temporary file can be made, written and read.
func tempWorks(places) error {
	f, err := os.CreateTemp("", "x")
	if err != nil {
		return err
	}
	return errors.Join(os.WriteFile(f.Name(), []byte("x"), 0o600), show(f.Name()))
}

// shmWorks: shared memory works where it is private. In the base tier there is none.
func shmWorks(places) error {
	err := os.WriteFile("/dev/shm/x", []byte("x"), 0o600)
	if errors.Is(err, unix.EACCES) && strings.HasPrefix(os.TempDir(), "/") && os.TempDir() != "/tmp" {
		return tempWorks(places{})
	}
	return err
}

func openByHandle(p places) error {
	kind, err := strconv.Atoi(p.Extra["type"])
	if err != nil {
		return err
	}
	dir, err := unix.Open(p.Work, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	fd, err := unix.OpenByHandleAt(dir, unix.NewFileHandle(int32(kind), decode(p.Extra["handle"])), unix.O_RDONLY)
	if err != nil {
		return err
	}
	return show("/proc/self/fd/" + strconv.Itoa(fd))
}

func encode(b []byte) string { return fmt.Sprintf("%x", b) }

func decode(text string) []byte {
	out := make([]byte, len(text)/2)
	fmt.Sscanf(text, "%x", &out)
	return out
}

// wait gives a condition outside two seconds to come true.
func wait(cond func() bool) bool {
	for range 200 {
		if cond() {
			return true
		}
		time.Sleep(10 * time.Millisecond)
	}
	return false
}
