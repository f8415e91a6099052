package agentloop

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"sandboxd/policy"
)

func (w *world) server(c ServerCommand) *ServerProcess {
	w.t.Helper()
	p, err := w.d.StartServer(w.t.Context(), w.s, c)
	if err != nil {
		w.t.Fatal(err)
	}
	return p
}

func shServer(script string) ServerCommand {
	return ServerCommand{Name: "test", Argv: []string{"bash", "-c", script}, From: "a test"}
}

func TestServerAnswersAndIsRecorded(t *testing.T) {
	w := newWorld(t, nil)
	c := shServer(`while read -r line; do echo "got $line $EXTRA"; done; echo bye >&2; exit 4`)
	c.Env = []string{"EXTRA=more"}
	p := w.server(c)
	out := bufio.NewReader(p.Stdout)
	for i := range 3 {
		fmt.Fprintln(p.Stdin, i)
		if line, err := out.ReadString('\n'); err != nil || line != fmt.Sprintf("got %d more\n", i) {
			t.Fatalf("answer %q, %v", line, err)
		}
	}
	if p.Err() != nil {
		t.Errorf("runs with %v", p.Err())
	}
	p.Stdin.Close()
	within5s(t, p.Done(), "end")
	if err := p.Err(); err == nil || err.Error() != "the server ended with status 4" || p.Errors() != "bye\n" {
		t.Errorf("%v, stderr %q", err, p.Errors())
	}
	var rows []string
	for _, r := range w.log.rows {
		if r.Tool == serverTool {
			rows = append(rows, string(r.Status)+" "+string(r.Reason))
		}
	}
	if got := strings.Join(rows, "\n"); len(rows) != 2 || !strings.HasPrefix(got, "allow ") || !strings.Contains(got, "server test of a test: bash -c") || !strings.Contains(rows[1], "by itself (exited, status 4)") {
		t.Errorf("rows\n%s", got)
	}
}

// A server has what the session has, less the network and the writing that nobody
// gave it.
func TestServerIsConfined(t *testing.T) {
	edit := func(p *PolicyInForce) { p.Grant.Network = []string{"full"} }
	w := newWorld(t, edit)
	secret := w.host.file("home/u/.ssh/id_rsa", "PRIVATE", 0o600)
	script := fmt.Sprintf("cat %s; echo x > %s; echo x > %s/made && echo wrote; grep -c : /proc/net/dev; cat .git/HEAD", secret, w.host.path("outside"), w.s.Workspace())
	read := func(c ServerCommand) string {
		t.Helper()
		p := w.server(c)
		text, err := io.ReadAll(p.Stdout)
		if err != nil {
			t.Fatal(err)
		}
		within5s(t, p.Done(), "end")
		return string(text)
	}
	got := read(shServer(script))
	if strings.Contains(got, "PRIVATE") || strings.Contains(got, "wrote") || !strings.Contains(got, "ref: refs/heads/main") {
		t.Errorf("output %q", got)
	}
	if !strings.Contains(got, "1\n") { // lo alone
		t.Errorf("it sees devices: %q", got)
	}
	c := shServer(script)
	c.Write, c.Network = true, []string{"full"}
	got = read(c)
	if strings.Contains(got, "PRIVATE") || !strings.Contains(got, "wrote") {
		t.Errorf("with write: %q", got)
	}
	if _, err := os.Stat(w.host.path("outside")); err == nil {
		t.Error("wrote outside of the workspace")
	}
	if err := w.s.SetMode(policy.ModePlan); err != nil {
		t.Fatal(err)
	}
	if got = read(c); strings.Contains(got, "wrote") {
		t.Errorf("writes in mode plan: %q", got)
	}
}

func TestServerEndsWithTheSession(t *testing.T) {
	w := newWorld(t, nil)
	mark := "63." + fmt.Sprint(os.Getpid())
	// It ignores the end of its input, and fills a pipe that nobody reads.
	p := w.server(shServer("trap '' TERM PIPE; sleep " + mark + " & while :; do echo flood; done"))
	time.Sleep(50 * time.Millisecond)
	began := time.Now()
	if err := w.m.Close(t.Context(), w.s.ID(), w.peer(), "test"); err != nil {
		t.Fatal(err)
	}
	select {
	case <-p.Done():
	default:
		t.Error("runs after the end of its session")
	}
	if took := time.Since(began); took > 4*time.Second {
		t.Errorf("took %v", took)
	}
	noProcess(t, mark)
	if _, err := w.d.StartServer(t.Context(), w.s, shServer("true")); err == nil {
		t.Error("a server of an ended session was started")
	}
}

func TestServerThatCannotStart(t *testing.T) {
	w := newWorld(t, nil)
	if _, err := w.d.StartServer(t.Context(), w.s, ServerCommand{Name: "x", Argv: []string{"no-such-program"}}); err == nil || !strings.Contains(err.Error(), "no-such-program") {
		t.Errorf("%v", err)
	}
	w.log.err = fmt.Errorf("disk full")
	marker := w.s.Workspace() + "/made"
	if _, err := w.d.StartServer(t.Context(), w.s, ServerCommand{Name: "x", Argv: []string{"touch", marker}, Write: true}); err == nil {
		t.Error("started unrecorded")
	}
	if _, err := os.Stat(marker); err == nil {
		t.Error("it ran")
	}
	if n := len(w.s.servers.live); n != 0 {
		t.Errorf("%d servers are left", n)
	}
}
