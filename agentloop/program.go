package agentloop

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"sandboxd/exec"
)

// startDir chooses where the command starts: where the caller asked, else where
// the caller stands if that is in view, else the workspace.
func (b *builder) startDir() error {
	if b.g.Dir != "" {
		dir := b.g.Dir
		if rest, ok := cutHome(dir); ok && b.c.Home != "" {
			dir = b.c.Home + "/" + rest
		} else if !filepath.IsAbs(dir) {
			dir = b.ws.Root + "/" + dir
		}
		real, ok := b.r.realDir(dir)
		if !ok {
			return &GrantError{Entry: "directory " + b.g.Dir, Hint: "name an existing directory of the workspace", Err: errors.New("no such directory")}
		}
		if !b.visible(real) {
			return &GrantError{Entry: "directory " + b.g.Dir, Hint: "start in the workspace " + b.ws.Root + ", or grant the directory",
				Err: errors.New("outside of what the command can see")}
		}
		b.spec.Dir = real
		return nil
	}
	b.spec.Dir = b.ws.Root
	if real, ok := b.r.realDir(b.c.Cwd); ok && b.visible(real) {
		b.spec.Dir = real
	} else if b.g.Workspace != "" {
		b.warn("%s is not in view; the command starts in %s", b.c.Cwd, b.ws.Root)
	}
	return nil
}

// program finds argv[0] as the command's own shell would, in the view.
func (b *builder) program(argv []string) error {
	if len(argv) == 0 || argv[0] == "" {
		return &ProgramError{Name: "command", Hint: "write sbx run -- COMMAND", Err: errors.New("none given")}
	}
	for _, arg := range argv {
		if strings.ContainsRune(arg, 0) {
			return &ProgramError{Name: argv[0], Found: true, Err: errors.New("an argument holds a NUL byte")}
		}
	}
	b.spec.Argv = slices.Clone(argv)
	if strings.Contains(argv[0], "/") {
		path := argv[0]
		if !filepath.IsAbs(path) {
			path = b.spec.Dir + "/" + path
		}
		err := b.tryProgram(path, argv[0])
		if err == nil {
			return b.finishProgram(filepath.Clean(path))
		}
		return err
	}
	var first *ProgramError
	for _, dir := range filepath.SplitList(b.envValue("PATH")) {
		switch {
		case dir == "": // as execvp(3): an empty element is the current directory
			dir = b.spec.Dir
		case !filepath.IsAbs(dir):
			dir = b.spec.Dir + "/" + dir
		}
		path := dir + "/" + argv[0]
		err := b.tryProgram(path, argv[0])
		if err == nil {
			return b.finishProgram(filepath.Clean(path))
		}
		if first == nil || err.Found && !first.Found || first.Hint == "" && !first.Found {
			first = err
		}
	}
	if first == nil {
		first = &ProgramError{Name: argv[0], Err: errors.New("not found: PATH is empty")}
	}
	return first
}

func (b *builder) envValue(name string) string { return lookupEnv(b.spec.Env, name) }

// tryProgram reports why the file at path cannot be started, or nothing.
func (b *builder) tryProgram(path, name string) *ProgramError {
	host := b.hostPath(path)
	real, _, err := b.r.resolve(host)
	if err != nil {
		if isMissing(err) {
			if outside, _, err := b.r.resolve(path); err == nil && host != path {
				return notInView(name, path, outside)
			}
			return &ProgramError{Name: name, Err: errors.New("not found")}
		}
		return &ProgramError{Name: name, Found: true, Err: unwrapPath(err)}
	}
	n := b.r.lstat(real)
	e, ok := b.set.at(real)
	inHome := b.home.source != "" && within(real, b.home.source)
	switch {
	case n.isDir():
		return &ProgramError{Name: name, Found: true, Hint: "name a program in it", Err: fmt.Errorf("%s is a directory", path)}
	case (!ok || e.Access == exec.Deny || e.Kind != exec.Bind) && !inHome:
		return notInView(name, path, real)
	case !n.isFile():
		return &ProgramError{Name: name, Found: true, Err: fmt.Errorf("%s is not a file", path)}
	case !b.id.may(n, 1):
		return &ProgramError{Name: name, Found: true, Hint: "chmod +x " + path, Err: errors.New("not executable")}
	case !b.reachable(real):
		return &ProgramError{Name: name, Found: true, Hint: "--user caller runs it as the caller",
			Err: fmt.Errorf("%s cannot be reached by %s", path, b.id)}
	}
	return nil
}

