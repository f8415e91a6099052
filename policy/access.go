package policy

import (
	"io"
	"os"
	"path/filepath"
	"strings"

	"sandboxd/policy/bash"
	policypath "sandboxd/policy/path"
)

// access is one thing done to a path.
type access struct {
	verb effectVerb
	// raw is the path as given, given its absolute clean spelling, real where
	// it leads. given and real are empty when the path is not known.
	raw, given, real string
	glob             bool
	tree             bool
	redirect         bool
	command          int // -1: the tool itself, or a redirect without a command
	zone             zone
	protected        string // why a write here asks, empty when it need not
	err              string
	// names are what exists now and is meant too: what a pattern matches, or
	// the top of a tree. tooMany says that there were more than are listed.
	names   []string
	tooMany bool
	// leadTo is where links among names lead, when they are followed.
	leadTo []string
	// some, only and namesOnly narrow a tree (see bash.Effect); walk are the
	// names in it. replaces is true when what was there before is lost.
	some, namesOnly, replaces, tracked bool
	only                               string
	// hidden: a star of the pattern matches a leading dot too.
	hidden bool
	walk   *treeNames
}

func (a *access) known() bool { return a.real != "" }

// zone is where a path lies.
type zone uint8

const (
	outside zone = iota
	systemDir
	readRoot
	writeRoot
	workspaceDir
	discard // /dev/null and the like: nothing is kept
)

// maxPath is the length in bytes of the longest path that the kernel takes
// (PATH_MAX, path_resolution(7)).
const maxPath = 4096

// maxLocated bounds the different paths of one script that are looked up. What
// is beyond is not known, so that it asks.
const maxLocated = 5000

// locator looks up each effect of a script once.
type locator struct {
	e    *Engine
	seen map[located]access
}

// located is what tells two effects apart.
type located struct {
	path                           string
	kind                           bash.EffectKind
	glob, tree, noFollow           bool
	some, names, replaces, tracked bool
	only                           string
	hidden                         bool
}

func (l *locator) access(ef *bash.Effect) access {
	key := located{ef.Path, ef.Kind, ef.Glob, ef.Tree, ef.NoFollow, ef.Some, ef.Names, ef.Replaces, ef.Tracked, ef.Only, ef.Hidden}
	a, ok := l.seen[key]
	if !ok {
		if len(l.seen) < maxLocated {
			a = l.e.effectAccess(ef)
		} else {
			a = access{verb: verbOfEffect(ef.Kind), raw: ef.Path, glob: ef.Glob, tree: ef.Tree, some: ef.Some}
		}
		if l.seen == nil {
			l.seen = map[located]access{}
		}
		l.seen[key] = a
	}
	a.redirect, a.command = ef.Source == bash.Redirect, ef.Command
	return a
}

func verbOfEffect(k bash.EffectKind) effectVerb {
	switch k {
	case bash.Write:
		return effectWrite
	case bash.Delete:
		return effectDelete
	case bash.Read, bash.Network, bash.Exec:
	}
	return effectRead
}

// effectAccess locates what a script does to a path.
func (e *Engine) effectAccess(ef *bash.Effect) access {
	a := access{verb: verbOfEffect(ef.Kind), raw: ef.Path, glob: ef.Glob, tree: ef.Tree, some: ef.Some, only: ef.Only, namesOnly: ef.Names, tracked: ef.Tracked, hidden: ef.Hidden,
		replaces: ef.Replaces}
	switch {
	case strings.Contains(ef.Path, bash.Hole), !strings.HasPrefix(ef.Path, "/"):
		return a
	case ef.Glob:
		e.globAccess(&a, ef)
	default:
		e.locate(&a, ef.Path, ef.NoFollow, true)
		if a.tree && a.zone != discard && a.known() {
			if !a.namesOnly && !a.some {
				a.names, _, a.tooMany = namesIn(a.real, "", false)
			}
			a.walk = &treeNames{dir: a.real}
		}
	}
	return a
}

