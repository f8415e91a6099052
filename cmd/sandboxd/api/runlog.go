package api

import "sandboxd/agentloop"

// RunLogCommand is the argument of sandboxd that makes it serve the log of sbx run over
// its standard input and output: one JSON object in, one out, until the input ends. It
// listens nowhere.
const RunLogCommand = "run-log"

// RunLogRequest asks for one thing of the log of sbx run, which is the caller's own and
// apart from the daemon's: the first field that is set.
type RunLogRequest struct {
	// Append is answered when the row is on disk.
	Append *agentloop.AuditRecord `json:"append,omitempty"`
	Search *RunLogSearch          `json:"search,omitempty"`
	// Export is a page of rows, the oldest first, as lines whose hashes can be checked.
	Export *RunLogSearch `json:"export,omitempty"`
	// Verify checks the chain, and these anchors.
	Verify []agentloop.AuditAnchor `json:"verify,omitzero"`
}

// RunLogSearch is an [agentloop.AuditQuery].
type RunLogSearch struct {
	Query agentloop.AuditQuery `json:"query"`
}

// RunLogAnswer answers one request. Error is empty when it was done.
type RunLogAnswer struct {
	Error  string                 `json:"error,omitempty"`
	Seq    int64                  `json:"seq,omitempty"`
	Page   *agentloop.AuditPage   `json:"page,omitempty"`
	Lines  *RunLogLines           `json:"lines,omitempty"`
	Report *agentloop.AuditReport `json:"report,omitempty"`
}

// RunLogLines is a page of an export. Next is After of the page behind it; 0 says that
// there is none.
type RunLogLines struct {
	Text []byte `json:"text"`
	Next int64  `json:"next,omitempty"`
}
