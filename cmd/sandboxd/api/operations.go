package api

import (
	_ "embed"
	"net/http"
	"os"
	"time"
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
