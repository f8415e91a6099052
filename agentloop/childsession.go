package agentloop

import (
	"context"
	"fmt"
	"slices"

	"sandboxd/policy"
)

// childOf ties the session of a sub-agent to that of the agent which started it.
//
// A sub-agent has a session of its own: its own engine, calls, background tasks and
// knowledge of files, and nobody reads its events. What it may do comes from its
// parent each time that changes there: the policy, the rules of the session, the
// hooks, the mode, the tools of MCP servers. To that come its own rules, which deny
// and ask, its own mode, and its tools; these only take away. A nil childOf is that
// of a lead.
//
// # Ceiling and tool set
//
// Deny rules of the policy are a ceiling: they bind every agent of the session. The
// tools that an agent is offered (AgentOptions.Tools, --tools, [AgentDef.Tools]) are
// its own matter: a lead that has nothing but subagent can start workers with tools.
// What a sub-agent is restricted to, by its definition or by who starts it, is a
// ceiling again, for it and all below it; [AgentDef.Delegate] alone leaves its own
// sub-agents what it has not itself.
type childOf struct {
	parent *Session
	lead   *Session // where people are asked and told
	path   string   // "explore-1", below that "explore-1/general-2"
	kind   string   // the name of its definition
	bubble bool     // questions go to the person of the lead
	rules  []policy.Rule
	// own are its tools; sets what binds it and all below it.
	own  toolset
	sets toolsets
}

// childRequest is what a sub-agent is started with.
type childRequest struct {
	kind string
	mode policy.Mode // see [policy.NarrowerMode]
	// rules deny and ask; others are refused.
	rules []policy.Rule
	// own are the tools of the sub-agent; ceiling binds it and all below it.
	own     toolset
	ceiling toolsets
}

// startChild makes the session of a sub-agent. It ends with its parent, and by
// endChild.
func (s *Session) startChild(r childRequest) (*Session, error) {
	for _, rule := range r.rules {
		if rule.Kind == policy.AllowRule {
			return nil, fmt.Errorf("a sub-agent brings no rule that allows: %s", rule.Pattern)
		}
	}
	lead := s.lead()
	name := fmt.Sprintf("%s-%d", r.kind, lead.spawned.Add(1))
	c := newSession(s.id+"/"+name, s.Peer(), s.asked(), s.parts)
	c.parts.changed, c.parts.reload = nil, nil // as its parent's
	c.events.silent = true
	c.secrets, c.kept, c.workspace = s.secrets, s.kept, s.workspace
	c.mode = r.mode.String()
	c.child = &childOf{parent: s, lead: lead, path: name, kind: r.kind, bubble: r.mode == policy.ModeBubble, rules: r.rules,
		own: r.own, sets: slices.Concat(s.child.ceiling(), r.ceiling)}
	if s.child != nil {
		c.child.path = s.child.path + "/" + name
		c.child.bubble = c.child.bubble && s.child.bubble // each agent between hands it on
	}
	if err := c.inherit(); err != nil {
		return nil, err
	}
	if err := s.adopt(c); err != nil {
		s.parts.hooks.DropSession(c)
		return nil, err
	}
	if err := c.inherit(); err != nil { // what changed in between
		s.endChild(context.Background(), c)
		return nil, err
	}
	return c, nil
}

// adopt ties a child to the life of s.
func (s *Session) adopt(c *Session) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed != "":
		return ErrSessionClosed
	case s.cancelled:
		return ErrCancelled
	}
	if s.children == nil {
		s.children = map[*Session]struct{}{}
	}
	s.children[c] = struct{}{}
	return nil
}

// endChild ends the session of a sub-agent and waits for what it still does.
func (s *Session) endChild(ctx context.Context, c *Session) {
	c.end(context.WithoutCancel(ctx), "the sub-agent has ended")
	s.mu.Lock()
	delete(s.children, c)
	s.mu.Unlock()
	s.parts.hooks.DropSession(c)
}

// lead is the session that a client made.
func (s *Session) lead() *Session {
	if s.child == nil {
		return s
	}
	return s.child.lead
}

// heirs are the sessions of the sub-agents that s has started.
func (s *Session) heirs() []*Session {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]*Session, 0, len(s.children))
	for c := range s.children {
		out = append(out, c)
	}
	return out
}

