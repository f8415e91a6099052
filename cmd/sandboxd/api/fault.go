package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
)

// Fault is an error as it is sent: {"error":{"text":...,"hint":...,"code":...}}.
type Fault struct {
	// Text says what is wrong, lower case, one line.
	Text string `json:"text"`
	// Hint says what can be done about it; it may be empty.
	Hint string `json:"hint,omitempty"`
	// Code is for programs, see the table of codes.
	Code Code `json:"code"`
	// By tells who answered first, for CodeAnswered.
	By string `json:"by,omitempty"`
}

func (f *Fault) Error() string { return f.Text }

// Code is the kind of a [Fault].
type Code string

const (
	CodeBadRequest  Code = "bad_request"     // the request cannot be read
	CodeToken       Code = "token"           // over TCP: no token, or a wrong one
	CodeForbidden   Code = "forbidden"       // the peer may not do this
	CodeInsideRun   Code = "inside_run"      // the peer is a confined command, or may be one
	CodeBrowser     Code = "browser"         // the request looks like a web page's
	CodeNotFound    Code = "not_found"       // no such route, session, question or job of the peer's
	CodeMethod      Code = "method"          // the route has other methods
	CodeConflict    Code = "conflict"        // its state does not permit it
	CodeAnswered    Code = "answered"        // the question was answered before; by says who
	CodeTooLarge    Code = "too_large"       // body or header above the bound
	CodeMediaType   Code = "media_type"      // the body is no application/json
	CodeVersion     Code = "version"         // client and daemon do not understand each other
	CodePolicy      Code = "policy"          // the policy cannot be read, or says no
	CodeModel       Code = "model"           // no model can be asked: key, provider, model or price is missing
	CodeSetup       Code = "setup"           // the sandbox could not be set up
	CodeBusy        Code = "busy"            // too many connections, jobs or queued calls
	CodeStopping    Code = "stopping"        // the daemon takes no new calls
	CodeNotRecorded Code = "not_recorded"    // the audit log cannot be written
	CodeMissing     Code = "not_implemented" // not in this version
	CodeInternal    Code = "internal"        // a fault of the daemon
)

// statusOf maps codes to HTTP statuses. An unknown code is an internal error.
func statusOf(c Code) int {
	switch c {
	case CodeBadRequest:
		return http.StatusBadRequest
	case CodeToken:
		return http.StatusUnauthorized
	case CodeForbidden, CodeInsideRun, CodeBrowser, CodePolicy:
		return http.StatusForbidden
	case CodeNotFound:
		return http.StatusNotFound
	case CodeMethod:
		return http.StatusMethodNotAllowed
	case CodeConflict, CodeAnswered:
		return http.StatusConflict
	case CodeTooLarge:
		return http.StatusRequestEntityTooLarge
	case CodeMediaType:
		return http.StatusUnsupportedMediaType
	case CodeVersion:
		return http.StatusUpgradeRequired
	case CodeSetup, CodeModel:
		return http.StatusUnprocessableEntity
	case CodeBusy:
		return http.StatusTooManyRequests
	case CodeStopping, CodeNotRecorded:
		return http.StatusServiceUnavailable
	case CodeMissing:
		return http.StatusNotImplemented
	}
	return http.StatusInternalServerError
}

func fault(code Code, hint, format string, args ...any) *Fault {
	return &Fault{Code: code, Hint: hint, Text: OneLine(fmt.Sprintf(format, args...))}
}

// OneLine puts errors that were joined, a line each, into one line. What is said twice
// stands there once.
func OneLine(text string) string {
	if !strings.Contains(text, "\n") {
		return text
	}
	var parts []string
	for line := range strings.Lines(text) {
		if line = strings.TrimRight(strings.TrimSpace(line), ";"); line != "" && !slices.Contains(parts, line) {
			parts = append(parts, line)
		}
	}
	return strings.Join(parts, "; ")
}

// faultBody is the whole answer.
type faultBody struct {
	Error *Fault `json:"error"`
}

// asFault gives any error the form for the wire.
func asFault(err error) *Fault {
	if f, ok := errors.AsType[*Fault](err); ok {
		return f
	}
	return &Fault{Code: CodeInternal, Text: OneLine(err.Error())}
}

// writeFault answers with an error, once.
func writeFault(w http.ResponseWriter, err error) {
	f := asFault(err)
	writeJSON(w, statusOf(f.Code), faultBody{f})
}

// writeJSON answers with one object. What cannot be sent has no reader left.
func writeJSON(w http.ResponseWriter, status int, object any) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(object); err != nil {
		status = http.StatusInternalServerError
		b.Reset()
		fmt.Fprintf(&b, `{"error":{"text":%q,"code":%q}}`+"\n", "bug: "+err.Error(), CodeInternal)
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes())
}

// decodeStrict reads exactly one JSON value without unknown fields.
func decodeStrict(b []byte, to any) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(to); err != nil {
		return err
	}
	if _, err := d.Token(); err != io.EOF {
		return errors.New("more than one JSON value")
	}
	return nil
}
