package bash

import (
	"slices"
	"strings"
)

// cd follows cd; the old directory stays possible until success is certain.
func (a *analyzer) cd(v *invocation, args []Word) {
	physical := false
	for len(args) > 0 && strings.HasPrefix(args[0].Text, "-") && len(args[0].Text) > 1 {
		s := args[0].Text
		args = args[1:]
		if s == "--" {
			break
		}
		physical = physical || strings.ContainsRune(s, 'P')
	}
	st := v.st
	if len(args) == 0 {
		if home := a.lookup(st, "HOME"); len(home.alts) > 0 {
			a.enterDirs(st, home.alts, physical)
		}
		return
	}
	w := args[0]
	if w.Text == "-" {
		old := a.lookup(st, "OLDPWD")
		a.enterDirs(st, old.alts, physical)
		return
	}
	targets := []string{w.Text}
	if w.Glob {
		targets = a.globTexts(st, w)
	}
	if !strings.HasPrefix(w.Text, "/") && !strings.HasPrefix(w.Text, ".") {
		for _, list := range a.envValue(v, "CDPATH") {
			for dir := range strings.SplitSeq(list, ":") {
				if hasHole(dir) {
					targets = append(targets, "/"+worldText)
				} else if dir != "" {
					targets = append(targets, strings.TrimSuffix(dir, "/")+"/"+w.Text)
				}
			}
		}
	}
	a.enterDirs(st, targets, physical)
}

// enterDirs makes the working directory one of targets.
func (a *analyzer) enterDirs(st *state, targets []string, physical bool) {
	old := st.dirs
	var dirs []string
	certain := true
	for _, t := range targets {
		for _, d := range old {
			n := a.joinDir(d, t, physical)
			dirs = unionDirs(dirs, []string{n})
			certain = certain && a.surelyThere(n)
		}
	}
	if len(dirs) == 0 {
		return
	}
	if !certain {
		st.before = unionDirs(st.before, old)
	}
	st.dirs = dirs
	st.set("OLDPWD", &variable{alts: dirTexts(old)})
	st.drop("PWD")
}

// joinDir resolves a directory: as text by default, as Bash does; with -P the
// links are the kernel's.
func (a *analyzer) joinDir(dir, to string, physical bool) string {
	if hasHole(to) && !onlyNames(to) {
		return ""
	}
	p := absolute(dir, to)
	if !strings.HasPrefix(p, "/") && dir == "" {
		return ""
	}
	if hasHole(p) {
		return ""
	}
	if physical {
		return clean(a.resolve(p, true))
	}
	return clean(p)
}

// surelyThere reports whether a directory is known to exist.
func (a *analyzer) surelyThere(p string) bool {
	if p == "/" || p == a.opts.Home || p == a.opts.Cwd {
		return p != ""
	}
	if a.opts.Exists != nil && p != "" {
		return a.opts.Exists(p)
	}
	return false
}

func (a *analyzer) changeDir(st *state, to string) {
	a.enterDirs(st, []string{to}, false)
	st.before = nil
}

func (a *analyzer) pushd(v *invocation, args []Word) {
	for len(args) > 0 && strings.HasPrefix(args[0].Text, "-") && args[0].Text != "-" {
		if args[0].Text == "-n" {
			return
		}
		args = args[1:]
	}
	st := v.st
	old := st.dirs
	if len(args) == 0 || strings.HasPrefix(args[0].Text, "+") {
		if len(st.pushed) > 0 {
			top := st.pushed[len(st.pushed)-1]
			st.pushed = append(slices.Clip(st.pushed[:len(st.pushed)-1]), old)
			st.before = unionDirs(st.before, old)
			st.dirs = top
		}
		return
	}
	st.pushed = append(slices.Clip(st.pushed), old)
	a.enterDirs(st, []string{args[0].Text}, false)
}

func (a *analyzer) popd(v *invocation) {
	st := v.st
	if n := len(st.pushed); n > 0 {
		st.before = nil
		st.dirs = st.pushed[n-1]
		st.pushed = st.pushed[:n-1]
	}
}
