package settings

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	policypath "sandboxd/policy/path"
)

// ReadFile reads a policy file as [Load] does: a regular file of one of owners, not
// too large, that nobody else can write. It waits for no pipe in its place. The error
// is fs.ErrNotExist for a file that is not there.
func ReadFile(path string, owners []int) ([]byte, error) { return readChecked(path, owners, true) }

// lockTime is how long the lock of another program is waited for.
const lockTime = 5 * time.Second

// flock takes the lock, but does not wait for ever: its holder may have been stopped.
func flock(f *os.File) error {
	for end := time.Now().Add(lockTime); ; time.Sleep(5 * time.Millisecond) {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil || !errors.Is(err, unix.EWOULDBLOCK) || time.Now().After(end) {
			return err
		}
	}
}

// readChecked reads a policy file after checking, on the open descriptor, that
// nobody but owners can have written it. A file that is not there gives
// fs.ErrNotExist; every other fault is an *[Error], since leaving out a file
// that may deny would loosen.
//
// A link is followed only with follow: people link their own configuration from
// elsewhere, but a link in a checkout would make error messages quote the lines
// of any file.
func readChecked(path string, owners []int, follow bool) ([]byte, error) {
	flags := unix.O_RDONLY | unix.O_NONBLOCK | unix.O_NOCTTY
	if !follow {
		flags |= unix.O_NOFOLLOW
	}
	fd, err := policypath.OpenNamed(path, flags)
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR):
		return nil, fs.ErrNotExist
	case errors.Is(err, unix.ELOOP):
		return nil, &Error{File: path, Text: "refused: it is a symbolic link"}
	case err != nil:
		return nil, &Error{File: path, Text: "cannot be read: " + err.Error()}
	}
	f := os.NewFile(uintptr(fd), path)
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, &Error{File: path, Text: "cannot be read: " + err.Error()}
	}
	if problem := statProblem(st, owners); problem != "" {
		return nil, &Error{File: path, Text: "refused: " + problem}
	}
	if problem := directoryProblem(path); problem != "" {
		return nil, &Error{File: path, Text: "refused: " + problem}
	}
	data, err := io.ReadAll(io.LimitReader(f, maxFileBytes+1))
	if err != nil {
		return nil, &Error{File: path, Text: "cannot be read: " + err.Error()}
	}
	if len(data) > maxFileBytes {
		return nil, &Error{File: path, Text: fmt.Sprintf("larger than %d bytes", maxFileBytes)}
	}
	return data, nil
}

// statProblem says why a policy file with these attributes is not believed.
func statProblem(st unix.Stat_t, owners []int) string {
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return "it is not a regular file"
	case !slices.Contains(owners, int(st.Uid)):
		return fmt.Sprintf("it belongs to uid %d, not to you or root", st.Uid)
	case st.Mode&0o002 != 0:
		return "others may write it; chmod o-w it"
	case st.Mode&0o020 != 0 && st.Gid != st.Uid:
		// Many systems give each user a group of the same number and umask 002.
		return fmt.Sprintf("group %d may write it; chmod g-w it", st.Gid)
	}
	return ""
}

// directoryProblem says why a file in this directory could have been put there
// by anyone. A sticky directory such as /tmp is fine: its files cannot be
// replaced by others, and a planted one has another owner.
func directoryProblem(path string) string {
	var st unix.Stat_t
	if err := unix.Stat(filepath.Dir(path), &st); err != nil {
		return err.Error()
	}
	if st.Mode&0o002 != 0 && st.Mode&unix.S_ISVTX == 0 {
		return "others may write its directory"
	}
	return ""
}

// resolved returns path with the links of its directory resolved, so that one
// file has one name.
func resolved(path string) string {
	dir, err := filepath.EvalSymlinks(filepath.Dir(path))
	if err != nil {
		return filepath.Clean(path)
	}
	return filepath.Join(dir, filepath.Base(path))
}

// FindWorkspace returns the top of the git checkout that holds dir, else the
// nearest directory above dir with a project policy, else dir.
func FindWorkspace(dir string) string {
	for at := dir; ; at = filepath.Dir(at) {
		if _, err := os.Lstat(filepath.Join(at, ".git")); err == nil {
			return at
		}
		if at == "/" || at == "." {
			break
		}
	}
	for at := dir; at != "/" && at != "."; at = filepath.Dir(at) {
		if st, err := os.Lstat(filepath.Join(at, ProjectFile)); err == nil && st.Mode().IsRegular() {
			return at
		}
	}
	return dir
}

// isPath tells the name of a file from the name of a profile.
func isPath(s string) bool {
	return strings.ContainsRune(s, '/') || strings.HasSuffix(s, ".toml") || strings.HasSuffix(s, ".yaml") || strings.HasSuffix(s, ".yml")
}
