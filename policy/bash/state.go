package bash

import (
	"maps"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// variable is a shell variable. It is not changed once it is stored: a change
// stores another.
type variable struct {
	// alts are the possible values of a scalar, or of element 0.
	alts []string
	// unset is true when the variable may have no value.
	unset bool
	// array is true for indexed and associative arrays; elems then lists the
	// elements that are known.
	array, assoc bool
	elems        []element
	// open is true when there may be other elements.
	open bool

	integer, ref, readonly, export bool
	lower, upper                   bool
}

type element struct {
	key  string
	alts []string
}

// function is one possible body of a function.
type function struct {
	body   *syntax.Stmt
	src    string // the text that body is part of
	called bool
}

// state is what the shell knows at one point of the script.
type state struct {
	vars    map[string]*variable
	funcs   map[string][]*function
	aliases map[string][]string
	// hashed are paths given to names with hash -p and BASH_CMDS.
	hashed map[string][]string
	// params are the positional parameters; more is true when there may be
	// others after them.
	params [][]string
	more   bool
	arg0   []string
	// dirs are the possible working directories; an empty string is an unknown
	// one. before holds those that remain if the last cd failed.
	dirs, before []string
	pushed       [][]string
	fds          map[string]*text
	in           *text
	out, err     *text

	// version is the same in states whose variables are the same.
	version *byte
	// The maps may be shared with another state: they are cloned before a change.
	sharedVars, sharedFuncs, sharedAliases, sharedHashed, sharedFDs bool

	// aliasesOn, xtrace and keywords: the option may be set.
	aliasesOn, xtrace, keywords bool
	// weakFuncs: functions come from a parent shell and may not be here.
	weakFuncs bool
	// posix: the shell may be one that is not Bash.
	posix bool
	// xpgEcho: echo may interpret escapes.
	xpgEcho bool
	// dead is true behind exit: what follows is read all the same, but its
	// directory does not come from here.
	dead bool
}

// fork returns a copy whose changes do not reach s.
func (a *analyzer) fork(s *state) *state {
	a.spend(1 + s.size()/8) // the copy that a later change makes
	s.sharedVars, s.sharedFuncs, s.sharedAliases, s.sharedHashed, s.sharedFDs = true, true, true, true, true
	c := *s
	return &c
}

// size is how many names the state holds: the cost of a copy.
func (s *state) size() int {
	return len(s.vars) + len(s.funcs) + len(s.aliases) + len(s.hashed) + len(s.fds)
}

// settle ends a statement: a cd in it may have failed.
func (s *state) settle() {
	if s.before != nil {
		s.dirs = unionDirs(s.dirs, s.before)
		s.before = nil
	}
}

// initial is the variable before the script sets it.
func (a *analyzer) initial(name string) *variable {
	if alts := a.startValue(name); alts != nil {
		return &variable{alts: alts, export: true}
	}
	return a.unknownVar
}

// startValue is what the environment gives, nil when nothing is known.
func (a *analyzer) startValue(name string) []string {
	switch name {
	case "HOME":
		if a.opts.Home != "" {
			return []string{a.opts.Home}
		}
	case "IFS":
		return []string{" \t\n"}
	case "PS4":
		return []string{"+ "}
	case "OPTIND":
		return []string{"1"}
	}
	if v, ok := a.opts.Vars[name]; ok {
		return []string{v}
	}
	return nil
}

// lookup returns a variable, following name references.
func (a *analyzer) lookup(s *state, name string) *variable {
	for range 4 {
		v, ok := s.vars[name]
		if !ok {
			if name == "PWD" {
				return &variable{alts: dirTexts(s.dirs)}
			}
			return a.initial(name)
		}
		if !v.ref || len(v.alts) != 1 || v.alts[0] == name || !isName(v.alts[0]) {
			return v
		}
		name = v.alts[0]
	}
	return a.unknownVar
}

func dirTexts(dirs []string) []string {
	out := make([]string, len(dirs))
	for i, d := range dirs {
		if d == "" {
			d = "/" + worldText
		}
		out[i] = d
	}
	return out
}

// own makes a map one's own before it is changed.
func own[V any](m *map[string]V, shared *bool) {
	switch {
	case *m == nil:
		*m = make(map[string]V, 2)
	case *shared:
		*m = maps.Clone(*m)
	}
	*shared = false
}

// ownVars makes the variables one's own and marks them as different.
func (s *state) ownVars() {
	if s.vars == nil || s.sharedVars {
		s.version = new(byte)
	}
	own(&s.vars, &s.sharedVars)
}

// drop removes a variable.
func (s *state) drop(name string) {
	if _, ok := s.vars[name]; ok {
		s.ownVars()
		delete(s.vars, name)
	}
}

// dropFunc removes a function.
func (s *state) dropFunc(name string) {
	if _, ok := s.funcs[name]; ok {
		own(&s.funcs, &s.sharedFuncs)
		delete(s.funcs, name)
	}
}

func (s *state) set(name string, v *variable) {
	s.ownVars()
	s.vars[name] = v
}

func (s *state) setAlias(name string, alts []string) {
	own(&s.aliases, &s.sharedAliases)
	s.aliases[name] = alts
}

func (s *state) setHash(name string, alts []string) {
	own(&s.hashed, &s.sharedHashed)
	s.hashed[name] = alts
}

func (s *state) setFD(fd string, t *text) {
	own(&s.fds, &s.sharedFDs)
	s.fds[fd] = t
}

func (s *state) addFunc(name string, f *function, strong bool) {
	own(&s.funcs, &s.sharedFuncs)
	if strong {
		s.funcs[name] = []*function{f}
		return
	}
	s.funcs[name] = append(slices.Clip(s.funcs[name]), f)
}

// isName reports whether s is a shell identifier.
func isName(s string) bool {
	if s == "" || (s[0] >= '0' && s[0] <= '9') {
		return false
	}
	return strings.IndexFunc(s, func(r rune) bool {
		return r != '_' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	}) < 0
}
