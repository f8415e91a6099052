package agentloop

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"sandboxd/policy"
	policypath "sandboxd/policy/path"
)

// A hook's command runs what files of the checkout say, and a checkout is where
// the confined commands write. So what runs is a copy, made from the one read
// that was compared with what a person trusted, in a place of ours; its path
// takes the place of the file's name in the command. Mounting the copy over the
// file would not do: a command that runs beside the hook can rename the
// directory around it.

// HookFile is a file of the checkout that a hook's command names.
type HookFile struct {
	Path    string // absolute, without links
	Content []byte
	mode    os.FileMode
	start   int // the text in the command that names it
	end     int
	whole   bool // that text is a word of its own, and can be quoted
}

const (
	// maxHookFile bounds a program that is read to be compared, in bytes.
	maxHookFile = 16 << 20
	// maxHookBases bounds the directories of the checkout that a command may
	// name, each of which its other words may begin at.
	maxHookBases = 16
	// maxHookNesting bounds words inside of quoted words.
	maxHookNesting = 3
)

// HookFiles returns the files of the checkout that the command of s names, with
// their content, for a person to trust.
func HookFiles(s HookSpec, env HookEnvironment) ([]HookFile, error) {
	if managed(s.Source) {
		return nil, nil // it takes none from there
	}
	p := newHookProgram(s, env)
	err := p.find()
	return p.files, err
}

// hookProgram is the search for what a command names.
type hookProgram struct {
	spec  HookSpec
	env   HookEnvironment
	root  string
	bases []string
	files []HookFile
	// outside are named files that do not belong to the checkout.
	outside []string
	// missing says which name leads nowhere.
	missing error
}

func newHookProgram(s HookSpec, env HookEnvironment) *hookProgram {
	p := &hookProgram{spec: s, env: env, root: env.Workspace, bases: []string{env.Workspace}}
	if managed(s.Source) {
		p.bases = []string{"/"} // where it starts
	}
	return p
}

// lookup knows the variables that a hook may name places with.
func (p *hookProgram) lookup(name string) (string, bool) {
	switch name {
	case "PWD":
		return p.bases[0], true
	case "CLAUDE_PROJECT_DIR", "GEMINI_PROJECT_DIR", "SANDBOXD_PROJECT_DIR":
		return p.root, true
	case "HOME":
		return p.env.Caller.Home, p.env.Caller.Home != ""
	}
	return "", false
}

// checkDynamic refuses a name that is computed when the hook runs: what it leads
// to cannot be compared with anything. The hooks of a checkout are held to this;
// who writes their own policy may.
func (p *hookProgram) checkDynamic() error {
	if !fromCheckout(p.spec.Source) {
		return nil
	}
	for _, w := range hookWords(p.spec.Command, p.lookup) {
		if w.dynamic && strings.Contains(w.value, "/") {
			return fmt.Errorf("%s may name a file that is only known when it runs", p.spec.Command[w.start:w.end])
		}
	}
	return nil
}

// fromCheckout reports whether a hook arrived with the project.
func fromCheckout(s policy.Source) bool {
	switch s.Kind {
	case policy.SourceManaged, policy.SourceUser, policy.SourceCLI:
		return false
	case policy.SourceCommand, policy.SourceSession, policy.SourceLocalProject, policy.SourceProject, policy.SourceDefault:
	}
	return true
}

// find looks at every word, again while words name more directories.
func (p *hookProgram) find() error {
	words := hookWords(p.spec.Command, p.lookup)
	for {
		known := len(p.bases)
		p.files, p.outside, p.missing = nil, nil, nil
		for _, w := range words {
			if err := p.word(w, w, 0); err != nil {
				return err
			}
		}
		if len(p.bases) == known {
			return p.missing
		}
		if len(p.bases) > maxHookBases {
			return errors.New("names too many directories of the project")
		}
	}
}

// textCommands take their arguments for texts and names, and run or read none.
var textCommands = map[string]bool{"echo": true, "printf": true, "test": true, "[": true, ":": true}

