package agentloop

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// Provider is a model API. It is safe for concurrent use. The implementations are
// in agentloop/provider.
type Provider interface {
	// Name is "anthropic", "openai", "openai-responses" or "scripted".
	Name() string
	// Stream sends one request and returns the whole answer. emit, if not nil, is
	// called with each piece as it arrives, from one goroutine at a time, and not
	// after Stream returned. Retries happen within: a piece that was emitted is
	// not emitted again, so a stream that is cut after its first piece is an
	// error of kind [ModelCut]. Errors are *[ModelError] or those of ctx.
	Stream(ctx context.Context, r ModelRequest, emit func(ModelDelta)) (ModelAnswer, error)
}

// ModelRequest is one request to a model.
type ModelRequest struct {
	Model string
	// System is the system prompt in parts; those that do not change stand first,
	// so that a provider with prompt caching can mark them.
	System   []string
	Messages []Message
	Tools    []ToolSchema
	// NoTools: the model must answer in words; Tools stay declared where the API
	// allows it, so that caches hold.
	NoTools   bool
	MaxTokens int // of the answer; zero: the provider's default
	// NoThinking switches off extended thinking (sub-agents, classifiers).
	NoThinking bool
	// Schema, if not nil, is the JSON schema that the answer's text must have.
	Schema json.RawMessage
}

// ToolSchema declares a tool to a model.
type ToolSchema struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	// Parameters is a JSON schema of type object.
	Parameters json.RawMessage `json:"parameters"`
}

// ModelDelta is one piece of an answer. One of the fields is set.
type ModelDelta struct {
	Text     string
	Thinking string
	// Tool names a call that begins; its arguments come with the answer.
	Tool string
	// Retry tells that the request is sent again after Wait.
	Retry *ModelRetry
}

// ModelRetry says why a request is sent again.
type ModelRetry struct {
	Attempt int // the one that failed, from 1
	Wait    time.Duration
	Err     error
}

// StopReason is why a model stopped.
type StopReason string

const (
	StopEnd     StopReason = "end"     // it has said what it had to say
	StopTools   StopReason = "tools"   // it waits for results
	StopLength  StopReason = "length"  // MaxTokens, or the context is full
	StopRefusal StopReason = "refusal" // it, or a filter, declines
	StopOther   StopReason = "other"   // see Detail
)

// ModelAnswer is a whole answer.
type ModelAnswer struct {
	Message Message
	Stop    StopReason
	Detail  string // the provider's own word for Stop
	Usage   Usage
	ID      string // the provider's, for its support
}

// Usage counts tokens as the provider reports them.
type Usage struct {
	// Input are the tokens of the request that were not read from a cache.
	Input int64 `json:"input_tokens"`
	// CacheRead and CacheWrite are the other tokens of the request.
	CacheRead  int64 `json:"cache_read_tokens,omitempty"`
	CacheWrite int64 `json:"cache_write_tokens,omitempty"`
	Output     int64 `json:"output_tokens"`
}

// Context is how many tokens the request and its answer fill.
func (u Usage) Context() int64 { return u.Input + u.CacheRead + u.CacheWrite + u.Output }

// Add sums up two usages.
func (u Usage) Add(o Usage) Usage {
	return Usage{Input: u.Input + o.Input, CacheRead: u.CacheRead + o.CacheRead, CacheWrite: u.CacheWrite + o.CacheWrite, Output: u.Output + o.Output}
}

// Price is what a model costs, in US dollars for a million tokens.
type Price struct{ Input, Output, CacheRead, CacheWrite float64 }

// Of is the price of a usage, in US dollars.
func (p Price) Of(u Usage) float64 {
	const million = 1e6
	return (float64(u.Input)*p.Input + float64(u.Output)*p.Output + float64(u.CacheRead)*p.CacheRead + float64(u.CacheWrite)*p.CacheWrite) / million
}

// ModelErrorKind is why a model gave no answer.
type ModelErrorKind string

const (
	ModelBadKey      ModelErrorKind = "bad-key"       // 401, 403
	ModelUnknown     ModelErrorKind = "unknown-model" // 404
	ModelTooLong     ModelErrorKind = "context-too-long"
	ModelRateLimited ModelErrorKind = "rate-limited" // 429, after the retries
	ModelOverloaded  ModelErrorKind = "overloaded"   // 5xx, 529, after the retries
	ModelCut         ModelErrorKind = "cut"          // the stream ended in the middle
	ModelSilent      ModelErrorKind = "silent"       // nothing came for the time of AgentLimits.Silence
	ModelUnreachable ModelErrorKind = "unreachable"
	ModelBadRequest  ModelErrorKind = "bad-request"
	ModelBadAnswer   ModelErrorKind = "bad-answer" // not the protocol
)

// ModelError reports a request without a whole answer.
type ModelError struct {
	Kind     ModelErrorKind
	Provider string
	Status   int // HTTP; zero without an answer
	Attempts int
	// Hint is what the user can do; may be empty.
	Hint string
	Err  error // never holds the key
}

func (e *ModelError) Error() string {
	s := fmt.Sprintf("%s: %s", e.Provider, e.Kind)
	if e.Status != 0 {
		s += fmt.Sprintf(" (HTTP %d)", e.Status)
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	if e.Hint != "" {
		s += "; " + e.Hint
	}
	return s
}

func (e *ModelError) Unwrap() error { return e.Err }
