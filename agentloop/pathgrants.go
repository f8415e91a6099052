package agentloop

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"sandboxd/exec"
	"sandboxd/policy"
)

// asked is one path of the policy, resolved.
type asked struct {
	grant  policy.PathGrant
	path   string // absolute, links resolved; lexical where missing
	links  []exec.Link
	access exec.Access
	exists bool
	dir    bool
}

// accesses maps what a policy says to what the kernel holds. GrantUnprotect is
// no access of its own.
var accesses = map[policy.PathAccess]exec.Access{
	policy.GrantDeny:    exec.Deny,
	policy.GrantProtect: exec.Protect,
	policy.GrantRead:    exec.ReadOnly,
	policy.GrantWrite:   exec.ReadWrite,
}

// pathGrants resolves the entries of a policy: what they mean on this host, and
// which of several about one path counts.
func (b *builder) pathGrants(grants []policy.PathGrant) ([]asked, error) {
	var list []asked
	for _, g := range grants {
		if g.Access == policy.GrantUnprotect {
			continue
		}
		a, keep, err := b.ask(g)
		if err != nil && g.Optional {
			b.warn("%v", err)
			continue
		}
		if err != nil {
			return nil, err
		}
		if keep {
			list = append(list, a)
		}
	}
	list = b.exceptions(list)
	if err := b.checkLinks(list); err != nil {
		return nil, err
	}
	return b.settle(list), nil
}

// ask resolves one entry. keep is false for entries that cannot matter.
func (b *builder) ask(g policy.PathGrant) (a asked, keep bool, err error) {
	access, known := accesses[g.Access]
	if !known {
		return a, false, grantError(g, "", fmt.Errorf("bug: unknown access"))
	}
	path, err := b.expand(g)
	if err != nil {
		return a, false, err
	}
	a = asked{grant: g, access: access, path: path}
	real, links, err := b.r.resolve(path)
	switch {
	case err == nil:
		a.path, a.links, a.exists, a.dir = real, links, true, b.r.lstat(real).isDir()
	case !isMissing(err):
		if access == exec.Deny {
			break // what cannot be looked at cannot be granted by accident either
		}
		return a, false, grantError(g, "the path cannot be looked at by this user", unwrapPath(err))
	case access == exec.Deny:
		return a, false, nil // nothing there to hide
	case access == exec.Protect && g.Source.Kind != policy.SourceCLI:
		b.report.Protected = append(b.report.Protected, ProtectedPath{Path: path, Level: LevelCheck})
		return a, false, nil
	default:
		return a, false, grantError(g, missingHint(access), errors.New("no such file or directory"))
	}
	if g.OneCall && a.path != path {
		return a, false, grantError(g, "repeat the call, which is asked about anew", fmt.Errorf("it leads to %s since it was approved", a.path))
	}
	if access == exec.ReadWrite {
		if err := b.knobs(a.path); err != nil {
			return a, false, grantError(g, "name what is to be written; nothing in /proc is, nor all of /sys", err)
		}
	}
	if access >= exec.ReadOnly {
		if err := b.daemons(a.path); err != nil {
			return a, false, grantError(g, noDaemon, err)
		}
	}
	if access == exec.ReadWrite {
		if own := b.ownDir(a.path); own != "" {
			return a, false, grantError(g, "grant a directory that sandboxd does not use itself",
				fmt.Errorf("%s holds sandboxd's own state or policy and is never writable", own))
		}
	}
	return a, true, nil
}

// knobs refuses what is never writable.
func (b *builder) knobs(path string) error {
	switch {
	case path == "/":
		// Nothing takes /proc and /sys out of it where there is no mount view.
		return errors.New("the root as a whole holds the kernel's knobs and other processes, which are never writable")
	case within(path, "/proc"), path == "/sys":
		// Root owns the kernel's knobs, and needs no capability to write core_pattern.
		return errors.New("the kernel's knobs and other processes are never writable")
	}
	return nil
}

// ownDir is our own directory that holds path, if any. The private homes are
// granted by this package alone.
func (b *builder) ownDir(path string) string {
	for _, own := range b.own {
		if within(path, own) {
			return own
		}
	}
	return ""
}

func missingHint(access exec.Access) string {
	switch access {
	case exec.ReadWrite:
		return "create it first: the sandbox makes nothing in your directories"
	case exec.Protect:
		return "only what exists can be held read-only; create it first, or leave it to the check after the run"
	}
	return "create it, or remove the entry"
}

