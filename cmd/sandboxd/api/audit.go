package api

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"sandboxd/agentloop"
	"sandboxd/policy"
)

// audit answers a query about the audit log: own rows, and all for an admin.
func (s *Server) audit(w http.ResponseWriter, r *http.Request) error {
	if s.o.Audit == nil {
		return fault(CodeMissing, "", "this daemon keeps no audit log")
	}
	q, err := auditQuery(r, "limit", "after", "newest")
	if err != nil {
		return err
	}
	page, err := s.o.Audit.Search(r.Context(), q)
	if err != nil {
		return fault(CodeBadRequest, "see docs/audit.md", "%v", err)
	}
	page.Rows = list(page.Rows)
	writeJSON(w, http.StatusOK, page)
	return nil
}

// filters are the parameters that select rows.
var filters = []string{"session", "call", "agent", "tool", "verdict", "status", "text", "uid", "since", "until"}

// auditQuery reads the parameters of a peer's query.
func auditQuery(r *http.Request, more ...string) (agentloop.AuditQuery, error) {
	q, err := ParseAuditQuery(r.URL.Query(), more...)
	q.Viewer = viewer(r)
	return q, err
}

// ParseAuditQuery reads the parameters of a query, filters and more, for any viewer.
func ParseAuditQuery(v url.Values, more ...string) (agentloop.AuditQuery, error) {
	q := agentloop.AuditQuery{Session: v.Get("session"), Call: v.Get("call"), Agent: v.Get("agent"), Tool: v.Get("tool"),
		Verdict: v.Get("verdict"), Status: agentloop.Status(v.Get("status")), Text: v.Get("text")}
	var bad error
	number := func(name string, to func(int64)) {
		if text := v.Get(name); text != "" {
			n, err := strconv.ParseInt(text, 10, 64)
			if err != nil || n < 0 {
				bad = fault(CodeBadRequest, "", "%s=%q is no number", name, text)
			}
			to(n)
		}
	}
	instant := func(name string, to *time.Time) {
		if text := v.Get(name); text != "" {
			t, err := time.Parse(time.RFC3339Nano, text)
			if err != nil {
				bad = fault(CodeBadRequest, "write it as 2006-01-02T15:04:05Z", "%s=%q is no time", name, text)
			}
			*to = t
		}
	}
	number("limit", func(n int64) { q.Limit = int(min(n, 1000)) })
	number("after", func(n int64) { q.After = n })
	number("uid", func(n int64) { uid := int(n); q.UID = &uid })
	instant("since", &q.Since)
	instant("until", &q.Until)
	if text := v.Get("newest"); text != "" {
		var err error
		if q.Newest, err = strconv.ParseBool(text); err != nil {
			bad = fault(CodeBadRequest, "1 or 0", "newest=%q is neither true nor false", text)
		}
	}
	among := func(name string, known []string) {
		if text := v.Get(name); text != "" && !slices.Contains(known, text) {
			bad = fault(CodeBadRequest, "one of "+strings.Join(known, ", "), "no row has the %s %q", name, text)
		}
	}
	among("verdict", []string{policy.Allow.String(), policy.Ask.String(), policy.Deny.String()})
	among("status", agentloop.AuditStatuses())
	for name := range v {
		if !slices.Contains(filters, name) && !slices.Contains(more, name) {
			return q, fault(CodeBadRequest, "see GET /api/openapi.json", "unknown parameter %q", name)
		}
	}
	return q, bad
}

// auditExport writes all rows that the peer may see and the query selects, oldest first,
// as docs/audit.md says: lines whose hashes can be checked.
func (s *Server) auditExport(w http.ResponseWriter, r *http.Request) error {
	if s.o.Audit == nil {
		return fault(CodeMissing, "", "this daemon keeps no audit log")
	}
	q, err := auditQuery(r)
	if err != nil {
		return err
	}
	done, err := s.wholes.begin(peerOf(r).UID())
	if err != nil {
		return err
	}
	defer done()
	return sendWhole(w, "application/x-ndjson", func(w io.Writer) error {
		_, err := s.o.Audit.Export(r.Context(), w, q)
		return err
	})
}

func viewer(r *http.Request) agentloop.AuditViewer {
	if p := peerOf(r); !p.Admin {
		return agentloop.ViewOwn(p.UID())
	}
	return agentloop.ViewAll()
}

// auditVerify checks the chain. It reads the whole log, so only admins start it.
func (s *Server) auditVerify(w http.ResponseWriter, r *http.Request) error {
	switch {
	case s.o.Audit == nil:
		return fault(CodeMissing, "", "this daemon keeps no audit log")
	case !peerOf(r).Admin:
		return fault(CodeForbidden, "ask as root or a member of the admin group", "only an admin verifies the log of all users")
	}
	known, err := ParseAnchors(r.URL.Query()["anchor"])
	if err != nil {
		return err
	}
	freeTimes(w)
	report, err := s.o.Audit.Verify(r.Context(), known...)
	if err != nil {
		return err
	}
	answerTime(w)
	writeJSON(w, http.StatusOK, report)
	return nil
}

// ParseAnchors reads anchors as the log of the daemon writes them: SEQ:HASH.
func ParseAnchors(list []string) ([]agentloop.AuditAnchor, error) {
	var out []agentloop.AuditAnchor
	for _, text := range list {
		number, hash, _ := strings.Cut(text, ":")
		seq, err := strconv.ParseInt(number, 10, 64)
		if raw, errHash := hex.DecodeString(hash); err != nil || errHash != nil || seq < 0 || len(raw) != sha256.Size {
			return nil, fault(CodeBadRequest, "write it as SEQ:HASH, the hash with 64 hexadecimal digits", "anchor %q is none", text)
		}
		out = append(out, agentloop.AuditAnchor{Seq: seq, Hash: strings.ToLower(hash)})
	}
	return out, nil
}
