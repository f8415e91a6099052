package main

import (
	"time"

	"golang.org/x/sys/unix"

	"sandboxd/policy/settings"
)

// stamp tells one content of a file from another, as far as stat(2) does.
type stamp struct {
	dev, inode, size uint64
	mtime, ctime     int64
	there, broken    bool
}

func stampOf(path string) stamp {
	var st unix.Stat_t
	switch err := unix.Stat(path, &st); err {
	case nil:
		return stamp{dev: st.Dev, inode: st.Ino, size: uint64(st.Size), mtime: st.Mtim.Nano(), ctime: st.Ctim.Nano(), there: true}
	case unix.ENOENT, unix.ENOTDIR:
		return stamp{}
	}
	return stamp{broken: true}
}

// sameTick is how far apart two changes can be that get one time: a jiffy of the
// slowest kernel.
const sameTick = 10 * time.Millisecond

// watchFiles returns what tells that a file of e, which was read from began on, is
// not what it was. The files are those of one session, some ten at most, and are
// forgotten with it: there is no table that one user could fill for others.
func watchFiles(e *settings.Effective, environ []string, began time.Time) (changed func() bool, bytes int64) {
	stamps := map[string]stamp{}
	unsure := false
	note := func(path string) stamp {
		s := stampOf(path)
		stamps[path] = s
		bytes += int64(s.size)
		// Changed while it was read, or so shortly before that another change shows
		// in no stamp.
		age := began.UnixNano() - s.ctime
		unsure = unsure || s.broken || s.there && age < int64(sameTick) && age > -int64(time.Minute)
		return s
	}
	for _, f := range e.Files {
		if s := note(f.Path); s.there != f.Found {
			unsure = true
		}
	}
	if dir := settings.StateDir(environ); dir != "" {
		note(settings.TrustFile(dir))
	}
	return func() bool {
		if unsure {
			return true
		}
		for path, old := range stamps {
			if stampOf(path) != old {
				return true
			}
		}
		return false
	}, bytes
}
