package provider

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"sandboxd/agentloop"
)

// Scripted is a [agentloop.Provider] that plays a [Script] for one conversation
// and its sub-agents. It is safe for concurrent use.
//
// Its place in the script is kept in memory. In a conversation that was begun
// before, it is found by playing through the answers that are already there; so a
// conversation can go on after a restart with the same script.
type Scripted struct {
	script *Script

	mu       sync.Mutex
	places   map[string]*place
	record   bool
	requests []agentloop.ModelRequest
}

// place is where one conversation stands.
type place struct {
	step   int // of the part, from 0
	played int // how many times that step was played
	total  int // answers
}

// maxKeptRequests bounds what [Scripted.Requests] remembers.
const maxKeptRequests = 1000

// NewScripted plays s, which [ParseScript] made or [Script.Compile] checked.
func NewScripted(s *Script) *Scripted { return &Scripted{script: s, places: map[string]*place{}} }

func (p *Scripted) Name() string { return "scripted" }

// Record makes p remember its requests, for tests.
func (p *Scripted) Record() *Scripted {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.record = true
	return p
}

// Requests are those that were received since Record, oldest first: the last
// thousand.
func (p *Scripted) Requests() []agentloop.ModelRequest {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]agentloop.ModelRequest(nil), p.requests...)
}

func (p *Scripted) Stream(ctx context.Context, r agentloop.ModelRequest, emit func(agentloop.ModelDelta)) (agentloop.ModelAnswer, error) {
	if err := ctx.Err(); err != nil {
		return agentloop.ModelAnswer{}, err
	}
	if emit == nil {
		emit = func(agentloop.ModelDelta) {}
	}
	play, err := p.next(r)
	if err != nil {
		return agentloop.ModelAnswer{}, &agentloop.ModelError{Kind: agentloop.ModelBadAnswer, Provider: p.Name(), Attempts: 1, Err: err}
	}
	return play.run(ctx, emit)
}

// next finds the answer to a request and moves on.
func (p *Scripted) next(r agentloop.ModelRequest) (*playing, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.record {
		p.requests = append(p.requests[max(len(p.requests)-maxKeptRequests+1, 0):], r)
	}
	key, steps := p.part(r)
	at := p.places[key]
	if at == nil {
		at = replay(steps, r.Messages)
		p.places[key] = at
	}
	if at.step >= len(steps) {
		return nil, fmt.Errorf("%s: the script ends after %d steps; received: %s", key, len(steps), clip(received(r.Messages)))
	}
	step, text := &steps[at.step], received(r.Messages)
	groups, err := step.checked(r, text)
	if err != nil {
		return nil, fmt.Errorf("%s step %d: %w", key, at.step+1, err)
	}
	answer, stay, own := step.choose(text)
	if answer == nil {
		return nil, fmt.Errorf("%s step %d: no branch matches; received: %s", key, at.step+1, clip(text))
	}
	at.total++
	groups = append(groups, own...)
	groups = append(groups, group{"n", strconv.Itoa(at.total)})
	play := &playing{a: answer, r: r, groups: groups, model: p.script.Model, prefix: key + "-" + strconv.Itoa(at.total)}
	at.advance(step, stay)
	return play, nil
}

func (at *place) advance(step *ScriptStep, stay bool) {
	at.played++
	if !stay && step.Repeat >= 0 && at.played >= max(step.Repeat, 1) {
		at.step, at.played = at.step+1, 0
	}
}

// replay plays the answers that a conversation has already.
func replay(steps []ScriptStep, messages []agentloop.Message) *place {
	at := &place{}
	for i, m := range messages {
		if m.Role != agentloop.RoleAssistant {
			continue
		}
		at.total++
		for at.step < len(steps) {
			step := &steps[at.step]
			answer, stay, _ := step.choose(received(messages[:i]))
			at.advance(step, stay)
			if answer == nil || answer.Error == nil {
				break // an error left no answer behind
			}
		}
	}
	return at
}

