package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"sandboxd/agentloop"
	"sandboxd/agentloop/provider"
	"sandboxd/agentloop/tools"
	"sandboxd/cmd/sandboxd/api"
	"sandboxd/policy"
	policypath "sandboxd/policy/path"
)

// makeAgent makes the agent of a session: the model that the policy and the client
// name, with the client's own keys, and the tools of the session.
func (d *parts) makeAgent(ctx context.Context, s *agentloop.Session, q api.AgentRequest, conversation string) (api.Loop, error) {
	cfg := s.AgentConfig(q.Config())
	if conversation != "" {
		head, err := d.talks.Head(ctx, conversation)
		if err != nil {
			return nil, err
		}
		cfg = goOn(cfg, head)
	}
	model, cfg, err := d.provider(s, cfg, q.ScriptText)
	if err != nil {
		return nil, err
	}
	if err := d.connect(ctx, s); err != nil {
		closeModel(model)
		return nil, err
	}
	offered, err := d.offered(s, q.Tools)
	if err != nil {
		closeModel(model)
		return nil, err
	}
	if conversation != "" {
		done, err := d.loads.begin(ctx, s.Peer().UID())
		if err != nil {
			closeModel(model)
			return nil, err
		}
		defer done()
	}
	var agent *agentloop.Agent
	agent, err = agentloop.NewAgent(ctx, agentloop.AgentOptions{
		Session: s, Dispatcher: d.dispatcher, Provider: model, Config: cfg, Price: priceOf(cfg, cfg.Model),
		PriceOf: func(model string) *agentloop.Price { return priceOf(cfg, model) }, Tools: offered, System: q.System,
		Context: func(ctx context.Context) []agentloop.SystemPart { return contextOf(ctx, s, agent.Conversation().ID) },
		Store:   d.talks, Conversation: conversation,
	})
	if err == nil {
		err = setModels(s, agent, model, cfg)
	}
	if err != nil {
		closeModel(model)
		return nil, err
	}
	return &loop{Agent: agent, model: model}, nil
}

// offered gives the tools that a client names their own names. A name that no tool
// has is refused: a typing error would take a tool away in silence.
func (d *parts) offered(s *agentloop.Session, names []string) ([]string, error) {
	if names == nil {
		return nil, nil
	}
	var known []string
	for _, t := range slices.Concat(d.tools, s.Tools()) {
		known = append(known, t.Name())
	}
	slices.Sort(known)
	offered := make([]string, 0, len(names))
	for _, name := range names {
		own := policy.CanonicalTool(name)
		if !slices.Contains(known, own) {
			near := slices.MinFunc(known, func(a, b string) int { return policy.EditDistance(a, own) - policy.EditDistance(b, own) })
			return nil, api.NewFault(api.CodeBadRequest, "did you mean "+near+"? There are: "+strings.Join(known, ", "), "no tool %q", name)
		}
		offered = append(offered, own)
	}
	return offered, nil
}

// setModels gives the session the classifier of mode auto and, if it is asked for, the
// explainer of questions. What they use counts against the agent's budget.
func setModels(s *agentloop.Session, agent *agentloop.Agent, model agentloop.Provider, cfg agentloop.AgentConfig) error {
	role := func(name string) agentloop.ModelRole {
		if name == "" {
			name = cfg.Model
		}
		return agentloop.ModelRole{Provider: model, Model: name, Mask: s.Redactor().Mask, Spent: func(name string, u agentloop.Usage) {
			agent.Spend(u, priceOf(cfg, name))
		}}
	}
	var explainer agentloop.Explainer
	if cfg.Explain {
		explainer = agentloop.NewModelExplainer(role(cfg.Explainer))
	}
	return s.SetModels(agentloop.NewModelClassifier(role(cfg.Classifier)), explainer)
}

