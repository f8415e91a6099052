package agentloop

import (
	"slices"

	"sandboxd/exec"
)

// entrySet collects the entries of a view: one per path. What the user wrote
// replaces what a default says about the same path.
type entrySet struct {
	byPath map[string]exec.Entry
	user   map[string]bool
	links  map[string]string
}

func newEntrySet() *entrySet {
	return &entrySet{byPath: make(map[string]exec.Entry, 192), user: map[string]bool{}, links: map[string]string{}}
}

// add enters a default. Of two defaults about one path the wider one counts,
// but a Deny always does. What the user wrote counts more, if it opens or closes the
// path: one that is only held read-only is not named to be opened.
func (s *entrySet) add(e exec.Entry) {
	if s.user[e.Path] && (e.Access != exec.Deny || s.byPath[e.Path].Access != exec.Protect) {
		return
	}
	if old, ok := s.byPath[e.Path]; ok && (old.Access == exec.Deny || e.Access != exec.Deny && old.Access >= e.Access) {
		return
	}
	s.byPath[e.Path] = e
}

// demand enters what the user wrote. What is closed by default stays so where it is only
// to be held read-only.
func (s *entrySet) demand(e exec.Entry) {
	if old, ok := s.byPath[e.Path]; ok && e.Access == exec.Protect && old.Access == exec.Deny {
		return
	}
	s.byPath[e.Path] = e
	s.user[e.Path] = true
}

// reopen enters what a rule leaves out: what closes it by default still does.
func (s *entrySet) reopen(e exec.Entry) {
	if old, ok := s.byPath[e.Path]; !ok || !s.user[e.Path] && old.Access != exec.Deny {
		s.byPath[e.Path] = e
	}
}

func (s *entrySet) addLinks(links []exec.Link) {
	for _, l := range links {
		s.links[l.Path] = l.Target
	}
}

// above is the entry that decides about the surroundings of path: the longest
// one that is a proper ancestor.
func (s *entrySet) above(path string) (exec.Entry, bool) {
	for dir := path; dir != "/"; {
		dir = parent(dir)
		if e, ok := s.byPath[dir]; ok {
			return e, true
		}
	}
	return exec.Entry{}, false
}

// at is the entry that decides about path itself.
func (s *entrySet) at(path string) (exec.Entry, bool) {
	if e, ok := s.byPath[path]; ok {
		return e, true
	}
	return s.above(path)
}

// sorted lists the entries by path, so that equal grants give equal views and
// a cached ruleset is found again.
func (s *entrySet) sorted() []exec.Entry {
	list := make([]exec.Entry, 0, len(s.byPath))
	for _, path := range s.paths() {
		list = append(list, s.byPath[path])
	}
	return list
}

func (s *entrySet) paths() []string {
	list := make([]string, 0, len(s.byPath))
	for path := range s.byPath {
		list = append(list, path)
	}
	slices.Sort(list)
	return list
}

// prune drops entries that change nothing: those that say what the entry above
// says anyhow, and refusals where nothing is granted. keep lists paths whose
// entry has a meaning of its own (a .git bound onto itself).
func (s *entrySet) prune(keep []string) {
	for _, path := range s.paths() {
		e := s.byPath[path]
		if slices.Contains(keep, path) || e.Kind != exec.Bind || e.Source != "" && e.Source != e.Path {
			continue
		}
		up, ok := s.above(e.Path)
		switch {
		case !ok || up.Access == exec.Deny:
			if e.Access == exec.Deny || e.Access == exec.Protect && !s.user[e.Path] {
				delete(s.byPath, e.Path)
			}
		case e.Access == exec.Protect && up.Access == exec.ReadOnly:
			delete(s.byPath, e.Path) // held read-only already
		case up.Access == e.Access && up.Kind == exec.Bind && (up.Source == "" || up.Source == up.Path) && e.Access != exec.Deny:
			delete(s.byPath, e.Path)
		}
	}
}

// carve rewrites readable trees that have unreadable places in them as the list
// of what remains: rules that only add (Landlock) cannot take back. A writable
// tree cannot be rewritten so, since names that do not exist yet belong to it;
// its refusals stay, for the Runner to judge.
func (s *entrySet) carve() {
	var holes []string
	for path, e := range s.byPath {
		if e.Access != exec.Deny {
			continue
		}
		if up, ok := s.above(path); ok && up.Access == exec.ReadOnly {
			holes = append(holes, path)
		}
	}
	if len(holes) == 0 {
		return
	}
	slices.Sort(holes)
	for _, e := range s.sorted() {
		if e.Access == exec.ReadOnly && e.Kind == exec.Bind {
			s.carveOne(e, holes)
		}
	}
	for _, h := range holes {
		delete(s.byPath, h)
	}
}

func (s *entrySet) carveOne(e exec.Entry, holes []string) {
	var inside []string
	for _, h := range holes {
		if within(h, e.Path) && h != e.Path {
			inside = append(inside, h)
		}
	}
	if len(inside) == 0 {
		return
	}
	delete(s.byPath, e.Path)
	names, err := readNames(e.Path)
	if err != nil {
		return // not granted: what cannot be listed cannot be carved
	}
	for _, name := range names {
		child := join(e.Path, name)
		if slices.Contains(inside, child) {
			continue
		}
		if own, ok := s.byPath[child]; ok && own.Access != exec.ReadOnly {
			continue // has an entry of its own
		}
		c := e
		c.Path, c.Optional = child, true
		if n := readNode(child); n.isLink() {
			continue // a rule on a link is one on its target, which is judged where it lies
		}
		s.byPath[child] = c
		s.carveOne(c, inside)
	}
}
