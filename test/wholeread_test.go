package test

import (
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"
)

// A user has two readers of whole conversations at once. Readers that take nothing hold
// a page each and not the conversation; others' conversations are not read at all.
func TestStalledReadersOfAConversationAreFew(t *testing.T) {
	d := startDaemon(t, os.Getuid())
	session := d.chat("steps: [{say: "+strings.Repeat("word of it ", 70)+", say_times: 5000, repeat: -1}]", nil)
	var id string
	for range 3 {
		d.object("POST", session+"/messages", `{"text":"talk"}`, 202)
		id = d.said(session)["conversation_id"].(string)
	}
	talk := "/api/chat/conversations/" + id
	before := d.peakMiB()
	paths := []string{talk, talk + "/export", talk + "/export?format=markdown", session + "/messages"}
	var stalled []net.Conn
	for _, path := range paths {
		c, err := net.Dial("unix", d.socket)
		d.must(err)
		defer c.Close()
		fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", path)
		first := make([]byte, len("HTTP/1.1 200"))
		_, err = io.ReadFull(c, first)
		d.must(err)
		want := "200"
		if len(stalled) >= 2 {
			want = "429"
		}
		if !strings.HasSuffix(string(first), want) {
			t.Errorf("reader %d, of %s: %s, want %s", len(stalled)+1, path, first, want)
		}
		stalled = append(stalled, c)
	}
	if text, code := d.request("POST", talk+"/fork", `{}`); code != 429 || !strings.Contains(text, "try again") {
		t.Errorf("a fork beside them: %d %s", code, text)
	}
	// What does not read all of it goes on.
	d.object("GET", "/api/chat/conversations", "", 200)
	d.object("GET", "/api/chat/sessions", "", 200)
	for _, c := range stalled {
		c.Close()
	}
	d.until("the places are free again", func() bool {
		_, code := d.request("GET", talk, "")
		return code == 200
	})
	for range 5 { // one after the other each is answered
		for _, path := range paths {
			if text, code := d.request("GET", path, ""); code != 200 || strings.Count(text, "word of it") < 3*70*5000 {
				t.Fatalf("%s afterwards: %d, %d bytes", path, code, len(text))
			}
		}
	}
	d.object("GET", talk, "", 200)
	d.object("GET", session+"/messages", "", 200)
	d.object("POST", talk+"/fork", `{}`, 201)
	t.Logf("peak of the daemon: %d MiB, then %d MiB", before, d.peakMiB())
}

// peakMiB is the most memory that the daemon has had.
func (d *daemonRun) peakMiB() (mib int) {
	d.Helper()
	for line := range strings.Lines(d.content(fmt.Sprintf("/proc/%d/status", d.cmd.Process.Pid))) {
		if n, _ := fmt.Sscanf(line, "VmHWM: %d kB", &mib); n == 1 {
			return mib >> 10
		}
	}
	d.Fatal("no VmHWM")
	return 0
}
