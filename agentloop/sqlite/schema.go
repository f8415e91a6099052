package sqlite

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/hex"
	"fmt"
	"time"
)

// schemaVersion is what user_version holds in a database of this program.
const schemaVersion = 1

// applicationID marks the file as ours in its header: "sbxd".
const applicationID = 0x73627864

// migrations[i] takes a database from version i to i+1. An entry that has been
// released is never edited: a change is a new entry.
var migrations = [schemaVersion][]string{{
	`CREATE TABLE store_meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID`,
	`CREATE TABLE agent_audit_log (
		seq INTEGER PRIMARY KEY,
		time TEXT NOT NULL,
		uid INTEGER NOT NULL,
		session_id TEXT NOT NULL,
		call_id TEXT NOT NULL,
		step INTEGER NOT NULL,
		tool_name TEXT NOT NULL,
		status TEXT NOT NULL,
		agent_name TEXT NOT NULL,
		elapsed_ms INTEGER NOT NULL,
		output_preview TEXT NOT NULL,
		verdict TEXT NOT NULL,
		reason TEXT NOT NULL,
		args TEXT NOT NULL,
		policy_generation INTEGER NOT NULL,
		enforced TEXT NOT NULL,
		denials TEXT NOT NULL,
		prev_hash TEXT NOT NULL,
		hash TEXT NOT NULL
	) STRICT`,
	`CREATE INDEX agent_audit_session ON agent_audit_log (session_id)`,
	`CREATE INDEX agent_audit_uid ON agent_audit_log (uid)`,
	`CREATE INDEX agent_audit_time ON agent_audit_log (time)`,
	// Rows up to cut may be deleted; retention opens this gate in its transaction
	// and closes it again. It stops mistakes, not an owner of the file: the chain
	// and the anchors show what was done.
	`CREATE TABLE audit_gate (cut INTEGER NOT NULL) STRICT`,
	`INSERT INTO audit_gate VALUES (0)`,
	`CREATE TRIGGER agent_audit_no_update BEFORE UPDATE ON agent_audit_log
	BEGIN SELECT RAISE(ABORT, 'rows of the audit log are never changed'); END`,
	`CREATE TRIGGER agent_audit_no_delete BEFORE DELETE ON agent_audit_log
	WHEN OLD.seq > (SELECT cut FROM audit_gate)
	BEGIN SELECT RAISE(ABORT, 'rows of the audit log are deleted by retention only'); END`,
	// INSERT OR REPLACE would delete without the trigger above.
	`CREATE TRIGGER agent_audit_in_order BEFORE INSERT ON agent_audit_log
	WHEN NEW.seq IS NOT (SELECT coalesce(max(seq), 0) + 1 FROM agent_audit_log)
	BEGIN SELECT RAISE(ABORT, 'rows of the audit log are appended in order'); END`,
	`CREATE VIRTUAL TABLE agent_audit_text USING fts5(args, output_preview, reason,
		content='agent_audit_log', content_rowid='seq')`,
	`INSERT INTO agent_audit_text(agent_audit_text, rank) VALUES ('secure-delete', 1)`,
	`CREATE TABLE sessions (id TEXT PRIMARY KEY, uid INTEGER NOT NULL, created TEXT NOT NULL, state TEXT NOT NULL) STRICT`,
	`CREATE TABLE questions (
		id TEXT PRIMARY KEY,
		uid INTEGER NOT NULL,
		session_id TEXT NOT NULL,
		asked TEXT NOT NULL,
		question TEXT NOT NULL,
		answer TEXT,
		settled TEXT
	) STRICT`,
}}

// migrate brings the database to this program's schema, each step in one
// transaction. A newer one is refused with [ErrNewer].
func migrate(ctx context.Context, conn *sql.Conn, path string) error {
	var version int64
	if err := conn.QueryRowContext(ctx, `PRAGMA user_version`).Scan(&version); err != nil {
		return err
	}
	if version > schemaVersion {
		return fmt.Errorf("%w: %s has schema %d, this one knows up to %d", ErrNewer, path, version, schemaVersion)
	}
	for v := version; v < schemaVersion; v++ {
		if err := migrateStep(ctx, conn, v); err != nil {
			return fmt.Errorf("schema %d to %d: %w", v, v+1, err)
		}
	}
	return nil
}

func migrateStep(ctx context.Context, conn *sql.Conn, from int64) error {
	tx, err := conn.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // without effect after the commit
	for _, statement := range migrations[from] {
		if _, err := tx.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	if from == 0 {
		id := make([]byte, 16)
		_, _ = rand.Read(id) // never fails
		if _, err := tx.ExecContext(ctx, `INSERT INTO store_meta VALUES ('id', ?), ('created', ?)`,
			hex.EncodeToString(id), time.Now().UTC().Format(timeFormat)); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, fmt.Sprintf(`PRAGMA application_id = %d`, applicationID)); err != nil {
			return err
		}
	}
	if _, err := tx.ExecContext(ctx, fmt.Sprintf(`PRAGMA user_version = %d`, from+1)); err != nil {
		return err
	}
	return tx.Commit()
}

// checkSchema returns what differs from the schema that this program makes: a
// trigger that is gone would let rows be changed unseen until the next Verify.
func checkSchema(ctx context.Context, q querier) ([]string, error) {
	memory, err := sql.Open(driverName, ":memory:")
	if err != nil {
		return nil, err
	}
	defer func() { _ = memory.Close() }()
	memory.SetMaxOpenConns(1)
	for _, step := range migrations {
		for _, statement := range step {
			if _, err := memory.ExecContext(ctx, statement); err != nil {
				return nil, err
			}
		}
	}
	want, err := schemaObjects(ctx, memory)
	if err != nil {
		return nil, err
	}
	got, err := schemaObjects(ctx, q)
	if err != nil {
		return nil, err
	}
	var diffs []string
	for name, text := range want {
		switch found, ok := got[name]; {
		case !ok:
			diffs = append(diffs, name+" is missing")
		case found != text:
			diffs = append(diffs, name+" is not as this program made it")
		}
	}
	for name := range got {
		if _, ok := want[name]; !ok {
			diffs = append(diffs, name+" was added")
		}
	}
	return diffs, nil
}

func schemaObjects(ctx context.Context, q querier) (map[string]string, error) {
	rows, err := q.QueryContext(ctx, `SELECT type || ' ' || name, coalesce(sql, '') FROM sqlite_schema
		WHERE name NOT LIKE 'sqlite\_%' ESCAPE '\'
		AND NOT (type = 'table' AND name LIKE 'agent\_audit\_text\_%' ESCAPE '\')`) // FTS5 words its own tables
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	objects := map[string]string{}
	for rows.Next() {
		var name, text string
		if err := rows.Scan(&name, &text); err != nil {
			return nil, err
		}
		objects[name] = text
	}
	return objects, rows.Err()
}
