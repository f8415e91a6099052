package provider

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"strings"

	"sandboxd/agentloop"
)

// A conversation that was compacted, forked or cut off can have uses without
// results and the other way round. The APIs refuse such a request as a whole.
const (
	noResult  = "There is no result: the call was interrupted, or its result was dropped from the conversation."
	shortened = "(The conversation before this point was left out.)"
	goOn      = "(Continue.)"
)

// repaired is a conversation as every API takes it, whatever m is:
//
//   - user and assistant alternate, a user begins and ends;
//   - each use has a name and an id that the APIs take, unique in the
//     conversation; each has one result, at the beginning of the next message;
//   - a result without a use is told as a text;
//   - no text is empty, all are UTF-8;
//   - thoughts are those that keep takes, and no answer ends in one.
//
// m itself is not changed.
func repaired(m []agentloop.Message, keep func(agentloop.Block) bool) []agentloop.Message {
	r := repairer{keep: keep, used: map[string]bool{}}
	for _, message := range m {
		r.add(message)
	}
	r.settle()
	r.out = withoutLooseThoughts(r.out)
	if len(r.out) > 0 && r.out[0].Role == agentloop.RoleAssistant {
		first := agentloop.TextMessage(agentloop.RoleUser, agentloop.OriginLoop, shortened)
		r.out = append([]agentloop.Message{first}, r.out...)
	}
	if n := len(r.out); n == 0 || r.out[n-1].Role == agentloop.RoleAssistant {
		r.out = append(r.out, agentloop.TextMessage(agentloop.RoleUser, agentloop.OriginLoop, goOn))
	}
	return r.out
}

// withoutLooseThoughts drops thoughts at the end of an answer, which has been cut.
func withoutLooseThoughts(in []agentloop.Message) (out []agentloop.Message) {
	for _, m := range in {
		for n := len(m.Blocks); n > 0 && m.Role == agentloop.RoleAssistant && m.Blocks[n-1].Kind == agentloop.BlockThinking; n-- {
			m.Blocks = m.Blocks[:n-1]
		}
		switch n := len(out); {
		case len(m.Blocks) == 0:
		case n > 0 && out[n-1].Role == m.Role:
			out[n-1].Blocks = append(out[n-1].Blocks, m.Blocks...)
		default:
			out = append(out, m)
		}
	}
	return out
}

type repairer struct {
	keep    func(agentloop.Block) bool
	out     []agentloop.Message
	used    map[string]bool   // ids
	open    map[string]string // of the last assistant's uses: the id before, the id now
	order   []string          // their ids now
	results map[string]agentloop.Block
}

func (r *repairer) last() *agentloop.Message {
	if len(r.out) == 0 {
		return nil
	}
	return &r.out[len(r.out)-1]
}

// to returns the message that blocks of a role go to.
func (r *repairer) to(role agentloop.Role) *agentloop.Message {
	if role == agentloop.RoleAssistant && len(r.results) > 0 {
		r.settle() // they make a message of the user, though nothing is in it yet
	}
	if m := r.last(); m != nil && m.Role == role {
		return m
	}
	if role == agentloop.RoleAssistant {
		r.settle()
	}
	r.out = append(r.out, agentloop.Message{Role: role})
	return r.last()
}

func (r *repairer) add(m agentloop.Message) {
	role := agentloop.RoleUser
	if m.Role == agentloop.RoleAssistant {
		role = agentloop.RoleAssistant
	}
	for _, b := range m.Blocks {
		b.Text = strings.ToValidUTF8(b.Text, "\uFFFD")
		switch {
		case b.Kind == agentloop.BlockToolResult:
			r.result(b)
		case b.Kind == agentloop.BlockToolUse && role == agentloop.RoleAssistant:
			r.use(b)
		case b.Kind == agentloop.BlockThinking && role == agentloop.RoleAssistant && r.keep(b):
			to := r.to(role)
			to.Blocks = append(to.Blocks, b)
		case b.Kind == agentloop.BlockText && strings.TrimSpace(b.Text) != "":
			to := r.to(role)
			to.Blocks = append(to.Blocks, b)
		}
	}
}

