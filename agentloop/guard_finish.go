package agentloop

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"sandboxd/policy/path"
)

// complete looks at the workspace, undoes, and removes the journal file.
func (j *guardJournal) complete(stateDir, file string) ([]GuardFinding, error) {
	kept := j.newKept(stateDir)
	defer kept.close()
	if !j.samePlace() {
		// The workspace itself was moved or replaced, which a command in it
		// cannot do: what stands there now is not what the run worked in.
		os.Remove(file)
		return []GuardFinding{{Path: j.Workspace, What: "the workspace was replaced during the run; it was not looked at", Action: GuardLeft}}, nil
	}
	pass := &guardPass{guardJournal: j, kept: kept, from: j.since(), repos: map[string]*guardRepo{},
		dirs: map[string]*dirIndex{}, records: map[string]*dirRecord{}}
	for _, root := range j.Roots {
		pass.dirs[root] = readDirIndex(dirIndexFile(stateDir, root))
	}
	if err := withUser(j.UID, j.GID, j.Groups, pass.run); err != nil {
		return nil, fmt.Errorf("guard of %s: %w", j.Workspace, err)
	}
	if pass.denied && unix.Geteuid() == 0 && j.UID != 0 {
		// The user's rights do not suffice. With our own, by single names beneath
		// open directories, through no link, and only on what is the user's.
		pass.retry()
		pass.asRoot = true
		if pass.kept.instead != nil {
			pass.kept = pass.kept.instead // with root's rights nothing is done in the user's
		}
		pass.run()
	}
	if pass.err != nil {
		return pass.findings, fmt.Errorf("guard of %s: %w", j.Workspace, pass.err)
	}
	j.remember(stateDir, pass.repos)
	pass.rememberDirs(stateDir)
	os.Remove(file)
	return pass.report(), nil
}

func (j *guardJournal) samePlace() bool {
	var st unix.Stat_t
	return unix.Lstat(j.Workspace, &st) == nil && st.Dev == j.Dev && st.Ino == j.Ino
}

// remember writes the index of repositories for the next run. A failure costs
// only that a repository is not known then.
func (j *guardJournal) remember(stateDir string, repos map[string]*guardRepo) {
	for dir := range repos {
		// The workspace's own is looked up at every start anyhow.
		if !within(dir, j.Workspace) || j.Repos[dir] != nil && j.Repos[dir].Files != nil {
			delete(repos, dir)
		}
	}
	if len(repos) == 0 {
		os.Remove(repoIndexFile(stateDir, j.Workspace))
		return
	}
	_ = writeRepoIndex(stateDir, j.Workspace, repos)
}

// rememberDirs writes what was seen of the directories for the next walk, which
// is slower without it.
func (p *guardPass) rememberDirs(stateDir string) {
	for root, r := range p.records {
		file := dirIndexFile(stateDir, root)
		switch {
		case r.off || len(r.nodes) < dirIndexMin:
			if p.dirs[root] != nil {
				os.Remove(file)
			}
		case r.changed:
			_ = writeAside(file, r.encode())
		}
	}
}

// guardPass is one look at the workspace after a run.
type guardPass struct {
	*guardJournal
	kept *guardKept
	// from is the change time from which on a file counts as changed.
	from     int64
	roots    []guardRoot
	resolver path.Resolver
	findings []GuardFinding
	more     int // findings beyond maxGuardFindings
	failures int
	denied   bool // something failed for lack of rights
	asRoot   bool // with the daemon's rights, not the user's; see [guardPass.foreign]
	others   int  // findings that were left to whom they belong
	err      error
	repos    map[string]*guardRepo
	// seen are the included configs and configured hooks that were judged, and
	// whether as new as a whole.
	seen map[string]bool
	// dirs are the directories as an earlier walk saw them, records as this one
	// does, by root.
	dirs    map[string]*dirIndex
	records map[string]*dirRecord
}

type guardRoot struct {
	path string
	fd   int
}

func (p *guardPass) run() {
	p.seen = map[string]bool{}
	for _, name := range p.Roots {
		fd, err := unix.Open(name, openDirFlags, 0)
		if err != nil {
			if name == p.Workspace {
				p.deniedIf(err)
				p.fail(name, "it could not be looked at", err)
			}
			continue
		}
		defer unix.Close(fd)
		p.roots = append(p.roots, guardRoot{name, fd})
	}
	p.resolver = path.Resolver{Roots: p.Roots}
	if len(p.roots) == 0 {
		return
	}
	if p.roots[0].path == p.Workspace {
		p.settings(p.roots[0].fd)
	}
	for _, root := range p.roots {
		walk := &dirWalk{
			uid:    p.UID,
			before: p.dirs[root.path],
			visit:  func(names []string, d *dirSeen) { p.judgeDir(root, names, d) },
			blind: func(names []string, err error) {
				p.deniedIf(err)
				p.fail(guardPath(root.path, names), "it could not be looked at", err)
			},
		}
		p.records[root.path] = &walk.record
		if !walk.run(root.fd) {
			walk.record.off = true
			p.fail(root.path, fmt.Sprintf("only the first %d directories were looked at", guardMaxDirs), nil)
		}
	}
}

