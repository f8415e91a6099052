package policy

import (
	"fmt"
	"path/filepath"
	"strings"

	policypath "sandboxd/policy/path"
)

// Root is a directory that calls may work in.
type Root struct {
	Path  string // absolute
	Write bool
}

// systemDirs are readable by every command in the default view (docs of
// confinement): what is installed, and what says how the system is set up.
var systemDirs = []string{
	"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt",
	"/etc/os-release", "/etc/debian_version", "/etc/hosts", "/etc/hostname", "/etc/resolv.conf", "/etc/nsswitch.conf",
	"/etc/passwd", "/etc/group", "/etc/services", "/etc/protocols", "/etc/shells", "/etc/timezone", "/etc/localtime",
	"/etc/ssl/certs", "/etc/alternatives", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/issue", "/etc/mime.types",
	"/proc/cpuinfo", "/proc/meminfo", "/proc/version", "/proc/loadavg", "/proc/uptime", "/proc/filesystems",
}

// realRoot is a root with its links resolved.
type realRoot struct {
	path string
	zone zone
}

// resolveRoots prepares the roots of a configuration; the longest comes first.
func resolveRoots(cfg *Config) []realRoot {
	var roots []realRoot
	add := func(p string, z zone) {
		if p == "" {
			return
		}
		roots = append(roots, realRoot{path: filepath.Clean(p), zone: z})
		if real, err := resolve(p); err == nil && real != filepath.Clean(p) {
			roots = append(roots, realRoot{path: real, zone: z})
		}
	}
	add(cfg.Workspace, workspaceDir)
	for _, r := range cfg.Roots {
		if r.Write {
			add(r.Path, writeRoot)
		} else {
			add(r.Path, readRoot)
		}
	}
	for _, d := range systemDirs {
		roots = append(roots, realRoot{path: d, zone: systemDir})
	}
	return roots
}

// zoneOf returns the longest root that holds real. At equal length the more
// restricted one counts.
func (e *Engine) zoneOf(real string) (root string, z zone) {
	for _, r := range e.roots {
		if !within(real, r.path) {
			continue
		}
		if len(r.path) > len(root) || len(r.path) == len(root) && r.zone < z {
			root, z = r.path, r.zone
		}
	}
	return root, z
}

// resolve follows all links of an absolute path; what does not exist stays as
// it is named.
func resolve(full string) (string, error) { return resolveWith(full, false) }

// resolveWith is resolve; with made a name that does not exist may be followed
// by "..": a script makes the directory that it then leaves, and the analyser
// follows the links that it makes.
func resolveWith(full string, made bool) (string, error) {
	got, err := policypath.Resolver{Cwd: "/"}.Resolve(full)
	if err != nil {
		return "", err
	}
	switch {
	case got.Magic:
		return "", fmt.Errorf("%s depends on who looks", full)
	case got.Guess && !made:
		return "", fmt.Errorf("%s goes up from a name that does not exist", full)
	}
	return got.Abs, nil
}

// realPath resolves full; with noFollow a link at its end is not followed.
func (e *Engine) realPath(full string, noFollow, made bool) (string, error) {
	if !noFollow {
		return resolveWith(full, made)
	}
	dir, last := filepath.Split(filepath.Clean(full))
	if last == "" || last == ".." || last == "." {
		return resolveWith(full, made)
	}
	// The directory part is not cleaned: link/.. is above the link's target.
	if i := len(full) - len(last); i > 0 && full[i-1] == '/' && full[i:] == last {
		dir = full[:i]
	}
	parent, err := resolveWith(dir, made)
	if err != nil {
		return "", err
	}
	return filepath.Join(parent, last), nil
}

// protection says why a change at a.real asks; "" when it need not.
func (e *Engine) protection(a *access, root string) string {
	if a.verb == effectRead {
		return ""
	}
	for i := range e.protect {
		if e.protect[i].match(a.real) || a.tree && e.protect[i].reaches(a.real) {
			return "protected by policy (" + e.cfg.Protect[i] + ")"
		}
	}
	if a.zone < writeRoot || a.zone == discard {
		return ""
	}
	rel := a.real
	if within(a.real, root) {
		rel = a.real[len(root):]
	}
	if rel == "" {
		return ""
	}
	if entry, ok := policypath.Match(rel[1:]); ok {
		return entry.String()
	}
	return bareRepository(root, rel[1:])
}

// bareRepository looks for names that run programs in a repository whose
// directory is not called .git.
func bareRepository(root, rel string) string {
	names := strings.Split(rel, "/")
	for i := range names {
		entry, ok := policypath.MatchGitDir(strings.Join(names[i:], "/"))
		if ok && entry.Kind != policypath.GitData && policypath.IsBareRepository(filepath.Join(root, filepath.Join(names[:i]...))) {
			return entry.String()
		}
	}
	return ""
}
