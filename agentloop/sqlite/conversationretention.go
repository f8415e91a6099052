package sqlite

import (
	"context"
	"database/sql"
	"time"
)

// ConversationRetention bounds what is kept. Zero fields mean the defaults.
type ConversationRetention struct {
	// Age: conversations that nobody continued for so long go.
	Age time.Duration
	// PerUID and BytesPerUID bound those of one user: the ones that were longest
	// left alone go. Nobody's conversations go because of another user's.
	PerUID      int
	BytesPerUID int64
	// ConversationBytes bounds one conversation; no entry is added beyond it.
	ConversationBytes int64
}

// DefaultRetention is what a daemon keeps: some years of daily use by a person.
var DefaultRetention = ConversationRetention{Age: 180 * 24 * time.Hour, PerUID: 2000, BytesPerUID: 512 << 20, ConversationBytes: 64 << 20}

func (r ConversationRetention) withDefaults() ConversationRetention {
	d := DefaultRetention
	if r.Age > 0 {
		d.Age = r.Age
	}
	if r.PerUID > 0 {
		d.PerUID = r.PerUID
	}
	if r.BytesPerUID > 0 {
		d.BytesPerUID = r.BytesPerUID
	}
	if r.ConversationBytes > 0 {
		d.ConversationBytes = r.ConversationBytes
	}
	return d
}

// retain removes what is beyond the bounds. It belongs to the writer.
func (s *Conversations) retain() {
	s.written = 0
	r := s.o.Retention
	err := s.transact(func(ctx context.Context, tx *sql.Tx) error {
		// The running sums go from the youngest of each user on; a sub-agent's
		// conversation counts for itself and goes with its parent.
		rows, err := tx.QueryContext(ctx, `SELECT id FROM (
			SELECT id, changed, count(*) OVER w AS n, sum(bytes) OVER w AS size FROM conversations
			WINDOW w AS (PARTITION BY uid ORDER BY changed DESC, id))
			WHERE changed < ? OR n > ? OR (size > ? AND n > 1)`,
			time.Now().Add(-r.Age).UTC().Format(timeFormat), r.PerUID, r.BytesPerUID)
		if err != nil {
			return err
		}
		ids, err := scanIDs(rows)
		if err != nil {
			return err
		}
		for _, id := range ids {
			n, err := deleteTree(ctx, tx, id)
			if err != nil {
				return err
			}
			s.erase = s.erase || n > 0
		}
		return nil
	})
	if err != nil {
		s.problem(err)
	}
}

func scanIDs(rows *sql.Rows) ([]string, error) {
	defer func() { _ = rows.Close() }()
	var ids []string
	for rows.Next() {
		var id string
		if err := rows.Scan(&id); err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, rows.Err()
}
