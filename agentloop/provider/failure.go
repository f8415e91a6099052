package provider

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"

	"sandboxd/agentloop"
)

// failure is an attempt that gave no answer.
type failure struct {
	kind   agentloop.ModelErrorKind
	status int
	err    error
	again  bool          // another attempt may help
	after  time.Duration // the server asks for this much patience
	body   []byte        // of the server, for the word that it objects to
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

// decodeError reads the error object of either API: {"error": {"type", "code",
// "message"}}, with the variants that compatible servers have. code is empty when
// there is none; text is never empty.
func decodeError(data []byte) (code, text string) {
	var outer struct {
		Error   json.RawMessage `json:"error"`
		Message string          `json:"message"`
		Detail  json.RawMessage `json:"detail"`
		Code    any             `json:"code"`
		Type    string          `json:"type"`
	}
	if json.Unmarshal(data, &outer) != nil {
		if text = clipLine(string(data)); text == "" {
			text = "no reason given"
		}
		return "", text
	}
	var inner struct {
		Type    string `json:"type"`
		Code    any    `json:"code"`
		Message string `json:"message"`
	}
	if json.Unmarshal(outer.Error, &inner) != nil {
		_ = json.Unmarshal(outer.Error, &inner.Message) // {"error": "text"}
	}
	inner.Message = orText(inner.Message, outer.Message)
	if inner.Message == "" && len(outer.Detail) > 0 {
		inner.Message = string(outer.Detail)
	}
	for _, c := range []any{inner.Code, inner.Type, outer.Code, outer.Type} {
		if s, ok := c.(string); ok && s != "" && s != "error" {
			code = s
			break
		}
	}
	if text = clipLine(inner.Message); text == "" {
		text = orText(clipLine(code), "no reason given")
	}
	return clipLine(code), text
}

// kinds of errors by the words that the APIs use for them. The first group of
// documentation is Anthropic's "Errors", the second OpenAI's "Error codes".
var kindOfCode = map[string]agentloop.ModelErrorKind{
	"authentication_error":  agentloop.ModelBadKey,
	"permission_error":      agentloop.ModelBadKey,
	"not_found_error":       agentloop.ModelUnknown,
	"request_too_large":     agentloop.ModelTooLong,
	"rate_limit_error":      agentloop.ModelRateLimited,
	"api_error":             agentloop.ModelOverloaded,
	"timeout_error":         agentloop.ModelOverloaded,
	"overloaded_error":      agentloop.ModelOverloaded,
	"invalid_request_error": agentloop.ModelBadRequest,

	"invalid_api_key":         agentloop.ModelBadKey,
	"model_not_found":         agentloop.ModelUnknown,
	"context_length_exceeded": agentloop.ModelTooLong,
	"rate_limit_exceeded":     agentloop.ModelRateLimited,
	"insufficient_quota":      agentloop.ModelRateLimited,
	"server_error":            agentloop.ModelOverloaded,
	"server_is_overloaded":    agentloop.ModelOverloaded,
	"slow_down":               agentloop.ModelOverloaded,
}

// tooLongWords are how servers say that a request does not fit, where no code does.
var tooLongWords = []string{"prompt is too long", "context length", "context_length", "maximum context", "context window", "context size", "too many tokens", "exceed_context_size"}

// ofBody is the failure that an error object tells, with the status that came
// with it (zero within a stream).
func ofBody(status int, data []byte) *failure {
	code, text := decodeError(data)
	f := &failure{kind: kindOfStatus(status), status: status, err: errors.New(text), body: data}
	if k, known := kindOfCode[code]; known && (status == 0 || status == http.StatusOK || k == agentloop.ModelTooLong || k == agentloop.ModelUnknown) {
		f.kind = k
	}
	if f.kind == agentloop.ModelBadRequest || f.kind == agentloop.ModelBadAnswer {
		low := strings.ToLower(text)
		for _, w := range tooLongWords {
			if strings.Contains(low, w) {
				f.kind = agentloop.ModelTooLong
			}
		}
	}
	f.again = (f.kind == agentloop.ModelRateLimited || f.kind == agentloop.ModelOverloaded) && code != "insufficient_quota"
	return f
}

func kindOfStatus(status int) agentloop.ModelErrorKind {
	switch {
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return agentloop.ModelBadKey
	case status == http.StatusNotFound:
		return agentloop.ModelUnknown
	case status == http.StatusRequestEntityTooLarge:
		return agentloop.ModelTooLong
	case status == http.StatusTooManyRequests:
		return agentloop.ModelRateLimited
	case status >= 500, status == http.StatusRequestTimeout:
		return agentloop.ModelOverloaded
	case status >= 400:
		return agentloop.ModelBadRequest
	}
	return agentloop.ModelBadAnswer
}

// failed makes a failure of what an SDK returned. Its text is our own or the
// server's: errors of the SDKs can hold the request, and with it the key.
func failed(err error) *failure {
	if f, ok := errors.AsType[*failure](err); ok {
		return f
	}
	if s, ok := errors.AsType[*statusError](err); ok {
		f := ofBody(s.status, s.body)
		f.err, f.after = s, patience(s.retryAfter)
		f.again = f.again && !s.noRetry
		return f
	}
	known := func(kind agentloop.ModelErrorKind, again bool, text error) *failure {
		return &failure{kind: kind, again: again, err: text}
	}
	syntax, _ := errors.AsType[*json.SyntaxError](err)
	wrong, _ := errors.AsType[*json.UnmarshalTypeError](err)
	netErr, isNet := errors.AsType[net.Error](err)
	dns, isDNS := errors.AsType[*net.DNSError](err)
	switch {
	case errors.Is(err, errTooLarge):
		return known(agentloop.ModelBadAnswer, false, errTooLarge)
	case errors.Is(err, errPlainKey):
		return known(agentloop.ModelUnreachable, false, errPlainKey)
	case errors.Is(err, errSilent):
		// What was sent is not sent again: the model may be working on it.
		return known(agentloop.ModelSilent, false, errSilent)
	case errors.Is(err, errBroken):
		return known(agentloop.ModelCut, true, errBroken)
	case errors.Is(err, errTooLong):
		return known(agentloop.ModelCut, false, errTooLong)
	case syntax != nil, wrong != nil:
		return known(agentloop.ModelBadAnswer, false, errors.New("an event of the stream is no JSON of the protocol"))
	case isDNS:
		return known(agentloop.ModelUnreachable, !dns.IsNotFound, fmt.Errorf("no address for %s", clipLine(dns.Name)))
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return known(agentloop.ModelUnreachable, true, innermost(err))
	case isNet && netErr.Timeout():
		op, _ := errors.AsType[*net.OpError](err)
		return known(agentloop.ModelUnreachable, op != nil && op.Op == "dial", errors.New("no answer in time"))
	case isNet:
		return known(agentloop.ModelUnreachable, false, innermost(err))
	}
	return known(agentloop.ModelBadAnswer, false, innermost(err))
}

// innermost drops what was wrapped round an error, of which the address of the
// request is a part.
func innermost(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err
	}
	return errors.New(clipLine(err.Error()))
}

