package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"sandboxd/agentloop"
	"sandboxd/policy"
	"sandboxd/policy/settings"
)

// loadPolicy reads the policy for a session. It is called with the rights of the peer.
func loadPolicy(_ context.Context, peer agentloop.Peer, r agentloop.SessionRequest) (agentloop.PolicyInForce, error) {
	o := settings.Options{Workspace: r.Workspace, Environ: r.Environ, PolicyFiles: fromDir(r.Cwd, r.Policy), Profile: r.Profile,
		AccountHome: func() string { return agentloop.AccountHome(peer.UID()) }, Owners: []int{peer.UID(), 0}}
	if r.Mode != "" {
		o.Layers = append(o.Layers, settings.FlagMode(r.Mode))
	}
	began := time.Now()
	e, err := settings.Load(o)
	if err != nil {
		return agentloop.PolicyInForce{}, err
	}
	cfg, err := e.Config()
	if err != nil {
		return agentloop.PolicyInForce{}, err
	}
	out := agentloop.PolicyInForce{Config: cfg, Grant: agentloop.GrantWithFlags(e.Grant(), r.Grant, e.ManagedLimits()), ManagedLimits: e.ManagedLimits(), ManagedGrant: e.ManagedGrant(), TrustsHook: trustsHook(r.Environ, peer.UID())}
	out.Changed, out.FileBytes = watchFiles(e, r.Environ, began)
	out.Agent, out.ManagedAgent = agentConfig(e.Agent, e.Limits), agentConfig(e.ManagedAgent(), e.ManagedDenials())
	for _, root := range r.Grant.Paths {
		if root.Access == policy.GrantRead || root.Access == policy.GrantWrite {
			out.Config.Roots = append(out.Config.Roots, policy.Root{Path: absolute(root.Path, r), Write: root.Access == policy.GrantWrite})
		}
	}
	for _, h := range e.Hooks {
		out.Hooks = append(out.Hooks, agentloop.HookSpec(h))
	}
	for _, s := range e.MCPServers {
		out.MCP = append(out.MCP, agentloop.MCPServer(s))
	}
	switch {
	case e.Audit.RefusesUnrecorded():
		out.Unrecorded = agentloop.UnrecordedRefused
	case e.Audit.RunsUnrecorded():
		out.Unrecorded = agentloop.UnrecordedRun
	}
	out.UseSkills(peer.Caller.Home, skillDirs(peer.Caller, e))
	for _, n := range e.Ignored {
		out.Warnings = append(out.Warnings, "ignored: "+n.String())
	}
	return out, nil
}

// skillDirs are where skills lie outside of the workspace: those of the user, also
// as Claude Code has them, and what policies name.
func skillDirs(c agentloop.Caller, e *settings.Effective) []string {
	var dirs []string
	if c.ConfigDir != "" {
		dirs = append(dirs, filepath.Join(c.ConfigDir, "skills"))
	}
	if c.Home != "" {
		dirs = append(dirs, filepath.Join(c.Home, ".claude", "skills"))
	}
	for _, d := range e.SkillDirs {
		dirs = append(dirs, d.Text)
	}
	return dirs
}

// absolute is a path of the client's flags as a root of decisions.
func absolute(path string, r agentloop.SessionRequest) string {
	if rest, ok := strings.CutPrefix(path, "~"); ok && (rest == "" || rest[0] == '/') {
		for _, e := range slices.Backward(r.Environ) {
			if home, ok := strings.CutPrefix(e, "HOME="); ok {
				return filepath.Clean(home + rest)
			}
		}
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(r.Cwd, path)
	}
	return filepath.Clean(path)
}

func fromDir(dir string, files []string) []string {
	out := make([]string, len(files))
	for i, f := range files {
		out[i] = f
		if !filepath.IsAbs(f) {
			out[i] = filepath.Join(dir, f)
		}
	}
	return out
}

// trustsHook reads the client's trusted files once for each policy.
func trustsHook(environ []string, uid int) func(string, []byte) bool {
	dir := settings.StateDir(environ)
	if dir == "" {
		return nil
	}
	store, err := settings.OpenTrust(dir, []int{uid, 0})
	if err != nil {
		return nil
	}
	return store.Trusts
}

// saveRule keeps allow rules in the project's or the user's policy, with the rights
// of the session's user.
func saveRule(_ context.Context, s *agentloop.Session, scope string, patterns []string) error {
	c := s.Peer().Caller
	var failed error
	err := agentloop.AsUser(c, func() { failed = saveRules(c, s.Workspace(), scope, patterns) })
	return errors.Join(err, failed)
}

func saveRules(c agentloop.Caller, workspace, scope string, patterns []string) error {
	path := settings.UserFile(c.Environ)
	switch {
	case scope == "project":
		// The local file is the person's own; the project's belongs to everybody.
		path = filepath.Join(workspace, settings.LocalFile)
	case scope != "user":
		return fmt.Errorf("unknown scope %q", scope)
	case path == "":
		return errors.New("no place for the user's policy: neither HOME nor XDG_CONFIG_HOME is set")
	}
	owners := []int{c.UID, 0}
	before, err := settings.ReadFile(path, owners)
	fresh := errors.Is(err, os.ErrNotExist)
	if err != nil && !fresh {
		return err
	}
	store, trustErr := settings.OpenTrust(settings.StateDir(c.Environ), owners)
	if scope == "project" && trustErr != nil {
		return trustErr
	}
	if scope == "project" && !fresh && !store.Trusts(path, before) {
		return fmt.Errorf("%s is not trusted, what it allows has no effect; see sbx trust", path)
	}
	for _, p := range patterns {
		r := policy.Rule{Kind: policy.AllowRule, Pattern: p, Source: policy.Source{Kind: policy.SourceUser, File: path}, Reason: "answered always"}
		if err := settings.AddRule(path, r, owners); err != nil {
			return err
		}
	}
	if scope != "project" {
		return nil
	}
	after, err := settings.ReadFile(path, owners)
	if err != nil {
		return err
	}
	return store.Add(path, after, time.Now())
}
