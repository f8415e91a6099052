package api

import (
	"errors"
	"io"
	"net/http"
	"path"
	"slices"
	"strings"
)

// route is one method of one path. openapi.json has the same list.
type route struct {
	method, path string
	serve        func(s *Server, w http.ResponseWriter, r *http.Request) error
}

func routes() []route {
	return []route{
		{"GET", "/api/health", (*Server).health},
		{"GET", "/api/openapi.json", (*Server).openAPI},
		{"GET", "/metrics", (*Server).metrics},
		{"POST", "/api/exec", (*Server).exec},
		{"POST", "/api/check", (*Server).check},
		{"GET", "/api/jobs", (*Server).listJobs},
		{"GET", "/api/jobs/{id}", (*Server).getJob},
		{"DELETE", "/api/jobs/{id}", (*Server).deleteJob},
		{"GET", "/api/jobs/{id}/logs", (*Server).jobLogs},
		{"GET", "/api/jobs/{id}/attach", (*Server).attachJob},
		{"POST", "/api/jobs/{id}/kill", (*Server).killJob},
		{"POST", "/api/chat/sessions", (*Server).createSession},
		{"GET", "/api/chat/sessions", (*Server).listSessions},
		{"GET", "/api/chat/sessions/{id}", (*Server).getSession},
		{"DELETE", "/api/chat/sessions/{id}", (*Server).closeSession},
		{"POST", "/api/chat/sessions/{id}/messages", (*Server).postMessage},
		{"GET", "/api/chat/sessions/{id}/messages", (*Server).listMessages},
		{"POST", "/api/chat/sessions/{id}/compact", (*Server).compact},
		{"GET", "/api/chat/sessions/{id}/events", (*Server).sessionEvents},
		{"GET", "/api/chat/sessions/{id}/permissions/rules", (*Server).listRules},
		{"POST", "/api/chat/sessions/{id}/permissions/rules", (*Server).changeRule},
		{"PUT", "/api/chat/sessions/{id}/permissions/mode", (*Server).setMode},
		{"POST", "/api/chat/cancel", (*Server).cancelSession},
		{"GET", "/api/chat/conversations", (*Server).listConversations},
		{"GET", "/api/chat/conversations/{id}", (*Server).getConversation},
		{"DELETE", "/api/chat/conversations/{id}", (*Server).deleteConversation},
		{"GET", "/api/chat/conversations/{id}/export", (*Server).exportConversation},
		{"POST", "/api/chat/conversations/{id}/fork", (*Server).forkConversation},
		{"GET", "/api/approvals", (*Server).listApprovals},
		{"GET", "/api/approvals/watch", (*Server).watchApprovals},
		{"GET", "/api/approvals/{id}", (*Server).getApproval},
		{"POST", "/api/approvals/{id}", (*Server).answerApproval},
		{"GET", "/api/audit", (*Server).audit},
		{"GET", "/api/audit/export", (*Server).auditExport},
		{"GET", "/api/audit/verify", (*Server).auditVerify},
		{"POST", "/api/daemon/reload", (*Server).reload},
		{"POST", "/api/daemon/stop", (*Server).stop},
	}
}

func (s *Server) routes() *http.ServeMux {
	mux := http.NewServeMux()
	for _, rt := range routes() {
		mux.HandleFunc(rt.method+" "+rt.path, func(w http.ResponseWriter, r *http.Request) {
			if err := rt.serve(s, w, r); err != nil {
				if asFault(err).Code == CodeInternal {
					s.o.Log.Error("failed", "route", rt.path, "error", err)
				}
				writeFault(w, err)
			}
		})
	}
	return mux
}

// route finds the handler. What the multiplexer would answer in plain text, or by
// a redirect to a cleaned path, is answered as everything else here.
func (s *Server) route(w http.ResponseWriter, r *http.Request) {
	_, pattern := s.mux.Handler(r)
	clean := path.Clean(r.URL.Path) == r.URL.Path
	if pattern != "" && clean && r.Method != http.MethodHead {
		s.mux.ServeHTTP(w, r)
		return
	}
	if methods := s.methods(r); len(methods) > 0 && clean {
		w.Header().Set("Allow", strings.Join(methods, ", "))
		writeFault(w, fault(CodeMethod, "use "+strings.Join(methods, " or "), "%s does not take %s", r.URL.Path, r.Method))
		return
	}
	writeFault(w, fault(CodeNotFound, "GET /api/openapi.json lists the routes", "no route %s", r.URL.Path))
}

// methods lists those that the path of r takes.
func (s *Server) methods(r *http.Request) []string {
	var list []string
	for _, m := range []string{"GET", "POST", "PUT", "DELETE"} {
		other := r.Clone(r.Context())
		other.Method = m
		if _, pattern := s.mux.Handler(other); pattern != "" {
			list = append(list, m)
		}
	}
	slices.Sort(list)
	return list
}

// readAll reads the body within its bound.
func readAll(r *http.Request) ([]byte, error) {
	body, err := io.ReadAll(r.Body)
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return nil, fault(CodeTooLarge, "send less", "the body is larger than %d bytes", maxBodyBytes)
	}
	if err != nil {
		return nil, fault(CodeBadRequest, "", "the body ended early: %v", err)
	}
	return body, nil
}
