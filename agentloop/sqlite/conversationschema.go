package sqlite

import (
	"context"
	"database/sql"
	"fmt"
)

// conversationsID marks the file as ours in its header: "sbxc".
const conversationsID = 0x73627863

// conversationMigrations[i] takes a database of conversations from version i to
// i+1. An entry that has been released is never edited.
var conversationMigrations = [1][]string{{
	// changed is of fixed width, so that texts compare as times do.
	`CREATE TABLE conversations (
		id TEXT PRIMARY KEY,
		uid INTEGER NOT NULL,
		session TEXT NOT NULL,
		parent TEXT NOT NULL,
		agent TEXT NOT NULL,
		workspace TEXT NOT NULL,
		changed TEXT NOT NULL,
		last INTEGER NOT NULL DEFAULT 0,
		bytes INTEGER NOT NULL DEFAULT 0,
		head TEXT NOT NULL
	) STRICT`,
	`CREATE INDEX conversations_uid ON conversations (uid, changed)`,
	`CREATE INDEX conversations_parent ON conversations (parent)`,
	`CREATE INDEX conversations_session ON conversations (session)`,
	`CREATE TABLE entries (
		conversation TEXT NOT NULL,
		seq INTEGER NOT NULL,
		body TEXT NOT NULL,
		UNIQUE (conversation, seq)
	) STRICT`,
}}

// migrateConversations brings the database to this program's schema, each step in
// one transaction. A newer one is refused with [ErrNewer].
func migrateConversations(ctx context.Context, conn *sql.Conn, path string) error {
	const known = int64(len(conversationMigrations))
	var version int64
	if err := conn.QueryRowContext(ctx, `PRAGMA user_version`).Scan(&version); err != nil {
		return err
	}
	if version > known {
		return fmt.Errorf("%w: %s has schema %d, this one knows up to %d", ErrNewer, path, version, known)
	}
	for v := version; v < known; v++ {
		tx, err := conn.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		steps := append(conversationMigrations[v][:len(conversationMigrations[v]):len(conversationMigrations[v])],
			fmt.Sprintf(`PRAGMA application_id = %d`, conversationsID), fmt.Sprintf(`PRAGMA user_version = %d`, v+1))
		for _, statement := range steps {
			if _, err := tx.ExecContext(ctx, statement); err != nil {
				_ = tx.Rollback()
				return fmt.Errorf("schema %d to %d: %w", v, v+1, err)
			}
		}
		if err := tx.Commit(); err != nil {
			return err
		}
	}
	return nil
}
