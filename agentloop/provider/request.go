package provider

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"

	"sandboxd/agentloop"
)

// api is one protocol. stream sends one request, once; without names parts of a
// request that the server refused before.
type api interface {
	name() string
	stream(ctx context.Context, r agentloop.ModelRequest, without map[string]bool, emit func(agentloop.ModelDelta)) (agentloop.ModelAnswer, error)
	// thought reports whether a block is a thought that the model takes back.
	thought(b agentloop.Block, model string) bool
	// optional are parts of a request that can be left out.
	optional() []part
}

// part is a part of a request that a server may refuse; its refusal has the word.
type part struct{ name, word string }

// thoughts is the part that are the thoughts of earlier answers.
const thoughts = "thoughts"

// named are parts whose names refusals have.
func named(names ...string) (out []part) {
	for _, n := range names {
		out = append(out, part{n, n})
	}
	return out
}

// client is a [agentloop.Provider] over one of the protocols.
type client struct {
	api  api
	http *http.Client
	o    Options
	key  string // the name of its variable

	mu sync.Mutex
	// without are parts that a model's server refused, by model.
	without map[string]map[string]bool
}

func (c *client) Name() string { return c.api.name() }

// Close drops connections that are idle. The provider can be used on.
func (c *client) Close() error { c.http.CloseIdleConnections(); return nil }

// Stream implements [agentloop.Provider].
func (c *client) Stream(ctx context.Context, r agentloop.ModelRequest, emit func(agentloop.ModelDelta)) (agentloop.ModelAnswer, error) {
	if emit == nil {
		emit = func(agentloop.ModelDelta) {}
	}
	var waited time.Duration
	for attempt := 1; ; attempt++ {
		said := false
		answer, err := c.once(ctx, r, func(d agentloop.ModelDelta) { said = true; emit(d) })
		if err == nil {
			return answer, nil
		}
		if ctx.Err() != nil {
			return agentloop.ModelAnswer{}, ctx.Err()
		}
		f := failed(err)
		if !said && c.refused(r.Model, f) {
			attempt--
			continue
		}
		wait := c.backoff(attempt, f)
		if said && f.kind != agentloop.ModelBadAnswer && f.kind != agentloop.ModelSilent {
			f.kind = agentloop.ModelCut
		}
		if said || !f.again || attempt >= c.o.Attempts || waited+wait > c.o.MaxWait {
			return agentloop.ModelAnswer{}, c.final(f, attempt, said)
		}
		emit(agentloop.ModelDelta{Retry: &agentloop.ModelRetry{Attempt: attempt, Wait: wait, Err: f.err}})
		if err := sleep(ctx, wait); err != nil {
			return agentloop.ModelAnswer{}, err
		}
		waited += wait
	}
}

// once is one attempt. A panic of an SDK on odd data is a bad answer.
func (c *client) once(ctx context.Context, r agentloop.ModelRequest, emit func(agentloop.ModelDelta)) (a agentloop.ModelAnswer, err error) {
	defer func() {
		if p := recover(); p != nil {
			a, err = agentloop.ModelAnswer{}, &failure{kind: agentloop.ModelBadAnswer, err: fmt.Errorf("the answer could not be read: %s", clipLine(fmt.Sprint(p)))}
		}
	}()
	c.mu.Lock()
	without := make(map[string]bool, len(c.without[r.Model]))
	for w := range c.without[r.Model] {
		without[w] = true
	}
	c.mu.Unlock()
	r.Messages = repaired(r.Messages, func(b agentloop.Block) bool { return !without[thoughts] && c.api.thought(b, r.Model) })
	if a, err = c.api.stream(ctx, r, without, emit); err != nil {
		return a, err
	}
	// A budget counts these figures: none of them makes it larger.
	for _, n := range []*int64{&a.Usage.Input, &a.Usage.Output, &a.Usage.CacheRead, &a.Usage.CacheWrite} {
		*n = min(max(*n, 0), maxTokens)
	}
	usage := a.Usage
	a.Message.Usage, a.Message.Model = &usage, orText(clipLine(a.Message.Model), r.Model)
	return a, nil
}

// maxTokens is more than any model counts for one answer; sums of it do not overflow.
const maxTokens = 1 << 40

// refused finds out whether the server objects to an optional part of the request,
// and leaves it out from now on. Each part is tried once for each model.
func (c *client) refused(model string, f *failure) bool {
	if f.kind != agentloop.ModelBadRequest || f.status < 400 || f.status >= 500 {
		return false
	}
	text := strings.ToLower(string(f.body))
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, part := range c.api.optional() {
		if !strings.Contains(text, part.word) || c.without[model][part.name] {
			continue
		}
		if c.without[model] == nil {
			if c.without == nil || len(c.without) >= maxModels {
				c.without = map[string]map[string]bool{}
			}
			c.without[model] = map[string]bool{}
		}
		c.without[model][part.name] = true
		return true
	}
	return false
}

// maxModels bounds what is remembered of servers.
const maxModels = 100

// backoff is how long to wait: what the server says, else half a second, doubled
// each time up to 16, with a random part so that many do not come at once.
func (c *client) backoff(attempt int, f *failure) time.Duration {
	if f.after > 0 {
		return f.after
	}
	d := c.o.Backoff << min(attempt-1, 5)
	return d/2 + rand.N(d/2+1)
}

func (c *client) final(f *failure, attempts int, said bool) *agentloop.ModelError {
	e := &agentloop.ModelError{Kind: f.kind, Provider: c.api.name(), Status: f.status, Attempts: attempts, Err: f.err, Hint: hint(f.kind, c.key)}
	if f.after > 0 && f.again && !said {
		e.Hint = fmt.Sprintf("the server asks to wait %v", f.after.Round(time.Second))
	}
	return e
}

// errNoEnd is the end of a stream before that of the answer.
var errNoEnd = errors.New("the stream ended in the middle of the answer")

func cut() *failure { return &failure{kind: agentloop.ModelCut, again: true, err: errNoEnd} }

func badAnswer(format string, args ...any) *failure {
	return &failure{kind: agentloop.ModelBadAnswer, err: fmt.Errorf(format, args...)}
}
