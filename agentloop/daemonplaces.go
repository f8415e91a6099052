package agentloop

import (
	"fmt"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// daemonDirs are where daemons keep state and socket: those of this host, and of
// the caller. No run needs them, so that no flag opens them either.
func (b *builder) daemonDirs() []string {
	dirs := append([]string{"/run/sandboxd", "/var/lib/sandboxd"}, b.h.Daemon...)
	if b.c.StateDir != "" {
		dirs = append(dirs, join(b.c.StateDir, "daemon"))
	}
	if dir := lookupEnv(b.c.Environ, "XDG_RUNTIME_DIR"); filepath.IsAbs(dir) {
		dirs = append(dirs, filepath.Join(dir, "sandboxd"))
	}
	return dirs
}

// noDaemon is the hint where something of a daemon is asked for.
const noDaemon = "no run needs it: sbx asks the daemon"

// daemons reports what a path, links resolved, has of a daemon: it lies in a directory
// of one, or is a socket of one by another name, as a hard link or a bind mount is.
func (b *builder) daemons(path string) error {
	for _, dir := range b.daemonDirs() {
		if real, _, err := b.r.resolve(dir); err == nil && within(path, real) {
			return fmt.Errorf("%s holds what a sandboxd remembers, or its socket, and is never granted", real)
		}
	}
	if id, ok := socketID(path); ok {
		for _, socket := range b.daemonSockets() {
			if daemon, ok := socketID(socket); ok && daemon == id {
				return fmt.Errorf("%s is the socket of a sandboxd, %s, and is never granted", path, socket)
			}
		}
	}
	return nil
}

// daemonBelow is the first place of a daemon below a directory; empty for none.
func (b *builder) daemonBelow(dir string) string {
	for _, place := range append(b.daemonDirs(), b.daemonSockets()...) {
		if real, _, err := b.r.resolve(place); err == nil && within(real, dir) {
			return real
		}
	}
	return ""
}

// daemonSockets are where sockets of daemons may be, by their usual name, by the name
// that the daemon which starts the run was given, and by that which sbx is told of.
func (b *builder) daemonSockets() []string {
	var sockets []string
	for _, place := range b.daemonDirs() {
		sockets = append(sockets, place, place+"/sandboxd.sock")
	}
	if own := lookupEnv(b.c.Environ, "SANDBOXD_SOCKET"); filepath.IsAbs(own) {
		sockets = append(sockets, own)
	}
	return sockets
}

// fileID is the same for each name of a file.
type fileID struct{ dev, ino uint64 }

// socketID is that of a socket, its links followed.
func socketID(path string) (fileID, bool) {
	var st unix.Stat_t
	if err := ignoringEINTR(func() error { return unix.Stat(path, &st) }); err != nil || st.Mode&unix.S_IFMT != unix.S_IFSOCK {
		return fileID{}, false
	}
	return fileID{st.Dev, st.Ino}, true
}
