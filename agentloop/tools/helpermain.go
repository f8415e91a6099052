package tools

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
)

// helperArg is the only argument of a helper.
const helperArg = "sandboxd-file-helper"

// HelperMain plays the helper if this process was started as one, and then does
// not return. A program that has file tools calls it first in main, and a test of
// them in TestMain.
func HelperMain() {
	if len(os.Args) != 2 || os.Args[1] != helperArg {
		return
	}
	if err := serveHelper(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// serveHelper reads one request and writes its answer.
func serveHelper(in io.Reader, out io.Writer) error {
	var q request
	if err := json.NewDecoder(io.LimitReader(in, maxRequest)).Decode(&q); err != nil {
		return fmt.Errorf("no request: %w", err)
	}
	a := answer{Version: protocolVersion}
	if q.Version == protocolVersion {
		if err := handle(q, &a); err != nil {
			a.Error, a.Unreached = err.Error(), errors.Is(err, errUnreached)
		}
	}
	return json.NewEncoder(out).Encode(a)
}

// handle does what is asked.
func handle(q request, a *answer) error {
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
	case q.Fetch != nil:
		return handleFetch(q, a)
	}
	return errors.New("bug: an empty request")
}
