package sqlite

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// hashField is what separates the hashed part of an exported line from its hash.
const hashField = `,"hash":"`

// VerifyExport checks JSON lines that Export wrote: each line's hash, and for
// neighbours in the log that one follows the other. Lines of a search have gaps,
// which the report counts in a note and which are no problem here; what was left
// out at the ends cannot be known without an anchor.
func VerifyExport(r io.Reader) (Exported, error) {
	var e Exported
	in := bufio.NewScanner(r)
	in.Buffer(make([]byte, 0, 64<<10), 8*maxRowBytes)
	line := 0
	for in.Scan() {
		line++
		e.line(line, in.Bytes())
	}
	if err := in.Err(); err != nil {
		if errors.Is(err, bufio.ErrTooLong) {
			e.found(line+1, "the line is longer than any row")
			return e, nil
		}
		return e, err
	}
	e.OK = len(e.Problems) == 0
	return e, nil
}

// Exported is what VerifyExport found.
type Exported struct {
	OK    bool  `json:"ok"`
	Rows  int64 `json:"rows"`
	First int64 `json:"first"`
	Last  int64 `json:"last"`
	// Prev and Head are the hashes before the first line and of the last.
	Prev string `json:"prev"`
	Head string `json:"head"`
	// Gaps counts the places where rows of the log were not exported.
	Gaps     int64    `json:"gaps"`
	Problems []string `json:"problems,omitempty"` // the first 100
}

func (e *Exported) found(line int, what string) {
	if len(e.Problems) < maxProblems {
		e.Problems = append(e.Problems, fmt.Sprintf("line %d: %s", line, what))
	}
}

func (e *Exported) line(n int, text []byte) {
	var row struct {
		Seq  int64  `json:"seq"`
		Prev string `json:"prev_hash"`
		Hash string `json:"hash"`
	}
	at := bytes.LastIndex(text, []byte(hashField))
	if at < 0 || json.Unmarshal(text, &row) != nil {
		e.found(n, "it is no row of the audit log")
		return
	}
	sum := sha256.Sum256(append(bytes.Clone(text[:at]), '}'))
	if hash := hex.EncodeToString(sum[:]); hash != row.Hash || string(text[at+len(hashField):]) != hash+`"}` {
		e.found(n, fmt.Sprintf("row %d is not what its hash says", row.Seq))
	}
	switch {
	case e.Rows == 0:
		e.First, e.Prev = row.Seq, row.Prev
	case row.Seq <= e.Last:
		e.found(n, fmt.Sprintf("row %d stands after row %d", row.Seq, e.Last))
	case row.Seq > e.Last+1:
		e.Gaps++
	case row.Prev != e.Head:
		e.found(n, fmt.Sprintf("row %d does not follow row %d", row.Seq, e.Last))
	}
	e.Rows, e.Last, e.Head = e.Rows+1, row.Seq, row.Hash
}