// expand makes the path of an entry absolute and clean. "dir/**" means dir;
// other patterns are refused, unless a file of exactly that name exists.
func (b *builder) expand(g policy.PathGrant) (string, error) {
	path := g.Path
	if strings.ContainsRune(path, 0) || path == "" {
		return "", grantError(g, "", fmt.Errorf("not a path: %q", path))
	}
	if rest, ok := cutHome(path); ok {
		if b.c.Home == "" {
			return "", grantError(g, "write the absolute path", errors.New("there is no home directory"))
		}
		path = b.c.Home + "/" + rest
	}
	if !filepath.IsAbs(path) {
		path = b.ws.Root + "/" + path
	}
	literal := filepath.Clean(path)
	if !strings.ContainsAny(g.Path, "*?[") {
		return literal, nil
	}
	if _, _, err := b.r.resolve(literal); err == nil {
		return literal, nil
	}
	if tree, ok := strings.CutSuffix(path, "/**"); ok && !strings.ContainsAny(tree, "*?[") {
		return filepath.Clean(orElse(tree, "/")), nil
	}
	return "", grantError(g, "grant the directory (\"dir\" or \"dir/**\" is the whole tree); patterns belong into rules",
		errors.New("file-system entries are paths, not patterns"))
}

// checkLinks refuses entries that reach beyond a writable tree through a link
// that lies in it: an earlier command could have planted the link, and would
// then choose what the next one is granted.
func (b *builder) checkLinks(list []asked) error {
	writable := append([]string{b.ws.Root}, b.ws.GitDirs...)
	for _, a := range list {
		if a.access == exec.ReadWrite {
			writable = append(writable, a.path)
		}
	}
	for _, a := range list {
		if a.access < exec.ReadOnly {
			continue
		}
		for _, l := range a.links {
			for _, w := range writable {
				if within(l.Path, w) && l.Path != w && !within(a.path, w) {
					return grantError(a.grant, "name the target itself: "+a.path,
						fmt.Errorf("the link %s lies in a writable directory and leaves it", l.Path))
				}
			}
		}
	}
	return nil
}

// settle keeps one entry per path, whatever the order: a refusal counts more than
// a grant, and of two grants the wider one, since to write includes to read. Then
// it closes what a weaker source opened at or below the entry of a stronger one.
func (b *builder) settle(list []asked) []asked {
	best := make(map[string]asked, len(list))
	for _, a := range list {
		old, ok := best[a.path]
		if !ok || counts(a, old) {
			a.links = append(a.links, old.links...)
			best[a.path] = a
		} else {
			old.links = append(old.links, a.links...)
			best[a.path] = old
		}
		if ok && old.access != a.access && min(old.access, a.access) < exec.ReadOnly {
			b.warn("%s is both %q and %q; %q counts", a.grant.Path, old.grant.Access, a.grant.Access, best[a.path].grant.Access)
		}
	}
	settled := make([]asked, 0, len(best))
	for _, a := range best {
		settled = append(settled, a)
	}
	slices.SortFunc(settled, func(x, y asked) int { return strings.Compare(x.path, y.path) })
	// The comparison uses the entries as written: one that is closed here must
	// not lend its position to others.
	written := list
	kept := settled[:0]
	for _, a := range settled {
		if s, ok := strongerAbove(a, written); ok && s.access < a.access {
			b.warn("%s (%s) does not open %q %s of a stronger source (%s)", a.grant.Path, place(a.grant.Source),
				s.grant.Access, s.grant.Path, place(s.grant.Source))
			if s.access == exec.Deny {
				continue
			}
			a.access = min(a.access, max(s.access, exec.Protect))
		}
		kept = append(kept, a)
	}
	return kept
}

// counts reports whether a counts more than old, an entry about the same path.
func counts(a, old asked) bool {
	switch {
	case a.access == old.access:
		return a.grant.Source.Kind < old.grant.Source.Kind
	case min(a.access, old.access) >= exec.ReadOnly:
		return a.access > old.access
	}
	return a.access < old.access
}

// strongerAbove finds the nearest entry at or above a's path that a stronger
// source wrote.
func strongerAbove(a asked, list []asked) (asked, bool) {
	var nearest asked
	found := false
	for _, s := range list {
		if s.grant.Source.Kind >= a.grant.Source.Kind || !within(a.path, s.path) {
			continue
		}
		if !found || len(s.path) > len(nearest.path) || len(s.path) == len(nearest.path) && s.access < nearest.access {
			nearest, found = s, true
		}
	}
	return nearest, found
}

func grantError(g policy.PathGrant, hint string, err error) error {
	return &GrantError{Entry: string(g.Access) + " " + g.Path, Source: g.Source, Hint: hint, Err: err}
}

// place names a source for people.
func place(s policy.Source) string {
	switch {
	case s.File == "":
		return s.Kind.String()
	case s.Line == 0:
		return s.File
	}
	return s.File + ":" + strconv.Itoa(s.Line)
}
