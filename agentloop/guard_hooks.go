package agentloop

import (
	"fmt"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"sandboxd/policy/path"
)

func (r *repoPass) hooksEntry() {
	full := filepath.Join(r.full, "hooks")
	if r.holds(full) {
		return
	}
	before := r.before("hooks")
	st, err := lstatAt(r.dir, "hooks")
	if err != nil {
		return
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		if (r.fresh || r.changedAt(st)) && (before == nil || before.kind() != st.Mode&unix.S_IFMT || !before.same(takeState(r.dir, "hooks", newStateBudget(), 0))) {
			r.moveAside(r.dir, "hooks", full, "git hooks: no directory", before)
		}
		return
	}
	fd, err := openDirAt(r.dir, "hooks")
	mode, shut := uint32(0), false
	if err != nil {
		if fd, mode, shut, err = openShut(r.dir, "hooks", r.UID); err != nil {
			r.deniedIf(err)
			r.fail(full, "git hooks could not be looked at", err)
			return
		}
	}
	defer unix.Close(fd)
	if shut {
		defer unix.Fchmod(fd, mode)
	}
	same := r.known != nil && r.known.HooksDev == st.Dev && r.known.HooksIno == st.Ino
	r.hooks(fd, full, r.fresh || !same && r.changedAt(st), before)
	if before != nil && same {
		r.missingHooks(fd, full, before)
	}
}

// hooks moves aside what is new or changed in a hooks directory and would be
// started.
func (r *repoPass) hooks(fd int, full string, fresh bool, before *fileState) {
	names, whole := entryNames(fd, guardMaxSettings)
	if !whole {
		r.fail(full, fmt.Sprintf("git hooks: only the first %d names were looked at", guardMaxSettings), nil)
	}
	for _, name := range names {
		if strings.HasSuffix(name, ".sample") {
			continue
		}
		st, err := lstatAt(fd, name)
		kind := st.Mode & unix.S_IFMT
		if err != nil || kind != unix.S_IFREG && kind != unix.S_IFLNK || !fresh && !r.changedAt(st) {
			continue
		}
		if !path.IsGitHook(name, kind == unix.S_IFLNK || st.Mode&0o111 != 0) {
			continue
		}
		was := before.child(name)
		if was != nil && was.same(takeState(fd, name, newStateBudget(), 0)) {
			continue
		}
		r.moveAside(fd, name, filepath.Join(full, name), "git hook", was)
	}
}

func (r *repoPass) missingHooks(fd int, full string, before *fileState) {
	for name, was := range before.Children {
		if _, err := lstatAt(fd, name); err == unix.ENOENT && was.kind() != unix.S_IFDIR && path.IsGitHook(name, was.Mode&0o111 != 0) {
			r.putBack(fd, name, filepath.Join(full, name), "git hook was deleted", was)
		}
	}
}

func (s *fileState) child(name string) *fileState {
	if s == nil {
		return nil
	}
	return s.Children[name]
}

// openRebase reports a rebase in progress that will run commands when it goes on. An
// honest "rebase --exec" leaves one too, so it is not undone.
func (r *repoPass) openRebase() {
	dir, base, err := openParent(r.dir, "rebase-merge/git-rebase-todo")
	if err != nil {
		return
	}
	defer closeParent(r.dir, dir)
	st, err := lstatAt(dir, base)
	if err != nil || !r.fresh && !r.changedAt(st) {
		return
	}
	text, _ := readFileAt(dir, base, guardFileBytes)
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) > 1 && (fields[0] == "exec" || fields[0] == "x") {
			r.add(GuardFinding{Path: filepath.Join(r.full, "rebase-merge/git-rebase-todo"), What: "a rebase in progress will run a command", Action: GuardLeft})
			return
		}
	}
}
