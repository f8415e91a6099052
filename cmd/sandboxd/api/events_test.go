package api

import (
	"net/http"
	"net/url"
	"strconv"
	"testing"
)

// Whatever a client sends as the last id is a number that is not negative, the one it
// wrote, or a fault of the client.
func FuzzLastEventID(f *testing.F) {
	for _, s := range []string{"", "0", "7", "-1", "+1", "007", "9223372036854775807", "9223372036854775808", "1e3", " 1", "1\x00", "٣"} {
		f.Add(s, s)
	}
	f.Fuzz(func(t *testing.T, header, query string) {
		r := &http.Request{Header: http.Header{"Last-Event-Id": {header}}, URL: &url.URL{RawQuery: url.Values{"after": {query}}.Encode()}}
		n, err := lastEventID(r)
		if err != nil {
			if fault := asFault(err); fault.Code != CodeBadRequest || n != 0 {
				t.Fatalf("%q %q: %d, %v", header, query, n, err)
			}
			return
		}
		text := header
		if text == "" {
			text = query
		}
		if want, _ := strconv.ParseUint(text, 10, 63); n < 0 || uint64(n) != want && text != "" && text[0] != '+' {
			t.Fatalf("%q %q: %d", header, query, n)
		}
	})
}
