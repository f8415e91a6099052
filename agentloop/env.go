package agentloop

import (
	"errors"
	"slices"
	"strings"

	"sandboxd/exec"
)

// WithheldVar is a variable of the caller that the command does not get.
type WithheldVar struct {
	Name string
	Kind string // "looks like a secret", "loads code", "not listed", ...
}

// WithheldKinds counts the kinds of variables that were withheld, in the order
// of their names. Places of the caller ("HOME", "TMPDIR") are left out: they
// are replaced, not missed.
func (r Report) WithheldKinds() []string {
	var kinds []string
	for _, w := range r.Withheld {
		if w.Kind != string(envLocation) && !slices.Contains(kinds, w.Kind) {
			kinds = append(kinds, w.Kind)
		}
	}
	slices.Sort(kinds)
	return kinds
}

// defaultPath is PATH for a caller without one.
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// environment builds the variables of the command: what the list lets through,
// what the view demands, then what the user asked for by name, which wins.
func (b *builder) environment() error {
	env := make(map[string]string, 64)
	b.passListed(env)
	for name, value := range b.goEnv {
		if _, set := env[name]; set || !strings.HasPrefix(name, "GO") && !strings.HasPrefix(name, "CGO_") {
			continue
		}
		if _, ok := judgeEnv(name, value); ok {
			env[name] = value
		}
	}
	b.setPlaces(env)
	if err := b.passNamed(env); err != nil {
		return err
	}
	b.spec.Env = make([]string, 0, len(env))
	for name, value := range env {
		b.spec.Env = append(b.spec.Env, name+"="+value)
	}
	slices.Sort(b.spec.Env)
	return nil
}

// passListed copies what the table lets through and notes the rest.
func (b *builder) passListed(env map[string]string) {
	for _, entry := range b.c.Environ {
		name, value, ok := strings.Cut(entry, "=")
		if !ok || name == "" {
			continue
		}
		kind, pass := judgeEnv(name, value)
		if pass {
			env[name] = value
			continue
		}
		if !slices.Contains(b.g.EnvPass, name) {
			b.report.Withheld = append(b.report.Withheld, WithheldVar{Name: name, Kind: string(kind)})
		}
	}
	slices.SortFunc(b.report.Withheld, func(x, y WithheldVar) int { return strings.Compare(x.Name, y.Name) })
	b.report.Withheld = slices.Compact(b.report.Withheld)
}

// setPlaces sets the variables that name places of the view and who runs.
func (b *builder) setPlaces(env map[string]string) {
	if env["PATH"] == "" {
		env["PATH"] = defaultPath
	}
	if b.home.named != "" {
		env["HOME"] = b.home.named
	}
	b.report.Home = b.home.named
	if t := b.report.Temp; t != "" {
		env["TMPDIR"], env["TMP"], env["TEMP"] = t, t, t
	}
	env["PWD"] = b.spec.Dir
	b.setAccount(env)
	if b.modCache != "" {
		env["GOMODCACHE"] = b.modCache
	}
	if _, set := env["RUSTUP_HOME"]; !set && b.realHome != "" && b.realHome != b.home.path {
		if dir := b.realHome + "/.rustup"; b.visible(dir) {
			env["RUSTUP_HOME"] = dir
		}
	}
	if b.home.source == "" {
		for _, v := range readGitIdentity(b.c.Environ, b.c.Home).env() {
			name, value, _ := strings.Cut(v, "=")
			if _, set := env[name]; !set {
				env[name] = value
			}
		}
	}
}

// setAccount makes USER, LOGNAME and SHELL fit the identity of the run.
func (b *builder) setAccount(env map[string]string) {
	a := b.id.account
	if b.id.uid != b.c.UID {
		delete(env, "USER")
		delete(env, "LOGNAME")
		env["SHELL"] = a.shell
	}
	if a.name != "" {
		for _, name := range []string{"USER", "LOGNAME"} {
			if env[name] == "" {
				env[name] = a.name
			}
		}
	}
	if shell := env["SHELL"]; !strings.HasPrefix(shell, "/") || !b.visible(shell) {
		env["SHELL"] = "/bin/sh"
	}
}

// visible reports whether path can be read in the view.
func (b *builder) visible(path string) bool {
	real, _, err := b.r.resolve(path)
	if err != nil {
		return false
	}
	e, ok := b.set.at(real)
	return ok && e.Access >= exec.Protect && e.Kind == exec.Bind && (e.Source == "" || e.Source == e.Path)
}

// passNamed adds what the user asked for by name, as it is.
func (b *builder) passNamed(env map[string]string) error {
	for _, name := range b.g.EnvPass {
		if err := checkEnvName(name); err != nil {
			return err
		}
		for _, entry := range b.c.Environ {
			if value, ok := strings.CutPrefix(entry, name+"="); ok {
				env[name] = value
				b.warnEnv(name, value)
			}
		}
	}
	for _, entry := range b.g.EnvSet {
		name, value, ok := strings.Cut(entry, "=")
		if !ok {
			return &GrantError{Entry: "env " + entry, Hint: "write NAME=VALUE", Err: errors.New("no value")}
		}
		if err := checkEnvName(name); err != nil {
			return err
		}
		if strings.ContainsRune(value, 0) {
			return &GrantError{Entry: "env " + name, Err: errors.New("the value holds a NUL byte")}
		}
		env[name] = value
		b.warnEnv(name, value)
	}
	return nil
}

func (b *builder) warnEnv(name, value string) {
	if kind, ok := judgeEnv(name, value); !ok && kind == envLoader {
		b.warn("%s is passed as you asked; it %s into programs of the run", name, kind)
	}
}

func checkEnvName(name string) error {
	if name == "" || strings.ContainsAny(name, "=\x00") {
		return &GrantError{Entry: "env " + name, Hint: "write NAME or NAME=VALUE", Err: errors.New("not the name of a variable")}
	}
	return nil
}
