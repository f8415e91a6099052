package provider

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"sandboxd/agentloop"
)

// playing is one answer while it is given.
type playing struct {
	a      *ScriptAnswer
	r      agentloop.ModelRequest
	groups []group
	model  string
	prefix string // of call ids
}

// fill replaces {{name}}. The last group of a name wins; unknown ones stay.
func (p *playing) fill(text string, more ...group) string {
	if !strings.Contains(text, "{{") {
		return text
	}
	values := map[string]string{}
	for _, g := range append(p.groups[:len(p.groups):len(p.groups)], more...) {
		values[g.name] = g.text
	}
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(text, "{{")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		name, after, closed := strings.Cut(rest, "}}")
		if value, known := values[strings.TrimSpace(name)]; closed && known {
			b.WriteString(value)
			text = after
			continue
		}
		b.WriteString("{{")
		text = rest
	}
}

func (p *playing) fillAll(v any, more ...group) any {
	switch v := v.(type) {
	case string:
		return p.fill(v, more...)
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = p.fillAll(v[i], more...)
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(v))
		for k := range v {
			out[k] = p.fillAll(v[k], more...)
		}
		return out
	}
	return v
}

func (p *playing) run(ctx context.Context, emit func(agentloop.ModelDelta)) (agentloop.ModelAnswer, error) {
	a := p.a
	if a.Hang {
		<-ctx.Done()
		return agentloop.ModelAnswer{}, ctx.Err()
	}
	for i := range a.Retries {
		emit(agentloop.ModelDelta{Retry: &agentloop.ModelRetry{Attempt: i + 1, Wait: a.Pace, Err: errors.New("scripted")}})
		if err := sleep(ctx, a.Pace); err != nil {
			return agentloop.ModelAnswer{}, err
		}
	}
	if err := sleep(ctx, a.Delay); err != nil {
		return agentloop.ModelAnswer{}, err
	}
	m := agentloop.Message{Role: agentloop.RoleAssistant, Time: time.Now().UTC(), Model: p.model}
	if m.Model == "" {
		m.Model = "script"
	}
	said := p.fill(a.Say)
	if len(said)*max(a.SayTimes, 1) > maxScriptSaid {
		return agentloop.ModelAnswer{}, p.failed(fmt.Errorf("an answer of a script has at most %d bytes", maxScriptSaid))
	}
	said = strings.Repeat(said, max(a.SayTimes, 1))
	for _, part := range []struct {
		kind agentloop.BlockKind
		text string
	}{{agentloop.BlockThinking, p.fill(a.Thinking)}, {agentloop.BlockText, said}} {
		if part.text == "" {
			continue
		}
		if err := p.speak(ctx, part.kind, part.text, emit); err != nil {
			return agentloop.ModelAnswer{}, err
		}
		m.Blocks = append(m.Blocks, agentloop.Block{Kind: part.kind, Origin: agentloop.OriginModel, Text: part.text})
	}
	if e := a.Error; e != nil {
		return agentloop.ModelAnswer{}, &agentloop.ModelError{Kind: e.Kind, Provider: "scripted", Status: e.Status, Attempts: 1 + a.Retries, Err: errors.New(orText(p.fill(e.Text), "scripted error"))}
	}
	calls, err := p.calls(emit)
	if err != nil {
		return agentloop.ModelAnswer{}, p.failed(err)
	}
	m.Blocks = append(m.Blocks, calls...)
	answer := agentloop.ModelAnswer{Message: m, Stop: a.Stop, Usage: p.usage(m), ID: p.prefix}
	if answer.Stop == "" {
		answer.Stop = agentloop.StopEnd
		if len(calls) > 0 {
			answer.Stop = agentloop.StopTools
		}
	}
	answer.Detail = string(answer.Stop)
	answer.Message.Usage = &answer.Usage
	return answer, nil
}

func (p *playing) failed(err error) error {
	return &agentloop.ModelError{Kind: agentloop.ModelBadAnswer, Provider: "scripted", Attempts: 1, Err: err}
}

// pieceBytes is about how much of a text is one piece.
const pieceBytes = 24

// speak gives a text in pieces that end between words.
func (p *playing) speak(ctx context.Context, kind agentloop.BlockKind, text string, emit func(agentloop.ModelDelta)) error {
	for text != "" {
		if err := ctx.Err(); err != nil {
			return err
		}
		n := len(text)
		if n > pieceBytes && len(text) < 64<<10 { // a flood comes in one piece
			if i := strings.IndexByte(text[pieceBytes:], ' '); i >= 0 {
				n = pieceBytes + i + 1
			}
		}
		d := agentloop.ModelDelta{Text: text[:n]}
		if kind == agentloop.BlockThinking {
			d = agentloop.ModelDelta{Thinking: text[:n]}
		}
		emit(d)
		if text = text[n:]; text == "" {
			return nil
		}
		if err := sleep(ctx, p.a.Pace); err != nil {
			return err
		}
	}
	return nil
}

func (p *playing) calls(emit func(agentloop.ModelDelta)) (out []agentloop.Block, err error) {
	for _, c := range p.a.Calls {
		for i := range max(c.Times, 1) {
			own := group{"i", strconv.Itoa(i + 1)}
			b := agentloop.Block{Kind: agentloop.BlockToolUse, Origin: agentloop.OriginModel, Tool: p.fill(c.Tool, own), CallID: p.fill(c.ID, own)}
			if b.CallID == "" {
				b.CallID = fmt.Sprintf("call-%s-%d", p.prefix, len(out)+1)
			}
			if c.Raw != nil {
				b.Args = p.fill(*c.Raw, own)
			} else {
				args, _ := p.fillAll(c.Args, own).(map[string]any)
				if args == nil {
					args = map[string]any{}
				}
				data, err := json.Marshal(args)
				if err != nil {
					return nil, fmt.Errorf("the arguments of %s: %w", c.Tool, err)
				}
				b.Args = string(data)
			}
			emit(agentloop.ModelDelta{Tool: b.Tool})
			out = append(out, b)
		}
	}
	return out, nil
}

// usage is what the script says, else a quarter of the characters.
func (p *playing) usage(m agentloop.Message) agentloop.Usage {
	if u := p.a.Usage; u != nil {
		return agentloop.Usage{Input: u.Input, Output: u.Output, CacheRead: u.CacheRead, CacheWrite: u.CacheWrite}
	}
	in := 0
	for _, s := range p.r.System {
		in += len(s)
	}
	for _, m := range p.r.Messages {
		in += blockBytes(m)
	}
	return agentloop.Usage{Input: int64(in / 4), Output: int64(blockBytes(m) / 4)}
}

func blockBytes(m agentloop.Message) (n int) {
	for _, b := range m.Blocks {
		n += len(b.Text) + len(b.Args)
	}
	return n
}

func orText(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}

// sleep waits, or returns the error of ctx.
func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
