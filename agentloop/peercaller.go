package agentloop

import (
	"fmt"
	"path/filepath"
)

// ClientCaller describes a client of a daemon: who it is by the kernel's word, and
// what it says about where it stands and what its environment holds. What it says
// is opened and made with its own rights only. The warnings are those of
// [CurrentCaller].
func ClientCaller(uid, gid int, groups []int, cwd string, environ []string) (Caller, []string, error) {
	if !filepath.IsAbs(cwd) {
		return Caller{}, nil, fmt.Errorf("the directory %q is not absolute", cwd)
	}
	c := CallerOf(uid, gid, groups, environ)
	c.Cwd = filepath.Clean(cwd)
	var warnings []string
	err := AsUser(c, func() {
		if real, err := filepath.EvalSymlinks(c.Cwd); err == nil {
			c.Cwd = real
		}
		c.StateDir, warnings = c.usableDir("XDG_STATE_HOME", ".local/state", "state", warnings)
		c.CacheDir, warnings = c.usableDir("XDG_CACHE_HOME", ".cache", "cache", warnings)
	})
	return c, warnings, err
}

// ClientDir is a directory that a client names, with its links resolved as far as the
// client may see them.
func ClientDir(c Caller, dir string) (string, error) {
	dir = filepath.Clean(dir)
	err := AsUser(c, func() {
		if real, err := filepath.EvalSymlinks(dir); err == nil {
			dir = real
		}
	})
	return dir, err
}

// AsUser calls f with the rights of the caller's uid, gid and groups in the file
// system. f runs on a thread of its own and must start no goroutine that opens
// files: those would have the daemon's rights. When the rights cannot be taken on,
// f is not called.
func AsUser(c Caller, f func()) error { return withUser(c.UID, c.GID, c.Groups, f) }
