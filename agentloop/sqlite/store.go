package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	driver "modernc.org/sqlite"

	"sandboxd/agentloop"
)

const driverName = "sqlite"

// Options of a store. The zero value is right for a daemon of an ordinary user.
type Options struct {
	// AnchorRows and AnchorEvery say when the head of the chain is anchored: after
	// so many rows, or when rows came since the last anchor and it is so old. 0 is
	// 1000 rows and 30 s.
	AnchorRows  int
	AnchorEvery time.Duration
	// AppendOnly asks the kernel to let nobody rewrite the file of anchors, as
	// chattr +a does. It works for root on file systems that have it; Health says
	// whether it holds. The file cannot be removed before chattr -a.
	AppendOnly bool
	// OnAnchor gets every anchor, to write it to the journal or send it away. It
	// is called by the writer, which waits for it.
	OnAnchor func(agentloop.AuditAnchor)
	// OnProblem gets what no caller is told: an anchor that could not be written,
	// a retention that failed, a head that another program changed. It must not
	// call the Store, and may be called by two goroutines at once.
	OnProblem func(error)
	// Retention is applied when the store is opened and every hour. The zero value
	// keeps everything.
	Retention Retention
	// LockWait is how long a write waits for another program that holds SQLite's
	// lock. 0 is 2 s.
	LockWait time.Duration
}

func (o Options) withDefaults() Options {
	if o.AnchorRows <= 0 {
		o.AnchorRows = 1000
	}
	if o.AnchorEvery <= 0 {
		o.AnchorEvery = 30 * time.Second
	}
	if o.LockWait <= 0 {
		o.LockWait = 2 * time.Second
	}
	return o
}

// Store is the database, open for writing by this process alone. It implements
// agentloop.Store and, by its Reader, agentloop.AuditReader.
type Store struct {
	*Reader
	o       Options
	lock    *os.File
	id      string
	ops     chan *op
	closing chan struct{}
	closed  chan struct{}
	once    sync.Once
	keeper  sync.WaitGroup // applies the retention

	// What follows belongs to the writer.
	db      *sql.DB
	conn    *sql.Conn // nil after an error, until the next try
	stmts   map[string]*sql.Stmt
	file    identity
	wal     identity // of this connection; zero before its first commit
	head    head
	anchors *anchors

	mu     sync.Mutex
	health Health
}

var (
	_ agentloop.Store       = (*Store)(nil)
	_ agentloop.AuditReader = (*Store)(nil)
)

// head is the last row.
type head struct {
	seq  int64
	hash string
}

// Health says how the store is. LastError is what the last write failed with and
// empty once one has succeeded.
type Health struct {
	Path      string    `json:"path"`
	Store     string    `json:"store"`
	Rows      int64     `json:"rows"` // number of the last row
	Anchored  int64     `json:"anchored"`
	LastError string    `json:"last_error,omitempty"`
	Failing   time.Time `json:"failing_since,omitzero"`
	// AppendOnly says that the kernel lets nobody rewrite the anchors.
	AppendOnly bool `json:"append_only"`
	// Warnings were found when the store was opened or later; Verify says more.
	Warnings []string `json:"warnings,omitempty"`
}

// Open opens the store at path and makes it if it is not there, with its directory
// (0700). The files are 0600; a link, another owner, or a place that others can
// write to is refused with [ErrUnsafe]. A file that is no readable database of
// ours is refused with [ErrDamaged] and left as it is, one of a newer version with
// [ErrNewer], one that another process writes to with [ErrInUse].
func Open(path string, o Options) (*Store, error) {
	path, err := prepare(path)
	if err != nil {
		return nil, fmt.Errorf("audit log: %w", err)
	}
	s := &Store{
		o: o.withDefaults(), ops: make(chan *op, 2*maxBatch),
		closing: make(chan struct{}), closed: make(chan struct{}),
	}
	s.health.Path = path
	if s.lock, err = lock(path); err != nil {
		return nil, fmt.Errorf("audit log: %w", err)
	}
	if err := s.open(path); err != nil {
		return nil, errors.Join(fmt.Errorf("audit log: %w", err), s.release())
	}
	go s.write()
	if s.o.Retention.set() {
		s.keeper.Go(s.keepRetaining)
	}
	return s, nil
}

func (s *Store) open(path string) error {
	if err := ensureFile(path); err != nil {
		return err
	}
	// As every Linux distribution builds SQLite: the commit waits for the data and
	// the size of the file, not for its time stamps.
	if _, err := driver.Fdatasync(true); err != nil {
		return err
	}
	s.Reader = newReader(path)
	if err := s.checkOurs(context.Background()); err != nil {
		return explainOpen(path, err)
	}
	if err := s.connect(context.Background()); err != nil {
		return explainOpen(path, err)
	}
	return s.openAnchors()
}