func (r *repairer) use(b agentloop.Block) {
	to := r.to(agentloop.RoleAssistant)
	if r.open == nil {
		r.open, r.results = map[string]string{}, map[string]agentloop.Block{}
	}
	before := b.CallID
	b.CallID = r.id(before)
	if _, twice := r.open[before]; !twice {
		r.open[before] = b.CallID
	}
	r.order = append(r.order, b.CallID)
	b.Tool, b.Args = toolName(b.Tool), object(b.Args)
	to.Blocks = append(to.Blocks, b)
}

func (r *repairer) result(b agentloop.Block) {
	id, known := r.open[b.CallID]
	_, twice := r.results[id]
	if !known || twice {
		if strings.TrimSpace(b.Text) == "" {
			return
		}
		to := r.to(agentloop.RoleUser)
		to.Blocks = append(to.Blocks, agentloop.Block{Kind: agentloop.BlockText, Origin: agentloop.OriginTool, Text: "The result of an earlier call:\n" + b.Text})
		return
	}
	b.CallID = id
	r.results[id] = b
}

// settle puts the results of the uses that are open at the beginning of the
// user's message after them.
func (r *repairer) settle() {
	if len(r.order) == 0 {
		return
	}
	blocks := make([]agentloop.Block, 0, len(r.order))
	for _, id := range r.order {
		b, there := r.results[id]
		if !there {
			b = agentloop.Block{Kind: agentloop.BlockToolResult, Origin: agentloop.OriginLoop, CallID: id, Status: agentloop.StatusFail, Text: noResult}
		}
		if strings.TrimSpace(b.Text) == "" {
			b.Text = "(no output)"
		}
		blocks = append(blocks, b)
	}
	r.open, r.order, r.results = nil, nil, nil
	to := r.last()
	if to.Role != agentloop.RoleUser {
		r.out = append(r.out, agentloop.Message{Role: agentloop.RoleUser})
		to = r.last()
	}
	to.Blocks = append(blocks, to.Blocks...)
}

// maxID and maxName are what all APIs take: 64 characters of letters, digits, _
// and -.
const maxID, maxName = 64, 64

func plain(c byte) bool {
	return c == '_' || c == '-' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

func allPlain(text string) bool {
	for i := range len(text) {
		if !plain(text[i]) {
			return false
		}
	}
	return text != ""
}

// id is an id that the APIs take and that the conversation has not had.
func (r *repairer) id(before string) string {
	id := before
	if !allPlain(id) || len(id) > maxID {
		h := fnv.New64a()
		h.Write([]byte(before))
		id = fmt.Sprintf("call_%016x", h.Sum64())
	}
	base := id[:min(len(id), maxID-8)]
	for n := 2; r.used[id]; n++ {
		id = fmt.Sprintf("%s-%d", base, n)
	}
	r.used[id] = true
	return id
}

// toolName is the name of a tool that a model called, which may be any text.
func toolName(name string) string {
	if allPlain(name) && len(name) <= maxName {
		return name
	}
	if name == "" {
		return "unnamed"
	}
	out := []byte(name[:min(len(name), maxName)])
	for i, c := range out {
		if !plain(c) {
			out[i] = '_'
		}
	}
	return string(out)
}

// object is the JSON object of some arguments. What is none is told as one: some
// servers read it in their templates, and fail on anything else.
func object(args string) string {
	text := strings.TrimSpace(args)
	if text == "" {
		return "{}"
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal([]byte(text), &fields) == nil && fields != nil {
		return strings.ToValidUTF8(text, "\uFFFD")
	}
	data, err := json.Marshal(map[string]string{"malformed_arguments": strings.ToValidUTF8(args, "\uFFFD")})
	if err != nil {
		return "{}"
	}
	return string(data)
}

// parameters is the JSON schema of a tool as an object, whatever was declared.
func parameters(schema json.RawMessage) map[string]any {
	var out map[string]any
	if json.Unmarshal(schema, &out) != nil || out == nil {
		out = map[string]any{}
	}
	out["type"] = "object"
	if _, there := out["properties"].(map[string]any); !there {
		out["properties"] = map[string]any{}
	}
	return out
}
