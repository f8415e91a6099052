package agentloop

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// guardKept is the directory of our state that takes what a guard moves aside.
// It is made when it is needed. It belongs to the run's user, but lies where
// only the caller can go.
type guardKept struct {
	path     string
	uid, gid int
	fd       int // -1 before it is needed
	used     int
	copy     int64 // bytes that may still be copied from another file system
}

// ready makes and opens the directory, with our own rights: on another
// goroutine, since this one may be on a thread that has only the user's.
func (k *guardKept) ready() error {
	if k.fd >= 0 {
		return nil
	}
	done := make(chan error)
	go func() { done <- k.open() }()
	if err := <-done; err != nil {
		return fmt.Errorf("no place to keep it: %w", err)
	}
	return nil
}

func (k *guardKept) open() error {
	if err := os.MkdirAll(k.path, 0o700); err != nil {
		return err
	}
	fd, err := unix.Open(k.path, openDirFlags, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: k.path, Err: err}
	}
	if unix.Geteuid() == 0 && k.uid != 0 {
		if err := unix.Fchown(fd, k.uid, k.gid); err != nil {
			unix.Close(fd)
			return &os.PathError{Op: "chown", Path: k.path, Err: err}
		}
	}
	// After a crash there may be things already.
	names, _ := entryNames(fd, 1<<20)
	k.fd, k.used = fd, len(names)
	return nil
}

// close removes the directory if nothing was kept.
func (k *guardKept) close() {
	if k.fd >= 0 {
		unix.Close(k.fd)
		os.Remove(k.path)
	}
}

// slot is a name in the directory that is not taken, with the old name in it
// for people.
func (k *guardKept) slot(base string) string {
	if len(base) > 100 {
		base = base[:100]
	}
	base = strings.Map(func(c rune) rune {
		if c < 0x20 || c == 0x7f || c == 0xfffd {
			return '_'
		}
		return c
	}, base)
	for {
		k.used++
		name := fmt.Sprintf("%04d-%s", k.used, base)
		if _, err := lstatAt(k.fd, name); errors.Is(err, unix.ENOENT) {
			return name
		}
	}
}

// moveAside moves what is called base in the open directory dir into our state,
// and puts before back, if there was something. full is for the report.
func (p *guardPass) moveAside(dir int, base, full, what string, before *fileState) {
	if p.foreign(dir, base, full) {
		return
	}
	if err := p.kept.ready(); err != nil {
		p.fail(full, what, err)
		return
	}
	slot := p.kept.slot(base)
	err := p.rename(dir, base, slot)
	if errors.Is(err, unix.ENOENT) {
		return // somebody else was faster
	}
	f := GuardFinding{Path: full, What: what, Action: GuardMoved, Kept: filepath.Join(p.kept.path, slot)}
	if err != nil && !errors.Is(err, errCut) {
		p.deniedIf(err)
		p.fail(full, what, err)
		return
	}
	if err != nil {
		f.Error = err.Error()
	}
	if before != nil {
		f.Action = GuardRestored
		if err := forceEntry(dir, func() error { return p.recreate(dir, base, before) }); err != nil {
			p.deniedIf(err)
			f.Action, f.Error = GuardMoved, "what was there before could not be put back: "+err.Error()
		}
	}
	p.add(f)
}

// putBack restores what the run deleted.
func (p *guardPass) putBack(dir int, base, full, what string, before *fileState) {
	if p.foreign(dir, base, full) {
		return
	}
	err := p.kept.ready()
	if err == nil {
		err = forceEntry(dir, func() error { return p.recreate(dir, base, before) })
	}
	if err != nil {
		p.deniedIf(err)
		p.fail(full, what, err)
		return
	}
	p.add(GuardFinding{Path: full, What: what, Action: GuardRestored})
}

// replace puts content in place of a file, and keeps the file.
func (p *guardPass) replace(dir int, base, full, what string, st unix.Stat_t, content []byte) {
	if p.foreign(dir, base, full) {
		return
	}
	if err := p.kept.ready(); err != nil {
		p.fail(full, what, err)
		return
	}
	before := stateOf(st)
	before.Content = content
	slot := p.kept.slot(base)
	if err := p.rename(dir, base, slot); err != nil {
		p.deniedIf(err)
		p.fail(full, what, err)
		return
	}
	f := GuardFinding{Path: full, What: what, Action: GuardCleaned, Kept: filepath.Join(p.kept.path, slot)}
	if err := forceEntry(dir, func() error { return p.recreate(dir, base, before) }); err != nil {
		p.deniedIf(err)
		f.Action, f.Error = GuardMoved, "the rest of the file could not be put back: "+err.Error()
	}
	p.add(f)
}

