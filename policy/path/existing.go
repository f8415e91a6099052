package path

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Name is a protected name that exists.
type Name struct {
	// Path is absolute. It lies in the workspace, or in the git directory that
	// the workspace's .git file points to.
	Path  string
	Entry Entry
	IsDir bool
}

// maxSettingsBytes bounds how much of a configuration file is read.
const maxSettingsBytes = 1 << 20

// Existing lists the protected names at the top of the workspace that exist
// now: the settings in it, and what runs programs in its own git directory, also
// where .git is a file or the workspace is a bare repository. It follows what
// the repository's config says about core.hooksPath and included files as far
// as these lie in the workspace. The cost is one lookup for each entry of the
// table, whatever the size of the workspace. Names of [LevelAsk] are left out.
func Existing(workspace string) []Name {
	names := present(workspace, "", LevelKernel, LevelCheck)
	git := FindGitDirs(workspace)
	if git.Link != "" {
		names = append(names, Name{Path: git.Link, Entry: gitLinkEntry})
	}
	if git.Dir == "" {
		return names
	}
	names = append(names, present(git.Dir, ".git/", LevelKernel)...)
	if git.Common != git.Dir {
		names = append(names, present(git.Common, ".git/", LevelKernel)...)
	}
	return append(names, configured(workspace, git.Common)...)
}

// present lists the entries of the table that exist below dir. With a prefix,
// dir is what the prefix stands for, and only entries with it count; without
// one, entries inside .git are left out.
func present(dir, prefix string, levels ...Level) []Name {
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	defer unix.Close(fd)
	var names []Name
	for _, e := range protected {
		if !slices.Contains(levels, e.Level) || strings.Contains(e.Pattern, "*") {
			continue
		}
		rel, ok := strings.CutPrefix(e.Pattern, prefix)
		if !ok || prefix == "" && strings.HasPrefix(rel, ".git/") {
			continue
		}
		var st unix.Stat_t
		if unix.Fstatat(fd, rel, &st, unix.AT_SYMLINK_NOFOLLOW) == nil {
			names = append(names, Name{Path: dir + "/" + rel, Entry: e, IsDir: st.Mode&unix.S_IFMT == unix.S_IFDIR})
		}
	}
	return names
}

// gitLinkEntry is what protects a .git that is a file: git never rewrites it in
// ordinary work.
var gitLinkEntry = Entry{".git", GitLink, LevelKernel, "git reads its configuration and hooks from where it points"}

func appendExisting(names []Name, full string, e Entry) []Name {
	var st unix.Stat_t
	if unix.Lstat(full, &st) != nil {
		return names
	}
	return append(names, Name{Path: full, Entry: e, IsDir: st.Mode&unix.S_IFMT == unix.S_IFDIR})
}

// GitDirs are the places that belong to a checkout. Empty where there is none.
type GitDirs struct {
	// Link is the .git file, where .git is one.
	Link string
	// Dir is the checkout's own git directory.
	Dir string
	// Common holds config and hooks. It differs from Dir in a linked worktree.
	Common string
}

// FindGitDirs looks at the top of workspace only. The directories it returns
// are absolute and have their links resolved.
func FindGitDirs(workspace string) GitDirs {
	var git GitDirs
	dot := filepath.Join(workspace, ".git")
	var st unix.Stat_t
	switch err := unix.Lstat(dot, &st); {
	case err != nil:
		if IsBareRepository(workspace) {
			git.Dir = workspace
		}
	case st.Mode&unix.S_IFMT == unix.S_IFREG:
		git.Link = dot
		if target, ok := readLink(dot, workspace); ok {
			git.Dir = target
		}
	default:
		if real, err := filepath.EvalSymlinks(dot); err == nil {
			git.Dir = real
		}
	}
	git.Common = git.Dir
	if git.Dir != "" {
		if common, ok := readLink(filepath.Join(git.Dir, "commondir"), git.Dir); ok {
			git.Common = common
		}
	}
	return git
}

// readLink reads a gitfile or a commondir file and resolves it against base.
func readLink(file, base string) (string, bool) {
	content, err := readSmall(file)
	if err != nil {
		return "", false
	}
	target, ok := GitLinkTarget(content)
	if !ok {
		return "", false
	}
	if !filepath.IsAbs(target) {
		target = filepath.Join(base, target)
	}
	real, err := filepath.EvalSymlinks(target)
	return real, err == nil
}

// IsBareRepository reports whether git would take dir itself for a git
// directory: it has HEAD, and either objects and refs or a commondir.
func IsBareRepository(dir string) bool {
	has := func(name string) bool {
		var st unix.Stat_t
		return unix.Lstat(filepath.Join(dir, name), &st) == nil
	}
	return has("HEAD") && (has("objects") && has("refs") || has("commondir"))
}

// configured lists the files and directories in the workspace that the
// repository's own config makes git read or run.
func configured(workspace, common string) []Name {
	content, err := readSmall(filepath.Join(common, "config"))
	if err != nil {
		return nil
	}
	var names []Name
	for _, target := range ConfiguredPaths(content) {
		// Hooks are looked up from the top of the checkout, includes from the
		// file that names them.
		base := workspace
		if target.Entry.Kind == GitConfig {
			base = common
		}
		full := target.Path
		if !filepath.IsAbs(full) {
			full = filepath.Join(base, full)
		}
		if rel, ok := beneath(workspace, full); ok && rel != "." {
			names = appendExisting(names, full, target.Entry)
		}
	}
	return names
}

// ConfiguredPaths lists what a git config names as hooks directory, included
// file or attributes file, as written; paths that begin with "~" are left out.
func ConfiguredPaths(content []byte) []Name {
	settings, _ := ParseGitConfig(content) // what stands before an error counts
	var names []Name
	for _, s := range settings {
		section, _, key := s.split()
		e := Entry{Pattern: s.Value, Level: LevelKernel}
		switch {
		case section == "core" && key == "hookspath":
			e.Kind, e.Reason = GitHooks, "core.hooksPath names it, so git runs the programs in it"
		case (section == "include" || section == "includeif") && key == "path":
			e.Kind, e.Reason = GitConfig, "the repository's config includes it"
		case section == "core" && key == "attributesfile":
			e.Kind, e.Reason = GitAttributes, "core.attributesFile names it"
		default:
			continue
		}
		if s.Value != "" && !strings.HasPrefix(s.Value, "~") {
			names = append(names, Name{Path: s.Value, Entry: e})
		}
	}
	return names
}

// readSmall reads a regular file of at most maxSettingsBytes, and does not wait
// for a pipe that stands in its place.
func readSmall(name string) ([]byte, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, &os.PathError{Op: "read", Path: name, Err: unix.EINVAL}
	}
	return io.ReadAll(io.LimitReader(f, maxSettingsBytes))
}

// beneath reports whether full is root or lies in it, and where. Both are
// clean and absolute.
func beneath(root, full string) (string, bool) {
	if full == root {
		return ".", true
	}
	if root == "/" {
		return full[1:], strings.HasPrefix(full, "/")
	}
	rel, ok := strings.CutPrefix(full, root+"/")
	return rel, ok
}
