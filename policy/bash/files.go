package bash

import (
	"slices"
	"strings"
)

// file is a file that the script itself wrote, linked or copied.
type file struct {
	// contents are what it may hold, one per time that it was opened.
	contents []*text
	// target is where it points when it is a symbolic link.
	target string
	// built is true for the output of a compiler whose input was there before.
	built bool
}

// pendingProc is a process substitution >(…) that runs when its input is known.
type pendingProc struct {
	run  func(in *text)
	done bool
}

// procPrefix starts the invented names of process substitutions.
const procPrefix = "/dev/fd/p"

func (a *analyzer) isProc(p string) bool { return strings.HasPrefix(p, procPrefix) }

// absolute joins a path to a directory without cleaning it. An unknown directory
// leaves the path relative.
func absolute(dir, p string) string {
	if strings.HasPrefix(p, "/") || dir == "" || startsUnknown(p) && !onlyNames(p) {
		return p
	}
	if p == "" || p == "." {
		return dir
	}
	if dir == "/" {
		return "/" + p
	}
	return dir + "/" + p
}

// clean resolves "." and ".." as text.
func clean(p string) string {
	if !strings.Contains(p, "/.") && !strings.HasPrefix(p, ".") && !strings.Contains(p, "//") && !strings.HasSuffix(p, "/") {
		return p
	}
	rooted := strings.HasPrefix(p, "/")
	var out []string
	for _, c := range strings.Split(p, "/") {
		switch c {
		case "", ".":
		case "..":
			if len(out) > 0 && out[len(out)-1] != ".." {
				out = out[:len(out)-1]
			} else if !rooted {
				out = append(out, c)
			}
		default:
			out = append(out, c)
		}
	}
	s := strings.Join(out, "/")
	if rooted {
		return "/" + s
	}
	if s == "" {
		return "."
	}
	return s
}

// maxPath is the length in bytes of the longest path that the kernel takes
// (PATH_MAX, path_resolution(7)). A longer one can only be reached in steps.
const maxPath = 4096

// resolve follows the symbolic links that are known: those the script made, and
// those Options.Readlink knows. The last component is followed with last.
func (a *analyzer) resolve(p string, last bool) string {
	a.spend(len(p) / 64)
	if len(p) > maxPath {
		a.bound("path")
		return p
	}
	if a.links == 0 && a.opts.Readlink == nil {
		return p
	}
	for range 16 {
		next, changed := a.resolveOnce(p, last)
		if !changed {
			return next
		}
		p = next
	}
	return p
}

func (a *analyzer) resolveOnce(p string, last bool) (string, bool) {
	for i := 1; i <= len(p); i++ {
		if i < len(p) && p[i] != '/' {
			continue
		}
		if i == len(p) && !last {
			break
		}
		head := clean(p[:i])
		t, ok := a.link(head)
		if !ok {
			continue
		}
		if !strings.HasPrefix(t, "/") {
			dir, _ := cutLast(head)
			t = absolute(dir, t)
		}
		return t + p[i:], true
	}
	return p, false
}

func (a *analyzer) link(p string) (string, bool) {
	if f := a.files[p]; f != nil && f.target != "" {
		return f.target, true
	}
	if a.opts.Readlink != nil && strings.HasPrefix(p, "/") && !hasHole(p) {
		return a.opts.Readlink(p)
	}
	return "", false
}

// cutLast splits off the last component.
func cutLast(p string) (dir, name string) {
	i := strings.LastIndexByte(p, '/')
	if i < 0 {
		return "", p
	}
	if i == 0 {
		return "/", p[1:]
	}
	return p[:i], p[i+1:]
}

// file returns the entry of a path, made when it is not there.
func (a *analyzer) file(p string) *file {
	f := a.files[p]
	if f == nil {
		if a.files == nil {
			a.files = make(map[string]*file)
		}
		if len(a.files) > 4096 {
			a.bound("files")
			return &file{}
		}
		f = &file{}
		a.files[p] = f
		if a.bases == nil {
			a.bases = make(map[string]bool)
		}
		a.bases[baseName(p)] = true
	}
	return f
}

// open prepares a file for writing and returns the stream that fills it.
func (a *analyzer) open(st *state, p string, appends bool) *text {
	t := &text{}
	if n, ok := a.namesDescriptor(st, p); ok || isDevice(p) {
		if ok {
			return st.output(n)
		}
		return nil
	}
	if hasHole(p) && !onlyNames(p) {
		a.keepMade(t)
		return t
	}
	for _, d := range st.dirs {
		key := clean(a.resolve(absolute(d, p), true))
		f := a.file(key)
		if a.wasMissed(key) {
			a.stale = true
		}
		if appends {
			if len(f.contents) > 0 {
				t.copyFrom(f.contents[len(f.contents)-1])
			} else {
				t.alts = []string{"", worldText}
			}
		}
		if len(f.contents) < 32 {
			f.contents = append(f.contents, t)
		} else {
			f.contents[31] = &text{alts: []string{anyText}}
		}
	}
	return t
}

