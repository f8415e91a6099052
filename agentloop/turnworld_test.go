package agentloop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"sandboxd/policy"
)

// playedModel is a provider that plays its steps, one for each request.
type playedModel struct {
	mu       sync.Mutex
	steps    []modelStep
	any      modelStep // answers every request, if it is there
	requests []ModelRequest
}

// modelStep answers one request.
type modelStep func(ctx context.Context, r ModelRequest, emit func(ModelDelta)) (ModelAnswer, error)

func (m *playedModel) Name() string { return "played" }

func (m *playedModel) Stream(ctx context.Context, r ModelRequest, emit func(ModelDelta)) (ModelAnswer, error) {
	m.mu.Lock()
	n := len(m.requests)
	step := m.any
	if step == nil {
		m.requests = append(m.requests, r)
	}
	if n < len(m.steps) {
		step = m.steps[n]
	}
	m.mu.Unlock()
	if step == nil {
		return ModelAnswer{}, &ModelError{Kind: ModelBadAnswer, Provider: "played", Err: fmt.Errorf("no step %d in the script", n+1)}
	}
	if emit == nil {
		emit = func(ModelDelta) {}
	}
	return step(ctx, r, emit)
}

func (m *playedModel) asked() []ModelRequest {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.requests)
}

// words answers in words.
func words(text string) modelStep {
	return func(_ context.Context, _ ModelRequest, emit func(ModelDelta)) (ModelAnswer, error) {
		if emit != nil {
			emit(ModelDelta{Text: text})
		}
		return ModelAnswer{Message: TextMessage(RoleAssistant, OriginModel, text), Stop: StopEnd, Usage: Usage{Input: 100, Output: 10}}, nil
	}
}

// asks answers with calls: name and arguments, in turn.
func asks(calls ...any) modelStep {
	m := Message{Role: RoleAssistant}
	for i := 0; i+1 < len(calls); i += 2 {
		args, ok := calls[i+1].(string)
		if !ok {
			text, err := json.Marshal(calls[i+1])
			if err != nil {
				panic(err)
			}
			args = string(text)
		}
		m.Blocks = append(m.Blocks, Block{Kind: BlockToolUse, CallID: fmt.Sprintf("use_%d", i/2), Tool: calls[i].(string), Args: args})
	}
	return answers(m)
}

func answers(m Message) modelStep {
	return func(context.Context, ModelRequest, func(ModelDelta)) (ModelAnswer, error) {
		return ModelAnswer{Message: m, Stop: StopTools, Usage: Usage{Input: 100, Output: 20}}, nil
	}
}

// testTool is a tool of a test. Its calls are allowed by the world's rules.
type testTool struct {
	name   string
	traits Traits
	call   func(ctx context.Context, r *ToolRun) (string, error)
}

func (t testTool) Name() string { return t.name }

func (t testTool) Traits(policy.Args) Traits { return t.traits }

func (t testTool) Schema() ToolSchema { return ToolSchema{Name: t.name, Description: "a tool"} }

func (t testTool) Call(ctx context.Context, r *ToolRun) (string, error) { return t.call(ctx, r) }

// describedBash offers run_bash to the model.
type describedBash struct{ bashTool }

func (describedBash) Schema() ToolSchema { return ToolSchema{Name: "run_bash", Description: "bash"} }

type describedRead struct{ catTool }

func (describedRead) Schema() ToolSchema { return ToolSchema{Name: "read_file", Description: "read"} }

// memoryConversations is a ConversationStore for tests.
type memoryConversations struct {
	mu      sync.Mutex
	heads   map[string]Conversation
	entries map[string][]Entry
	// refuse, if not nil, is asked before an entry is kept.
	refuse func(Entry) error
}

func newMemoryConversations() *memoryConversations {
	return &memoryConversations{heads: map[string]Conversation{}, entries: map[string][]Entry{}}
}

func (s *memoryConversations) SaveConversation(_ context.Context, c Conversation) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.heads[c.ID] = c
	return nil
}

func (s *memoryConversations) AppendEntry(_ context.Context, id string, e Entry) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refuse != nil {
		if err := s.refuse(e); err != nil {
			return err
		}
	}
	if e.Seq != int64(len(s.entries[id]))+1 {
		return ErrConversationMoved
	}
	text, err := json.Marshal(e) // as a database would keep it
	if err != nil {
		return err
	}
	var kept Entry
	if err := json.Unmarshal(text, &kept); err != nil {
		return err
	}
	s.entries[id] = append(s.entries[id], kept)
	return nil
}

func (s *memoryConversations) Conversation(_ context.Context, id string) (Conversation, []Entry, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, ok := s.heads[id]
	if !ok {
		return Conversation{}, nil, ErrNoConversation
	}
	return c, slices.Clone(s.entries[id]), nil
}