// connect gives a session the tools of its MCP servers, once: when its first agent is
// made. A server that cannot be used is told of in the session's events.
func (d *parts) connect(ctx context.Context, s *agentloop.Session) error {
	if _, there := d.connected.LoadOrStore(s.ID(), true); there {
		return nil
	}
	s.AtEnd(func() { d.connected.Delete(s.ID()) })
	servers, err := tools.ConnectMCP(ctx, d.dispatcher, s)
	if err != nil {
		d.connected.Delete(s.ID())
		return err
	}
	for _, problem := range servers.Problems {
		d.log.Warn("MCP server", "session", s.ID(), "error", problem)
		s.Events().Publish(agentloop.EventTurnNotice, agentloop.TurnNotice{Kind: "mcp", Text: s.Redactor().Mask(problem.Error())})
	}
	return nil
}

// priceOf is the price of a model, or nil.
func priceOf(cfg agentloop.AgentConfig, model string) *agentloop.Price {
	if price, known := provider.PriceOf(cfg, model); known {
		return &price
	}
	return nil
}

// contextOf is what a model is told of the workspace besides AGENTS.md. What cannot be
// read is told of in its place.
func contextOf(ctx context.Context, s *agentloop.Session, conversation string) []agentloop.SystemPart {
	var parts []agentloop.SystemPart
	add := func(name, text string, err error) {
		if err != nil {
			text = "cannot be read: " + err.Error()
		}
		if text != "" {
			parts = append(parts, agentloop.SystemPart{Origin: agentloop.OriginFile, Name: name, Text: text})
		}
	}
	add("skills", tools.Skills(ctx, s), nil)
	add("types of sub-agents", tools.Agents(ctx, s), nil)
	text, err := tools.Memory(s)
	add("memory", text, err)
	text, err = tools.Notes(s, conversation)
	add("notes", text, err)
	return parts
}

// goOn keeps to the model of a conversation, unless another one is asked for.
func goOn(cfg agentloop.AgentConfig, head agentloop.Conversation) agentloop.AgentConfig {
	if cfg.Provider == "" && cfg.Model == "" {
		cfg.Provider, cfg.Model = head.Provider, head.Model
	}
	return cfg
}

// provider makes the model's API for the user of s. script is the one that the client
// sent, if any.
func (d *parts) provider(s *agentloop.Session, cfg agentloop.AgentConfig, script string) (agentloop.Provider, agentloop.AgentConfig, error) {
	model, resolved, err := provider.New(cfg, s.ProviderEnv, provider.Options{ReadFile: func(path string) ([]byte, error) {
		if script != "" {
			return []byte(script), nil
		}
		return readAs(s.Peer().Caller, path)
	}})
	if c, ok := errors.AsType[*provider.ConfigError](err); ok {
		return nil, cfg, api.NewFault(api.CodeModel, c.Hint, "%s", c.Text)
	}
	if err != nil {
		return nil, cfg, api.NewFault(api.CodeModel, "", "%v", err)
	}
	return model, resolved, nil
}

// readAs reads a regular file with the rights of a client.
func readAs(c agentloop.Caller, path string) (text []byte, err error) {
	inner := agentloop.AsUser(c, func() {
		// Not blocking: a FIFO would hold up the daemon.
		fd, failed := policypath.OpenNamed(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY)
		if failed != nil {
			err = failed
			return
		}
		f := os.NewFile(uintptr(fd), path)
		defer f.Close()
		if st, statErr := f.Stat(); statErr != nil || !st.Mode().IsRegular() {
			err = errors.Join(statErr, fmt.Errorf("%s is no regular file", path))
			return
		}
		if text, err = io.ReadAll(io.LimitReader(f, api.MaxScriptBytes+1)); len(text) > api.MaxScriptBytes {
			err = fmt.Errorf("%s is longer than %d bytes", path, api.MaxScriptBytes)
		}
	})
	return text, errors.Join(inner, err)
}

// loop is an agent with its model, which ends with it.
type loop struct {
	*agentloop.Agent
	model agentloop.Provider
}

func (l *loop) Close() {
	l.Agent.Close()
	closeModel(l.model)
}

func closeModel(m agentloop.Provider) {
	if c, ok := m.(io.Closer); ok {
		_ = c.Close() // idle connections
	}
}
