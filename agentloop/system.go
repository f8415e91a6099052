package agentloop

import (
	"strings"

	"sandboxd/exec"
)

// systemRoots are the directories of programs and libraries of a host. Those
// that are links ("/bin" -> "usr/bin") become links of the view.
var systemRoots = []string{
	"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/libo32", "/opt",
	"/nix/store", "/gnu/store", "/run/current-system", "/snap",
}

// hostTopology is what programs read to size their thread pools. The rest of
// /sys tells about devices, and lets root change them.
var hostTopology = []string{"/sys/devices/system/cpu", "/sys/devices/system/node"}

// addSystem grants the system directories and returns their real paths.
func (b *builder) addSystem() []string {
	var trees []string
	for _, dir := range systemRoots {
		real, links, err := b.r.resolve(dir)
		if err != nil {
			continue
		}
		b.set.addLinks(links)
		trees = append(trees, real)
		b.set.add(exec.Entry{Path: real, Access: exec.ReadOnly, Reason: "system directory"})
	}
	for _, dir := range hostTopology {
		if b.r.lstat(dir).err == nil {
			b.set.add(exec.Entry{Path: dir, Access: exec.ReadOnly, Optional: true, Reason: "processors and memory nodes"})
		}
	}
	return trees
}

// addEtc grants what every user may read of /etc, less the secrets.
func (b *builder) addEtc(cache planCache, system []string) {
	const reason = "system settings"
	real, links, err := b.r.resolve("/etc")
	if err != nil || !b.r.lstat(real).isDir() {
		return
	}
	b.set.addLinks(links)
	plan := cache.etc(real, system, b.id.uid == 0)
	// Without a mount view these count only where the user grants a directory
	// above them.
	for _, path := range plan.Deny {
		b.set.add(exec.Entry{Path: path, Access: exec.Deny, Optional: true, Reason: "not for every user, or secret"})
	}
	if b.h.MountView {
		b.set.add(exec.Entry{Path: real, Access: exec.ReadOnly, Reason: reason})
	} else {
		for _, path := range plan.Read {
			b.set.add(exec.Entry{Path: path, Access: exec.ReadOnly, Optional: true, Reason: reason})
		}
	}
	b.set.addLinks(plan.Links)
	outside := plan.Outside
	if target, ok := resolvConf(b.r, real); ok {
		outside = append(outside, target)
	}
	for _, path := range outside {
		b.set.add(exec.Entry{Path: path, Access: exec.ReadOnly, Optional: true, Reason: reason + ", target of a link"})
	}
}

// addTools grants the caller's own toolchains.
func (b *builder) addTools(cache planCache, system []string) {
	q := toolQuery{
		path: lookupEnv(b.c.Environ, "PATH"), home: b.realHome, cargo: b.cargoHome(), gopath: b.gopath(),
		untrust: append([]string{b.ws.Root}, b.own...), system: system, vars: map[string]string{},
	}
	for _, name := range toolVars {
		if v := lookupEnv(b.c.Environ, name); strings.HasPrefix(v, "/") {
			q.vars[name] = v
		}
	}
	t := cache.tools(q)
	b.set.addLinks(t.links)
	for _, root := range t.roots {
		b.set.add(exec.Entry{Path: root.Path, Access: exec.ReadOnly, Optional: true, Reason: root.Reason})
	}
	for _, path := range t.hide {
		b.set.add(exec.Entry{Path: path, Access: exec.Deny, Optional: true, Reason: "secret in a tool's directory"})
	}
	b.cargo = q.cargo
	b.hideCargoCredentials()
	b.report.Warnings = append(b.report.Warnings, t.warn...)
	b.addGoModules(system)
}

// addGoModules makes the module cache readable: the caller's, or the one of the
// user that the command runs as where it cannot reach the caller's.
func (b *builder) addGoModules(system []string) {
	dir := b.goSetting("GOMODCACHE")
	if dir == "" && b.gopath() != "" {
		dir = join(b.gopath(), "pkg/mod")
	}
	if b.addModules(dir, system) || b.id.uid == b.c.UID || b.id.account.home == "" {
		return
	}
	b.addModules(join(b.id.account.home, "go/pkg/mod"), system)
}

func (b *builder) addModules(dir string, system []string) bool {
	if !strings.HasPrefix(dir, "/") {
		return false
	}
	real, links, err := b.r.resolve(dir)
	if err != nil || !b.r.lstat(real).isDir() || withinAny(real, b.own) || within(b.ws.Root, real) || b.planted(links) || !b.reachable(join(real, "x")) {
		return false
	}
	b.modCache = dir
	if !withinAny(real, system) && !within(real, b.ws.Root) {
		b.set.addLinks(links)
		b.set.add(exec.Entry{Path: real, Access: exec.ReadOnly, Reason: "Go modules, for reading"})
	}
	return true
}

func (b *builder) cargoHome() string {
	dir := lookupEnv(b.c.Environ, "CARGO_HOME")
	if dir == "" && b.realHome != "" {
		dir = b.realHome + "/.cargo"
	}
	if dir == "" {
		return ""
	}
	real, links, err := b.r.resolve(dir)
	if err != nil || !b.r.lstat(real).isDir() || b.planted(links) {
		return ""
	}
	return real
}

// hideCargoCredentials keeps cargo's tokens unreadable where its home lies in a
// directory that is granted as a whole ("/usr/local/cargo" of common images).
func (b *builder) hideCargoCredentials() {
	if b.cargo == "" {
		return
	}
	for _, name := range []string{"credentials.toml", "credentials"} {
		if path := join(b.cargo, name); b.r.lstat(path).err == nil {
			b.set.add(exec.Entry{Path: path, Access: exec.Deny, Optional: true, Reason: "cargo's credentials"})
		}
	}
}

// planted reports whether a command may have made one of the links.
func (b *builder) planted(links []exec.Link) bool {
	for _, l := range links {
		if within(l.Path, b.ws.Root) || withinAny(l.Path, b.own) {
			return true
		}
	}
	return false
}

func (b *builder) gopath() string {
	dir, _, _ := strings.Cut(b.goSetting("GOPATH"), ":")
	if dir == "" && b.realHome != "" {
		dir = b.realHome + "/go"
	}
	return dir
}
