package agentloop

import (
	"context"
	"errors"
	"io"
	"time"
)

// AuditReader looks into the audit log. It is safe for concurrent use, also
// beside a daemon that appends.
type AuditReader interface {
	// Search returns one page of rows.
	Search(ctx context.Context, q AuditQuery) (AuditPage, error)
	// Export writes every row that q selects, oldest first, as JSON lines that can
	// be verified without the database. Limit and Newest of q are not used.
	Export(ctx context.Context, w io.Writer, q AuditQuery) (rows int64, err error)
	// Verify checks the chain, and that each anchor is part of it: those beside the
	// database and those given, which come from the journal or another host.
	Verify(ctx context.Context, known ...AuditAnchor) (AuditReport, error)
}

// ErrNoViewer reports a query that does not say who looks.
var ErrNoViewer = errors.New("the query does not say whose rows may be seen")

// AuditViewer says whose rows a query may return. The zero value may see none.
type AuditViewer struct {
	kind viewerKind
	uid  int
}

type viewerKind uint8

const (
	viewsNothing viewerKind = iota
	viewsOwn
	viewsAll
)

// ViewOwn sees the rows of one uid.
func ViewOwn(uid int) AuditViewer { return AuditViewer{kind: viewsOwn, uid: uid} }

// ViewAll sees all rows. It is for root and admins.
func ViewAll() AuditViewer { return AuditViewer{kind: viewsAll} }

// Limits returns the uid whose rows may be seen, or all, or [ErrNoViewer].
func (v AuditViewer) Limits() (uid int, all bool, err error) {
	switch v.kind {
	case viewsOwn:
		return v.uid, false, nil
	case viewsAll:
		return 0, true, nil
	}
	return 0, false, ErrNoViewer
}

// AuditQuery selects rows. Empty fields select everything, except Viewer.
type AuditQuery struct {
	Viewer AuditViewer
	// UID selects the calls of one user among those the viewer may see.
	UID *int
	// Session selects its rows and those of its sub-agents.
	Session string
	Call    string
	Agent   string
	Tool    string
	Verdict string
	Status  Status
	// Since is inclusive, Until is not.
	Since, Until time.Time
	// Text are words that must all occur in the arguments, the output preview or
	// the reason; "word*" finds words that begin so.
	Text string
	// Newest returns the newest row first.
	Newest bool
	// Limit is the size of a page: 0 is 100, at most 1000.
	Limit int
	// After is Next of the page before; 0 starts at the first row. Rows that are
	// appended meanwhile neither repeat nor hide others.
	After int64
}

// AuditPage is one page of a search.
type AuditPage struct {
	Rows []AuditRecord `json:"rows"`
	// Next is the cursor of the page that follows; 0 when this was the last.
	Next int64 `json:"next,omitempty"`
}

// AuditAnchor is what the log was at one moment, kept outside it.
type AuditAnchor struct {
	// Store is the id of the log; empty matches any.
	Store string    `json:"store,omitempty"`
	Time  time.Time `json:"time"`
	// Seq is how many rows had been appended, and so the number of the last;
	// Hash is that row's, or the start of the chain for 0.
	Seq  int64  `json:"seq"`
	Hash string `json:"hash"`
}

// AuditProblem is one thing that Verify found.
type AuditProblem struct {
	// Kind is one of changed, link, gap, start, cut, anchor, anchors_lost, foreign,
	// schema, damaged. docs/audit.md says what each means.
	Kind string `json:"kind"`
	// Seq is the row it was seen at; 0 for the log as a whole.
	Seq    int64  `json:"seq,omitempty"`
	Detail string `json:"detail"`
}

// AuditReport is what Verify found.
type AuditReport struct {
	Path  string `json:"path,omitempty"`
	Store string `json:"store,omitempty"`
	// OK says that nothing was found. Notes say what could not be known.
	OK    bool  `json:"ok"`
	Rows  int64 `json:"rows"`
	First int64 `json:"first"`
	Last  int64 `json:"last"`
	// Head is the hash of the last row.
	Head string `json:"head"`
	// Checkpoint is the row of the retention that removed what was before First.
	Checkpoint int64 `json:"checkpoint,omitempty"`
	// Anchors were compared; Anchored is the number of the last row that one
	// covers; AppendOnly says that the kernel lets nobody rewrite their file.
	Anchors    int64 `json:"anchors"`
	Anchored   int64 `json:"anchored"`
	AppendOnly bool  `json:"append_only"`
	// Problems are the first 100 of ProblemCount.
	Problems     []AuditProblem `json:"problems,omitempty"`
	ProblemCount int64          `json:"problem_count"`
	Notes        []string       `json:"notes,omitempty"`
}
