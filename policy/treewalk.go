package policy

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	policypath "sandboxd/policy/path"
)

// maxTreeNames bounds the names below a directory that are looked at when a
// whole tree is read and a rule is about a name at any depth; about 1 us each.
// A tree with more counts as one that may hold the name.
const maxTreeNames = 20_000

// treeNames are the paths below a directory, looked up when they are first
// asked for.
type treeNames struct {
	dir    string
	looked bool
	paths  []string
	// open is true when there may be others: the directory could not be read, or
	// holds too many.
	open, missing bool
	index         []byte // of git, read when asked for
	none          bool   // there is a repository and no index
}

func (t *treeNames) look() {
	if t.looked {
		return
	}
	t.looked = true
	todo := []string{t.dir}
	for len(todo) > 0 {
		dir := todo[0]
		todo = todo[1:]
		d, err := policypath.OpenDir(dir)
		if err != nil {
			if dir == t.dir {
				t.open, t.missing = true, os.IsNotExist(err)
			}
			continue
		}
		entries, err := d.ReadDir(maxTreeNames - len(t.paths) + 1)
		d.Close()
		if err != nil && err != io.EOF {
			t.open = true
			return
		}
		for _, e := range entries {
			p := dir + "/" + e.Name()
			t.paths = append(t.paths, p)
			// The objects of git are data that no rule is about.
			if e.IsDir() && !strings.HasSuffix(p, "/.git/objects") {
				todo = append(todo, p)
			}
		}
		if len(t.paths) > maxTreeNames {
			t.open = true
			return
		}
	}
}

// tracks reports whether a name may stand in the index of the checkout around
// the tree. What is not in the form of gitformat-index(5), versions 2 and 3,
// may hold every name.
func (t *treeNames) tracks(name string) bool {
	if t.index == nil {
		t.index = []byte{}
		for dir := t.dir; ; dir = path.Dir(dir) {
			if data, err := policypath.ReadRegular(dir+"/.git/index", maxGitIndex); err == nil {
				t.index = data
				break
			} else if exists(dir+"/.git/HEAD") || dir == "/" || dir == "." {
				t.none = errors.Is(err, fs.ErrNotExist) && dir != "/" && dir != "."
				break
			}
		}
	}
	if t.none {
		return false
	}
	if len(t.index) < 12 || string(t.index[:4]) != "DIRC" || t.index[7] != 2 && t.index[7] != 3 {
		return true
	}
	return bytes.Contains(t.index, []byte(name))
}

// trackedIn reports whether git may track something that p covers, when a means
// only what it tracks.
func (p *pathPattern) trackedIn(a *access) bool {
	if !a.tracked || a.walk == nil {
		return true
	}
	for _, l := range p.literals {
		if a.walk.tracks(path.Base(l)) {
			return true
		}
	}
	for _, g := range p.globs {
		if a.walk.tracks(path.Base(literalDir(g))) {
			return true
		}
	}
	return false
}

// wants reports whether a name is among those that are meant in a tree.
func (a *access) wants(name string) bool {
	if a.only == "" {
		return true
	}
	pattern, not := strings.CutPrefix(a.only, "!")
	ok, err := path.Match(pattern, name)
	return err != nil || ok != not
}

// inTree: a tree is read, changed or removed, and rules are about a name at any
// depth, which may stand in it.
func (f *finder) inTree(x *pathIndex, a *access) {
	if a.walk == nil || a.namesOnly || len(x.name)+len(x.rest) == 0 {
		return
	}
	if a.only != "" && !strings.ContainsAny(a.only, `*?[\!`) {
		f.soften = a.some
		f.onePath(x, path.Join(a.walk.dir, a.only), a.command)
		f.soften = false
		return
	}
	a.walk.look()
	if a.verb == effectDelete && a.walk.missing {
		return
	}
	f.soften = a.verb == effectRead || a.some
	defer func() { f.soften = false }()
	if a.walk.open || len(a.walk.paths)*len(x.rest) > 100*maxTreeNames {
		f.soften = true
		for _, c := range x.all {
			p := &c.pat.path
			if f.better(c) && (c.pat.re != nil || p.name != "" || p.anywhere()) && (p.name == "" || p.nameGlob || a.wants(p.name)) {
				f.found(c, fullMatch, a.command)
			}
		}
		return
	}
	for _, p := range a.walk.paths {
		if a.wants(path.Base(p)) && (!a.tracked || a.walk.tracks(path.Base(p))) {
			f.onePath(x, p, a.command)
		}
	}
}

// anywhere reports a pattern without a literal beginning.
func (p *pathPattern) anywhere() bool {
	for _, g := range p.globs {
		if literalDir(g) == "/" {
			return true
		}
	}
	return false
}
