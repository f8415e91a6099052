package test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"
)

const before = "as it was\n"

// writeVectors change names and contents outside. The stand-in is Out, with a
// file "old" and an empty directory "dir"; "new" must not appear in it.
func writeVectors() []vector {
	stage := func(s *scene) {
		for _, dir := range []string{s.Out, s.Work} {
			s.file(dir+"/old", before)
			s.mkdir(dir + "/dir")
		}
	}
	// both makes attack and honest from what is done in a directory, its file and a
	// place for a new name.
	both := func(name string, reached func(*scene, result) bool, do func(dir string, p places) error) vector {
		return vector{name: name, setup: stage, reached: reached,
			attack: func(p places) error { return do(p.Out, p) }, honest: func(p places) error { return do(p.Work, p) }}
	}
	opens := func(flags int) func(string, places) error {
		return func(dir string, _ places) error { return write(dir+"/old", flags) }
	}
	vs := []vector{
		both("create a file", appears, func(dir string, _ places) error { return write(dir+"/new", os.O_CREATE|os.O_WRONLY) }),
		both("create a file exclusively", appears, func(dir string, _ places) error { return write(dir+"/new", os.O_CREATE|os.O_EXCL|os.O_RDWR) }),
		both("create through proc self root", appears, func(dir string, _ places) error {
			return write("/proc/self/root"+dir+"/new", os.O_CREATE|os.O_WRONLY)
		}),
		both("overwrite", changed, opens(os.O_WRONLY)), both("overwrite for reading and writing", changed, opens(os.O_RDWR)),
		both("append", changed, opens(os.O_WRONLY|os.O_APPEND)), both("truncate by open", changed, opens(os.O_WRONLY|os.O_TRUNC)),
		both("truncate by path", changed, func(dir string, _ places) error { return os.Truncate(dir+"/old", 1) }),
		both("truncate by open for reading", changed, func(dir string, _ places) error {
			fd, err := unix.Open(dir+"/old", unix.O_RDONLY|unix.O_TRUNC, 0)
			return errors.Join(err, unix.Close(fd))
		}),
		both("rename out", appears, func(dir string, p places) error { return os.Rename(p.Work+"/old", dir+"/new") }),
		both("rename in", gone("old"), func(dir string, p places) error { return os.Rename(dir+"/old", p.Work+"/taken") }),
		both("exchange", changed, func(dir string, p places) error {
			err := write(p.Work+"/other", os.O_CREATE|os.O_WRONLY)
			return errors.Join(err, unix.Renameat2(unix.AT_FDCWD, p.Work+"/other", unix.AT_FDCWD, dir+"/old", unix.RENAME_EXCHANGE))
		}),
		both("link out", appears, func(dir string, p places) error { return os.Link(p.Work+"/old", dir+"/new") }),
		both("link an unnamed file out", appears, func(dir string, p places) error { return linkUnnamed(p.Work, dir+"/new") }),
		both("link an unnamed file made outside", appears, func(dir string, _ places) error { return linkUnnamed(dir, dir+"/new") }),
		both("unlink", gone("old"), func(dir string, _ places) error { return unix.Unlink(dir + "/old") }),
		both("rmdir", gone("dir"), func(dir string, _ places) error { return unix.Rmdir(dir + "/dir") }),
		both("mkdir", appears, func(dir string, _ places) error { return os.Mkdir(dir+"/new", 0o755) }),
		both("mkfifo", appears, func(dir string, _ places) error { return unix.Mkfifo(dir+"/new", 0o644) }),
		both("mknod of a file", appears, func(dir string, _ places) error { return unix.Mknod(dir+"/new", unix.S_IFREG|0o644, 0) }),
		both("symlink", appears, func(dir string, _ places) error { return os.Symlink("x", dir+"/new") }),
		both("write through a path descriptor", changed, func(dir string, _ places) error {
			fd, err := unix.Open(dir+"/old", unix.O_PATH, 0)
			return errors.Join(err, write("/proc/self/fd/"+strconv.Itoa(fd), os.O_WRONLY))
		}),
		both("store into a shared mapping", changed, func(dir string, _ places) error {
			fd, err := unix.Open(dir+"/old", unix.O_RDWR, 0)
			if err != nil {
				return err
			}
			memory, err := unix.Mmap(fd, 0, 4, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
			if err == nil {
				copy(memory, "NEW!")
			}
			return err
		}),
		{name: "exchange a directory with a link in a race", setup: stage, attack: race,
			reached: func(s *scene, _ result) bool { return exists(s.Out + "/raced") }, honest: race},
	}
	socket := both("bind a socket", appears, func(dir string, _ places) error {
		l, err := net.Listen("unix", dir+"/new")
		if err != nil {
			return err
		}
		l.(*net.UnixListener).SetUnlinkOnClose(false)
		return l.Close()
	})
	inside := socket.honest
	socket.honest = func(p places) error {
		if err := inside(p); err == nil || !errors.Is(err, unix.EPERM) {
			return err
		}
		_, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0) // base: pairs only
		return err
	}
	return append(append(append(vs, socket), leftVectors()...), sharedVectors()...)
}

