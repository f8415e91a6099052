package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	driver "modernc.org/sqlite"

	"sandboxd/agentloop"
)

// ConversationOptions are those of [OpenConversations]. The zero value is right
// for a daemon.
type ConversationOptions struct {
	// Retention is applied when the store is opened, every hour, and each time a
	// user has written much. Zero fields mean the bounds of [DefaultRetention].
	Retention ConversationRetention
	// OnProblem gets what no caller is told: a retention that failed. It is called
	// by the writer, and must not call the store.
	OnProblem func(error)
	// LockWait is how long a write waits for another program that holds SQLite's
	// lock. 0 is 2 s.
	LockWait time.Duration
}

// Conversations keeps what was said to models and by them, in a database of its
// own beside the audit log: an answer of a model can be a thousand times as long
// as an audit row, and no call may wait for it. It implements
// [agentloop.ConversationArchive] and is safe for concurrent use.
//
// Entries are numbered for each conversation from 1, without gaps. A method that
// writes returns when it is on disk. What is deleted is overwritten.
type Conversations struct {
	o       ConversationOptions
	path    string
	reader  *Reader
	lock    *os.File
	ops     chan *conversationOp
	closing chan struct{}
	closed  chan struct{}
	once    sync.Once

	// What follows belongs to the writer.
	db      *sql.DB
	conn    *sql.Conn // nil after an error, until the next try
	file    identity
	written int64 // bytes since the last retention
	// erase says that the WAL may still hold what was deleted.
	erase bool
}

var _ agentloop.ConversationArchive = (*Conversations)(nil)

// OpenConversations opens the store at path and makes it if it is not there. The
// place is checked as by [Open], and the errors are the same.
func OpenConversations(path string, o ConversationOptions) (*Conversations, error) {
	path, err := prepare(path)
	if err != nil {
		return nil, fmt.Errorf("conversations: %w", err)
	}
	o.Retention = o.Retention.withDefaults()
	if o.LockWait <= 0 {
		o.LockWait = 2 * time.Second
	}
	s := &Conversations{o: o, path: path, reader: newReader(path), ops: make(chan *conversationOp, 2*maxBatch),
		closing: make(chan struct{}), closed: make(chan struct{})}
	if s.lock, err = lock(path); err != nil {
		return nil, fmt.Errorf("conversations: %w", err)
	}
	if err := s.open(); err != nil {
		return nil, errors.Join(fmt.Errorf("conversations: %w", err), s.release())
	}
	go s.write()
	return s, nil
}

func (s *Conversations) open() error {
	if _, err := os.Lstat(s.path); errors.Is(err, os.ErrNotExist) {
		if err := create(s.path); err != nil {
			return err
		}
	}
	if _, err := driver.Fdatasync(true); err != nil {
		return err
	}
	if err := s.reader.checkApplication(context.Background(), conversationsID); err != nil {
		return explainOpen(s.path, err)
	}
	if err := s.connect(context.Background()); err != nil {
		return explainOpen(s.path, err)
	}
	return nil
}

// connect opens the writer's connection and brings the schema up to date.
func (s *Conversations) connect(ctx context.Context) error {
	if err := checkFiles(s.path); err != nil {
		return err
	}
	id, err := identify(s.path)
	if err != nil {
		return err
	}
	if s.file != (identity{}) && id != s.file {
		return errReplaced(s.path)
	}
	db, err := sql.Open(driverName, dsn(s.path, "rw", writerPragmas(s.o.LockWait)))
	if err != nil {
		return err
	}
	db.SetMaxOpenConns(1)
	conn, err := db.Conn(ctx)
	if err != nil {
		return errors.Join(err, db.Close())
	}
	s.db, s.conn, s.file = db, conn, id
	if err := migrateConversations(ctx, conn, s.path); err != nil {
		s.disconnect()
		return err
	}
	return nil
}

func (s *Conversations) disconnect() {
	if s.conn != nil {
		_ = s.conn.Close()
	}
	if s.db != nil {
		_ = s.db.Close()
	}
	s.conn, s.db = nil, nil
}

// Close writes what is queued and closes the files. Later writes fail with
// [ErrClosed].
func (s *Conversations) Close() error {
	s.once.Do(func() { close(s.closing) })
	<-s.closed
	return s.release()
}

func (s *Conversations) release() error {
	err := s.reader.Close()
	s.disconnect() // last, so that SQLite empties the WAL
	if s.lock != nil {
		err = errors.Join(err, s.lock.Close())
		s.lock = nil
	}
	return err
}

// maxEntryBytes bounds one entry. The longest answer of a model is some 100 KiB,
// and results are cut before they come here.
const maxEntryBytes = 8 << 20

// SaveConversation writes the head of a conversation, new or changed.
func (s *Conversations) SaveConversation(ctx context.Context, c agentloop.Conversation) error {
	if c.ID == "" {
		return errors.New("bug: a conversation without an id")
	}
	return s.explain(c.ID, s.do(ctx, func(ctx context.Context, tx *sql.Tx) error { return saveHead(ctx, tx, c) }))
}

