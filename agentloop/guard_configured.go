package agentloop

import (
	"path/filepath"

	"golang.org/x/sys/unix"

	"sandboxd/policy/path"
)

// guardIncludes is how deep included configs may include others, as in git.
const guardIncludes = 10

// takeConfigured notes which files and directories the configs of known
// repositories name. Another one in its place counts as new as a whole: when a
// directory above it is renamed, no change time tells of it.
func (j *guardJournal) takeConfigured() {
	j.Configured = map[string]dirID{}
	resolver := path.Resolver{Roots: j.Roots}
	for dir := range j.Repos {
		for _, name := range []string{"config", "config.worktree"} {
			if text, err := readFileAt(unix.AT_FDCWD, filepath.Join(dir, name), guardFileBytes); err == nil {
				j.noteConfigured(resolver, dir, dir, text, guardIncludes)
			}
		}
	}
}

func (j *guardJournal) noteConfigured(resolver path.Resolver, repo, from string, text []byte, depth int) {
	for _, target := range path.ConfiguredPaths(text) {
		got, ok := configuredTarget(resolver, repo, from, target)
		if _, noted := j.Configured[got.Abs]; !ok || noted {
			continue
		}
		st, err := lstatAt(unix.AT_FDCWD, got.Abs)
		if err != nil {
			continue
		}
		j.Configured[got.Abs] = dirID{st.Dev, st.Ino}
		if target.Entry.Kind != path.GitConfig || depth == 0 {
			continue
		}
		if more, err := readFileAt(unix.AT_FDCWD, got.Abs, guardFileBytes); err == nil {
			j.noteConfigured(resolver, repo, filepath.Dir(got.Abs), more, depth-1)
		}
	}
}

// configuredTarget is where a path leads that a config in the directory from
// names, and whether that is something of the workspace.
func configuredTarget(resolver path.Resolver, repo, from string, target path.Name) (path.Resolved, bool) {
	resolver.Cwd = from
	if target.Entry.Kind == path.GitHooks {
		resolver.Cwd = filepath.Dir(repo)
	}
	got, err := resolver.Resolve(target.Path)
	return got, err == nil && got.Inside && !got.Missing
}

// configured looks at the hooks directory and the files that a config in from
// names, where they lie in the workspace.
func (r *repoPass) configured(text []byte, from string, depth int) {
	for _, target := range path.ConfiguredPaths(text) {
		got, ok := configuredTarget(r.resolver, r.full, from, target)
		if !ok || r.holds(got.Abs) {
			continue
		}
		fresh := r.replaced(got.Abs)
		if asFresh, judged := r.seen[got.Abs]; judged && (asFresh || !fresh) {
			continue
		}
		r.seen[got.Abs] = fresh
		if more := r.configuredAt(got, target.Entry.Kind, fresh); depth > 0 {
			r.configured(more, filepath.Dir(got.Abs), depth-1)
		}
	}
}

// replaced reports whether something else stands where a config led before the
// run. Of a repository that was not known nothing was noted.
func (r *repoPass) replaced(abs string) bool {
	st, err := lstatAt(unix.AT_FDCWD, abs)
	was, noted := r.Configured[abs]
	return r.fresh || err == nil && noted && was != dirID{st.Dev, st.Ino} || !noted && r.known != nil && r.Configured != nil
}

// configuredAt judges one of them, and returns the content of a config.
func (r *repoPass) configuredAt(got path.Resolved, kind path.Kind, fresh bool) []byte {
	for _, root := range r.roots {
		if root.path != got.Root {
			continue
		}
		rel, err := filepath.Rel(root.path, got.Abs)
		if err != nil || rel == "." {
			continue
		}
		dir, base, err := openParent(root.fd, rel)
		if err != nil {
			continue
		}
		defer closeParent(root.fd, dir)
		switch kind {
		case path.GitHooks:
			if fd, err := openDirAt(dir, base); err == nil {
				r.hooks(fd, got.Abs, fresh, nil)
				unix.Close(fd)
			}
		case path.GitConfig:
			return r.configAt(dir, base, got.Abs, fresh, nil, nil)
		}
	}
	return nil
}
