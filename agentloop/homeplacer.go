package agentloop

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// homePlacer makes names in a private home. Earlier commands could write there,
// so every step that changes something goes through os.Root, which no link
// leads out of. What exists in the right form costs one lstat(2).
type homePlacer struct {
	root     *os.Root
	dir      string
	uid, gid int
	chown    bool
}

// placeTries bounds how often a name is looked at again because another start of the
// same home made or removed it in between.
const placeTries = 8

// place makes s, replacing only what an earlier start made: an empty directory,
// an empty file or a link. os.ErrExist reports that something else is there.
func (p homePlacer) place(s stub) (err error) {
	for range placeTries {
		if err = p.tryPlace(s); !errors.Is(err, os.ErrExist) && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return err
}

func (p homePlacer) tryPlace(s stub) error {
	n := readNode(p.dir + "/" + s.rel)
	switch {
	case n.err != nil:
	case s.target != "" && n.isLink() && n.target == s.target:
		return nil
	case s.target == "" && n.isDir() && s.dir, s.target == "" && n.isFile() && !s.dir:
		return nil
	default:
		if err := p.clear(s.rel); err != nil {
			return err
		}
	}
	if err := p.parents(s.rel); err != nil {
		return err
	}
	switch {
	case s.target != "":
		if err := p.root.Symlink(s.target, s.rel); err != nil {
			return err
		}
	case s.dir:
		if err := p.root.Mkdir(s.rel, 0o700); err != nil {
			return err
		}
	default:
		f, err := p.root.OpenFile(s.rel, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return err
		}
		if err := f.Close(); err != nil {
			return err
		}
	}
	return p.own(s.rel)
}

// clear removes a link, an empty file or an empty directory.
func (p homePlacer) clear(rel string) error {
	info, err := p.root.Lstat(rel)
	if err != nil {
		return nil
	}
	if info.Mode().IsRegular() && info.Size() > 0 {
		return os.ErrExist
	}
	if err := p.root.Remove(rel); err != nil && !errors.Is(err, os.ErrNotExist) {
		return os.ErrExist
	}
	return nil
}

// parents makes the directories above rel.
func (p homePlacer) parents(rel string) error {
	dir := filepath.Dir(rel)
	if dir == "." || readNode(p.dir+"/"+dir).isDir() {
		return nil
	}
	made := ""
	for part := range strings.SplitSeq(dir, "/") {
		made = filepath.Join(made, part)
		err := p.root.Mkdir(made, 0o700)
		if errors.Is(err, os.ErrExist) {
			// A link of an earlier start, which showed a whole directory where
			// a part of it is shown now.
			if info, lerr := p.root.Lstat(made); lerr == nil && info.Mode()&os.ModeSymlink != 0 {
				if err = p.root.Remove(made); err == nil {
					err = p.root.Mkdir(made, 0o700)
				}
			} else if lerr == nil && info.IsDir() {
				continue
			}
		}
		if err != nil {
			return err
		}
		if err := p.own(made); err != nil {
			return err
		}
	}
	return nil
}

func (p homePlacer) own(rel string) error {
	if !p.chown {
		return nil
	}
	return p.root.Lchown(rel, p.uid, p.gid)
}

// write keeps content in rel, by a new file that takes the place of the old one.
func (p homePlacer) write(rel, content string) (err error) {
	for range placeTries {
		if err = p.tryWrite(rel, content); !errors.Is(err, os.ErrExist) && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return err
}

func (p homePlacer) tryWrite(rel, content string) error {
	if old, err := readSmall(p.dir + "/" + rel); err == nil && old == content {
		return nil
	}
	if err := p.parents(rel); err != nil {
		return err
	}
	next := rel + ".sandboxd-new"
	if err := p.root.Remove(next); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	f, err := p.root.OpenFile(next, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(content)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = p.own(next)
	}
	if err == nil {
		err = p.root.Rename(next, rel)
	}
	return err
}

func isFull(err error) bool {
	return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT)
}
