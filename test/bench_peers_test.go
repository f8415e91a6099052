package test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	osexec "os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// ground is where the benchmarks run: a workspace beside a home, of one user.
type ground struct {
	dir, work, home string
	uid             int
	sbx, bare       string // programs: sbx, and a Go program that does nothing
}

// newGround makes a workspace for uid. Remove dir when done.
func newGround(uid int) (*ground, error) {
	all, err := stages()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(all, "bench-")
	if err != nil {
		return nil, err
	}
	g := &ground{dir: dir, work: dir + "/work", home: dir + "/home", uid: uid, sbx: all + "/bin/sbx", bare: all + "/bin/bare"}
	for _, d := range []string{g.dir, g.work, g.home} {
		if err := errors.Join(os.MkdirAll(d, 0o755), os.Chmod(d, 0o755), os.Chown(d, uid, uid)); err != nil {
			return nil, err
		}
	}
	if _, err := os.Stat(g.bare); err == nil {
		return g, nil
	}
	source := dir + "/bare.go"
	if err := os.WriteFile(source, []byte("package main\n\nfunc main() {}\n"), 0o644); err != nil {
		return nil, err
	}
	if out, err := osexec.Command("go", "build", "-o", g.bare, source).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build a bare program: %w\n%s", err, out)
	}
	return g, nil
}

// wrapper is a way to start a command: itself, or another program before it.
type wrapper struct {
	name string
	argv []string // what comes before the command
}

// launcher names.
const (
	plain   = "plain"
	control = "plain again"
	bareGo  = "bare Go start"
	sbxBase = "sbx run, base tier"
	sbxFull = "sbx run, full tier"
	bwrap   = "bwrap"
)

// wrappers are the ways to start a command that this host has, and those that
// it does not, with the reason.
func (g *ground) wrappers() (have []wrapper, missing []string) {
	have = []wrapper{
		{plain, nil}, {control, nil},
		{sbxBase, []string{g.sbx, "run", "--tier", "base", "--"}},
		{sbxFull, []string{g.sbx, "run", "--tier", "full", "--"}},
	}
	for _, peer := range []struct {
		wrapper
		install string
	}{
		{wrapper{bwrap, []string{"bwrap", "--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin", "--symlink", "usr/lib", "/lib",
			"--symlink", "usr/lib64", "/lib64", "--ro-bind", "/etc", "/etc", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp",
			"--bind", g.work, g.work, "--chdir", g.work, "--unshare-all", "--die-with-parent", "--new-session"}}, "the package bubblewrap"},
		{wrapper{"firejail", []string{"firejail", "--quiet", "--noprofile", "--net=none", "--private-tmp", "--seccomp"}}, "the package firejail"},
		{wrapper{"landrun", []string{"landrun", "--rox", "/usr", "--ro", "/etc", "--rwx", g.work}},
			"go install github.com/zouuup/landrun/cmd/landrun@latest"},
	} {
		if _, err := osexec.LookPath(peer.argv[0]); err != nil {
			missing = append(missing, peer.name+": not installed ("+peer.install+")")
			continue
		}
		if why := g.useless(peer.wrapper); why != "" {
			missing = append(missing, peer.name+": "+why)
			continue
		}
		have = append(have, peer.wrapper)
	}
	return have, missing
}

// useless says why a peer is not worth comparing with here: it does not start,
// or it starts the command and confines nothing, as some do with status 0 inside
// of another sandbox. A secret beside the workspace tells; landrun, bwrap and
// firejail (by its home) all hide that.
func (g *ground) useless(w wrapper) string {
	secret := filepath.Join(g.home, "secret")
	if err := os.WriteFile(secret, []byte("x"), 0o600); err != nil {
		return err.Error()
	}
	defer os.Remove(secret)
	if out, err := g.command(w, "/bin/true").CombinedOutput(); err != nil {
		return fmt.Sprintf("does not start here: %v: %.120q", err, out)
	}
	if w.name == "firejail" { // without a profile it hides no files, but the network
		out, _ := g.command(w, "/bin/cat", "/proc/net/dev").Output()
		if own, _ := os.ReadFile("/proc/net/dev"); bytes.Count(own, []byte(":")) > 1 && bytes.Count(out, []byte(":")) > 1 {
			return "confines nothing here: it takes a pid namespace for a sandbox of its own"
		}
		return ""
	}
	if g.command(w, "/bin/cat", secret).Run() == nil {
		return "confines nothing here"
	}
	return ""
}

// command prepares argv below w, in the workspace, as the ground's user.
func (g *ground) command(w wrapper, argv ...string) *osexec.Cmd {
	all := slices.Concat(w.argv, argv)
	c := osexec.Command(all[0], all[1:]...)
	c.Dir = g.work
	c.Env = []string{"PATH=" + systemPath(), "HOME=" + g.home, "LANG=C.UTF-8"}
	c.SysProcAttr = &syscall.SysProcAttr{}
	if g.uid != os.Getuid() {
		c.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(g.uid), Gid: uint32(g.uid)}
	}
	return c
}

// run waits for c. Its messages go to a file, which costs no copying, and are
// in the error.
func (g *ground) run(c *osexec.Cmd) error {
	messages, err := os.CreateTemp(g.dir, "messages-")
	if err != nil {
		return err
	}
	defer messages.Close()
	os.Remove(messages.Name())
	c.Stderr = messages
	if err := c.Run(); err != nil {
		text := make([]byte, 300)
		n, _ := messages.ReadAt(text, 0)
		return fmt.Errorf("%w: %q", err, text[:n])
	}
	return nil
}

// launch is a contender that starts argv below w and waits for its end. The
// measurement is in milliseconds.
func (g *ground) launch(w wrapper, argv ...string) contender {
	return contender{w.name, func() (float64, error) {
		c := g.command(w, argv...)
		start := time.Now()
		err := g.run(c)
		return milliseconds(time.Since(start)), err
	}}
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// named finds a wrapper; the zero wrapper has no name.
func named(list []wrapper, name string) wrapper {
	i := slices.IndexFunc(list, func(w wrapper) bool { return w.name == name })
	if i < 0 {
		return wrapper{}
	}
	return list[i]
}

// only keeps the wrappers of these names.
func only(list []wrapper, names ...string) []wrapper {
	return slices.DeleteFunc(slices.Clone(list), func(w wrapper) bool { return !slices.Contains(names, w.name) })
}

// shell is a command line for bash.
func shell(script string, args ...string) []string {
	return append([]string{"/bin/bash", "-c", script, "bench"}, args...)
}

// timed has bash run the script and print its CPU time, user and system, in
// seconds. What the wrapper itself costs is not in it.
func timed(script string) []string {
	return shell("TIMEFORMAT='%3U %3S'; time { " + script + "; } >/dev/null 2>&1")
}

// cpu reads what timed printed. The measurement is in milliseconds.
func (g *ground) cpu(w wrapper, script string) contender {
	return contender{w.name, func() (float64, error) {
		c := g.command(w, timed(script)...)
		var text strings.Builder
		c.Stderr = &text
		if err := c.Run(); err != nil {
			return 0, fmt.Errorf("%w: %.200q", err, text.String())
		}
		for line := range strings.Lines(text.String()) {
			var user, system float64
			if n, _ := fmt.Sscanf(line, "%f %f\n", &user, &system); n == 2 {
				return 1000 * (user + system), nil
			}
		}
		return 0, fmt.Errorf("no time in %.200q", text.String())
	}}
}
