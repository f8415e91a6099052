package agentloop

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sandboxd/exec"
)

// Workspace is the root of the work: the one tree a command may change unless
// the policy says more.
type Workspace struct {
	// Root is absolute with all links resolved.
	Root string
	// Named is how the caller wrote it, absolute; it differs from Root when a
	// component is a symbolic link, and works in the view too.
	Named string
	// Links are the symbolic links between Named and Root.
	Links []exec.Link
	// GitDirs are directories outside Root that git needs to write: the common
	// directory of a linked worktree, the module directory of a submodule.
	GitDirs []string
	// Git says that Root is the top of a checkout whose .git is a directory.
	Git bool

	node node
}

// DetectWorkspace chooses the workspace: override when it is set, else the top
// of the git checkout that holds cwd, else cwd. It refuses /, the caller's home
// and its ancestors, ancestors of our own state, and system directories;
// naming such a directory by override is allowed with a warning, but for /.
func DetectWorkspace(cwd, override string, c Caller) (Workspace, []string, error) {
	return detectWorkspace(newResolver(0), cwd, override, c)
}

func detectWorkspace(r *resolver, cwd, override string, c Caller) (Workspace, []string, error) {
	if override != "" {
		return namedWorkspace(r, cwd, override, c)
	}
	if !filepath.IsAbs(cwd) {
		return Workspace{}, nil, workspaceError(cwd, "cd to the directory of the work, or name it with --workspace",
			errors.New("the current directory is unknown"))
	}
	here, err := openWorkspace(r, cwd)
	if err != nil {
		return Workspace{}, nil, err
	}
	var warnings []string
	if top := checkoutTop(r, here.Root, c); top != "" && top != here.Root {
		if why := unfit(r, top, c); why != "" {
			// A dotfiles repository in the home must not make every directory
			// below it unusable; the directory itself is the narrower choice.
			warnings = append(warnings, fmt.Sprintf("the checkout %s is %s; the workspace is %s only", top, why, here.Root))
		} else {
			ws, err := openWorkspace(r, top)
			if err != nil {
				return Workspace{}, nil, err
			}
			ws.keepName(here, top)
			here = ws
		}
	}
	if why := unfit(r, here.Root, c); why != "" {
		insist := "insist with --workspace " + here.Root
		if here.Root == "/" { // which is refused by name too
			insist = "name one with --workspace"
		}
		return Workspace{}, nil, workspaceError(here.Root, "cd to a project directory, or "+insist,
			fmt.Errorf("this is %s, and a workspace is writable as a whole", why))
	}
	more := here.findGit(r, c)
	return here, append(warnings, more...), nil
}

// namedWorkspace opens what the user named, whatever it is.
func namedWorkspace(r *resolver, cwd, override string, c Caller) (Workspace, []string, error) {
	if rest, ok := cutHome(override); ok && c.Home != "" {
		override = filepath.Join(c.Home, rest)
	} else if !filepath.IsAbs(override) {
		if !filepath.IsAbs(cwd) {
			return Workspace{}, nil, workspaceError(override, "name an absolute path", errors.New("the current directory is unknown"))
		}
		override = filepath.Join(cwd, override)
	}
	ws, err := openWorkspace(r, override)
	if err != nil {
		return Workspace{}, nil, err
	}
	if ws.Root == "/" {
		return Workspace{}, nil, workspaceError(override, "name a directory below it; more places by --rw",
			errors.New("the root directory cannot be a workspace"))
	}
	var warnings []string
	if why := unfit(r, ws.Root, c); why != "" {
		warnings = append(warnings, fmt.Sprintf("the workspace %s is %s: all of it is writable for the command", ws.Root, why))
	}
	return ws, append(warnings, ws.findGit(r, c)...), nil
}

