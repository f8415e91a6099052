// Package provider speaks to models: Anthropic's Messages API, the chat
// completions and responses APIs of OpenAI and the many servers that speak them,
// and a script that plays a model.
//
//	p, cfg, err := provider.New(cfg, lookup, provider.Options{})
//	answer, err := p.Stream(ctx, agentloop.ModelRequest{Model: cfg.Model, ...}, emit)
//
// Nothing is read from the environment of this process, from files of the user or
// from a metadata service: address and key are what [New] was given. A redirect is
// not followed, and a key is not sent over plain HTTP except to this host.
//
// # Limits
//
// A model, and whoever answers in its name, may say anything. What comes back is
// bounded in size and time and is decoded, no more: tool names and arguments are
// judged by who runs them.
package provider