// rename moves a name into the kept directory.
func (p *guardPass) rename(dir int, base, slot string) error {
	return forceEntry(dir, func() error {
		err := p.renameOnce(dir, base, slot)
		if !errors.Is(err, unix.EACCES) {
			return err
		}
		// A directory that gets another parent must be writable itself.
		handle, openErr := unix.Openat(dir, base, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if openErr != nil {
			return err
		}
		defer unix.Close(handle)
		var st unix.Stat_t
		if unix.Fstat(handle, &st) != nil || chmodHandle(handle, st.Mode&0o7777|0o700) != nil {
			return err
		}
		return p.renameOnce(dir, base, slot)
	})
}

// forceEntry calls change, which changes entries of dir, and if the mode of dir
// forbids that, calls it again with another mode: a command can set a mode to
// keep what it left from being undone.
func forceEntry(dir int, change func() error) error {
	err := change()
	if !errors.Is(err, unix.EACCES) {
		return err
	}
	var st unix.Stat_t
	if unix.Fstat(dir, &st) != nil || st.Mode&0o300 == 0o300 {
		return err
	}
	if unix.Fchmod(dir, st.Mode&0o7777|0o700) != nil {
		return err
	}
	defer unix.Fchmod(dir, st.Mode&0o7777)
	return change()
}

func (p *guardPass) renameOnce(dir int, base, slot string) error {
	err := unix.Renameat2(dir, base, p.kept.fd, slot, unix.RENAME_NOREPLACE)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) {
		err = unix.Renameat(dir, base, p.kept.fd, slot)
	}
	if errors.Is(err, unix.EXDEV) {
		return p.copyAside(dir, base, slot)
	}
	return err
}

// recreate makes a file, link or directory as it was. A file is written in our
// state and renamed, so that it is whole or not there.
func (p *guardPass) recreate(dir int, base string, s *fileState) error {
	if s.Large {
		return errors.New("too large to be kept from before")
	}
	switch s.kind() {
	case unix.S_IFREG:
		return p.recreateFile(dir, base, s)
	case unix.S_IFLNK:
		return unix.Symlinkat(string(s.Content), dir, base)
	case unix.S_IFDIR:
		if err := unix.Mkdirat(dir, base, 0o700); err != nil {
			return err
		}
		fd, err := openDirAt(dir, base)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		for name, child := range s.Children {
			if err := p.recreate(fd, name, child); err != nil {
				return err
			}
		}
		return setGuardMode(fd, s)
	}
	return nil
}

func (p *guardPass) recreateFile(dir int, base string, s *fileState) error {
	for _, at := range []int{p.kept.fd, dir} {
		temp := p.kept.slot("restore")
		if at == dir {
			temp = ".sandboxd-restore-" + p.ID
		}
		fd, err := unix.Openat(at, temp, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
		if err != nil {
			return err
		}
		f := os.NewFile(uintptr(fd), temp)
		_, err = f.Write(s.Content)
		if err == nil {
			err = setGuardMode(fd, s)
		}
		f.Close()
		if err == nil {
			err = unix.Renameat2(at, temp, dir, base, unix.RENAME_NOREPLACE)
		}
		if err == nil {
			return nil
		}
		unix.Unlinkat(at, temp, 0)
		if !errors.Is(err, unix.EXDEV) {
			return err
		}
	}
	return unix.EXDEV
}

// setGuardMode sets owner and mode, without set-id bits. The owner is set where we
// have the right to; the run's user makes files of his own anyhow.
func setGuardMode(fd int, s *fileState) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Uid != s.UID || st.Gid != s.GID {
		if err := unix.Fchown(fd, int(s.UID), int(s.GID)); err != nil && !errors.Is(err, unix.EPERM) {
			return err
		}
	}
	return unix.Fchmod(fd, s.Mode&0o1777)
}