// word looks at one word, and at the words inside of it. outer is the word of
// the command that it stands in.
func (p *hookProgram) word(w, outer hookWord, depth int) error {
	if depth == 0 && w.value != w.head && textCommands[w.head] {
		return nil
	}
	if managed(p.spec.Source) && w.value == w.head && !strings.Contains(w.value, "/") {
		return nil // found in PATH, where nothing of the checkout is
	}
	whole := depth == 0
	found, err := p.candidate(w.value, outer, whole)
	if err != nil || found || depth == maxHookNesting {
		return err
	}
	cut := func(r rune) rune {
		if strings.ContainsRune("=:,", r) {
			return ' '
		}
		return r
	}
	inner := hookWords(strings.Map(cut, w.value), p.lookup)
	if len(inner) == 1 && inner[0].value == w.value {
		return nil
	}
	for _, in := range inner {
		if err := p.word(in, outer, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// candidate looks whether value names a file from any directory where the
// command may be then.
func (p *hookProgram) candidate(value string, outer hookWord, whole bool) (found bool, err error) {
	if value == "" || len(value) >= unix.PathMax || strings.ContainsRune(value, 0) {
		return false, nil
	}
	if rest, ok := cutHome(value); ok && p.env.Caller.Home != "" {
		value = p.env.Caller.Home + "/" + rest
	}
	bases := p.bases
	if filepath.IsAbs(value) {
		bases = []string{"/"}
	}
	var f HookFile
	var missing error
	for _, base := range bases {
		path := filepath.Join(base, value)
		if real, err := filepath.EvalSymlinks(path); err == nil && !within(path, p.root) && within(real, p.root) {
			path = real // by another name into the checkout
		}
		if !within(path, p.root) {
			if (filepath.IsAbs(value) || managed(p.spec.Source)) && isRegular(path) {
				p.outside = append(p.outside, path)
			}
			continue
		}
		here, isDir, err := p.open(path)
		switch {
		case errors.Is(err, unix.ENOENT):
			if missing == nil && named(value, path) {
				missing = fmt.Errorf("%s: %w", path, err)
			}
		case err != nil:
			return false, fmt.Errorf("%s: %w", path, err)
		case isDir:
			found = true
			if !slices.Contains(p.bases, path) {
				p.bases = append(p.bases, path)
			}
		case f.Path != "" && f.Path != path:
			return false, fmt.Errorf("%s may mean %s and %s; write its path from the top of the project", value, f.Path, path)
		default:
			f = here
		}
	}
	if f.Path == "" {
		if !found && p.missing == nil {
			p.missing = missing
		}
		return false, nil
	}
	f.start, f.end, f.whole = outer.start, outer.end, whole
	if !whole {
		text := p.spec.Command[outer.start:outer.end]
		at := strings.Index(text, value)
		if at < 0 || strings.Count(text, value) != 1 {
			return false, fmt.Errorf("%s is named inside of a quoted word; write the command without the quotes", f.Path)
		}
		f.start, f.end = outer.start+at, outer.start+at+len(value)
	}
	p.files = append(p.files, f)
	return true, nil
}

// named reports whether a word that leads nowhere is meant as a file: a guard
// that was removed must not pass for a word that means nothing.
func named(value, path string) bool {
	if filepath.IsAbs(value) {
		return true
	}
	if strings.HasPrefix(value, "./") || strings.HasPrefix(value, "../") {
		return !strings.ContainsAny(value, "*?[")
	}
	if strings.ContainsAny(value, " \t\n\"'\\$`*?[]{}()<>|&;") {
		return false
	}
	st, err := os.Lstat(filepath.Dir(path))
	return err == nil && st.IsDir() && strings.Contains(value, "/")
}

func isRegular(path string) bool {
	st, err := os.Stat(path)
	return err == nil && st.Mode().IsRegular()
}

var errHookLink = errors.New("is reached by a symbolic link, which could lead elsewhere when it runs; name the file itself")

// open reads a file of the checkout without following a link.
func (p *hookProgram) open(path string) (f HookFile, isDir bool, err error) {
	rel, err := filepath.Rel(p.root, path)
	if err != nil {
		return f, false, err
	}
	dir, err := policypath.OpenNamed(p.root, openDirFlags&^unix.O_NOFOLLOW)
	if err != nil {
		return f, false, err
	}
	defer func() { unix.Close(dir) }()
	if rel == "." {
		return f, true, nil
	}
	parts := strings.Split(rel, "/")
	for _, name := range parts[:len(parts)-1] {
		next, err := openDirAt(dir, name)
		if err != nil {
			return f, false, linkOr(dir, name, err)
		}
		unix.Close(dir)
		dir = next
	}
	name := parts[len(parts)-1]
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return f, false, linkOr(dir, name, err)
	}
	file := os.NewFile(uintptr(fd), path)
	defer file.Close()
	st, err := file.Stat()
	switch {
	case err != nil:
		return f, false, err
	case st.IsDir():
		return f, true, nil
	case !st.Mode().IsRegular():
		return f, false, errors.New("is not a regular file")
	}
	content, err := io.ReadAll(io.LimitReader(file, maxHookFile+1))
	if err == nil && len(content) > maxHookFile {
		err = fmt.Errorf("is larger than %d MiB", maxHookFile>>20)
	}
	mode := os.FileMode(0o444)
	if st.Mode()&0o111 != 0 {
		mode = 0o555
	}
	return HookFile{Path: path, Content: content, mode: mode}, false, err
}

// linkOr says that name is a link, or what else the error means. A file where a
// directory should be is a name that leads nowhere.
func linkOr(dir int, name string, err error) error {
	var st unix.Stat_t
	if unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil && st.Mode&unix.S_IFMT == unix.S_IFLNK {
		return errHookLink
	}
	if errors.Is(err, unix.ENOTDIR) {
		return unix.ENOENT
	}
	return err
}

// errNotTrusted reports a program of the checkout that nobody trusted as it is.
var errNotTrusted = errors.New("its content is not what was trusted (or never was); look at it, then: sbx trust")

// checkTrust compares what was read with what a person trusted.
func (p *hookProgram) checkTrust() error {
	for _, f := range p.files {
		if p.env.Trusts == nil || !p.env.Trusts(f.Path, f.Content) {
			return fmt.Errorf("%s: %w", f.Path, errNotTrusted)
		}
	}
	return nil
}
