package agentloop

import (
	"fmt"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"sandboxd/policy/path"
)

// judgeDir looks at one directory of the walk: does it hold a .git that is a
// file or a link, is it a git directory itself?
func (p *guardPass) judgeDir(root guardRoot, names []string, d *dirSeen) {
	if d.gitEntry == "" && !d.modulesFile && !d.isGitDir() {
		return
	}
	full := guardPath(root.path, names)
	if d.gitEntry != "" && !d.gitIsDir {
		p.judgeLink(d.fd, d.gitEntry, full)
	}
	if d.modulesFile {
		p.judgeModules(d.fd, full)
	}
	if d.isGitDir() {
		p.judgeRepo(d.fd, full)
	}
}

// judgeLink looks at a .git that is a file ("gitdir: ...") or a symbolic link.
// It may lead to what is looked at itself, and nowhere else.
func (p *guardPass) judgeLink(dir int, name, in string) {
	full := filepath.Join(in, name)
	st, err := lstatAt(dir, name)
	before := p.Items[full]
	if err != nil || p.holds(full) || !p.changedAt(st) {
		return
	}
	target, ok := "", false
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFLNK:
		target, err = readLinkAt(dir, name)
		ok = err == nil
	case unix.S_IFREG:
		text, err := readFileAt(dir, name, unix.PathMax)
		if err == nil {
			target, ok = path.GitLinkTarget(text)
		}
	default:
		return // git takes a pipe or a socket for no repository
	}
	if ok && before != nil && before.same(takeState(dir, name, newStateBudget(), 0)) {
		return
	}
	if ok {
		r := p.resolver
		r.Cwd = in
		if got, err := r.Resolve(target); err == nil && got.Inside {
			return
		}
	}
	p.moveAside(dir, name, full, "git link that leads out of the workspace", before)
}

func (p *guardPass) judgeModules(dir int, in string) {
	full := filepath.Join(in, ".gitmodules")
	st, err := lstatAt(dir, ".gitmodules")
	if err != nil || p.holds(full) || !p.changedAt(st) {
		return
	}
	before := p.Items[full]
	if st.Mode&unix.S_IFMT == unix.S_IFREG {
		text, err := readFileAt(dir, ".gitmodules", guardFileBytes)
		if err == nil && len(path.JudgeGitModules(text)) == 0 {
			return
		}
	}
	if before.same(takeState(dir, ".gitmodules", newStateBudget(), 0)) {
		return
	}
	p.moveAside(dir, ".gitmodules", full, "list of submodules that runs a command or leads out", before)
}

// judgeRepo looks at what runs programs in a git directory.
func (p *guardPass) judgeRepo(dir int, full string) {
	var st unix.Stat_t
	if unix.Fstat(dir, &st) != nil {
		return
	}
	r := repoPass{guardPass: p, dir: dir, full: full, known: p.guardJournal.Repos[full]}
	if r.known != nil && r.known.id() != (dirID{st.Dev, st.Ino}) {
		if r.known.Files != nil {
			p.add(GuardFinding{Path: full, What: "another git directory stands in place of the one before", Action: GuardLeft})
		}
		r.known = nil
		r.fresh = true
	}
	// A directory that was renamed into place keeps old content, and cannot be
	// told from one in which git worked.
	r.fresh = r.fresh || r.known == nil && p.changedAt(st)
	if full == p.Workspace && r.known == nil {
		r.fresh = true // it was no repository before
	}
	if filepath.Dir(full) == p.Workspace && filepath.Base(full) == ".git" && r.known == nil {
		r.fresh = true
	}
	failures := p.failures + p.others
	r.config("config")
	r.config("config.worktree")
	r.attributes()
	r.commondir()
	r.hooksEntry()
	r.openRebase()
	// What could not be undone must not be known as harmless next time.
	if len(p.repos) < guardIndexRepos && p.failures+p.others == failures {
		p.repos[full] = takeRepoAt(dir, nil)
	}
}

// repoPass judges one git directory.
type repoPass struct {
	*guardPass
	dir  int
	full string
	// known is what is known of it from before; nil for nothing.
	known *guardRepo
	// fresh: everything in it counts as new, whatever its change time.
	fresh bool
}

func (r *repoPass) before(name string) *fileState {
	if r.known == nil {
		return nil
	}
	return r.known.Files[name]
}

