package agentloop

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"sandboxd/exec"
	"sandboxd/policy"
)

// hookCopies are the checked files in a place of ours.
type hookCopies struct {
	command string // with the paths of the copies
	entries []exec.Entry
	remove  func() error
}

// hookView is where copies lie in a mount view.
const hookView = "/run/sandboxd-hook"

// copyFiles writes the files out and puts their paths into the command.
func (p *hookProgram) copyFiles() (c hookCopies, err error) {
	c = hookCopies{command: p.spec.Command, remove: func() error { return nil }}
	if len(p.files) == 0 {
		return c, nil
	}
	dir, remove, err := p.makeCopyDir()
	if err != nil {
		return c, fmt.Errorf("no place for a checked copy of its program: %w", err)
	}
	c.remove = remove
	var b strings.Builder
	at := 0
	for i, f := range p.files {
		sub := filepath.Join(dir, strconv.Itoa(i))
		copied := filepath.Join(sub, filepath.Base(f.Path))
		if err := os.Mkdir(sub, 0o755); err != nil {
			return c, errors.Join(err, remove())
		}
		if err := writeCopy(copied, f); err != nil {
			return c, errors.Join(err, remove())
		}
		e := exec.Entry{Path: copied, Access: exec.ReadOnly, Reason: "checked copy of a hook's program"}
		if p.env.View.MountView {
			e.Path, e.Source = filepath.Join(hookView, strconv.Itoa(i), filepath.Base(f.Path)), copied
		}
		c.entries = append(c.entries, e)
		if f.start < at {
			return c, errors.Join(fmt.Errorf("%s stands inside of another name", f.Path), remove())
		}
		name := policy.QuoteWord(e.Path)
		if !f.whole && name != e.Path {
			return c, errors.Join(fmt.Errorf("%s is named inside of a quoted word, and its name needs quotes of its own", f.Path), remove())
		}
		b.WriteString(c.command[at:f.start] + name)
		at = f.end
	}
	c.command = b.String() + c.command[at:]
	return c, nil
}

func writeCopy(path string, f HookFile) error {
	out, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = out.Write(f.Content)
	return errors.Join(err, out.Chmod(f.mode), out.Close())
}

// makeCopyDir makes the directory of one run, and removes those that killed runs
// left: they have lost their lock.
func (p *hookProgram) makeCopyDir() (dir string, remove func() error, err error) {
	if p.env.Caller.StateDir == "" {
		return "", nil, errors.New("no private directory")
	}
	if err := makeOwnDir(p.env.Caller.StateDir, p.env.Caller.UID); err != nil {
		return "", nil, err
	}
	part := filepath.Join(p.env.Caller.StateDir, "hooks")
	if err := makeOwnDir(part, p.env.Caller.UID); err != nil {
		return "", nil, err
	}
	if part, err = filepath.EvalSymlinks(part); err != nil {
		return "", nil, err
	}
	sweepTemp(part)
	b := &builder{c: p.env.Caller, id: identity{uid: p.env.Caller.UID}}
	return b.makeTemp(part)
}
