package bash

import "slices"

// join makes s the state in which either s or o may be.
func (a *analyzer) join(s, o *state) {
	if s == o {
		return
	}
	if s.version != o.version {
		a.joinVariables(s, o)
	}
	a.spend((o.size() - len(o.vars)) / 4)
	for name, fs := range o.funcs {
		for _, f := range fs {
			if !slices.Contains(s.funcs[name], f) && len(s.funcs[name]) < maxAlts {
				s.addFunc(name, f, false)
			}
		}
	}
	for name, alts := range o.aliases {
		s.setAlias(name, union(s.aliases[name], alts))
	}
	for name, alts := range o.hashed {
		s.setHash(name, union(s.hashed[name], alts))
	}
	for fd, t := range o.fds {
		if s.fds[fd] == nil {
			s.setFD(fd, t)
		}
	}
	s.joinParams(o)
	switch {
	case o.dead:
	case s.dead:
		s.dirs, s.before, s.dead = o.dirs, o.before, false
	default:
		s.dirs = unionDirs(s.dirs, o.dirs)
		s.before = unionDirs(s.before, o.before)
	}
	if len(o.pushed) > len(s.pushed) {
		s.pushed = o.pushed
	}
	s.aliasesOn = s.aliasesOn || o.aliasesOn
	s.xtrace = s.xtrace || o.xtrace
	s.keywords = s.keywords || o.keywords
	s.xpgEcho = s.xpgEcho || o.xpgEcho
}

func (a *analyzer) joinVariables(s, o *state) {
	a.spend(len(s.vars) + len(o.vars))
	for name, v := range o.vars {
		if w, ok := s.vars[name]; !ok {
			s.set(name, joinVars(v, a.initial(name)))
		} else if w != v {
			s.set(name, joinVars(w, v))
		}
	}
	for name, w := range s.vars {
		if _, ok := o.vars[name]; !ok {
			s.set(name, joinVars(w, a.initial(name)))
		}
	}
}

func (s *state) joinParams(o *state) {
	if len(s.params) != len(o.params) {
		s.more = true
	} else {
		s.more = s.more || o.more
	}
	n := min(len(s.params), len(o.params))
	rest := s.params[n:]
	if len(o.params) > n {
		rest = o.params[n:]
	}
	out := make([][]string, 0, n+len(rest))
	for i := range n {
		out = append(out, union(s.params[i], o.params[i]))
	}
	for _, alts := range rest {
		out = append(out, addAlt(alts, ""))
	}
	if len(out) > 0 {
		s.params = out
	}
}

// unionDirs joins directory sets; past four the directory is unknown.
func unionDirs(a, b []string) []string {
	if len(a) == 0 {
		return b
	}
	if len(a) == 1 && len(b) == 1 && a[0] == b[0] {
		return a
	}
	for _, d := range b {
		if !slices.Contains(a, d) {
			a = append(slices.Clip(a), d)
		}
	}
	if len(a) > 4 {
		return []string{""}
	}
	return a
}

func joinVars(v, w *variable) *variable {
	if v == w {
		return v
	}
	out := *v
	out.alts = union(v.alts, w.alts)
	out.unset = v.unset || w.unset
	out.integer = v.integer || w.integer
	out.ref = v.ref || w.ref
	out.export = v.export || w.export
	out.readonly = v.readonly || w.readonly
	if v.array != w.array {
		out.array = true
		out.assoc = v.assoc || w.assoc
		out.open = out.open || w.open || v.unset || w.unset
		if !v.array {
			out.elems = slices.Clone(w.elems)
			for _, s := range v.alts {
				out.elems = append(out.elems, element{"0", []string{s}})
			}
		} else {
			out.elems = slices.Clone(v.elems)
			for _, s := range w.alts {
				out.elems = append(out.elems, element{"0", []string{s}})
			}
		}
	} else if v.array {
		out.open = v.open || w.open || len(v.elems) != len(w.elems)
		out.elems = slices.Clone(v.elems)
		for _, e := range w.elems {
			out.elems = putElem(out.elems, e.key, e.alts, true)
		}
	}
	return &out
}

// putElem sets an element, or adds to its possibilities.
func putElem(elems []element, key string, alts []string, weak bool) []element {
	for i, e := range elems {
		if e.key == key {
			out := slices.Clone(elems)
			if weak {
				alts = union(e.alts, alts)
			}
			out[i].alts = alts
			return out
		}
	}
	return append(slices.Clip(elems), element{key, alts})
}
