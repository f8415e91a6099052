package sqlite

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"sandboxd/agentloop"
)

// chainVersion names the encoding of rows and the start of a chain.
const chainVersion = "sandboxd-audit-1"

// timeFormat has a fixed width, so that times sort as text.
const timeFormat = "2006-01-02T15:04:05.000000000Z"

// genesis is what the first row of a store names as the hash before it.
func genesis(store string) string {
	sum := sha256.Sum256([]byte(chainVersion + " " + store))
	return hex.EncodeToString(sum[:])
}

// appendCanonical appends the row as one JSON object without its own hash: the
// fields in this order, no white space, strings as RFC 8785 writes them (which is
// what JSON.stringify does), the JSON fields as they are stored, empty ones left
// out. The hash of a row is the SHA-256 of these bytes, in hexadecimal.
func appendCanonical(b []byte, r *agentloop.AuditRecord) []byte {
	number := func(key string, v int64) {
		b = append(b, key...)
		b = strconv.AppendInt(b, v, 10)
	}
	text := func(key, v string) {
		b = append(b, key...)
		b = appendString(b, v)
	}
	raw := func(key string, v json.RawMessage) {
		if len(v) > 0 {
			b = append(b, key...)
			b = append(b, v...)
		}
	}
	number(`{"seq":`, r.Seq)
	text(`,"time":`, r.Time.UTC().Format(timeFormat))
	number(`,"uid":`, int64(r.UID))
	text(`,"session_id":`, r.Session)
	text(`,"call_id":`, r.Call)
	number(`,"step":`, int64(r.Step))
	text(`,"tool_name":`, r.Tool)
	text(`,"status":`, string(r.Status))
	text(`,"agent_name":`, r.Agent)
	number(`,"elapsed_ms":`, r.ElapsedMS)
	text(`,"output_preview":`, r.OutputPreview)
	text(`,"verdict":`, r.Verdict)
	raw(`,"reason":`, r.Reason)
	raw(`,"args":`, r.Args)
	number(`,"policy_generation":`, r.Generation)
	raw(`,"enforced":`, r.Enforced)
	raw(`,"denials":`, r.Denials)
	text(`,"prev_hash":`, r.PrevHash)
	return append(b, '}')
}

// appendLine appends the row as Export writes it: the canonical object with its
// hash as the last field, and a line end.
func appendLine(b []byte, r *agentloop.AuditRecord) []byte {
	b = appendCanonical(b, r)
	b = append(b[:len(b)-1], `,"hash":`...)
	b = appendString(b, r.Hash)
	return append(b, "}\n"...)
}

// rowHash is the hash that belongs to the row. buf is reused.
func rowHash(buf []byte, r *agentloop.AuditRecord) (hash string, again []byte) {
	buf = appendCanonical(buf[:0], r)
	sum := sha256.Sum256(buf)
	return hex.EncodeToString(sum[:]), buf
}

// appendString writes s as RFC 8785 section 3.2.2.2 does. s is valid UTF-8.
func appendString(b []byte, s string) []byte {
	const digits = "0123456789abcdef"
	b = append(b, '"')
	from := 0
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c >= 0x20 && c != '"' && c != '\\' {
			continue
		}
		b = append(b, s[from:i]...)
		from = i + 1
		switch c {
		case '"', '\\':
			b = append(b, '\\', c)
		case '\b':
			b = append(b, '\\', 'b')
		case '\f':
			b = append(b, '\\', 'f')
		case '\n':
			b = append(b, '\\', 'n')
		case '\r':
			b = append(b, '\\', 'r')
		case '\t':
			b = append(b, '\\', 't')
		default:
			b = append(b, '\\', 'u', '0', '0', digits[c>>4], digits[c&15])
		}
	}
	b = append(b, s[from:]...)
	return append(b, '"')
}

// maxRowBytes bounds one row. Callers cap their texts far below.
const maxRowBytes = 1 << 20

// normalize makes the record what can be stored and read back byte for byte:
// UTC, valid UTF-8, compact JSON. A JSON field that is not JSON becomes a JSON
// string, so that nothing is lost.
func normalize(r agentloop.AuditRecord) (agentloop.AuditRecord, error) {
	size := len(r.Session) + len(r.Call) + len(r.Tool) + len(r.Status) + len(r.Agent) + len(r.OutputPreview) +
		len(r.Verdict) + len(r.Reason) + len(r.Args) + len(r.Enforced) + len(r.Denials)
	if size > maxRowBytes {
		return r, fmt.Errorf("a row of %d bytes is more than the %d that one may have", size, maxRowBytes)
	}
	if r.Time.IsZero() {
		r.Time = time.Now()
	}
	r.Time = r.Time.UTC().Round(0)
	if y := r.Time.Year(); y < 0 || y > 9999 {
		return r, fmt.Errorf("a row of the year %d", y)
	}
	for _, s := range []*string{&r.Session, &r.Call, &r.Tool, (*string)(&r.Status), &r.Agent, &r.OutputPreview, &r.Verdict} {
		*s = strings.ToValidUTF8(*s, "\uFFFD")
	}
	for _, j := range []*json.RawMessage{&r.Reason, &r.Args, &r.Enforced, &r.Denials} {
		*j = compact(*j)
	}
	return r, nil
}

func compact(j json.RawMessage) json.RawMessage {
	if len(j) == 0 {
		return nil
	}
	if !utf8.Valid(j) {
		j = bytes.ToValidUTF8(j, []byte("\uFFFD"))
	}
	var out bytes.Buffer
	if json.Compact(&out, j) != nil {
		return appendString(nil, string(j))
	}
	return out.Bytes()
}
