package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"sandboxd/agentloop"
	"sandboxd/policy"
	"sandboxd/policy/settings"
)

// policies reads the policies of sessions, and notices when a file of one changes.
// It is safe for concurrent use.
type policies struct {
	mu     sync.Mutex
	files  map[string]stamp
	looked time.Time
}

// stamp tells one content of a file from another, as far as stat(2) does.
type stamp struct {
	inode, size   uint64
	mtime, ctime  int64
	there, broken bool
}

const (
	// lookEvery is how long an edit may go unnoticed: files are looked at when a call
	// comes, and not more often than this.
	lookEvery = 100 * time.Millisecond
	// maxWatched bounds the files. Beyond it everything counts as changed.
	maxWatched = 10000
)

func newPolicies() *policies { return &policies{files: map[string]stamp{}} }

func stampOf(path string) stamp {
	var st unix.Stat_t
	switch err := unix.Stat(path, &st); err {
	case nil:
		return stamp{inode: st.Ino, size: uint64(st.Size), mtime: st.Mtim.Nano(), ctime: st.Ctim.Nano(), there: true}
	case unix.ENOENT, unix.ENOTDIR:
		return stamp{}
	}
	return stamp{broken: true}
}

// watch remembers what the files of one policy are. A file that is known keeps its
// stamp until changed has told of the change.
func (p *policies) watch(e *settings.Effective) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, f := range e.Files {
		if _, known := p.files[f.Path]; !known && len(p.files) < maxWatched {
			p.files[f.Path] = stampOf(f.Path)
		}
	}
}

// changed reports whether a policy file is not what it was; it says so once.
func (p *policies) changed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now := time.Now(); now.Sub(p.looked) < lookEvery {
		return false
	} else {
		p.looked = now
	}
	found := false
	for path, old := range p.files {
		if now := stampOf(path); now != old {
			p.files[path], found = now, true
		}
	}
	return found
}

// load reads the policy for a session. It is called with the rights of the peer.
func (p *policies) load(_ context.Context, peer agentloop.Peer, r agentloop.SessionRequest) (agentloop.PolicyInForce, error) {
	o := settings.Options{Workspace: r.Workspace, Environ: r.Environ, PolicyFiles: fromDir(r.Cwd, r.Policy), Profile: r.Profile,
		Owners: []int{peer.UID(), 0}}
	if r.Mode != "" {
		o.Layers = append(o.Layers, settings.FlagMode(r.Mode))
	}
	e, err := settings.Load(o)
	if err != nil {
		return agentloop.PolicyInForce{}, err
	}
	p.watch(e)
	cfg, err := e.Config()
	if err != nil {
		return agentloop.PolicyInForce{}, err
	}
	out := agentloop.PolicyInForce{Config: cfg, Grant: agentloop.GrantWithFlags(e.Grant(), r.Grant, e.ManagedLimits()), ManagedLimits: e.ManagedLimits(), ManagedGrant: e.ManagedGrant(), TrustsHook: trustsHook(r.Environ, peer.UID())}
	for _, root := range r.Grant.Paths {
		if root.Access == policy.GrantRead || root.Access == policy.GrantWrite {
			out.Config.Roots = append(out.Config.Roots, policy.Root{Path: absolute(root.Path, r), Write: root.Access == policy.GrantWrite})
		}
	}
	for _, h := range e.Hooks {
		out.Hooks = append(out.Hooks, agentloop.HookSpec(h))
	}
	for _, n := range e.Ignored {
		out.Warnings = append(out.Warnings, "ignored: "+n.String())
	}
	return out, nil
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
	before, err := os.ReadFile(path)
	fresh := errors.Is(err, os.ErrNotExist)
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
	after, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return store.Add(path, after, time.Now())
}