func saveHead(ctx context.Context, tx *sql.Tx, c agentloop.Conversation) error {
	text, err := json.Marshal(c)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO conversations (id, uid, session, parent, agent, workspace, changed, head) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (id) DO UPDATE SET uid = excluded.uid, session = excluded.session, parent = excluded.parent, agent = excluded.agent,
		workspace = excluded.workspace, changed = excluded.changed, head = excluded.head`,
		c.ID, c.UID, c.Session, c.Parent, c.Agent, c.Workspace, c.Changed.UTC().Format(timeFormat), string(text))
	return err
}

// AppendEntry adds an entry after those that are there. Its number must be the next
// one, else the error is [agentloop.ErrConversationMoved].
func (s *Conversations) AppendEntry(ctx context.Context, id string, e agentloop.Entry) error {
	text, err := json.Marshal(e)
	if err != nil {
		return err
	}
	if len(text) > maxEntryBytes {
		return fmt.Errorf("conversation %s is not stored: entry %d has %d bytes, at most %d are kept", id, e.Seq, len(text), maxEntryBytes)
	}
	return s.explain(id, s.do(ctx, func(ctx context.Context, tx *sql.Tx) error {
		var last, size int64
		err := tx.QueryRowContext(ctx, `SELECT last, bytes FROM conversations WHERE id = ?`, id).Scan(&last, &size)
		switch {
		case errors.Is(err, sql.ErrNoRows):
			return agentloop.ErrNoConversation
		case err != nil:
			return err
		case e.Seq != last+1:
			return fmt.Errorf("%w: entry %d was to follow entry %d", agentloop.ErrConversationMoved, e.Seq, last)
		case size+int64(len(text)) > s.o.Retention.ConversationBytes:
			return fmt.Errorf("%w: it has %d bytes, at most %d are kept; begin a new one",
				agentloop.ErrConversationFull, size, s.o.Retention.ConversationBytes)
		}
		if _, err := tx.ExecContext(ctx, `INSERT INTO entries (conversation, seq, body) VALUES (?, ?, ?)`, id, e.Seq, string(text)); err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `UPDATE conversations SET last = ?, bytes = bytes + ?, changed = max(changed, ?) WHERE id = ?`,
			e.Seq, len(text), e.Time.UTC().Format(timeFormat), id)
		s.written += int64(len(text))
		return err
	}))
}

// ForkConversation makes the conversation c of the first at entries of id, and of
// all of them when at is 0. The entries are copied: neither of the two notices what
// becomes of the other.
func (s *Conversations) ForkConversation(ctx context.Context, id string, at int64, c agentloop.Conversation) error {
	return s.explain(id, s.do(ctx, func(ctx context.Context, tx *sql.Tx) error {
		var last int64
		err := tx.QueryRowContext(ctx, `SELECT last FROM conversations WHERE id = ?`, id).Scan(&last)
		if errors.Is(err, sql.ErrNoRows) {
			return agentloop.ErrNoConversation
		}
		if err != nil {
			return err
		}
		if at == 0 {
			at = last
		}
		if at < 0 || at > last {
			return fmt.Errorf("%w: entry %d of %d", agentloop.ErrNoEntry, at, last)
		}
		var taken int
		if err := tx.QueryRowContext(ctx, `SELECT count(*) FROM conversations WHERE id = ?`, c.ID).Scan(&taken); err != nil || taken > 0 {
			return errors.Join(err, fmt.Errorf("bug: conversation %s exists", c.ID))
		}
		c.Parent, c.ParentLast = id, at
		if err := saveHead(ctx, tx, c); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, `INSERT INTO entries (conversation, seq, body)
			SELECT ?, seq, body FROM entries WHERE conversation = ? AND seq <= ?`, c.ID, id, at); err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `UPDATE conversations SET last = ?1,
			bytes = (SELECT coalesce(sum(octet_length(body)), 0) FROM entries WHERE conversation = ?2) WHERE id = ?2`, at, c.ID)
		return err
	}))
}

// DeleteConversation removes a conversation with those of its sub-agents. Forks of
// it stay. Nothing of it is in the files when the method returns, unless a reader
// held the old state for longer than 2 s; then with the next write.
func (s *Conversations) DeleteConversation(ctx context.Context, id string) error {
	return s.explain(id, s.do(ctx, func(ctx context.Context, tx *sql.Tx) error {
		n, err := deleteTree(ctx, tx, id)
		if err == nil && n == 0 {
			err = agentloop.ErrNoConversation
		}
		s.erase = s.erase || n > 0
		return err
	}))
}

// deleteTree removes the conversation and those of the sub-agents below it.
func deleteTree(ctx context.Context, tx *sql.Tx, id string) (int64, error) {
	const tree = `WITH RECURSIVE tree(id) AS (SELECT ?1 UNION
		SELECT c.id FROM conversations c JOIN tree t ON c.parent = t.id WHERE c.agent <> '') `
	if _, err := tx.ExecContext(ctx, tree+`DELETE FROM entries WHERE conversation IN (SELECT id FROM tree)`, id); err != nil {
		return 0, err
	}
	res, err := tx.ExecContext(ctx, tree+`DELETE FROM conversations WHERE id IN (SELECT id FROM tree)`, id)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

func (s *Conversations) explain(id string, err error) error {
	switch {
	case err == nil, errors.Is(err, agentloop.ErrNoConversation):
		return err
	case errors.Is(err, agentloop.ErrConversationMoved), errors.Is(err, agentloop.ErrNoEntry), errors.Is(err, agentloop.ErrConversationFull):
		return err
	}
	return fmt.Errorf("conversation %s is not stored: %s: %w", id, s.path, withErrno(err))
}
