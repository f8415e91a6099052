package agentloop

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	policypath "sandboxd/policy/path"
)

// guardKept is a directory that takes what a guard moves aside, made when it is
// needed. It belongs to the run's user. It lies in the state of that user, where no
// run sees it, or in that of root's daemon, where only root can go.
type guardKept struct {
	path     string
	uid, gid int
	groups   []int
	// theirs: the directory is the user's, and is made, opened and removed with the
	// user's rights.
	theirs bool
	// instead is the place of root's for what finds none in the user's: its home is
	// missing, full or read-only, or leads elsewhere.
	instead *guardKept

	fd   int // -1 before it is needed
	used int
	copy int64 // bytes that may still be copied from another file system
}

// newKept is where a run's findings are kept.
func (j *guardJournal) newKept(stateDir string) *guardKept {
	own := &guardKept{path: filepath.Join(stateDir, "kept", j.ID), uid: j.UID, gid: j.GID, groups: j.Groups, fd: -1, copy: guardCopyBytes}
	if j.Kept == "" {
		return own
	}
	theirs := *own
	theirs.path, theirs.theirs, theirs.instead = filepath.Join(j.Kept, j.ID), true, own
	return &theirs
}

// ready makes and opens the directory, with our own rights or the user's: on another
// goroutine, since this one may be on a thread that has only the user's.
func (k *guardKept) ready() error {
	if k.fd >= 0 {
		return nil
	}
	var err error
	if inner := k.asOwner(func() { err = k.open() }); inner != nil {
		err = inner
	}
	if err != nil {
		return fmt.Errorf("no place to keep it: %w", err)
	}
	return nil
}

// asOwner calls f with the rights of whose the place is.
func (k *guardKept) asOwner(f func()) error {
	if k.theirs {
		return withUser(k.uid, k.gid, k.groups, f)
	}
	done := make(chan struct{})
	go func() { defer close(done); f() }()
	<-done
	return nil
}

func (k *guardKept) open() error {
	if k.theirs {
		if err := makeOwnDir(filepath.Dir(k.path), k.uid); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(k.path, 0o700); err != nil {
		return err
	}
	fd, err := policypath.OpenNamed(k.path, openDirFlags)
	if err != nil {
		return &os.PathError{Op: "open", Path: k.path, Err: err}
	}
	if !k.theirs && unix.Geteuid() == 0 && k.uid != 0 {
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
		_ = k.asOwner(func() { os.Remove(k.path) })
	}
	if k.instead != nil {
		k.instead.close()
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
		// What cannot be looked at is refused by whoever moves something there.
		if _, err := lstatAt(k.fd, name); err != nil {
			return name
		}
	}
}

// place makes the directory ready, or the one that is there instead of it.
func (p *guardPass) place() error {
	for {
		err := p.kept.ready()
		if err == nil || p.kept.instead == nil {
			return err
		}
		p.kept = p.kept.instead
	}
}

// keep moves what is called base in dir to where it is kept, and returns its path
// there. errCut means that it was moved, but not whole.
func (p *guardPass) keep(dir int, base string) (string, error) {
	for {
		if err := p.place(); err != nil {
			return "", err
		}
		slot := p.kept.slot(base)
		err := p.rename(dir, base, slot)
		if p.kept.instead == nil || !failedThere(dir, base, err) {
			return filepath.Join(p.kept.path, slot), err
		}
		p.kept = p.kept.instead // what was begun there stays, in the user's own space
	}
}

// failedThere reports whether moving base failed where it was to be kept, as far as
// that shows. Rights that do not suffice are those of the whole pass.
func failedThere(dir int, base string, err error) bool {
	switch {
	case err == nil, errors.Is(err, errCut), errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		return false
	case errors.Is(err, unix.ENOENT): // of base, or of the directory that was opened
		_, gone := lstatAt(dir, base)
		return gone == nil
	}
	return true
}
