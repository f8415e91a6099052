package agentloop

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"

	"golang.org/x/sys/unix"

	"sandboxd/exec"
)

// toolchains is what a command needs to run the caller's own tools.
type toolchains struct {
	roots []Line   // readable and executable trees
	hide  []string // secrets below them
	links []exec.Link
	warn  []string
}

// toolQuery is everything a scan for toolchains depends on, besides the file
// system.
type toolQuery struct {
	path    string            // PATH
	home    string            // real; empty: none
	vars    map[string]string // toolVars that are set
	cargo   string            // cargo's home
	gopath  string
	untrust []string // trees a command may have written: the workspace, our homes
	system  []string // trees that are granted anyhow
}

func (q toolQuery) key() string {
	var b strings.Builder
	for _, s := range []string{q.path, q.home, q.cargo, q.gopath, strings.Join(q.untrust, ":"), strings.Join(q.system, ":")} {
		b.WriteString(s + "\n")
	}
	for _, name := range toolVars {
		if v, ok := q.vars[name]; ok {
			b.WriteString(name + "=" + v + "\n")
		}
	}
	return b.String()
}

// tools returns what the query finds, from the cache where nothing changed.
func (c planCache) tools(q toolQuery) toolchains {
	p := c.load("tools", q.key(), func() plan { return scanTools(q) })
	t := toolchains{hide: p.tagged("hide"), warn: p.tagged("warn")}
	for _, l := range p.lines {
		switch l.tag {
		case "root":
			t.roots = append(t.roots, Line{Path: l.path, Access: exec.ReadOnly, Reason: l.arg})
		case "link":
			t.links = append(t.links, exec.Link{Path: l.path, Target: l.arg})
		}
	}
	return t
}

// Bounds of a scan: how far links are followed from tool to tool (a script of
// pipx names a venv's python, which is a link to the python of pyenv), and how
// many entries of one directory are looked at.
const (
	toolDepth   = 3
	toolEntries = 8192
)

type toolScan struct {
	toolQuery
	r       *resolver
	roots   map[string]string // path: reason
	links   map[string]string
	scanned map[string]bool
	plan    plan
}

func scanTools(q toolQuery) plan {
	s := &toolScan{toolQuery: q, r: newResolver(usualPaths), roots: map[string]string{}, links: map[string]string{}, scanned: map[string]bool{}}
	for _, dir := range filepath.SplitList(q.path) {
		s.pathDir(dir)
	}
	s.addCargo()
	for _, name := range toolVars {
		if q.vars[name] == "" {
			continue
		}
		if dir, links, err := s.r.resolve(q.vars[name]); err == nil && s.foreign(dir) && s.r.lstat(dir).isDir() && s.believed(dir, links) {
			s.addLinks(links)
			s.addRoot(dir, dir, "named by "+name)
		}
	}
	return s.result()
}

// foreign reports whether path lies outside of what is granted anyhow and of
// what a command may have written.
func (s *toolScan) foreign(path string) bool {
	return path != "" && !withinAny(path, s.system) && !withinAny(path, s.untrust)
}

// believed reports whether the way to path may be followed: through links that
// a command may have made it may only lead to a tool store.
func (s *toolScan) believed(path string, links []exec.Link) bool {
	for _, l := range links {
		if withinAny(l.Path, s.untrust) {
			return s.inStore(path)
		}
	}
	return true
}

func (s *toolScan) pathDir(dir string) {
	if !filepath.IsAbs(dir) {
		return
	}
	s.plan.watch = append(s.plan.watch, filepath.Clean(dir))
	real, links, err := s.r.resolve(dir)
	if err != nil || !s.r.lstat(real).isDir() {
		return
	}
	if s.foreign(real) {
		if !s.believed(real, links) {
			return
		}
		s.addLinks(links)
		s.addRoot(real, s.rootOf(real), "on PATH")
		for _, c := range companions {
			if s.home != "" && real == join(s.home, c.onPath) {
				if also := join(s.home, c.also); s.r.lstat(also).isDir() {
					s.addRoot(also, also, c.reason)
				}
			}
		}
	}
	s.scan(real, !withinAny(real, s.untrust), 0)
}