func (s *memoryConversations) Conversations(_ context.Context, uid, limit int) ([]Conversation, error) {
	return nil, errors.New("not here")
}

func (s *memoryConversations) DeleteConversation(context.Context, string) error { return nil }

// loopWorld is a world with an agent.
type loopWorld struct {
	*world
	model *playedModel
	store *memoryConversations
	a     *Agent
	o     AgentOptions
}

// newLoop makes one whose calls are all allowed. edit may change the options of
// the agent, tools are added to run_bash and read_file.
func newLoop(t testing.TB, tools []Tool, edit func(*loopWorld), steps ...modelStep) *loopWorld {
	t.Helper()
	return newLoopWith(t, loopParts{tools: tools}, edit, steps...)
}

// loopParts are what a loopWorld is made with: hooks of the process, tools, and a
// change of the options of the world.
type loopParts struct {
	hooks []Hook
	tools []Tool
	world func(*world)
}

func newLoopWith(t testing.TB, p loopParts, edit func(*loopWorld), steps ...modelStep) *loopWorld {
	t.Helper()
	l := &loopWorld{model: &playedModel{steps: steps}, store: newMemoryConversations()}
	tools := append([]Tool{describedBash{}, describedRead{}}, p.tools...)
	l.world = newWorld(t, func(p *PolicyInForce) {
		for _, tool := range tools {
			p.Config.Rules = append(p.Config.Rules, rule(policy.AllowRule, tool.Name()))
		}
	}, func(w *world) {
		w.opts.Tools = tools
		if p.world != nil {
			p.world(w)
		}
		var err error
		if w.opts.Hooks, err = NewHookRegistry(HookRegistryOptions{Hooks: p.hooks}); err != nil {
			t.Fatal(err)
		}
	})
	l.o = AgentOptions{Session: l.s, Dispatcher: l.d, Provider: l.model, Config: AgentConfig{Model: "m"}, Store: l.store}
	if edit != nil {
		edit(l)
	}
	l.a = l.agent()
	return l
}

func (l *loopWorld) agent() *Agent {
	l.t.Helper()
	a, err := NewAgent(l.t.Context(), l.o)
	if err != nil {
		l.t.Fatal(err)
	}
	return a
}

// run is one turn, with its events.
func (l *loopWorld) run(prompt string) (TurnEnd, []TurnEvent) {
	var events []TurnEvent
	end := l.a.Run(l.t.Context(), prompt, func(e TurnEvent) { events = append(events, e) })
	l.paired()
	return end, events
}

// results are the results of the last message that has some.
func (l *loopWorld) results() []Block {
	messages := l.a.Messages()
	for i := len(messages) - 1; i >= 0; i-- {
		var out []Block
		for _, b := range messages[i].Blocks {
			if b.Kind == BlockToolResult {
				out = append(out, b)
			}
		}
		if out != nil {
			return out
		}
	}
	return nil
}

// paired fails the test unless every use has exactly one result, in the message
// after it, in its order; in memory and as it would be resumed.
func (l *loopWorld) paired() {
	l.t.Helper()
	if err := checkPairs(l.a.Messages()); err != nil {
		l.t.Error(err)
	}
	r := newReplay(&TodoList{})
	for _, e := range l.store.entries[l.a.ID()] {
		r.add(e)
	}
	r.settle()
	if err := checkPairs(r.messages); err != nil {
		l.t.Errorf("as it is kept: %v", err)
	}
}

func checkPairs(messages []Message) error {
	seen := map[string]bool{}
	for i, m := range messages {
		var want []string
		for _, u := range m.Uses() {
			if seen[u.CallID] {
				return fmt.Errorf("message %d: id %q twice", i, u.CallID)
			}
			seen[u.CallID] = true
			want = append(want, u.CallID)
		}
		if want == nil {
			continue
		}
		var got []string
		if i+1 < len(messages) {
			for _, b := range messages[i+1].Blocks {
				if b.Kind == BlockToolResult {
					got = append(got, b.CallID)
				}
			}
		}
		if !slices.Equal(got, want) {
			return fmt.Errorf("message %d: uses %q, results %q", i, want, got)
		}
	}
	for i, m := range messages {
		for _, b := range m.Blocks {
			if b.Kind == BlockToolResult && (i == 0 || !slices.ContainsFunc(messages[i-1].Uses(), func(u Block) bool { return u.CallID == b.CallID })) {
				return fmt.Errorf("message %d: a result of nothing: %q", i, b.CallID)
			}
		}
	}
	return nil
}

func eventKinds(events []TurnEvent) string {
	var out []string
	for _, e := range events {
		out = append(out, strings.TrimPrefix(e.Type, "turn."))
	}
	return strings.Join(out, " ")
}

// readText is the content of a file, "-" without one.
func readText(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return "-"
	}
	return string(text)
}
