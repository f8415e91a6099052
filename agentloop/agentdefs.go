package agentloop

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"sandboxd/policy"
	policypath "sandboxd/policy/path"
)

// checkoutAgents are the directories of the workspace that hold definitions, the
// stronger first.
var checkoutAgents = []string{".sandboxd/agents", ".claude/agents"}

// maxAgentDefs bounds the files of one directory that are looked at.
const maxAgentDefs = 100

// userAgentDirs are the directories of the user's own definitions.
func userAgentDirs(c Caller) []string {
	var dirs []string
	if c.ConfigDir != "" {
		dirs = append(dirs, filepath.Join(c.ConfigDir, "agents"))
	}
	if c.Home != "" {
		dirs = append(dirs, filepath.Join(c.Home, ".claude", "agents"))
	}
	return dirs
}

// AgentDefs returns the kinds of sub-agents of a session, by name, and what is
// wrong with files that cannot be used, as *[AgentDefError]. They are read with the
// user's rights. Of two of one name the user's own counts, then one of the checkout
// that a person trusted, then the built-in one, then one of the checkout. A file
// that the policy denies to read is not there.
func (s *Session) AgentDefs(ctx context.Context) ([]AgentDef, []error) {
	var found []AgentDef
	var problems []error
	trusts := s.inForce().TrustsHook
	err := s.asUser(func() {
		read := func(root, dir string, checkout bool) {
			defs, errs := agentDefsIn(root, dir, checkout, trusts)
			found, problems = append(found, defs...), append(problems, errs...)
		}
		for _, dir := range userAgentDirs(s.caller()) {
			read(dir, ".", false)
		}
		if s.workspace != "" {
			for _, dir := range checkoutAgents {
				read(s.workspace, dir, true)
			}
		}
	})
	if err != nil {
		problems = append(problems, err)
	}
	var list []AgentDef
	found = append(found, builtinAgents()...)
	slices.SortStableFunc(found, func(a, b AgentDef) int { return cmp.Compare(a.rank(), b.rank()) })
	for _, d := range found {
		if slices.ContainsFunc(list, func(have AgentDef) bool { return have.Name == d.Name }) {
			continue
		}
		if d.File != "" && !s.local() {
			v, _ := s.Check(ctx, policy.Call{Tool: "read_file", Args: policy.Args{"file_path": d.File}})
			if v.Verdict == policy.Deny {
				continue
			}
		}
		list = append(list, d)
	}
	slices.SortFunc(list, func(a, b AgentDef) int { return cmp.Compare(a.Name, b.Name) })
	return list, problems
}

// CheckoutAgentDefs returns the definitions that arrived with a checkout, with the
// rights of this process, for whoever asks a person to trust one.
func CheckoutAgentDefs(workspace string) (defs []AgentDef) {
	for _, dir := range checkoutAgents {
		found, _ := agentDefsIn(workspace, dir, true, nil)
		defs = append(defs, found...)
	}
	return defs
}

// rank orders definitions of one name.
func (d AgentDef) rank() int {
	switch {
	case d.File == "":
		return 2
	case !d.Checkout:
		return 0
	case d.Trusted:
		return 1
	}
	return 3
}

// agentDef returns the definition of a name. A file that cannot be used is the
// error for whoever asks for the name that its file has.
func (s *Session) agentDef(ctx context.Context, name string) (AgentDef, error) {
	defs, problems := s.AgentDefs(ctx)
	var names []string
	for _, d := range defs {
		if d.sameAgent(name) {
			return d, nil
		}
		names = append(names, d.Name)
	}
	for _, p := range problems {
		if bad, ok := errors.AsType[*AgentDefError](p); ok && strings.TrimSuffix(filepath.Base(bad.File), ".md") == name {
			return AgentDef{}, bad
		}
	}
	return AgentDef{}, fmt.Errorf("no sub-agent of type %q; there are: %s", firstCharacters(name, maxAgentName), strings.Join(names, ", "))
}

// agentDefsIn reads the definitions of one directory. In a checkout no link is
// followed: it would make a prompt of any file of the user's.
func agentDefsIn(root, dir string, checkout bool, trusts func(string, []byte) bool) (defs []AgentDef, problems []error) {
	how := unix.OpenHow{Flags: unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC}
	if checkout {
		how.Resolve = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS
	}
	d, err := openBelow(root, dir, how)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			problems = append(problems, &AgentDefError{File: filepath.Join(root, dir), Text: err.Error()})
		}
		return nil, problems
	}
	defer d.Close()
	names, err := d.Readdirnames(10 * maxAgentDefs)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, []error{&AgentDefError{File: filepath.Join(root, dir), Text: err.Error()}}
	}
	slices.Sort(names)
	names = slices.DeleteFunc(names, func(n string) bool { return !strings.HasSuffix(n, ".md") || strings.HasPrefix(n, ".") })
	if len(names) > maxAgentDefs {
		problems = append(problems, &AgentDefError{File: filepath.Join(root, dir), Text: fmt.Sprintf("more than %d definitions: the rest is not read", maxAgentDefs)})
		names = names[:maxAgentDefs]
	}
	for _, name := range names {
		file := filepath.Join(root, dir, name)
		text, err := readBelow(d, name, how.Resolve)
		if err != nil {
			problems = append(problems, &AgentDefError{File: file, Text: err.Error()})
			continue
		}
		def, err := ParseAgentDef(file, text)
		if err != nil {
			problems = append(problems, err)
			continue
		}
		def.Checkout, def.content = checkout, text
		def.Trusted = !checkout || trusts != nil && trusts(file, text)
		defs = append(defs, def)
	}
	return defs, problems
}

func openBelow(root, dir string, how unix.OpenHow) (*os.File, error) {
	top, err := policypath.OpenNamed(root, unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return nil, err
	}
	defer unix.Close(top)
	fd, err := policypath.OpenNamedAt(top, dir, how)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), filepath.Join(root, dir)), nil
}

// readBelow reads a regular file in d, of at most maxAgentDef bytes and one more.
func readBelow(d *os.File, name string, resolve uint64) ([]byte, error) {
	fd, err := policypath.OpenNamedAt(int(d.Fd()), name, unix.OpenHow{Flags: unix.O_RDONLY | unix.O_NONBLOCK | unix.O_NOCTTY, Resolve: resolve})
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("no regular file")
	}
	return io.ReadAll(io.LimitReader(f, maxAgentDef+1))
}
