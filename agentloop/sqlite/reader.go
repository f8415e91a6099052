package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"sandboxd/agentloop"
)

// querier is what reads: a pool, a connection or a transaction.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// Reader looks into a store without changing it, also beside the daemon that
// writes to it. It implements agentloop.AuditReader.
type Reader struct {
	path string
	mu   sync.Mutex
	db   *sql.DB
}

var _ agentloop.AuditReader = (*Reader)(nil)

// maxReaders bounds the connections of a Reader, and so the searches at one time;
// each takes up to about 2 MiB.
const maxReaders = 4

// newReader returns a Reader that opens the database when it is first used.
func newReader(path string) *Reader { return &Reader{path: path} }

// OpenReader opens the store at path for reading. It needs no lock: a daemon may
// write meanwhile. Close it at the end.
func OpenReader(path string) (*Reader, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(path); err != nil {
		return nil, fmt.Errorf("audit log: %w", err)
	}
	r := newReader(path)
	if err := r.checkVersion(context.Background()); err != nil {
		return nil, errors.Join(fmt.Errorf("audit log: %w", explainOpen(path, err)), r.Close())
	}
	return r, nil
}

// checkVersion refuses what this program cannot read.
func (r *Reader) checkVersion(ctx context.Context) error {
	db, err := r.pool()
	if err != nil {
		return err
	}
	var version, app int64
	if err := db.QueryRowContext(ctx, `SELECT (SELECT user_version FROM pragma_user_version),
		(SELECT application_id FROM pragma_application_id)`).Scan(&version, &app); err != nil {
		return err
	}
	switch {
	case app != applicationID:
		return fmt.Errorf("%w: it is no audit log of sandboxd", ErrDamaged)
	case version > schemaVersion:
		return fmt.Errorf("%w: schema %d, this one knows up to %d", ErrNewer, version, schemaVersion)
	case version < schemaVersion:
		return fmt.Errorf("the database has schema %d; start the daemon once to bring it to %d", version, schemaVersion)
	}
	return nil
}

// checkOurs refuses the database of another program before anything is opened for
// writing, which would change its header. An empty file is ours.
func (r *Reader) checkOurs(ctx context.Context) error { return r.checkApplication(ctx, applicationID) }

func (r *Reader) checkApplication(ctx context.Context, want int64) error {
	db, err := r.pool()
	if err != nil {
		return err
	}
	var app, objects int64
	err = db.QueryRowContext(ctx, `SELECT (SELECT application_id FROM pragma_application_id),
		(SELECT count(*) FROM sqlite_schema)`).Scan(&app, &objects)
	if err == nil && objects > 0 && app != want {
		err = fmt.Errorf("%w: %s is a database of another program", ErrDamaged, r.path)
	}
	return err
}

// pool returns the connections for reading.
func (r *Reader) pool() (*sql.DB, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.db == nil {
		name := dsn(r.path, "ro", []string{
			"busy_timeout(2000)", "query_only(1)", "temp_store(2)", "cache_size(-2048)", "trusted_schema(0)", "cell_size_check(1)",
		})
		if onReadOnlyDisk(r.path) {
			// SQLite makes files beside a database with a WAL even to read it.
			name += "&immutable=1"
		}
		db, err := sql.Open(driverName, name)
		if err != nil {
			return nil, err
		}
		db.SetMaxOpenConns(maxReaders)
		db.SetMaxIdleConns(1)
		db.SetConnMaxIdleTime(time.Minute)
		r.db = db
	}
	return r.db, nil
}

// onReadOnlyDisk says whether the database stands complete on a file system where
// nothing changes: a WAL would hold rows that an immutable reader does not see.
func onReadOnlyDisk(path string) bool {
	var fs unix.Statfs_t
	if unix.Statfs(path, &fs) != nil || fs.Flags&unix.ST_RDONLY == 0 {
		return false
	}
	st, err := os.Lstat(walPath(path))
	return errors.Is(err, os.ErrNotExist) || err == nil && st.Size() == 0
}

// Close ends the Reader. That of a Store is closed with the Store.
func (r *Reader) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.db == nil {
		return nil
	}
	err := r.db.Close()
	r.db = nil
	return err
}

// snapshot runs fn in one read transaction: it sees the database as it is now.
func (r *Reader) snapshot(ctx context.Context, fn func(tx *sql.Tx) error) error {
	db, err := r.pool()
	if err != nil {
		return err
	}
	tx, err := db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // nothing was changed
	return fn(tx)
}

// dsn names the database for the driver. The path may hold any character.
func dsn(path, mode string, pragmas []string) string {
	v := url.Values{"mode": {mode}, "_pragma": pragmas}
	if mode == "rw" {
		v.Set("_txlock", "immediate")
	}
	return (&url.URL{Scheme: "file", Path: path, RawQuery: v.Encode()}).String()
}

const rowColumns = `seq, time, uid, session_id, call_id, step, tool_name, status, agent_name, elapsed_ms,
	output_preview, verdict, reason, args, policy_generation, enforced, denials, prev_hash, hash`

// scanRow reads one row of rowColumns.
func scanRow(rows *sql.Rows) (agentloop.AuditRecord, error) {
	var r agentloop.AuditRecord
	var when, status, reason, args, enforced, denials string
	if err := rows.Scan(&r.Seq, &when, &r.UID, &r.Session, &r.Call, &r.Step, &r.Tool, &status, &r.Agent, &r.ElapsedMS,
		&r.OutputPreview, &r.Verdict, &reason, &args, &r.Generation, &enforced, &denials, &r.PrevHash, &r.Hash); err != nil {
		return r, err
	}
	r.Status = agentloop.Status(status)
	r.Reason, r.Args, r.Enforced, r.Denials = stored(reason), stored(args), stored(enforced), stored(denials)
	t, err := time.Parse(timeFormat, when)
	if err != nil {
		return r, &rowError{r.Seq, fmt.Sprintf("its time %q is none", when)}
	}
	r.Time = t
	return r, nil
}

// rowError reports a row whose fields are not what this program writes.
type rowError struct {
	seq  int64
	what string
}

func (e *rowError) Error() string { return fmt.Sprintf("row %d: %s", e.seq, e.what) }

func stored(s string) json.RawMessage {
	if s == "" {
		return nil
	}
	return json.RawMessage(s)
}

// matchExpression makes words of a person into an expression of FTS5: all must
// occur, none is an operator.
func matchExpression(text string) string {
	var out []string
	for _, word := range strings.Fields(text) {
		prefix := ""
		if w, ok := strings.CutSuffix(word, "*"); ok && w != "" {
			word, prefix = w, "*"
		}
		out = append(out, `"`+strings.ReplaceAll(strings.ReplaceAll(word, "\x00", ""), `"`, `""`)+`"`+prefix)
	}
	return strings.Join(out, " ")
}
