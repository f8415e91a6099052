package api

import (
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"sandboxd/agentloop"
)

// openAPIDocument describes the routes. A test compares it with them.
//
//go:embed openapi.json
var openAPIDocument []byte

func (s *Server) openAPI(w http.ResponseWriter, _ *http.Request) error {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(openAPIDocument)
	return nil
}

// Health says that the daemon serves.
type Health struct {
	Status   string    `json:"status"` // ok or stopping
	Version  string    `json:"version"`
	API      string    `json:"api"`
	PID      int       `json:"pid"`
	UID      int       `json:"uid"`
	Started  time.Time `json:"started"`
	UptimeMS int64     `json:"uptime_ms"`
	// What follows is about what the peer may see.
	Sessions    int `json:"sessions"`
	Questions   int `json:"questions"`
	JobsRunning int `json:"jobs_running"`
	// Connections are those of all users.
	Connections int `json:"connections"`
}

func (s *Server) health(w http.ResponseWriter, r *http.Request) error {
	peer := peerOf(r)
	h := Health{Status: "ok", Version: s.o.Build, API: Version, PID: os.Getpid(), UID: os.Geteuid(), Started: s.start.UTC(),
		UptimeMS: milliseconds(time.Since(s.start)), Sessions: len(s.o.Sessions.List(peer)), Questions: len(s.o.Asks.Pending(peer))}
	for _, j := range s.jobs.list(peer) {
		if j.State == JobRunning {
			h.JobsRunning++
		}
	}
	s.mu.Lock()
	if s.stopping {
		h.Status = "stopping"
	}
	s.mu.Unlock()
	h.Connections = s.connections()
	writeJSON(w, http.StatusOK, h)
	return nil
}

// metrics are about all users together, and name none.
func (s *Server) metrics(w http.ResponseWriter, r *http.Request) error {
	if s.o.Metrics == nil {
		return fault(CodeMissing, "", "this daemon keeps no metrics")
	}
	s.o.Metrics.ServeHTTP(w, r)
	return nil
}

// audit answers a query about the audit log: own rows, and all for an admin.
func (s *Server) audit(w http.ResponseWriter, r *http.Request) error {
	if s.o.Audit == nil {
		return fault(CodeMissing, "", "this daemon keeps no audit log")
	}
	q, err := auditQuery(r)
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

func auditQuery(r *http.Request) (agentloop.AuditQuery, error) {
	v := r.URL.Query()
	q := agentloop.AuditQuery{Session: v.Get("session"), Call: v.Get("call"), Agent: v.Get("agent"), Tool: v.Get("tool"),
		Verdict: v.Get("verdict"), Status: agentloop.Status(v.Get("status")), Text: v.Get("text"), Viewer: viewer(r)}
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
	q.Newest, _ = strconv.ParseBool(v.Get("newest"))
	for name := range v {
		switch name {
		case "session", "call", "agent", "tool", "verdict", "status", "text", "limit", "after", "uid", "since", "until", "newest":
		default:
			return q, fault(CodeBadRequest, "see GET /api/openapi.json", "unknown parameter %q", name)
		}
	}
	return q, bad
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
	known, err := knownAnchors(r.URL.Query()["anchor"])
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

// knownAnchors reads anchors as the log of the daemon writes them: SEQ:HASH.
func knownAnchors(list []string) ([]agentloop.AuditAnchor, error) {
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

// Done is an answer with nothing to say.
type Done struct {
	OK bool `json:"ok"`
}

func (s *Server) reload(w http.ResponseWriter, r *http.Request) error {
	switch {
	case !peerOf(r).Admin:
		return fault(CodeForbidden, "ask as root or a member of the admin group", "only an admin reloads")
	case s.o.Reload == nil:
		return fault(CodeMissing, "", "this daemon does not reload")
	}
	freeTimes(w)
	if err := s.o.Reload(r.Context()); err != nil {
		return fault(CodePolicy, "correct it; the old policy stays in force", "%v", err)
	}
	answerTime(w)
	writeJSON(w, http.StatusOK, Done{true})
	return nil
}

// stop starts the graceful end; the answer comes before it.
func (s *Server) stop(w http.ResponseWriter, r *http.Request) error {
	switch {
	case !peerOf(r).Admin:
		return fault(CodeForbidden, "ask as root or a member of the admin group", "only an admin stops the daemon")
	case s.o.Stop == nil:
		return fault(CodeMissing, "", "this daemon is not stopped by the API")
	}
	writeJSON(w, http.StatusOK, Done{true})
	s.o.Stop()
	return nil
}
