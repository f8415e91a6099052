package agentloop

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sandboxd/exec"
)

// privateHome is the directory that stands in for the home. It is one per
// workspace and uid, so that caches stay warm and no project's command can
// leave something behind for another project's.
type privateHome struct {
	path   string // HOME as the command sees it, links resolved
	named  string // the same as the caller names it
	source string // the directory on the host; empty: none could be made
}

// HomeSizePart names the gap about the size of the home. It is the same in every tier.
const HomeSizePart = "size of the private home"

// homeBytes caps the home where it must be a memory file system.
const homeBytes = 256 << 20

// chooseHome finds the place of the private home. A host without a mount view,
// and a home that is no usable place (none, /, the workspace or above it, a
// system directory), show it where it really is.
func (b *builder) chooseHome() error {
	part, err := "", error(nil)
	if !b.h.Bare {
		part, err = b.makePart("homes")
	}
	if err == nil && part != "" {
		b.home.source = part + "/" + homeKey(b.ws.Root, b.id.uid)
		if err = b.makeFor(b.home.source); err == nil {
			noteUse(b.home.source, b.ws.Root)
		}
	}
	if err != nil {
		b.home.source = ""
		b.gap("home", err.Error(), "none: HOME is empty at every start or missing")
	}
	b.home.path, b.home.named = b.home.source, b.home.source
	if !b.h.MountView {
		return nil
	}
	named := b.c.Home
	if b.id.uid != b.c.UID {
		named = b.id.account.home
	}
	if real, ok := b.mountableHome(named); ok {
		b.home.path, b.home.named = real, filepath.Clean(named)
	}
	return nil
}

// mountableHome reports where named can be covered by a mount of ours.
func (b *builder) mountableHome(named string) (string, bool) {
	if !filepath.IsAbs(named) {
		return "", false
	}
	real, links, err := b.r.resolve(named)
	if err != nil {
		if !isMissing(err) {
			return "", false
		}
		// Missing ("/nonexistent", or a container's passwd file): any name will
		// do that does not need a directory in a tree of the host.
		real, links = filepath.Clean(named), nil
	}
	if real == "/" || within(real, b.ws.Root) || withinAny(real, systemTrees) || withinAny(real, b.own) || real == "/tmp" || real == "/run" || real == "/var" {
		return "", false
	}
	b.set.addLinks(links)
	return real, true
}

// addHome puts the private home into the view.
func (b *builder) addHome() {
	if own, ok := b.set.byPath[b.home.path]; ok && b.home.path != b.home.source {
		// The user granted the home itself: it is what it is.
		b.home.path, b.home.named = b.home.source, b.home.source
		b.warn("%s is granted as a whole; HOME is the private %s", own.Path, orElse(b.home.source, "directory"))
	}
	if b.home.source == "" {
		b.memoryHome()
		return
	}
	e := exec.Entry{Path: b.home.path, Access: exec.ReadWrite, Reason: "private home"}
	if b.home.path != b.home.source {
		e.Source = b.home.source
	}
	b.set.demand(e)
	b.report.HomeSource = b.home.source
	b.gap(HomeSizePart, "it lies on disk, and the file system gives no quota",
		fmt.Sprintf("measured after the run; sbx clean removes what is above %d MiB", HomeCap>>20))
}

// fillHome makes in the private home the names of what is granted below the
// real home: mount points in a mount view, links to the real places without one.
func (b *builder) fillHome() error {
	if b.home.source == "" {
		return nil
	}
	root, err := os.OpenRoot(b.home.source)
	if err != nil {
		return &GrantError{Entry: "home " + b.home.source, Hint: "remove it: it is made anew", Err: unwrapPath(err)}
	}
	defer root.Close()
	p := homePlacer{root: root, dir: b.home.source, uid: b.id.uid, gid: b.id.gid, chown: b.id.uid != b.c.UID}
	for _, s := range append(b.homeStubs(), b.cargoStubs()...) {
		err := p.place(s)
		if errors.Is(err, os.ErrExist) {
			b.warn("~/%s is taken in the private home; the real one is not shown there", s.rel)
			if s.target == "" {
				delete(b.set.byPath, b.home.path+"/"+s.rel)
			}
		} else if err != nil {
			return &GrantError{Entry: "home " + b.home.source, Hint: homeHint(err), Err: err}
		}
	}
	if err := p.write(".config/git/config", b.gitConfig()); err != nil {
		b.warn("git's identity is not set: %v", err)
	}
	return nil
}

