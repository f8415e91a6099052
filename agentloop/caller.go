package agentloop

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Caller is who asks for a run: where they stand, what their environment holds
// and where their private state lives. Nothing else of the process is read by
// [Build], so that a daemon can build for its clients.
type Caller struct {
	Cwd     string
	Environ []string
	UID     int
	GID     int
	Groups  []int
	// Home is the caller's home directory as named ("/home/u"), which may be a
	// symbolic link. Empty means that there is none.
	Home string
	// ConfigDir, StateDir and CacheDir are ours alone. StateDir and CacheDir
	// are empty when no private directory could be had. They need not exist.
	ConfigDir, StateDir, CacheDir string
}

// CurrentCaller describes this process. HOME counts before the passwd file, as
// shells have it; a uid without an entry is fine. The warnings say where a
// directory of ours had to move.
func CurrentCaller(environ []string) (Caller, []string) {
	c := Caller{Environ: environ, UID: os.Geteuid(), GID: os.Getegid()}
	c.Groups, _ = os.Getgroups()
	c.Cwd, _ = os.Getwd()
	if real, err := filepath.EvalSymlinks(c.Cwd); err == nil {
		c.Cwd = real // os.Getwd prefers $PWD, which may be a link's name
	}
	c.Home = lookupEnv(environ, "HOME")
	if c.Home == "" {
		if a, ok := accountOf(c.UID); ok {
			c.Home = a.home
		}
	}
	if !filepath.IsAbs(c.Home) {
		c.Home = ""
	}
	var warnings []string
	c.ConfigDir = ownDir(environ, "XDG_CONFIG_HOME", c.Home, ".config")
	c.StateDir, warnings = c.usableDir("XDG_STATE_HOME", ".local/state", "state", warnings)
	c.CacheDir, warnings = c.usableDir("XDG_CACHE_HOME", ".cache", "cache", warnings)
	return c, warnings
}

// CallerOf describes another process's user from what the kernel and the client
// say. The directories are only named: who uses them makes them with the rights
// of that user. Cwd is left to the caller.
func CallerOf(uid, gid int, groups []int, environ []string) Caller {
	c := Caller{Environ: environ, UID: uid, GID: gid, Groups: groups}
	c.Home = lookupEnv(environ, "HOME")
	if c.Home == "" {
		if a, ok := accountOf(uid); ok {
			c.Home = a.home
		}
	}
	if !filepath.IsAbs(c.Home) {
		c.Home = ""
	}
	c.ConfigDir = ownDir(environ, "XDG_CONFIG_HOME", c.Home, ".config")
	c.StateDir = ownDir(environ, "XDG_STATE_HOME", c.Home, ".local/state")
	c.CacheDir = ownDir(environ, "XDG_CACHE_HOME", c.Home, ".cache")
	return c
}

// ownDir names our directory below an XDG base. Relative XDG values are
// ignored, as their specification asks.
func ownDir(environ []string, variable, home, fallback string) string {
	if base := lookupEnv(environ, variable); filepath.IsAbs(base) {
		return filepath.Join(base, "sandboxd")
	}
	if home == "" || home == "/" {
		return ""
	}
	return filepath.Join(home, fallback, "sandboxd")
}

// usableDir makes our directory of one kind, or falls back to a private
// directory per uid under /tmp. Empty when neither works.
func (c Caller) usableDir(variable, fallback, kind string, warnings []string) (string, []string) {
	dir := ownDir(c.Environ, variable, c.Home, fallback)
	err := fmt.Errorf("no home directory")
	if dir != "" {
		real := c.realPlace(dir)
		if c.inWork(real) {
			// The workspace is refused for it, or another one is named and who writes
			// there first makes it: nothing of ours is made in a tree before.
			return real, warnings
		}
		if n := readNode(c.Home); n.err != nil && within(dir, c.Home) && c.Home != "" {
			err = fmt.Errorf("the home directory %s is missing", c.Home) // not ours to make
		} else if withinAny(real, systemTrees) && !withinAny(real, sourceTrees) {
			err = fmt.Errorf("%s lies in a system directory", dir)
		} else if err = makeOwnDir(dir, c.UID); err == nil {
			return dir, warnings
		}
	}
	instead := "/tmp/sandboxd-" + strconv.Itoa(c.UID)
	if makeOwnDir(instead, c.UID) == nil {
		if sub := instead + "/" + kind; makeOwnDir(sub, c.UID) == nil {
			return sub, append(warnings, fmt.Sprintf("%s is kept in %s: %v", kind, sub, err))
		}
	}
	return "", append(warnings, fmt.Sprintf("no private directory for %s: %v", kind, err))
}

// realPlace resolves as much of dir as exists.
func (c Caller) realPlace(dir string) string {
	r, rest := newResolver(0), ""
	for up := filepath.Clean(dir); up != "/"; up = parent(up) {
		if real, _, err := r.resolve(up); err == nil {
			return filepath.Join(real, rest)
		}
		rest = filepath.Join(filepath.Base(up), rest)
	}
	return filepath.Clean(dir)
}

// inWork reports whether dir lies in what is the workspace when none is named.
func (c Caller) inWork(dir string) bool {
	if !filepath.IsAbs(c.Cwd) {
		return false
	}
	r := newResolver(0)
	top := orElse(checkoutTop(r, c.Cwd, c), c.Cwd)
	if home, ok := r.realDir(c.Home); ok && within(home, top) {
		return false // no workspace: the home, or above it
	}
	return top != "/" && within(dir, top)
}

// makeOwnDir makes dir (0700 with its parents) where it is missing, and checks
// that it is a directory of uid which no one else can write. A directory of
// root's that others may enter is accepted, since runs as other users need it.
func makeOwnDir(dir string, uid int) error {
	if n := readNode(dir); n.err != nil {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
	}
	return checkOwnDir(dir, uid)
}

func checkOwnDir(dir string, uid int) error {
	n := readNode(dir)
	switch {
	case n.err != nil:
		return &os.PathError{Op: "lstat", Path: dir, Err: n.err}
	case !n.isDir():
		return fmt.Errorf("%s is not a directory", dir)
	case int(n.uid) != uid:
		return fmt.Errorf("%s belongs to uid %d, not %d", dir, n.uid, uid)
	case n.mode&0o022 != 0:
		return fmt.Errorf("%s can be written by others (mode %04o)", dir, n.mode&0o7777)
	}
	if err := mayWrite(dir, n); err != nil {
		return &os.PathError{Op: "access", Path: dir, Err: err}
	}
	return nil
}

// mayWrite reports whether new files can be made in a directory of the user that this
// thread has the file rights of. access(2) would ask for the rights of the process's
// real uid. Where faccessat2(2), of Linux 5.8, is missing or forbidden the owner's
// bits tell: what they do not know, as a file system that is read-only, is found by
// whoever writes.
func mayWrite(dir string, n node) error {
	err := unix.Faccessat2(unix.AT_FDCWD, dir, unix.W_OK|unix.X_OK, unix.AT_EACCESS)
	if err != unix.ENOSYS && err != unix.EPERM {
		return err
	}
	if n.mode&0o300 != 0o300 && n.uid != 0 {
		return unix.EACCES
	}
	return nil
}

// lookupEnv returns the last value of name in environ, as execve(2) callers
// that append expect.
func lookupEnv(environ []string, name string) string {
	for i := len(environ) - 1; i >= 0; i-- {
		if v, ok := strings.CutPrefix(environ[i], name); ok && strings.HasPrefix(v, "=") {
			return v[1:]
		}
	}
	return ""
}