// patience reads Retry-After: seconds or a date (RFC 9110 section 10.2.3), or
// milliseconds of the header of that name.
func patience(text string) time.Duration {
	if ms, ok := strings.CutSuffix(text, "ms"); ok {
		if n, err := strconv.ParseFloat(ms, 64); err == nil && n > 0 && n < 1e9 {
			return time.Duration(n * float64(time.Millisecond))
		}
		return 0
	}
	if n, err := strconv.ParseFloat(text, 64); err == nil {
		if n > 0 && n < 1e6 {
			return time.Duration(n * float64(time.Second))
		}
		return 0
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(time.Until(at), 0)
	}
	return 0
}

// hints say what a user can do.
func hint(kind agentloop.ModelErrorKind, keyName string) string {
	switch kind {
	case agentloop.ModelBadKey:
		if keyName == NoKey {
			return "no key was sent; set key_env of [agent]"
		}
		return "check the key in " + keyName
	case agentloop.ModelUnknown:
		return "check model and base_url of [agent]"
	case agentloop.ModelTooLong:
		return "compact the conversation, or begin a new one"
	case agentloop.ModelSilent:
		return "a slow server needs a longer silence in [agent.limits]"
	case agentloop.ModelUnreachable:
		return "check base_url of [agent] and the network"
	}
	return ""
}