func openWorkspace(r *resolver, path string) (Workspace, error) {
	real, links, err := r.resolve(path)
	if err != nil {
		hint := "create it, or name another with --workspace"
		if !isMissing(err) {
			hint = "name another with --workspace"
		}
		return Workspace{}, workspaceError(path, hint, unwrapPath(err))
	}
	n := r.lstat(real)
	if n.err == nil && !n.isDir() {
		return Workspace{}, workspaceError(path, "name the directory that holds it", errors.New("not a directory"))
	}
	return Workspace{Root: real, Named: filepath.Clean(path), Links: links, node: n}, nil
}

// keepName carries the links of a start directory over to the top of its
// checkout, so that the name the caller uses works in the view.
func (w *Workspace) keepName(start Workspace, top string) {
	below, err := filepath.Rel(top, start.Root)
	if err != nil || len(start.Links) == 0 {
		return
	}
	if named, ok := strings.CutSuffix(start.Named, "/"+below); ok && named != "" {
		w.Named = named
	}
	w.Links = start.Links
}

// checkoutTop finds the nearest directory at or above dir that holds a .git of
// the same owner as dir or of the caller. Another user's .git above (in /tmp,
// say) must not choose the workspace.
func checkoutTop(r *resolver, dir string, c Caller) string {
	owner := r.lstat(dir).uid
	for d := dir; d != "/"; d = filepath.Dir(d) {
		n := r.lstat(join(d, ".git"))
		if n.err != nil || n.uid != owner && int(n.uid) != c.UID {
			continue
		}
		if n.isDir() && r.lstat(join(d, ".git/HEAD")).err != nil {
			continue // an empty or broken .git: git looks further up too
		}
		if n.isDir() || n.isFile() {
			return d
		}
	}
	return ""
}

// systemDirs are refused as a workspace by exact path.
var systemDirs = []string{
	"/bin", "/boot", "/dev", "/etc", "/home", "/lib", "/lib32", "/lib64", "/libx32", "/media", "/mnt", "/nix", "/opt",
	"/proc", "/root", "/run", "/sbin", "/snap", "/srv", "/sys", "/tmp", "/usr", "/var", "/dev/shm", "/usr/src", "/usr/local/src",
	"/var/cache", "/var/lib", "/var/log", "/var/opt", "/var/run", "/var/spool", "/var/tmp", "/var/www",
}

// systemTrees are refused with everything below them, but for sourceTrees.
var (
	systemTrees = []string{"/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/libx32", "/nix", "/proc", "/sbin", "/sys", "/usr"}
	sourceTrees = []string{"/usr/src", "/usr/local/src", "/dev/shm"}
)

// unfit says why dir is no workspace, or nothing when it is one.
func unfit(r *resolver, dir string, c Caller) string {
	if dir == "/" {
		return "the root directory"
	}
	if home, ok := r.realDir(c.Home); ok && c.Home != "" && home != "/" {
		if dir == home {
			return "the home directory"
		}
		if within(home, dir) {
			return "an ancestor of the home directory"
		}
	}
	for _, own := range []string{c.StateDir, c.CacheDir, c.ConfigDir} {
		if own == "" {
			continue
		}
		if real, _, err := r.resolve(own); err == nil {
			own = real
		}
		if within(own, dir) || within(dir, own) {
			return "a place of sandboxd's own state"
		}
	}
	if slices.Contains(systemDirs, dir) || withinAny(dir, systemTrees) && !withinAny(dir, sourceTrees) {
		return "a system directory"
	}
	return ""
}

func workspaceError(path, hint string, err error) error {
	return &GrantError{Entry: "workspace " + path, Hint: hint, Err: err}
}

// unwrapPath drops the operation and path of a *os.PathError whose path the
// message names already.
func unwrapPath(err error) error {
	if pe, ok := errors.AsType[*os.PathError](err); ok {
		return pe.Err
	}
	return err
}

// cutHome splits "~" and "~/rest".
func cutHome(path string) (rest string, ok bool) {
	if path == "~" {
		return "", true
	}
	return strings.CutPrefix(path, "~/")
}