// ensureFile makes the database file if there is none, unless anchors say that
// there was one.
func ensureFile(path string) error {
	st, err := os.Lstat(path)
	if err == nil && st.Size() > 0 {
		return nil
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	lines, _, errAnchors := readAnchors(anchorsPath(path))
	if errAnchors == nil && len(lines) > 0 {
		return fmt.Errorf("%w: %s (%d rows were in it); put it back, or move what is left aside to begin a new log",
			ErrMissing, path, lines[len(lines)-1].Seq)
	}
	if err != nil {
		return create(path)
	}
	return nil
}

// explainOpen says what a person can do about a database that cannot be opened.
func explainOpen(path string, err error) error {
	if damaged(err) {
		return fmt.Errorf("%w: %s: %w; restore it, or move it aside to begin a new log", ErrDamaged, path, err)
	}
	return fmt.Errorf("%s: %w", path, withErrno(err))
}

// connect opens the writer's connection, brings the schema up to date and reads
// the head.
func (s *Store) connect(ctx context.Context) error {
	path := s.health.Path
	if err := checkFiles(path); err != nil {
		return err
	}
	id, err := identify(path)
	if err != nil {
		return err
	}
	if s.file != (identity{}) && id != s.file {
		return errReplaced(path)
	}
	db, err := sql.Open(driverName, dsn(path, "rw", writerPragmas(s.o.LockWait)))
	if err != nil {
		return err
	}
	db.SetMaxOpenConns(1)
	conn, err := db.Conn(ctx)
	if err != nil {
		return errors.Join(err, db.Close())
	}
	s.db, s.conn, s.file, s.stmts = db, conn, id, map[string]*sql.Stmt{}
	if err := s.prepareConn(ctx); err != nil {
		s.disconnect()
		return err
	}
	return nil
}

// errReplaced is about a file that is not the one that was opened. SQLite must not
// touch it: it would get a schema, or the WAL of the other.
func errReplaced(path string) error {
	return fmt.Errorf("%w: %s was replaced by another file; put it back, or restart", ErrDamaged, path)
}

func (s *Store) prepareConn(ctx context.Context) error {
	if err := migrate(ctx, s.conn, s.health.Path); err != nil {
		return err
	}
	var id string
	if err := s.conn.QueryRowContext(ctx, `SELECT value FROM store_meta WHERE name = 'id'`).Scan(&id); err != nil {
		return err
	}
	if s.id != "" && s.id != id {
		return fmt.Errorf("%w: %s was replaced by another store", ErrDamaged, s.health.Path)
	}
	s.id = id
	h, err := readHead(ctx, s.conn, id)
	if err != nil {
		return err
	}
	if h.seq < s.head.seq {
		s.warn(fmt.Errorf("the audit log ends with row %d, but row %d was written: its end was cut off or lost; run verify", h.seq, s.head.seq))
	}
	s.head = h
	s.mu.Lock()
	s.health.Store, s.health.Rows = id, h.seq
	s.mu.Unlock()
	return nil
}

// disconnect gives up the connection; the next write opens a new one.
func (s *Store) disconnect() {
	for _, st := range s.stmts {
		_ = st.Close()
	}
	if s.conn != nil {
		_ = s.conn.Close()
	}
	if s.db != nil {
		_ = s.db.Close()
	}
	s.conn, s.db, s.stmts, s.wal = nil, nil, nil, identity{}
}

// writerPragmas are set on the writer's connection. FULL waits for the disk at
// each commit; secure_delete overwrites what retention removes; auto_vacuum counts
// only while the file is empty.
func writerPragmas(wait time.Duration) []string {
	return []string{
		fmt.Sprintf("busy_timeout(%d)", wait.Milliseconds()),
		"auto_vacuum(2)", "journal_mode(wal)", "synchronous(2)", "secure_delete(1)",
		"temp_store(2)", "cache_size(-4096)", "journal_size_limit(67108864)", "trusted_schema(0)", "cell_size_check(1)",
	}
}

// openAnchors opens the anchors and notes what they and the log do not agree on.
func (s *Store) openAnchors() error {
	kind := anchorAgain
	if s.head.seq == 0 {
		kind = anchorStart
	}
	a, err := openAnchors(anchorsPath(s.health.Path), s.anchorLine(kind), s.o.AppendOnly)
	if err != nil {
		return err
	}
	s.anchors = a
	switch {
	case s.head.seq < a.last:
		s.warn(fmt.Errorf("the audit log has %d rows, but %d were anchored: its end was cut off or lost; run verify", s.head.seq, a.last))
	case kind == anchorAgain && a.last == s.head.seq && a.fresh:
		s.warn(fmt.Errorf("the anchors of %d rows are gone; new ones begin here", s.head.seq))
	}
	s.mu.Lock()
	s.health.Anchored, s.health.AppendOnly = a.last, a.appendOnly
	s.mu.Unlock()
	return nil
}

func (s *Store) anchorLine(kind string) anchorLine {
	return anchorLine{agentloop.AuditAnchor{Store: s.id, Time: time.Now().UTC(), Seq: s.head.seq, Hash: s.head.hash}, kind}
}

// warn keeps a problem for Health, at most 20, and tells OnProblem.
func (s *Store) warn(err error) {
	s.mu.Lock()
	if len(s.health.Warnings) < 20 {
		s.health.Warnings = append(s.health.Warnings, err.Error())
	}
	s.mu.Unlock()
	if s.o.OnProblem != nil {
		s.o.OnProblem(err)
	}
}

// Health says how the store is.
func (s *Store) Health() Health {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.health
	h.Warnings = append([]string(nil), h.Warnings...)
	return h
}

// Close writes what is queued, anchors the head and closes the files. What is
// appended later fails with [ErrClosed].
func (s *Store) Close() error {
	s.once.Do(func() { close(s.closing) })
	<-s.closed
	s.keeper.Wait()
	return s.release()
}

func (s *Store) release() error {
	var err error
	if s.anchors != nil {
		err = s.anchors.file.Close()
		s.anchors = nil
	}
	if s.Reader != nil {
		err = errors.Join(err, s.Reader.Close())
	}
	s.disconnect() // last, so that SQLite empties the WAL
	if s.lock != nil {
		err = errors.Join(err, s.lock.Close())
		s.lock = nil
	}
	return err
}
