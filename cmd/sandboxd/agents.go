package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"sandboxd/agentloop"
	"sandboxd/agentloop/provider"
	"sandboxd/cmd/sandboxd/api"
)

// makeAgent makes the agent of a session: the model that the policy and the client
// name, with the client's own keys, and the tools of the session.
func (d *parts) makeAgent(ctx context.Context, s *agentloop.Session, q api.AgentRequest, conversation string) (api.Loop, error) {
	cfg := withFlags(s.AgentConfig(), q.Config())
	if conversation != "" {
		head, _, err := d.talks.Conversation(ctx, conversation)
		if err != nil {
			return nil, err
		}
		cfg = goOn(cfg, head)
	}
	model, cfg, err := d.provider(s, cfg)
	if err != nil {
		return nil, err
	}
	if price, known := provider.PriceOf(cfg, cfg.Model); known {
		cfg.Prices = map[string]agentloop.Price{cfg.Model: price}
	}
	agent, err := agentloop.NewAgent(ctx, agentloop.AgentOptions{
		Session: s, Dispatcher: d.dispatcher, Provider: model, Config: cfg, Tools: q.Tools, System: q.System,
		Store: d.talks, Conversation: conversation,
	})
	if err != nil {
		closeModel(model)
		return nil, err
	}
	return &loop{Agent: agent, model: model}, nil
}

// goOn keeps to the model of a conversation, unless another one is asked for.
func goOn(cfg agentloop.AgentConfig, head agentloop.Conversation) agentloop.AgentConfig {
	if cfg.Provider == "" && cfg.Model == "" {
		cfg.Provider, cfg.Model = head.Provider, head.Model
	}
	return cfg
}

// provider makes the model's API for the user of s.
func (d *parts) provider(s *agentloop.Session, cfg agentloop.AgentConfig) (agentloop.Provider, agentloop.AgentConfig, error) {
	model, resolved, err := provider.New(cfg, s.ProviderEnv, provider.Options{ReadFile: func(path string) ([]byte, error) {
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

// maxScript bounds a script that is read.
const maxScript = 1 << 20

// readAs reads a regular file with the rights of a client.
func readAs(c agentloop.Caller, path string) (text []byte, err error) {
	inner := agentloop.AsUser(c, func() {
		var f *os.File
		// Not blocking: a FIFO would hold up the daemon.
		if f, err = os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0); err != nil {
			return
		}
		defer f.Close()
		if st, statErr := f.Stat(); statErr != nil || !st.Mode().IsRegular() {
			err = errors.Join(statErr, fmt.Errorf("%s is no regular file", path))
			return
		}
		text, err = io.ReadAll(io.LimitReader(f, maxScript))
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

// withFlags puts what a client asks for above the policy.
func withFlags(cfg, flags agentloop.AgentConfig) agentloop.AgentConfig {
	for _, f := range []struct {
		to   *string
		from string
	}{{&cfg.Provider, flags.Provider}, {&cfg.Model, flags.Model}, {&cfg.BaseURL, flags.BaseURL}, {&cfg.Script, flags.Script}} {
		if f.from != "" {
			*f.to = f.from
		}
	}
	if flags.Limits.MaxSteps > 0 {
		cfg.Limits.MaxSteps = flags.Limits.MaxSteps
	}
	if flags.Limits.Cost > 0 {
		cfg.Limits.Cost = flags.Limits.Cost
	}
	if flags.Limits.Time > 0 {
		cfg.Limits.Time = flags.Limits.Time
	}
	return cfg
}
