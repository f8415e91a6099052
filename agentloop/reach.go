package agentloop

import (
	"errors"
	"fmt"
	"strings"

	"sandboxd/exec"
	"sandboxd/policy"
)

// reach sets the network and the sockets of the host.
func (b *builder) reach() error {
	for _, n := range b.g.Network {
		switch n {
		case "none", "":
		case "full":
			b.spec.Network = exec.NetFull
		default:
			return &GrantError{Entry: "network " + n, Hint: "use --net none or --net full",
				Err: errors.New("egress by host is not available yet, and is never widened")}
		}
	}
	for _, u := range b.g.Unix {
		if err := b.socket(u); err != nil {
			return err
		}
	}
	return nil
}

// namedSockets are services that --unix knows by name.
var namedSockets = []struct{ name, variable, path string }{
	{"ssh-agent", "SSH_AUTH_SOCK", ""},
	{"docker", "", "/run/docker.sock"},
	{"podman", "", "/run/podman/podman.sock"},
}

// socket grants one UNIX socket of the host: a path, a name or @abstract.
func (b *builder) socket(name string) error {
	if strings.HasPrefix(name, "@") {
		b.spec.AbstractSockets, b.spec.UnixSockets = true, true
		return nil
	}
	path, variable := name, ""
	if !strings.Contains(name, "/") {
		known := false
		for _, s := range namedSockets {
			if s.name != name {
				continue
			}
			known, path, variable = true, s.path, s.variable
			if variable != "" {
				path = lookupEnv(b.c.Environ, variable)
			}
		}
		if !known || path == "" {
			return &GrantError{Entry: "unix " + name, Hint: "write a path, @NAME, ssh-agent, docker or podman",
				Err: errors.New("no such service here")}
		}
	}
	abs, err := b.expand(policy.PathGrant{Path: path, Access: policy.GrantWrite})
	if err != nil {
		return err
	}
	real, links, err := b.r.resolve(abs)
	if err != nil {
		return &GrantError{Entry: "unix " + name, Hint: "start the service first", Err: unwrapPath(err)}
	}
	if err := b.daemons(real); err != nil {
		return &GrantError{Entry: "unix " + name, Hint: noDaemon, Err: err}
	}
	if place := b.daemonBelow(real); place != "" {
		return &GrantError{Entry: "unix " + name, Hint: "name the socket that is needed",
			Err: fmt.Errorf("%s, a place of a sandboxd, lies in it, and is never granted", place)}
	}
	if err := b.knobs(real); err != nil {
		return &GrantError{Entry: "unix " + name, Hint: "name the socket that is needed", Err: err}
	}
	if name == "docker" || name == "podman" {
		b.warn("--unix %s hands out the host: a container engine starts anything, unconfined", name)
	}
	b.spec.UnixSockets = true
	b.set.addLinks(links)
	b.set.demand(exec.Entry{Path: real, Access: exec.ReadWrite, Reason: fmt.Sprintf("socket %s", name)})
	if variable != "" {
		b.g.EnvPass = append(b.g.EnvPass[:len(b.g.EnvPass):len(b.g.EnvPass)], variable)
	}
	return nil
}