// inherit puts in force what the parent has now.
func (c *Session) inherit() error {
	c.installing.Lock() // first: of two changes the later one is put in force last
	defer c.installing.Unlock()
	p, tools := c.child.parent.bequest()
	var err error
	inner := c.asUser(func() { err = c.put(p, tools) })
	if inner != nil {
		return inner
	}
	return err
}

// bequest is what a child of s gets: the policy in force with all rules of the
// session, and its tools.
func (s *Session) bequest() (PolicyInForce, map[string]Tool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.force
	p.Config.Rules = slices.Concat(p.Config.Rules, s.child.ownRules())
	for _, r := range s.own {
		if rule, err := r.rule(); err == nil { // it was compiled when it came
			p.Config.Rules = append(p.Config.Rules, rule)
		}
	}
	return p, s.tools
}

// tellChildren hands a change on. A sub-agent that cannot have it is ended: it must
// not go on with what holds no more. The lock of s is not held.
func (s *Session) tellChildren() {
	for _, c := range s.heirs() {
		if err := c.inherit(); err != nil {
			gone, cancel := context.WithCancel(context.Background())
			cancel() // nothing is waited for
			c.end(gone, "policy: "+err.Error())
			continue
		}
		c.tellChildren()
	}
}

// ownRules are those of the sub-agent itself.
func (c *childOf) ownRules() []policy.Rule {
	if c == nil {
		return nil
	}
	return c.rules
}

// ceiling are the sets that bind all below.
func (c *childOf) ceiling() toolsets {
	if c == nil {
		return nil
	}
	return c.sets
}

// above are the modes of the agents above, as they are now.
func (c *childOf) above() []policy.Mode {
	var out []policy.Mode
	for c != nil {
		out = append(out, c.parent.Mode())
		c = c.parent.child
	}
	return out
}

// complete makes a configuration the sub-agent's.
func (c *childOf) complete(s *Session, cfg *policy.Config, own *HookRegistry) {
	cfg.Rules = append(cfg.Rules, c.rules...)
	cfg.Above = c.above
	// Nobody is asked but by hooks, and in mode bubble the person of the lead.
	cfg.Askers = own.Askers(s)
	cfg.Parent = nil
	if c.bubble && s.parts.asks != nil {
		cfg.Parent = firstAsker(append(slices.Clone(cfg.Askers), bubbleAsker{s.parts.asks, c.lead, s}))
	}
}

// offers reports whether the sub-agent has a tool.
func (c *childOf) offers(name string) bool {
	return c == nil || c.own.has(name) && c.sets.has(name)
}

// refusal says why a call is none of the sub-agent's tools, or nothing.
func (c *childOf) refusal(s *Session, call policy.Call) string {
	if c == nil {
		return ""
	}
	base := policy.Base{Workspace: s.workspace, Home: s.peer.Caller.Home}
	return append(toolsets{c.own}, c.sets...).refusal(call, base)
}

// bubbleAsker puts the questions of a sub-agent into its lead's session.
type bubbleAsker struct {
	q        *AskQueue
	lead, by *Session
}

// Ask implements [policy.Asker].
func (a bubbleAsker) Ask(ctx context.Context, q policy.Question) (policy.Answer, error) {
	return a.q.ask(ctx, a.lead, a.by, q)
}

// firstAsker asks all and takes the first answer.
type firstAsker []policy.Asker

// Ask implements [policy.Asker]. It waits for those that it told to stop.
func (f firstAsker) Ask(ctx context.Context, q policy.Question) (policy.Answer, error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	type answered struct {
		answer policy.Answer
		err    error
	}
	answers := make(chan answered, len(f))
	for _, a := range f {
		go func() {
			var got answered
			defer func() {
				if p := recover(); p != nil {
					got.err = fmt.Errorf("asker panicked: %v", p)
				}
				answers <- got
			}()
			got.answer, got.err = a.Ask(ctx, q)
		}()
	}
	first := answered{err: ErrNoAnswerer}
	for range f {
		if got := <-answers; first.err != nil {
			if first = got; got.err == nil {
				stop()
			}
		}
	}
	return first.answer, first.err
}