func notInView(name, path, real string) *ProgramError {
	return &ProgramError{Name: name, Hint: "grant its directory with --ro " + filepath.Dir(real),
		Err: fmt.Errorf("not found in the sandbox: %s is not in view", path)}
}

// hostPath is where a path of the view lies on the host.
func (b *builder) hostPath(path string) string {
	if rest, ok := strings.CutPrefix(path, b.home.path+"/"); ok && b.home.path != "" && b.home.source != "" {
		if e, ok := b.set.at(filepath.Clean(path)); ok && e.Path == b.home.path {
			return b.home.source + "/" + rest
		}
	}
	return path
}

// reachable reports whether the identity may pass through the directories above
// path. In a mount view these are ours.
func (b *builder) reachable(path string) bool {
	if b.h.MountView || b.id.uid == b.c.UID {
		return true
	}
	for dir := filepath.Dir(path); ; dir = filepath.Dir(dir) {
		if n := b.r.lstat(dir); n.err != nil || !b.id.may(n, 1) {
			return false
		}
		if dir == "/" {
			return true
		}
	}
}

// finishProgram looks into the file: a script needs its interpreter in view, a
// program its loader; a script without a first line that names one is run by
// /bin/sh, as execvp(3) and shells do.
func (b *builder) finishProgram(path string) error {
	b.spec.Path = path
	head, err := readHead(b.hostPath(path), 4096)
	if err != nil {
		return nil // executable but not readable is fine for the kernel
	}
	name := b.spec.Argv[0]
	switch {
	case bytes.HasPrefix(head, []byte("\x7fELF")):
		if loader := elfLoader(head); loader != "" && !b.visible(loader) {
			return &ProgramError{Name: name, Found: true, Hint: "grant it with --ro " + filepath.Dir(loader),
				Err: fmt.Errorf("its loader %s is not in view", loader)}
		}
	case bytes.HasPrefix(head, []byte("#!")):
		interpreter, _ := shebang(head[:min(len(head), scriptHead)])
		if filepath.IsAbs(interpreter) && !b.startable(interpreter) {
			return &ProgramError{Name: name, Found: true, Hint: "install it, or grant it with --ro " + filepath.Dir(interpreter),
				Err: fmt.Errorf("its interpreter %s is not in view", interpreter)}
		}
	case bytes.IndexByte(head, 0) < 0:
		b.spec.Path = "/bin/sh"
		b.spec.Argv = append([]string{"/bin/sh", path}, b.spec.Argv[1:]...)
	}
	return nil
}

func (b *builder) startable(path string) bool {
	return b.tryProgram(filepath.Clean(path), path) == nil
}

// elfLoader reads the interpreter of a 64-bit little-endian program from its
// first bytes (elf(5): e_phoff at 32, e_phentsize at 54, e_phnum at 56; PT_INTERP
// is 3). Empty when there is none, or it lies further on.
func elfLoader(head []byte) string {
	if len(head) < 64 || head[4] != 2 || head[5] != 1 {
		return ""
	}
	le := binary.LittleEndian
	offset, size, count := le.Uint64(head[32:]), uint64(le.Uint16(head[54:])), uint64(le.Uint16(head[56:]))
	if size < 56 {
		return ""
	}
	for i := range count {
		at := offset + i*size
		if at > uint64(len(head)) || at+56 > uint64(len(head)) {
			return ""
		}
		ph := head[at:]
		if le.Uint32(ph) != 3 {
			continue
		}
		start, length := le.Uint64(ph[8:]), le.Uint64(ph[32:])
		if length == 0 || start > uint64(len(head)) || length > uint64(len(head))-start {
			return ""
		}
		return string(bytes.TrimRight(head[start:start+length], "\x00"))
	}
	return ""
}
