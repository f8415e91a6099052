package agentloop

import (
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"sandboxd/exec"
)

// etcPlan says what of a configuration tree (/etc) a command may read.
type etcPlan struct {
	// Deny are the existing paths that stay unreadable: named by the table, or
	// without the others' read bit.
	Deny []string
	// Read are the paths to grant one by one where the tree cannot be granted
	// with holes in it. None of them holds a Deny path; links are resolved.
	Read []string
	// Outside are link targets beyond the tree ("/run/systemd/resolve/...").
	Outside []string
	// Links are the links beyond the tree on the way to those targets.
	Links []exec.Link
	// Watch are the directories whose change makes the plan stale.
	Watch []string
}

// maxEtc bounds the entries looked at below /etc. Beyond it directories are not
// granted: an /etc of that size is not one we understand.
const maxEtc = 50_000

// scanEtc reads the tree once. granted are trees that are readable anyhow, so
// that links into them need nothing. owner says that the command may own what
// other users cannot read (root does): then directories that hold something
// unreadable are watched too. For others the mode bits hold by themselves.
// The scan takes milliseconds: see [planCache].
func scanEtc(root string, granted []string, owner bool) etcPlan {
	s := etcScan{root: root, granted: granted, owner: owner, left: maxEtc, r: newResolver(usualPaths)}
	s.plan.Watch = []string{root}
	s.dir(root)
	s.plan.Read = s.read(root)
	return s.plan
}

type etcScan struct {
	root    string
	granted []string
	owner   bool
	left    int
	r       *resolver
	plan    etcPlan
	kids    map[string][]string // directories that hold something denied
}

// dir judges the entries below path and reports whether all may be read.
func (s *etcScan) dir(path string) bool {
	names, err := readNames(path)
	if err != nil {
		return false
	}
	clean := true
	var children []string
	for _, name := range names {
		child := path + "/" + name
		if s.left--; s.left < 0 {
			return false
		}
		n := s.r.lstat(child)
		if !s.open(child, n) {
			s.plan.Deny = append(s.plan.Deny, child)
			clean = false
			continue
		}
		if n.isLink() {
			s.link(child)
			continue
		}
		children = append(children, child)
		if !n.isDir() {
			continue
		}
		if !s.dir(child) {
			clean = false
			if s.owner {
				s.plan.Watch = append(s.plan.Watch, child)
			}
		}
	}
	if !clean {
		if s.kids == nil {
			s.kids = make(map[string][]string)
		}
		s.kids[path] = children
	}
	return clean
}

// open reports whether every user may read the entry, and it is no secret.
func (s *etcScan) open(path string, n node) bool {
	if n.err != nil {
		return false
	}
	if _, secret := isEtcSecret(path[len(s.root)+1:]); secret {
		return false
	}
	switch n.mode & unix.S_IFMT {
	case unix.S_IFLNK:
		return true
	case unix.S_IFDIR:
		return n.mode&0o005 == 0o005
	case unix.S_IFREG:
		return n.mode&0o004 != 0
	}
	return false // sockets, pipes and devices are no configuration
}

// link follows a link that leaves the tree. What stays inside is judged there.
func (s *etcScan) link(path string) {
	real, links, err := s.r.resolve(path)
	if err != nil || within(real, s.root) || within(real, "/proc") || withinAny(real, s.granted) {
		return
	}
	n := s.r.lstat(real)
	if n.isFile() && n.mode&0o004 != 0 || n.isDir() && n.mode&0o005 == 0o005 && !inWideDir(real) {
		s.plan.Outside = append(s.plan.Outside, real)
		for _, l := range links {
			if !within(l.Path, s.root) && !withinAny(l.Path, s.granted) {
				s.plan.Links = append(s.plan.Links, l)
			}
		}
	}
}

// inWideDir keeps a link such as /etc/x -> /home from granting more than a
// package would mean by it.
func inWideDir(dir string) bool {
	return strings.Count(dir, "/") < 2 || within(dir, "/home") || within(dir, "/root")
}

// read lists the largest subtrees that hold nothing denied.
func (s *etcScan) read(path string) []string {
	children, split := s.kids[path]
	if !split {
		return []string{path}
	}
	var list []string
	for _, c := range children {
		list = append(list, s.read(c)...)
	}
	return list
}

// resolvConf is where the resolver's settings really are. Its target is often
// made by a service after the tree was scanned, so it is looked up every time.
func resolvConf(r *resolver, root string) (string, bool) {
	real, links, err := r.resolve(root + "/resolv.conf")
	if err != nil || len(links) == 0 || within(real, root) || !r.lstat(real).isFile() {
		return "", false
	}
	return real, true
}

// readNames lists a directory in name order, without the type of the entries.
func readNames(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		names = append(names, filepath.Base(e.Name()))
	}
	return names, err
}