// part is the script for a request, with a name for its conversation.
func (p *Scripted) part(r agentloop.ModelRequest) (key string, steps []ScriptStep) {
	first := ""
	if len(r.Messages) > 0 {
		first = r.Messages[0].Text()
	}
	for i := range p.script.Others {
		o := &p.script.Others[i]
		if o.match.MatchString(strings.Join(r.System, "\n") + "\n" + first) {
			return fmt.Sprintf("other%d-%08x", i+1, hash(first)), o.Steps
		}
	}
	return "lead", p.script.Steps
}

// hash is FNV-1a: it tells conversations apart and nothing else.
func hash(text string) uint32 {
	h := uint32(2166136261)
	for i := range len(text) {
		h = (h ^ uint32(text[i])) * 16777619
	}
	return h
}

// received is what was said since the last answer.
func received(messages []agentloop.Message) string {
	from := len(messages)
	for from > 0 && messages[from-1].Role != agentloop.RoleAssistant {
		from--
	}
	tools := map[string]string{}
	if from > 0 {
		for _, u := range messages[from-1].Uses() {
			tools[u.CallID] = u.Tool
		}
	}
	var b strings.Builder
	for _, m := range messages[from:] {
		for _, block := range m.Blocks {
			switch block.Kind {
			case agentloop.BlockText:
				fmt.Fprintln(&b, block.Text)
			case agentloop.BlockToolResult:
				fmt.Fprintf(&b, "result of %s (%s):\n%s\n", tools[block.CallID], block.Status, block.Text)
			}
		}
	}
	return b.String()
}

// group is what a name in {{ }} stands for.
type group struct{ name, text string }

func groupsOf(re *regexp.Regexp, text string) (out []group, found bool) {
	m := re.FindStringSubmatch(text)
	if m == nil {
		return nil, false
	}
	for i, name := range re.SubexpNames() {
		out = append(out, group{strconv.Itoa(i), m[i]})
		if name != "" {
			out = append(out, group{name, m[i]})
		}
	}
	return out, true
}

// checked compares a request with what the step expects.
func (s *ScriptStep) checked(r agentloop.ModelRequest, text string) (groups []group, err error) {
	if s.expect != nil {
		var found bool
		if groups, found = groupsOf(s.expect, text); !found {
			return nil, fmt.Errorf("expected /%s/; received: %s", s.Expect, clip(text))
		}
	}
	if s.reject != nil && s.reject.MatchString(text) {
		return nil, fmt.Errorf("did not expect /%s/; received: %s", s.Reject, clip(text))
	}
	if system := strings.Join(r.System, "\n"); s.system != nil && !s.system.MatchString(system) {
		return nil, fmt.Errorf("expected /%s/ in the system prompt; received: %s", s.ExpectSystem, clip(system))
	}
	offered := map[string]bool{}
	for _, t := range r.Tools {
		offered[t.Name] = true
	}
	for _, name := range s.ExpectTools {
		if !offered[name] {
			return nil, fmt.Errorf("expected the tool %s to be offered; %d others are", name, len(offered))
		}
	}
	if s.ExpectNoTools && !r.NoTools && len(r.Tools) > 0 {
		return nil, errors.New("expected a request without tools")
	}
	return groups, nil
}

// choose is the answer for what was received; nil when no branch matches.
func (s *ScriptStep) choose(text string) (a *ScriptAnswer, stay bool, groups []group) {
	if len(s.When) == 0 {
		return &s.ScriptAnswer, false, nil
	}
	for i := range s.When {
		b := &s.When[i]
		if b.match == nil {
			return &b.ScriptAnswer, b.Stay, nil
		}
		if groups, found := groupsOf(b.match, text); found {
			return &b.ScriptAnswer, b.Stay, groups
		}
	}
	return nil, false, nil
}

// clip bounds what an error shows of a text.
func clip(text string) string {
	const most = 2000
	if len(text) > most {
		return strings.ToValidUTF8(text[:most], "") + fmt.Sprintf("... (%d bytes)", len(text))
	}
	return text
}
