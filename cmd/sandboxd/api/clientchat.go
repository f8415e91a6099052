package api

import (
	"context"
	"encoding/json"
	"io"
	"net/url"

	"sandboxd/agentloop"
)

// CreateSession makes a session, with an agent if q asks for one.
func (c *Client) CreateSession(ctx context.Context, q SessionRequest) (Session, error) {
	var made Session
	err := c.Post(ctx, "/api/chat/sessions", q, &made)
	return made, err
}

// CloseSession ends a session.
func (c *Client) CloseSession(ctx context.Context, id string) error {
	return c.Delete(ctx, "/api/chat/sessions/"+url.PathEscape(id), nil)
}

// Say begins a turn; its events are those of the session, see [Client.SessionEvents].
func (c *Client) Say(ctx context.Context, session string, q MessageRequest) (TurnAccepted, error) {
	var out TurnAccepted
	q.Stream = false
	err := c.Post(ctx, "/api/chat/sessions/"+url.PathEscape(session)+"/messages", q, &out)
	return out, err
}

// Following says what the reader of a session's events is to the session.
type Following struct {
	Answers  bool // somebody who answers its questions
	Attached bool // the client that it ends with
}

// SessionEvents calls f for each event after the given one until it returns an
// error, or the session ends. opened, if not nil, is called when the daemon follows.
func (c *Client) SessionEvents(ctx context.Context, session string, after int64, how Following, opened func(), f func(agentloop.Event) error) error {
	v := url.Values{}
	if how.Answers {
		v.Set("answers", "1")
	}
	if how.Attached {
		v.Set("attached", "1")
	}
	path := "/api/chat/sessions/" + url.PathEscape(session) + "/events?" + v.Encode()
	return c.Events(ctx, path, after, func(kind string, data []byte) error {
		var e agentloop.Event
		switch kind {
		case EventOpen:
			if opened != nil {
				opened()
			}
			return nil
		case "missed":
			return f(agentloop.Event{Type: kind, Data: data})
		}
		if err := json.Unmarshal(data, &e); err != nil {
			return err
		}
		return f(e)
	})
}

// CancelSession ends the turn of a session.
func (c *Client) CancelSession(ctx context.Context, session string) error {
	return c.Post(ctx, "/api/chat/cancel", CancelRequest{Session: session}, nil)
}

// CompactSession summarises the conversation of a session.
func (c *Client) CompactSession(ctx context.Context, session, focus string) (agentloop.TurnCompaction, error) {
	var out agentloop.TurnCompaction
	err := c.Post(ctx, "/api/chat/sessions/"+url.PathEscape(session)+"/compact", CompactRequest{focus}, &out)
	return out, err
}

// Conversations lists heads, the youngest first. An empty workspace means all.
func (c *Client) Conversations(ctx context.Context, workspace string, limit int) ([]agentloop.Conversation, error) {
	v := url.Values{}
	if workspace != "" {
		v.Set("workspace", workspace)
	}
	if limit > 0 {
		v.Set("limit", jsonNumber(limit))
	}
	var out ConversationList
	err := c.Get(ctx, "/api/chat/conversations?"+v.Encode(), &out)
	return out.Conversations, err
}

func jsonNumber(n int) string {
	text, _ := json.Marshal(n)
	return string(text)
}

// Conversation returns one with its entries.
func (c *Client) Conversation(ctx context.Context, id string) (ConversationView, error) {
	var out ConversationView
	err := c.Get(ctx, conversationPath(id), &out)
	return out, err
}

// ExportConversation writes one; format is jsonl or markdown.
func (c *Client) ExportConversation(ctx context.Context, id, format string, to io.Writer) error {
	answer, err := c.do(ctx, "GET", conversationPath(id)+"/export?format="+url.QueryEscape(format), nil, nil)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	_, err = io.Copy(to, answer.Body)
	return err
}

// ExportAudit writes the rows of the audit log that the filters select, as JSON lines.
func (c *Client) ExportAudit(ctx context.Context, filters url.Values, to io.Writer) error {
	answer, err := c.do(ctx, "GET", "/api/audit/export?"+filters.Encode(), nil, nil)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	_, err = io.Copy(to, answer.Body)
	return err
}

// ForkConversation copies one up to entry at, or all of it, and returns the copy's head.
func (c *Client) ForkConversation(ctx context.Context, id string, at int64) (agentloop.Conversation, error) {
	var out agentloop.Conversation
	err := c.Post(ctx, conversationPath(id)+"/fork", ForkRequest{at}, &out)
	return out, err
}

// DeleteConversation removes one for good.
func (c *Client) DeleteConversation(ctx context.Context, id string) error {
	return c.Delete(ctx, conversationPath(id), nil)
}

func conversationPath(id string) string { return "/api/chat/conversations/" + url.PathEscape(id) }
