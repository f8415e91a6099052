package agentloop

import (
	"context"
	"fmt"
	"slices"

	"sandboxd/policy"
)

// install puts a policy in force: it builds the engine with the session's own
// rules and mode. Nothing changes when that fails. A policy that does nothing but
// deny and ask, and has no rule, needs no engine.
func (s *Session) install(p PolicyInForce) error {
	s.installing.Lock()
	defer s.installing.Unlock()
	p.Generation = s.Generation() + 1
	if err := s.put(p, s.tools); err != nil {
		return err
	}
	s.tellChildren()
	return nil
}

// put is install with tools of the session; s.installing is held.
func (s *Session) put(p PolicyInForce, tools map[string]Tool) error {
	cfg := p.Config
	cfg.Rules = slices.Clone(cfg.Rules)
	var own *HookRegistry
	if !cfg.OnlyRules {
		var err error
		if own, err = s.ownHooks(p); err != nil {
			return err
		}
		s.complete(&cfg, own)
		declareTools(&cfg, s.parts.tools, tools)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mode != "" {
		if m, err := policy.ParseMode(s.mode); err == nil {
			cfg.Mode = m
		}
	}
	for _, r := range s.own {
		rule, err := r.rule()
		if err != nil {
			return err
		}
		cfg.Rules = append(cfg.Rules, rule)
	}
	cfg.Follows = s.engine
	var engine *policy.Engine
	if !cfg.OnlyRules || len(cfg.Rules) > 0 || len(cfg.Hooks) > 0 {
		var err error
		if engine, err = policy.NewEngine(cfg); err != nil {
			return err
		}
	}
	if s.parts.hooks != nil {
		if own == nil {
			own = s.parts.hooks
		}
		s.parts.hooks.SetSession(s, own) // in place of those of an earlier policy
	}
	s.force, s.engine, s.tools = p, engine, tools
	s.revision.Add(1)
	return nil
}

// ownHooks compiles the command hooks of a policy, after those of the process.
func (s *Session) ownHooks(p PolicyInForce) (*HookRegistry, error) {
	if c := s.child; c != nil {
		return s.parts.hooks.of(c.parent).Child(c.path, c.kind), nil
	}
	if len(p.Hooks) == 0 {
		return s.parts.hooks, nil
	}
	return s.parts.hooks.With(HookRegistryOptions{Specs: p.Hooks, Env: HookEnvironment{
		Runner: s.parts.runner, Caller: s.caller(), View: HostView{MountView: s.parts.host.MountView, Daemon: s.parts.ownDirs}, Grant: p.Grant, Managed: p.ManagedGrant,
		Workspace: s.workspace, Mode: s.Mode, Trusts: p.TrustsHook,
	}})
}

// complete adds to a configuration what is not in files.
func (s *Session) complete(cfg *policy.Config, own *HookRegistry) {
	if c := s.modelsNow().classifier; c != nil {
		cfg.Classifier = c
	}
	cfg.AppliesEnv = true
	cfg.Confinement = s.parts.confinement
	cfg.AsRoot = s.peer.Caller.UID == 0
	cfg.Hooks = slices.Clone(cfg.Hooks)
	for _, h := range own.PreToolUse(s) {
		cfg.Hooks = append(cfg.Hooks, ownThreadHook{h})
	}
	s.hookVotes.Store(len(cfg.Hooks) > 0)
	if s.child != nil {
		s.child.complete(s, cfg, own)
		return
	}
	cfg.Askers = append(slices.Clone(cfg.Askers), own.Askers(s)...)
	if s.parts.asks != nil {
		cfg.Askers = append(cfg.Askers, s.parts.asks.Asker(s))
	}
}

// rule is a rule of the session as the engine takes it.
func (r SessionRule) rule() (policy.Rule, error) {
	kind, err := policy.ParseKind(r.Kind)
	rule := policy.Rule{Kind: kind, Pattern: r.Pattern, Source: policy.Source{Kind: policy.SourceSession}}
	if kind == policy.AskRule {
		rule.Message = r.Reason
	} else {
		rule.Reason = r.Reason
	}
	return rule, err
}

// ownThreadHook runs a hook on a thread with the daemon's own rights: a decision
// looks at files with those of the user, and a process that is started from such
// a thread would inherit them half.
type ownThreadHook struct{ policy.Hook }

func (h ownThreadHook) PreToolUse(ctx context.Context, c policy.Call) (res policy.HookResult, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if p := recover(); p != nil {
				res, err = policy.HookResult{}, fmt.Errorf("hook panicked: %v", p)
			}
		}()
		res, err = h.Hook.PreToolUse(ctx, c)
	}()
	<-done
	return res, err
}