// scan looks for tools that the entries of dir lead to.
func (s *toolScan) scan(dir string, trusted bool, depth int) {
	if s.scanned[dir] || depth > toolDepth {
		return
	}
	s.scanned[dir] = true
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) > toolEntries {
		return
	}
	system := withinAny(dir, s.system)
	for _, e := range entries {
		path := join(dir, e.Name())
		switch {
		case e.Type()&os.ModeSymlink != 0:
			s.target(path, trusted, depth)
		case e.Type().IsRegular() && !system:
			if interpreter := s.interpreter(path); interpreter != "" {
				s.target(interpreter, trusted, depth)
			}
		}
	}
}

// interpreter is the program in the first line of an executable script.
func (s *toolScan) interpreter(path string) string {
	if s.r.lstat(path).mode&0o111 == 0 {
		return ""
	}
	head, err := readHead(path, scriptHead)
	if err != nil {
		return ""
	}
	program, _ := shebang(head)
	if !filepath.IsAbs(program) {
		return ""
	}
	return filepath.Clean(program)
}

// target grants the tool that holds the program at path.
func (s *toolScan) target(path string, trusted bool, depth int) {
	real, links, err := s.r.resolve(path)
	if err != nil || !s.foreign(real) || !s.r.lstat(real).isFile() || s.r.lstat(real).mode&0o111 == 0 {
		return
	}
	dir := filepath.Dir(real)
	if !trusted && !s.inStore(dir) || !s.believed(dir, links) {
		return
	}
	s.addLinks(links)
	s.plan.watch = append(s.plan.watch, dir)
	s.addRoot(real, s.rootOfFile(real), "linked from PATH")
	s.scan(dir, trusted, depth+1)
}

func (s *toolScan) inStore(dir string) bool {
	if s.home == "" {
		return false
	}
	for _, store := range toolStores {
		if rest, ok := strings.CutPrefix(dir, s.home+"/"+store+"/"); ok && rest != "" {
			return true
		}
	}
	return false
}

// rootOf is the tool's root for a directory on PATH.
func (s *toolScan) rootOf(dir string) string {
	if parent := filepath.Dir(dir); slices.Contains(binDirs, filepath.Base(dir)) && !s.wide(parent) && parent != s.gopath && s.installed(parent) {
		return parent
	}
	return dir
}

// prefixDirs are what an installed tool has beside its programs (hier(7)).
var prefixDirs = []string{"lib", "lib64", "libexec", "share", "pkg"}

// installed reports whether dir looks like the root of an installed tool. Below
// a home a directory with a bin is often somebody's project, whose other files
// are nobody's business: what is not hidden, and no version manager's, must have
// a tool's shape and be no checkout.
func (s *toolScan) installed(dir string) bool {
	rel, ok := strings.CutPrefix(dir, s.home+"/")
	if s.home == "" || !ok || strings.HasPrefix(rel, ".") || s.inStore(dir+"/bin") {
		return true
	}
	if s.r.lstat(join(dir, ".git")).err == nil {
		return false
	}
	return slices.ContainsFunc(prefixDirs, func(name string) bool { return s.r.lstat(join(dir, name)).isDir() })
}

// rootOfFile is the tool's root for a program that a link or script names. In a
// directory that is not made for programs only the file itself is granted,
// unless a tool keeps it in a hidden directory of its own.
func (s *toolScan) rootOfFile(file string) string {
	dir := filepath.Dir(file)
	if before, _, ok := strings.Cut(file, "/node_modules/"); ok {
		return before + "/node_modules"
	}
	if slices.Contains(binDirs, filepath.Base(dir)) {
		return s.rootOf(dir)
	}
	if s.home != "" && strings.HasPrefix(dir, s.home+"/.") && !s.wide(dir) {
		return dir
	}
	return file
}

// wide reports whether dir holds more than one tool.
func (s *toolScan) wide(dir string) bool {
	if strings.Count(dir, "/") < 2 || filepath.Dir(dir) == "/home" {
		return true
	}
	if s.home == "" {
		return false
	}
	if within(s.home, dir) {
		return true
	}
	rel, ok := strings.CutPrefix(dir, s.home+"/")
	return ok && slices.Contains(wideDirs, rel)
}

