package test

import (
	"os"
	"strings"
	"testing"
)

// A message that was acknowledged is in the conversation, also when the daemon is
// killed in the same moment.
func TestAcknowledgedMessageIsKept(t *testing.T) {
	d := startDaemon(t, os.Getuid())
	for range 6 {
		session := d.chat("steps: [{hang: true}]", nil)
		d.object("POST", session+"/messages", `{"text":"remember this"}`, 202)
		d.kill()
		d.start()
		text, code := d.get(session + "/messages")
		if code != 200 || !strings.Contains(text, "remember this") {
			t.Fatalf("after the kill: %d %s", code, text)
		}
	}
}