func (a *analyzer) keepMade(t *text) {
	if len(a.made) < 64 {
		a.made = append(a.made, t)
	}
}

// put stores a content in a file.
func (a *analyzer) put(st *state, p string, t *text) {
	o := a.open(st, p, false)
	o.copyFrom(t)
}

// wrote records that a program wrote something we do not know.
func (a *analyzer) wrote(st *state, p string) {
	if o := a.open(st, p, false); o != nil {
		o.write([]string{anyText})
	}
}

// content is what a file holds: what the script put there, or the unknown that
// was there before. Nil means nothing.
func (a *analyzer) content(st *state, p string) *text {
	if t, ok := a.stream(st, p); ok {
		return t
	}
	if p == "/dev/null" {
		return newText("")
	}
	t := &text{touched: false}
	found := false
	for _, d := range st.dirs {
		abs := absolute(d, p)
		key := clean(a.resolve(abs, true))
		if f := a.files[key]; f != nil && len(f.contents) > 0 {
			for _, c := range f.contents {
				t.alts = union(t.alts, c.alts)
				t.from = append(t.from, c.from...)
				t.pure = c.pure
			}
			found = true
		}
	}
	if !found {
		a.written(st, p)
		hole := worldText
		t.pure = true
		if hasHole(p) && !onlyNames(p) && len(a.made) > 0 {
			hole, t.pure = anyText, false
		}
		t.alts = []string{hole}
		t.from = []string{p}
		for _, m := range a.made {
			t.alts = union(t.alts, m.alts)
			t.from = append(t.from, m.from...)
			t.pure = false
		}
	}
	if len(t.from) > maxAlts {
		t.from = t.from[:maxAlts]
	}
	return t
}

// mayBeFile reports whether a path may name a file of the script: a quick look
// at its last component.
func (a *analyzer) mayBeFile(p string) bool {
	if a.links > 0 || a.opts.Readlink != nil {
		return true
	}
	base := baseName(p)
	return base == "" || base == "." || base == ".." || a.bases[base]
}

// setLink makes a file of the script a symbolic link.
func (a *analyzer) setLink(p, target string) {
	a.file(p).target = target
	a.links++
}

// written returns the entry of a file that the script made.
func (a *analyzer) written(st *state, p string) *file {
	if len(a.files) == 0 && !a.concurrent || !a.mayBeFile(p) && !a.concurrent {
		return nil
	}
	linked := a.links > 0 || a.opts.Readlink != nil
	if linked || len(a.files) > 0 && a.mayBeFile(p) {
		for _, d := range st.dirs {
			key := clean(a.resolve(absolute(d, p), true))
			if f := a.files[key]; f != nil && len(f.contents) > 0 {
				return f
			}
			a.miss(key)
		}
	}
	if !linked {
		a.miss(p)
	}
	return nil
}

// miss records that a file was looked for which the script had not written. Its
// base name is enough: another file of that name costs one more reading.
func (a *analyzer) miss(p string) {
	if !a.concurrent || len(a.missed) >= 1000 {
		return
	}
	base := baseName(p)
	switch base {
	case "", ".", "..":
		base = anyName
	}
	if !slices.Contains(a.missed, base) {
		a.missed = append(a.missed, base)
	}
}

// anyName in missed stands for any base name.
const anyName = "/"

// wasMissed reports whether a file that is written now may have been looked for
// before. Through a link of the script it may have had another name.
func (a *analyzer) wasMissed(key string) bool {
	if len(a.missed) == 0 {
		return false
	}
	return a.links > 0 || len(a.missed) >= 1000 || slices.Contains(a.missed, baseName(key)) || slices.Contains(a.missed, anyName)
}

// madeMatching lists files of the script that a pattern matches.
func (a *analyzer) madeMatching(st *state, pat string) []string {
	if len(a.files) == 0 {
		return nil
	}
	match := matcher(pat)
	if match == nil {
		return nil
	}
	var out []string
	for p := range a.files {
		for _, d := range st.dirs {
			rel := p
			if !strings.HasPrefix(pat, "/") && d != "" {
				rel = strings.TrimPrefix(p, strings.TrimSuffix(d, "/")+"/")
			}
			if match(rel) && sameDepth(pat, rel) {
				out = append(out, rel)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// sameDepth reports whether a name may match a pattern as far as slashes go: a
// star matches none, only "**" and unknown text may.
func sameDepth(pat, name string) bool {
	for _, s := range [...]string{pat, name} {
		if !onlyNames(s) || strings.Contains(s, belowText) || strings.Contains(s, "**") {
			return true
		}
	}
	return strings.Count(pat, "/") == strings.Count(name, "/")
}

// fileNames lists the files of the script in a fixed order.
func (a *analyzer) fileNames() []string {
	out := make([]string, 0, len(a.files))
	for p := range a.files {
		out = append(out, p)
	}
	slices.Sort(out)
	return out
}

// byName lists the files of the script with this base name.
func (a *analyzer) byName(name string) []string {
	var out []string
	for p := range a.files {
		if baseName(p) == name {
			out = append(out, p)
		}
	}
	slices.Sort(out)
	return out
}
