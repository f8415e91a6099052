package path

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

var (
	// ErrInvalid reports a path that no system call can take: empty, or with
	// a NUL in it.
	ErrInvalid = errors.New("not a path")
	// ErrLoop reports more than 40 symbolic links, the kernel's own bound.
	ErrLoop = errors.New("too many symbolic links")
	// ErrWindowsName reports a name that strict mode refuses.
	ErrWindowsName = errors.New("name means something else on Windows")
)

// maxLinks is the kernel's bound (MAXSYMLINKS, path_resolution(7)).
const maxLinks = 40

// Resolver resolves paths against a set of roots. It is a value; methods may be
// called from several goroutines.
type Resolver struct {
	// Roots are directories, absolute; links in them are resolved.
	Roots []string
	// Home replaces "~" and the "~" of "~/...". Empty leaves them as names.
	Home string
	// Cwd is where relative paths begin, absolute. It may be a link.
	Cwd string
	// Strict refuses names that are harmless here but not on a shared mount
	// that Windows reads; see [CheckWindowsName].
	Strict bool
}

// Resolved is where a path leads at the moment.
type Resolved struct {
	// Abs is absolute and clean, with all links resolved, the last one too.
	Abs string
	// Root is the longest root that holds Abs, links resolved. Empty if none.
	Root   string
	Inside bool
	// Missing: the path does not exist; Abs is where it would be made.
	Missing bool
	// Guess: a ".." follows a missing name, so Abs is true only if that name
	// becomes a directory and not a link.
	Guess bool
	// Magic: the path leads through a link of /proc that depends on who
	// looks (self, root, cwd, fd). Such a path is never Inside.
	Magic bool
	// Protected is the entry that protects Abs. Nil if none does, or if Abs
	// is not Inside.
	Protected *Entry
}

// Resolve follows path by components, as the kernel does: ".." after the link
// before it was followed. Errors are [ErrInvalid], [ErrLoop], [ErrWindowsName]
// or one of the system (ENAMETOOLONG, ENOTDIR, EACCES); with any of them
// nothing is known, and the caller must refuse.
func (r Resolver) Resolve(path string) (Resolved, error) {
	if path == "" || strings.ContainsRune(path, 0) {
		return Resolved{}, fmt.Errorf("%q: %w", path, ErrInvalid)
	}
	if r.Strict {
		if err := CheckWindowsName(path); err != nil {
			return Resolved{}, err
		}
	}
	full, err := r.absolute(path)
	if err != nil {
		return Resolved{}, err
	}
	got, err := follow(full)
	if err != nil {
		return Resolved{}, fmt.Errorf("resolve %s: %w", shorten(path), err)
	}
	if got.Magic {
		return got, nil
	}
	got.Root, got.Inside = r.rootOf(got.Abs)
	if got.Inside {
		got.Protected = protects(got.Root, got.Abs)
	}
	return got, nil
}

// absolute expands "~" and puts Cwd in front; it does not clean.
func (r Resolver) absolute(path string) (string, error) {
	full := path
	switch {
	case r.Home != "" && (path == "~" || strings.HasPrefix(path, "~/")):
		full = r.Home + path[1:]
	case !strings.HasPrefix(path, "/"):
		if !strings.HasPrefix(r.Cwd, "/") {
			return "", fmt.Errorf("%w: %s is relative, and so is the start directory %q", ErrInvalid, shorten(path), r.Cwd)
		}
		full = r.Cwd + "/" + path
	}
	return full, nil
}

// rootOf returns the longest root that holds abs. A root that cannot be
// resolved holds nothing.
func (r Resolver) rootOf(abs string) (string, bool) {
	best, found := "", false
	for _, root := range r.Roots {
		got, err := follow(root)
		if err != nil || got.Magic || got.Missing {
			continue
		}
		if _, ok := beneath(got.Abs, abs); ok && len(got.Abs) > len(best) {
			best, found = got.Abs, true
		}
	}
	return best, found
}

// protects looks abs up in the table, by its name below root and, for
// repositories whose directory is not called .git, by what is there.
func protects(root, abs string) *Entry {
	rel, _ := beneath(root, abs)
	if e, ok := Match(rel); ok {
		return &e
	}
	names := split(rel)
	for i := range names {
		inner := strings.Join(names[i:], "/")
		e, ok := MatchGitDir(inner)
		if !ok || e.Kind == GitData {
			continue
		}
		if IsBareRepository(filepath.Join(root, filepath.Join(names[:i]...))) {
			return &e
		}
	}
	return nil
}

// follow resolves an absolute path. It is filepath.EvalSymlinks with a missing
// end, physical "..", and a refusal to read the links of procfs as text.
func follow(path string) (Resolved, error) {
	if !strings.HasPrefix(path, "/") {
		return Resolved{}, fmt.Errorf("%w: not absolute", ErrInvalid)
	}
	if len(path) > unix.PathMax*4 {
		return Resolved{}, unix.ENAMETOOLONG
	}
	var got Resolved
	got.Abs = "/"
	links := 0
	todo := path
	for todo != "" {
		name, rest, more := strings.Cut(strings.TrimLeft(todo, "/"), "/")
		todo = rest
		switch name {
		case "", ".":
			continue
		case "..":
			got.Guess = got.Guess || got.Missing
			got.Abs = filepath.Dir(got.Abs)
			if got.Guess {
				// What is left of the path may exist again.
				got.Missing = missing(got.Abs)
			}
			continue
		}
		next := filepath.Join(got.Abs, name)
		if got.Missing || got.Magic {
			got.Abs = next
			continue
		}
		target, err := look(next, more)
		switch {
		case errors.Is(err, unix.ENOENT):
			got.Abs, got.Missing = next, true
		case err != nil:
			return Resolved{}, err
		case target == "":
			got.Abs = next
		case onProc(got.Abs):
			got.Abs, got.Magic = next, true
		default:
			if links++; links > maxLinks {
				return Resolved{}, ErrLoop
			}
			if strings.HasPrefix(target, "/") {
				got.Abs = "/"
			}
			todo = target + "/" + rest
			if !more {
				todo = target
			}
			if len(todo) > unix.PathMax*4 {
				return Resolved{}, unix.ENAMETOOLONG
			}
		}
	}
	return got, nil
}

// look returns the target of a symbolic link, "" for anything else, and ENOTDIR
// where a directory is needed and something else is there.
func look(name string, needDir bool) (string, error) {
	var st unix.Stat_t
	if err := unix.Lstat(name, &st); err != nil {
		return "", err
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFLNK:
		buf := make([]byte, unix.PathMax)
		n, err := unix.Readlink(name, buf)
		if err != nil {
			return "", err
		}
		if n == 0 {
			return "", unix.ENOENT
		}
		return string(buf[:n]), nil
	case unix.S_IFDIR:
		return "", nil
	}
	if needDir {
		return "", unix.ENOTDIR
	}
	return "", nil
}

func missing(name string) bool {
	var st unix.Stat_t
	return unix.Lstat(name, &st) != nil
}

// onProc reports whether dir is on procfs. In doubt it says yes.
func onProc(dir string) bool {
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return true
	}
	return fs.Type == unix.PROC_SUPER_MAGIC
}

// shorten keeps an error line readable.
func shorten(path string) string {
	if len(path) > 200 {
		return fmt.Sprintf("%q...", path[:200])
	}
	return fmt.Sprintf("%q", path)
}
