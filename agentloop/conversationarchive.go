package agentloop

import (
	"context"
	"errors"
)

// ConversationArchive is a [ConversationStore] as people look into it.
// agentloop/sqlite implements it.
type ConversationArchive interface {
	ConversationStore
	// List returns the heads that q asks for, the youngest first.
	List(ctx context.Context, q ConversationQuery) ([]Conversation, error)
	// Head is the head of a conversation without its entries, or [ErrNoConversation].
	Head(ctx context.Context, id string) (Conversation, error)
	// EntriesAfter returns the next entries after the one numbered after, in order:
	// as many as a page takes, none after the last.
	EntriesAfter(ctx context.Context, id string, after int64) ([]Entry, error)
	// ForkConversation makes the conversation head of the first at entries of id,
	// and of all of them when at is 0. Neither of the two notices what becomes of
	// the other. Errors: [ErrNoConversation], [ErrNoEntry].
	ForkConversation(ctx context.Context, id string, at int64, head Conversation) error
}

// ConversationQuery says which heads are wanted.
type ConversationQuery struct {
	UID       int    // -1: all users'
	Workspace string // empty: all
	Session   string // empty: all; else those whose last session it was
	Agents    bool   // those of sub-agents too
	Limit     int    // 0: 100
}

var (
	// ErrNoEntry reports a number that no entry of the conversation has.
	ErrNoEntry = errors.New("no such entry")
	// ErrConversationFull reports a conversation that no entry is added to.
	ErrConversationFull = errors.New("the conversation is full")
)
