package main

import (
	"crypto/rand"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// makeStateDir makes the daemon's own directory, which nobody else may enter.
func makeStateDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	var st unix.Stat_t
	if err := unix.Lstat(dir, &st); err != nil {
		return &os.PathError{Op: "lstat", Path: dir, Err: err}
	}
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFDIR:
		return misuse("name a directory", "%s is not a directory", dir)
	case int(st.Uid) != os.Geteuid():
		return misuse("", "%s belongs to uid %d, not %d", dir, st.Uid, os.Geteuid())
	case st.Mode&0o077 != 0:
		return misuse("chmod 700 "+dir, "%s is open to others (mode %04o)", dir, st.Mode&0o7777)
	}
	return nil
}

// minToken is the shortest token that is accepted: 128 bits in hexadecimal.
const minToken = 26

// readToken reads the token for TCP or another secret of ours, and makes one where
// there is none.
func readToken(path string) (string, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err == unix.ENOENT {
		return makeToken(path)
	}
	if err != nil {
		return "", &os.PathError{Op: "open", Path: path, Err: err}
	}
	f := os.NewFile(uintptr(fd), path)
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return "", err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG || int(st.Uid) != os.Geteuid() || st.Mode&0o077 != 0 {
		return "", misuse("chmod 600 "+path, "the file %s is not a file of ours alone (uid %d, mode %04o)", path, st.Uid, st.Mode&0o7777)
	}
	text := make([]byte, 4096)
	n, _ := f.Read(text)
	token := strings.TrimSpace(string(text[:n]))
	if len(token) < minToken {
		return "", misuse("remove it, and one is made", "what is in %s is shorter than %d characters", path, minToken)
	}
	return token, nil
}

// makeToken makes the file as a whole: one that was cut off by a kill would keep each
// later daemon from starting.
func makeToken(path string) (string, error) {
	token := rand.Text()
	part := path + ".new"
	if err := os.WriteFile(part, []byte(token+"\n"), 0o600); err != nil {
		return "", err
	}
	return token, os.Rename(part, path)
}