func homeHint(err error) string {
	if isFull(err) {
		return "the disk is full: free some space, or run sbx clean"
	}
	return "remove the directory: it is made anew"
}

// memoryHome is the home of a run without any private directory.
func (b *builder) memoryHome() {
	if !b.h.MountView {
		return
	}
	if b.home.path == "" {
		b.home.path, b.home.named = "/home/sandbox", "/home/sandbox"
	}
	b.set.demand(exec.Entry{Path: b.home.path, Kind: exec.Tmpfs, Bytes: homeBytes, Access: exec.ReadWrite, Reason: "private home, in memory"})
}

// stub is one name to make in the private home.
type stub struct {
	rel    string // below the home
	dir    bool
	target string // of a symbolic link; empty: a mount point
}

// homeStubs lists the names to make. Only the uppermost of nested entries needs
// one: what lies below is in the tree that is shown.
func (b *builder) homeStubs() []stub {
	// mounted: the private home lies over the real one, and entries below it
	// are mounted into it. Otherwise it is elsewhere and links to them.
	mounted := b.home.path != b.home.source
	real := b.realHome
	if mounted {
		real = b.home.path
	}
	if real == "" || b.id.uid != b.c.UID && !mounted || within(real, b.ws.Root) {
		return nil
	}
	var paths []string
	for path := range b.set.byPath {
		if within(path, real) {
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	if !mounted {
		paths = append(paths, b.denied...) // a link to what is refused stays refused
	}
	var stubs []stub
	for _, path := range paths {
		rel, ok := strings.CutPrefix(path, real+"/")
		if !ok || withinAny(path, b.own) {
			continue
		}
		if up, ok := b.set.above(path); ok && within(up.Path, real) && up.Path != real {
			continue
		}
		s := stub{rel: rel, dir: b.r.lstat(path).isDir()}
		if !mounted {
			s.target = path
		}
		stubs = append(stubs, s)
	}
	for path, target := range b.set.links {
		rel, ok := strings.CutPrefix(path, real+"/")
		if !ok {
			continue
		}
		up, covered := b.set.above(path)
		if covered && up.Path != real {
			continue // the tree that is shown holds the link itself
		}
		if !strings.HasPrefix(target, "/") && !mounted {
			target = filepath.Dir(path) + "/" + target
		}
		stubs = append(stubs, stub{rel: rel, target: target})
	}
	return stubs
}

// cargoStubs show the readable parts of a cargo home that lies elsewhere: CARGO_HOME
// is not passed on, since cargo writes beside them.
func (b *builder) cargoStubs() []stub {
	if b.cargo == "" || b.cargo == b.home.path+"/.cargo" || b.cargo == b.realHome+"/.cargo" && b.id.uid == b.c.UID {
		return nil
	}
	var stubs []stub
	for _, part := range cargoParts {
		path := join(b.cargo, part.name)
		if part.name != "bin" && b.r.lstat(path).err == nil && b.visible(path) && b.reachable(path) {
			stubs = append(stubs, stub{rel: ".cargo/" + part.name, target: path})
		}
	}
	return stubs
}

// gitConfig is the content of git's global settings in the private home.
func (b *builder) gitConfig() string {
	var safe []string
	if int(b.ws.node.uid) != b.id.uid {
		safe = append(safe, b.ws.Root)
	}
	return readGitIdentity(b.c.Environ, b.c.Home).file(safe)
}
