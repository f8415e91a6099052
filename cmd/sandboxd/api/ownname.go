package api

import (
	"path/filepath"
	"strings"

	"sandboxd/policy"
)

// ownNames mean another thing in each process that opens them (proc(5)).
var ownNames = []string{"/proc/self", "/proc/thread-self", "/dev/fd", "/dev/stdin", "/dev/stdout", "/dev/stderr"}

// checkName refuses a name of the client's own process, as <(...) of a shell makes
// one: the daemon would open its own. Links that lead there are refused when they
// are opened.
func checkName(what string, names ...Text) error {
	for _, n := range names {
		if OwnName(string(n)) {
			return fault(CodeBadRequest, "write it to a file, and name that",
				"%s %q is a name that the daemon would open as its own", what, string(n))
		}
	}
	return nil
}

// OwnName reports whether a path is a name of the process that opens it.
func OwnName(path string) bool {
	clean := filepath.Clean("/" + path)
	for _, own := range ownNames {
		if clean == own || strings.HasPrefix(clean, own+"/") {
			return true
		}
	}
	return false
}

// checkNames is checkName for all that a request for a call names.
func (q *ExecRequest) checkNames() error {
	if err := checkName("the directory", q.Cwd); err != nil {
		return err
	}
	if err := checkName("the policy", q.Policy...); err != nil {
		return err
	}
	if err := checkName("the profile", q.Profile); err != nil {
		return err
	}
	return q.Grant.checkNames()
}

func (g Grant) checkNames() error {
	if err := checkName("the workspace", g.Workspace); err != nil {
		return err
	}
	for _, p := range g.Paths {
		switch p.Access {
		case policy.GrantDeny, policy.GrantProtect: // they open nothing
			continue
		}
		if err := checkName("the path", p.Path); err != nil {
			return err
		}
	}
	return nil
}
