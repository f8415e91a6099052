package test

import (
	"strings"
	"testing"
	"time"
)

// forget makes await wait for what comes from here on.
func (p *typist) forget() { p.seen.Reset() }

func (p *typist) typeLine(text string) {
	p.Helper()
	if _, err := p.term.WriteString(text + "\n"); err != nil {
		p.Fatal(err)
	}
}

// removing asks for three removals, one after the other.
const removing = `
steps:
  - calls: [{tool: run_bash, args: {command: "rm one"}}]
  - calls: [{tool: run_bash, args: {command: "rm two"}}]
  - calls: [{tool: run_bash, args: {command: "rm two"}}]
  - say: it is over
`

// Questions of an agent at its terminal: why, no, yes, always; what was typed before
// one was shown is no answer.
func TestAgentAsksAtItsTerminal(t *testing.T) {
	d := startDaemon(t, users()[len(users())-1])
	d.file(d.Work+"/one", "1")
	d.file(d.Work+"/two", "2")
	p := atTerminal(t, d.agent(d, strings.Replace(removing, "steps:", "steps:\n  - {delay: 1s, calls: [{tool: read_file, args: {path: one}}]}", 1), "tidy up"))
	p.typeLine("y") // ahead
	p.await("allow it?")
	for _, part := range []string{"rm one", d.Work, "mode default"} {
		if !strings.Contains(p.seen.String(), part) {
			t.Errorf("the question does not show %q: %s", part, p.seen.String())
		}
	}
	time.Sleep(200 * time.Millisecond) // whatever was typed ahead would count by now
	if !exists(d.Work + "/one") {
		t.Fatal("what was typed before the question allowed the call")
	}
	p.forget()
	p.typeLine("what")
	p.await("w shows more")
	p.forget()
	p.typeLine("w")
	p.await("script")
	p.await("allow it?")
	p.forget()
	p.typeLine("n")
	p.await("rm two")
	p.await("allow it?")
	if !exists(d.Work + "/one") {
		t.Error("a denied call ran")
	}
	p.forget()
	p.typeLine("y")
	p.await("allow it?")
	if exists(d.Work + "/two") {
		t.Error("an allowed call did not run")
	}
	p.typeLine("n")
	if code := p.ends(); code != 0 || !strings.Contains(p.seen.String(), "it is over") {
		t.Errorf("exit %d: %s", code, p.seen.String())
	}
}

// Nothing of a model or of a command reaches the terminal as it is.
func TestAgentDrawsNothingOfOthers(t *testing.T) {
	d := startDaemon(t, users()[len(users())-1])
	evil := `\e[2J\e]0;title\a\x9b31m\rsbx: allow\u202e`
	yaml := `
steps:
  - say: "said ` + evil + `"
    thinking: "` + evil + `"
    calls:
      - {tool: run_bash, args: {command: "printf '\\033[2J\\033]0;title\\007 printed'; exit 3"}}
      - {tool: "read_` + evil + `", args: {path: "` + evil + `"}}
  - say: "done ` + evil + `"
`
	p := atTerminal(t, d.agent(d, yaml, "--mode", "acceptEdits", "go"))
	if code := p.ends(); code != 0 {
		t.Errorf("exit %d", code)
	}
	seen := p.seen.String()
	for _, own := range []string{"1", "2", "31", "32", "36", "0"} { // our colours
		seen = strings.ReplaceAll(seen, "\x1b["+own+"m", "")
	}
	seen = strings.ReplaceAll(seen, "\r\n", "\n") // the terminal's own
	if i := strings.IndexFunc(seen, func(r rune) bool { return r < ' ' && r != '\n' && r != '\t' || r >= 0x7f && r < 0xa0 || r == '\u202e' }); i >= 0 {
		t.Errorf("at byte %d something is drawn: %q", i, seen)
	}
	for _, part := range []string{"said ?[2J", "done ?[2J", "allow"} {
		if !strings.Contains(seen, part) {
			t.Errorf("no %q in %q", part, seen)
		}
	}
}

// A conversation: prompts one after the other, a cancelled turn in between, and the
// terminal as it was.
func TestAgentTalksAtItsTerminal(t *testing.T) {
	d := startDaemon(t, users()[len(users())-1])
	p := atTerminal(t, d.agent(d, `
steps:
  - {expect: first line, say: answer one}
  - calls: [{tool: run_bash, args: {command: "touch begun; sleep 61.4"}}]
  - {expect: third, say: answer three}
  - {expect: /etc/fourth, say: answer four}
`, "--mode", "acceptEdits"))
	p.await("/help")
	p.await("> ")
	p.typeLine("first line")
	p.await("answer one")
	p.await("completed")
	p.await("> ")
	p.forget()
	p.typeLine("second")
	d.until("the call begins", func() bool { return exists(d.Work + "/begun") })
	if _, err := p.term.Write([]byte{3}); err != nil { // Ctrl-C
		t.Fatal(err)
	}
	p.await("cancelling the turn")
	p.await("cancelled")
	p.await("> ")
	d.until("the command is gone", func() bool { return len(processesWith("sleep 61.4")) == 0 })
	p.forget()
	p.typeLine("third")
	p.await("answer three")
	p.await("> ")
	p.forget()
	p.typeLine("/mode nope")
	p.await("no mode")
	p.await("> ")
	p.typeLine("/mode plan")
	p.await("mode plan")
	p.await("plan> ")
	p.typeLine("/rules")
	p.await("no rules")
	p.await("plan> ")
	p.typeLine("/nothing")
	p.await("no command /nothing")
	p.await("plan> ")
	p.forget()
	p.typeLine("/etc/fourth what is it?") // a prompt
	p.await("answer four")
	p.await("plan> ")
	if list := d.sbxTo(d, "sessions", "list"); !strings.Contains(list.Stdout, "plan") {
		t.Errorf("the mode is not switched: %s", list.Stdout+list.Stderr)
	}
	if _, err := p.term.Write([]byte{4}); err != nil { // Ctrl-D
		t.Fatal(err)
	}
	if code := p.ends(); code != 0 || !strings.Contains(p.seen.String(), "sbx agent --continue") {
		t.Errorf("exit %d: %q", code, p.seen.String())
	}
}

// A second Ctrl-C ends the command although the turn cannot.
func TestSecondInterruptEndsTheCommand(t *testing.T) {
	d := startDaemon(t, users()[len(users())-1])
	p := atTerminal(t, d.agent(d, `steps: [{calls: [{tool: run_bash, args: {command: "trap '' TERM INT; touch begun; while :; do sleep 0.1; done"}}]}]`,
		"--mode", "bypassPermissions", "go"))
	d.until("the call begins", func() bool { return exists(d.Work + "/begun") })
	for range 2 {
		if _, err := p.term.Write([]byte{3}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(100 * time.Millisecond)
	}
	start := time.Now()
	if code := p.ends(); code != 130 || time.Since(start) > 6*time.Second {
		t.Errorf("exit %d after %v: %s", code, time.Since(start), p.seen.String())
	}
	d.until("nothing is left", func() bool { return len(processesWith("trap '' TERM INT; touch begun")) == 0 })
}
