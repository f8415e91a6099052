package agentloop

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// moveAside moves what is called base in the open directory dir into our state,
// and puts before back, if there was something. full is for the report.
func (p *guardPass) moveAside(dir int, base, full, what string, before *fileState) {
	if p.foreign(dir, base, full) {
		return
	}
	kept, err := p.keep(dir, base)
	if errors.Is(err, unix.ENOENT) {
		return // somebody else was faster
	}
	f := GuardFinding{Path: full, What: what, Action: GuardMoved, Kept: kept}
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
	err := p.place()
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
	before := stateOf(st)
	before.Content = content
	kept, err := p.keep(dir, base)
	if err != nil {
		p.deniedIf(err)
		p.fail(full, what, err)
		return
	}
	f := GuardFinding{Path: full, What: what, Action: GuardCleaned, Kept: kept}
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
