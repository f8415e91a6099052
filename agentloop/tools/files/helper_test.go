package files

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"
)

func TestMain(m *testing.M) {
	Main("", nil)
	os.Exit(m.Run())
}

// A helper of another version or build says so, and does nothing.
func TestHelperOfAnotherBuildDoesNothing(t *testing.T) {
	for _, tt := range []struct {
		name    string
		version int
		build   string
		done    bool
	}{
		{"the same", ProtocolVersion, "v1", true},
		{"another build", ProtocolVersion, "v2", false},
		{"no build", ProtocolVersion, "", false},
		{"another version", ProtocolVersion + 1, "v1", false},
	} {
		name := t.TempDir() + "/f.txt"
		content := "written\n"
		q, err := json.Marshal(Request{Version: tt.version, Build: tt.build, Path: name, Write: &WriteRequest{Content: &content}})
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		if err := serve(bytes.NewReader(q), &out, "v1", nil); err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		var a Answer
		if err := json.Unmarshal(out.Bytes(), &a); err != nil || a.Version != ProtocolVersion || a.Build != "v1" {
			t.Errorf("%s: answer %s, %v", tt.name, &out, err)
		}
		got, err := os.ReadFile(name)
		if done := err == nil && string(got) == content; done != tt.done {
			t.Errorf("%s: done %v, want %v: %q", tt.name, done, tt.done, got)
		}
	}
}

// What is no request, or not about files, is refused.
func TestHelperRefusesWhatItCannotDo(t *testing.T) {
	for _, q := range []string{"", "{", "[]", `{"version":"x"}`} {
		var out bytes.Buffer
		if err := serve(strings.NewReader(q), &out, "", nil); err == nil || out.Len() > 0 {
			t.Errorf("%q: %v, %s", q, err, &out)
		}
	}
	for _, q := range []Request{{}, {Other: json.RawMessage(`{"url":"http://127.0.0.1/"}`)}} {
		if err := handle(q, &Answer{}, nil); err == nil {
			t.Errorf("%+v is done", q)
		}
	}
}
