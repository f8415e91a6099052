package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"sandboxd/agentloop"
)

// Conversation returns the head and all entries in order, or
// [agentloop.ErrNoConversation].
func (s *Conversations) Conversation(ctx context.Context, id string) (agentloop.Conversation, []agentloop.Entry, error) {
	var c agentloop.Conversation
	var entries []agentloop.Entry
	err := s.reader.snapshot(ctx, func(tx *sql.Tx) error {
		var err error
		if c, err = scanHead(tx.QueryRowContext(ctx, `SELECT changed, head FROM conversations WHERE id = ?`, id)); err != nil {
			return err
		}
		rows, err := tx.QueryContext(ctx, `SELECT seq, body FROM entries WHERE conversation = ? ORDER BY seq`, id)
		if err != nil {
			return err
		}
		defer func() { _ = rows.Close() }()
		for rows.Next() {
			e, _, err := scanEntry(rows, int64(len(entries)))
			if err != nil {
				return err
			}
			entries = append(entries, e)
		}
		return rows.Err()
	})
	if errors.Is(err, sql.ErrNoRows) {
		return c, nil, agentloop.ErrNoConversation
	}
	if err != nil {
		return c, nil, fmt.Errorf("conversation %s: %s: %w", id, s.path, err)
	}
	return c, entries, nil
}

// Bounds of a page of entries; one entry is returned however long it is.
const (
	pageEntries = 256
	pageBytes   = 1 << 20
)

// Head is the head of a conversation without its entries, or
// [agentloop.ErrNoConversation].
func (s *Conversations) Head(ctx context.Context, id string) (agentloop.Conversation, error) {
	var c agentloop.Conversation
	err := s.reader.snapshot(ctx, func(tx *sql.Tx) (err error) {
		c, err = scanHead(tx.QueryRowContext(ctx, `SELECT changed, head FROM conversations WHERE id = ?`, id))
		return err
	})
	if errors.Is(err, sql.ErrNoRows) {
		return c, agentloop.ErrNoConversation
	}
	if err != nil {
		return c, fmt.Errorf("conversation %s: %s: %w", id, s.path, err)
	}
	return c, nil
}

// EntriesAfter returns the entries that follow the one numbered after: up to
// pageEntries or pageBytes of them, none after the last. If the one numbered after is
// gone, with its conversation, it is [agentloop.ErrNoConversation].
func (s *Conversations) EntriesAfter(ctx context.Context, id string, after int64) ([]agentloop.Entry, error) {
	var entries []agentloop.Entry
	err := s.reader.snapshot(ctx, func(tx *sql.Tx) error {
		rows, err := tx.QueryContext(ctx, `SELECT seq, body FROM entries WHERE conversation = ? AND seq > ? ORDER BY seq LIMIT ?`,
			id, after, pageEntries)
		if err != nil {
			return err
		}
		defer func() { _ = rows.Close() }()
		for size := 0; size < pageBytes && rows.Next(); {
			e, n, err := scanEntry(rows, after+int64(len(entries)))
			if err != nil {
				return err
			}
			entries, size = append(entries, e), size+n
		}
		if err := rows.Err(); err != nil || len(entries) > 0 || after == 0 {
			return err
		}
		// Deleted in the middle is not the end.
		return tx.QueryRowContext(ctx, `SELECT seq FROM entries WHERE conversation = ? AND seq = ?`, id, after).Scan(&after)
	})
	if errors.Is(err, sql.ErrNoRows) {
		return nil, agentloop.ErrNoConversation
	}
	if err != nil {
		return nil, fmt.Errorf("conversation %s: %s: %w", id, s.path, err)
	}
	return entries, nil
}

// scanEntry reads the entry that follows the one numbered before, and tells its
// length in bytes as it is kept.
func scanEntry(row interface{ Scan(...any) error }, before int64) (agentloop.Entry, int, error) {
	var seq int64
	var text sql.RawBytes
	var e agentloop.Entry
	if err := row.Scan(&seq, &text); err != nil {
		return e, 0, err
	}
	if err := json.Unmarshal(text, &e); err != nil {
		return e, 0, fmt.Errorf("entry %d: %w", seq, err)
	}
	if e.Seq != seq || seq != before+1 {
		return e, 0, fmt.Errorf("%w: entry %d stands after %d entries", ErrDamaged, seq, before)
	}
	return e, len(text), nil
}

// scanHead reads a head; the time of the last change is that of the last entry too.
func scanHead(row interface{ Scan(...any) error }) (agentloop.Conversation, error) {
	var c agentloop.Conversation
	var changed, text string
	if err := row.Scan(&changed, &text); err != nil {
		return c, err
	}
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		return c, err
	}
	t, err := time.Parse(timeFormat, changed)
	c.Changed = t
	return c, err
}

// Conversations returns heads, the youngest first, also those of sub-agents.
func (s *Conversations) Conversations(ctx context.Context, uid, limit int) ([]agentloop.Conversation, error) {
	return s.List(ctx, agentloop.ConversationQuery{UID: uid, Agents: true, Limit: limit})
}

// List returns the heads that q asks for, the youngest first.
func (s *Conversations) List(ctx context.Context, q agentloop.ConversationQuery) ([]agentloop.Conversation, error) {
	if q.Limit <= 0 {
		q.Limit = 100
	}
	out := []agentloop.Conversation{}
	err := s.reader.snapshot(ctx, func(tx *sql.Tx) error {
		rows, err := tx.QueryContext(ctx, `SELECT changed, head FROM conversations
			WHERE (?1 = -1 OR uid = ?1) AND (?2 = '' OR workspace = ?2) AND (?3 OR agent = '')
			AND (?5 = '' OR session = ?5) ORDER BY changed DESC, id LIMIT ?4`,
			q.UID, q.Workspace, q.Agents, q.Limit, q.Session)
		if err != nil {
			return err
		}
		defer func() { _ = rows.Close() }()
		for rows.Next() {
			c, err := scanHead(rows)
			if err != nil {
				return err
			}
			out = append(out, c)
		}
		return rows.Err()
	})
	if err != nil {
		return nil, fmt.Errorf("conversations: %s: %w", s.path, err)
	}
	return out, nil
}
