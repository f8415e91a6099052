package agentloop

import (
	"context"
	"errors"
	"time"
)

// ConversationStore keeps what was said. Writes are durable when the method
// returns. It is safe for concurrent use; agentloop/sqlite implements it.
type ConversationStore interface {
	// SaveConversation writes the head of a conversation, new or changed.
	SaveConversation(ctx context.Context, c Conversation) error
	// AppendEntry adds an entry after those that are there. Its number must be the
	// next one, else [ErrConversationMoved]: two loops never write one conversation.
	AppendEntry(ctx context.Context, id string, e Entry) error
	// Conversation returns the head and all entries in order, or ErrNoConversation.
	Conversation(ctx context.Context, id string) (Conversation, []Entry, error)
	// Conversations returns heads, the youngest first; uid -1 means all users'.
	Conversations(ctx context.Context, uid, limit int) ([]Conversation, error)
	DeleteConversation(ctx context.Context, id string) error
}

var (
	// ErrNoConversation reports that there is no such conversation for this user.
	ErrNoConversation = errors.New("no such conversation")
	// ErrConversationMoved reports that somebody else continued the conversation.
	ErrConversationMoved = errors.New("the conversation was continued elsewhere")
)

// Conversation is the head of a conversation. It outlives its session.
type Conversation struct {
	ID      string `json:"id"`
	UID     int    `json:"uid"`
	Session string `json:"session_id"` // the last one
	// Parent is that of a fork, with the last entry that it shares, or of a
	// sub-agent's conversation.
	Parent     string `json:"parent,omitempty"`
	ParentLast int64  `json:"parent_last,omitempty"`
	// Agent is the path of a sub-agent; empty for the lead.
	Agent     string    `json:"agent,omitempty"`
	Workspace string    `json:"workspace"`
	Title     string    `json:"title"` // the first line of the first prompt, masked
	Provider  string    `json:"provider"`
	Model     string    `json:"model"`
	Created   time.Time `json:"created"`
	Changed   time.Time `json:"changed"`
	Turns     int       `json:"turns"`
	Usage     Usage     `json:"usage"`
	Cost      *float64  `json:"cost_usd,omitempty"`
	// Ended is the reason of the last turn; empty while one runs, or was cut.
	Ended EndReason `json:"ended,omitempty"`
}

// EntryKind says what an entry is.
type EntryKind string

const (
	// EntryMessage is a whole message: a prompt, an answer of the model, a
	// reminder. Secrets in it are masked before it is kept.
	EntryMessage EntryKind = "message"
	// EntryStarted says that a call begins. It is kept before the call is handed
	// to the Dispatcher: a call that has it and no result was interrupted, and is
	// never run again.
	EntryStarted EntryKind = "started"
	// EntryResult is the result of one call, kept as it ends, in the order of the
	// ends. The message to the model puts results in the order of the calls.
	EntryResult EntryKind = "result"
	// EntryCompact replaces all entries before it: Message is the summary, Rest
	// are the messages that stay after it.
	EntryCompact EntryKind = "compact"
	// EntryEnd is the end of a turn.
	EntryEnd EntryKind = "end"
)

// Entry is one line of a conversation.
type Entry struct {
	Seq     int64     `json:"seq"` // from 1, without gaps
	Kind    EntryKind `json:"kind"`
	Time    time.Time `json:"time"`
	Message *Message  `json:"message,omitempty"`
	Block   *Block    `json:"block,omitempty"` // of started (a use) and result
	End     *TurnEnd  `json:"end,omitempty"`
	// Rest holds results as blocks of a user's message.
	Rest []Message `json:"rest,omitempty"`
}
