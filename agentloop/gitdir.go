package agentloop

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	policypath "sandboxd/policy/path"
)

// findGit notes how the workspace's repository is laid out. A .git file is
// content that a confined command may have written, so the directory it names
// is granted only when that directory points back to this workspace, which a
// command cannot arrange outside of what it may write.
func (w *Workspace) findGit(r *resolver, c Caller) []string {
	file := join(w.Root, ".git")
	n := r.lstat(file)
	if n.err != nil || n.isLink() {
		return nil
	}
	if n.isDir() {
		w.Git = true
		return nil
	}
	named, ok := gitFileTarget(file)
	if !ok {
		return nil
	}
	if !filepath.IsAbs(named) {
		named = filepath.Join(w.Root, named)
	}
	dir, ok := r.realDir(named)
	if !ok {
		return []string{fmt.Sprintf("%s names %s, which is not there; git will not work", file, named)}
	}
	if within(dir, w.Root) {
		return nil
	}
	owner := r.lstat(dir).uid
	if owner != w.node.uid && int(owner) != c.UID {
		return []string{fmt.Sprintf("the git directory %s belongs to uid %d and is not granted", dir, owner)}
	}
	if common, ok := commonDir(r, dir, file); ok {
		w.GitDirs = []string{common}
		return nil
	}
	if moduleOf(r, dir, w.Root) {
		w.GitDirs = []string{dir}
		return nil
	}
	return []string{fmt.Sprintf("the git directory %s does not point back to this workspace and is not granted; grant it with --rw %s", dir, dir)}
}

// commonDir returns the common directory of the linked worktree whose own git
// directory is dir, if dir names file as its working tree (gitrepository-layout(5)).
func commonDir(r *resolver, dir, file string) (string, bool) {
	back, err := readSmall(join(dir, "gitdir"))
	if err != nil {
		return "", false
	}
	if real, _, err := r.resolve(absFrom(dir, strings.TrimSpace(back))); err != nil || real != file {
		return "", false
	}
	rel, err := readSmall(join(dir, "commondir"))
	if err != nil {
		return "", false
	}
	common, ok := r.realDir(absFrom(dir, strings.TrimSpace(rel)))
	if !ok || filepath.Dir(dir) != join(common, "worktrees") || !isRepository(r, common) {
		return "", false
	}
	return common, true
}

// moduleOf reports whether dir is a repository whose core.worktree is root, as
// git writes it for a submodule.
func moduleOf(r *resolver, dir, root string) bool {
	if !isRepository(r, dir) {
		return false
	}
	config, err := readSmall(join(dir, "config"))
	if err != nil {
		return false
	}
	tree := gitConfigValues(config, "core.worktree")["core.worktree"]
	if tree == "" {
		return false
	}
	real, ok := r.realDir(absFrom(dir, tree))
	return ok && real == root
}

func isRepository(r *resolver, dir string) bool {
	return r.lstat(join(dir, "HEAD")).err == nil && r.lstat(join(dir, "objects")).err == nil && r.lstat(join(dir, "refs")).err == nil
}

// gitFileTarget reads "gitdir: PATH".
func gitFileTarget(file string) (string, bool) {
	text, err := readSmall(file)
	if err != nil {
		return "", false
	}
	target, ok := strings.CutPrefix(text, "gitdir:")
	target = strings.TrimSpace(target)
	return target, ok && target != "" && !strings.ContainsAny(target, "\x00\n")
}

func absFrom(dir, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return dir + "/" + path
}

// smallFile bounds what is read of a configuration file, in bytes.
const smallFile = 256 << 10

// readSmall reads a regular file of at most smallFile bytes. It never waits on
// a FIFO or a device that someone put in its place.
func readSmall(path string) (string, error) {
	fd, err := policypath.OpenNamed(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY)
	if err != nil {
		return "", &os.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return "", &os.PathError{Op: "read", Path: path, Err: unix.EINVAL}
	}
	if st.Size > smallFile {
		return "", &os.PathError{Op: "read", Path: path, Err: unix.EFBIG}
	}
	data, err := readAll(fd, smallFile)
	return string(data), err
}

// readAll reads at most limit bytes from the start of a regular file. It works
// on the bare descriptor: an os.File costs four more system calls, and a start
// reads half a dozen such files.
func readAll(fd int, limit int64) ([]byte, error) {
	data := make([]byte, 0, min(limit, 8192))
	for int64(len(data)) < limit {
		if len(data) == cap(data) {
			data = slices.Grow(data, cap(data))
		}
		room := data[len(data):min(int64(cap(data)), limit)]
		n, err := unix.Pread(fd, room, int64(len(data)))
		if err == unix.EINTR {
			continue
		}
		if err != nil || n == 0 {
			return data, err
		}
		data = data[:len(data)+n]
	}
	return data, nil
}
