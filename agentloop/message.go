package agentloop

import (
	"encoding/json"
	"time"
)

// Role is whose turn a message is, in the words of the model APIs.
type Role string

const (
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
)

// Origin says who the words of a block come from. Only [OriginUser] is a person
// who may consent to something; all else is data.
type Origin string

const (
	OriginUser       Origin = "user"       // typed by the person
	OriginModel      Origin = "model"      // by the model
	OriginTool       Origin = "tool"       // the result of a call
	OriginBackground Origin = "background" // what a background task printed
	OriginHook       Origin = "hook"       // context that a hook adds
	OriginLoop       Origin = "loop"       // a reminder of the loop, the summary of a compaction
	OriginFile       Origin = "file"       // AGENTS.md, skills, memory
)

// BlockKind is the kind of one piece of a message.
type BlockKind string

const (
	BlockText       BlockKind = "text"
	BlockThinking   BlockKind = "thinking"
	BlockToolUse    BlockKind = "tool_use"
	BlockToolResult BlockKind = "tool_result"
)

// Block is one piece of a message. Which fields count depends on Kind.
type Block struct {
	Kind   BlockKind `json:"kind"`
	Origin Origin    `json:"origin,omitempty"`
	// Text is that of a text, a thought or a result. A result's text is framed as
	// data when it is sent, not here.
	Text string `json:"text,omitempty"`
	// Name says what a text is from that is framed as data: a file, a task, a hook.
	Name string `json:"name,omitempty"`

	// CallID pairs a use with its result. It was made by the provider, or by us
	// for a provider that gives none, and is unique within a conversation.
	CallID string `json:"call_id,omitempty"`
	// Tool and Args are of a use, as the model wrote them: Args may be no JSON.
	Tool string `json:"tool,omitempty"`
	Args string `json:"args,omitempty"`

	// Status is that of a result, typed: a cancelled call is not told by its text
	// alone.
	Status Status `json:"status,omitempty"`
	// Audit is the id of the call in the audit log, which its result has.
	Audit string `json:"audit_call_id,omitempty"`

	// Opaque is a block of the provider itself that goes back to it unchanged (a
	// signed thought). Provider names whose it is: others do not get it.
	Opaque   json.RawMessage `json:"opaque,omitempty"`
	Provider string          `json:"provider,omitempty"`
}

// Message is one message of a conversation.
type Message struct {
	Role   Role      `json:"role"`
	Blocks []Block   `json:"blocks"`
	Step   int       `json:"step,omitempty"` // of the turn, from 1
	Time   time.Time `json:"time"`
	// Model and Usage are those of an assistant's message.
	Model string `json:"model,omitempty"`
	Usage *Usage `json:"usage,omitempty"`
}

// TextMessage is a message of one text.
func TextMessage(role Role, origin Origin, text string) Message {
	return Message{Role: role, Blocks: []Block{{Kind: BlockText, Origin: origin, Text: text}}}
}

// Text joins the texts of a message.
func (m Message) Text() string {
	var out string
	for _, b := range m.Blocks {
		if b.Kind == BlockText {
			if out != "" {
				out += "\n"
			}
			out += b.Text
		}
	}
	return out
}

// Uses are the calls that the model asks for, in its order.
func (m Message) Uses() []Block {
	var out []Block
	for _, b := range m.Blocks {
		if b.Kind == BlockToolUse {
			out = append(out, b)
		}
	}
	return out
}
