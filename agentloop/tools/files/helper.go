// Package files does what the file tools ask for: it is the confined process of one
// call, in a package of its own so that a light program can play it.
//
//	func main() {
//		files.Main(version, nil) // does not return in a process that was started as a helper
//
// A helper gets one [Request] on its standard input, gives one [Answer] on its
// standard output, and ends: what it read of one call never meets the next.
//
// # Limits
//
// Nothing here confines: the caller starts the helper with no more rights than the
// call has. What a helper answers is data that a confined process wrote.
package files

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
)

// Arg is the only argument of a helper.
const Arg = "sandboxd-file-helper"

// ProtocolVersion is raised when requests or answers change their meaning.
const ProtocolVersion = 3

// Request is what a helper is asked to do. Nothing in it can widen what the kernel
// lets the helper do.
type Request struct {
	// Version and Build tell a helper of another build, which does nothing: a file
	// may have been replaced while the daemon runs.
	Version int    `json:"version"`
	Build   string `json:"build,omitempty"`
	Path    string `json:"path"` // absolute
	// Real lists where Path may lead: what was decided about. Empty: anywhere.
	Real []string `json:"real,omitempty"`
	// One of these is set.
	Read  *ReadRequest  `json:"read,omitempty"`
	Write *WriteRequest `json:"write,omitempty"`
	List  *ListRequest  `json:"list,omitempty"`
	Glob  *GlobRequest  `json:"glob,omitempty"`
	Grep  *GrepRequest  `json:"grep,omitempty"`
	// Other is not about files; only some programs can do it.
	Other json.RawMessage `json:"other,omitempty"`
}

// Answer is what a helper did. Error is for the model and for people.
type Answer struct {
	Version int    `json:"version"`
	Build   string `json:"build,omitempty"`
	Error   string `json:"error,omitempty"`
	// Unreached: the path could not be followed to its end.
	Unreached bool   `json:"unreached,omitempty"`
	Real      string `json:"real,omitempty"` // where the path led
	Text      string `json:"text,omitempty"`
	Diff      string `json:"diff,omitempty"`
	// Stamp is what the file is now; nil where there is nothing to remember.
	Stamp *Stamp  `json:"stamp,omitempty"`
	Found []Found `json:"found,omitempty"`
	// Cut says why there may be more than is in Found.
	Cut string `json:"cut,omitempty"`
}

// Stamp is what a file was when it was looked at: size in bytes, time of change in
// nanoseconds, SHA-256 of the content in hexadecimal.
type Stamp struct {
	Size  int64  `json:"size"`
	MTime int64  `json:"mtime_ns"`
	Hash  string `json:"hash"`
}

// Found is one file of a search, with its lines where those were asked for.
type Found struct {
	Path  string      `json:"path"` // absolute, links resolved
	Note  string      `json:"note,omitempty"`
	Count int         `json:"count,omitempty"`
	Lines []FoundLine `json:"lines,omitempty"`
}

// FoundLine is a line of a file.
type FoundLine struct {
	Number  int    `json:"n"`
	Text    string `json:"t"`
	Context bool   `json:"c,omitempty"` // beside a match
}

// Bounds of a request and an answer, in bytes as JSON. A content of
// MaxWholeFile may take six times as much in JSON (control characters).
const (
	MaxRequest = 64 << 20
	MaxAnswer  = 16 << 20
)

// Main plays the helper if this process was started as one, and then does not
// return. A program that may be a helper calls it first in main. other, if not nil,
// does what is not about files.
func Main(build string, other func(json.RawMessage, *Answer) error) {
	if len(os.Args) != 2 || os.Args[1] != Arg {
		return
	}
	if err := serve(os.Stdin, os.Stdout, build, other); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// serve reads one request and writes its answer.
func serve(in io.Reader, out io.Writer, build string, other func(json.RawMessage, *Answer) error) error {
	var q Request
	if err := json.NewDecoder(io.LimitReader(in, MaxRequest)).Decode(&q); err != nil {
		return fmt.Errorf("no request: %w", err)
	}
	a := Answer{Version: ProtocolVersion, Build: build}
	if q.Version == ProtocolVersion && q.Build == build {
		if err := handle(q, &a, other); err != nil {
			a.Error, a.Unreached = err.Error(), errors.Is(err, errUnreached)
		}
	}
	return json.NewEncoder(out).Encode(a)
}

// handle does what is asked.
func handle(q Request, a *Answer, other func(json.RawMessage, *Answer) error) error {
	switch {
	case q.Read != nil:
		return handleRead(q, a)
	case q.Write != nil:
		return handleWrite(q, a)
	case q.List != nil:
		return handleList(q, a)
	case q.Glob != nil:
		return handleGlob(q, a)
	case q.Grep != nil:
		return handleGrep(q, a)
	case q.Other != nil && other != nil:
		return other(q.Other, a)
	}
	return errors.New("bug: an empty request")
}