// globAccess locates a pattern by its directory: the names that match lie in
// it. A pattern in a directory part, or one that may match hidden names, is not
// known; neither is one whose names are written through links, or read through
// links that lead out of the roots.
func (e *Engine) globAccess(a *access, ef *bash.Effect) {
	dir, last := filepath.Split(ef.Path)
	if isGlobText(dir) || last == "" || strings.HasPrefix(last, ".") {
		return
	}
	e.locate(a, strings.TrimSuffix(dir, "/")+"/x", true, true)
	if !a.known() {
		return
	}
	a.given = filepath.Dir(a.given) + "/" + last
	a.real = filepath.Dir(a.real) + "/" + last
	if a.tree {
		a.walk = &treeNames{dir: filepath.Dir(a.real)}
	}
	var links []string
	a.names, links, a.tooMany = namesIn(filepath.Dir(a.real), last, a.hidden)
	switch {
	case ef.NoFollow:
	case a.verb == effectWrite && (len(links) > 0 || a.tooMany), a.verb == effectRead && (a.tooMany || e.leadOut(a, links)):
		a.given, a.real = "", ""
	}
}

// leadOut reports whether one of the links that a pattern matches leads out of the
// roots and the system directories, and notes where the others lead.
func (e *Engine) leadOut(a *access, links []string) bool {
	for _, name := range links {
		real, err := resolve(filepath.Join(filepath.Dir(a.real), name))
		if err != nil {
			return true
		}
		a.leadTo = append(a.leadTo, real)
		if _, z := e.zoneOf(real); z < systemDir {
			return true
		}
	}
	return false
}

// maxNames bounds the names of a directory that are looked at.
const maxNames = 2000

// namesIn lists the names in dir that match a pattern of the shell ("" is all
// of them), and which of them are links. A directory that does not exist has
// none; of one that is no directory or cannot be read nothing is known, and the
// kernel refuses it to the command too.
func namesIn(dir, pattern string, hidden bool) (names, links []string, tooMany bool) {
	d, err := policypath.OpenDir(dir)
	if err != nil {
		return nil, nil, false
	}
	defer d.Close()
	entries, err := d.ReadDir(maxNames)
	if err != nil && err != io.EOF {
		return nil, nil, false
	}
	for _, entry := range entries {
		if pattern != "" && !globMatches(pattern, entry.Name(), hidden) {
			continue
		}
		names = append(names, entry.Name())
		if entry.Type()&os.ModeSymlink != 0 {
			links = append(links, entry.Name())
		}
	}
	return names, links, len(entries) == maxNames
}

// access locates a path argument of a tool.
func (e *Engine) access(verb effectVerb, p, dir string, command int) access {
	a := access{verb: verb, raw: p, command: command}
	full := p
	switch {
	case p == "" || strings.ContainsRune(p, 0):
		a.err = "not a path"
		return a
	case p == "~" || strings.HasPrefix(p, "~/"):
		if e.cfg.Home != "" {
			full = e.cfg.Home + p[1:]
		}
	case !strings.HasPrefix(p, "/"):
		if dir == "" {
			a.err = "relative path without a start directory"
			return a
		}
		full = dir + "/" + p
	}
	e.locate(&a, full, false, false)
	return a
}

// locate resolves an absolute path, names its zone and whether it is protected.
func (e *Engine) locate(a *access, full string, noFollow, inScript bool) {
	if len(full) > maxPath {
		a.err = "longer than any path"
		return
	}
	a.given = filepath.Clean(full)
	if e.cfg.Strict && !inScript {
		if err := policypath.CheckWindowsName(a.raw); err != nil {
			a.err = err.Error()
			return
		}
	}
	if freeDevice(a.given) {
		a.real, a.zone = a.given, discard
		return
	}
	if inScript && e.cfg.PrivateTmp && (within(a.given, "/tmp") || within(a.given, "/var/tmp") || within(a.given, "/dev/shm")) {
		// A run sees its own directory there, whatever links the host's has,
		// but for the roots that are granted below it.
		if _, z := e.zoneOf(a.given); z == outside {
			a.real, a.zone = a.given, writeRoot
			return
		}
	}
	real, err := e.realPath(full, noFollow, inScript)
	if err != nil {
		a.err = err.Error()
		return
	}
	a.real = real
	root, z := e.zoneOf(a.real)
	a.zone = z
	a.protected = e.protection(a, root)
}

// freeDevice reports devices that keep nothing and start nothing.
func freeDevice(p string) bool {
	switch p {
	case "/dev/null", "/dev/zero", "/dev/full", "/dev/stdin", "/dev/stdout", "/dev/stderr", "/dev/tty", "/dev/random", "/dev/urandom":
		return true
	}
	return strings.HasPrefix(p, "/dev/fd/")
}