// addRoot grants root for the sake of wanted (a directory or program in it),
// or only wanted where root holds secrets, or nothing.
func (s *toolScan) addRoot(wanted, root, reason string) {
	if root == s.cargo || root != wanted && within(root, s.cargo) && s.cargo != "" {
		root = wanted
	}
	if s.wide(root) && s.r.lstat(root).isDir() || withinAny(root, s.untrust) {
		s.warn(root, "holds more than a tool")
		return
	}
	for _, own := range s.untrust {
		if within(own, root) && root != wanted {
			root = wanted
		}
	}
	if secret, ok := homeSecretWithin(s.r, s.home, root); ok {
		if _, inside := homeSecretWithin(s.r, s.home, wanted); inside {
			s.warn(wanted, "holds "+secret)
			return
		}
		root = wanted
	}
	for _, r := range s.sorted() {
		if within(root, r) {
			return
		}
		if within(r, root) {
			delete(s.roots, r)
		}
	}
	s.roots[root] = reason
}

func (s *toolScan) warn(path, why string) {
	s.plan.lines = append(s.plan.lines, planLine{tag: "warn", path: fmt.Sprintf("%s is on PATH but %s; it is not granted", path, why)})
}

func (s *toolScan) sorted() []string {
	list := make([]string, 0, len(s.roots))
	for r := range s.roots {
		list = append(list, r)
	}
	sort.Strings(list)
	return list
}

// addCargo grants the parts of cargo's home that a build reads.
func (s *toolScan) addCargo() {
	dir, ok := s.r.realDir(s.cargo)
	if s.cargo == "" || !ok || !s.foreign(dir) {
		return
	}
	s.plan.watch = append(s.plan.watch, dir)
	for _, part := range cargoParts {
		path := join(dir, part.name)
		n := s.r.lstat(path)
		if n.err != nil || n.isLink() {
			continue
		}
		if n.isFile() {
			text, err := readSmall(path)
			if err != nil || looksSecret(text) || strings.Contains(text, "token") {
				continue
			}
		}
		s.roots[path] = part.reason
	}
}

func (s *toolScan) addLinks(links []exec.Link) {
	for _, l := range links {
		if !withinAny(l.Path, s.untrust) {
			s.links[l.Path] = l.Target
		}
	}
}

// result turns the scan into a plan, in a stable order.
func (s *toolScan) result() plan {
	p := s.plan
	for _, root := range s.sorted() {
		if !s.r.lstat(root).isDir() {
			p.lines = append(p.lines, planLine{"root", root, s.roots[root]})
			continue
		}
		p.watch = append(p.watch, root)
		hide, err := s.hidden(root)
		if err != nil && !errors.Is(err, unix.EACCES) {
			continue // not granted: it may hold what nobody hides
		}
		p.lines = append(p.lines, planLine{"root", root, s.roots[root]})
		for _, path := range hide {
			p.lines = append(p.lines, planLine{tag: "hide", path: path})
		}
	}
	names := make([]string, 0, len(s.links))
	for l := range s.links {
		names = append(names, l)
	}
	sort.Strings(names)
	for _, l := range names {
		p.lines = append(p.lines, planLine{"link", l, s.links[l]})
	}
	sort.Strings(p.watch)
	p.watch = slices.Compact(p.watch)
	return p
}

// hidden lists secrets at the top of a tool's root, and the settings of its
// checkout where they carry a credential.
func (s *toolScan) hidden(root string) ([]string, error) {
	names, err := readNames(root)
	if err != nil {
		return nil, err
	}
	var list []string
	for _, name := range names {
		if path := join(root, name); isRootSecret(name) && s.r.lstat(path).err == nil {
			list = append(list, path)
		}
	}
	config := root + "/.git/config"
	if text, err := readSmall(config); err == nil && (looksSecret(text) || strings.Contains(strings.ToLower(text), "extraheader")) {
		list = append(list, config)
	}
	return list, nil
}