// leftVectors leave something in the workspace that acts with more rights outside.
func leftVectors() []vector {
	setUID := func(s *scene, _ result) bool {
		var st unix.Stat_t
		return unix.Lstat(s.Work+"/left", &st) == nil && st.Mode&unix.S_ISUID != 0
	}
	plain := func(p places) error {
		return errors.Join(write("left", os.O_CREATE|os.O_WRONLY), os.Chmod("left", 0o755))
	}
	return []vector{
		{name: "leave a character device", rootOnly: true,
			attack: func(places) error { return unix.Mknod("left", unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))) },
			reached: func(s *scene, _ result) bool {
				var st unix.Stat_t
				return unix.Lstat(s.Work+"/left", &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFCHR
			}, honest: func(places) error { return unix.Mkfifo("left", 0o644) }},
		{name: "leave a set-user-id file by chmod", reached: setUID, honest: plain,
			attack: func(p places) error { return errors.Join(plain(p), unix.Chmod("left", 0o4755)) }},
		{name: "leave a set-user-id file by fchmodat2", reached: setUID, honest: plain,
			attack: func(p places) error {
				return errors.Join(plain(p), unix.Fchmodat(unix.AT_FDCWD, "left", 0o4755, unix.AT_SYMLINK_NOFOLLOW))
			}},
		{name: "leave a set-user-id file by open", reached: setUID, honest: plain,
			attack: func(places) error {
				fd, err := unix.Open("left", unix.O_CREAT|unix.O_WRONLY, 0o4755)
				return errors.Join(err, unix.Close(fd))
			}},
		{name: "leave a set-user-id file by mknod", reached: setUID, honest: plain,
			attack: func(places) error { return unix.Mknod("left", unix.S_IFREG|0o4755, 0) }},
	}
}

// sharedVectors make files in directories that all programs of the host share.
func sharedVectors() []vector {
	var vs []vector
	for _, shared := range []struct{ dir, what string }{
		{"/dev/shm", "shared memory"}, {"/var/tmp", "lasting temporary directory"}, {"/tmp", "temporary directory"},
	} {
		vs = append(vs, vector{name: "create in the host's " + shared.what,
			setup: func(s *scene) {
				s.Extra["new"] = shared.dir + "/sandboxd-" + s.Token
				s.Cleanup(func() { os.Remove(s.Extra["new"]) })
			},
			attack:  func(p places) error { return write(p.Extra["new"], os.O_CREATE|os.O_WRONLY) },
			reached: func(s *scene, _ result) bool { return exists(s.Extra["new"]) },
			honest:  tempWorks})
	}
	return vs
}

func appears(s *scene, _ result) bool { return exists(s.Out + "/new") }

func changed(s *scene, _ result) bool { return s.content(s.Out+"/old") != before }

func gone(name string) func(*scene, result) bool {
	return func(s *scene, _ result) bool { return !exists(s.Out + "/" + name) }
}

func write(path string, flags int) error {
	f, err := os.OpenFile(path, flags, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteString("written")
	return errors.Join(err, f.Close())
}

// linkUnnamed makes a file without a name in dir and gives it one.
func linkUnnamed(dir, name string) error {
	fd, err := unix.Open(dir, unix.O_TMPFILE|unix.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	return unix.Linkat(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", fd), unix.AT_FDCWD, name, unix.AT_SYMLINK_FOLLOW)
}

// race exchanges a directory with a link to Out while it makes a file through it.
// It is honest too: in the directory itself the file can be made.
func race(p places) error {
	if err := errors.Join(os.Mkdir("a", 0o755), os.Symlink(p.Out, "b")); err != nil {
		return err
	}
	var ended sync.WaitGroup
	stop := make(chan struct{})
	ended.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				unix.Renameat2(unix.AT_FDCWD, "a", unix.AT_FDCWD, "b", unix.RENAME_EXCHANGE)
			}
		}
	})
	made := 0
	for range 5000 {
		if f, err := os.Create("a/raced"); err == nil {
			f.Close()
			made++
		}
	}
	close(stop)
	ended.Wait()
	if made == 0 {
		return errors.New("no file could be made in the directory")
	}
	return nil
}