// retry forgets the failures of a pass, which the next one meets again.
func (p *guardPass) retry() {
	p.findings = slices.DeleteFunc(p.findings, func(f GuardFinding) bool { return f.Action == GuardFailed })
	p.more, p.failures, p.denied, p.roots, p.err = p.more-min(p.more, p.failures), 0, false, nil, nil
}

// changedAt reports whether the run may have changed what has this status. File
// systems that keep whole seconds give a stamp before the true time.
func (p *guardPass) changedAt(st unix.Stat_t) bool {
	when := st.Ctim.Nano()
	if st.Ctim.Nsec == 0 {
		return when >= p.from-p.from%1e9
	}
	return when >= p.from
}

func (p *guardPass) add(f GuardFinding) {
	if f.Action == GuardFailed {
		p.failures++
	}
	if len(p.findings) >= maxGuardFindings {
		p.more++
		return
	}
	p.findings = append(p.findings, f)
}

func (p *guardPass) fail(full, what string, err error) {
	f := GuardFinding{Path: full, What: what, Action: GuardFailed}
	if err != nil {
		f.Error = err.Error()
	}
	p.add(f)
}

func (p *guardPass) deniedIf(err error) {
	if errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) {
		p.denied = true
	}
}

func (p *guardPass) report() []GuardFinding {
	if p.more > 0 {
		p.findings = append(p.findings, GuardFinding{Path: p.Workspace, What: fmt.Sprintf("%d more like these", p.more), Action: GuardLeft})
	}
	return p.findings
}

func guardPath(root string, names []string) string {
	if len(names) > 200 {
		return filepath.Join(root, filepath.Join(names[:100]...), "...", filepath.Join(names[len(names)-100:]...))
	}
	return filepath.Join(root, filepath.Join(names...))
}

// settings compares the protected names at the top with what they were.
func (p *guardPass) settings(root int) {
	top := listTop(root)
	for _, e := range protectedAtTop() {
		full := filepath.Join(p.Workspace, e.Pattern)
		if e.Kind == path.GitModules || p.Items[full] == nil && top.lacks(e.Pattern) || p.holds(full) {
			continue // .gitmodules is judged by content, like those below
		}
		dir, base, err := openParent(root, e.Pattern)
		if err != nil {
			continue
		}
		now := takeState(dir, base, newStateBudget(), 0)
		p.setting(dir, base, full, e, p.Items[full], now)
		closeParent(root, dir)
	}
}

// setting undoes one change of a settings name: what is new is moved aside, what
// was changed is restored. What was deleted is restored where its absence
// permits more than its presence: a policy, an agent's permissions.
func (p *guardPass) setting(dir int, base, full string, e path.Entry, before, now *fileState) {
	what := e.Kind.String()
	switch {
	case before.same(now):
	case before == nil:
		p.moveAside(dir, base, full, what+" appeared", nil)
	case now == nil:
		if e.Kind == path.OwnPolicy || e.Kind == path.AgentSettings {
			p.putBack(dir, base, full, what+" was deleted", before)
		}
	case before.kind() == unix.S_IFDIR && now.kind() == unix.S_IFDIR && before.Ino == now.Ino:
		p.settingsDir(dir, base, full, e, before, now)
	default:
		p.moveAside(dir, base, full, what+" was changed", before)
	}
}

func (p *guardPass) settingsDir(dir int, base, full string, e path.Entry, before, now *fileState) {
	if p.foreign(dir, base, full) {
		return
	}
	fd, err := openDirAt(dir, base)
	if err != nil {
		p.deniedIf(err)
		p.fail(full, e.Kind.String()+" could not be looked at", err)
		return
	}
	defer unix.Close(fd)
	names, whole := entryNames(fd, guardMaxSettings)
	if !whole {
		p.fail(full, fmt.Sprintf("%s: only the first %d names were looked at", e.Kind, guardMaxSettings), nil)
	}
	for name := range before.Children {
		if now.Children[name] == nil {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		was, is := before.Children[name], now.Children[name]
		if was == nil && before.Large && is != nil && is.Ctime < p.from {
			continue // too many to note at the start, and old
		}
		if is == nil {
			is = takeState(fd, name, newStateBudget(), guardItemDepth)
		}
		p.setting(fd, name, filepath.Join(full, name), e, was, is)
	}
	if st, err := lstatAt(dir, base); err == nil && st.Mode != before.Mode && (!p.asRoot || int(st.Uid) == p.UID) {
		p.deniedIf(unix.Fchmod(fd, before.Mode&0o1777))
	}
}

// guardMaxSettings bounds how many names of one settings directory are judged.
const guardMaxSettings = 100_000