func (r *repoPass) config(name string) {
	full := filepath.Join(r.full, name)
	var accepted []path.Finding
	if r.known != nil {
		accepted = r.known.Accepted
	}
	text := r.configAt(r.dir, name, full, r.fresh, accepted, r.before(name))
	r.configured(text, r.full, guardIncludes)
}

// configAt judges one config file and returns the content that is in force
// afterwards.
func (r *repoPass) configAt(dir int, name, full string, fresh bool, accepted []path.Finding, before *fileState) []byte {
	st, err := lstatAt(dir, name)
	if err != nil {
		if before != nil && !r.holds(full) {
			r.putBack(dir, name, full, "git config was deleted", before)
		}
		return nil
	}
	if r.theirs(dir, st) && (r.holds(full) || !fresh && !r.changedAt(st)) {
		return nil
	}
	if r.foreign(dir, name, full) {
		return nil
	}
	text, err := readFileAt(dir, name, guardFileBytes)
	if r.holds(full) || !fresh && !r.changedAt(st) {
		return text
	}
	if err != nil {
		if before == nil || !before.same(takeState(dir, name, newStateBudget(), 0)) {
			r.moveAside(dir, name, full, "git config that is a link, or cannot be read", before)
		}
		return nil
	}
	harmful := func(f path.Finding) bool {
		if f.Effect == path.Relocates && strings.HasPrefix(f.Key, "core.worktree") && r.inRoots(f.Value) {
			return false
		}
		return len(path.NewFindings([]path.Finding{f}, accepted)) > 0
	}
	what := ""
	for _, f := range path.JudgeGitConfig(text) {
		if harmful(f) {
			what = fmt.Sprintf("git config: %s %s, %s", f.Key, f.Effect, f.Reason)
			break
		}
	}
	if what == "" {
		return text
	}
	// A file that the kernel held at first was replaced from outside: what else
	// is new in it may be a person's, and stays.
	if _, held := r.Held[full]; before == nil || held {
		if clean, ok := path.CleanGitConfig(text, harmful); ok {
			r.replace(dir, name, full, what, st, clean)
			return clean
		}
	}
	r.moveAside(dir, name, full, what, before)
	if before == nil {
		return nil
	}
	return before.Content
}

// inRoots reports whether a core.worktree leads to what a command may write
// anyhow; git writes such settings for submodules.
func (r *repoPass) inRoots(target string) bool {
	resolver := r.resolver
	resolver.Cwd = r.full
	got, err := resolver.Resolve(target)
	return err == nil && got.Inside
}

func (r *repoPass) attributes() {
	full := filepath.Join(r.full, "info/attributes")
	info, err := lstatAt(r.dir, "info")
	if err != nil || r.holds(full) {
		return
	}
	if info.Mode&unix.S_IFMT == unix.S_IFLNK && (r.fresh || r.changedAt(info)) {
		r.moveAside(r.dir, "info", filepath.Join(r.full, "info"), "git directory that is a link", nil)
		return
	}
	dir, base, err := openParent(r.dir, "info/attributes")
	if err != nil {
		return
	}
	defer closeParent(r.dir, dir)
	st, err := lstatAt(dir, base)
	before := r.before("info/attributes")
	if err != nil || !r.fresh && !r.changedAt(st) && !r.changedAt(info) {
		return
	}
	text, err := readFileAt(dir, base, guardFileBytes)
	if err == nil && len(path.JudgeGitAttributes(text)) == 0 || before.same(takeState(dir, base, newStateBudget(), 0)) {
		return
	}
	if before == nil && r.known != nil && !r.changedAt(st) {
		return // known from before, and old
	}
	r.moveAside(dir, base, full, "git attributes that select a filter or driver", before)
}

// commondir of a linked worktree leads to the git directory around it. Any
// other makes git take config and hooks from elsewhere.
func (r *repoPass) commondir() {
	full := filepath.Join(r.full, "commondir")
	st, err := lstatAt(r.dir, "commondir")
	if err != nil || r.holds(full) || !r.fresh && !r.changedAt(st) {
		return
	}
	before := r.before("commondir")
	if text, err := readFileAt(r.dir, "commondir", unix.PathMax); err == nil {
		target, ok := path.GitLinkTarget(text)
		if ok && !filepath.IsAbs(target) {
			target = filepath.Join(r.full, target)
		}
		if ok && filepath.Dir(r.full) == filepath.Join(target, "worktrees") {
			return
		}
		if before.same(takeState(r.dir, "commondir", newStateBudget(), 0)) {
			return
		}
	}
	r.moveAside(r.dir, "commondir", full, "commondir that leads elsewhere", before)
}
